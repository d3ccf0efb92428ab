/* batch/plan.c - groups the rows of a batch by the part that holds them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "batch/batch.h"

#define DIGIT 8 /* bits of the part's number that one pass sorts by */

static ur_status check_range(const int64_t *rows, int64_t n, int64_t limit, ur_error *error) {
  bool good = true;
  for (int64_t i = 0; i < n; i++) good &= (uint64_t)rows[i] < (uint64_t)limit;
  if (good) return UR_OK;
  int64_t i = 0;
  while ((uint64_t)rows[i] < (uint64_t)limit) i++;
  ur_status status = ur_fail(error, UR_ARGUMENT, "row %" PRId64 " is not in [0, %" PRId64 ")", rows[i], limit);
  if (error != NULL) error->row = rows[i];
  return ur_because(error, UR_REASON_ROW, status);
}

/* to[0 .. n) = the places in `from`, sorted by one digit of their part's number, and else in the order that they had. */
static void sort_by_digit(const int64_t *parts, const int64_t *from, int64_t *to, int64_t n, int shift) {
  int64_t starts[(1 << DIGIT) + 1] = {0};
  for (int64_t i = 0; i < n; i++) starts[((parts[i] >> shift) & ((1 << DIGIT) - 1)) + 1]++;
  for (int digit = 1; digit < 1 << DIGIT; digit++) starts[digit] += starts[digit - 1];
  for (int64_t i = 0; i < n; i++) to[starts[(parts[from[i]] >> shift) & ((1 << DIGIT) - 1)]++] = from[i];
}

ur_status ur_plan_rows(const ur_set *set, const int64_t *rows, int64_t n, ur_plan *plan, ur_error *error) {
  ur_status status = check_range(rows, n, ur_set_rows(set), error);
  if (status != UR_OK) return status;
  plan->memory = NULL;
  plan->runs = &plan->one;
  plan->count = n > 0;
  plan->one = (ur_run){0, 0, n};
  plan->rows = rows;
  plan->places = NULL;
  if (set->parts <= 1 || n == 0) return UR_OK;

  int64_t *memory = malloc((size_t)n * (sizeof(ur_run) + 4 * sizeof(int64_t)));
  if (memory == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to sort %" PRId64 " rows by part", n);
  int64_t *local = memory, *places = local + n, *parts = places + n, *spare = parts + n, count = 0;
  ur_run *runs = (ur_run *)(void *)(spare + n);
  for (int64_t i = 0; i < n; i++) {
    parts[i] = ur_set_part_of(set, rows[i]);
    places[i] = i;
  }
  for (int shift = 0; (set->parts - 1) >> shift > 0; shift += DIGIT) {
    sort_by_digit(parts, places, spare, n, shift);
    int64_t *sorted = spare;
    spare = places;
    places = sorted;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t part = parts[places[i]];
    if (count == 0 || runs[count - 1].part != part) runs[count++] = (ur_run){part, i, 0};
    runs[count - 1].count++;
    local[i] = rows[places[i]] - set->starts[part];
  }
  *plan = (ur_plan){.runs = runs, .count = count, .rows = local, .places = places, .memory = memory};
  return UR_OK;
}

void ur_plan_free(ur_plan *plan) { free(plan->memory); }
