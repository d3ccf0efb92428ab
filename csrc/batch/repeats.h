/* batch/repeats.h - rows of a batch of which some are asked for several times, or not at all: each is read once. Internal. */
#ifndef UR_REPEATS_H
#define UR_REPEATS_H

#include "batch/batch.h"

/* first[i]: the first place that asks for the same row as place i, -1 where none is asked for. Each row that is read once, and
 * its first place. */
typedef struct {
  int64_t *first;
  int64_t *rows, *places;
  int64_t count;   /* of `rows` and `places` */
  int64_t *mapped; /* room for as many */
} ur_repeats;

/* What is asked for at n places: rows[i], and none where missing[i] is not 0; `missing` may be NULL. UR_NO_MEMORY. */
ur_status ur_repeats_find(const int64_t *rows, const uint8_t *missing, int64_t n, ur_repeats *repeats, ur_error *error);

/* The plan of `rows` becomes one that reads each at its first place. */
void ur_repeats_plan(const ur_repeats *repeats, ur_plan *plan);

/* Offsets that were summed over first places, where all others have lengths of 0, become those of all n places. */
ur_status ur_repeats_spread(const ur_repeats *repeats, int64_t n, int64_t *offsets, ur_error *error);

/* Copies the value at each first place to the others that ask for its row; what is missing becomes zero, and null. */
void ur_repeats_copy(const ur_repeats *repeats, int64_t n, const ur_output *output, int64_t fixed_bytes);

void ur_repeats_free(ur_repeats *repeats);

#endif
