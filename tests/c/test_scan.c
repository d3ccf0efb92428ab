/* test_scan.c - scans over buffers of exact size give what a slow loop gives, and touch nothing beside them. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "scan_rows.h"
#include "unirecord_internal.h"

enum { ROWS = 9001, INT32 = 6, INT64 = 8, UINT64 = 9, FLOAT16 = 10, FLOAT32 = 11, UINT16 = 5 };

static uint64_t state = 1;

static uint32_t draw(uint32_t below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(state >> 33) % below;
}

/* Runs one step over runs that start and stop anywhere, and compares with `passes`, one byte a row. */
static void expect_rows(const ur_scan_step *steps, int32_t count, const uint8_t *passes, int64_t rows) {
  int64_t runs[] = {0, rows / 3, 0, rows / 3, rows / 3, 0, rows / 2 + 1, rows - 5, 0, rows - 5, rows, 1};
  int64_t expected[ROWS], wanted = 0, found = -1;
  for (int run = 0; run < 4; run++)
    for (int64_t row = runs[3 * run]; row < runs[3 * run + 1]; row++)
      if (runs[3 * run + 2] || passes[row]) expected[wanted++] = row + 100;
  int64_t *got = malloc((size_t)wanted * sizeof *got + 1);
  EXPECT(scan_rows(steps, count, runs, 4, 100, NULL, &found) == UR_OK);
  EXPECT(found == wanted);
  EXPECT(scan_rows(steps, count, runs, 4, 100, got, &found) == UR_OK);
  EXPECT(found == wanted);
  EXPECT(memcmp(got, expected, (size_t)wanted * sizeof *got) == 0);
  free(got);
}

static void test_ranges_of_int32(void) {
  int32_t *values = malloc(ROWS * sizeof *values);
  uint8_t passes[ROWS];
  for (uint32_t below = 2; below < 20000; below *= 7) {
    for (int i = 0; i < ROWS; i++) {
      values[i] = (int32_t)draw(below) - 3;
      passes[i] = values[i] >= -2 && values[i] <= 0;
    }
    ur_scan_step step = {.op = UR_SCAN_RANGE, .type = INT32, .data = values, .low = (uint64_t)INT64_C(-2), .high = 0};
    expect_rows(&step, 1, passes, ROWS);
    for (int i = 0; i < ROWS; i++) passes[i] = !passes[i];
    step.negated = 1;
    expect_rows(&step, 1, passes, ROWS);
  }
  free(values);
}

static void test_floats_leave_out_nan(void) {
  float *values = malloc(ROWS * sizeof *values);
  uint8_t passes[ROWS];
  float low = -INFINITY, high = 1.5F;
  for (int i = 0; i < ROWS; i++) {
    values[i] = i % 5 == 0 ? NAN : (float)draw(4) - 0.5F;
    passes[i] = values[i] >= low && values[i] <= high;
  }
  uint32_t bits[2];
  memcpy(&bits[0], &low, 4);
  memcpy(&bits[1], &high, 4);
  ur_scan_step step = {.op = UR_SCAN_RANGE, .type = FLOAT32, .data = values, .low = bits[0], .high = bits[1]};
  expect_rows(&step, 1, passes, ROWS);
  for (int i = 0; i < ROWS; i++) passes[i] = !passes[i];
  step.negated = 1;
  expect_rows(&step, 1, passes, ROWS);
  free(values);
}

