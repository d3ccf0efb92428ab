/* base/fork.c - counting forks: libc calls a handler in each child, and asking is one load. Threads begin between forks.
 *
 * What must be done at a fork is done here, and not by the hooks of an interpreter: code of Python in these is broken off by
 * whatever a signal's handler raises in it, and that is lost besides. So signals are kept while hooks of others run.
 */
#define _GNU_SOURCE
#include "base/fork.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "unirecord_internal.h"

enum { DESCRIPTORS = 1 << 20, WORDS = DESCRIPTORS / 64 }; /* as many as Linux gives a process, unless it is told otherwise */

enum { LOOK_NS = 200000000 }; /* between two looks at who the parent is */

static _Atomic(uint64_t) forks;     /* in the line of this process's parents */
static _Atomic(uint64_t) all_forks; /* these, and those that each of them and this one made of itself */
static _Atomic(uint64_t) not_for_children[WORDS]; /* a bit for each descriptor … */
static _Atomic(uint32_t) words;                   /* … in the first of these */
/* Signals that are kept: those with the same handler as one signal had. Changed by who has the lock. */
enum { SIGNALS = 64 };
static void (*kept_handler)(int);
static int keeping; /* forks for which they are */
static struct sigaction actions[SIGNALS + 1];
static _Atomic(uint64_t) came; /* a bit for each that came, less 1 */

static pthread_once_t watched = PTHREAD_ONCE_INIT;
static pthread_mutex_t beginning = PTHREAD_MUTEX_INITIALIZER; /* held while a thread begins, and while a process forks */

static void before_fork(void) {
  (void)pthread_mutex_lock(&beginning);
  atomic_fetch_add(&all_forks, 1);
}

static void after_fork(void) { (void)pthread_mutex_unlock(&beginning); }

static void in_child(void) {
  if (keeping > 1) keeping = 1; /* other threads were forking as well */
  atomic_store(&came, 0);       /* to the parent */
  after_fork();
  atomic_fetch_add(&forks, 1);
  uint32_t used = atomic_load(&words);
  for (uint32_t w = 0; w < used; w++)
    for (uint64_t bits = atomic_exchange(&not_for_children[w], 0); bits != 0; bits &= bits - 1)
      (void)close((int)(w * 64) + __builtin_ctzll(bits)); /* exact: below DESCRIPTORS */
}

static void watch(void) { (void)pthread_atfork(before_fork, after_fork, in_child); }

uint64_t ur_forks(void) {
  (void)pthread_once(&watched, watch);
  return atomic_load_explicit(&forks, memory_order_relaxed);
}

uint64_t ur_all_forks(void) {
  (void)pthread_once(&watched, watch);
  return atomic_load(&all_forks);
}

void ur_fork_closes(int32_t fd, int32_t closes) {
  if (fd < 0 || fd >= DESCRIPTORS) return;
  (void)pthread_once(&watched, watch);
  uint64_t bit = UINT64_C(1) << (fd % 64);
  if (closes == 0) {
    atomic_fetch_and(&not_for_children[fd / 64], ~bit);
    return;
  }
  uint32_t used = atomic_load(&words), needed = (uint32_t)fd / 64 + 1;
  while (used < needed && !atomic_compare_exchange_weak(&words, &used, needed)) continue;
  atomic_fetch_or(&not_for_children[fd / 64], bit);
}

static void keep(int number) { atomic_fetch_or(&came, UINT64_C(1) << (number - 1)); }

void ur_signals_like(int32_t number) {
  struct sigaction now;
  (void)pthread_once(&watched, watch);
  (void)pthread_mutex_lock(&beginning);
  bool known = sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler != SIG_DFL &&
               now.sa_handler != SIG_IGN;
  kept_handler = known ? now.sa_handler : NULL;
  (void)pthread_mutex_unlock(&beginning);
}

static bool has_handler(int number, void (*handler)(int), struct sigaction *now) {
  return sigaction(number, NULL, now) == 0 && (now->sa_flags & SA_SIGINFO) == 0 && now->sa_handler == handler;
}

void ur_signals_keep(void) {
  (void)pthread_mutex_lock(&beginning);
  if (keeping++ == 0 && kept_handler != NULL)
    for (int number = 1; number <= SIGNALS; number++) {
      if (!has_handler(number, kept_handler, &actions[number])) continue;
      struct sigaction kept = actions[number];
      kept.sa_handler = keep;
      (void)sigaction(number, &kept, NULL);
    }
  (void)pthread_mutex_unlock(&beginning);
}

void ur_signals_give(void) {
  struct sigaction now;
  uint64_t given = 0;
  (void)pthread_mutex_lock(&beginning);
  if (keeping > 0 && --keeping == 0) {
    for (int number = 1; number <= SIGNALS; number++)
      if (has_handler(number, keep, &now)) (void)sigaction(number, &actions[number], NULL);
    given = atomic_exchange(&came, 0);
  }
  (void)pthread_mutex_unlock(&beginning);
  for (; given != 0; given &= given - 1) (void)raise(__builtin_ctzll(given) + 1);
}

/* Not a signal (PR_SET_PDEATHSIG), which comes when the thread ends that has started this process, its process or not. */
static void *wait_for_parent(void *parent) {
  while (getppid() == (pid_t)(intptr_t)parent) (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
  _exit(1);
}

int32_t ur_end_with_parent(int64_t parent) {
  pthread_t thread;
  sigset_t all, before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the other threads */
  int failed = ur_thread_begin(&thread, wait_for_parent, (void *)(intptr_t)parent);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0) (void)pthread_detach(thread);
  return failed;
}

int ur_thread_begin(pthread_t *thread, void *(*run)(void *), void *argument) {
  (void)pthread_once(&watched, watch);
  (void)pthread_mutex_lock(&beginning);
  int failed = pthread_create(thread, NULL, run, argument);
  (void)pthread_mutex_unlock(&beginning);
  return failed;
}
