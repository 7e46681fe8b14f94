/* Fuzz target of the text format. The first byte chooses what is read: a pipeline config, a label map, a GraphDef, or a
 * path and value to set in a config. What reads must print, and its print must read and print the same again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "io/proto/label_map.pb-c.h"
#include "io/proto/pipeline.pb-c.h"
#include "io/proto/tf_graph.pb-c.h"
#include "io/textproto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int good) {
  if (!good) abort();
}

static void read_print_read(const ProtobufCMessageDescriptor *type, const char *text, size_t len) {
  void *a = NULL, *b = NULL;
  od_textpos *pos = NULL;
  check(od_textpos_new(&pos) == OD_OK);
  od_status st = od_textproto_parse(&a, type, "fuzz", text, len, pos);
  check(st == OD_OK || (st == OD_EINVAL && !a && *od_message()));
  if (st == OD_OK) {
    od_str first = OD_STR_INIT, second = OD_STR_INIT;
    check(od_textproto_print(&first, a) == OD_OK);
    /* paths with control characters print as escapes that reading refuses: the one thing that does not come back */
    if (od_textproto_parse(&b, type, "printed", od_str_text(&first), first.len, NULL) == OD_OK) {
      check(od_textproto_print(&second, b) == OD_OK);
      check(first.len == second.len && memcmp(od_str_text(&first), od_str_text(&second), first.len) == 0);
    } else {
      check(strstr(od_message(), "control character") != NULL);
    }
    od_str_free(&first);
    od_str_free(&second);
  }
  od_proto_free(a);
  od_proto_free(b);
  od_textpos_free(pos);
}

/* "path=value" on a small config. */
static void set(const char *text, size_t len) {
  static const char base[] =
      "model { ssd { num_classes: 3 } } train_config { batch_size: 2 freeze_variables: ['a', 'b'] "
      "optimizer { adam_optimizer {} } } eval_input_reader { name: 'x' }";
  char *line = od_strndup(text, len);
  check(line != NULL);
  char *value = strchr(line, '=');
  if (value) {
    *value++ = 0;
    void *m = NULL;
    od_textpos *pos = NULL;
    check(od_textpos_new(&pos) == OD_OK);
    check(od_textproto_parse(&m, &object_detection__protos__train_eval_pipeline_config__descriptor, "base", base,
                             sizeof base - 1, pos) == OD_OK);
    od_status st = od_textproto_set(m, line, value, pos);
    check(st == OD_OK || st == OD_EINVAL);
    od_str s = OD_STR_INIT;
    check(od_textproto_print(&s, m) == OD_OK);
    od_str_free(&s);
    od_proto_free(m);
    od_textpos_free(pos);
  }
  od_free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const char *text = (const char *)data + 1;
  size_t before = od_mem_used();
  switch (data[0] % 4) {
  case 0: read_print_read(&object_detection__protos__train_eval_pipeline_config__descriptor, text, size - 1); break;
  case 1: read_print_read(&object_detection__protos__string_int_label_map__descriptor, text, size - 1); break;
  case 2: read_print_read(&tensorflow__graph_def__descriptor, text, size - 1); break;
  default: set(text, size - 1);
  }
  check(od_mem_used() == before);
  return 0;
}
