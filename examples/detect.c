/* Finds objects in pictures with an exported detector and prints them, one a line.
 *
 *   cc -o detect detect.c $(pkg-config --cflags --libs objdet)
 *   ./detect exported/ label_map.pbtxt photo.jpg ... */
#include <stdio.h>

#include <objdet.h>

static int complain(const char *what) {
  fprintf(stderr, "detect: %s: %s\n", what, objdet_message());
  return 1;
}

static int detect(objdet_detector *d, const char *path) {
  objdet_picture picture;
  objdet_found found;
  if (objdet_load_picture(&picture, path)) return complain(path);
  int bad = objdet_detect(d, &picture, &found) ? complain(path) : 0;
  for (size_t i = 0; !bad && i < found.count; i++) {
    const objdet_box *b = &found.boxes[i];
    if (b->score < 0.5f) break; /* best first */
    printf("%s: %s %.2f at x %.0f..%.0f, y %.0f..%.0f\n", path, b->class_name, (double)b->score,
           (double)b->xmin * picture.width, (double)b->xmax * picture.width, (double)b->ymin * picture.height,
           (double)b->ymax * picture.height);
  }
  objdet_free_picture(&picture);
  return bad;
}

int main(int argc, char **argv) {
  objdet_detector *detector;
  int bad = 0;
  if (argc < 4) {
    fprintf(stderr, "usage: detect GRAPH LABEL_MAP PICTURE...   (objdet %s)\n", objdet_version());
    return 2;
  }
  if (objdet_open_graph(&detector, argv[1], argv[2], NULL)) return complain(argv[1]);
  for (int i = 3; i < argc; i++) bad |= detect(detector, argv[i]);
  objdet_close(detector);
  return bad;
}
