/* Between the files of shapes: a scene before it is painted. */
#ifndef OD_DATA_SHAPES_SCENE_H
#define OD_DATA_SHAPES_SCENE_H

#include "base/rng.h"
#include "data/shapes.h"

typedef struct {
  float r, g, b; /* 0..1 */
} od_ink;

typedef struct {
  int kind;            /* which pattern; the meaning differs between shapes and backgrounds */
  od_ink first, other; /* its two colours */
  float cosine, sine;  /* of its direction */
  float period;        /* size of the pattern in pixels */
  float phase[2];
  od_key key; /* of its noise */
} od_texture;

typedef struct {
  int id;
  float cy, cx;       /* centre in pixels */
  float ry, rx;       /* half axes in pixels, before turning */
  float cosine, sine; /* of its angle */
  float reach;        /* nothing of it lies farther from the centre */
  float light[2];     /* shading: gain a unit along its axes */
  od_texture texture;
} od_scene_shape;

typedef struct {
  int height, width, count;
  od_texture ground;
  float light[2]; /* gain from edge to edge */
  float grain;    /* noise of the camera */
  od_key key;
  od_scene_shape shapes[OD_SHAPES_MAX]; /* later ones lie above earlier ones */
} od_scene;

/* The point (y, x), pixels, lies in the shape; *v and *u are then its coordinates in the shape's own axes, -1..1. */
bool od_shape_holds(const od_scene_shape *s, float y, float x, float *v, float *u);

/* Paints the scene into out, [height,width,3]. Every pixel is the mean of 2x2 samples. */
void od_scene_paint(uint8_t *out, const od_scene *scene);

#endif
