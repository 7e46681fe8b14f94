/* Files, folders, patterns, checksums. */
#include "io_test.h"

#include <errno.h>
#include <sys/stat.h>

#include "io/crc32c.h"

static void paths_are_cleaned_and_cut(void **state) {
  (void)state;
  static const struct {
    const char *in, *clean, *dir, *base;
  } cases[] = {
      {"a//b", "a/b", "a", "b"}, {"//a///b/c", "/a/b/c", "//a///b", "c"},  {"x", "x", ".", "x"},
      {"/x", "/x", "/", "x"},    {"gs://b//o", "gs://b/o", "gs://b", "o"}, {"./a", "./a", ".", "a"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *clean, *dir;
    CHECK_OK(od_path_clean(&clean, cases[i].in));
    CHECK_OK(od_path_dir(&dir, cases[i].in));
    CHECK_TEXT(clean, cases[i].clean);
    CHECK_TEXT(dir, cases[i].dir);
    CHECK_TEXT(od_path_base(cases[i].in), cases[i].base);
    od_free(clean);
    od_free(dir);
  }
  char *p;
  CHECK_OK(od_path_join(&p, "a/", "/b"));
  CHECK_TEXT(p, "/b");
  od_free(p);
  CHECK_OK(od_path_join(&p, "a/", "b"));
  CHECK_TEXT(p, "a/b");
  od_free(p);
}

static void touch(const char *name) { CHECK_OK(od_file_write_all(in_scratch(name), "x", 1)); }

static void expect_glob(const char *pattern, const char *names) {
  od_strings found = OD_STRINGS_INIT;
  od_str text = OD_STR_INIT;
  CHECK_OK(od_path_glob(&found, in_scratch(pattern)));
  for (size_t i = 0; i < found.count; i++)
    od_str_addf(&text, "%s%s", i ? " " : "", found.items[i] + strlen(scratch) + 1);
  CHECK_TEXT(od_str_text(&text), names);
  od_str_free(&text);
  od_strings_free(&found);
}

static void patterns_find_shards(void **state) {
  (void)state;
  touch("t.record-00001-of-00002");
  touch("t.record-00000-of-00002");
  touch("t.record-00000-of-00010");
  touch("sub/a.jpg");
  touch("sub/b.jpg");
  touch("sub/.hidden.jpg");
  touch("at@2");
  expect_glob("t.record-?????"
              "-of-00002",
              "t.record-00000-of-00002 t.record-00001-of-00002");
  expect_glob("t.record@2", "t.record-00000-of-00002 t.record-00001-of-00002");
  expect_glob("t.record@*", "t.record-00000-of-00002 t.record-00000-of-00010 t.record-00001-of-00002");
  expect_glob("s*//*.jpg", "sub/a.jpg sub/b.jpg");
  expect_glob("sub/[b-z].jpg", "sub/b.jpg");
  expect_glob("at@2", "at@2"); /* a file really called so wins */
  od_strings found = OD_STRINGS_INIT;
  char two[1200];
  snprintf(two, sizeof two, "%s/sub/*.jpg,%s/sub/a.jpg", scratch, scratch);
  CHECK_OK(od_path_glob(&found, two));
  CHECK(found.count == 2);
  CHECK_FAILS(od_path_glob(&found, in_scratch("none-*")), OD_ENOENT, "no file matches");
  CHECK_FAILS(od_path_glob(&found, in_scratch("sub/c.jpg")), OD_ENOENT, "did you mean");
  CHECK_FAILS(od_path_glob(&found, in_scratch("nowhere/x")), OD_ENOENT, "does not exist");
  CHECK_FAILS(od_path_glob(&found, in_scratch("sub")), OD_EINVAL, "is a folder");
  CHECK_FAILS(od_path_glob(&found, "gs://bucket/x"), OD_EUNSUPPORTED, "Cloud Storage");
  CHECK_FAILS(od_path_glob(&found, ""), OD_EINVAL, "empty");
  od_strings_free(&found);
}

static void streams_read_back_what_was_written(void **state) {
  (void)state;
  enum { N = 300000 };
  uint8_t *bytes = od_alloc(N), *back = od_alloc(N);
  CHECK(bytes && back);
  for (size_t i = 0; i < N; i++) bytes[i] = (uint8_t)(i * i >> 3);
  od_file *f;
  const char *path = in_scratch("stream");
  CHECK_OK(od_file_create(&f, path));
  size_t at = 0, got;
  for (size_t step = 1; at < N; step = step * 3 % 100003) { /* pieces below and above the buffer's size */
    size_t n = step < N - at ? step : N - at;
    CHECK_OK(od_file_write(f, bytes + at, n));
    at += n;
    CHECK(od_file_tell(f) == at);
  }
  CHECK_OK(od_file_close(f));
  CHECK_OK(od_file_open(&f, path));
  uint64_t size;
  CHECK_OK(od_file_size(&size, f));
  CHECK(size == N);
  for (at = 0; at < N; at += got) {
    size_t want = at % 70001 + 1;
    CHECK_OK(od_file_read(f, back + at, want < N - at ? want : N - at, &got));
    CHECK(got > 0 && od_file_tell(f) == at + got);
  }
  CHECK(memcmp(bytes, back, N) == 0);
  CHECK_OK(od_file_read(f, back, 10, &got));
  CHECK(got == 0);
  for (uint64_t to = 5; to < N; to += 33333) { /* forwards, then backwards */
    CHECK_OK(od_file_seek(f, to));
    CHECK_OK(od_file_read_exact(f, back, 4));
    CHECK(memcmp(back, bytes + to, 4) == 0);
    CHECK_OK(od_file_seek(f, N - to - 4));
    CHECK_OK(od_file_read_exact(f, back, 4));
    CHECK(memcmp(back, bytes + N - to - 4, 4) == 0);
  }
  CHECK_OK(od_file_seek(f, N - 3));
  CHECK_FAILS(od_file_read_exact(f, back, 4), OD_EDATA, "ends at byte 300000, 1 more");
  od_file_drop(f);
  od_view v;
  CHECK_OK(od_file_map(&v, path));
  CHECK(v.size == N && memcmp(v.data, bytes, N) == 0);
  od_file_unmap(&v);
  CHECK_OK(od_file_copy(path, in_scratch("copy/of/it")));
  char *all;
  CHECK_OK(od_file_read_all(&all, &got, in_scratch("copy/of/it"), 0));
  CHECK(got == N && memcmp(all, bytes, N) == 0);
  od_free(all);
  CHECK_FAILS(od_file_read_all(&all, &got, path, 1000), OD_EDATA, "at most 1000");
  CHECK_OK(od_file_read_all(&all, &got, "/proc/self/status", 1 << 20)); /* says it is empty, and is not */
  CHECK(got > 10 && strstr(all, "Pid:"));
  od_free(all);
  od_free(bytes);
  od_free(back);
}

static void errors_name_the_path(void **state) {
  (void)state;
  od_file *f;
  CHECK_FAILS(od_file_open(&f, in_scratch("absent")), OD_ENOENT, "absent: No such file");
  CHECK_FAILS(od_file_open(&f, scratch), OD_EIO, "Is a directory");
  CHECK_FAILS(od_file_replace(&f, in_scratch("no/folder")), OD_ENOENT, "no/folder");
  CHECK_FAILS(od_file_open(&f, "gs://b/o"), OD_EUNSUPPORTED, "gs://b/o: Cloud Storage");
  touch("plain");
  CHECK_FAILS(od_file_append(&f, in_scratch("plain"), true), OD_EIO, "exists");
  CHECK_FAILS(od_path_make_dirs(in_scratch("plain/x")), OD_EIO, "is a file");
  CHECK_FAILS(od_path_list(&(od_strings){0}, in_scratch("absent")), OD_ENOENT, "cannot list");
  CHECK_FAILS(od_path_remove(in_scratch("absent")), OD_ENOENT, "cannot remove");
}

static void expect_text(const char *path, const char *text) {
  char *data;
  size_t n;
  CHECK_OK(od_file_read_all(&data, &n, path, 0));
  CHECK_TEXT(data, text);
  od_free(data);
}

static void replacement_is_whole_or_nothing(void **state) {
  (void)state;
  const char *path = in_scratch("settled/file");
  CHECK_OK(od_file_write_all(path, "old", 3));
  od_file *f;
  CHECK_OK(od_file_replace(&f, path));
  CHECK_OK(od_file_write(f, "new", 3));
  CHECK_OK(od_file_flush(f));
  expect_text(path, "old");
  od_file_drop(f);
  expect_text(path, "old");
  static const od_file_fault_kind fatal[] = {OD_FAULT_ENOSPC, OD_FAULT_FSYNC, OD_FAULT_RENAME};
  for (size_t i = 0; i < 3; i++) {
    od_file_fault(fatal[i], 1);
    CHECK_FAILS(od_file_write_all(path, "new", 3), OD_EIO, i == 0 ? "disk is full" : "settled/file");
    expect_text(path, "old");
  }
  od_strings names = OD_STRINGS_INIT;
  char dir[300];
  snprintf(dir, sizeof dir, "%s/settled", scratch);
  CHECK_OK(od_path_list(&names, dir));
  CHECK(names.count == 1); /* no temporary file stays */
  od_strings_free(&names);
  static const od_file_fault_kind harmless[] = {OD_FAULT_SHORT, OD_FAULT_EINTR};
  for (size_t i = 0; i < 2; i++) {
    od_file_fault(harmless[i], 1);
    CHECK_OK(od_file_write_all(path, i ? "interrupted" : "shortened", i ? 11 : 9));
    expect_text(path, i ? "interrupted" : "shortened");
  }
  od_file_fault(OD_FAULT_READ, 1);
  char *data;
  size_t n;
  CHECK_FAILS(od_file_read_all(&data, &n, path, 0), OD_EIO, "cannot read");
  od_file_fault(OD_FAULT_NONE, 0);
  CHECK_OK(od_file_write_all("/dev/null", "x", 1)); /* a device is written, not replaced */
  struct stat s;
  CHECK(stat("/dev/null", &s) == 0 && S_ISCHR(s.st_mode));
}

static void links_stay_links(void **state) {
  (void)state;
  struct stat s;
  CHECK_OK(od_file_write_all(in_scratch("links/real"), "old", 3));
  CHECK(symlink("real", in_scratch("links/link")) == 0);
  CHECK_OK(od_file_write_all(in_scratch("links/link"), "new", 3));
  CHECK(lstat(in_scratch("links/link"), &s) == 0 && S_ISLNK(s.st_mode));
  expect_text(in_scratch("links/real"), "new");
  CHECK(symlink("nowhere", in_scratch("links/lost")) == 0);
  CHECK_OK(od_file_write_all(in_scratch("links/lost"), "new", 3));
  expect_text(in_scratch("links/lost"), "new");
}

static void leftovers_of_killed_processes_go(void **state) {
  (void)state;
  char host[65] = "", name[200];
  CHECK(gethostname(host, sizeof host - 1) == 0);
  long dead = 4000000; /* larger than the largest process number there can be by default */
  snprintf(name, sizeof name, "left/.m.index.%s-%ld-3.tmp", host, dead);
  touch(name);
  snprintf(name, sizeof name, "left/.m.index.%s-%ld-3.tmp", host, (long)getpid());
  touch(name);
  touch("left/.other.tmp");
  char dir[300];
  snprintf(dir, sizeof dir, "%s/left", scratch);
  od_file_remove_stale(dir);
  od_strings names = OD_STRINGS_INIT;
  CHECK_OK(od_path_list(&names, dir));
  CHECK(names.count == 2);
  od_strings_free(&names);
}

static void checksums_agree_with_the_standard(void **state) {
  (void)state;
  uint8_t b[4096];
  memset(b, 0, sizeof b);
  CHECK(od_crc32c(b, 32) == 0x8a9136aau); /* RFC 3720, B.4 */
  memset(b, 0xff, 32);
  CHECK(od_crc32c(b, 32) == 0x62a8ab43u);
  for (int i = 0; i < 32; i++) b[i] = (uint8_t)i;
  CHECK(od_crc32c(b, 32) == 0x46dd794eu);
  CHECK(od_crc32c("123456789", 9) == 0xe3069283u);
  for (size_t i = 0; i < sizeof b; i++) b[i] = (uint8_t)(i * 167 >> 2);
  for (size_t n = 0; n < 200; n++)
    for (size_t at = 0; at < 9; at++) {
      uint32_t whole = od_crc32c(b + at, n);
      CHECK(whole == od_crc32c_table(0, b + at, n));
      CHECK(whole == od_crc32c_extend(od_crc32c(b + at, n / 3), b + at + n / 3, n - n / 3));
    }
  CHECK(od_crc32c_unmask(od_crc32c_mask(0x12345678u)) == 0x12345678u);
  CHECK(od_crc32c_mask(0) == 0xa282ead8u);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(paths_are_cleaned_and_cut),          cmocka_unit_test(patterns_find_shards),
      cmocka_unit_test(streams_read_back_what_was_written), cmocka_unit_test(errors_name_the_path),
      cmocka_unit_test(replacement_is_whole_or_nothing),    cmocka_unit_test(links_stay_links),
      cmocka_unit_test(leftovers_of_killed_processes_go),   cmocka_unit_test(checksums_agree_with_the_standard),
  };
  return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
