/* reader.h - the seam between reading batches (reader.c) and what stands on it (loader.c). Internal. */
#ifndef UR_READER_H
#define UR_READER_H

#include "unirecord.h"

/* What the set knows of a column; opens the first part when no part has been opened yet. */
ur_status ur_set_column(ur_set *set, int32_t column, ur_column_info *info, ur_error *error);

/* bytes_needed[c] = bytes of data that ur_set_read will write for columns[c] of these rows. */
ur_status ur_read_measure(ur_set *set, const int64_t *rows, int64_t n, const int32_t *columns, int32_t count,
                          uint64_t *bytes_needed, ur_error *error);

/* Exactly ur_set_read (UR_TOO_SMALL included: every `used` then says what is needed, so a caller with buffers that are
 * mostly large enough reads without measuring first). */
ur_status ur_read_rows(ur_set *set, const int64_t *rows, int64_t n, ur_output *outputs, int32_t output_count,
                       ur_error *error);

/* ur_set_advise (unirecord.h) tells the kernel about rows to come; it asks for nothing when the rows are in memory. */

#endif
