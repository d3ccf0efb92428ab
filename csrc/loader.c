/* loader.c - batches read ahead: threads fill a ring of numbered places, a consumer takes them in order.
 *
 * A worker claims the next number when it is less than `delivered + prefetch`, fills the batch without the lock, and
 * marks its place ready. The consumer waits for the place of the number it wants; a number that no one has claimed it
 * fills itself. Each side is woken only when it says that it sleeps, and looks for a while before it does: a futex costs
 * more than a batch of small rows.
 *
 * Cold files: every batch counts the major page faults of its thread, and while there are some, the kernel is told of the batches ahead.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "pool.h"
#include "reader.h"
#include "fail.h"
#include "fork.h"

enum { ALIGNMENT = 64, LINE = 64, LOOKS = 200, ADVISE_BATCHES = 256, GLANCE_BATCHES = 8 };

struct ur_batch {
  ur_piece piece;
  int64_t number, rows, skipped;
  uint64_t row_ids_at, skipped_at;
  ur_column_view columns[];
};

typedef struct {
  _Atomic int64_t ready; /* number of the batch that is ready here, or -1 */
  ur_batch *batch;       /* NULL: it failed, and error says how */
  int64_t rows;
  ur_error error;
  uint8_t apart[LINE]; /* from the next place, which another thread fills */
} place;

/* What a thread needs to fill batches. */
typedef struct {
  int64_t *rows;     /* the batch's row ids, in order */
  int64_t *skipped;
  int64_t *ahead;    /* row ids of a batch to come */
  uint64_t *bytes;
  ur_output *outputs;
  ur_column_view *views;
  int64_t looked;    /* batches since this thread's page faults were last counted */
  long major_faults;
  int64_t advise_until;
} scratch;

struct ur_loader {
  atomic_llong references; /* the caller's one; one for each ur_loader_next in flight */
  ur_set *set;
  ur_pool *pool;
  ur_loader_options options;
  int32_t *columns;
  ur_column_info *infos;
  int64_t batches;
  uint64_t owner; /* ur_forks() of the process that made it */

