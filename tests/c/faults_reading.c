/* faults_reading.c - every allocation and every call to the system fails, one after the other: clear, no leak, nothing lost.
 *
 * A case opens two parts, reads them, walks them with a loader and gives everything back, in a thread of its own (so that
 * the thread's ring goes too). The call to fail moves on until a case passes without any failure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "batch/read.h"
#include "fault_seam.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 40, BOTH = 2 * ROWS, BATCH = 7 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[2][64];
static int64_t cases, failed_cases;

/* What a failure may be called. */
static void expect_clear(ur_status status, const ur_error *error) {
  if (status == UR_OK) return;
  EXPECT(status == UR_NO_MEMORY || status == UR_IO || status == UR_NOT_FOUND || status == UR_STALE || status == UR_FORMAT);
  EXPECT_EQUAL(error->status, status);
  EXPECT(error->what[0] != '\0');
  if (status == UR_IO) EXPECT(error->os_errno != 0);
}

/* Reads all rows, and once more when that failed: a fault that has passed leaves nothing behind. */
static void read_all(ur_set *set, const fault_plan *plan) {
  static contents found;
  int64_t rows[BOTH];
  ur_error error = {0};
  for (int64_t i = 0; i < BOTH; i++) rows[i] = (i * 7 + 3) % BOTH;
  ur_status status = read_columns(set, rows, BOTH, 4, &found, &error);
  expect_clear(status, &error);
  if (status != UR_OK && !plan->for_ever) EXPECT_EQUAL(read_columns(set, rows, BOTH, 4, &found, &error), UR_OK);
  if (status == UR_OK || !plan->for_ever)
    for (int64_t i = 0; i < BOTH; i++) expect_row(&found, i, rows[i] % ROWS, 0);
  ur_set_advise(set, rows, BOTH);
}

static void look_at_part(ur_set *set) {
  ur_part *part = NULL;
  ur_error error = {0};
  ur_status status = ur_set_part(set, 1, &part, &error);
  expect_clear(status, &error);
  if (status != UR_OK) return;
  uint64_t offset = 0, bytes = 0;
  status = ur_part_locate(part, 8, 3, &offset, &bytes, &error);
  expect_clear(status, &error);
  if (status == UR_OK) EXPECT_EQUAL(bytes, 8 % 7);
  ur_part_release(part);
}

static void drain(ur_loader *loader, const fault_plan *plan) {
  int64_t delivered = 0, failures = 0;
  for (;;) {
    ur_batch_info info;
    ur_error error = {0};
    ur_status status = ur_loader_next(loader, &info, &error);
    if (status == UR_END) break;
    expect_clear(status, &error);
    if (status == UR_OK) {
      expect_batch(&info, ROWS);
      delivered += info.rows;
      ur_batch_release(info.batch);
    } else if (++failures > 2 * BOTH) {
      break; /* no thread can be started, ever */
    }
  }
  if (failures == 0) EXPECT_EQUAL(delivered, BOTH);
  if (!plan->for_ever) EXPECT(delivered >= BOTH - BATCH);
}

static void walk(ur_set *set, const fault_plan *plan) {
  int32_t columns[] = {0, 1, 2, 3};
  ur_order *order = NULL;
  ur_pool *pool = NULL;
  ur_loader *loader = NULL;
  ur_error error = {0};
  ur_status status = ur_order_new(BOTH, UR_ORDER_SHUFFLE, 1, 0, 0, 0, NULL, 0, &order, &error);
  expect_clear(status, &error);
  if (status == UR_OK) expect_clear(status = ur_pool_new(1, &pool, &error), &error);
  ur_loader_options options = {.order = order, .selection_step = 1, .stride = 1, .samples = BOTH, .batch_size = BATCH,
                               .prefetch = 2, .threads = 1, .output_count = 4, .columns = columns};
  if (status == UR_OK) expect_clear(status = ur_loader_new(set, pool, &options, &loader, &error), &error);
  if (status == UR_OK) drain(loader, plan);
  ur_loader_release(loader);
  ur_pool_release(pool);
  ur_order_release(order);
}

