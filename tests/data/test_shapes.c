/* Drawn pictures: what they promise (sizes, visibility, balance, same bits), and that colours do not give the classes away: a
 * classifier that sees colour histograms of the true boxes, and so needs no localisation at all, stays under 0.5 mAP. */
#include <math.h>

#include "base/parallel.h"
#include "data/annotation.h"
#include "data/label_map.h"
#include "data/shapes.h"
#include "image/decode.h"
#include "io/file.h"
#include "od_test.h"

enum { TRAIN = 200, HELD = 80, BINS = 64, NEIGHBOURS = 9, K = OD_SHAPE_CLASSES };

typedef struct {
  float histogram[BINS];
  int id;
} crop;

typedef struct {
  uint64_t seed;
  crop (*crops)[OD_SHAPES_MAX];
  int *counts;
} set;

static void histogram(crop *c, const od_image *image, const od_shape_truth *t) {
  int n = 0;
  c->id = t->id;
  for (int y = t->ymin; y < t->ymax; y++)
    for (int x = t->xmin; x < t->xmax; x++, n++) {
      const uint8_t *p = image->data + 3 * ((size_t)y * (size_t)image->width + (size_t)x);
      c->histogram[(p[0] >> 6) * 16 + (p[1] >> 6) * 4 + (p[2] >> 6)] += 1;
    }
  /* Hellinger: distances between roots of shares suit histograms better than plain ones */
  for (int i = 0; i < BINS; i++) c->histogram[i] = sqrtf(c->histogram[i] / (float)n);
}

/* A third of every crop gets a colour of its class: then colours do tell. */
static void dye(crop *all, int n) {
  for (int i = 0; i < n; i++)
    for (int b = 0; b < BINS; b++) {
      float share = all[i].histogram[b] * all[i].histogram[b] * 2 / 3;
      all[i].histogram[b] = sqrtf(share + (b == all[i].id * 9 ? 1.0f / 3 : 0));
    }
}

static od_status read_one(void *ctx, int64_t i) {
  set *s = ctx;
  od_image image;
  od_shape_truth truth[OD_SHAPES_MAX];
  OD_TRY(od_shapes_draw(&image, truth, &s->counts[i], s->seed, (uint64_t)i));
  for (int k = 0; k < s->counts[i]; k++) histogram(&s->crops[i][k], &image, &truth[k]);
  od_image_free(&image);
  return OD_OK;
}

static crop *read_set(int *n, uint64_t seed, int pictures) {
  set s = {seed, calloc((size_t)pictures, sizeof *s.crops), calloc((size_t)pictures, sizeof(int))};
  CHECK(s.crops && s.counts);
  CHECK_OK(od_parallel_for(pictures, 0, read_one, &s));
  crop *all = calloc((size_t)pictures * OD_SHAPES_MAX, sizeof *all);
  CHECK(all != NULL);
  *n = 0;
  for (int i = 0; i < pictures; i++)
    for (int k = 0; k < s.counts[i]; k++) all[(*n)++] = s.crops[i][k];
  free(s.crops);
  free(s.counts);
  return all;
}

static double distance(const float *a, const float *b) {
  double d = 0;
  for (int i = 0; i < BINS; i++) d += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
  return d;
}

/* Score of each class: how near its mean histogram is. */
static void score_by_mean(double score[K + 1], const crop *c, const crop *train, int n) {
  float mean[K + 1][BINS] = {{0}};
  int count[K + 1] = {0};
  for (int i = 0; i < n; i++) {
    count[train[i].id]++;
    for (int b = 0; b < BINS; b++) mean[train[i].id][b] += train[i].histogram[b];
  }
  for (int id = 1; id <= K; id++)
    for (int b = 0; b < BINS; b++) mean[id][b] /= (float)count[id];
  for (int id = 1; id <= K; id++) score[id] = -distance(c->histogram, mean[id]);
}

/* Score of each class: its share among the nearest neighbours, ties by the nearest. */
static void score_by_neighbours(double score[K + 1], const crop *c, const crop *train, int n) {
  double best[NEIGHBOURS];
  int ids[NEIGHBOURS], have = 0;
  for (int i = 0; i < n; i++) {
    double d = distance(c->histogram, train[i].histogram);
    int at = have < NEIGHBOURS ? have++ : NEIGHBOURS;
    while (at > 0 && best[at - 1] > d) {
      if (at < NEIGHBOURS) best[at] = best[at - 1], ids[at] = ids[at - 1];
      at--;
    }
    if (at < NEIGHBOURS) best[at] = d, ids[at] = train[i].id;
  }
  for (int id = 1; id <= K; id++) score[id] = 0;
  for (int i = 0; i < have; i++) score[ids[i]] += 1 + 0.01 / (0.01 + best[i]);
}

