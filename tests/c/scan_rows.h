/* scan_rows.h - marks the rows of runs, triples start, stop, whether all pass, and writes them: both from one thread. */
#include <stdlib.h>

#include "unirecord_internal.h"

/* rows[] may be NULL: then they are only counted. *count is how many, or, of corrupt data, the row. */
static inline ur_status scan_rows(const ur_scan_step *steps, int32_t step_count, const int64_t *runs, int64_t run_count,
                                  int64_t base, int64_t *rows, int64_t *count) {
  ur_scan_run *pieces = calloc((size_t)run_count + 1, sizeof *pieces);
  int64_t *counts = calloc((size_t)run_count + 1, sizeof *counts);
  int64_t *places = calloc((size_t)run_count + 1, sizeof *places), words = 0, next = 0;
  for (int64_t i = 0; i < run_count; i++) {
    pieces[i] = (ur_scan_run){runs[3 * i], runs[3 * i + 1], runs[3 * i + 2], words};
    words += runs[3 * i + 2] ? 0 : (runs[3 * i + 1] - runs[3 * i] + 63) / 64;
  }
  uint64_t *marks = malloc(((size_t)words + !words) * sizeof *marks);
  ur_status status = ur_scan_mark(steps, step_count, pieces, run_count, &next, rows ? marks : NULL, counts, count);
  for (int64_t i = 0; status == UR_OK && i < run_count; i++) places[i + 1] = places[i] + counts[i];
  if (status == UR_OK) *count = places[run_count];
  for (int64_t i = run_count - 1; status == UR_OK && rows && i >= 0; i--) { /* the last first: what one writes beyond shows */
    next = 0;
    ur_scan_take(pieces + i, 1, &next, marks, places + i, base, rows);
  }
  free(marks);
  free(places);
  free(counts);
  free(pieces);
  return status;
}
