/* The thread that makes plans ahead; see ahead.h. */
#include "engine/ahead.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { ROOM = 16 }; /* shapes that wait */

struct od_ahead {
  od_program *program;
  int n_feeds;
  od_shape *ring, *now; /* [ROOM, n_feeds]; [n_feeds]: being made */
  int first, n;
  bool busy, stop;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t asked, done;
};

static od_shape *at(const od_ahead *a, int i) { return a->ring + (a->first + i) % ROOM * a->n_feeds; }

static bool same(const od_ahead *a, const od_shape *x, const od_shape *y) {
  for (int k = 0; k < a->n_feeds; k++)
    if (!od_shape_equal(&x[k], &y[k])) return false;
  return true;
}

static void *work(void *ctx) {
  od_ahead *a = ctx;
  enum { MEEK = 10 };
  (void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0}); /* of this thread alone, on Linux, both; */
  (void)!nice(MEEK); /* ordinary also where the process runs in real time */
  pthread_mutex_lock(&a->lock);
  for (;;) {
    while (!a->n && !a->stop) pthread_cond_wait(&a->asked, &a->lock);
    if (a->stop) break;
    memcpy(a->now, at(a, 0), sizeof *a->now * (size_t)a->n_feeds);
    a->first = (a->first + 1) % ROOM;
    a->n--;
    a->busy = true;
    pthread_mutex_unlock(&a->lock);
    (void)!od_program_prepare(a->program, a->now); /* the run that needs it says what is wrong */
    pthread_mutex_lock(&a->lock);
    a->busy = false;
    if (!a->n) pthread_cond_broadcast(&a->done);
  }
  pthread_mutex_unlock(&a->lock);
  return NULL;
}

od_status od_ahead_new(od_ahead **out, od_program *p, int n_feeds) {
  od_ahead *a;
  od_status st;
  OD_TRY(od_new(&a, 1, sizeof *a));
  a->program = p;
  a->n_feeds = n_feeds;
  OD_GO(st, od_new(&a->ring, (size_t)(ROOM + 1) * (size_t)n_feeds, sizeof *a->ring));
  a->now = a->ring + ROOM * n_feeds;
  pthread_mutex_init(&a->lock, NULL);
  pthread_cond_init(&a->asked, NULL);
  pthread_cond_init(&a->done, NULL);
  if (pthread_create(&a->thread, NULL, work, a) == 0) {
    *out = a;
    return OD_OK;
  }
  st = od_fail(OD_ENOMEM, "the thread that makes plans ahead cannot be started");
done:
  od_free(a->ring);
  od_free(a);
  return st;
}

void od_ahead_free(od_ahead *a) {
  if (!a) return;
  pthread_mutex_lock(&a->lock);
  a->stop = true;
  pthread_cond_signal(&a->asked);
  pthread_mutex_unlock(&a->lock);
  pthread_join(a->thread, NULL);
  pthread_mutex_destroy(&a->lock);
  pthread_cond_destroy(&a->asked);
  pthread_cond_destroy(&a->done);
  od_free(a->ring);
  od_free(a);
}

void od_ahead_ask(od_ahead *a, const od_shape *feed_shapes) {
  pthread_mutex_lock(&a->lock);
  bool known = a->n == ROOM || (a->busy && same(a, a->now, feed_shapes));
  for (int i = 0; !known && i < a->n; i++) known = same(a, at(a, i), feed_shapes);
  if (!known) {
    memcpy(at(a, a->n++), feed_shapes, sizeof *feed_shapes * (size_t)a->n_feeds);
    pthread_cond_signal(&a->asked);
  }
  pthread_mutex_unlock(&a->lock);
}

void od_ahead_wait(od_ahead *a) {
  pthread_mutex_lock(&a->lock);
  while (a->n || a->busy) pthread_cond_wait(&a->done, &a->lock);
  pthread_mutex_unlock(&a->lock);
}
