/* A loop over items on several threads; see parallel.h. */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/mem.h"

typedef struct {
  int64_t n;
  atomic_int_fast64_t next;
  od_status (*work)(void *, int64_t);
  void *ctx;
  pthread_mutex_t lock;
  int64_t failed_at; /* n while nothing failed */
  od_status failure;
  char message[OD_MESSAGE_MAX];
} loop;

int od_cpu_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

static void note_failure(loop *l, int64_t i, od_status st) {
  pthread_mutex_lock(&l->lock);
  if (i < l->failed_at) {
    l->failed_at = i;
    l->failure = st;
    for (size_t k = 0; k < OD_MESSAGE_MAX && (l->message[k] = od_message()[k]); k++) {}
  }
  pthread_mutex_unlock(&l->lock);
  atomic_store(&l->next, l->n); /* nothing further is begun; lower items are already under way */
}

static void *run(void *arg) {
  loop *l = arg;
  for (;;) {
    int64_t i = atomic_fetch_add(&l->next, 1);
    if (i >= l->n) return NULL;
    od_status st = l->work(l->ctx, i);
    if (st != OD_OK) note_failure(l, i, st);
  }
}

od_status od_parallel_for(int64_t n, int threads, od_status (*work)(void *ctx, int64_t i), void *ctx) {
  if (threads <= 0) threads = od_cpu_count();
  if (threads > n) threads = n > 0 ? (int)n : 1;
  loop l = {.n = n, .work = work, .ctx = ctx, .failed_at = n};
  pthread_mutex_init(&l.lock, NULL);
  pthread_t *ids;
  OD_TRY(od_new(&ids, (size_t)threads, sizeof *ids));
  int started = 0;
  while (started < threads - 1 && pthread_create(&ids[started], NULL, run, &l) == 0) started++;
  run(&l); /* this thread works too, so a machine that gives no threads is only slower */
  for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
  od_free(ids);
  pthread_mutex_destroy(&l.lock);
  return l.failed_at < n ? od_fail_take(l.failure, l.message) : OD_OK;
}
