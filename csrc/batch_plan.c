/* batch_plan.c - groups the rows of a batch by the part that holds them. */
#include <inttypes.h>
#include <stdlib.h>

#include "batch.h"

typedef struct {
  int64_t part;
  int64_t place;
} located_row;

static int by_part(const void *left, const void *right) {
  const located_row *a = left, *b = right;
  if (a->part != b->part) return a->part < b->part ? -1 : 1;
  return (a->place > b->place) - (a->place < b->place);
}

static ur_status check_range(const int64_t *rows, int64_t n, int64_t limit, ur_error *error) {
  bool good = true;
  for (int64_t i = 0; i < n; i++) good &= (uint64_t)rows[i] < (uint64_t)limit;
  if (good) return UR_OK;
  int64_t i = 0;
  while ((uint64_t)rows[i] < (uint64_t)limit) i++;
  ur_status status = ur_fail(error, UR_ARGUMENT, "row %" PRId64 " is not in [0, %" PRId64 ")", rows[i], limit);
  if (error != NULL) error->row = rows[i];
  return status;
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

  uint64_t each = sizeof(located_row) + sizeof(ur_run) + 2 * sizeof(int64_t);
  char *memory = malloc((size_t)n * each);
  if (memory == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to sort %" PRId64 " rows by part", n);
  located_row *located = (located_row *)(void *)memory;
  ur_run *runs = (ur_run *)(void *)(located + n);
  int64_t *local = (int64_t *)(void *)(runs + n), *places = local + n, count = 0;
  bool sorted = true;
  for (int64_t i = 0; i < n; i++) {
    located[i] = (located_row){ur_set_part_of(set, rows[i]), i};
    sorted = sorted && (i == 0 || located[i - 1].part <= located[i].part);
  }
  if (!sorted) qsort(located, (size_t)n, sizeof *located, by_part);
  for (int64_t i = 0; i < n; i++) {
    int64_t part = located[i].part;
    if (count == 0 || runs[count - 1].part != part) runs[count++] = (ur_run){part, i, 0};
    runs[count - 1].count++;
    places[i] = located[i].place;
    local[i] = rows[places[i]] - set->starts[part];
  }
  *plan = (ur_plan){.runs = runs, .count = count, .rows = local, .places = places, .memory = memory};
  return UR_OK;
}

void ur_plan_free(ur_plan *plan) { free(plan->memory); }
