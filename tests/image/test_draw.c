/* Encoding, colours, boxes, labels. */
#include "od_test.h"

#include "image/decode.h"
#include "image/draw.h"
#include "image/encode.h"

static od_image grey_picture(int h, int w) {
  od_image im;
  CHECK_OK(od_image_new(&im, h, w, 3));
  memset(im.data, 128, (size_t)(h * w * 3));
  return im;
}

static const uint8_t *at(const od_image *im, int y, int x) { return im->data + (y * im->width + x) * 3; }
static bool is(const uint8_t *p, od_colour c) { return p[0] == c.r && p[1] == c.g && p[2] == c.b; }

static void png_comes_back_unchanged_and_jpeg_nearly(void **state) {
  (void)state;
  for (int channels = 1; channels <= 3; channels += 2) {
    od_image im, back;
    CHECK_OK(od_image_new(&im, 37, 53, channels));
    for (int i = 0; i < 37 * 53 * channels; i++) im.data[i] = (uint8_t)(i / 53 / channels * 5 + i % channels * 20);
    od_str s = OD_STR_INIT;
    CHECK_OK(od_png_encode(&s, &im));
    CHECK_OK(od_image_decode(&back, s.data, s.len, channels));
    CHECK(memcmp(im.data, back.data, (size_t)(37 * 53 * channels)) == 0);
    od_image_free(&back);
    od_str_clear(&s);
    CHECK_OK(od_jpeg_encode(&s, &im, 95));
    CHECK(od_image_format_of(s.data, s.len) == OD_FORMAT_JPEG);
    CHECK_OK(od_image_decode(&back, s.data, s.len, channels));
    CHECK(back.height == 37 && back.width == 53);
    for (int i = 0; i < 37 * 53 * channels; i++) CHECK_NEAR(im.data[i], back.data[i], 8);
    od_image_free(&back);
    od_image_free(&im);
    od_str_free(&s);
  }
}

static void colours_by_class_and_name(void **state) {
  (void)state;
  od_colour c, d = od_colour_of_class(1);
  CHECK_TEXT(od_colour_name(0), "AliceBlue");
  CHECK_TEXT(od_colour_name(OD_COLOURS - 1), "YellowGreen");
  CHECK_TEXT(od_colour_name(1), "Chartreuse");
  CHECK(d.r == 127 && d.g == 255 && d.b == 0);
  c = od_colour_of_class(1 + OD_COLOURS);
  CHECK(memcmp(&c, &d, sizeof c) == 0);
  CHECK(od_colour_by_name(&c, "darkorange") && c.r == 255 && c.g == 140 && c.b == 0);
  CHECK(od_colour_by_name(&c, "black") && c.r == 0);
  CHECK(!od_colour_by_name(&c, "no such colour"));
}

static void boxes_stand_where_they_should(void **state) {
  (void)state;
  od_image im = grey_picture(100, 200);
  od_colour red = {255, 0, 0};
  od_drawing d[] = {{{0.25f, 0.25f, 0.75f, 0.75f}, red, NULL, NULL},
                    {{-3e38f, 0.9f, 3e38f, 7.0f}, {0, 255, 0}, "out of the picture", NULL},
                    {{__builtin_nanf(""), 0, 1, 1}, {0, 0, 255}, NULL, NULL}};
  CHECK_OK(od_draw(&im, d, 3, 4, NULL));
  CHECK(is(at(&im, 25, 60), red) && is(at(&im, 75, 60), red) && is(at(&im, 40, 50), red) && is(at(&im, 40, 150), red));
  CHECK(is(at(&im, 23, 60), red) && is(at(&im, 26, 60), red));
  CHECK(!is(at(&im, 22, 60), red) && !is(at(&im, 27, 60), red));
  CHECK(is(at(&im, 50, 180), (od_colour){0, 255, 0}));
  for (int i = 0; i < 100 * 200; i++) CHECK(!is(im.data + 3 * i, (od_colour){0, 0, 255}));
  od_image_free(&im);
}

