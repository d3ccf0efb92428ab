/* batch/repeats.c - see batch/repeats.h. */
#include "batch/repeats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"
#include "base/layout.h"

enum { LEAST_BITS = 4 };

/* Numbers of a place that are held: first, rows, places and mapped; and up to four of the table. */
#define HELD 8

/* `table`, of 2^bits entries that are all 0, has a place and 1 for each row that has been met. */
static void meet(const int64_t *rows, const uint8_t *missing, int64_t n, int bits, int64_t *table, ur_repeats *repeats) {
  uint64_t mask = (UINT64_C(1) << bits) - 1;
  for (int64_t i = 0; i < n; i++) {
    repeats->first[i] = -1;
    if (missing != NULL && missing[i] != 0) continue;
    uint64_t at = ((uint64_t)rows[i] * UR_PHI) >> (64 - bits); /* modulo 2^64 */
    while (table[at] != 0 && rows[table[at] - 1] != rows[i]) at = (at + 1) & mask;
    if (table[at] == 0) {
      table[at] = i + 1;
      repeats->rows[repeats->count] = rows[i];
      repeats->places[repeats->count++] = i;
    }
    repeats->first[i] = table[at] - 1;
  }
}

ur_status ur_repeats_find(const int64_t *rows, const uint8_t *missing, int64_t n, ur_repeats *repeats, ur_error *error) {
  *repeats = (ur_repeats){.count = 0};
  int bits = LEAST_BITS;
  while (n >> (bits - 1) > 0) bits++;
  int64_t *memory = NULL;
  if ((uint64_t)n <= SIZE_MAX / (HELD * sizeof *memory) - (1 << LEAST_BITS))
    memory = calloc(HELD * (size_t)n + (1 << LEAST_BITS), sizeof *memory);
  if (memory == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRId64 " row numbers", n);
  /* exact: inside the memory, of whose last part the table takes no more than four numbers for each place, or the least */
  *repeats = (ur_repeats){.first = memory, .rows = memory + n, .places = memory + 2 * n, .mapped = memory + 3 * n};
  meet(rows, missing, n, bits, memory + 4 * n, repeats); /* exact: likewise */
  return UR_OK;
}

void ur_repeats_plan(const ur_repeats *repeats, ur_plan *plan) {
  for (int64_t i = 0; i < repeats->count; i++)
    repeats->mapped[i] = repeats->places[plan->places == NULL ? i : plan->places[i]];
  plan->places = repeats->mapped;
}

ur_status ur_repeats_spread(const ur_repeats *repeats, int64_t n, int64_t *offsets, ur_error *error) {
  int64_t before = 0, at = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t end = offsets[i + 1], first = repeats->first[i];
    int64_t length = first == i ? end - before : first < 0 ? 0 : offsets[first + 1] - offsets[first];
    if (__builtin_add_overflow(at, length, &at))
      return ur_fail(error, UR_ARGUMENT, "the values of a batch exceed 2^63 bytes");
    offsets[i + 1] = at;
    before = end;
  }
  return UR_OK;
}

void ur_repeats_copy(const ur_repeats *repeats, int64_t n, const ur_output *output, int64_t fixed_bytes) {
  const int64_t *offsets = output->offsets;
  for (int64_t i = 0; i < n; i++) {
    int64_t first = repeats->first[i];
    if (first == i) continue;
    if (output->valid != NULL) output->valid[i] = first < 0 ? 0 : output->valid[first];
    size_t bytes = (size_t)(offsets == NULL ? fixed_bytes : offsets[i + 1] - offsets[i]);
    if (bytes == 0) continue;
    /* exact: inside the output, which was measured */
    uint8_t *to = output->data + (offsets == NULL ? i * fixed_bytes : offsets[i]);
    if (first < 0) memset(to, 0, bytes);
    /* exact: likewise */
    else memcpy(to, output->data + (offsets == NULL ? first * fixed_bytes : offsets[first]), bytes);
  }
}

void ur_repeats_free(ur_repeats *repeats) { free(repeats->first); }
