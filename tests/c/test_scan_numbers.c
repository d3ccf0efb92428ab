/* test_scan_numbers.c - tests of whole numbers worked out of columns give what a slow loop over int64 gives. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "scan_rows.h"
#include "unirecord_internal.h"

enum { ROWS = 2500, INT8 = 2, UINT64 = 9, INT32 = 6, INT64 = 8, FLOAT32 = 11, MOST = 24 };

static uint64_t state = 1;

static uint32_t draw(uint32_t below) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(state >> 33) % below;
}

static const size_t widths[] = {0, 0, 1, 1, 2, 2, 4, 4, 8, 8};
static uint8_t *columns[UINT64 + 1]; /* one byte in, as no alignment is promised */

/* The values of a column are small, so that nothing overflows in int32, or wrap in int64. */
static int64_t value_at(int32_t type, int64_t row) {
  int64_t value = 0;
  memcpy(&value, columns[type] + (size_t)row * widths[type], widths[type]);
  if (type == INT8) return (int8_t)value;
  if (type == 4) return (int16_t)value;
  return type == INT32 ? (int32_t)value : value;
}

static int64_t wrapped(int32_t type, uint64_t value) { return type == INT32 ? (int32_t)(uint32_t)value : (int64_t)value; }

/* What a program says of a row, by the letter of its description. */
static bool slowly(const ur_scan_step *s, int64_t row) {
  int64_t stack[UR_NUMBER_DEPTH];
  int top = -1;
  for (int32_t k = 0; k + 1 < s->number_count; k++) {
    const ur_scan_number *number = &s->numbers[k];
    if (number->op == UR_NUMBER_LOAD) {
      stack[++top] = wrapped(s->type, (uint64_t)value_at(number->type, row));
    } else if (number->op == UR_NUMBER_CONSTANT) {
      stack[++top] = number->value;
    } else if (number->op == UR_NUMBER_MINUS) {
      stack[top] = wrapped(s->type, 0 - (uint64_t)stack[top]);
    } else {
      uint64_t a = (uint64_t)stack[top - 1], b = (uint64_t)stack[top];
      stack[--top] = wrapped(s->type, number->op == UR_NUMBER_ADD ? a + b : number->op == UR_NUMBER_SUBTRACT ? a - b : a * b);
    }
  }
  bool passes;
  switch (s->numbers[s->number_count - 1].op) {
    case UR_NUMBER_WITHIN: passes = stack[0] >= (int64_t)s->low && stack[0] <= (int64_t)s->high; break;
    case UR_NUMBER_EQUAL: passes = stack[0] == stack[1]; break;
    case UR_NUMBER_LESS: passes = stack[0] < stack[1]; break;
    default: passes = stack[0] <= stack[1]; break;
  }
  return passes != (s->negated != 0);
}

static ur_scan_number draw_load(void) {
  int32_t type = INT8 + (int32_t)draw(UINT64 - INT8 + 1);
  return (ur_scan_number){.op = UR_NUMBER_LOAD, .type = type, .data = columns[type]};
}

/* A program that leaves one number or two, and the test of them. */
static int32_t draw_numbers(ur_scan_number *numbers) {
  int32_t count = 0, depth = 0, wanted = 1 + (int32_t)draw(2);
  while (count < MOST - UR_NUMBER_DEPTH - 1 || depth != wanted) {
    uint32_t pick = count < MOST - UR_NUMBER_DEPTH - 1 ? draw(5) : depth > wanted ? 4 : 0;
    if (pick == 4 && depth >= 2) {
      numbers[count++] = (ur_scan_number){.op = UR_NUMBER_ADD + (int32_t)draw(3)};
      depth--;
    } else if (pick == 3 && depth >= 1) {
      numbers[count++] = (ur_scan_number){.op = UR_NUMBER_MINUS};
    } else if (depth < UR_NUMBER_DEPTH) {
      numbers[count++] = pick == 2 ? (ur_scan_number){.op = UR_NUMBER_CONSTANT, .value = (int64_t)draw(2000) - 1000} : draw_load();
      depth++;
    }
  }
  numbers[count++].op = wanted == 1 ? UR_NUMBER_WITHIN : UR_NUMBER_EQUAL + (int32_t)draw(3);
  return count;
}

