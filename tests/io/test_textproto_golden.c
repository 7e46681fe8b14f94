/* Our printer and parser against Python's text_format: files made by tests/witness/make_textproto_golden.py. */
#include "od_test.h"

#include <inttypes.h>

#include "base/str.h"
#include "io/file.h"
#include "io/proto/label_map.pb-c.h"
#include "io/proto/pipeline.pb-c.h"
#include "io/proto/tf_checkpoint.pb-c.h"
#include "io/proto/tf_event.pb-c.h"
#include "io/proto/tf_example.pb-c.h"
#include "io/proto/tf_saved.pb-c.h"
#include "io/textproto.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &object_detection__protos__train_eval_pipeline_config__descriptor,
    &object_detection__protos__string_int_label_map__descriptor,
    &tensorflow__graph_def__descriptor,
    &tensorflow__meta_graph_def__descriptor,
    &tensorflow__sequence_example__descriptor,
    &tensorflow__summary__descriptor,
    &tensorflow__event__descriptor,
    &tensorflow__bundle_entry_proto__descriptor,
    &tensorflow__checkpoint_state__descriptor,
};

static const ProtobufCMessageDescriptor *type_named(const char *name, size_t len) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i]->name) == len && memcmp(types[i]->name, name, len) == 0) return types[i];
  fail_msg("no type %.*s", (int)len, name);
  return NULL;
}

/* Every shipped file prints as Python prints it. */
static void shipped(void **state) {
  (void)state;
  FILE *f = fopen("tests/golden/textproto/shipped.txt", "r");
  CHECK(f != NULL);
  char path[400];
  size_t len;
  uint64_t hash;
  int files = 0;
  while (fscanf(f, "%399s %zu %" SCNx64, path, &len, &hash) == 3) {
    void *m;
    od_str s = OD_STR_INIT;
    CHECK_OK(od_textproto_load(&m, od_ends_with(path, ".config") ? types[0] : types[1], path, NULL));
    CHECK_OK(od_textproto_print(&s, m));
    if (s.len != len || od_hash_bytes(s.data, s.len) != hash) fail_msg("%s prints otherwise than in Python", path);
    od_str_free(&s);
    od_proto_free(m);
    files++;
  }
  fclose(f);
  CHECK(files == 28);
}

static const char *take(const char **p, const char *end, size_t *len) {
  uint32_t n;
  CHECK(end - *p >= 4);
  memcpy(&n, *p, 4); /* the tests run on little-endian machines, as TensorFlow does */
  const char *part = *p + 4;
  CHECK((size_t)(end - part) >= n);
  *len = n;
  *p = part + n;
  return part;
}

static void check_one(const ProtobufCMessageDescriptor *type, const char *wire, size_t wire_len, const char *text,
                      size_t len) {
  void *a, *b;
  od_str s = OD_STR_INIT;
  CHECK_OK(od_proto_unpack(&a, type, wire, wire_len));
  CHECK_OK(od_textproto_print(&s, a));
  if (s.len != len || memcmp(od_str_text(&s), text, len) != 0) {
    size_t i = 0;
    while (i < len && i < s.len && s.data[i] == text[i]) i++;
    fail_msg("%s prints otherwise at byte %zu: '%.60s', Python: '%.60s'", type->name, i, od_str_text(&s) + i, text + i);
  }
  CHECK_OK(od_textproto_parse(&b, type, "golden", text, len, NULL));
  od_str_clear(&s);
  CHECK_OK(od_textproto_print(&s, b));
  CHECK(s.len == len && memcmp(od_str_text(&s), text, len) == 0);
  void *c; /* and once through our own wire format */
  CHECK_OK(od_proto_clone(&c, b));
  od_str_clear(&s);
  CHECK_OK(od_textproto_print(&s, c));
  CHECK(s.len == len && memcmp(od_str_text(&s), text, len) == 0);
  od_proto_free(c);
  od_str_free(&s);
  od_proto_free(a);
  od_proto_free(b);
}

/* Random messages: wire to text, and text to message to text, byte for byte. */
static void random_messages(void **state) {
  (void)state;
  char *data;
  size_t size, n = 0;
  CHECK_OK(od_file_read_all(&data, &size, "tests/golden/textproto/random.bin", 0));
  for (const char *p = data, *end = data + size; p < end; n++) {
    size_t name_len, wire_len, text_len;
    const char *name = take(&p, end, &name_len), *wire = take(&p, end, &wire_len), *text = take(&p, end, &text_len);
    check_one(type_named(name, name_len), wire, wire_len, text, text_len);
  }
  CHECK(n == 64);
  od_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(shipped), cmocka_unit_test(random_messages)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
