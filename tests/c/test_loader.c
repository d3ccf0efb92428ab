/* test_loader.c - batches read ahead: every row once and in order, whoever asks, however many, and however it ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/timing.h"
#include "part_contents.h"
#include "unirecord_internal.h"

#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 24 };
#else
enum { ROUNDS = 60 };
#endif

enum { ROWS = 40, PARTS = 3, ALL = ROWS * PARTS, SAMPLES = 1000, BATCH = 7, BATCHES = (SAMPLES + BATCH - 1) / BATCH };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[PARTS][64];
static const int32_t columns[] = {0, 1, 2, 3};
static ur_order *order;

static ur_set *open_set(int io) {
  ur_part_ref refs[PARTS];
  for (int i = 0; i < PARTS; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = ROWS};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &set, NULL), UR_OK);
  return set;
}

static ur_loader_options usual(int32_t threads, int32_t prefetch) {
  return (ur_loader_options){.order = order, .selection_step = 1, .first = 5, .stride = 7, .samples = SAMPLES,
                             .batch_size = BATCH, .prefetch = prefetch, .threads = threads, .output_count = 4,
                             .columns = columns};
}

/* A loader that holds the only references to its set and its pool. */
static ur_loader *new_loader(const ur_loader_options *options, int io) {
  ur_set *set = open_set(io);
  ur_pool *pool = NULL;
  ur_loader *loader = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(ur_pool_new(2, &pool, &error), UR_OK);
  EXPECT_EQUAL(ur_loader_new(set, pool, options, &loader, &error), UR_OK);
  ur_set_release(set);
  ur_pool_release(pool);
  return loader;
}

static int64_t row_of(const ur_batch_info *info, int64_t i) {
  return ((const int64_t *)(const void *)((const uint8_t *)info->batch + info->row_ids_at))[i];
}

static void batches_come_in_order_with_the_rows_of_the_order(void) {
  int64_t expected[SAMPLES];
  EXPECT_EQUAL(ur_order_range(order, 5, 7, SAMPLES, expected), UR_OK);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++)
    for (int threads = 1; threads <= 5; threads += 2)
      for (int drop = 0; drop < 2; drop++) {
        ur_loader_options options = usual(threads, threads == 3 ? 1 : 4);
        options.drop_last = drop;
        options.prefetch_near = options.threads_near = drop;
        ur_loader *loader = new_loader(&options, io);
        ur_batch_info info;
        int64_t number = 0, samples = 0;
        for (; ur_loader_next(loader, &info, NULL) == UR_OK; number++) {
          EXPECT_EQUAL(info.number, number);
          expect_batch(&info, ROWS);
          for (int64_t i = 0; i < info.rows; i++) EXPECT_EQUAL(row_of(&info, i), expected[samples + i]);
          samples += info.rows;
          ur_batch_release(info.batch);
        }
        EXPECT_EQUAL(samples, drop ? SAMPLES / BATCH * BATCH : SAMPLES);
        EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_END);
        ur_loader_stats stats;
        ur_loader_statistics(loader, &stats);
        EXPECT_EQUAL(stats.samples, samples);
        EXPECT_EQUAL(stats.batches, number);
        ur_loader_release(loader);
      }
}

