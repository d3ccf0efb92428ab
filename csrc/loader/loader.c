/* loader/loader.c - batches read ahead: threads fill a ring of numbered places, a consumer takes them in order.
 *
 * A worker claims the next number when it is less than `delivered + prefetch`, fills the batch without the lock, and
 * marks its place ready. The consumer waits for the place of the number it wants; a number that no one has claimed it
 * fills itself. Each side is woken only when it says that it sleeps, and looks for a while before it does: a futex costs
 * more than a batch of small rows. Workers beyond `threads_near` rest, and the others claim what is less than
 * `delivered + prefetch_near`, once as many batches as there are places went by of which nothing came from elsewhere.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/fork.h"
#include "io/io.h"
#include "loader/fill.h"
#include "loader/readahead.h"
#include "unirecord_internal.h"

enum { LINE = 64, LOOKS = 200, NEAR = 0, RESERVE = 1 };

typedef struct {
  _Atomic int64_t ready; /* number of the batch that is ready here, or -1 */
  ur_batch *batch;       /* NULL: it failed, and error says how */
  int64_t rows;
  ur_error error;
  uint8_t apart[LINE]; /* from the next place, which another thread fills */
} place;

struct ur_loader {
  atomic_llong references; /* the caller's one; one for each ur_loader_next in flight */
  ur_filler filler;
  uint64_t owner; /* ur_forks() of the process that made it */
  void *kept;     /* what lends it memory, and how that is let go */
  void (*let_go)(void *kept);

  pthread_mutex_t consumer; /* held by the one consumer at a time that takes a batch */
  ur_scratch own;              /* the consumer's, for batches that it fills itself */
  pthread_mutex_t lock;
  pthread_cond_t work[2]; /* a place has come free for workers of this kind, or stop */
  pthread_cond_t ready; /* a place has become ready, or stop */
  pthread_cond_t first; /* brought, or stop */
  pthread_t *threads;
  int32_t started;
  int64_t places, near; /* near: of these, in use while nothing comes from elsewhere */
  place *ring;
  _Atomic int stopped;
  _Atomic int brought; /* the files are as far in memory as they are brought ahead of the first batch; set with the lock held */
  _Atomic int32_t sleeping_workers[2]; /* of each kind; changed with the lock held */
  _Atomic int32_t sleeping_consumers;  /* likewise */
  _Atomic int64_t far_until;           /* the number before which all workers claim batches */
  _Atomic int32_t entered;             /* workers that have begun */

  /* What each side writes for every batch has cache lines of its own. */
  uint8_t apart_from_all[LINE];
  _Atomic int64_t claimed; /* next number for a worker */
  _Atomic uint64_t stat_read_ns, stat_idle_ns;
  uint8_t apart_from_workers[LINE];
  _Atomic int64_t delivered; /* next number for the consumer */
  _Atomic int64_t stat_batches, stat_samples, stat_skipped;
  _Atomic uint64_t stat_bytes, stat_wait_ns;
  uint8_t apart_from_consumers[LINE];
};