typedef struct {
  double score;
  bool right;
} hit;

static int by_score(const void *a, const void *b) {
  double x = ((const hit *)a)->score, y = ((const hit *)b)->score;
  return (x < y) - (x > y);
}

/* All-point average precision, averaged over classes. Boxes are the true ones: a detection is right when its class is. */
static double mean_ap(void (*scorer)(double *, const crop *, const crop *, int), const crop *train, int n,
                      const crop *test, int m) {
  double sum = 0, (*scores)[K + 1] = calloc((size_t)m, sizeof *scores);
  hit *hits = calloc((size_t)m, sizeof *hits);
  CHECK(scores && hits);
  for (int i = 0; i < m; i++) scorer(scores[i], &test[i], train, n);
  for (int id = 1; id <= K; id++) {
    int positives = 0, found = 0;
    double ap = 0, envelope = 0;
    for (int i = 0; i < m; i++) {
      hits[i] = (hit){scores[i][id], test[i].id == id};
      positives += hits[i].right;
    }
    qsort(hits, (size_t)m, sizeof *hits, by_score);
    for (int i = 0; i < m; i++) found += hits[i].right;
    for (int i = m - 1; i >= 0; i--) { /* from the end, so that precision is its own right-hand maximum */
      envelope = fmax(envelope, (double)found / (i + 1));
      if (hits[i].right) ap += envelope, found--;
    }
    CHECK(positives > 10);
    sum += ap / positives;
  }
  free(scores);
  free(hits);
  return sum / K;
}

static void test_colours_tell_nothing(void **state) {
  (void)state;
  int n, m;
  crop *train = read_set(&n, 1, TRAIN), *test = read_set(&m, 2, HELD);
  for (int dyed = 0; dyed < 2; dyed++) {
    if (dyed) dye(train, n), dye(test, m);
    double mean = mean_ap(score_by_mean, train, n, test, m), near = mean_ap(score_by_neighbours, train, n, test, m);
    print_message("colour histograms of the true boxes%s: mAP %.3f (nearest mean), %.3f (%d neighbours)\n",
                  dyed ? ", dyed" : "", mean, near, NEIGHBOURS);
    if (dyed) { /* the same classifiers are able to learn, where there is something to learn */
      CHECK(mean > 0.9);
      CHECK(near > 0.9);
    } else {
      CHECK(mean < 0.5);
      CHECK(near < 0.5);
    }
  }
  free(train);
  free(test);
}

static void test_promises(void **state) {
  (void)state;
  int classes[K + 1] = {0}, numbers[OD_SHAPES_MAX + 1] = {0}, boxes = 0, occluded = 0, large = 0;
  for (uint64_t i = 0; i < 150; i++) {
    od_image image;
    od_shape_truth t[OD_SHAPES_MAX];
    int n;
    CHECK_OK(od_shapes_draw(&image, t, &n, 5, i));
    CHECK(n >= 1 && n <= OD_SHAPES_MAX);
    CHECK(image.height >= 192 && image.height <= 256 && image.width >= 192 && image.width <= 256);
    numbers[n]++;
    for (int k = 0; k < n; k++, boxes++) {
      double w = (double)(t[k].xmax - t[k].xmin) / image.width, h = (double)(t[k].ymax - t[k].ymin) / image.height;
      CHECK(w >= 0.099 && w <= 0.601 && h >= 0.099 && h <= 0.601);
      CHECK(t[k].xmin >= 0 && t[k].ymin >= 0 && t[k].xmax <= image.width && t[k].ymax <= image.height);
      CHECK(t[k].id >= 1 && t[k].id <= K);
      classes[t[k].id]++;
      occluded += t[k].occluded;
      large += w > 0.35;
    }
    od_image_free(&image);
  }
  for (int id = 1; id <= K; id++) CHECK(classes[id] > boxes / 10); /* a sixth each, by chance */
  for (int n = 1; n <= OD_SHAPES_MAX; n++) CHECK(numbers[n] > 8);
  CHECK(occluded > boxes / 10);
  CHECK(large > boxes / 8);
}

