/* scan/numbers.h - one kind of step of a scan: a test of whole numbers that are worked out of columns. */
#ifndef UR_SCAN_NUMBERS_H
#define UR_SCAN_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "unirecord_internal.h"

/* Bytes of a whole number in a column of this type; 0 for other types. */
size_t ur_number_width(int32_t type);

/* Whether a NUMBERS step's operations fit each other and the stack. */
int ur_numbers_are_sound(const ur_scan_step *s);

/* Tries a sound one on rows [row, row + n): out[i] is 1 where row + i passes, else 0. */
void ur_try_numbers(const ur_scan_step *s, int64_t row, int64_t n, uint8_t *out);

#endif