/* The first batch of a thread is timed, whatever it takes. */
static void reading_is_timed_part_by_part(void) {
  for (int io = UR_IO_MAP; io <= UR_IO_URING; io++) {
    ur_loader_options options = usual(1, 4);
    options.batch_size = SAMPLES;
    ur_loader *loader = new_loader(&options, io);
    EXPECT_EQUAL(ur_loader_part_times(loader, NULL, 0), 0);
    ur_batch_info info;
    EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_OK);
    bool met[PARTS] = {false};
    int64_t parts = 0;
    for (int64_t i = 0; i < info.rows; i++) {
      parts += !met[row_of(&info, i) / ROWS];
      met[row_of(&info, i) / ROWS] = true;
    }
    ur_part_time times[PARTS + 1];
    EXPECT(parts > 1);
    EXPECT_EQUAL(ur_loader_part_times(loader, times, 1), parts);
    EXPECT_EQUAL(ur_loader_part_times(loader, times, PARTS), parts);
    uint64_t ns = 0, bytes = 0;
    for (int64_t i = 0; i < parts; i++) {
      EXPECT_EQUAL(times[i].batches, 1);
      EXPECT(met[times[i].part] && times[i].bytes > 0);
      met[times[i].part] = false;
      ns += times[i].ns;
      bytes += times[i].bytes;
    }
    EXPECT_EQUAL(bytes, info.data_bytes);
    ur_loader_stats stats;
    ur_loader_statistics(loader, &stats);
    EXPECT(ns > 0 && ns <= stats.read_ns);
    ur_batch_release(info.batch);
    ur_loader_release(loader);
  }
}

static void quick_batches_are_not_timed(void) {
  ur_timing timing = {0};
  EXPECT(ur_timing_are_due(&timing));
  ur_timing_begin(&timing, 3);
  EXPECT(ur_timing_of(NULL, 1) == NULL);
  for (int64_t g = 0; g < 3; g++) timing.of[g] = (ur_part_timer){.timing = &timing, .part = g};
  for (int64_t g = 0; g < 3; g++) ur_part_timer_end(ur_timing_of(&timing, g));
  EXPECT_EQUAL(timing.looks, 5);
  timing.took = 5 * UR_TIMING_NS - 1;
  EXPECT(!ur_timing_are_due(&timing));
  timing.took = 5 * UR_TIMING_NS;
  EXPECT(ur_timing_are_due(&timing));
  ur_timing_begin(&timing, 1);
  EXPECT(ur_timing_of(&timing, 0) == NULL); /* two looks for the batch are all that it takes */
  EXPECT_EQUAL(timing.looks, 2);
  ur_timing_free(&timing);
}

static void batches_may_differ_in_size(void) {
  int64_t expected[SAMPLES], ends[SAMPLES];
  EXPECT_EQUAL(ur_order_range(order, 5, 7, SAMPLES, expected), UR_OK);
  int64_t batches = 0, end = 0;
  for (; end < SAMPLES; batches++) {
    end = end + 1 + batches % BATCH < SAMPLES ? end + 1 + batches % BATCH : SAMPLES;
    ends[batches] = end;
  }
  ur_loader_options options = usual(3, 4);
  options.batch_ends = ends;
  options.batches = batches;
  ur_loader *loader = new_loader(&options, UR_IO_MAP);
  ur_batch_info info;
  int64_t number = 0, samples = 0;
  for (; ur_loader_next(loader, &info, NULL) == UR_OK; number++) {
    EXPECT_EQUAL(info.rows, ends[number] - samples);
    for (int64_t i = 0; i < info.rows; i++) EXPECT_EQUAL(row_of(&info, i), expected[samples + i]);
    samples += info.rows;
    ur_batch_release(info.batch);
  }
  EXPECT_EQUAL(number, batches);
  EXPECT_EQUAL(samples, SAMPLES);
  ur_loader_release(loader);
  const int64_t wrong[] = {3, 2, SAMPLES};
  options.batch_ends = wrong;
  options.batches = 3;
  ur_set *set = open_set(UR_IO_MAP);
  ur_pool *pool = NULL;
  EXPECT_EQUAL(ur_pool_new(2, &pool, NULL), UR_OK);
  EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_ARGUMENT);
  ur_set_release(set);
  ur_pool_release(pool);
}