static void test_same_bits(void **state) {
  (void)state;
  od_image a, b, c;
  od_shape_truth t[OD_SHAPES_MAX], u[OD_SHAPES_MAX];
  int n, m;
  CHECK_OK(od_shapes_draw(&a, t, &n, 3, 7));
  CHECK_OK(od_shapes_draw(&b, u, &m, 3, 7));
  CHECK(n == m && memcmp(t, u, (size_t)n * sizeof *t) == 0 && a.height == b.height && a.width == b.width);
  size_t size = (size_t)a.height * (size_t)a.width * 3;
  CHECK(memcmp(a.data, b.data, size) == 0);
  CHECK_OK(od_shapes_draw(&c, u, &m, 4, 7)); /* another seed, another picture */
  CHECK(c.height != a.height || c.width != a.width || memcmp(a.data, c.data, size) != 0);
  od_image_free(&a);
  od_image_free(&b);
  od_image_free(&c);
}

static const char *in(const char *dir, const char *name) {
  static char text[4][512];
  static int at;
  at = (at + 1) % 4;
  snprintf(text[at], sizeof text[at], "%s/%s", dir, name);
  return text[at];
}

static void test_files(void **state) {
  (void)state;
  const char *dir = od_test_dir();
  od_shapes_options o = {.output_dir = dir, .count = 3, .held_out_count = 2, .seed = 1, .held_out_seed = 1};
  CHECK_FAILS(od_shapes_create(&o), OD_EINVAL, "held-out pictures would be the training pictures");
  o.held_out_seed = 2;
  CHECK_OK(od_shapes_create(&o));
  static const char *const names[] = {"train_00001", "train_00002", "train_00003", "held_out_00001", "held_out_00002"};
  for (int i = 0; i < 5; i++) {
    char file[64], *bytes;
    size_t size;
    od_image drawn, read;
    od_shape_truth t[OD_SHAPES_MAX];
    od_arena *arena;
    od_voc voc;
    int n;
    CHECK_OK(od_shapes_draw(&drawn, t, &n, i < 3 ? 1 : 2, (uint64_t)(i < 3 ? i : i - 3)));
    snprintf(file, sizeof file, "images/%s.jpg", names[i]);
    CHECK_OK(od_file_read_all(&bytes, &size, in(dir, file), 0));
    CHECK_OK(od_image_decode(&read, bytes, size, 3));
    CHECK(read.height == drawn.height && read.width == drawn.width);
    double difference = 0;
    for (int k = 0; k < read.height * read.width * 3; k++) difference += abs(read.data[k] - drawn.data[k]);
    CHECK(difference / (read.height * read.width * 3) < 16); /* JPEG loses some */
    snprintf(file, sizeof file, "annotations/%s.xml", names[i]);
    CHECK_OK(od_arena_new(&arena));
    CHECK_OK(od_voc_load(&voc, in(dir, file), arena));
    CHECK(voc.count == n && voc.height == read.height && voc.width == read.width);
    for (int k = 0; k < n; k++) {
      CHECK_TEXT(voc.objects[k].name, od_shape_name(t[k].id));
      CHECK(voc.objects[k].xmin == t[k].xmin && voc.objects[k].xmax == t[k].xmax);
      CHECK(voc.objects[k].ymin == t[k].ymin && voc.objects[k].ymax == t[k].ymax);
      CHECK(voc.objects[k].xmax < voc.width && voc.objects[k].ymax < voc.height);
    }
    od_arena_free(arena);
    od_image_free(&drawn);
    od_image_free(&read);
    od_free(bytes);
  }
  char *list;
  size_t size;
  CHECK_OK(od_file_read_all(&list, &size, in(dir, "train.txt"), 0));
  CHECK_TEXT(list, "train_00001\ntrain_00002\ntrain_00003\n");
  od_free(list);
  CHECK_OK(od_file_read_all(&list, &size, in(dir, "held_out.txt"), 0));
  CHECK_TEXT(list, "held_out_00001\nheld_out_00002\n");
  od_free(list);
  od_label_map *map;
  CHECK_OK(od_label_map_load(&map, in(dir, "label_map.pbtxt")));
  CHECK(od_label_map_max_id(map) == K);
  for (int id = 1; id <= K; id++) CHECK(od_label_map_id(map, od_shape_name(id)) == id);
  od_label_map_free(map);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_promises),
      cmocka_unit_test(test_same_bits),
      cmocka_unit_test(test_files),
      cmocka_unit_test(test_colours_tell_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
