/* objdet config: reads a pipeline.config, applies --set, prints the effective config. Paths named inside are not opened.
 * --fields: what this program does with every field that there is, as Markdown. */
#include <stdio.h>

#include "cli/command.h"
#include "model/fields.h"
#include "model/pipeline.h"

static od_status print_text(const od_str *text) {
  if (fputs(od_str_text(text), stdout) < 0 || fflush(stdout) != 0) return od_fail(OD_EIO, "stdout cannot be written");
  return OD_OK;
}

static od_status print_fields(void) {
  od_str text = OD_STR_INIT;
  od_status st = od_fields_document(&text);
  if (st == OD_OK) st = print_text(&text);
  od_str_free(&text);
  return st;
}

static od_status run(const od_args *a, const od_reporter *r) {
  (void)r;
  if (od_arg_bool(a, "fields")) return print_fields();
  const char *const *sets;
  size_t n = od_arg_list(a, "set", &sets);
  OD_TRY(od_arg_required(a, "pipeline_config_path"));
  od_pipeline p;
  OD_TRY(od_pipeline_load(&p, od_arg_text(a, "pipeline_config_path"), sets, n));
  od_str text = OD_STR_INIT;
  od_status st = od_textproto_print(&text, p.config);
  if (st == OD_OK) st = print_text(&text);
  od_str_free(&text);
  od_pipeline_free(&p);
  return st;
}

static const od_flag flags[] = {
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the pipeline.config"},
    {"fields", OD_FLAG_BOOL, "false", "print the table of all fields and what is done with them (docs/config-fields.md)"},
    {"set", OD_FLAG_LIST, NULL, "path.in.config=value on top of the config; may be given several times"},
    {0},
};

const od_command od_cmd_config = {"config", "checks a pipeline.config and prints it with every --set applied", NULL, flags, run};
