/* test_fetch.c - parts whose bytes a function brings: the same rows, blocks that come once, failures that are said. */
#define _GNU_SOURCE
#include "part_contents.h"
#include "unirecord_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { ROWS = 40, THREADS = 4 };

/* The files of two parts, in memory, and what the function that brings them does. */
typedef struct {
  fixture *parts[2];
  atomic_int calls;
  int failing;    /* the call that fails, or -1 */
  int64_t blamed; /* and the part that it blames, if it is one of the call's */
  int flipped;    /* the call whose first range ends in a wrong byte, or -1 */
  bool for_good;  /* that byte is wrong whenever it comes from then on */
  ur_range wrong; /* the range that it ended */
  atomic_int doubts, advised; /* parts that were said to be wrong, and bytes to be read soon */
  atomic_int gathering;       /* calls for cells that wait for one another, until there are this many; 0: none does */
  atomic_int gathered;
  useconds_t late;  /* how much later than those of others cells of the second part come; it then says when each came … */
  bool far;         /* … or that they will come in some centuries */
} store;

static bool has_wrong_byte(const store *from, const ur_range *range) {
  uint64_t at = from->wrong.offset + from->wrong.bytes - 1;
  return from->for_good && from->wrong.bytes > 0 && range->part == from->wrong.part && range->file == from->wrong.file &&
         range->offset <= at && at < range->offset + range->bytes;
}