static void pause_briefly(int look) {
  if (look % 16 == 15) sched_yield();
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* ---- workers ---------------------------------------------------------------------------------------------------- */

static bool is_near(ur_loader *loader, int64_t number) { return number >= atomic_load(&loader->far_until); }

static bool has_room(ur_loader *loader, int kind, int64_t number) {
  bool near = is_near(loader, number);
  if (near && kind == RESERVE) return false;
  return number < atomic_load(&loader->delivered) + (near ? loader->near : loader->places);
}

/* The next number, once there is room for it; -1: there is no more work. */
static int64_t claim(ur_loader *loader, int kind) {
  for (int look = 0;; look++) {
    int64_t number = atomic_load_explicit(&loader->claimed, memory_order_relaxed);
    if (number >= loader->filler.batches || atomic_load(&loader->stopped)) return -1;
    if (has_room(loader, kind, number)) {
      if (atomic_compare_exchange_weak(&loader->claimed, &number, number + 1)) return number;
      continue;
    }
    if (look < LOOKS && !(kind == RESERVE && is_near(loader, number))) {
      pause_briefly(look);
      continue;
    }
    pthread_mutex_lock(&loader->lock);
    loader->sleeping_workers[kind]++;
    while (!atomic_load(&loader->stopped) && atomic_load(&loader->claimed) < loader->filler.batches &&
           !has_room(loader, kind, atomic_load(&loader->claimed))) {
      pthread_cond_wait(&loader->work[kind], &loader->lock);
    }
    loader->sleeping_workers[kind]--;
    pthread_mutex_unlock(&loader->lock);
  }
}

/* Wakes the other side if it sleeps. What it waits for has been stored before; it says that it sleeps before it looks a
 * last time; and all four are sequentially consistent: so one of the two sees the other. */
static void wake(ur_loader *loader, _Atomic int32_t *sleeping, pthread_cond_t *condition) {
  if (atomic_load(sleeping) == 0) return;
  pthread_mutex_lock(&loader->lock);
  pthread_cond_broadcast(condition);
  pthread_mutex_unlock(&loader->lock);
}

static void wake_workers(ur_loader *loader) {
  wake(loader, &loader->sleeping_workers[NEAR], &loader->work[NEAR]);
  if (!is_near(loader, atomic_load(&loader->claimed))) {
    wake(loader, &loader->sleeping_workers[RESERVE], &loader->work[RESERVE]);
  }
}

/* A thread is about to wait for bytes from elsewhere. Of two at once either number will do. */
static void goes_far(void *context) {
  ur_loader *loader = context;
  int64_t claimed = atomic_load(&loader->claimed);
  if (atomic_exchange(&loader->far_until, claimed + loader->places) <= claimed) wake_workers(loader);
}

static void publish(ur_loader *loader, int64_t number, ur_batch *batch, const ur_error *error) {
  place *p = &loader->ring[number % loader->places];
  p->batch = batch;
  p->rows = ur_filler_rows(&loader->filler, number);
  if (batch == NULL) p->error = *error;
  atomic_store(&p->ready, number);
  wake(loader, &loader->sleeping_consumers, &loader->ready);
}

/* Whoever fills the first batch brings what is worth it before; the others wait, whose faults would be in its way. */
static void readahead_first(ur_loader *loader, ur_scratch *s, int64_t number) {
  if (atomic_load_explicit(&loader->brought, memory_order_relaxed)) return;
  if (number == 0 && s->rows != NULL) ur_read_ahead(&loader->filler, s, &loader->stopped);
  pthread_mutex_lock(&loader->lock);
  if (number == 0) {
    atomic_store(&loader->brought, 1);
    pthread_cond_broadcast(&loader->first);
  }
  while (!atomic_load(&loader->brought) && !atomic_load(&loader->stopped)) pthread_cond_wait(&loader->first, &loader->lock);
  pthread_mutex_unlock(&loader->lock);
}

/* Fills the claimed batch `number`, and tells the kernel of others if `advise`; returns the time at which it was done. */
static uint64_t fill_claimed(ur_loader *loader, ur_scratch *s, int64_t number, int advise, uint64_t start) {
  ur_batch *batch = NULL;
  ur_error error = {0};
  ur_told before = ur_source_tells((ur_told){goes_far, loader});
  bool good = s->rows != NULL || ur_scratch_make(&loader->filler, s);
  readahead_first(loader, s, number);
  if (good) {
    if (advise) ur_filler_advise(&loader->filler, s, number);
    if (ur_filler_fill(&loader->filler, s, number, &batch, &error) != UR_OK) batch = NULL;
  } else {
    ur_fail(&error, UR_NO_MEMORY, "no memory for a loader's thread");
  }
  (void)ur_source_tells(before);
  uint64_t end = ur_now_ns();
  s->timing.took = end - start;
  atomic_fetch_add_explicit(&loader->stat_read_ns, end - start, memory_order_relaxed);
  publish(loader, number, batch, &error);
  return end;
}

static void *run_worker(void *argument) {
  ur_loader *loader = argument;
  ur_scratch s;
  if (ur_scratch_make(&loader->filler, &s)) s.advise_until = 2 * (int64_t)loader->filler.options.prefetch;
  uint64_t before = ur_now_ns();
  int32_t near = loader->filler.options.threads_near;
  int kind = near == 0 || atomic_fetch_add(&loader->entered, 1) < near ? NEAR : RESERVE;
  for (int64_t number; (number = claim(loader, kind)) >= 0;) {
    uint64_t start = ur_now_ns();
    atomic_fetch_add_explicit(&loader->stat_idle_ns, start - before, memory_order_relaxed);
    before = fill_claimed(loader, &s, number, 1, start);
  }
  ur_scratch_free(&s);
  return NULL;
}

/* ---- the loader ------------------------------------------------------------------------------------------------- */

static void free_loader(ur_loader *loader) {
  if (loader->ring != NULL) {
    for (int64_t i = 0; i < loader->places; i++) {
      if (atomic_load(&loader->ring[i].ready) >= 0) ur_batch_release(loader->ring[i].batch);
    }
  }
  ur_scratch_free(&loader->own);
  free(loader->ring);
  free(loader->threads);
  ur_filler_free(&loader->filler);
  if (loader->let_go != NULL) loader->let_go(loader->kept);
  free(loader);
}

void ur_loader_keep(ur_loader *loader, void *owner, void (*let_go)(void *owner)) {
  loader->kept = owner;
  loader->let_go = let_go;
}

static ur_status make_places(ur_loader *loader, ur_error *error) {
  loader->places = loader->filler.options.prefetch;
  loader->near = loader->filler.options.prefetch_near > 0 ? loader->filler.options.prefetch_near : loader->places;
  loader->threads = calloc((size_t)loader->filler.options.threads, sizeof *loader->threads);
  loader->ring = calloc((size_t)loader->places, sizeof *loader->ring);
  if (!loader->threads || !loader->ring) return ur_fail(error, UR_NO_MEMORY, "no memory for a loader");
  for (int64_t i = 0; i < loader->places; i++) atomic_init(&loader->ring[i].ready, -1);
  return UR_OK;
}

ur_status ur_loader_new(ur_set *set, ur_pool *pool, const ur_loader_options *options, ur_loader **out,
                        ur_error *error) {
  ur_loader *loader = calloc(1, sizeof *loader);
  if (loader == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a loader");
  atomic_init(&loader->references, 1);
  loader->owner = ur_forks();
  ur_status status = ur_filler_make(&loader->filler, set, pool, options, error);
  if (status == UR_OK) status = make_places(loader, error);
  if (status != UR_OK) {
    free_loader(loader);
    return status;
  }
  pthread_mutex_init(&loader->consumer, NULL);
  pthread_mutex_init(&loader->lock, NULL);
  pthread_cond_init(&loader->work[NEAR], NULL);
  pthread_cond_init(&loader->work[RESERVE], NULL);
  pthread_cond_init(&loader->ready, NULL);
  pthread_cond_init(&loader->first, NULL);
  *out = loader;
  return UR_OK;
}

static ur_status start_threads(ur_loader *loader, ur_error *error) {
  int failed = 0;
  pthread_mutex_lock(&loader->lock);
  while (!atomic_load(&loader->stopped) && loader->started < loader->filler.options.threads && failed == 0) {
    failed = ur_thread_begin(&loader->threads[loader->started], run_worker, loader);
    if (failed == 0) loader->started++;
  }
  int none = loader->started == 0 && !atomic_load(&loader->stopped);
  pthread_mutex_unlock(&loader->lock);
  if (none) return ur_fail(error, UR_NO_MEMORY, "no thread could be started (error %d)", failed);
  return UR_OK;
}

/* Fills batch `number` if no thread has begun it: where threads share a core with the consumer, that is sooner done than
 * waiting for one of them to run. The first batch is left to them, with what they have to tell the kernel. */
static void fill_unclaimed(ur_loader *loader, int64_t number, uint64_t start) {
  int64_t next = number;
  if (number > 0 && atomic_load(&loader->ring[number % loader->places].ready) != number &&
      atomic_compare_exchange_strong(&loader->claimed, &next, number + 1)) {
    (void)fill_claimed(loader, &loader->own, number, 0, start);
  }
}

/* Waits until `number` is ready; 0 when the loader has been stopped instead. */
static int wait_for(ur_loader *loader, int64_t number) {
  place *p = &loader->ring[number % loader->places];
  for (int look = 0; look < LOOKS; look++) {
    if (atomic_load(&p->ready) == number) return 1;
    pause_briefly(look);
  }
  pthread_mutex_lock(&loader->lock);
  loader->sleeping_consumers++;
  while (atomic_load(&p->ready) != number && !atomic_load(&loader->stopped)) {
    pthread_cond_wait(&loader->ready, &loader->lock);
  }
  loader->sleeping_consumers--;
  pthread_mutex_unlock(&loader->lock);
  return atomic_load(&p->ready) == number;
}

static void hand_out(ur_loader *loader, ur_batch *batch, ur_batch_info *info) {
  uint64_t bytes = 0;
  /* exact: all of them lie in one piece of memory */
  for (int32_t c = 0; c < loader->filler.options.output_count; c++) bytes += batch->columns[c].data_bytes;
  *info = (ur_batch_info){
      .batch = batch,
      .memory_bytes = batch->piece.bytes,
      .data_bytes = bytes,
      .number = batch->number,
      .rows = batch->rows,
      .skipped = batch->skipped,
      .row_ids_at = batch->row_ids_at,
      .skipped_at = batch->skipped_at,
      .columns = batch->columns,
  };
  atomic_fetch_add_explicit(&loader->stat_batches, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&loader->stat_samples, batch->rows, memory_order_relaxed);
  atomic_fetch_add_explicit(&loader->stat_skipped, batch->skipped, memory_order_relaxed);
  atomic_fetch_add_explicit(&loader->stat_bytes, bytes, memory_order_relaxed);
}

static ur_status take_next(ur_loader *loader, ur_batch_info *info, ur_error *error) {
  if (atomic_load(&loader->stopped)) return ur_fail(error, UR_CLOSED, "the loader has been stopped");
  int64_t number = atomic_load(&loader->delivered);
  if (number >= loader->filler.batches) return UR_END;
  if (loader->started < loader->filler.options.threads) {
    ur_status status = start_threads(loader, error);
    if (status != UR_OK) return status;
  }
  uint64_t start = ur_now_ns();
  fill_unclaimed(loader, number, start);
  int ready = wait_for(loader, number);
  atomic_fetch_add_explicit(&loader->stat_wait_ns, ur_now_ns() - start, memory_order_relaxed);
  if (!ready) return ur_fail(error, UR_CLOSED, "the loader has been stopped");

  place *p = &loader->ring[number % loader->places];
  ur_batch *batch = p->batch;
  ur_status status = UR_OK;
  if (batch != NULL) {
    hand_out(loader, batch, info);
  } else {
    *info = (ur_batch_info){.number = number, .rows = p->rows};
    status = (ur_status)p->error.status;
    if (error != NULL) *error = p->error;
  }
  p->batch = NULL;
  atomic_store(&p->ready, -1);
  atomic_store(&loader->delivered, number + 1);
  wake_workers(loader);
  return status;
}

ur_status ur_loader_next(ur_loader *loader, ur_batch_info *info, ur_error *error) {
  if (loader->owner != ur_forks()) {
    return ur_fail(error, UR_ARGUMENT, "a loader made before fork() cannot be used in the child: make a new one");
  }
  atomic_fetch_add(&loader->references, 1);
  pthread_mutex_lock(&loader->consumer);
  ur_status status = take_next(loader, info, error);
  pthread_mutex_unlock(&loader->consumer);
  ur_loader_release(loader);
  return status;
}

void ur_loader_statistics(ur_loader *loader, ur_loader_stats *stats) {
  atomic_fetch_add(&loader->references, 1);
  *stats = (ur_loader_stats){
      .batches = atomic_load(&loader->stat_batches),
      .samples = atomic_load(&loader->stat_samples),
      .skipped = atomic_load(&loader->stat_skipped),
      .bytes = atomic_load(&loader->stat_bytes),
      .read_ns = atomic_load(&loader->stat_read_ns),
      .wait_ns = atomic_load(&loader->stat_wait_ns),
      .idle_ns = atomic_load(&loader->stat_idle_ns),
  };
  ur_loader_release(loader);
}

int64_t ur_loader_part_times(ur_loader *loader, ur_part_time *times, int64_t room) {
  atomic_fetch_add(&loader->references, 1);
  int64_t timed = ur_times_copy(loader->filler.times, times, room);
  ur_loader_release(loader);
  return timed;
}

static void end_threads(ur_loader *loader) {
  if (loader->owner != ur_forks()) return;
  pthread_mutex_lock(&loader->lock);
  int first = !atomic_exchange(&loader->stopped, 1);
  int32_t started = loader->started;
  pthread_cond_broadcast(&loader->work[NEAR]);
  pthread_cond_broadcast(&loader->work[RESERVE]);
  pthread_cond_broadcast(&loader->ready);
  pthread_cond_broadcast(&loader->first);
  pthread_mutex_unlock(&loader->lock);
  if (!first) return;
  for (int32_t i = 0; i < started; i++) pthread_join(loader->threads[i], NULL);
}

void ur_loader_stop(ur_loader *loader) {
  atomic_fetch_add(&loader->references, 1);
  end_threads(loader);
  ur_loader_release(loader);
}

void ur_loader_release(ur_loader *loader) {
  if (loader == NULL || atomic_fetch_sub(&loader->references, 1) != 1) return;
  if (loader->owner == ur_forks()) {
    end_threads(loader);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->first);
    pthread_cond_destroy(&loader->work[NEAR]);
    pthread_cond_destroy(&loader->work[RESERVE]);
    pthread_mutex_destroy(&loader->lock);
    pthread_mutex_destroy(&loader->consumer);
  }
  free_loader(loader);
}
