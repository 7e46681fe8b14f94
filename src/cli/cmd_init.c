/* objdet init: lays out the tree that the original's pages work in - label maps, sample configs, and for each of the original's
 * programs a launcher under its old path, so that `python object_detection/train.py ...` runs as printed there. What a user has
 * changed since is left alone. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/share.h"
#include "io/file.h"

/* The original's programs, of every age: path below object_detection/, our command. */
static const char *const programs[][2] = {
    {"create_pascal_tf_record.py", "create_pascal_tf_record"},
    {"create_pet_tf_record.py", "create_pet_tf_record"},
    {"dataset_tools/create_coco_tf_record.py", "create_coco_tf_record"},
    {"dataset_tools/create_kitti_tf_record.py", "create_kitti_tf_record"},
    {"dataset_tools/create_pascal_tf_record.py", "create_pascal_tf_record"},
    {"dataset_tools/create_pet_tf_record.py", "create_pet_tf_record"},
    {"eval.py", "eval"},
    {"export_inference_graph.py", "export_inference_graph"},
    {"legacy/eval.py", "eval"},
    {"legacy/train.py", "train"},
    {"model_main.py", "model_main"},
    {"train.py", "train"},
};

static const char *const commands[] = {
#define X(name) #name,
    OD_COMMAND_LIST(X)
#undef X
};

static bool is_command(const char *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(commands[i], name) == 0) return true;
  return false;
}

typedef struct {
  const char *root; /* the user's folder */
  char *share;      /* ours */
  int written, same, kept;
  const od_reporter *reporter;
} layout;

/* Writes root/name unless it is there; another content than ours stays and is named. */
static od_status put(layout *l, const char *name, const void *bytes, size_t size) {
  char *path, *old = NULL;
  size_t old_size;
  OD_TRY(od_path_join(&path, l->root, name));
  od_status st = OD_OK;
  if (od_path_exists(path)) {
    st = od_file_read_all(&old, &old_size, path, 0);
    if (st == OD_OK && old_size == size && memcmp(old, bytes, size) == 0)
      l->same++;
    else if (st == OD_OK)
      od_warn(l->reporter, "%s differs from ours and stays as it is", path), l->kept++;
    od_free(old);
  } else {
    st = od_file_write_all(path, bytes, size);
    if (st == OD_OK) l->written++;
  }
  od_free(path);
  return st;
}

/* share/from to root/to. */
static od_status copy(layout *l, const char *from, const char *to) {
  char *path, *bytes = NULL;
  size_t size;
  OD_TRY(od_path_join(&path, l->share, from));
  od_status st = od_file_read_all(&bytes, &size, path, 0);
  if (st == OD_OK) st = put(l, to, bytes, size);
  od_free(bytes);
  od_free(path);
  return st;
}

/* Every file of share/folder that ends so, to root/object_detection/folder. */
static od_status copy_folder(layout *l, const char *folder, const char *suffix) {
  od_strings names = OD_STRINGS_INIT;
  char *path, from[512], to[512];
  OD_TRY(od_path_join(&path, l->share, folder));
  od_status st = od_path_list(&names, path);
  for (size_t i = 0; i < names.count && st == OD_OK; i++) {
    if (!od_ends_with(names.items[i], suffix)) continue;
    snprintf(from, sizeof from, "%s/%s", folder, names.items[i]);
    snprintf(to, sizeof to, "object_detection/%s/%s", folder, names.items[i]);
    st = copy(l, from, to);
  }
  od_strings_free(&names);
  od_free(path);
  return st;
}

