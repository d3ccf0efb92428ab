/* faults_chunks.c - boxes of values in chunks, where each allocation and each call to the system fails in turn: an error that
 * says so, never another value, and nothing lost.
 *
 * A case opens the frozen part whose columns are in chunks, reads boxes of each and all of it, and gives everything back, in a
 * thread of its own. The call to fail moves on until a case passes without any failure.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "expect.h"
#include "fault_seam.h"
#include "unirecord_internal.h"

/* As test_chunks.c says: 1 uint16[5, 6], 2 float32[3, 16]?, 3 bytes?, 5 text. */
enum { ROWS = 7, MOST = 1 << 12, ROOM = 512 };

static const struct {
  int32_t column, rank;
  int64_t shape[2], sizes[2], bytes;
} wanted[] = {{1, 2, {5, 6}, {3, 4}, 24}, {2, 2, {3, 16}, {2, 9}, 72}, {3, 1, {0}, {5}, 5}, {5, 1, {0}, {40}, 40}};
enum { COLUMNS = sizeof wanted / sizeof *wanted };

static const int64_t rows[] = {6, 1, 3}; /* with values of each column that have such boxes */
enum { TAKEN = sizeof rows / sizeof *rows };

typedef struct {
  uint8_t boxes[COLUMNS][ROOM], valid[COLUMNS][TAKEN], whole[MOST];
} contents;

static contents expected;
static int64_t cases, failed_cases;

static bool clear(ur_status status, const ur_error *error) {
  if (status == UR_OK) return true;
  EXPECT(status == UR_NO_MEMORY || status == UR_IO || status == UR_NOT_FOUND || status == UR_STALE || status == UR_FORMAT);
  EXPECT_EQUAL(error->status, status);
  EXPECT(error->what[0] != '\0');
  if (status == UR_IO) EXPECT(error->os_errno != 0);
  return false;
}

static ur_status read_boxes(ur_set *set, int c, contents *found, ur_error *error) {
  int64_t starts[2 * TAKEN];
  for (int i = 0; i < 2 * TAKEN; i++) starts[i] = 1 + i % 2;
  ur_boxes boxes = {.rank = wanted[c].rank, .shape = wanted[c].shape[0] > 0 ? wanted[c].shape : NULL,
                    .sizes = wanted[c].sizes, .starts = starts};
  ur_output output = {.column = wanted[c].column, .data = found->boxes[c], .capacity = ROOM, .valid = found->valid[c],
                      .boxes = &boxes};
  return ur_set_read(set, rows, TAKEN, &output, 1, error);
}

static ur_status read_whole(ur_set *set, contents *found, ur_error *error) {
  int64_t offsets[TAKEN + 1];
  ur_output output = {.column = 5, .data = found->whole, .capacity = MOST, .offsets = offsets};
  return ur_set_read(set, rows, TAKEN, &output, 1, error);
}

static ur_status open_part(int32_t io, ur_set **set, ur_error *error) {
  ur_part_ref ref = {.data_path = "tests/data/version1/chunked.urec", .rows = -1};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
  return ur_set_open(&ref, 1, &options, set, error);
}

static void same_boxes(int c, const contents *found) {
  EXPECT(memcmp(found->valid[c], expected.valid[c], TAKEN) == 0);
  for (int i = 0; i < TAKEN; i++) {
    size_t at = (size_t)(i * wanted[c].bytes);
    if (found->valid[c][i]) EXPECT(memcmp(found->boxes[c] + at, expected.boxes[c] + at, (size_t)wanted[c].bytes) == 0);
  }
}

typedef struct {
  const fault_plan *plan;
  int32_t io;
} one_case;

static void *run_case(void *argument) {
  const one_case *given = argument;
  static contents found;
  ur_set *set = NULL;
  ur_error error = {0};
  fault_arm(given->plan);
  if (!clear(open_part(given->io, &set, &error), &error)) return NULL;
  for (int c = 0; c < COLUMNS; c++) {
    memset(&found, 0xee, sizeof found);
    bool good = clear(read_boxes(set, c, &found, &error), &error);
    if (!good && !given->plan->for_ever) good = clear(read_boxes(set, c, &found, &error), &error); /* a fault that has passed */
    EXPECT(good || given->plan->for_ever);
    if (good) same_boxes(c, &found);
  }
  if (clear(read_whole(set, &found, &error), &error)) EXPECT(memcmp(found.whole, expected.whole, 50 * (2 + 1 + 3)) == 0);
  ur_set_release(set);
  return NULL;
}

static void fail_each(fault_plan plan, int32_t io) {
  for (plan.for_ever = 0; plan.for_ever < 2; plan.for_ever++)
    for (plan.at = 0;; plan.at++) {
      one_case given = {&plan, io};
      int64_t failures = fault_alone(run_case, &given);
      cases++;
      failed_cases += failures > 0;
      if (failures == 0) break;
      EXPECT(plan.at < 10000);
    }
}

int main(void) {
  static const fault_plan plans[] = {
      {.calls = FAULT_MEMORY, .error = ENOMEM}, {.calls = FAULT_MAP, .error = ENOMEM},
      {.calls = FAULT_OPEN, .error = EMFILE},   {.calls = FAULT_STAT, .error = EIO},
      {.calls = FAULT_READ, .error = EIO},      {.calls = FAULT_READ, .manner = FAULT_SHORT},
      {.calls = FAULT_READ, .manner = FAULT_END}, {.calls = FAULT_RING, .error = EPERM},
      {.calls = FAULT_HINT, .error = EINVAL},
  };
  static const int32_t ways[] = {UR_IO_MAP, UR_IO_PREAD, UR_IO_URING, UR_IO_MEMORY};
  ur_set *set = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(open_part(UR_IO_MAP, &set, &error), UR_OK);
  for (int c = 0; c < COLUMNS; c++) EXPECT_EQUAL(read_boxes(set, c, &expected, &error), UR_OK);
  EXPECT_EQUAL(read_whole(set, &expected, &error), UR_OK);
  ur_set_release(set);
  for (size_t io = 0; io < sizeof ways / sizeof *ways; io++)
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) fail_each(plans[i], ways[io]);
  printf("%lld cases, a call failed in %lld\n", (long long)cases, (long long)failed_cases);
  return 0;
}
