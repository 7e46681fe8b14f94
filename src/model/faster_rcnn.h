/* What the files of Faster R-CNN share; not for others. Letters: B pictures, A anchors, P proposals a picture (padded), K
 * classes, C numbers of a box code. Boxes are in pixels of the preprocessed (padded) picture unless said otherwise. */
#ifndef OD_MODEL_FASTER_RCNN_H
#define OD_MODEL_FASTER_RCNN_H

#include "model/parts.h"

typedef struct {
  od_model *m;
  const od_pb_faster_rcnn *c;
  const od_model_spec *spec;
  od_coder_params coder;         /* both stages: scales 10, 10, 5, 5 */
  int64_t max_proposals;         /* P */
  od_value valid;                /* [A] float: anchors that take part (training); absent: all do */
  od_value window;               /* [4] 0, 0, height, width of the padded picture */
  od_value clip;                 /* [B,4] the same without padding */
  /* groundtruth in pixels, with a background column in front; absent without groundtruth */
  od_value gt_boxes, gt_classes; /* [B,G,4], [B,G,K+1] */
  /* first stage */
  od_value map;                  /* [B,h,w,1024] what proposals are cut from */
  od_value rpn_features;         /* [B,h,w,512] */
  od_value rpn_encodings, rpn_logits; /* [B,A,4], [B,A,2] */
  od_value raw_proposals;        /* [B,A,4] every anchor decoded */
  od_value objectness;           /* [B,A,2] softmax */
  od_value proposals;            /* the suppression's outputs: od_nms_op */
  /* second stage */
  od_value boxes, boxes_normalized; /* [B,P,4] proposals, zeros behind num_proposals */
  od_value num_proposals;           /* [B] int32 */
  od_value encodings, logits;       /* [B*P,q,4] (q K or 1), [B*P,K+1] */
  bool shared_box;                  /* q is 1 because all classes share a box */
} od_frcnn;

/* Anchors, the proposal network's predictions, proposals; for two stages also what of them the second one sees. */
OD_MUST_CHECK od_status od_frcnn_predict_rpn(od_frcnn *f);
OD_MUST_CHECK od_status od_frcnn_propose(od_frcnn *f);

/* Targets of the second stage for boxes [B,P,4]: od_assign_targets_op's outputs. */
od_value od_frcnn_detector_targets(od_frcnn *f, od_value boxes);

/* Loss/RPNLoss/... and, with two stages, Loss/BoxClassifierLoss/... */
OD_MUST_CHECK od_status od_frcnn_losses(od_frcnn *f);

/* The head of the second stage over features [N,h,w,C]: f->encodings, f->logits. */
OD_MUST_CHECK od_status od_frcnn_predict_boxes(od_frcnn *f, od_value features);

/* postprocess() of the original: detections, or proposals with one stage. */
OD_MUST_CHECK od_status od_frcnn_detections(od_frcnn *f);

#endif
