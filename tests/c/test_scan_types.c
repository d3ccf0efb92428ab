/* test_scan_types.c - random conditions on columns of every type, joined at random, against row by row evaluation. */
#include <stdbool.h>
#include <string.h>

#include "expect.h"
#include "scan_rows.h"
#include "unirecord_internal.h"

enum { ROWS = 9000, STEPS = 6, CASES = 400, TYPES = 12, FLOAT16 = 10, FLOAT32 = 11, FLOAT64 = 12 };

static uint64_t state = 7;
static uint8_t columns[TYPES + 1][ROWS * 8], bits[ROWS / 8 + 1], bytes[ROWS], codes[3][ROWS * 4], table[200];

static uint64_t draw(uint64_t below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t high = state >> 32;
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t all = high << 32 | state >> 32;
  return below == 0 ? all : all % below;
}

static int width_of(int type) {
  static const int widths[TYPES + 1] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};
  return widths[type];
}

/* The value that bits of a type stand for; exact for all types where long double holds 64 bits. */
static long double value_of(int type, uint64_t raw) {
  float single;
  double twice;
  uint32_t low = (uint32_t)raw;
  switch (type) {
    case 1: case 3: return (long double)(uint8_t)raw;
    case 2: return (long double)(int8_t)raw;
    case 4: return (long double)(int16_t)raw;
    case 5: return (long double)(uint16_t)raw;
    case 6: return (long double)(int32_t)raw;
    case 7: return (long double)(uint32_t)raw;
    case 8: return (long double)(int64_t)raw;
    case 9: return (long double)raw;
    case FLOAT16: { /* finite halves alone are drawn: their order is that of sign and magnitude */
      long double magnitude = (long double)(raw & 0x7fff);
      return raw & 0x8000 ? -magnitude : magnitude;
    }
    case FLOAT32: memcpy(&single, &low, sizeof single); return (long double)single;
    default: memcpy(&twice, &raw, sizeof twice); return (long double)twice;
  }
}

/* Bits of a value; those of halves are finite, the wider floats may be NaN. */
static uint64_t draw_value(int type) {
  uint64_t raw = draw(0);
  if (type == 1) return raw & 1;
  if (type == FLOAT16) return (raw & 0x8000) | (raw >> 16) % 0x7c00;
  if (type == FLOAT32) return draw(20) ? (uint32_t)raw : 0x7fc00000;
  if (type == FLOAT64) return draw(20) ? raw : UINT64_C(0x7ff8000000000000);
  return draw(4) ? raw % 100 : raw;
}

static uint64_t load(const uint8_t *from, int64_t i, int width) {
  uint64_t raw = 0;
  memcpy(&raw, from + i * width, (size_t)width);
  return raw;
}

static bool passes(const ur_scan_step *s, int64_t row, const bool *masks) {
  bool is = false;
  uint64_t raw;
  switch (s->op) {
    case UR_SCAN_RANGE:
      raw = load(s->data, row - s->first, width_of(s->type));
      is = value_of(s->type, raw) >= value_of(s->type, s->low) && value_of(s->type, raw) <= value_of(s->type, s->high);
      break;
    case UR_SCAN_TABLE: is = s->table[load(s->data, row - s->first, width_of(s->type))] != 0; break;
    case UR_SCAN_BITS: is = ((const uint8_t *)s->data)[(row - s->first) / 8] >> ((row - s->first) % 8) & 1; break;
    case UR_SCAN_BYTES: is = ((const uint8_t *)s->data)[row - s->first] != 0; break;
    case UR_SCAN_ROWS: is = row >= (int64_t)s->low && row <= (int64_t)s->high; break;
    default: is = masks[s->mask]; break;
  }
  return is != (s->negated != 0);
}

