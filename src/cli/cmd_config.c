/* objdet config: reads a pipeline.config, applies --set, prints the effective config. Paths named inside are not opened. */
#include <stdio.h>

#include "cli/command.h"
#include "model/pipeline.h"

static od_status run(const od_args *a, const od_reporter *r) {
  (void)r;
  const char *const *sets;
  size_t n = od_arg_list(a, "set", &sets);
  OD_TRY(od_arg_required(a, "pipeline_config_path"));
  od_pipeline p;
  OD_TRY(od_pipeline_load(&p, od_arg_text(a, "pipeline_config_path"), sets, n));
  od_str text = OD_STR_INIT;
  od_status st = od_textproto_print(&text, p.config);
  if (st == OD_OK && (fputs(od_str_text(&text), stdout) < 0 || fflush(stdout) != 0)) st = od_fail(OD_EIO, "stdout cannot be written");
  od_str_free(&text);
  od_pipeline_free(&p);
  return st;
}

static const od_flag flags[] = {
    {"pipeline_config_path", OD_FLAG_TEXT, NULL, "the pipeline.config"},
    {"set", OD_FLAG_LIST, NULL, "path.in.config=value on top of the config; may be given several times"},
    {0},
};

const od_command od_cmd_config = {"config", "checks a pipeline.config and prints it with every --set applied", NULL, flags, run};