static void few_batches_are_begun_while_nothing_is_waited_for(void) {
  ur_set *set = open_set(UR_IO_MAP);
  ur_pool *pool = NULL;
  ur_loader *loader = NULL;
  ur_batch_info info;
  ur_loader_options options = usual(4, 9);
  options.prefetch_near = 2;
  options.threads_near = 1;
  EXPECT_EQUAL(ur_pool_new(16, &pool, NULL), UR_OK);
  EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_OK);
  EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_OK);
  for (int i = 0; i < 10000 && ur_pool_allocations(pool) < 3; i++) (void)usleep(1000);
  (void)usleep(20000);
  EXPECT_EQUAL(ur_pool_allocations(pool), 3); /* the one that is held, and two */
  for (int64_t number = 1; number < BATCHES; number++) {
    ur_batch_release(info.batch);
    EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_OK);
    EXPECT_EQUAL(info.number, number);
  }
  ur_batch_release(info.batch);
  EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_END);
  ur_loader_release(loader);
  ur_set_release(set);
  ur_pool_release(pool);
}

static void selections_turn_rows_of_the_order_into_rows_of_the_set(void) {
  static int64_t chosen[ALL], every[ALL];
  for (int64_t i = 0; i < ALL; i++) chosen[i] = ALL - 1 - (every[i] = i);
  uint64_t words[(ALL + 63) / 64] = {0}, directory[16];
  EXPECT(ur_bitmap_directory(ALL, ALL) <= 16);
  EXPECT_EQUAL(ur_bitmap_add(words, ALL, every, ALL), UR_OK);
  EXPECT_EQUAL(ur_bitmap_index(words, ALL, ALL, directory), UR_OK);
  for (int way = 0; way < 3; way++) {
    ur_bitmap bitmap = {words, directory, ALL, ALL};
    ur_loader_options options = usual(2, 2);
    if (way == 0) options.selection = chosen;
    if (way >= 1) options.selection_start = ALL - 1;
    if (way >= 1) options.selection_step = -1;
    if (way == 2) options.bitmap = &bitmap;
    ur_loader *loader = new_loader(&options, UR_IO_MAP);
    bitmap.words = NULL; /* the loader has a copy of the struct */
    int64_t at = 5, row = 0;
    ur_batch_info info;
    while (ur_loader_next(loader, &info, NULL) == UR_OK) {
      expect_batch(&info, ROWS);
      for (int64_t i = 0; i < info.rows; i++, at += 7) {
        EXPECT_EQUAL(ur_order_range(order, at, 1, 1, &row), UR_OK);
        EXPECT_EQUAL(row_of(&info, i), ALL - 1 - row);
      }
      ur_batch_release(info.batch);
    }
    ur_loader_release(loader);
  }
}

typedef struct {
  ur_loader *loader;
  atomic_int seen[BATCHES];
  atomic_int ready, closed;
} shared;

static void *consume(void *argument) {
  shared *all = argument;
  int64_t last = -1;
  ur_batch_info info;
  atomic_fetch_add(&all->ready, 1);
  for (;;) {
    ur_status status = ur_loader_next(all->loader, &info, NULL);
    if (status != UR_OK) {
      EXPECT(status == UR_END || status == UR_CLOSED);
      if (status == UR_CLOSED) atomic_fetch_add(&all->closed, 1);
      return NULL;
    }
    EXPECT(info.number > last);
    last = info.number;
    expect_batch(&info, ROWS);
    atomic_fetch_add(&all->seen[info.number], 1);
    ur_batch_release(info.batch);
  }
}

static void several_consumers_share_the_batches(void) {
  for (int round = 0; round < 6; round++) {
    static shared all;
    memset(&all, 0, sizeof all);
    ur_loader_options options = usual(1 + round % 3, 1 + round);
    all.loader = new_loader(&options, round % 2 ? UR_IO_MAP : UR_IO_URING);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) EXPECT(pthread_create(&threads[i], NULL, consume, &all) == 0);
    for (int i = 0; i < 4; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < BATCHES; i++) EXPECT_EQUAL(atomic_load(&all.seen[i]), 1);
    ur_loader_release(all.loader);
  }
}

static void *stop(void *argument) {
  ur_loader_stop(argument);
  return NULL;
}

