/* test_packed.c - packed numbers come back whatever their width, their place and their base, in memory of exactly their size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/packed.h"
#include "expect.h"
#include "scan_rows.h"
#include "unirecord_internal.h"

enum { ROWS = 1500 };

static uint64_t state = 1;

static uint64_t draw(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return state ^ state >> 29;
}

/* n numbers of `width` bytes, from `base` on and of `bits` bits beyond it, and the same packed in memory of its own. */
typedef struct {
  uint8_t *numbers;
  ur_packed_numbers packed;
  uint8_t *memory;
} made;

static made make(int64_t n, uint32_t width, uint32_t bits, uint64_t base) {
  made it = {malloc((size_t)n * width + 1), {NULL, 0, base, bits}, NULL};
  for (int64_t i = 0; i < n; i++) {
    uint64_t offset = draw() & ((UINT64_C(1) << bits) - 1);
    if (i < 2) offset = i == 0 ? 0 : (UINT64_C(1) << bits) - 1;
    ur_store_low(it.numbers + (size_t)i * width, width, base + offset);
  }
  EXPECT(ur_packed_size((uint64_t)n, bits, &it.packed.bytes));
  EXPECT_EQUAL(it.packed.bytes, ((uint64_t)n * bits + 63) / 64 * 8 + 8);
  it.memory = malloc(it.packed.bytes);
  ur_packed_make(it.numbers, width, n, base, bits, it.memory);
  it.packed.data = it.memory;
  return it;
}

static void release(made *it) {
  free(it->numbers);
  free(it->memory);
}

static void expect_ranges(const made *it, int64_t n, uint32_t width) {
  int64_t starts[] = {0, 1, 7, 8, 9, n / 2, n - 1, n};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    int64_t first = starts[i];
    if (first < 0 || first > n) continue;
    int64_t stops[] = {first, first + 1, first + 8, n};
    for (size_t j = 0; j < 4; j++) {
      if (stops[j] > n) continue;
      size_t bytes = (size_t)(stops[j] - first) * width;
      uint8_t *out = malloc(bytes + 1);
      ur_packed_range(&it->packed, (uint64_t)first, stops[j] - first, width, out);
      EXPECT(memcmp(out, it->numbers + (size_t)first * width, bytes) == 0);
      free(out);
    }
  }
}

static void expect_places(const made *it, int64_t n, uint32_t width) {
  int64_t places[] = {n - 1, 0, n / 2, n / 2, n - 1};
  uint8_t *out = malloc(5 * width);
  ur_packed_places(&it->packed, places, 5, width, out);
  for (size_t i = 0; i < 5; i++) {
    uint8_t one[8];
    ur_store_low(one, width, ur_packed_one(&it->packed, (uint64_t)places[i]));
    EXPECT(memcmp(out + i * width, it->numbers + (size_t)places[i] * width, width) == 0);
    EXPECT(memcmp(out + i * width, one, width) == 0);
  }
  free(out);
}

/* From -1 to 0 a byte is passed by: eight flags at once would carry into each other. */
static void flags_from_minus_one_on_come_back(void) {
  made it = make(64, 1, 1, UINT64_MAX);
  expect_ranges(&it, 64, 1);
  release(&it);
}

static void numbers_of_every_width_come_back(void) {
  static const int64_t counts[] = {1, 2, 7, 8, 9, 63, 64, 65, 200};
  for (uint32_t width = 1; width <= 8; width *= 2)
    for (uint32_t bits = 1; bits <= UR_MAX_PACKED_BITS && bits <= 8 * width; bits++)
      for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        uint64_t bases[] = {0, 5, (uint64_t)INT64_C(-3), UINT64_C(1) << 62};
        made it = make(counts[c], width, bits, bases[(bits + c) % 4]);
        expect_ranges(&it, counts[c], width);
        expect_places(&it, counts[c], width);
        release(&it);
      }
}

static void what_is_left_of_the_last_words_is_zero(void) {
  made it = make(9, 2, 5, 0);
  uint64_t last = 0;
  EXPECT_EQUAL(it.packed.bytes, 16);
  EXPECT_EQUAL(ur_load64(it.memory) >> 45, 0);
  memcpy(&last, it.memory + 8, 8);
  EXPECT_EQUAL(last, 0);
  release(&it);
  it = make(0, 2, 5, 0);
  EXPECT_EQUAL(it.packed.bytes, 8);
  EXPECT_EQUAL(ur_load64(it.memory), 0);
  release(&it);
}

static void sizes_beyond_all_memory_are_told(void) {
  uint64_t bytes = 7;
  EXPECT(!ur_packed_size(UINT64_MAX / 2, 3, &bytes));
  EXPECT(!ur_packed_size(UINT64_MAX, 56, &bytes));
  EXPECT_EQUAL(bytes, 7);
  EXPECT(ur_packed_size(UINT64_MAX, 1, &bytes));
}

/* ---- scans ----------------------------------------------------------------------------------------------------------- */

static void expect_same(const ur_scan_step *flat, const ur_scan_step *packed, int32_t steps) {
  int64_t runs[] = {0, 192, 0, 192, 200, 0, 203, 1027, 0, 1100, ROWS - 1, 0, ROWS - 1, ROWS, 0}, expected = 0, found = 0;
  int64_t *wanted = malloc(ROWS * sizeof *wanted), *got = malloc(ROWS * sizeof *got);
  EXPECT_EQUAL(scan_rows(flat, steps, runs, 5, 0, wanted, &expected), UR_OK);
  EXPECT_EQUAL(scan_rows(packed, steps, runs, 5, 0, got, &found), UR_OK);
  EXPECT_EQUAL(found, expected);
  EXPECT(memcmp(got, wanted, (size_t)found * sizeof *got) == 0);
  EXPECT_EQUAL(scan_rows(packed, steps, runs, 5, 0, NULL, &found), UR_OK);
  EXPECT_EQUAL(found, expected);
  free(wanted);
  free(got);
}

