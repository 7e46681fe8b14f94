/* objdet: the command line. `objdet COMMAND [flags]`; the original's programs are names too, whatever their age:
 * `objdet object_detection/legacy/train.py ...`, `objdet -m object_detection.model_main ...`, so that with
 * `alias python=objdet` the lines of its pages run as they stand. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "base/version.h"

static const od_command *const commands[] = {
#define X(name) &od_cmd_##name,
    OD_COMMAND_LIST(X)
#undef X
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const od_command *find(const char *name) {
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(commands[i]->name, name) == 0) return commands[i];
  return NULL;
}

/* "object_detection/legacy/train.py" and "object_detection.train" are "train". */
static const char *program_name(char *buffer, size_t size, const char *word) {
  const char *slash = strrchr(word, '/');
  snprintf(buffer, size, "%s", slash ? slash + 1 : word);
  size_t n = strlen(buffer);
  if (n > 3 && strcmp(buffer + n - 3, ".py") == 0) buffer[n - 3] = 0;
  const char *dot = strrchr(buffer, '.');
  return dot ? dot + 1 : buffer;
}

static void usage(FILE *to) {
  fprintf(to, "usage: objdet COMMAND [flags]\n\ncommands:\n");
  for (int i = 0; i < N_COMMANDS; i++)
    if (commands[i]->summary) fprintf(to, "  %-26s %s\n", commands[i]->name, commands[i]->summary);
  fprintf(to, "\nobjdet COMMAND -h explains its flags. objdet --version.\n");
}

/* Lines of the original's pages that this program does not do, with what to do instead. */
static const char *const refused[][2] = {
    {"setup", "there is nothing to package: copy this one program"},
    {"model_tpu_main", "training on TPUs is not supported yet; model_main trains on this machine"},
    {"model_main_tf2", "TensorFlow 2's models are not supported; model_main trains those of TensorFlow 1"},
    {"exporter_main_v2",
     "TensorFlow 2's models are not supported; export_inference_graph exports those of TensorFlow 1"},
    {"export_tflite_ssd_graph", "exporting for TFLite is not supported yet"},
    {"create_oid_tf_record",
     "the Open Images converter is not supported yet; create_csv_tf_record takes boxes from a CSV"},
};

static int unknown_command(const char *word, const char *name) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (strcmp(name, refused[i][0]) == 0) {
      fprintf(stderr, "objdet: %s: %s\n", word, refused[i][1]);
      return 2;
    }
  const char *names[N_COMMANDS];
  for (int i = 0; i < N_COMMANDS; i++) names[i] = commands[i]->name;
  const char *near = od_did_you_mean(name, names, N_COMMANDS);
  if (near) fprintf(stderr, "objdet: there is no command '%s'; did you mean %s?\n", word, near);
  else fprintf(stderr, "objdet: there is no command '%s'; objdet -h lists them\n", word);
  return 2;
}

static int exit_code(od_status st) {
  switch (st) {
  case OD_OK: return 0;
  case OD_EUSAGE: return 2;
  case OD_ESTOPPED: return od_stop_signal() ? 128 + od_stop_signal() : 1;
  default: return 1;
  }
}

/* A closed stdin, stdout or stderr would give its number to the next file that is opened, and what is printed would land in
 * there. Reading from nothing, writing to what cannot be written: the print fails, with a message. */
static void fill_closed_streams(void) {
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 1 ? O_RDONLY : O_RDWR) < 0) _exit(1);
}

/* What stayed in the buffer of stdout must arrive, or the result is no success. */
static od_status flush_stdout(void) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return OD_OK;
  return od_fail(OD_EIO, "stdout cannot be written: %s", strerror(errno));
}

static int finish(od_status st) {
  if (st == OD_OK) st = flush_stdout();
  od_terminal_flush();
  if (st != OD_OK) fprintf(stderr, "objdet: %s\n", od_message());
  return exit_code(st);
}

int main(int argc, char **argv) {
  char buffer[256];
  fill_closed_streams();
  int at = 1;
  while (at < argc && (strcmp(argv[at], "-m") == 0 || strcmp(argv[at], "-u") == 0)) at++; /* python's own flags */
  if (at >= argc) return usage(stderr), 2;
  if (strcmp(argv[at], "-h") == 0 || strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "help") == 0)
    return usage(stdout), finish(OD_OK);
  if (strcmp(argv[at], "--version") == 0) return printf("objdet %s\n", OD_VERSION), finish(OD_OK);
  const char *name = program_name(buffer, sizeof buffer, argv[at]);
  const od_command *c = find(name);
  if (!c) return unknown_command(argv[at], name);
  od_args *args = NULL;
  bool help;
  od_stop_install();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of writing, with a message */
  signal(SIGXFSZ, SIG_IGN); /* so is a file that may not grow further */
  od_status st = od_args_parse(&args, c, argc - at - 1, argv + at + 1, &help);
  if (st == OD_OK && help)
    od_command_help(c);
  else if (st == OD_OK)
    st = c->run(args, od_terminal_reporter());
  od_args_free(args);
  return finish(st);
}
