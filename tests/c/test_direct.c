/* test_direct.c - rows of fixed width of many parts, read by the table of where their columns begin: when, and when no more. */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "batch/direct.h"
#include "part_contents.h"

enum { ROWS = 20, PARTS = 12, ALL = ROWS * PARTS, ARRAY = 2, ARRAY_BYTES = 24 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[PARTS][64];

static void store(int fixed) {
  fixture *part = make_part(ROWS, fixed, 4);
  for (int i = 0; i < PARTS; i++) {
    (void)snprintf(paths[i], sizeof paths[i], "%.40s/%d.urec", folder, i);
    store_part(part, paths[i]);
  }
  free(part);
}

static ur_set *open_set(int io, int verify) {
  ur_part_ref refs[PARTS];
  for (int i = 0; i < PARTS; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = ROWS};
  ur_set_options options = {.io = io, .verify = verify};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &set, NULL), UR_OK);
  return set;
}

/* Reads the array of every row in another order; how the rows were found. */
static ur_status read_arrays(ur_set *set, bool *direct, ur_error *error) {
  static uint8_t data[ALL * ARRAY_BYTES], valid[ALL];
  int64_t rows[ALL];
  for (int64_t i = 0; i < ALL; i++) rows[i] = i * 77 % ALL;
  ur_output output = {.column = ARRAY, .data = data, .capacity = sizeof data, .valid = valid};
  ur_read read;
  memset(data, 0xEE, sizeof data);
  memset(valid, 0, sizeof valid);
  ur_status status = ur_read_open(&read, set, rows, ALL, &output, 1, NULL, error);
  *direct = status == UR_OK && read.direct != NULL;
  if (status == UR_OK) status = ur_read_measure(&read, &output, 1, error);
  if (status == UR_OK) EXPECT_EQUAL(output.used, sizeof data);
  if (status == UR_OK) status = ur_read_gather(&read, &output, 1, error);
  ur_read_close(&read);
  for (int64_t i = 0; i < ALL && status == UR_OK; i++) {
    EXPECT_EQUAL(valid[i], 1);
    for (int b = 0; b < ARRAY_BYTES; b++) EXPECT_EQUAL(data[i * ARRAY_BYTES + b], rows[i] % ROWS);
  }
  return status;
}

/* Whether a batch is read so at last, all of it right. */
static bool becomes_direct(ur_set *set) {
  bool direct = false;
  for (int i = 0; i < 3; i++) EXPECT_EQUAL(read_arrays(set, &direct, NULL), UR_OK);
  return direct;
}

static void what_has_been_read_is_found_directly(void) {
  store(1);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++)
    for (int verify = UR_VERIFY_FIRST; verify <= UR_VERIFY_NEVER; verify++) {
      bool first = true, mapped = io == UR_IO_MAP || io == UR_IO_MEMORY;
      ur_set *set = open_set(io, verify);
      EXPECT_EQUAL(read_arrays(set, &first, NULL), UR_OK);
      EXPECT(!first);
      EXPECT_EQUAL(becomes_direct(set), mapped && verify != UR_VERIFY_ALWAYS);
      ur_set_release(set);
    }
}

static void rows_of_changing_width_are_not(void) {
  store(0);
  ur_set *set = open_set(UR_IO_MAP, UR_VERIFY_FIRST);
  EXPECT(!becomes_direct(set));
  ur_set_release(set);
}

static void other_columns_and_wrong_rows_are_read_as_ever(void) {
  store(1);
  ur_set *set = open_set(UR_IO_MAP, UR_VERIFY_FIRST);
  EXPECT(becomes_direct(set));
  int64_t rows[PARTS], wrong[] = {0, ALL}, offsets[PARTS + 1];
  for (int64_t i = 0; i < PARTS; i++) rows[i] = i * ROWS + i;
  static contents found;
  EXPECT_EQUAL(read_columns(set, rows, PARTS, 3, &found, NULL), UR_OK);
  for (int64_t i = 0; i < PARTS; i++) expect_row(&found, i, i, 1);
  ur_output outputs[] = {{.column = 0}, {.column = 1, .offsets = offsets}, {.column = -1}, {.column = 3},
                         {.column = ARRAY, .offsets = offsets}};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    ur_read read;
    EXPECT_EQUAL(ur_read_open(&read, set, rows, PARTS, &outputs[i], 1, NULL, NULL), UR_OK);
    EXPECT(read.direct == NULL);
    ur_read_close(&read);
  }
  uint8_t data[2 * ARRAY_BYTES];
  ur_output array = {.column = ARRAY, .data = data, .capacity = sizeof data};
  ur_error error = {0};
  EXPECT_EQUAL(ur_set_read(set, wrong, 2, &array, 1, &error), UR_ARGUMENT);
  EXPECT_EQUAL(error.row, ALL);
  EXPECT_EQUAL(ur_set_read(set, wrong, 0, &array, 1, &error), UR_OK);
  array.capacity = sizeof data - 1;
  EXPECT_EQUAL(ur_set_read(set, rows, 2, &array, 1, &error), UR_TOO_SMALL);
  EXPECT_EQUAL(array.used, sizeof data);
  ur_set_release(set);
}

