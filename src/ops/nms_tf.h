/* The TensorFlow form of op nms. Inside ops/ only. */
#ifndef OD_OPS_NMS_TF_H
#define OD_OPS_NMS_TF_H

#include "ops/detect_tf.h"

od_status od_nms_write_tf(od_tf *t, const od_node *node);

#endif