static void test_programs_at_random(void) {
  for (int round = 0; round < 300; round++) {
    ur_scan_number numbers[MOST + UR_NUMBER_DEPTH] = {{0}};
    ur_scan_step step = {.op = UR_SCAN_NUMBERS, .type = draw(2) ? INT32 : INT64, .negated = (int32_t)draw(2), .numbers = numbers};
    step.number_count = draw_numbers(numbers);
    step.low = (uint64_t)((int64_t)draw(2000) - 1500);
    step.high = (uint64_t)((int64_t)step.low + (int64_t)draw(1500));
    int64_t runs[] = {0, 300 + draw(300), 0, 600, 600 + draw(1900), 0}, found[ROWS], expected[ROWS], wanted = 0, count = 0;
    for (int r = 0; r < 2; r++)
      for (int64_t row = runs[3 * r]; row < runs[3 * r + 1]; row++)
        if (slowly(&step, row)) expected[wanted++] = row;
    EXPECT(scan_rows(&step, 1, runs, 2, 0, found, &count) == UR_OK);
    EXPECT(count == wanted);
    EXPECT(memcmp(found, expected, (size_t)wanted * sizeof *found) == 0);
  }
}

static ur_status status_of(int32_t type, const ur_scan_number *numbers, int32_t count) {
  ur_scan_step step = {.op = UR_SCAN_NUMBERS, .type = type, .numbers = numbers, .number_count = count};
  int64_t run[] = {0, 8, 0}, found = 0;
  return scan_rows(&step, 1, run, 1, 0, NULL, &found);
}

static void test_unsound_programs_are_refused(void) {
  ur_scan_number load = {.op = UR_NUMBER_LOAD, .type = INT32, .data = columns[INT32]}, within = {.op = UR_NUMBER_WITHIN};
  ur_scan_number add = {.op = UR_NUMBER_ADD}, equal = {.op = UR_NUMBER_EQUAL}, minus = {.op = UR_NUMBER_MINUS};
  ur_scan_number unknown = {.op = 10}, real = load, full[UR_NUMBER_DEPTH + 2], numbers[4];
  real.type = FLOAT32;
#define STATUS(type, ...) (memcpy(numbers, (ur_scan_number[]){__VA_ARGS__}, sizeof((ur_scan_number[]){__VA_ARGS__})), \
                           status_of(type, numbers, sizeof((ur_scan_number[]){__VA_ARGS__}) / sizeof *numbers))
  EXPECT(STATUS(INT32, load, within) == UR_OK);
  EXPECT(STATUS(FLOAT32, load, within) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, within) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, load) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, minus, load, within) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, load, add, within) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, load, load, within) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, load, equal) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, load, within, minus) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, load, load, equal, within) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, real, within) == UR_ARGUMENT);
  EXPECT(STATUS(INT32, load, unknown) == UR_ARGUMENT);
  EXPECT(status_of(INT32, NULL, 0) == UR_ARGUMENT);
  for (int i = 0; i < UR_NUMBER_DEPTH + 1; i++) full[i] = load;
  full[UR_NUMBER_DEPTH + 1] = within;
  EXPECT(status_of(INT32, full, UR_NUMBER_DEPTH + 2) == UR_ARGUMENT);
}

int main(void) {
  uint8_t *memory[UINT64 + 1];
  for (int type = INT8; type <= UINT64; type++) {
    memory[type] = malloc(ROWS * widths[type] + 1);
    columns[type] = memory[type] + 1;
    for (int64_t row = 0; row < ROWS; row++) {
      int64_t value = (int64_t)draw(120) - (type % 2 ? 0 : 60);
      memcpy(columns[type] + (size_t)row * widths[type], &value, widths[type]);
    }
  }
  test_programs_at_random();
  test_unsound_programs_are_refused();
  for (int type = INT8; type <= UINT64; type++) free(memory[type]);
  puts("scan of numbers: good");
  return 0;
}
