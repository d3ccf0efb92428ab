/* faults_costs.c - what a warm batch costs, counted at the seam to the system: no open, no map, one look at the file. */
#define _GNU_SOURCE
#include "fault_seam.h"
#include "io/io.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 40, READS = 50, BATCH = 32, MANY_PARTS = 12 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char path[64];

static int64_t calls_of_reads(ur_set *set, int kind) {
  static contents found;
  int64_t rows[BATCH];
  for (int64_t i = 0; i < BATCH; i++) rows[i] = i * 7 % ur_set_rows(set);
  fault_plan never = {.calls = kind, .at = -1};
  fault_arm(&never);
  for (int i = 0; i < READS; i++) EXPECT_EQUAL(read_columns(set, rows, BATCH, 4, &found, NULL), UR_OK);
  (void)fault_disarm();
  return fault_count();
}

/* Most calls of a kind that one batch may cost, by way of reading: mapped, pread, io_uring, past the cache, in memory. */
static void a_warm_read_costs(const char *what, int kind, const int most[5]) {
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_part_ref ref = {.data_path = path, .rows = -1};
    ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
    ur_set *set = NULL;
    EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
    (void)calls_of_reads(set, kind);
    int64_t calls = calls_of_reads(set, kind);
    if (calls > READS * most[io - UR_IO_MAP])
      fprintf(stderr, "io %d: %.2f %s a batch\n", io, (double)calls / READS, what);
    EXPECT(calls <= READS * most[io - UR_IO_MAP]);
    ur_set_release(set);
  }
}

static char paths[MANY_PARTS][64];

static ur_set *open_many(uint64_t rows, int32_t io) {
  ur_part_ref refs[MANY_PARTS];
  store_parts(folder, paths, MANY_PARTS, rows);
  for (int i = 0; i < MANY_PARTS; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = -1};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, MANY_PARTS, &options, &set, NULL), UR_OK);
  return set;
}

/* A batch with a few rows of each of many parts waits for the disk once, not once for every part. */
static void the_parts_of_a_batch_are_read_together(void) {
  for (int io = UR_IO_URING; io <= UR_IO_URING_DIRECT; io++) {
    ur_set *set = open_many(6, io);
    (void)calls_of_reads(set, FAULT_RING);
    EXPECT(calls_of_reads(set, FAULT_RING) <= 2 * READS);
    ur_set_release(set);
  }
}

static int64_t milliseconds(void) { return ur_file_clock() / 1000000; }

/* A batch of few parts looks at each of them; a batch of many at none that was looked at lately. */
static void many_parts_are_looked_at_once_in_a_while(void) {
  ur_set *set = open_many(3, UR_IO_MAP);
  (void)calls_of_reads(set, FAULT_STAT);
  int64_t begun = milliseconds(), calls = calls_of_reads(set, FAULT_STAT), took = milliseconds() - begun;
  EXPECT(calls <= 2 * MANY_PARTS * (took + 2)); /* a tick is a millisecond, or more */
  static contents found;
  int64_t row = 0;
  EXPECT_EQUAL(truncate(paths[0], 100), 0);
  ur_error error;
  EXPECT_EQUAL(read_columns(set, &row, 1, 4, &found, &error), UR_STALE); /* of one part, at once */
  EXPECT_EQUAL(error.part, 0);
  int64_t changed = milliseconds();
  while (milliseconds() <= changed) continue;
  int64_t rows[MANY_PARTS];
  for (int i = 0; i < MANY_PARTS; i++) rows[i] = 3 * i;
  EXPECT_EQUAL(read_columns(set, rows, MANY_PARTS, 4, &found, &error), UR_STALE);
  EXPECT_EQUAL(error.part, 0);
  ur_set_release(set);
}

static int64_t walk(ur_set *set, ur_pool *pool, int kind) {
  static const int32_t columns[] = {0, 1, 2, 3};
  ur_order *order = NULL;
  ur_loader *loader = NULL;
  EXPECT_EQUAL(ur_order_new(ROWS, UR_ORDER_SHUFFLE, 1, 0, 0, 0, NULL, 0, &order, NULL), UR_OK);
  ur_loader_options options = {.order = order, .selection_step = 1, .stride = 1, .samples = READS * BATCH,
                               .batch_size = BATCH, .prefetch = 2, .threads = 1, .output_count = 4, .columns = columns};
  fault_plan never = {.calls = kind, .at = -1};
  fault_arm(&never);
  EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_OK);
  ur_batch_info info;
  while (ur_loader_next(loader, &info, NULL) == UR_OK) ur_batch_release(info.batch);
  ur_loader_release(loader);
  (void)fault_disarm();
  ur_order_release(order);
  return fault_count();
}

static void a_warm_epoch_maps_nothing(void) {
  ur_part_ref ref = {.data_path = path, .rows = -1};
  ur_set_options options = {.io = UR_IO_MAP, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  ur_pool *pool = NULL;
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_pool_new(6, &pool, NULL), UR_OK);
  for (int i = 0; i < 4; i++) (void)walk(set, pool, FAULT_MAP);
  int64_t pieces = ur_pool_allocations(pool);
  EXPECT(pieces <= 5); /* prefetch, one in hand, one in work, and one more for batches of other sizes */
  EXPECT(walk(set, pool, FAULT_MAP) <= 1);
  EXPECT_EQUAL(walk(set, pool, FAULT_OPEN), 0);
  EXPECT(walk(set, pool, FAULT_STAT) <= 2 * READS); /* one to read, one to tell of rows to come */
  EXPECT(ur_pool_allocations(pool) <= pieces + 1);
  ur_pool_release(pool);
  ur_set_release(set);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  (void)snprintf(path, sizeof path, "%s/a.urec", folder);
  fixture *part = make_part(ROWS, 0, 0);
  store_part(part, path);
  free(part);
  a_warm_read_costs("openings", FAULT_OPEN, (int[5]){0, 0, 0, 0, 0});
  a_warm_read_costs("mappings", FAULT_MAP, (int[5]){0, 0, 0, 0, 0});
  a_warm_read_costs("looks at the file", FAULT_STAT, (int[5]){1, 1, 1, 1, 0});
  a_warm_read_costs("reads", FAULT_READ, (int[5]){0, 2, BATCH * 2, 2, 0}); /* completions of io_uring too */
  a_warm_read_costs("calls of io_uring", FAULT_RING, (int[5]){0, 0, 2, 2, 0});
  a_warm_read_costs("allocations", FAULT_MEMORY, (int[5]){3, 5, 5, 5, 3});
  the_parts_of_a_batch_are_read_together();
  many_parts_are_looked_at_once_in_a_while();
  a_warm_epoch_maps_nothing();
  return remove_folder(folder);
}