/* A Python text as a literal. */
static void quote(od_str *s, const char *text) {
  od_str_add(s, "\"");
  for (; *text; text++) od_str_addf(s, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
  od_str_add(s, "\"");
}

/* The launchers are Python, because the pages say `python object_detection/...`; they need nothing but the interpreter (of
 * either age), and hand over to this very program. With `alias python=objdet` they are not even read. */
static od_status put_launchers(layout *l, const char *program) {
  od_str text = OD_STR_INIT;
  char name[256];
  od_status st = OD_OK;
  for (size_t i = 0; i < sizeof programs / sizeof *programs && st == OD_OK; i++) {
    if (!is_command(programs[i][1])) continue;
    od_str_clear(&text);
    od_str_addf(&text,
                "# The original's program of this name: starts `objdet %s` with the same flags.\nimport os\nimport "
                "sys\n\nprogram = ",
                programs[i][1]);
    quote(&text, program);
    od_str_addf(&text,
                "\nif not os.access(program, os.X_OK):\n    program = \"objdet\"\nos.execvp(program, [\"objdet\", "
                "\"%s\"] + sys.argv[1:])\n",
                programs[i][1]);
    snprintf(name, sizeof name, "object_detection/%s", programs[i][0]);
    st = od_str_check(&text);
    if (st == OD_OK) st = put(l, name, od_str_text(&text), text.len);
  }
  /* `python -m object_detection.model_main` wants a package. */
  static const char *const packages[] = {"object_detection/__init__.py", "object_detection/legacy/__init__.py",
                                         "object_detection/dataset_tools/__init__.py"};
  for (size_t i = 0; i < 3 && st == OD_OK; i++) st = put(l, packages[i], "", 0);
  od_str_free(&text);
  return st;
}

/* The newer page's tree: data/ and models/my_model_dir/. */
static od_status put_model_dir(layout *l, const char *config) {
  static const char *const folders[] = {"data", "models/my_model_dir/train", "models/my_model_dir/eval"};
  char *path, from[512];
  for (size_t i = 0; i < 3; i++) {
    OD_TRY(od_path_join(&path, l->root, folders[i]));
    od_status st = od_path_make_dirs(path);
    od_free(path);
    OD_TRY(st);
  }
  int n = snprintf(from, sizeof from, "samples/configs/%s%s", config, od_ends_with(config, ".config") ? "" : ".config");
  if (n < 0 || (size_t)n >= sizeof from) return od_fail(OD_EINVAL, "--config=%s is too long", config);
  return copy(l, from, "models/my_model_dir/my_model.config");
}

static od_status lay_out(layout *l, const od_args *a, bool model_dir) {
  char *program;
  OD_TRY(od_path_make_dirs(l->root));
  OD_TRY(copy_folder(l, "data", ".pbtxt"));
  OD_TRY(copy_folder(l, "samples/configs", ".config"));
  OD_TRY(copy_folder(l, "samples/cloud", ".yml"));
  OD_TRY(od_program_path(&program));
  od_status st = put_launchers(l, program);
  od_free(program);
  if (st == OD_OK && model_dir) st = put_model_dir(l, od_arg_text(a, "config"));
  return st;
}

static od_status run(const od_args *a, const od_reporter *r) {
  const char *const *words, *kind = od_arg_text(a, "layout");
  if (od_arg_words(a, &words) != 1) return od_fail(OD_EUSAGE, "init wants one folder: objdet init DIR");
  bool model_dir = strcmp(kind, "model_dir") == 0;
  if (!model_dir && strcmp(kind, "walkthrough") != 0)
    return od_fail(OD_EUSAGE, "--layout is walkthrough or model_dir, not '%s'", kind);
  layout l = {.root = words[0], .reporter = r};
  OD_TRY(od_share_folder(&l.share));
  od_status st = lay_out(&l, a, model_dir);
  od_free(l.share);
  OD_TRY(st);
  od_info(r, "%s: %d files written, %d were there, %d left as they were", l.root, l.written, l.same, l.kept);
  od_info(r, "there `python object_detection/train.py ...` starts this program; without a Python: alias python=objdet");
  return OD_OK;
}

static const od_flag flags[] = {
    {"layout", OD_FLAG_TEXT, "walkthrough",
     "walkthrough: object_detection/ as the original's pages have it; model_dir: data/ and models/my_model_dir/ as "
     "well"},
    {"config", OD_FLAG_TEXT, "ssd_mobilenet_v1_pets",
     "the sample config that becomes my_model.config (--layout=model_dir)"},
    {0},
};

const od_command od_cmd_init = {
    "init", "lays out the folders of the original's pages: label maps, sample configs, launchers", "DIR", flags, run};
