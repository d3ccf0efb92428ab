/* fork.c - counting forks: libc calls a handler in each child, and asking is one load. */
#include "fork.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic(uint64_t) forks;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void count_fork(void) { atomic_fetch_add(&forks, 1); }

static void watch(void) { (void)pthread_atfork(NULL, NULL, count_fork); }

uint64_t ur_forks(void) {
  (void)pthread_once(&watched, watch);
  return atomic_load_explicit(&forks, memory_order_relaxed);
}