static void stopping_at_any_moment_ends_consumers_and_threads(void) {
  for (int round = 0; round < ROUNDS; round++) {
    static shared all;
    memset(&all, 0, sizeof all);
    ur_loader_options options = usual(1 + round % 4, 1 + round % 3);
    if (round % 3 == 0) options.samples = options.batch_size = 100000; /* one large batch: all consumers wait for it */
    all.loader = new_loader(&options, UR_IO_MAP);
    pthread_t consumers[2], stoppers[2];
    for (int i = 0; i < 2; i++) EXPECT(pthread_create(&consumers[i], NULL, consume, &all) == 0);
    while (atomic_load(&all.ready) < 2) sched_yield();
    (void)usleep((useconds_t)(round * 20));
    for (int i = 0; i < 2; i++) EXPECT(pthread_create(&stoppers[i], NULL, stop, all.loader) == 0);
    for (int i = 0; i < 2; i++) EXPECT(pthread_join(consumers[i], NULL) == 0);
    for (int i = 0; i < 2; i++) EXPECT(pthread_join(stoppers[i], NULL) == 0);
    ur_batch_info info;
    EXPECT_EQUAL(ur_loader_next(all.loader, &info, NULL), UR_CLOSED);
    ur_loader_stop(all.loader);
    ur_loader_release(all.loader);
  }
}

static void batches_outlive_everything_they_came_from(void) {
  ur_loader_options options = usual(3, 4);
  ur_loader *loader = new_loader(&options, UR_IO_PREAD);
  ur_batch_info kept[6];
  for (int i = 0; i < 6; i++) EXPECT_EQUAL(ur_loader_next(loader, &kept[i], NULL), UR_OK);
  ur_loader_release(loader); /* with full places, too */
  for (int i = 0; i < 6; i++) expect_batch(&kept[i], ROWS);
  for (int i = 0; i < 6; i++) ur_batch_release(kept[i].batch);
  ur_loader_release(NULL);
  ur_batch_release(NULL);
}

static void a_loader_holds_its_order(void) {
  ur_loader_options options = usual(3, 4);
  EXPECT_EQUAL(ur_order_new(ALL, UR_ORDER_PARTS, 7, 1, 0, 0, (const int64_t[]){ROWS, ROWS, ROWS}, PARTS, &options.order, NULL),
               UR_OK);
  int64_t expected[SAMPLES];
  EXPECT_EQUAL(ur_order_range(options.order, 5, 7, SAMPLES, expected), UR_OK);
  ur_loader *loader = new_loader(&options, UR_IO_PREAD);
  ur_order_release(options.order);
  ur_batch_info info;
  int64_t samples = 0;
  for (; ur_loader_next(loader, &info, NULL) == UR_OK; samples += info.rows) {
    for (int64_t i = 0; i < info.rows; i++) EXPECT_EQUAL(row_of(&info, i), expected[samples + i]);
    ur_batch_release(info.batch);
  }
  EXPECT_EQUAL(samples, SAMPLES);
  ur_loader_release(loader);
}

static void a_loader_that_was_never_asked_has_nothing_to_end(void) {
  ur_loader_options options = usual(3, 4);
  ur_loader_release(new_loader(&options, UR_IO_MAP));
  options.samples = 0;
  ur_loader *loader = new_loader(&options, UR_IO_MAP);
  ur_batch_info info;
  EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_END);
  ur_loader_release(loader);
}

static void a_closed_set_ends_a_loader_batch_by_batch(void) {
  ur_set *set = open_set(UR_IO_MAP);
  ur_pool *pool = NULL;
  ur_loader *loader = NULL;
  ur_loader_options options = usual(2, 2);
  EXPECT_EQUAL(ur_pool_new(2, &pool, NULL), UR_OK);
  EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_OK);
  ur_batch_info info;
  EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_OK);
  expect_batch(&info, ROWS);
  ur_set_close(set);
  ur_batch_release(info.batch);
  ur_status status = UR_OK;
  for (int i = 0; i < 6; i++) {
    ur_error error = {0};
    status = ur_loader_next(loader, &info, &error);
    if (status == UR_OK) ur_batch_release(info.batch);
  }
  EXPECT_EQUAL(status, UR_CLOSED);
  ur_loader_release(loader);
  ur_pool_release(pool);
  ur_set_release(set);
}