/* The column begins after row 0, at no address in particular. */
static void test_ranges_of_int64_with_a_first_row(void) {
  static const int64_t near[] = {INT64_MIN, -1, 0, INT64_C(1) << 32, INT64_MAX};
  uint8_t *memory = malloc((ROWS + 1) * sizeof(int64_t)), passes[ROWS];
  int64_t runs[] = {107, 100 + ROWS - 3, 0}, *rows = malloc(ROWS * sizeof *rows), count = 0, wanted = 0;
  for (int i = 0; i < ROWS; i++) {
    int64_t value = near[draw(5)];
    memcpy(memory + 1 + (size_t)i * sizeof value, &value, sizeof value);
    passes[i] = value >= -1 && value <= INT64_C(1) << 32;
  }
  ur_scan_step step = {.op = UR_SCAN_RANGE, .type = INT64, .data = memory + 1, .first = 100, .low = UINT64_MAX,
                       .high = UINT64_C(1) << 32};
  for (step.negated = 0; step.negated < 2; step.negated++, wanted = 0) {
    EXPECT(scan_rows(&step, 1, runs, 1, 0, rows, &count) == UR_OK);
    for (int64_t row = runs[0]; row < runs[1]; row++)
      if (passes[row - 100] != step.negated) EXPECT(wanted < count && rows[wanted++] == row);
    EXPECT(wanted == count);
  }
  free(rows);
  free(memory);
}

static void test_halves_are_ordered_as_numbers(void) {
  /* -inf, -1, -0, 0, smallest, 1, inf, NaN, -NaN */
  const uint16_t halves[] = {0xfc00, 0xbc00, 0x8000, 0x0000, 0x0001, 0x3c00, 0x7c00, 0x7e00, 0xfe00};
  const uint8_t passes[] = {0, 0, 1, 1, 1, 1, 0, 0, 0};
  int64_t runs[] = {0, 9, 0}, rows[9], count = 0;
  ur_scan_step step = {.op = UR_SCAN_RANGE, .type = FLOAT16, .data = halves, .low = 0x8000, .high = 0x3c00};
  EXPECT(scan_rows(&step, 1, runs, 1, 0, rows, &count) == UR_OK);
  EXPECT(count == 4);
  for (int64_t i = 0; i < count; i++) EXPECT(passes[rows[i]]);
}

static void test_conditions_joined(void) {
  uint64_t *values = malloc(ROWS * sizeof *values);
  uint8_t *bits = calloc((ROWS + 7) / 8, 1), passes[ROWS];
  for (int i = 0; i < ROWS; i++) {
    values[i] = draw(10) ? draw(100) : UINT64_MAX;
    if (draw(3)) bits[i / 8] = (uint8_t)(bits[i / 8] | 1 << i % 8);
    passes[i] = ((values[i] >= 50) && (bits[i / 8] >> i % 8 & 1)) || (i >= 7 && i <= 4200);
  }
  ur_scan_step steps[] = {
      {.op = UR_SCAN_ROWS, .low = 7, .high = 4200},
      {.op = UR_SCAN_RANGE, .type = UINT64, .data = values, .low = 50, .high = UINT64_MAX, .target = 1},
      {.op = UR_SCAN_BITS, .data = bits, .combine = UR_SCAN_AND, .target = 1},
      {.op = UR_SCAN_MASK, .combine = UR_SCAN_OR, .mask = 1},
  };
  expect_rows(steps, 4, passes, ROWS);
  free(values);
  free(bits);
}

static void test_every_byte_of_a_mask(void) {
  for (int64_t rows = 256 * 8 + 6; rows < 256 * 8 + 24; rows++) {
    uint8_t *bytes = malloc((size_t)rows), passes[ROWS];
    for (int64_t i = 0; i < rows; i++) passes[i] = (uint8_t)(i < 256 * 8 ? i / 8 >> i % 8 & 1 : 1);
    for (int64_t i = 0; i < rows; i++) bytes[i] = (uint8_t)(passes[i] << draw(8) & 255);
    ur_scan_step step = {.op = UR_SCAN_BYTES, .data = bytes};
    expect_rows(&step, 1, passes, rows);
    free(bytes);
  }
}

static void test_no_row_and_every_row(void) {
  uint8_t *bytes = malloc(ROWS), passes[ROWS];
  ur_scan_step step = {.op = UR_SCAN_BYTES, .data = bytes};
  for (int value = 0; value < 2; value++) {
    memset(bytes, value, ROWS);
    memset(passes, value, ROWS);
    for (int64_t rows = ROWS; rows > ROWS - 12; rows--) expect_rows(&step, 1, passes, rows);
  }
  free(bytes);
}