static void gather(store *from) {
  atomic_fetch_add(&from->gathered, 1);
  for (int i = 0; i < 20000 && atomic_load(&from->gathered) < atomic_load(&from->gathering); i++) (void)usleep(1000);
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void say_when(const store *from, const ur_range *ranges, int64_t count) {
  for (int part = 0; part < 2; part++) {
    if (part == 1) (void)usleep(from->late);
    for (int64_t i = 0; i < count; i++)
      if (ranges[i].part == part && ranges[i].came != NULL) *ranges[i].came = from->far ? UINT64_MAX : now_ns();
  }
}

static ur_status bring(void *context, const ur_range *ranges, int64_t count, ur_error *error) {
  store *from = context;
  EXPECT(count > 0);
  if (ranges[0].bytes == 0 && ranges[0].file == UR_FILE_INDEX) {
    EXPECT_EQUAL(count, 1);
    atomic_fetch_add(&from->doubts, 1);
    return UR_OK;
  }
  if (ranges[0].bytes > 0 && ranges[0].to == NULL) {
    for (int64_t i = 0; i < count; i++) {
      EXPECT(ranges[i].to == NULL && ranges[i].file == UR_FILE_DATA);
      EXPECT(i == 0 || ranges[i - 1].offset + ranges[i - 1].bytes <= ranges[i].offset);
      atomic_fetch_add(&from->advised, (int)ranges[i].bytes);
    }
    return UR_OK;
  }
  if (ranges[0].keep == 1 && ranges[0].file == UR_FILE_DATA) gather(from);
  int call = atomic_fetch_add(&from->calls, 1);
  if (call == from->failing) {
    error->part = from->blamed;
    (void)snprintf(error->what, sizeof error->what, "the store is closed");
    return UR_IO;
  }
  for (int64_t i = 0; i < count; i++) {
    const ur_range *range = &ranges[i];
    EXPECT(range->bytes > 0);
    EXPECT(range->file == UR_FILE_DATA || range->file == UR_FILE_INDEX);
    const fixture *part = from->parts[range->part];
    bool index = range->file == UR_FILE_INDEX;
    EXPECT(range->offset + range->bytes <= (index ? part->index_bytes : part->data_bytes));
    memcpy(range->to, (index ? part->index : part->data) + range->offset, range->bytes);
    if (has_wrong_byte(from, range)) range->to[from->wrong.offset + from->wrong.bytes - 1 - range->offset] ^= 1;
    if (i > 0 || call != from->flipped) continue;
    range->to[range->bytes - 1] ^= 1;
    from->wrong = *range;
  }
  if (from->late > 0 && ranges[0].keep == 1 && ranges[0].file == UR_FILE_DATA) say_when(from, ranges, count);
  return UR_OK;
}

static ur_status open_store(store *from, int parts, int verify, ur_set **set, ur_error *error) {
  ur_part_ref refs[2] = {{.rows = -1, .data_path = "a"}, {.rows = -1, .data_path = "b"}};
  for (int i = 0; i < parts; i++) {
    refs[i].data_bytes = from->parts[i]->data_bytes;
    refs[i].index_bytes = from->parts[i]->index_bytes;
  }
  ur_set_options options = {.verify = verify, .fetch = bring, .context = from};
  return ur_set_open(refs, parts, &options, set, error);
}

static store make_store(int fixed, uint64_t unit_rows) {
  return (store){.parts = {make_part(ROWS, fixed, unit_rows), make_part(ROWS, fixed, unit_rows)}, .failing = -1, .flipped = -1};
}

static void drop_store(store *from) {
  free(from->parts[0]);
  free(from->parts[1]);
}

static void every_kind_of_part_gives_its_rows(void) {
  static const int kinds[][2] = {{0, 0}, {0, 1}, {0, 8}, {1, 0}, {1, 1}, {1, 4}, {1, 64}};
  int64_t rows[2 * ROWS];
  for (int64_t i = 0; i < 2 * ROWS; i++) rows[i] = i * 7 % (2 * ROWS);
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
    for (int verify = UR_VERIFY_FIRST; verify <= UR_VERIFY_NEVER; verify++) {
      store from = make_store(kinds[kind][0], (uint64_t)kinds[kind][1]);
      ur_set *set = NULL;
      ur_error error = {0};
      static contents found;
      EXPECT_EQUAL(open_store(&from, 2, verify, &set, &error), UR_OK);
      EXPECT_EQUAL(ur_set_io(set), UR_IO_FETCH);
      for (int again = 0; again < 2; again++) {
        EXPECT_EQUAL(read_columns(set, rows, 2 * ROWS, 4 - kinds[kind][0], &found, &error), UR_OK);
        for (int64_t i = 0; i < 2 * ROWS; i++) expect_row(&found, i, rows[i] % ROWS, kinds[kind][0]);
      }
      ur_set_release(set);
      drop_store(&from);
    }
}

static void an_index_comes_once_and_a_batch_in_one_call(void) {
  store from = make_store(0, 1);
  ur_set *set = NULL;
  static contents found;
  int64_t rows[] = {3, 70, 11, 5};
  EXPECT_EQUAL(open_store(&from, 2, UR_VERIFY_FIRST, &set, NULL), UR_OK);
  int opened = atomic_load(&from.calls);
  EXPECT_EQUAL(read_columns(set, rows, 4, 4, &found, NULL), UR_OK);
  EXPECT_EQUAL(atomic_load(&from.calls), opened + 2); /* the indexes of both parts, and the cells */
  int before = atomic_load(&from.calls);
  EXPECT_EQUAL(read_columns(set, rows, 4, 4, &found, NULL), UR_OK);
  EXPECT_EQUAL(atomic_load(&from.calls), before + 1); /* the cells of both parts */
  EXPECT_EQUAL(read_columns(set, rows, 4, 2, &found, NULL), UR_OK);
  EXPECT_EQUAL(atomic_load(&from.calls), before + 1); /* the index's columns are there */
  ur_set_release(set);
  drop_store(&from);
}

static void each_call_that_fails_is_said_and_the_next_one_works(void) {
  int64_t rows[] = {3, 70, 11, 5};
  for (int call = 0;; call++) {
    store from = make_store(0, 1);
    ur_set *set = NULL;
    static contents found;
    ur_error error = {0};
    from.failing = call;
    from.blamed = 7; /* no part of the call's */
    ur_status status = open_store(&from, 2, UR_VERIFY_FIRST, &set, &error);
    bool opened = status == UR_OK;
    if (opened) status = read_columns(set, rows, 4, 4, &found, &error);
    bool failed = atomic_load(&from.calls) > call;
    EXPECT_EQUAL(status, failed ? UR_IO : UR_OK);
    if (failed) {
      EXPECT(strcmp(error.what, "the store is closed") == 0);
      EXPECT(error.part == 0 || error.part == 1);
      EXPECT(error.file == UR_FILE_DATA || error.file == UR_FILE_INDEX);
    }
    from.failing = -1;
    if (!opened) EXPECT_EQUAL(open_store(&from, 2, UR_VERIFY_FIRST, &set, NULL), UR_OK);
    EXPECT_EQUAL(read_columns(set, rows, 4, 4, &found, NULL), UR_OK);
    for (int64_t i = 0; i < 4; i++) expect_row(&found, i, rows[i] % ROWS, 0);
    ur_set_release(set);
    drop_store(&from);
    if (!failed) break;
  }
}

static void the_part_that_is_blamed_is_named(void) {
  store from = make_store(0, 1);
  ur_set *set = NULL;
  static contents found;
  ur_error error = {0};
  int64_t rows[] = {3, 70};
  EXPECT_EQUAL(open_store(&from, 2, UR_VERIFY_FIRST, &set, NULL), UR_OK);
  EXPECT_EQUAL(read_columns(set, rows, 2, 4, &found, NULL), UR_OK);
  from.failing = atomic_load(&from.calls);
  from.blamed = 1;
  EXPECT_EQUAL(read_columns(set, rows, 2, 4, &found, &error), UR_IO);
  EXPECT_EQUAL(error.part, 1);
  ur_set_release(set);
  drop_store(&from);
}

static void no_byte_that_came_wrong_is_a_value(void) {
  int64_t rows[] = {3, 70, 11, 5};
  for (int for_good = 0; for_good < 2; for_good++) {
    int64_t refused = 0, calls = 0, healed = 0;
    for (int call = 0;; call++) {
      store from = make_store(0, 1);
      ur_set *set = NULL;
      static contents found;
      ur_error error = {0};
      from.flipped = call;
      from.for_good = for_good == 1;
      ur_status status = open_store(&from, 2, UR_VERIFY_FIRST, &set, &error);
      if (status == UR_OK) status = read_columns(set, rows, 4, 4, &found, &error);
      bool wrong = atomic_load(&from.calls) > call;
      bool of_cells = wrong && from.wrong.file == UR_FILE_DATA && from.wrong.keep == 1;
      refused += status != UR_OK;
      healed += wrong && status == UR_OK && atomic_load(&from.doubts) > 0;
      if (status != UR_OK) EXPECT(wrong && (status == UR_CORRUPT || status == UR_FORMAT || status == UR_STALE));
      if (for_good == 0 && wrong) EXPECT((status != UR_OK) == of_cells); /* all else is brought again */
      EXPECT(atomic_load(&from.doubts) <= 2 * 2 * 2); /* two parts, of each the heads and a block, twice */
      for (int64_t i = 0; i < 4 && status == UR_OK; i++) expect_row(&found, i, rows[i] % ROWS, 0);
      ur_set_release(set);
      drop_store(&from);
      if (!wrong) break;
      calls++;
    }
    if (for_good == 0) EXPECT(healed >= calls - 2); /* a block may come before it is needed, and the cells are refused */
    if (for_good == 1) EXPECT(refused >= calls - 2);
  }
}

static void rows_that_will_be_read_are_said_as_the_bytes_of_their_cells(void) {
  store from = make_store(0, 1);
  ur_set *set = NULL;
  static contents found;
  int64_t rows[] = {3, 70, 11, 5}, every[ROWS];
  for (int64_t i = 0; i < ROWS; i++) every[i] = ROWS - 1 - i;
  EXPECT_EQUAL(open_store(&from, 2, UR_VERIFY_FIRST, &set, NULL), UR_OK);
  ur_set_advise(set, rows, 4);
  int some = atomic_load(&from.advised), calls = atomic_load(&from.calls);
  EXPECT(some > 0);
  ur_set_advise(set, every, ROWS);
  EXPECT(atomic_load(&from.advised) > 4 * some);
  EXPECT_EQUAL(read_columns(set, rows, 4, 4, &found, NULL), UR_OK);
  for (int64_t i = 0; i < 4; i++) expect_row(&found, i, rows[i] % ROWS, 0);
  EXPECT(atomic_load(&from.calls) <= calls + 2); /* what else the index is needed for, and the cells */
  ur_set_release(set);
  drop_store(&from);
}

static void heads_alone_describe_a_part_and_give_no_row(void) {
  store from = make_store(0, 1);
  ur_set *set = NULL;
  ur_part *part = NULL;
  ur_part_info info;
  ur_section section;
  static contents found;
  int64_t row = 3;
  const fixture *made = from.parts[0];
  ur_part_ref ref = {.rows = -1, .data_path = "a", .data_bytes = made->data_bytes, .index_bytes = made->index_bytes};
  ur_set_options options = {.fetch = bring, .context = &from, .heads_only = 1};
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
  EXPECT_EQUAL(atomic_load(&from.calls), 4); /* headers and heads of both files */
  EXPECT_EQUAL(ur_set_part(set, 0, &part, NULL), UR_OK);
  ur_part_describe(part, &info);
  EXPECT_EQUAL(info.rows, ROWS);
  EXPECT_EQUAL(ur_part_section(part, UR_SECTION_GROUPS, -1, &section), UR_NOT_FOUND);
  EXPECT_EQUAL(read_columns(set, &row, 1, 4, &found, NULL), UR_ARGUMENT);
  EXPECT_EQUAL(atomic_load(&from.calls), 4);
  ur_part_release(part);
  ur_set_release(set);
  options = (ur_set_options){.io = UR_IO_PREAD, .heads_only = 1};
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_ARGUMENT);
  drop_store(&from);
}