static void wrong_options_are_refused(void) {
  ur_set *set = open_set(UR_IO_MAP);
  ur_pool *pool = NULL;
  EXPECT_EQUAL(ur_pool_new(1, &pool, NULL), UR_OK);
  for (int wrong = 0; wrong < 19; wrong++) {
    ur_loader_options options = usual(1, 1);
    const int32_t unknown[] = {0, 1, 2, 9};
    switch (wrong) {
      case 0: options.order = NULL; break;
      case 1: options.first = -1; break;
      case 2: options.stride = 0; break;
      case 3: options.samples = -1; break;
      case 4: options.batch_size = 0; break;
      case 5: options.prefetch = 0; break;
      case 6: options.prefetch = 4097; break;
      case 7: options.threads = 0; break;
      case 8: options.threads = 1025; break;
      case 9: options.output_count = -1; break;
      case 10: options.columns = NULL; break;
      case 11: options.columns = unknown; break;
      case 12: options.stride = INT64_MAX / 2; break;
      case 13: options.first = INT64_MAX - 5; break;
      case 14: options.prefetch_near = -1; break;
      case 15: options.prefetch_near = 2; break;
      case 16: options.threads_near = -1; break;
      case 17: options.threads_near = 2; break;
      default: options.samples = INT64_MAX; break;
    }
    ur_loader *loader = NULL;
    ur_error error = {0};
    EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, &error), UR_ARGUMENT);
    EXPECT(loader == NULL && error.what[0] != '\0');
    EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_ARGUMENT);
  }
  ur_set_release(set);
  ur_set_options nothing = {.io = UR_IO_MAP, .verify = UR_VERIFY_FIRST};
  ur_loader_options options = usual(1, 1);
  ur_loader *loader = NULL;
  EXPECT_EQUAL(ur_set_open(NULL, 0, &nothing, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_ARGUMENT);
  ur_set_release(set);
  ur_pool_release(pool);
}

static void rows_that_are_not_there_fail_their_batch(void) {
  static int64_t chosen[ALL];
  for (int64_t i = 0; i < ALL; i++) chosen[i] = i == 50 ? ALL : i;
  ur_loader_options options = usual(2, 2);
  options.selection = chosen;
  options.samples = ALL;
  options.first = 0;
  options.stride = 1;
  ur_loader *loader = new_loader(&options, UR_IO_MAP);
  int refused = 0;
  for (int i = 0; i < (ALL + BATCH - 1) / BATCH; i++) {
    ur_batch_info info;
    ur_error error = {0};
    ur_status status = ur_loader_next(loader, &info, &error);
    EXPECT(status == UR_OK || status == UR_ARGUMENT);
    EXPECT_EQUAL(info.number, i);
    refused += status == UR_ARGUMENT;
    ur_batch_release(info.batch);
  }
  EXPECT_EQUAL(refused, 1);
  ur_loader_release(loader);
  ur_order *empty = NULL;
  EXPECT_EQUAL(ur_order_new(0, UR_ORDER_SEQUENTIAL, 0, 0, 0, 0, NULL, 0, &empty, NULL), UR_OK);
  options.order = empty;
  loader = new_loader(&options, UR_IO_MAP);
  ur_batch_info info;
  EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_ARGUMENT);
  ur_loader_release(loader);
  ur_order_release(empty);
}

