/* create_pascal_tf_record: values of the original on a VOC tree, folders, lists, damaged pictures. */
#include "data_test.h"

#include "data/annotation.h"
#include "data/pascal.h"

static const char *const names[] = {"raccoon-12", "raccoon-2", "raccoon-30", "raccoon-4", "raccoon-63"};
enum { NAMES = 5 };

/* A VOCdevkit tree of the golden annotations and the shared pictures. */
static const char *make_tree(const char *shared) {
  static char tree[256];
  snprintf(tree, sizeof tree, "%s", od_test_dir());
  for (int i = 0; i < NAMES; i++) {
    copy_file(path_of("tests/golden/data/voc/%s.xml", names[i]),
              path_of("%s/VOC2007/Annotations/%s.xml", tree, names[i]));
    copy_file(path_of("%s/%s.jpg", shared, names[i]), path_of("%s/VOC2007/JPEGImages/%s.jpg", tree, names[i]));
  }
  copy_file("tests/golden/data/voc/list.txt", path_of("%s/VOC2007/ImageSets/Main/aeroplane_val.txt", tree));
  return tree;
}

static void a_tree_gives_the_original_s_records(void **state) {
  (void)state;
  NEED_SHARED(images, "data/raccoon/images");
  char shared[4096];
  snprintf(shared, sizeof shared, "%s", images);
  const char *tree = make_tree(shared);
  json_t *golden = json_load_file("tests/golden/data/voc.json", 0, NULL),
         *examples = json_object_get(golden, "examples");
  CHECK(json_array_size(examples) == 2 * NAMES);
  for (int ignore = 0; ignore < 2; ignore++) {
    od_pascal_options o = {.data_dir = tree,
                           .set = "val",
                           .year = "VOC2007",
                           .output_path = path_of("%s/out.record", tree),
                           .label_map_path = "tests/golden/data/voc/label_map.pbtxt",
                           .ignore_difficult = ignore,
                           .threads = 1 + 2 * ignore};
    od_convert_result r;
    CHECK_OK(od_pascal_create(&r, &o));
    CHECK(r.written == NAMES && r.skipped == 0);
    int n;
    od_str *records = read_records(o.output_path, &n);
    CHECK(n == NAMES);
    for (int i = 0; i < n; i++)
      check_features(&records[i], json_object_get(json_array_get(examples, (size_t)(ignore * NAMES + i)), "features"));
    free_records(records, n);
  }
  json_decref(golden);
}

static void folders_take_lists_and_count_what_is_damaged(void **state) {
  (void)state;
  NEED_SHARED(images, "data/raccoon/images");
  char shared[4096];
  snprintf(shared, sizeof shared, "%s", images);
  char dir[256];
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  for (int i = 0; i < NAMES; i++) {
    copy_file(path_of("tests/golden/data/voc/%s.xml", names[i]), path_of("%s/annotations/%s.xml", dir, names[i]));
    copy_file(path_of("%s/%s.jpg", shared, names[i]), path_of("%s/images/%s.jpg", dir, names[i]));
  }
  write_text(path_of("%s/list.csv", dir),
             "filename,width\nraccoon-63.jpg,1\nraccoon-63.jpg,1\r\nraccoon-4.jpg,2\nmissing.jpg,3\n"
             "raccoon-2.jpg,2\n");
  CHECK(truncate(path_of("%s/images/raccoon-4.jpg", dir), 3000) == 0);
  heard h = {0, ""};
  od_reporter reporter = {.line = hear_line, .ctx = &h};
  od_pascal_options o = {.data_dir = dir,
                         .output_path = path_of("%s/out.record", dir),
                         .label_map_path = "tests/golden/data/voc/label_map.pbtxt",
                         .examples = path_of("%s/list.csv", dir),
                         .reporter = &reporter};
  od_convert_result r;
  CHECK_OK(od_pascal_create(&r, &o));
  CHECK(r.written == 2 && r.skipped == 2 && h.warnings == 2 && r.boxes == 2);
  CHECK(strstr(h.text, "raccoon-4.jpg: the JPEG ends early") && strstr(h.text, "missing.xml"));
  int n;
  od_str *records = read_records(o.output_path, &n);
  od_example ex = {0};
  od_view id;
  CHECK(n == 2);
  CHECK_OK(od_example_parse(&ex, records[0].data, records[0].len));
  CHECK_OK(od_example_get_text(&ex, "image/source_id", &id, ""));
  CHECK(id.size == 14 && memcmp(id.data, "raccoon-63.jpg", 14) == 0);
  od_example_free(&ex);
  free_records(records, n);
  /* Without a list: all, by name. A class that is not in the map stops everything, and nothing is written. */
  o.examples = NULL;
  o.output_path = path_of("%s/all.record", dir);
  CHECK_OK(od_pascal_create(&r, &o));
  CHECK(r.written == 4 && r.skipped == 1);
  write_text(path_of("%s/map.pbtxt", dir), "item { id: 1 name: 'racoon' } item { id: 2 name: 'cat' }");
  o.label_map_path = path_of("%s/map.pbtxt", dir);
  o.output_path = path_of("%s/none.record", dir);
  CHECK_FAILS(od_pascal_create(&r, &o), OD_EINVAL, "did you mean 'racoon'");
  CHECK(!od_path_exists(o.output_path));
}

