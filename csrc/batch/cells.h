/* batch/cells.h - what reading blobs with a view and without one share. Internal. */
#ifndef UR_BATCH_CELLS_H
#define UR_BATCH_CELLS_H

#include "base/copy.h"
#include "batch/batch.h"

/* One output that is a blob. */
typedef struct {
  const ur_output *output;
  int32_t located; /* its number among the blob columns of the part whose rows are being located */
  bool other;      /* its cells are not its values in some part: they are compressed, or cut into chunks */
} ur_wanted;

/* The outputs of a batch that are blobs, and where the cells of some of its rows lie. */
typedef struct {
  ur_wanted *wanted;
  int32_t count;
  ur_extent *row;           /* cells of the row being located, as many as a part of the batch has in a row */
  ur_extent *cells;         /* rows x count */
} ur_cell_batch;

/* The number of an output among the blob columns of a part; parts of other layouts have others. */
static inline int32_t ur_blob_of(const ur_part *part, const ur_wanted *wanted) {
  return part->columns[wanted->output->column].blob;
}

/* Starts loading a value into the second cache, which can wait for several times as many lines at once as the first. */
static inline void ur_touch_cell(const uint8_t *at, uint64_t bytes) {
  uint64_t most = bytes < 512 ? bytes : 512; /* the hardware follows a longer stream by itself */
  for (uint64_t i = 0; i < most; i += 64) __builtin_prefetch(at + i, 0, 2);
}

/* Whether a cell is large enough to be copied past the caches. */
static inline bool ur_cell_streams(const ur_output *output, uint64_t bytes) {
  return output->capacity >= UR_STREAM_BATCH && bytes >= UR_STREAM_CELL;
}

/* Where a cell goes; false when the room measured for it is not its length, which ur_cells_changed is the error for. */
bool ur_cell_destination(const ur_output *output, int64_t place, uint64_t bytes, uint8_t **to);
ur_status ur_cells_changed(ur_error *error);

/* Makes a value of a cell of row i of the group, which lies at `stored` in memory, where it goes in the output: decompressed,
 * its chunks put together. Blames the row when that fails. *context: taken when it is needed; NULL before (batch/place.c). */
ur_status ur_decode_cell(const ur_group *group, int64_t i, const ur_output *output, ur_codec_context **context,
                         const uint8_t *stored, const ur_extent *cell, ur_error *error);

/* ---- without a view (batch/queue.c) ------------------------------------------------------------------------------ */

typedef struct ur_reading ur_reading;

/* Cells of one or more groups whose bytes are to be read together; starts as zeros but for `expected`. */
typedef struct {
  const ur_data_file_ops *ops; /* of all the files */
  ur_reading *readings;
  ur_span *spans;
  uint8_t *scratch;
  uint64_t scratch_size, scratch_used;
  int64_t expected; /* cells that will come, in all */
  int64_t room, count, span_count;
} ur_cell_queue;

/* Adds the cells of rows [first, first + n) of the group, which batch->cells has from its start on; reads what is queued
 * when there is no more room. */
ur_status ur_queue_cells(ur_cell_queue *queue, const ur_cell_batch *batch, const ur_group *group, int64_t first, int64_t n,
                         ur_error *error);

/* Reads, verifies and delivers all that is queued. */
ur_status ur_queue_flush(ur_cell_queue *queue, ur_error *error);
void ur_queue_free(ur_cell_queue *queue);

#endif