static void wrong_calls_are_refused(void) {
  store from = make_store(0, 1);
  ur_set *set = NULL;
  ur_part_ref ref = {.rows = -1, .data_path = "a"};
  ur_set_options options = {.io = UR_IO_PREAD, .fetch = bring, .context = &from};
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_ARGUMENT);
  options.io = UR_IO_AUTO; /* of files without a length there is nothing to bring */
  EXPECT(ur_set_open(&ref, 1, &options, &set, NULL) != UR_OK);
  EXPECT_EQUAL(atomic_load(&from.calls), 0);
  drop_store(&from);
}

/* One of them reads while nothing has to come; all do when one has to wait. With digests of cells, some of them are empty. */
static void a_part_that_comes_late_is_told(void) {
  for (int turn = 0; turn < 4; turn++) {
    int far = turn % 2;
    store from = make_store(0, (uint64_t)turn / 2);
    ur_set *set = NULL;
    ur_pool *pool = NULL;
    ur_order *order = NULL;
    ur_loader *loader = NULL;
    from.late = 20000;
    from.far = far;
    EXPECT_EQUAL(open_store(&from, 2, UR_VERIFY_FIRST, &set, NULL), UR_OK);
    EXPECT_EQUAL(ur_pool_new(2, &pool, NULL), UR_OK);
    EXPECT_EQUAL(ur_order_new(2 * ROWS, UR_ORDER_SEQUENTIAL, 0, 0, 0, 0, NULL, 0, &order, NULL), UR_OK);
    int32_t columns[] = {0, 1, 2, 3};
    ur_loader_options options = {.order = order, .selection_step = 1, .stride = 1, .samples = 2 * ROWS,
                                 .batch_size = 2 * ROWS, .prefetch = 1, .threads = 1, .output_count = 4, .columns = columns};
    EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_OK);
    ur_batch_info info;
    EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_OK);
    expect_batch(&info, ROWS);
    ur_batch_release(info.batch);
    ur_part_time times[2];
    EXPECT_EQUAL(ur_loader_part_times(loader, times, 2), 2);
    int late = times[1].part == 1;
    if (!far) EXPECT(times[late].ns >= from.late * UINT64_C(1000)); /* of which the other part has no share */
    ur_loader_stats stats;
    ur_loader_statistics(loader, &stats);
    EXPECT(times[0].ns + times[1].ns <= stats.read_ns);
    ur_loader_release(loader);
    ur_order_release(order);
    ur_pool_release(pool);
    ur_set_release(set);
    drop_store(&from);
  }
}