/* The part of a row is guessed from how many rows parts have on the average. */
static void parts_of_unequal_rows_are_told_apart(void) {
  enum { SHORT = 3 };
  ur_part_ref refs[PARTS];
  int64_t rows[ALL], expected[ALL], count = 0;
  for (int i = 0; i < PARTS; i++) {
    int64_t own = i % 4 == 1 ? ROWS : SHORT;
    fixture *part = make_part((uint64_t)own, 1, 4);
    (void)snprintf(paths[i], sizeof paths[i], "%.40s/%d.urec", folder, i);
    store_part(part, paths[i]);
    free(part);
    refs[i] = (ur_part_ref){.data_path = paths[i], .rows = own};
    for (int64_t r = 0; r < own; r++, count++) {
      rows[count] = count;
      expected[count] = r;
    }
  }
  ur_set_options options = {.io = UR_IO_MAP, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &set, NULL), UR_OK);
  bool direct = false;
  for (int i = 0; i < 3; i++) {
    static uint8_t data[ALL * ARRAY_BYTES];
    ur_output output = {.column = ARRAY, .data = data, .capacity = sizeof data};
    ur_read read;
    memset(data, 0xEE, sizeof data);
    EXPECT_EQUAL(ur_read_open(&read, set, rows, count, &output, 1, NULL, NULL), UR_OK);
    direct = read.direct != NULL;
    EXPECT_EQUAL(ur_read_measure(&read, &output, 1, NULL), UR_OK);
    EXPECT_EQUAL(ur_read_gather(&read, &output, 1, NULL), UR_OK);
    ur_read_close(&read);
    for (int64_t k = 0; k < count * ARRAY_BYTES; k++) EXPECT_EQUAL(data[k], expected[k / ARRAY_BYTES]);
  }
  EXPECT(direct);
  ur_set_release(set);
}

static void wait_a_tick(void) {
  int64_t now = ur_file_clock();
  while (ur_file_clock() - now < 20000000) (void)usleep(1000); /* more than a tick, and than a look is trusted */
}

static void a_file_that_changes_is_told_of(void) {
  for (int few = 0; few < 2; few++) {
    bool direct = false;
    ur_error error = {0};
    store(1);
    ur_set *set = open_set(UR_IO_MAP, UR_VERIFY_FIRST);
    EXPECT(becomes_direct(set));
    wait_a_tick();
    EXPECT_EQUAL(read_arrays(set, &direct, NULL), UR_OK);
    EXPECT(direct); /* looked at anew, and found as it was */
    EXPECT_EQUAL(truncate(paths[3], 100), 0);
    if (few) { /* a batch of few parts looks at them each time */
      uint8_t data[ARRAY_BYTES];
      int64_t row = 3 * ROWS;
      ur_output output = {.column = ARRAY, .data = data, .capacity = sizeof data};
      EXPECT_EQUAL(ur_set_read(set, &row, 1, &output, 1, &error), UR_STALE);
    } else {
      wait_a_tick();
      EXPECT_EQUAL(read_arrays(set, &direct, &error), UR_STALE);
    }
    EXPECT_EQUAL(error.part, 3);
    ur_set_release(set);
  }
}

static void what_is_wrong_is_never_noted(void) {
  store(1);
  fixture *part = make_part(ROWS, 1, 4);
  uint8_t *cell = memmem(part->data, part->data_bytes, (uint8_t[]){7, 7, 7, 7, 7, 7, 7, 7}, 8);
  EXPECT(cell != NULL);
  *cell ^= 1;
  store_part(part, paths[5]);
  free(part);
  ur_set *set = open_set(UR_IO_MAP, UR_VERIFY_FIRST);
  for (int i = 0; i < 3; i++) {
    bool direct = true;
    ur_error error = {0};
    EXPECT_EQUAL(read_arrays(set, &direct, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.part, 5);
    EXPECT(!direct);
  }
  ur_set_release(set);
}

/* Ending waits for batches under way; a forked child has none of them, and waits for nothing. */
static void it_ends_and_a_child_begins_anew(void) {
  store(1);
  ur_set *set = open_set(UR_IO_MAP, UR_VERIFY_FIRST);
  EXPECT(becomes_direct(set));
  int64_t row = 0;
  ur_output output = {.column = ARRAY};
  ur_read under_way;
  EXPECT_EQUAL(ur_read_open(&under_way, set, &row, 1, &output, 1, NULL, NULL), UR_OK);
  EXPECT(under_way.direct != NULL);
  pid_t child = fork();
  if (child == 0) {
    (void)alarm(20); /* a child that waits for what never ends */
    EXPECT(becomes_direct(set));
    ur_direct_end(set);
    EXPECT(!becomes_direct(set));
    _exit(0);
  }
  int status = -1;
  EXPECT_EQUAL(waitpid(child, &status, 0), child);
  EXPECT_EQUAL(status, 0);
  ur_read_close(&under_way);
  EXPECT(becomes_direct(set));
  ur_direct_end(set);
  ur_direct_end(set);
  EXPECT(!becomes_direct(set));
  ur_set_release(set);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  what_has_been_read_is_found_directly();
  rows_of_changing_width_are_not();
  other_columns_and_wrong_rows_are_read_as_ever();
  parts_of_unequal_rows_are_told_apart();
  a_file_that_changes_is_told_of();
  what_is_wrong_is_never_noted();
  it_ends_and_a_child_begins_anew();
  return remove_folder(folder);
}