typedef struct {
  const fault_plan *plan;
  ur_set_options options;
  bool joined;
} one_case;

/* The parts twice, as two layers of one set. */
static ur_status open_joined(const ur_part_ref *refs, const ur_set_options *options, ur_set **out, ur_error *error) {
  static const ur_joined_column columns[] = {{0, 0}, {1, 1}, {1, 2}, {0, 3}};
  ur_set *layers[2] = {NULL, NULL};
  ur_status status = ur_set_open(refs, 2, options, &layers[0], error);
  if (status == UR_OK) status = ur_set_open(refs, 2, options, &layers[1], error);
  if (status == UR_OK) status = ur_set_join(layers, 2, columns, 4, out, error);
  for (int i = 0; i < 2; i++) ur_set_release(layers[i]);
  return status;
}

static void *run_case(void *argument) {
  const one_case *given = argument;
  ur_part_ref refs[2] = {{.data_path = paths[0], .rows = ROWS}, {.data_path = paths[1], .rows = -1}};
  ur_set *set = NULL;
  ur_error error = {0};
  fault_arm(given->plan);
  ur_status status = given->joined ? open_joined(refs, &given->options, &set, &error)
                                   : ur_set_open(refs, 2, &given->options, &set, &error);
  expect_clear(status, &error);
  if (status != UR_OK) return NULL;
  read_all(set, given->plan);
  look_at_part(set);
  walk(set, given->plan);
  ur_set_release(set);
  return NULL;
}

/* One kind of call, one manner of failing, one way of reading: at each call in turn, once and for ever. */
static void fail_each(fault_plan plan, int io, bool joined) {
  for (plan.for_ever = 0; plan.for_ever < 2; plan.for_ever++)
    for (plan.at = 0;; plan.at++) {
      one_case given = {&plan, {.io = io, .verify = UR_VERIFY_FIRST}, joined};
      int64_t failures = fault_alone(run_case, &given);
      cases++;
      failed_cases += failures > 0;
      if (failures == 0) break;
      EXPECT(plan.at < 100000);
    }
}

/* What a ring fails with says nothing of the file: it is read by other means. */
static void what_fails_in_the_ring_is_read_plainly(void) {
  static contents found;
  static const int errors[] = {EINTR, EAGAIN, ECANCELED, EINVAL, ENOMEM, EPERM, EOPNOTSUPP, EIO};
  ur_part_ref ref = {.data_path = paths[0], .rows = ROWS};
  int64_t rows[ROWS];
  for (int64_t i = 0; i < ROWS; i++) rows[i] = i;
  for (int io = UR_IO_URING; io <= UR_IO_URING_DIRECT; io++)
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
      ur_set_options options = {.io = io, .verify = UR_VERIFY_ALWAYS};
      ur_set *set = NULL;
      ur_error error = {0};
      EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, &error), UR_OK);
      EXPECT_EQUAL(read_columns(set, rows, ROWS, 4, &found, &error), UR_OK);
      if (ur_set_io(set) == io) {
        fault_plan plan = {.calls = FAULT_READ, .error = errors[e]};
        fault_arm(&plan);
        EXPECT_EQUAL(read_columns(set, rows, ROWS, 4, &found, &error), UR_OK);
        EXPECT_EQUAL(fault_disarm(), 1);
        for (int64_t i = 0; i < ROWS; i++) expect_row(&found, i, i, 0);
      }
      ur_set_release(set);
    }
}