static void test_codes_beyond_the_table_are_corrupt(void) {
  uint16_t *codes = malloc(ROWS * sizeof *codes);
  uint8_t table[] = {1, 0, 1}, passes[ROWS];
  for (int i = 0; i < ROWS; i++) {
    codes[i] = (uint16_t)draw(3);
    passes[i] = table[codes[i]];
  }
  ur_scan_step step = {.op = UR_SCAN_TABLE, .type = UINT16, .data = codes, .table = table, .table_entries = 3};
  expect_rows(&step, 1, passes, ROWS);
  codes[5000] = 3;
  int64_t runs[] = {0, ROWS, 0}, count = 0;
  EXPECT(scan_rows(&step, 1, runs, 1, 0, NULL, &count) == UR_CORRUPT);
  EXPECT(count == 5000);
  free(codes);
}

typedef struct {
  ur_scan_step *step;
  ur_scan_run *runs;
  int64_t count, marking, taking, counts[100], places[101], *rows;
  uint64_t *marks;
} shared_scan;

static void *mark_some(void *context) {
  shared_scan *scan = context;
  int64_t broken = 0;
  EXPECT(ur_scan_mark(scan->step, 1, scan->runs, scan->count, &scan->marking, scan->marks, scan->counts, &broken) == UR_OK);
  return NULL;
}

static void *take_some(void *context) {
  shared_scan *scan = context;
  ur_scan_take(scan->runs, scan->count, &scan->taking, scan->marks, scan->places, 0, scan->rows);
  return NULL;
}

static void in_two_threads(void *(*work)(void *), shared_scan *scan) {
  pthread_t other;
  EXPECT(pthread_create(&other, NULL, work, scan) == 0);
  work(scan);
  pthread_join(other, NULL);
}

static void test_threads_share_the_runs(void) {
  enum { EACH = 90, RUNS = 100 };
  static uint8_t bytes[EACH * RUNS];
  static uint64_t marks[RUNS * 2];
  ur_scan_run runs[RUNS];
  ur_scan_step step = {.op = UR_SCAN_BYTES, .data = bytes};
  int64_t wanted = 0, *rows = NULL;
  for (int i = 0; i < EACH * RUNS; i++) bytes[i] = draw(1 + (uint32_t)i / 3000) == 0; /* all pass, then ever fewer */
  for (int i = 0; i < RUNS; i++) runs[i] = (ur_scan_run){i * EACH, (i + 1) * EACH, i % 7 == 0, 2 * i};
  shared_scan scan = {.step = &step, .runs = runs, .count = RUNS, .marks = marks};
  in_two_threads(mark_some, &scan);
  for (int i = 0; i < RUNS; i++) scan.places[i + 1] = scan.places[i] + scan.counts[i];
  scan.rows = rows = malloc((size_t)scan.places[RUNS] * sizeof *rows);
  in_two_threads(take_some, &scan);
  for (int i = 0; i < EACH * RUNS; i++)
    if (bytes[i] || runs[i / EACH].whole) EXPECT(rows[wanted++] == i);
  EXPECT(wanted == scan.places[RUNS]);
  free(rows);
}

static void test_senseless_steps_are_refused(void) {
  int64_t runs[] = {0, 0, 0}, count = 0;
  ur_scan_step good = {.op = UR_SCAN_ROWS};
  ur_scan_step bad[] = {good, good, good, good, good, good};
  bad[0].target = 16;
  bad[1].mask = -1;
  bad[2].combine = 3;
  bad[3].op = 6;
  bad[4].op = UR_SCAN_RANGE;
  bad[5].op = UR_SCAN_TABLE;
  EXPECT(scan_rows(&good, 1, runs, 1, 0, NULL, &count) == UR_OK);
  EXPECT(scan_rows(&good, 0, runs, 1, 0, NULL, &count) == UR_ARGUMENT);
  for (int i = 0; i < 6; i++) EXPECT(scan_rows(&bad[i], 1, runs, 1, 0, NULL, &count) == UR_ARGUMENT);
}

