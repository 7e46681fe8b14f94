/* Plans made ahead: a thread beside the running one makes the plans of shapes that are known to come, so that the run of a new shape
 * does not wait for them. What it makes is what the run would make itself. The thread is a meek one: it takes what the running threads leave of
 * the processors. So a run never waits for it; it makes a plan that is not finished itself, of the primitives that are there already.
 * A failure is not told: the run meets it again. */
#ifndef OD_ENGINE_AHEAD_H
#define OD_ENGINE_AHEAD_H

#include "engine/program.h"

typedef struct od_ahead od_ahead;

/* Starts the thread. n_feeds of the program. The program must outlive it; free before the program. */
OD_MUST_CHECK od_status od_ahead_new(od_ahead **out, od_program *p, int n_feeds);
/* Stops after the plan that is being made. NULL is fine. */
void od_ahead_free(od_ahead *a);
/* These feed shapes will come. Does not wait and allocates nothing; forgotten when many wait already, since they will be asked for
 * again or made when they run. */
void od_ahead_ask(od_ahead *a, const od_shape *feed_shapes);
/* Waits until everything asked for is made. For tests and measurements. */
void od_ahead_wait(od_ahead *a);

#endif
