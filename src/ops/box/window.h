/* Boxes against a window, and changes of their frame; float32 arithmetic of the original's box_list_ops. Boxes and windows
 * are [ymin, xmin, ymax, xmax] in the same unit. Input and output arrays may be the same. */
#ifndef OD_OPS_BOX_WINDOW_H
#define OD_OPS_BOX_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

/* Clips n boxes; what lies outside ends on the border without area. */
void od_box_clip(float *out, const float *boxes, int64_t n, const float *window);
/* No side beyond the window (touching is inside): the filter for anchors in Faster R-CNN's training. */
bool od_box_inside(const float *box, const float *window);
/* Shares more than a border with the window. */
bool od_box_touches(const float *box, const float *window);
/* Coordinates relative to the window: (box - origin) * (1 / size). */
void od_box_change_frame(float *out, const float *boxes, int64_t n, const float *window);
/* y * y_scale, x * x_scale. */
void od_box_scale(float *out, const float *boxes, int64_t n, float y_scale, float x_scale);

#endif
