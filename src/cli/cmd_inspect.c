/* objdet inspect: what is in a file. */
#include <stdio.h>

#include "cli/command.h"
#include "io/inspect.h"

static od_status run(const od_args *a, const od_reporter *r) {
  const char *const *words;
  size_t n = od_arg_words(a, &words);
  (void)r;
  if (n != 1) return od_fail(OD_EUSAGE, "inspect wants one file, not %zu", n);
  od_str text = OD_STR_INIT;
  od_status st = od_inspect(&text, words[0], od_arg_bool(a, "json"));
  if (st == OD_OK) st = od_str_check(&text);
  if (st == OD_OK && (fwrite(text.data, 1, text.len, stdout) != text.len || fflush(stdout) != 0)) st = od_fail(OD_EIO, "stdout cannot be written");
  od_str_free(&text);
  return st;
}

static const od_flag flags[] = {{"json", OD_FLAG_BOOL, "false", "one JSON object instead of text"}, {0}};

const od_command od_cmd_inspect = {"inspect", "shows what is in a record, checkpoint, event file, graph, SavedModel, label map or config", "FILE", flags, run};