/* A thread that sleeps for want of room takes a while to wake: who asks for two batches in a row fills the second. */
static void a_batch_that_nobody_has_begun_is_filled_by_its_consumer(void) {
  enum { TRIES = 500 };
  ur_part_ref ref = {.data_path = paths[0], .rows = ROWS};
  ur_set_options options = {.io = UR_IO_PREAD, .verify = UR_VERIFY_FIRST};
  int32_t columns[] = {0, 1, 2, 3};
  ur_set *set = NULL;
  ur_order *order = NULL;
  ur_pool *pool = NULL;
  ur_loader *loader = NULL;
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_order_new(ROWS, UR_ORDER_SHUFFLE, 1, 0, 0, 0, NULL, 0, &order, NULL), UR_OK);
  EXPECT_EQUAL(ur_pool_new(1, &pool, NULL), UR_OK);
  ur_loader_options wanted = {.order = order, .selection_step = 1, .stride = 1, .samples = TRIES * 2 * BATCH,
                              .batch_size = BATCH, .prefetch = 1, .threads = 1, .output_count = 4, .columns = columns};
  EXPECT_EQUAL(ur_loader_new(set, pool, &wanted, &loader, NULL), UR_OK);
  int64_t before = fault_reads_here(), delivered = 0;
  for (int i = 0; i < 2 * TRIES; i++) {
    ur_batch_info info;
    if (i % 2 == 0) (void)usleep(1000);
    EXPECT_EQUAL(ur_loader_next(loader, &info, NULL), UR_OK);
    EXPECT_EQUAL(info.number, i);
    expect_batch(&info, ROWS);
    delivered += info.rows;
    ur_batch_release(info.batch);
    if (i > 2 && fault_reads_here() > before) break;
  }
  EXPECT(delivered > 0 && fault_reads_here() > before);
  ur_loader_release(loader);
  ur_pool_release(pool);
  ur_order_release(order);
  ur_set_release(set);
}

int main(void) {
  static const fault_plan plans[] = {
      {.calls = FAULT_MEMORY, .error = ENOMEM},
      {.calls = FAULT_MAP, .error = ENOMEM},
      {.calls = FAULT_MAP, .error = ENODEV},
      {.calls = FAULT_OPEN, .error = EMFILE},
      {.calls = FAULT_OPEN, .error = EIO},
      {.calls = FAULT_STAT, .error = EIO},
      {.calls = FAULT_READ, .error = EIO},
      {.calls = FAULT_READ, .manner = FAULT_SHORT},
      {.calls = FAULT_READ, .manner = FAULT_END},
      {.calls = FAULT_RING, .error = EPERM},
      {.calls = FAULT_THREAD, .error = EAGAIN},
      {.calls = FAULT_HINT, .error = EINVAL},
  };
  EXPECT(mkdtemp(folder) != NULL);
  for (int i = 0; i < 2; i++) {
    (void)snprintf(paths[i], sizeof paths[i], "%s/%d.urec", folder, i);
    fixture *part = make_part(ROWS, 0, (uint64_t)i);
    store_part(part, paths[i]);
    free(part);
  }
  what_fails_in_the_ring_is_read_plainly();
  a_batch_that_nobody_has_begun_is_filled_by_its_consumer();
  for (int io = UR_IO_AUTO; io <= UR_IO_MEMORY; io++) {
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
      if (io != UR_IO_AUTO || plans[i].calls == FAULT_STAT || plans[i].calls == FAULT_OPEN) fail_each(plans[i], io, false);
    for (int calls = FAULT_OPEN; calls <= FAULT_RING; calls *= 2) { /* interrupted: as if nothing had happened */
      fault_plan plan = {.calls = calls, .error = EINTR};
      for (plan.at = 0; plan.at < 12 && calls != FAULT_STAT; plan.at++) {
        if (calls == FAULT_RING) plan.error = plan.at % 3 == 0 ? EINTR : plan.at % 3 == 1 ? EAGAIN : EBUSY;
        one_case given = {&plan, {.io = io, .verify = UR_VERIFY_ALWAYS}, false};
        (void)run_case(&given);
        (void)fault_disarm();
        cases++;
      }
    }
  }
  for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) fail_each(plans[i], UR_IO_PREAD, true);
  printf("%lld cases, a call failed in %lld\n", (long long)cases, (long long)failed_cases);
  return remove_folder(folder);
}