static void a_loaders_threads_wait_together(void) {
  static const int32_t columns[] = {0, 1, 2, 3};
  store from = make_store(0, 1);
  ur_set *set = NULL;
  ur_pool *pool = NULL;
  ur_loader *loader = NULL;
  ur_order *order = NULL;
  ur_batch_info info;
  EXPECT_EQUAL(open_store(&from, 2, UR_VERIFY_FIRST, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_pool_new(2, &pool, NULL), UR_OK);
  EXPECT_EQUAL(ur_order_new(2 * ROWS, UR_ORDER_SEQUENTIAL, 0, 0, 0, 0, NULL, 0, &order, NULL), UR_OK);
  ur_loader_options options = {.order = order, .selection_step = 1, .stride = 1, .samples = 2 * ROWS, .batch_size = 5,
                               .prefetch = 8, .prefetch_near = 1, .threads = THREADS, .threads_near = 1,
                               .output_count = 4, .columns = columns};
  EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_OK);
  atomic_store(&from.gathering, THREADS);
  for (int64_t number = 0; number < 2 * ROWS / 5; number++) {
    EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_OK);
    EXPECT_EQUAL(info.number, number);
    EXPECT(atomic_load(&from.gathered) >= THREADS); /* before the first of them was done */
    ur_batch_release(info.batch);
  }
  EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_END);
  ur_loader_release(loader);
  ur_order_release(order);
  ur_pool_release(pool);
  ur_set_release(set);
  drop_store(&from);
}

