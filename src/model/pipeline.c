/* Loading pipeline configs; see pipeline.h. */
#include "model/pipeline.h"

#include <string.h>

#include "base/mem.h"

od_status od_pipeline_set(od_pipeline *p, const char *setting) {
  const char *equals = strchr(setting, '=');
  if (!equals) return od_fail(OD_EUSAGE, "--set wants path.in.config=value, not '%s'", setting);
  char *path = od_strndup(setting, (size_t)(equals - setting));
  if (!path) return OD_ENOMEM;
  od_status st = od_textproto_set(p->config, path, equals + 1, p->pos);
  od_free(path);
  return st;
}

od_status od_pipeline_load(od_pipeline *out, const char *path, const char *const *sets, size_t n_sets) {
  od_status st;
  *out = (od_pipeline){0};
  OD_GO(st, od_textpos_new(&out->pos));
  OD_GO(st, od_textproto_load(&out->config, &object_detection__protos__train_eval_pipeline_config__descriptor, path, out->pos));
  for (size_t i = 0; i < n_sets; i++) OD_GO(st, od_pipeline_set(out, sets[i]));
done:
  if (st != OD_OK) od_pipeline_free(out);
  return st;
}

void od_pipeline_free(od_pipeline *p) {
  if (p->config) od_proto_free(p->config);
  od_textpos_free(p->pos);
  *p = (od_pipeline){0};
}
