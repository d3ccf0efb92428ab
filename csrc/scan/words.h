/* scan/words.h - a scan of a single range, straight to marks: 64 rows at a time, where the processor can. */
#ifndef UR_SCAN_WORDS_H
#define UR_SCAN_WORDS_H

#include <stdint.h>

#include "unirecord_internal.h"

/* Tries a sound RANGE step on the first rows of [row, row + n), a multiple of 64 of them, and returns how many; 0 where it
 * cannot. Adds those that pass to *found, and marks them as bits unless `marks` is NULL. */
int64_t ur_try_words(const ur_scan_step *s, int64_t row, int64_t n, uint64_t *marks, int64_t *found);

/* The same of packed numbers, of which those from `low` to `high`, without their base, are in the range. */
int64_t ur_try_packed_words(const ur_scan_step *s, uint64_t low, uint64_t high, int64_t row, int64_t n, uint64_t *marks,
                            int64_t *found);

#endif