static ur_set *shared;

static void *read_all(void *context) {
  static _Thread_local contents found;
  int64_t first = *(int64_t *)context;
  for (int64_t i = 0; i < 2 * ROWS; i++) {
    int64_t row = (first + i) % (2 * ROWS);
    EXPECT_EQUAL(read_columns(shared, &row, 1, 4, &found, NULL), UR_OK);
    expect_row(&found, 0, row % ROWS, 0);
  }
  return NULL;
}

static void threads_share_what_has_come(void) {
  for (int turn = 0; turn < 20; turn++) {
    store from = make_store(0, 1);
    pthread_t threads[THREADS];
    int64_t first[THREADS];
    EXPECT_EQUAL(open_store(&from, 2, UR_VERIFY_FIRST, &shared, NULL), UR_OK);
    for (int i = 0; i < THREADS; i++) {
      first[i] = i * 7;
      EXPECT(pthread_create(&threads[i], NULL, read_all, &first[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    ur_set_release(shared);
    drop_store(&from);
  }
}

static void ranges_are_put_out_of_answers_all_or_none(void) {
  const uint8_t first[] = "abcdef", second[] = "ghi";
  const ur_answer answers[] = {{first, 6}, {second, 3}};
  uint8_t to[4][3];
  uint64_t came = 0;
  ur_range ranges[4] = {0};
  for (int i = 0; i < 4; i++) ranges[i] = (ur_range){.bytes = 2, .to = to[i]};
  ranges[2].came = &came;
  ranges[3].bytes = 0;
  ranges[3].to = NULL;
  const ur_put right[] = {{2, 1, 1}, {0, 0, 4}, {3, 0, 6}};
  const ur_put wrong[] = {{0, 1, 2}, {0, 1, UINT64_MAX}, {0, 0, 5}, {-1, 0, 0}, {4, 0, 0}, {0, -1, 0}, {0, 2, 0}};
  memset(to, '.', sizeof to);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const ur_put both[] = {{1, 0, 0}, wrong[i]};
    ur_error error;
    EXPECT_EQUAL(ur_ranges_put(ranges, 4, answers, 2, both, 2, &error), UR_ARGUMENT);
    EXPECT(memcmp(to, "............", sizeof to) == 0 && came == 0);
  }
  uint64_t before = now_ns();
  EXPECT_EQUAL(ur_ranges_put(ranges, 4, answers, 2, right, 3, NULL), UR_OK);
  EXPECT(memcmp(to, "ef....hi....", sizeof to) == 0);
  EXPECT(before <= came && came <= now_ns());
  EXPECT_EQUAL(ur_ranges_put(ranges, 4, NULL, 0, NULL, 0, NULL), UR_OK);
  ranges[1].to = NULL;
  EXPECT_EQUAL(ur_ranges_put(ranges, 4, answers, 2, &(ur_put){1, 0, 0}, 1, NULL), UR_ARGUMENT);
}

int main(void) {
  ranges_are_put_out_of_answers_all_or_none();
  every_kind_of_part_gives_its_rows();
  an_index_comes_once_and_a_batch_in_one_call();
  each_call_that_fails_is_said_and_the_next_one_works();
  the_part_that_is_blamed_is_named();
  no_byte_that_came_wrong_is_a_value();
  rows_that_will_be_read_are_said_as_the_bytes_of_their_cells();
  heads_alone_describe_a_part_and_give_no_row();
  wrong_calls_are_refused();
  a_part_that_comes_late_is_told();
  a_loaders_threads_wait_together();
  threads_share_what_has_come();
  return 0;
}