static int count_of(const od_image *im, od_colour c, int y0, int y1) {
  int n = 0;
  for (int y = y0; y < y1; y++)
    for (int x = 0; x < im->width; x++) n += is(at(im, y, x), c);
  return n;
}

static int warnings;
static void on_line(void *ctx, od_level level, const char *text) {
  (void)ctx;
  warnings += level == OD_WARNING && strstr(text, "fonts-dejavu-core") != NULL;
}

static void labels_stand_above_or_below_and_stack(void **state) {
  (void)state;
  od_font *font;
  od_reporter r = {.line = on_line};
  CHECK_OK(od_font_open(&font, 14, &r));
  if (!font) {
    print_message("SKIPPED: DejaVu Sans (fonts-dejavu-core) is not installed\n");
    skip();
  }
  od_colour c = od_colour_of_class(5), black = {0, 0, 0};
  for (int low = 0; low < 2; low++) { /* a box in the middle: label above; at the top: below */
    od_image im = grey_picture(200, 200);
    od_drawing d[] = {{{low ? 0.02f : 0.5f, 0.2f, low ? 0.3f : 0.8f, 0.9f}, c, "raccoon: 97%", NULL},
                      {{low ? 0.02f : 0.5f, 0.2f, low ? 0.3f : 0.8f, 0.9f}, c, "M\xc3\xbcll\xff: 51%", NULL}};
    CHECK_OK(od_draw(&im, d, 2, 2, font));
    int above = count_of(&im, black, 0, 100), below = count_of(&im, black, 60, 200);
    CHECK(low ? below > 20 : above > 20);
    od_image one = grey_picture(200, 200);
    CHECK_OK(od_draw(&one, d, 1, 2, font));
    CHECK(count_of(&im, c, 0, 200) > count_of(&one, c, 0, 200) + 300); /* the second label has its own box */
    od_image_free(&one);
    od_image_free(&im);
  }
  od_font_free(font);
}

static void a_missing_font_is_a_warning(void **state) {
  (void)state;
  od_font *font;
  od_reporter r = {.line = on_line};
  warnings = 0;
  setenv("OBJDET_FONT", "/nonexistent.ttf", 1);
  CHECK_OK(od_font_open(&font, 14, &r));
  CHECK(font == NULL && warnings == 1);
  unsetenv("OBJDET_FONT");
}

static void masks_dots_and_pairs(void **state) {
  (void)state;
  od_image im = grey_picture(10, 12), pair;
  uint8_t mask[120] = {0};
  mask[5 * 12 + 6] = 1;
  od_drawing d = {{0, 0, 0.1f, 0.1f}, {255, 0, 0}, NULL, mask};
  CHECK_OK(od_draw(&im, &d, 1, 0, NULL));
  CHECK(at(&im, 5, 6)[0] == 179 && at(&im, 5, 6)[1] == 77 && at(&im, 5, 5)[0] == 128);
  od_draw_dot(&im, 0.2f, 0.25f, 1, (od_colour){1, 2, 3});
  CHECK(at(&im, 2, 3)[0] == 1 && at(&im, 1, 3)[0] == 1 && at(&im, 1, 2)[0] == 128);
  od_image small = grey_picture(4, 5);
  CHECK_OK(od_side_by_side(&pair, &im, &small));
  CHECK(pair.height == 10 && pair.width == 17 && at(&pair, 3, 16)[0] == 128 && at(&pair, 4, 16)[0] == 0);
  od_image_free(&im);
  od_image_free(&small);
  od_image_free(&pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(png_comes_back_unchanged_and_jpeg_nearly),
      cmocka_unit_test(colours_by_class_and_name),
      cmocka_unit_test(boxes_stand_where_they_should),
      cmocka_unit_test(labels_stand_above_or_below_and_stack),
      cmocka_unit_test(a_missing_font_is_a_warning),
      cmocka_unit_test(masks_dots_and_pairs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