static ur_scan_step draw_step(int number) {
  ur_scan_step s = {.op = (int32_t)draw(number == 0 ? 5 : 6), .negated = (int32_t)draw(2),
                    .combine = number < 2 ? UR_SCAN_SET : (int32_t)draw(3), .target = number < 2 ? number : (int32_t)draw(2),
                    .mask = (int32_t)(number < 2 ? 0 : draw(2))};
  s.first = 8 * (int64_t)draw(3);
  if (s.op == UR_SCAN_RANGE) {
    s.type = 1 + (int32_t)draw(TYPES);
    s.data = columns[s.type];
    s.low = draw_value(s.type);
    s.high = draw_value(s.type);
  } else if (s.op == UR_SCAN_TABLE) {
    static const int32_t types[] = {3, 5, 7};
    uint64_t which = draw(3);
    s.type = types[which];
    s.data = codes[which];
    s.table = table;
    s.table_entries = sizeof table;
  } else if (s.op == UR_SCAN_ROWS) {
    s.low = draw(ROWS);
    s.high = draw(2) ? draw(ROWS) : UINT64_MAX; /* -1: none */
  } else {
    s.data = s.op == UR_SCAN_BITS ? bits : bytes;
  }
  return s;
}

static void try_case(void) {
  ur_scan_step steps[STEPS];
  int32_t count = 2 + (int32_t)draw(STEPS - 1);
  for (int32_t i = 0; i < count; i++) steps[i] = draw_step(i);
  int64_t runs[9], base = (int64_t)draw(1000), at = 16, expected_count = 0, found_count = -1;
  static int64_t expected[ROWS], found[ROWS];
  for (int r = 0; r < 3; r++) {
    runs[3 * r] = at;
    at += (int64_t)draw((uint64_t)(ROWS - at));
    runs[3 * r + 1] = at;
    runs[3 * r + 2] = draw(4) == 0;
    for (int64_t row = runs[3 * r]; row < at; row++) {
      bool masks[2] = {false, false};
      for (int32_t i = 0; i < count; i++) {
        bool is = passes(&steps[i], row, masks), *target = &masks[steps[i].target];
        *target = steps[i].combine == UR_SCAN_SET ? is : steps[i].combine == UR_SCAN_AND ? *target && is : *target || is;
      }
      if (masks[0] || runs[3 * r + 2]) expected[expected_count++] = row + base;
    }
  }
  EXPECT_EQUAL(scan_rows(steps, count, runs, 3, base, NULL, &found_count), UR_OK);
  EXPECT_EQUAL(found_count, expected_count);
  EXPECT_EQUAL(scan_rows(steps, count, runs, 3, base, found, &found_count), UR_OK);
  EXPECT_EQUAL(found_count, expected_count);
  for (int64_t i = 0; i < expected_count; i++) EXPECT_EQUAL(found[i], expected[i]);
}

static void every_unsound_step_is_refused(void) {
  int64_t run[3] = {0, 8, 0}, count = 0;
  for (int wrong = 0; wrong < 10; wrong++) {
    ur_scan_step s = {.op = UR_SCAN_BYTES, .data = bytes};
    switch (wrong) {
      case 0: s.target = -1; break;
      case 1: s.target = 16; break;
      case 2: s.mask = -1; break;
      case 3: s.mask = 16; break;
      case 4: s.combine = -1; break;
      case 5: s.combine = 3; break;
      case 6: s.op = UR_SCAN_RANGE; break;
      case 7: s.op = UR_SCAN_TABLE; s.type = 6; break;
      case 8: s.op = -1; break;
      default: s.op = 6; break;
    }
    EXPECT_EQUAL(scan_rows(&s, 1, run, 1, 0, NULL, &count), UR_ARGUMENT);
  }
  EXPECT_EQUAL(scan_rows(NULL, 0, run, 1, 0, NULL, &count), UR_ARGUMENT);
}

int main(void) {
  for (int type = 1; type <= TYPES; type++)
    for (int64_t i = 0; i < ROWS; i++) {
      uint64_t raw = draw_value(type);
      memcpy(columns[type] + i * width_of(type), &raw, (size_t)width_of(type));
    }
  for (int64_t i = 0; i < ROWS; i++) {
    bytes[i] = draw(3) == 0;
    bits[i / 8] = (uint8_t)draw(256);
    for (int which = 0; which < 3; which++) {
      uint64_t code = draw(sizeof table);
      memcpy(codes[which] + (i << which), &code, (size_t)1 << which);
    }
  }
  for (size_t i = 0; i < sizeof table; i++) table[i] = draw(2) ? (uint8_t)draw(3) : 0;
  for (int i = 0; i < CASES; i++) try_case();
  every_unsound_step_is_refused();
  return 0;
}