/* Breaks the 24 bytes of row 10 of the second part. */
static void flip_row(void) {
  fixture *part = make_part(ROWS, 0, 0);
  FILE *file = fopen(paths[1], "r+b");
  uint64_t at = 0;
  while (memcmp(part->data + at, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", 24) != 0) at += 8;
  EXPECT(file != NULL && fseek(file, (long)at, SEEK_SET) == 0 && fputc('x', file) == 'x' && fclose(file) == 0);
  free(part);
}

static void corrupt_rows_fail_their_batch_or_are_left_out(void) {
  fixture *part = make_part(ROWS, 0, 0);
  store_part(part, paths[1]);
  flip_row();
  for (int skip = 0; skip < 2; skip++) {
    ur_loader_options options = usual(2, 3);
    options.on_corrupt = skip;
    ur_loader *loader = new_loader(&options, UR_IO_PREAD);
    int64_t rows = 0, skipped = 0, failed = 0;
    for (int64_t i = 0; i < BATCHES; i++) {
      ur_batch_info info;
      ur_error error = {0};
      ur_status status = ur_loader_next(loader, &info, &error);
      EXPECT_EQUAL(info.number, i);
      if (status != UR_OK) {
        EXPECT_EQUAL(status, UR_CORRUPT);
        EXPECT_EQUAL(error.part, 1);
        EXPECT_EQUAL(error.row, 10);
        EXPECT_EQUAL(error.column, 2);
        EXPECT(info.batch == NULL);
        failed++;
        continue;
      }
      expect_batch(&info, ROWS);
      const int64_t *left = (const int64_t *)(const void *)((const uint8_t *)info.batch + info.skipped_at);
      for (int64_t s = 0; s < info.skipped; s++) EXPECT_EQUAL(left[s], ROWS + 10);
      rows += info.rows;
      skipped += info.skipped;
      ur_batch_release(info.batch);
    }
    EXPECT(skip ? failed == 0 && skipped > 0 && rows + skipped == SAMPLES : failed > 0 && skipped == 0);
    ur_loader_stats stats;
    ur_loader_statistics(loader, &stats);
    EXPECT_EQUAL(stats.skipped, skipped);
    ur_loader_release(loader);
  }
  store_part(part, paths[1]);
  free(part);
}

static void a_forked_child_can_only_let_go(void) {
#if !defined(__SANITIZE_THREAD__) && !defined(UR_EMULATED) /* neither forks beside threads */
  ur_loader_options options = usual(3, 4);
  ur_loader *loader = new_loader(&options, UR_IO_URING);
  ur_batch_info info;
  EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_OK);
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      ur_batch_info other;
      ur_error error = {0};
      expect_batch(&info, ROWS);
      EXPECT_EQUAL(ur_loader_next(loader, &other, &error), UR_ARGUMENT);
      ur_loader_stop(loader);
      ur_loader_release(loader);
      expect_batch(&info, ROWS);
      ur_batch_release(info.batch);
      ur_loader *own = new_loader(&options, UR_IO_URING);
      EXPECT_EQUAL(ur_loader_next(own, &other, &error), UR_OK);
      expect_batch(&other, ROWS);
      ur_batch_release(other.batch);
      ur_loader_release(own);
      _exit(0);
    }
    ur_batch_info next;
    EXPECT_EQUAL(ur_loader_next(loader, &next, NULL), UR_OK);
    expect_batch(&next, ROWS);
    ur_batch_release(next.batch);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }
  ur_batch_release(info.batch);
  ur_loader_release(loader);
#endif
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  store_parts(folder, paths, PARTS, ROWS);
  EXPECT_EQUAL(ur_order_new(ALL, UR_ORDER_SHUFFLE, 7, 1, 0, 0, NULL, 0, &order, NULL), UR_OK);
  batches_come_in_order_with_the_rows_of_the_order();
  reading_is_timed_part_by_part();
  quick_batches_are_not_timed();
  batches_may_differ_in_size();
  few_batches_are_begun_while_nothing_is_waited_for();
  selections_turn_rows_of_the_order_into_rows_of_the_set();
  several_consumers_share_the_batches();
  stopping_at_any_moment_ends_consumers_and_threads();
  batches_outlive_everything_they_came_from();
  a_loader_holds_its_order();
  a_loader_that_was_never_asked_has_nothing_to_end();
  a_closed_set_ends_a_loader_batch_by_batch();
  wrong_options_are_refused();
  rows_that_are_not_there_fail_their_batch();
  corrupt_rows_fail_their_batch_or_are_left_out();
  a_forked_child_can_only_let_go();
  ur_order_release(order);
  return remove_folder(folder);
}
