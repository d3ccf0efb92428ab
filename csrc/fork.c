/* fork.c - counting forks: libc calls a handler in each child, and asking is one load. Threads begin between forks. */
#include "fork.h"

#include <stdatomic.h>

static _Atomic(uint64_t) forks;
static pthread_once_t watched = PTHREAD_ONCE_INIT;
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER; /* held while a thread begins, and while a process forks */

static void before_fork(void) { (void)pthread_mutex_lock(&beginning); }

static void after_fork(void) { (void)pthread_mutex_unlock(&beginning); }

static void in_child(void) {
  after_fork();
  atomic_fetch_add(&forks, 1);
}

static void watch(void) { (void)pthread_atfork(before_fork, after_fork, in_child); }

uint64_t ur_forks(void) {
  (void)pthread_once(&watched, watch);
  return atomic_load_explicit(&forks, memory_order_relaxed);
}

int ur_thread_begin(pthread_t *thread, void *(*run)(void *), void *argument) {
  (void)pthread_once(&watched, watch);
  (void)pthread_mutex_lock(&beginning);
  int failed = pthread_create(thread, NULL, run, argument);
  (void)pthread_mutex_unlock(&beginning);
  return failed;
}