/* kinds: one digit an element, 0 this byte, 1 any one character, 2 any characters */
static int like(const char *text, const char *letters, const char *kinds) {
  size_t bytes = strlen(text), elements = strlen(kinds);
  uint8_t *copy = malloc(bytes + !bytes), pattern[32], meaning[32], mask = 9;
  if (bytes) memcpy(copy, text, bytes);
  for (size_t i = 0; i < elements; i++) {
    pattern[i] = (uint8_t)letters[i];
    meaning[i] = (uint8_t)(kinds[i] - '0');
  }
  uint64_t offsets[] = {0, bytes};
  ur_text_test test = {.op = UR_TEXT_LIKE, .low = pattern, .low_bytes = elements, .high = meaning, .high_bytes = elements};
  EXPECT(ur_scan_text(offsets, copy, bytes, 1, &test, &mask) == UR_OK);
  free(copy);
  return mask;
}

static void test_patterns(void) {
  EXPECT(like("", "", "") == 1);
  EXPECT(like("a", "", "") == 0);
  EXPECT(like("", "%", "2") == 1);
  EXPECT(like("abc", "a%c", "020") == 1);
  EXPECT(like("abcd", "a%c", "020") == 0);
  EXPECT(like("abcbc", "a%bc", "0200") == 1);
  EXPECT(like("aab", "%a_", "201") == 1);
  EXPECT(like("ab", "___", "111") == 0);
  EXPECT(like("\xc3\xa9x", "_x", "10") == 1);
  EXPECT(like("\xc3\xa9x", "__x", "110") == 0);
  EXPECT(like("\xe6\x97\xa5\xe6\x9c\xac", "%_", "21") == 1);
  EXPECT(like("mississippi", "%iss%ip%", "20002002") == 1);
  EXPECT(like("mississippi", "%issi_i", "2000010") == 0);
  EXPECT(like("ab\xc3", "ab_", "001") == 1); /* a character cut off is still read inside the buffer */
}

static void test_bounds_and_broken_offsets(void) {
  const uint8_t bytes[] = {'a', 'b', 'c'};
  uint64_t offsets[] = {0, 1, 1, 3}, broken[] = {0, 2, 1}, beyond[] = {0, 4};
  uint8_t mask[3];
  ur_text_test test = {.op = UR_TEXT_BETWEEN, .low = bytes, .low_bytes = 1, .high = bytes + 1, .high_bytes = 1};
  EXPECT(ur_scan_text(offsets, bytes, 3, 3, &test, mask) == UR_OK);
  EXPECT(mask[0] == 1 && mask[1] == 0 && mask[2] == 0);
  test.open = 1;
  EXPECT(ur_scan_text(offsets, bytes, 3, 3, &test, mask) == UR_OK);
  EXPECT(mask[0] == 1 && mask[1] == 0 && mask[2] == 1);
  EXPECT(ur_scan_text(broken, bytes, 3, 2, &test, mask) == UR_CORRUPT);
  EXPECT(ur_scan_text(beyond, bytes, 3, 1, &test, mask) == UR_CORRUPT);
}

int main(void) {
  test_ranges_of_int32();
  test_floats_leave_out_nan();
  test_ranges_of_int64_with_a_first_row();
  test_halves_are_ordered_as_numbers();
  test_conditions_joined();
  test_every_byte_of_a_mask();
  test_no_row_and_every_row();
  test_codes_beyond_the_table_are_corrupt();
  test_threads_share_the_runs();
  test_senseless_steps_are_refused();
  test_patterns();
  test_bounds_and_broken_offsets();
  puts("scan: good");
  return 0;
}