  pthread_mutex_t consumer; /* held by the one consumer at a time that takes a batch */
  scratch own;              /* the consumer's, for batches that it fills itself */
  pthread_mutex_t lock;
  pthread_cond_t work;  /* a place has come free, or stop */
  pthread_cond_t ready; /* a place has become ready, or stop */
  pthread_t *threads;
  int32_t started;
  int64_t places;
  place *ring;
  _Atomic int stopped;
  _Atomic int32_t sleeping_workers;   /* changed with the lock held */
  _Atomic int32_t sleeping_consumers; /* likewise */

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

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t align_up(uint64_t value) { return (value + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void pause_briefly(int look) {
  if (look % 16 == 15) sched_yield();
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/* ---- filling one batch ------------------------------------------------------------------------------------------ */

static int64_t rows_of_batch(const ur_loader *loader, int64_t number) {
  int64_t left = loader->options.samples - number * loader->options.batch_size;
  return left < loader->options.batch_size ? left : loader->options.batch_size;
}

static ur_status row_ids_of_batch(const ur_loader *loader, int64_t number, int64_t *rows) {
  const ur_loader_options *o = &loader->options;
  int64_t count = rows_of_batch(loader, number);
  ur_status status =
      ur_order_range(o->order, o->first + number * o->batch_size * o->stride, o->stride, count, rows);
  if (status != UR_OK) return status;
  if (o->selection != NULL) {
    for (int64_t i = 0; i < count; i++) rows[i] = o->selection[rows[i]];
  } else if (o->selection_start != 0 || o->selection_step != 1) {
    for (int64_t i = 0; i < count; i++) rows[i] = o->selection_start + rows[i] * o->selection_step;
  }
  return UR_OK;
}

/* Places of the arrays of a batch of `rows` rows, given the bytes of each output's data; the end is returned. */
static uint64_t lay_out(const ur_loader *loader, int64_t rows, const uint64_t *data_bytes, ur_column_view *views,
                        uint64_t *row_ids_at) {
  uint64_t n = (uint64_t)rows;
  uint64_t at = align_up(sizeof(ur_batch) + (size_t)loader->options.output_count * sizeof(ur_column_view));
  *row_ids_at = at;
  at = align_up(at + n * sizeof(int64_t));
  for (int32_t c = 0; c < loader->options.output_count; c++) {
    views[c].offsets_at = UINT64_MAX;
    views[c].valid_at = UINT64_MAX;
    if (loader->infos[c].fixed_bytes == 0) {
      views[c].offsets_at = at;
      at = align_up(at + (n + 1) * sizeof(int64_t));
    }
    if (loader->infos[c].nullable) {
      views[c].valid_at = at;
      at = align_up(at + n);
    }
    views[c].data_at = at;
    views[c].data_bytes = data_bytes[c];
    at = align_up(at + data_bytes[c]);
  }
  return at;
}

/* s->bytes[c] = bytes of output c for these rows; columns of fixed width need no look at the files. */
static ur_status measure(const ur_loader *loader, scratch *s, int64_t rows, ur_error *error) {
  int32_t count = loader->options.output_count;
  int32_t variable = 0;
  for (int32_t c = 0; c < count; c++) {
    s->bytes[c] = (uint64_t)rows * (uint64_t)loader->infos[c].fixed_bytes;
    if (loader->infos[c].fixed_bytes == 0) variable++;
  }
  if (variable == 0) return UR_OK;
  return ur_read_measure(loader->set, s->rows, rows, loader->columns, count, s->bytes, error);
}

static ur_status read_into_batch(ur_loader *loader, scratch *s, int64_t number, int64_t rows, int64_t skipped,
                                 ur_batch **out, ur_error *error) {
  int32_t count = loader->options.output_count;
  ur_status status = measure(loader, s, rows, error);
  if (status != UR_OK) return status;
  uint64_t row_ids_at = 0;
  uint64_t skipped_at = lay_out(loader, rows, s->bytes, s->views, &row_ids_at);
  uint64_t end = skipped_at + (uint64_t)skipped * sizeof(int64_t);
  ur_piece *piece = ur_pool_take(loader->pool, end);
  if (piece == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a batch of %llu bytes", (unsigned long long)end);
  ur_batch *batch = (ur_batch *)piece;
  uint8_t *memory = (uint8_t *)piece;
  batch->number = number;
  batch->rows = rows;
  batch->skipped = skipped;
  batch->row_ids_at = row_ids_at;
  batch->skipped_at = skipped_at;
  memcpy(batch->columns, s->views, (size_t)count * sizeof(ur_column_view));
  memcpy(memory + row_ids_at, s->rows, (size_t)rows * sizeof(int64_t));
  memcpy(memory + skipped_at, s->skipped, (size_t)skipped * sizeof(int64_t));
  for (int32_t c = 0; c < count; c++) {
    const ur_column_view *view = &s->views[c];
    s->outputs[c] = (ur_output){
        .column = loader->columns[c],
        .data = memory + view->data_at,
        .capacity = view->data_bytes,
        .offsets = view->offsets_at == UINT64_MAX ? NULL : (int64_t *)(void *)(memory + view->offsets_at),
        .valid = view->valid_at == UINT64_MAX ? NULL : memory + view->valid_at,
    };
  }
  status = ur_read_rows(loader->set, s->rows, rows, s->outputs, count, error);
  if (status != UR_OK) {
    ur_pool_give(piece);
    return status;
  }
  *out = batch;
  return UR_OK;
}

/* Moves every occurrence of the corrupt row that `error` names from rows to skipped; false when it names none of them. */
static int leave_out(const ur_loader *loader, scratch *s, int64_t *rows, int64_t *skipped, const ur_error *error) {
  int64_t kept = 0;
  int64_t before = *skipped;
  for (int64_t i = 0; i < *rows; i++) {
    int64_t part = -1, row = -1;
    if (ur_set_find(loader->set, s->rows[i], &part, &row) == UR_OK && part == error->part && row == error->row) {
      s->skipped[(*skipped)++] = s->rows[i];
    } else {
      s->rows[kept++] = s->rows[i];
    }
  }
  *rows = kept;
  return *skipped != before;
}

static ur_status fill(ur_loader *loader, scratch *s, int64_t number, ur_batch **batch, ur_error *error) {
  int64_t rows = rows_of_batch(loader, number);
  int64_t skipped = 0;
  ur_status status = row_ids_of_batch(loader, number, s->rows);
  if (status != UR_OK) return ur_fail(error, status, "the order does not fit the loader");
  for (;;) {
    status = read_into_batch(loader, s, number, rows, skipped, batch, error);
    if (status != UR_CORRUPT || loader->options.on_corrupt == 0) return status;
    if (!leave_out(loader, s, &rows, &skipped, error)) return status;
  }
}

/* Tells the kernel of batch `number`, if there is one. */
static void advise_batch(const ur_loader *loader, scratch *s, int64_t number) {
  if (number < loader->batches && row_ids_of_batch(loader, number, s->ahead) == UR_OK) {
    ur_set_advise(loader->set, s->ahead, rows_of_batch(loader, number));
  }
}

/* While this thread's batches meet cold pages, tells the kernel of the batch `prefetch` ahead; the first batches of all
 * are told of together. Warm threads look at their page faults now and then: the call costs as much as a few rows. */
static void advise_ahead(const ur_loader *loader, scratch *s, int64_t number) {
  if (number == 0) {
    for (int64_t first = 0; first < loader->options.prefetch; first++) advise_batch(loader, s, first);
  }
  if (number < s->advise_until || ++s->looked >= GLANCE_BATCHES) {
    struct rusage usage;
#ifdef RUSAGE_THREAD
    getrusage(RUSAGE_THREAD, &usage);
#else
    getrusage(RUSAGE_SELF, &usage);
#endif
    s->looked = 0;
    if (usage.ru_majflt != s->major_faults) s->advise_until = number + ADVISE_BATCHES;
    s->major_faults = usage.ru_majflt;
  }
  if (number < s->advise_until) advise_batch(loader, s, number + loader->options.prefetch);
}

/* ---- workers ---------------------------------------------------------------------------------------------------- */

static void free_scratch(scratch *s) {
  free(s->rows);
  free(s->skipped);
  free(s->ahead);
  free(s->bytes);
  free(s->outputs);
  free(s->views);
}

static int make_scratch(const ur_loader *loader, scratch *s) {
  size_t rows = (size_t)(loader->options.batch_size < loader->options.samples ? loader->options.batch_size
                                                                              : loader->options.samples);
  size_t outputs = (size_t)loader->options.output_count;
  memset(s, 0, sizeof *s);
  s->rows = calloc(rows + 1, sizeof *s->rows);
  s->skipped = calloc(rows + 1, sizeof *s->skipped);
  s->ahead = calloc(rows + 1, sizeof *s->ahead);
  s->bytes = calloc(outputs + 1, sizeof *s->bytes);
  s->outputs = calloc(outputs + 1, sizeof *s->outputs);
  s->views = calloc(outputs + 1, sizeof *s->views);
  if (s->rows && s->skipped && s->ahead && s->bytes && s->outputs && s->views) return 1;
  free_scratch(s);
  memset(s, 0, sizeof *s);
  return 0;
}

/* The next number, once there is room for it; -1: there is no more work. */
static int64_t claim(ur_loader *loader) {
  for (int look = 0;; look++) {
    int64_t number = atomic_load_explicit(&loader->claimed, memory_order_relaxed);
    if (number >= loader->batches || atomic_load(&loader->stopped)) return -1;
    if (number < atomic_load(&loader->delivered) + loader->places) {
      if (atomic_compare_exchange_weak(&loader->claimed, &number, number + 1)) return number;
      continue;
    }
    if (look < LOOKS) {
      pause_briefly(look);
      continue;
    }
    pthread_mutex_lock(&loader->lock);
    loader->sleeping_workers++;
    while (!atomic_load(&loader->stopped) && atomic_load(&loader->claimed) < loader->batches &&
           atomic_load(&loader->claimed) >= atomic_load(&loader->delivered) + loader->places) {
      pthread_cond_wait(&loader->work, &loader->lock);
    }
    loader->sleeping_workers--;
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

static void publish(ur_loader *loader, int64_t number, ur_batch *batch, const ur_error *error) {
  place *p = &loader->ring[number % loader->places];
  p->batch = batch;
  p->rows = rows_of_batch(loader, number);
  if (batch == NULL) p->error = *error;
  atomic_store(&p->ready, number);
  wake(loader, &loader->sleeping_consumers, &loader->ready);
}

/* Fills the claimed batch `number`, and tells the kernel of others if `advise`; returns the time at which it was done. */
static uint64_t fill_claimed(ur_loader *loader, scratch *s, int64_t number, int advise, uint64_t start) {
  ur_batch *batch = NULL;
  ur_error error = {0};
  if (s->rows != NULL || make_scratch(loader, s)) {
    if (advise) advise_ahead(loader, s, number);
    if (fill(loader, s, number, &batch, &error) != UR_OK) batch = NULL;
  } else {
    ur_fail(&error, UR_NO_MEMORY, "no memory for a loader's thread");
  }
  uint64_t end = now_ns();
  atomic_fetch_add_explicit(&loader->stat_read_ns, end - start, memory_order_relaxed);
  publish(loader, number, batch, &error);
  return end;
}

static void *run_worker(void *argument) {
  ur_loader *loader = argument;
  scratch s;
  if (make_scratch(loader, &s)) s.advise_until = 2 * (int64_t)loader->options.prefetch;
  uint64_t before = now_ns();
  for (int64_t number; (number = claim(loader)) >= 0;) {
    uint64_t start = now_ns();
    atomic_fetch_add_explicit(&loader->stat_idle_ns, start - before, memory_order_relaxed);
    before = fill_claimed(loader, &s, number, 1, start);
  }
  free_scratch(&s);
  return NULL;
}

/* ---- the loader ------------------------------------------------------------------------------------------------- */

static ur_status check_options(const ur_set *set, const ur_loader_options *o, ur_error *error) {
  if (o->order == NULL) return ur_fail(error, UR_ARGUMENT, "a loader needs an order");
  if (o->first < 0 || o->stride < 1) return ur_fail(error, UR_ARGUMENT, "first must be >= 0 and stride >= 1");
  if (o->samples < 0) return ur_fail(error, UR_ARGUMENT, "samples must be >= 0");
  if (o->batch_size < 1) return ur_fail(error, UR_ARGUMENT, "batch_size must be >= 1");
  if (o->prefetch < 1 || o->prefetch > 4096) return ur_fail(error, UR_ARGUMENT, "prefetch must be in 1..4096");
  if (o->threads < 1 || o->threads > 1024) return ur_fail(error, UR_ARGUMENT, "threads must be in 1..1024");
  if (o->output_count < 0 || (o->output_count > 0 && o->columns == NULL)) {
    return ur_fail(error, UR_ARGUMENT, "output_count must be >= 0, with columns");
  }
  int64_t last = 0;
  if (o->samples > 0 && (__builtin_mul_overflow(o->samples - 1, o->stride, &last) || last > INT64_MAX - o->first)) {
    return ur_fail(error, UR_ARGUMENT, "the last sample's position exceeds 2^63");
  }
  if (o->samples > 0 && ur_set_rows(set) == 0) return ur_fail(error, UR_ARGUMENT, "the set has no rows");
  return UR_OK;
}

static void free_loader(ur_loader *loader) {
  if (loader->ring != NULL) {
    for (int64_t i = 0; i < loader->places; i++) {
      if (atomic_load(&loader->ring[i].ready) >= 0) ur_batch_release(loader->ring[i].batch);
    }
  }
  free_scratch(&loader->own);
  free(loader->ring);
  free(loader->threads);
  free(loader->columns);
  free(loader->infos);
  ur_set_release(loader->set);
  ur_pool_release(loader->pool);
  free(loader);
}

static ur_status copy_columns(ur_loader *loader, const ur_loader_options *options, ur_error *error) {
  size_t outputs = (size_t)options->output_count;
  loader->columns = calloc(outputs + 1, sizeof *loader->columns);
  loader->infos = calloc(outputs + 1, sizeof *loader->infos);
  loader->threads = calloc((size_t)options->threads, sizeof *loader->threads);
  loader->ring = calloc((size_t)loader->places, sizeof *loader->ring);
  if (!loader->columns || !loader->infos || !loader->threads || !loader->ring) {
    return ur_fail(error, UR_NO_MEMORY, "no memory for a loader");
  }
  for (int64_t i = 0; i < loader->places; i++) atomic_init(&loader->ring[i].ready, -1);
  for (size_t c = 0; c < outputs; c++) {
    loader->columns[c] = options->columns[c];
    ur_status status = ur_set_column(loader->set, options->columns[c], &loader->infos[c], error);
    if (status != UR_OK) return status;
  }
  loader->options.columns = loader->columns;
  return UR_OK;
}

ur_status ur_loader_new(ur_set *set, ur_pool *pool, const ur_loader_options *options, ur_loader **out,
                        ur_error *error) {
  ur_status status = check_options(set, options, error);
  if (status != UR_OK) return status;
  ur_loader *loader = calloc(1, sizeof *loader);
  if (loader == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a loader");
  atomic_init(&loader->references, 1);
  loader->set = ur_set_retain(set);
  loader->pool = ur_pool_retain(pool);
  loader->options = *options;
  loader->places = options->prefetch;
  loader->owner = ur_forks();
  loader->batches = options->samples / options->batch_size;
  if (!options->drop_last && options->samples % options->batch_size != 0) loader->batches++;
  status = copy_columns(loader, options, error);
  if (status != UR_OK) {
    free_loader(loader);
    return status;
  }
  pthread_mutex_init(&loader->consumer, NULL);
  pthread_mutex_init(&loader->lock, NULL);
  pthread_cond_init(&loader->work, NULL);
  pthread_cond_init(&loader->ready, NULL);
  *out = loader;
  return UR_OK;
}

static ur_status start_threads(ur_loader *loader, ur_error *error) {
  int failed = 0;
  pthread_mutex_lock(&loader->lock);
  while (!atomic_load(&loader->stopped) && loader->started < loader->options.threads && failed == 0) {
    failed = pthread_create(&loader->threads[loader->started], NULL, run_worker, loader);
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
  for (int32_t c = 0; c < loader->options.output_count; c++) bytes += batch->columns[c].data_bytes;
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
  if (number >= loader->batches) return UR_END;
  if (loader->started < loader->options.threads) {
    ur_status status = start_threads(loader, error);
    if (status != UR_OK) return status;
  }
  uint64_t start = now_ns();
  fill_unclaimed(loader, number, start);
  int ready = wait_for(loader, number);
  atomic_fetch_add_explicit(&loader->stat_wait_ns, now_ns() - start, memory_order_relaxed);
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
  wake(loader, &loader->sleeping_workers, &loader->work);
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

static void end_threads(ur_loader *loader) {
  if (loader->owner != ur_forks()) return;
  pthread_mutex_lock(&loader->lock);
  int first = !atomic_exchange(&loader->stopped, 1);
  int32_t started = loader->started;
  pthread_cond_broadcast(&loader->work);
  pthread_cond_broadcast(&loader->ready);
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
    pthread_cond_destroy(&loader->work);
    pthread_mutex_destroy(&loader->lock);
    pthread_mutex_destroy(&loader->consumer);
  }
  free_loader(loader);
}

void ur_batch_release(ur_batch *batch) {
  if (batch != NULL) ur_pool_give(&batch->piece);
}
