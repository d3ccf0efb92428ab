/* faults_ahead.c - units that share a digest checked before anyone asks: in memory only, and never blamed on who did not ask. */
#define _GNU_SOURCE
#include "fault_seam.h"
#include "part/part.h"
#include "part_contents.h"
#include "set/set.h"
#include "unirecord_internal.h"

enum { ROWS = 40, UNIT = 1, UNITS = 40, MANY = 32, AHEAD = 16 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char path[64];
static ur_set *set;
static ur_part *part;

static void open_part(int io, int verify) {
  ur_part_ref ref = {.data_path = path, .rows = -1};
  ur_set_options options = {.io = io, .verify = verify};
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_set_part(set, 0, &part, NULL), UR_OK);
}

static void close_part(void) {
  ur_part_release(part);
  ur_set_release(set);
}

/* Row `row` n times in one batch, and how many units are then still to be checked. */
static int64_t left_after(int64_t row, int64_t n, ur_status expected) {
  static contents found;
  int64_t rows[MANY];
  ur_error error = {0};
  for (int64_t i = 0; i < n; i++) rows[i] = row;
  EXPECT_EQUAL(read_columns(set, rows, n, 3, &found, &error), expected);
  if (expected == UR_OK)
    for (int64_t i = 0; i < n; i++) expect_row(&found, i, row, 1);
  else
    EXPECT_EQUAL(error.row, row);
  return (int64_t)atomic_load(&part->units_left);
}

static void store(uint64_t damaged_row) {
  fixture *made = make_part(ROWS, 1, UNIT);
  uint64_t offset = 0, bytes = 0;
  store_part(made, path);
  open_part(UR_IO_PREAD, UR_VERIFY_NEVER);
  EXPECT_EQUAL(ur_part_locate(part, (int64_t)damaged_row, 2, &offset, &bytes, NULL), UR_OK);
  close_part();
  made->data[offset] ^= 1;
  store_part(made, path);
  free(made);
}

static void many_rows_check_what_follows(void) {
  store(37);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io += UR_IO_MEMORY - UR_IO_MAP) {
    open_part(io, UR_VERIFY_FIRST);
    EXPECT_EQUAL(left_after(22, MANY, UR_OK), UNITS - 1 - AHEAD);
    EXPECT_EQUAL(left_after(33, MANY, UR_OK), UNITS - 2 - 2 * AHEAD + 1); /* row 22 was among those ahead */
    EXPECT_EQUAL(left_after(39, MANY, UR_OK), 1);
    EXPECT_EQUAL(left_after(37, MANY, UR_CORRUPT), 1);
    EXPECT_EQUAL(left_after(37, 1, UR_CORRUPT), 1);
    EXPECT_EQUAL(left_after(0, MANY, UR_OK), 1);
    close_part();
  }
}

static void few_rows_check_their_own(void) {
  open_part(UR_IO_MAP, UR_VERIFY_FIRST);
  EXPECT_EQUAL(left_after(22, MANY - 1, UR_OK), UNITS - 1);
  EXPECT_EQUAL(left_after(22, MANY, UR_OK), UNITS - 1); /* nothing was left to check */
  close_part();
}

static void nobody_checks_ahead_who_would_forget_or_wait(void) {
  open_part(UR_IO_MAP, UR_VERIFY_ALWAYS);
  EXPECT_EQUAL(left_after(22, MANY, UR_OK), UNITS);
  close_part();
  open_part(UR_IO_PREAD, UR_VERIFY_FIRST);
  EXPECT_EQUAL(left_after(22, MANY, UR_OK), UNITS - 1);
  close_part();
  fault_plan not_in_memory = {.calls = FAULT_HINT, .for_ever = 1};
  open_part(UR_IO_MAP, UR_VERIFY_FIRST);
  fault_arm(&not_in_memory);
  EXPECT_EQUAL(left_after(22, MANY, UR_OK), UNITS - 1);
  EXPECT_EQUAL(fault_disarm(), 1);
  close_part();
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  (void)snprintf(path, sizeof path, "%s/a.urec", folder);
  many_rows_check_what_follows();
  few_rows_check_their_own();
  nobody_checks_ahead_who_would_forget_or_wait();
  return remove_folder(folder);
}