/* Bounds inside, at and beyond the ends of what is packed, as the type has them. */
static void ranges_of_packed_numbers_are_those_of_flat_ones(void) {
  static const uint32_t widths[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8}; /* of types 1 to 9 */
  for (int32_t type = 1; type <= 9; type++)
    for (uint32_t bits = 1; bits < 8 * widths[type] && bits <= UR_MAX_PACKED_BITS; bits += bits < 26 ? 1 : 6) {
      bool is_signed = type % 2 == 0;
      if (type == 1 && bits > 1) break;
      uint64_t base = type == 1 ? 0 : is_signed ? (uint64_t)INT64_C(-1) : 1, most = (UINT64_C(1) << bits) - 1;
      if (is_signed && bits == 8 * widths[type] - 1) base = -(UINT64_C(1) << bits);
      made it = make(ROWS, widths[type], bits, base);
      uint64_t bounds[] = {base, base + most / 3, base + most, base + most + 1, is_signed ? (uint64_t)INT64_MIN >> 0 : 0};
      for (int low = 0; low < 5; low++)
        for (int high = 0; high < 5; high++)
          for (int32_t negated = 0; negated < 2; negated++) {
            if (widths[type] < 8 && (low >= 3 || high >= 3)) continue; /* bounds are values of the type */
            ur_scan_step flat[2] = {{.op = UR_SCAN_RANGE, .type = type, .negated = negated, .data = it.numbers,
                                     .low = bounds[low], .high = bounds[high]},
                                    {.op = UR_SCAN_ROWS, .combine = UR_SCAN_AND, .low = 3, .high = 1400}};
            ur_scan_step packed[2] = {flat[0], flat[1]};
            packed[0].data = NULL;
            packed[0].packed = &it.packed;
            expect_same(flat, packed, 1);
            expect_same(flat, packed, 2);
          }
      release(&it);
    }
}

static void tables_and_sums_of_packed_numbers_are_those_of_flat_ones(void) {
  uint8_t table[1 << 12];
  for (size_t i = 0; i < sizeof table; i++) table[i] = draw() % 3 == 0;
  for (uint32_t bits = 1; bits <= 12; bits++) {
    int32_t type = bits < 8 ? 3 : 5;
    made it = make(ROWS, bits < 8 ? 1 : 2, bits, 0);
    ur_scan_step flat = {.op = UR_SCAN_TABLE, .type = type, .data = it.numbers, .table = table,
                         .table_entries = UINT64_C(1) << bits};
    ur_scan_step packed = flat;
    packed.data = NULL;
    packed.packed = &it.packed;
    expect_same(&flat, &packed, 1);
    packed.table_entries--;
    int64_t run[] = {0, ROWS, 0}, broken = -1;
    EXPECT_EQUAL(scan_rows(&packed, 1, run, 1, 0, NULL, &broken), UR_CORRUPT);
    EXPECT_EQUAL(broken, 1);
    ur_scan_number load[] = {{.op = UR_NUMBER_LOAD, .type = type, .data = it.numbers},
                             {.op = UR_NUMBER_CONSTANT, .value = 3},
                             {.op = UR_NUMBER_MULTIPLY},
                             {.op = UR_NUMBER_WITHIN}};
    ur_scan_number unpack[4];
    memcpy(unpack, load, sizeof load);
    unpack[0].data = NULL;
    unpack[0].packed = &it.packed;
    ur_scan_step sums[2] = {{.op = UR_SCAN_NUMBERS, .type = 6, .low = 3, .high = 900, .numbers = load, .number_count = 4}};
    sums[1] = sums[0];
    sums[1].numbers = unpack;
    expect_same(&sums[0], &sums[1], 1);
    release(&it);
  }
}

static void steps_of_impossible_widths_are_refused(void) {
  uint8_t memory[64] = {0}, table[2] = {0};
  int64_t run[] = {0, 8, 0}, count = 0;
  static const uint32_t widths[] = {0, UR_MAX_PACKED_BITS + 1, 64, 65, UINT32_MAX};
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    ur_packed_numbers packed = {memory, sizeof memory, 0, widths[i]};
    ur_scan_number numbers[] = {{.op = UR_NUMBER_LOAD, .type = 6, .packed = &packed}, {.op = UR_NUMBER_WITHIN}};
    ur_scan_step steps[] = {{.op = UR_SCAN_RANGE, .type = 6, .packed = &packed},
                            {.op = UR_SCAN_TABLE, .type = 3, .packed = &packed, .table = table, .table_entries = 2},
                            {.op = UR_SCAN_NUMBERS, .type = 6, .numbers = numbers, .number_count = 2}};
    for (int j = 0; j < 3; j++) EXPECT_EQUAL(scan_rows(&steps[j], 1, run, 1, 0, NULL, &count), UR_ARGUMENT);
  }
  ur_packed_numbers packed = {memory, sizeof memory, 0, 8};
  ur_scan_step floats = {.op = UR_SCAN_RANGE, .type = 11, .packed = &packed};
  EXPECT_EQUAL(scan_rows(&floats, 1, run, 1, 0, NULL, &count), UR_ARGUMENT);
}

int main(void) {
  numbers_of_every_width_come_back();
  flags_from_minus_one_on_come_back();
  what_is_left_of_the_last_words_is_zero();
  sizes_beyond_all_memory_are_told();
  ranges_of_packed_numbers_are_those_of_flat_ones();
  tables_and_sums_of_packed_numbers_are_those_of_flat_ones();
  steps_of_impossible_widths_are_refused();
  return 0;
}
