/* loader/sequence.h - which rows stand at offsets from an anchor row, within its group. Internal. */
#ifndef UR_SEQUENCE_H
#define UR_SEQUENCE_H

#include "set/set.h"
#include "unirecord_internal.h"

enum { UR_MAX_STEPS = 1 << 20 }; /* offsets of one column */

/* UR_ARGUMENT for numbers that make no sense. */
ur_status ur_sequence_check(const ur_sequence *sequence, const ur_set *set, int32_t outputs, ur_error *error);

/* Offsets of all its steps together. */
int64_t ur_sequence_offsets(const ur_sequence *sequence);

#endif
