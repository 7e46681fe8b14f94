/* Decoding: byte for byte what TensorFlow gives (tests/witness/images.py), and errors for what is damaged. */
#include "od_test.h"

#include <openssl/sha.h>

#include "image/decode.h"

static uint8_t *slurp(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  *size = (size_t)ftell(f);
  rewind(f);
  uint8_t *data = od_alloc(*size);
  CHECK(data && fread(data, 1, *size, f) == *size);
  fclose(f);
  return data;
}

static const char *golden_path(const char *name) {
  static char path[4096];
  const char *shared = getenv("OBJDET_SHARED");
  if (strncmp(name, "shared/", 7) == 0)
    snprintf(path, sizeof path, "%s/%s", shared ? shared : "../shared", name + 7);
  else
    snprintf(path, sizeof path, "tests/golden/image/%s", name);
  return path;
}

static void sha(char *hex, const uint8_t *data, size_t n) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(data, n, digest);
  for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* TensorFlow refuses these; we read them, and say so in decode.h or here: GIFs and BMPs asked for one channel, grey of
 * CMYK. */
static bool more_lenient(const char *name, int channels) {
  return channels == 1 &&
         (strstr(name, "cmyk") || strstr(name, "ycck") || strstr(name, ".bmp") || strstr(name, ".gif"));
}

/* Compares every golden line whose path begins with prefix. */
static int compare_golden(const char *prefix) {
  FILE *f = fopen("tests/golden/image/decode.txt", "r");
  CHECK(f);
  char line[1024], want[80], name[512], got[80];
  int h, w, channels, compared = 0, bad = 0;
  size_t cut;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%79s %d %d %d %zu %511[^\n]", want, &h, &w, &channels, &cut, name) != 6) continue;
    if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
    size_t size;
    uint8_t *data = slurp(golden_path(name), &size);
    if (!data) continue;
    CHECK(cut <= size);
    /* A copy of exactly this length, so that a sanitizer sees a read behind it. */
    uint8_t *exact = od_alloc(cut);
    memcpy(exact, data, cut);
    od_image im;
    od_status st = od_image_decode(&im, exact, cut, channels);
    compared++;
    if (strcmp(want, "error") == 0) {
      if (st == OD_OK && !more_lenient(name, channels)) {
        print_message("%s, first %zu bytes: decoded, but TensorFlow refuses\n", name, cut);
        bad++;
      }
    } else if (st != OD_OK) {
      print_message("%s, first %zu bytes, %d channels: %s\n", name, cut, channels, od_message());
      bad++;
    } else {
      sha(got, im.data, (size_t)im.height * (size_t)im.width * (size_t)im.channels);
      if (im.height != h || im.width != w || im.channels != channels || strcmp(got, want) != 0) {
        print_message("%s (%d channels): other pixels than TensorFlow\n", name, channels);
        bad++;
      }
    }
    od_image_free(&im);
    od_free(exact);
    od_free(data);
  }
  fclose(f);
  CHECK(bad == 0);
  return compared;
}

static void odd_pictures_equal_tensorflow(void **state) {
  (void)state;
  CHECK(compare_golden("odd/") > 150);
}

static void photographs_equal_tensorflow(void **state) {
  (void)state;
  NEED_SHARED(dir, "data/raccoon/images");
  (void)dir;
  CHECK(compare_golden("shared/") >= 200);
}

static void sizes_come_from_the_header(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int h, w, channels;
  } cases[] = {{"odd/progressive.jpg", 61, 83, 3}, {"odd/cmyk.jpg", 61, 83, 4},    {"odd/png_P.png", 21, 35, 3},
               {"odd/png16_6.png", 13, 17, 4},     {"odd/bmp_RGB.bmp", 21, 35, 3}, {"odd/gif_frames.gif", 30, 20, 3},
               {"odd/png_named.jpg", 21, 35, 3}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t size;
    int h, w, c;
    uint8_t *data = slurp(golden_path(cases[i].name), &size);
    CHECK(data);
    CHECK_OK(od_image_size(&h, &w, &c, data, size));
    CHECK(h == cases[i].h && w == cases[i].w && c == cases[i].channels);
    od_free(data);
  }
}

