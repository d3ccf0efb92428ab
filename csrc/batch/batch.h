/* batch/batch.h - the pieces of reading one batch: rows grouped by part, then scalars and blobs column by column. Internal. */
#ifndef UR_BATCH_H
#define UR_BATCH_H

#include "base/timing.h"
#include "codec/codec.h"
#include "set/set.h"

/* Bytes of units, or of chunks, that are read into scratch memory at a time, unless one has more. Tests make it small: the
 * sanitizer marks all of it anew at each allocation. */
#ifndef UR_SCRATCH_BYTES
#define UR_SCRATCH_BYTES (UINT64_C(8) << 20)
#endif

/* Consecutive entries of a plan that lie in one part. */
typedef struct {
  int64_t part;
  int64_t first;
  int64_t count;
} ur_run;

/* The rows of a batch grouped by part (batch/plan.c). */
typedef struct {
  ur_run one;             /* storage for the common case: a single part */
  ur_run *runs;
  int64_t count;
  const int64_t *rows;    /* numbers inside their part */
  const int64_t *places;  /* place of each in the batch; NULL: as they come */
  void *memory;
} ur_plan;

ur_status ur_plan_rows(const ur_set *set, const int64_t *rows, int64_t n, ur_plan *plan, ur_error *error);
void ur_plan_free(ur_plan *plan);

/* The rows of one part in a batch. */
typedef struct {
  ur_part *part;
  int64_t number;
  int64_t count;
  const int64_t *rows;
  const int64_t *places;
  ur_part_timer *timer; /* where its time is counted, or NULL */
} ur_group;

static inline int64_t ur_place(const ur_group *group, int64_t i) {
  return group->places == NULL ? i : group->places[i];
}

/* Adds the place to an error that has none yet; returns the status. */
ur_status ur_blame(ur_error *error, ur_status status, const ur_group *group, int64_t i, int32_t column);

/* lengths[place] = bytes of the value of each row (strings and blobs of variable width). */
ur_status ur_measure_strings(const ur_group *group, int32_t column, int64_t *lengths, ur_error *error);
ur_status ur_measure_cells(const ur_group *group, int32_t column, int64_t *lengths, ur_error *error);

/* What decompresses the cells of a column: NULL where they are not compressed. *context is taken when it is NULL and needed, for
 * the caller to give back (batch/place.c). */
ur_status ur_column_decoding(ur_part *part, ur_column *column, const ur_decoder **decoder, ur_codec_context **context,
                             ur_error *error);

/* Sees to it that the compressed columns among `outputs` can be decompressed in all parts (batch/place.c). */
ur_status ur_prepare_decoders(const ur_group *groups, int64_t group_count, const ur_output *outputs, int32_t count,
                              ur_error *error);

/* Starts loading what measuring and locating a blob column of variable width will need, so that it does not wait for each
 * row in turn. */
void ur_touch_lengths(const ur_group *group, int32_t column);

/* Likewise what locating any rows needs, of a group that is one of many. */
void ur_touch_rows(const ur_group *group);

/* UR_CORRUPT when the values measured for a batch, each row counted once, are more than the files of its parts hold
 * (batch/total.c). */
ur_status ur_check_total(const ur_group *groups, int64_t group_count, const ur_output *outputs, int32_t count,
                         ur_error *error);

/* Scalars of one column into `output` (batch/scalars.c). Strings need output->offsets filled. */
ur_status ur_gather_values(const ur_group *group, const ur_output *output, ur_error *error);
ur_status ur_gather_strings(const ur_group *group, const ur_output *output, ur_error *error);
ur_status ur_gather_valid(const ur_group *group, const ur_output *output, ur_error *error);

/* Bytes that the boxes of an output need for so many rows; UR_ARGUMENT when they do not fit its column (batch/boxes.c). */
ur_status ur_measure_boxes(const ur_column_info *info, const ur_output *output, int64_t rows, uint64_t *needed,
                           ur_error *error);

/* Boxes of the values of one blob column, of all `rows` rows of the groups of a batch; whether they are null is known
 * (batch/boxes.c). */
ur_status ur_gather_boxes(const ur_group *groups, int64_t group_count, const ur_output *output, int64_t rows,
                          ur_error *error);

/* Blobs of all the blob columns among `outputs` but those of which boxes are wanted, of all the groups of a batch together (batch/cells.c). */
ur_status ur_gather_cells(const ur_group *groups, int64_t group_count, const ur_output *outputs, int32_t count,
                          ur_error *error);

#endif
