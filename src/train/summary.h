/* What training writes into its event file, under the original's tags (odapi 7.1, 7.3). */
#ifndef OD_TRAIN_SUMMARY_H
#define OD_TRAIN_SUMMARY_H

#include "train/session.h"

typedef struct od_summaries od_summaries;

/* Opens the event file in the training folder and says SessionLog START with the step there, so that TensorBoard drops what an
 * earlier run wrote for later steps. */
OD_MUST_CHECK od_status od_summaries_open(od_summaries **out, const od_session *s);
/* The scalars of the step just done. */
OD_MUST_CHECK od_status od_summaries_scalars(od_summaries *w, const od_session *s, double steps_per_second);
/* A serialized GraphDef. */
OD_MUST_CHECK od_status od_summaries_graph(od_summaries *w, const od_str *graph_def);
/* A checkpoint was written. */
OD_MUST_CHECK od_status od_summaries_saved(od_summaries *w, const od_session *s, const char *prefix);
/* Histograms of the model's variables (legacy: ModelVars/<name>). A variable that is not finite is left out. */
OD_MUST_CHECK od_status od_summaries_histograms(od_summaries *w, const od_session *s);
OD_MUST_CHECK od_status od_summaries_close(od_summaries *w);

#endif