static void errors_say_what_is_there(void **state) {
  (void)state;
  od_image im;
  CHECK_FAILS(od_image_decode(&im, "", 0, 3), OD_EDATA, "empty");
  CHECK_FAILS(od_image_decode(&im, "<html>", 6, 3), OD_EDATA, "begin with 3c 68 74");
  size_t size;
  uint8_t *data = slurp(golden_path("odd/restart.jpg"), &size);
  CHECK(data);
  CHECK_FAILS(od_image_decode(&im, data, size / 2, 3), OD_EDATA, "ends early");
  od_free(data);
  data = slurp(golden_path("odd/png_RGB.png"), &size);
  CHECK(data);
  CHECK_FAILS(od_image_decode(&im, data, size - 5, 3), OD_EDATA, "ends early");
  data[size / 2] ^= 1;
  CHECK_FAILS(od_image_decode(&im, data, size, 3), OD_EDATA, "damaged PNG");
  od_free(data);
}

static void huge_pictures_are_refused_before_memory_is_taken(void **state) {
  (void)state;
  /* A BMP header alone: 30000 x 30000. */
  uint8_t bmp[64] = {'B', 'M'};
  bmp[10] = 54;
  bmp[18] = bmp[22] = 30000 & 255;
  bmp[19] = bmp[23] = 30000 >> 8;
  bmp[28] = 24;
  od_image im;
  uint64_t before = od_mem_count();
  CHECK_FAILS(od_image_decode(&im, bmp, sizeof bmp, 3), OD_EDATA, "scale it down");
  CHECK(od_mem_count() == before);
  /* Sizes whose product overflows 64 bits are no different. */
  bmp[21] = bmp[25] = 0x7f;
  CHECK_FAILS(od_image_decode(&im, bmp, sizeof bmp, 3), OD_EDATA, "the limit is");
}

static void orientation_is_read_and_damage_is_harmless(void **state) {
  (void)state;
  uint8_t exif[] = {0xff, 0xd8, 0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0,    8,
                    0,    1,    0x01, 0x12, 0, 3,  0,   0,   0,   1,   0, 6, 0,   0,   0, 0,  0, 0, 0xff, 0xda};
  CHECK(od_image_orientation(exif, sizeof exif) == 6);
  for (size_t n = 0; n < 38; n++) {
    uint8_t *cut = od_alloc(n);
    memcpy(cut, exif, n);
    CHECK(od_image_orientation(cut, n) == 1);
    od_free(cut);
  }
  exif[31] = 9;
  CHECK(od_image_orientation(exif, sizeof exif) == 1);
  size_t size;
  uint8_t *data = slurp(golden_path("odd/cmyk.jpg"), &size);
  CHECK(od_image_orientation(data, size) == 1);
  od_free(data);
}

/* No input may read outside its bytes, loop or leak: every file cut at every byte, and with single bytes changed. */
static void damage_never_crashes(void **state) {
  (void)state;
  static const char *const names[] = {"odd/s1_50x7.jpg", "odd/progressive.jpg", "odd/png_P.png",
                                      "odd/gif_transparent.gif", "odd/bmp_L.bmp"};
  size_t held = od_mem_used();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t size;
    uint8_t *data = slurp(golden_path(names[i]), &size);
    CHECK(data);
    size_t step = size / 300 + 1;
    for (size_t n = 0; n < size; n += step) {
      od_image im;
      uint8_t *cut = od_alloc(n);
      memcpy(cut, data, n);
      if (od_image_decode(&im, cut, n, 3) == OD_OK) od_image_free(&im);
      od_free(cut);
      uint8_t keep = data[n];
      data[n] = (uint8_t)(keep + 1 + n % 255);
      if (od_image_decode(&im, data, size, 3) == OD_OK) od_image_free(&im);
      data[n] = keep;
    }
    od_free(data);
  }
  CHECK(od_mem_used() == held);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(odd_pictures_equal_tensorflow),
      cmocka_unit_test(photographs_equal_tensorflow),
      cmocka_unit_test(sizes_come_from_the_header),
      cmocka_unit_test(errors_say_what_is_there),
      cmocka_unit_test(huge_pictures_are_refused_before_memory_is_taken),
      cmocka_unit_test(orientation_is_read_and_damage_is_harmless),
      cmocka_unit_test(damage_never_crashes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