static void too_much_damage_is_an_error(void **state) {
  (void)state;
  char dir[256];
  snprintf(dir, sizeof dir, "%s", od_test_dir());
  for (int i = 0; i < 30; i++) write_text(path_of("%s/annotations/%02d.xml", dir, i), "<annotation><filename>x.jpg");
  write_text(path_of("%s/images/x.jpg", dir), "no picture");
  write_text(path_of("%s/map.pbtxt", dir), "item { id: 1 name: 'a' }");
  od_pascal_options o = {
      .data_dir = dir, .output_path = path_of("%s/o.record", dir), .label_map_path = path_of("%s/map.pbtxt", dir)};
  od_convert_result r;
  CHECK_FAILS(od_pascal_create(&r, &o), OD_EDATA, "none of 30");
  CHECK(!od_path_exists(o.output_path));
  o.data_dir = "/nonexistent";
  CHECK_FAILS(od_pascal_create(&r, &o), OD_ENOENT, "/nonexistent");
  o.data_dir = path_of("%s/images", dir);
  CHECK_FAILS(od_pascal_create(&r, &o), OD_ENOENT, "neither a VOCdevkit tree");
  o.year = "VOC2011";
  CHECK_FAILS(od_pascal_create(&r, &o), OD_EUSAGE, "VOC2011");
}

static void bad_xml_is_named_with_its_line(void **state) {
  (void)state;
  static const struct {
    const char *text, *said;
  } cases[] = {
      {"", "no XML"},
      {"<html></html>", "<html>"},
      {"<annotation>\n<object><name>a</name></object></annotation>", "line 2: <object> 'a' has no <bndbox>"},
      {"<annotation><object><bndbox><xmin>1</xmin></bndbox></object></annotation>", "has no <ymin>"},
      {"<annotation>\n<object>\n<bndbox><xmin>x1</xmin></bndbox></object></annotation>", "line 3: <xmin> is 'x1'"},
      {"<annotation>\n<object>", "line 2: no XML"}};
  od_voc_init();
  od_arena *arena;
  CHECK_OK(od_arena_new(&arena));
  od_voc v;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK_FAILS(od_voc_parse(&v, cases[i].text, strlen(cases[i].text), arena), OD_EDATA, cases[i].said);
  od_arena_free(arena);
}

/* Every byte cut and every byte changed: an error or an annotation, never more. */
static void damaged_xml_never_crashes(void **state) {
  (void)state;
  char *data;
  size_t size;
  od_voc v;
  od_arena *arena;
  CHECK_OK(od_arena_new(&arena));
  CHECK_OK(od_file_read_all(&data, &size, "tests/golden/data/voc/raccoon-30.xml", 0));
  for (size_t n = 0; n < size; n++) {
    (void)!od_voc_parse(&v, data, n, arena);
    char keep = data[n];
    data[n] = (char)(keep + 1 + (char)(n % 100));
    (void)!od_voc_parse(&v, data, size, arena);
    data[n] = keep;
    od_arena_reset(arena);
  }
  od_free(data);
  od_arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tree_gives_the_original_s_records),
      cmocka_unit_test(folders_take_lists_and_count_what_is_damaged),
      cmocka_unit_test(too_much_damage_is_an_error),
      cmocka_unit_test(bad_xml_is_named_with_its_line),
      cmocka_unit_test(damaged_xml_never_crashes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
