/* Commands and their flags. A command is a const table in cmd_<name>.c and one line in the list below.
 *
 * Flags take the original's forms: --flag=value, --flag value, --flag / --noflag for booleans, one dash as well as two, and
 * absl's logging flags, which every command takes and ignores. */
#ifndef OD_CLI_COMMAND_H
#define OD_CLI_COMMAND_H

#include <stdint.h>

#include "base/report.h"
#include "base/status.h"

typedef enum { OD_FLAG_TEXT, OD_FLAG_INT, OD_FLAG_FLOAT, OD_FLAG_BOOL, OD_FLAG_LIST /* may be given several times */ } od_flag_type;

typedef struct {
  const char *name;
  od_flag_type type;
  const char *value; /* the default in words; NULL: none */
  const char *help;
} od_flag;

/* Flags and words of one call. Everything is borrowed from argv or from the table. */
typedef struct od_args od_args;
const char *od_arg_text(const od_args *a, const char *flag); /* NULL when not given and without default */
int64_t od_arg_int(const od_args *a, const char *flag);
int od_arg_int32(const od_args *a, const char *flag); /* the nearest int: what is beyond is refused by whoever gets it */
double od_arg_float(const od_args *a, const char *flag);
bool od_arg_bool(const od_args *a, const char *flag);
bool od_arg_given(const od_args *a, const char *flag); /* on the command line */
bool od_arg_has(const od_args *a, const char *flag);   /* the command knows this flag */
size_t od_arg_list(const od_args *a, const char *flag, const char *const **items);
size_t od_arg_words(const od_args *a, const char *const **words); /* arguments without dashes */
/* OD_EUSAGE naming the flag when it was not given. */
OD_MUST_CHECK od_status od_arg_required(const od_args *a, const char *flag);

typedef struct {
  const char *name;
  const char *summary; /* one line; NULL: not listed by -h, a command for work on the program itself */
  const char *words;   /* how arguments without dashes are called in the usage line; NULL: none are taken */
  const od_flag *flags; /* ended by an entry without name */
  od_status (*run)(const od_args *a, const od_reporter *r);
} od_command;

/* Flags of every command that trains, evaluates, exports or detects. */
#define OD_COMMON_FLAGS                                                                                               \
  {"set", OD_FLAG_LIST, NULL, "path.in.config=value on top of the config; may be given several times"},               \
      {"seed", OD_FLAG_INT, "0", "seed of all random draws"},                                                         \
      {"precision", OD_FLAG_TEXT, "auto", "fp32, bf16 or auto (fp32 at present)"},                                    \
      {"threads", OD_FLAG_INT, "0", "compute threads; 0: as many as processors"}, {                                   \
    "engine", OD_FLAG_TEXT, "cpu", "cpu, or ref (plain C, slow, for comparisons)"                                     \
  }

#define OD_COMMAND_LIST(X)                                                                                            \
  X(check)                                                                                                            \
  X(config)                                                                                                           \
  X(create_coco_tf_record)                                                                                            \
  X(create_csv_tf_record)                                                                                             \
  X(create_kitti_tf_record)                                                                                           \
  X(create_pascal_tf_record)                                                                                          \
  X(create_pet_tf_record)                                                                                             \
  X(create_yolo_tf_record)                                                                                            \
  X(detect)                                                                                                           \
  X(draw_shapes)                                                                                                      \
  X(eval)                                                                                                             \
  X(export_inference_graph)                                                                                           \
  X(import)                                                                                                           \
  X(init)                                                                                                             \
  X(inspect)                                                                                                          \
  X(model_main)                                                                                                       \
  X(ops)                                                                                                              \
  X(preview)                                                                                                          \
  X(profile)                                                                                                          \
  X(train)                                                                                                            \
  X(unpack)

#define X(name) extern const od_command od_cmd_##name;
OD_COMMAND_LIST(X)
#undef X

/* Parses argv[0..argc) (without program and command name). On OD_EUSAGE the message says what is wrong. *help is set when
 * -h or --help was there. The caller frees with od_args_free. */
OD_MUST_CHECK od_status od_args_parse(od_args **out, const od_command *c, int argc, char **argv, bool *help);
void od_args_free(od_args *a);
/* Usage of a command, to stdout. */
void od_command_help(const od_command *c);

/* A reporter for this terminal or log: progress with ETA on a terminal's last line, plain lines otherwise. One a process. */
const od_reporter *od_terminal_reporter(void);
/* Ends a progress line, so that what follows begins at the left. */
void od_terminal_flush(void);

#endif
