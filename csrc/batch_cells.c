/* batch_cells.c - blob columns of a batch: cells located, read, verified, and copied into the caller's buffers.
 *
 * With a view (a map, or the file in memory) cells are verified where they lie and then copied, so the copy reads from
 * the processor's cache. Without one, a cell is read straight into the caller's buffer and verified there as soon as it
 * lands; only where rows share a digest and it has not been checked yet, the whole unit is read into scratch memory first.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "batch.h"
#include "copy.h"

#define CHUNK 256                               /* rows located before the first is copied, with a view: */
#define CHUNK_BYTES (UINT64_C(256) << 10)       /* at most, and what a cache holds between digest and copy */
#define CHUNK_READ 4096                         /* rows whose reads are handed over together, without one */
#define SCRATCH_BYTES (UINT64_C(8) << 20)       /* units read into scratch at a time */
#define AHEAD 32                                /* rows between touching a cell and copying it */
#define UNITS_AHEAD 3                           /* rows between touching a unit and digesting it */
#define LINE 64

typedef struct {
  const ur_group *group;
  const ur_output *outputs;
  int32_t *wanted;          /* which of the outputs are blobs */
  int32_t count;
  int32_t last_blob;        /* the highest blob position among them */
  bool row_units;           /* a digest covers whole rows */
  ur_extent *row;           /* last_blob + 1 cells of the row being located */
  ur_extent *cells;         /* chunk x count */
} cell_batch;

static const ur_output *output_of(const cell_batch *batch, int32_t i) { return &batch->outputs[batch->wanted[i]]; }

static int32_t blob_of(const cell_batch *batch, int32_t i) {
  return batch->group->part->columns[output_of(batch, i)->column].blob;
}

static ur_status blame_cell(const cell_batch *batch, ur_status status, int64_t i, int32_t output, ur_error *error) {
  int32_t column = batch->row_units ? -1 : output_of(batch, output)->column;
  return ur_blame(error, status, batch->group, i, column);
}

/* Locates the wanted cells of rows [first, first + n) of the group. */
static ur_status locate(const cell_batch *batch, int64_t first, int64_t n, ur_error *error) {
  ur_part *part = batch->group->part;
  for (int64_t i = 0; i < n; i++) {
    uint64_t row = (uint64_t)batch->group->rows[first + i];
    ur_status status = ur_locate_cells(part, row, batch->last_blob + 1, batch->row, NULL, error);
    if (status != UR_OK) return ur_blame(error, status, batch->group, first + i, -1);
    for (int32_t j = 0; j < batch->count; j++) batch->cells[i * batch->count + j] = batch->row[blob_of(batch, j)];
  }
  return UR_OK;
}

/* Where the cell goes; false when the room measured for it is not its length. */
static bool destination(const ur_output *output, int64_t place, uint64_t bytes, uint8_t **to) {
  if (output->offsets == NULL) {
    *to = output->data + (uint64_t)place * bytes;
    return true;
  }
  uint64_t room = (uint64_t)(output->offsets[place + 1] - output->offsets[place]);
  *to = bytes == 0 ? NULL : output->data + output->offsets[place];
  return room == bytes;
}

static ur_status changed(ur_error *error) {
  return ur_fail_at(error, UR_STALE, UR_FILE_INDEX, UR_NOWHERE, "the lengths of blobs changed while they were read");
}

/* ---- with a view ----------------------------------------------------------------------------------------------- */

/* Into the second cache, which can wait for several times as many lines at once as the first. */
static void touch(const uint8_t *at, uint64_t bytes) {
  uint64_t most = bytes < 8 * LINE ? bytes : 8 * LINE; /* the hardware follows a longer stream by itself */
  for (uint64_t i = 0; i < most; i += LINE) __builtin_prefetch(at + i, 0, 2);
}

/* Starts loading the unit of row i of the chunk, when it is still to be checked: its first bytes are the slow ones. */
static void touch_unit(const cell_batch *batch, int64_t first, int64_t i) {
  const ur_part *part = batch->group->part;
  uint64_t k = part->data.unit_rows, row = (uint64_t)batch->group->rows[first + i];
  if (k == 0 || part->data.row_bytes == 0 || ur_unit_is_checked(part, row / k)) return;
  const ur_extent *cell = &batch->cells[i * batch->count];
  uint64_t before = (row % k) * part->data.row_bytes;
  if (before <= cell->offset) touch(part->source->view + (cell->offset - before), part->data.row_bytes * k);
}

static ur_status verify_view(const cell_batch *batch, int64_t first, int64_t n, ur_error *error) {
  ur_part *part = batch->group->part;
  if (part->verify == UR_VERIFY_NEVER) return UR_OK;
  int32_t count = batch->row_units ? 1 : batch->count;
  uint64_t k = part->data.unit_rows;
  if (k > 0 && ur_rows_are_checked(part, batch->group->rows + first, n)) return UR_OK;
  for (int64_t i = 0; i < n; i++) {
    uint64_t row = (uint64_t)batch->group->rows[first + i];
    if (i + UNITS_AHEAD < n) touch_unit(batch, first, i + UNITS_AHEAD);
    for (int32_t j = 0; j < count; j++) {
      int32_t blob = blob_of(batch, j);
      uint64_t unit = k > 0 ? row / k : row * (uint64_t)part->blob_columns + (uint64_t)blob;
      if (ur_unit_is_checked(part, unit)) continue;
      ur_extent extent;
      ur_status status =
          ur_locate_unit(part, row, blob, &batch->cells[i * batch->count + j], &unit, &extent, error);
      if (status == UR_OK) status = ur_unit_check(part, unit, part->source->view + extent.offset, &extent, error);
      if (status != UR_OK) return blame_cell(batch, status, first + i, j, error);
    }
  }
  return UR_OK;
}

static void touch_cell(const cell_batch *batch, int64_t i, int32_t j) {
  const ur_extent *cell = &batch->cells[i * batch->count + j];
  touch(batch->group->part->source->view + cell->offset, cell->bytes);
}

static ur_status copy_view(const cell_batch *batch, int64_t first, int64_t n, ur_error *error) {
  const uint8_t *view = batch->group->part->source->view;
  for (int32_t j = 0; j < batch->count; j++) {
    const ur_output *output = output_of(batch, j);
    bool large = output->capacity >= UR_STREAM_BATCH;
    for (int64_t i = 0; i < n && i < AHEAD; i++) touch_cell(batch, i, j);
    for (int64_t i = 0; i < n; i++) {
      const ur_extent *cell = &batch->cells[i * batch->count + j];
      if (i + AHEAD < n) touch_cell(batch, i + AHEAD, j);
      uint8_t *to = NULL;
      if (!destination(output, ur_place(batch->group, first + i), cell->bytes, &to))
        return ur_blame(error, changed(error), batch->group, first + i, output->column);
      if (large && cell->bytes >= UR_STREAM_CELL) {
        ur_copy_streaming(to, view + cell->offset, cell->bytes);
      } else if (cell->bytes > 0) {
        memcpy(to, view + cell->offset, cell->bytes);
      }
    }
  }
  return UR_OK;
}

/* ---- without a view --------------------------------------------------------------------------------------------- */

/* One cell on its way: read straight to its destination, or out of a unit in scratch memory. */
typedef struct {
  uint8_t *to;
  const uint8_t *unit_bytes; /* what the digest covers, once it has been read */
  ur_extent cell;
  ur_extent extent;          /* of the unit */
  uint64_t unit;
  int64_t i;                 /* row in the group */
  int32_t output;
  bool check;
} reading;

typedef struct {
  reading *readings;
  ur_span *spans;
  uint8_t *scratch;
  uint64_t scratch_size, scratch_used;
  int64_t count, span_count;
} read_queue;

/* What has been found wrong with the cells that have landed: of the first of them in the batch's order. */
typedef struct {
  ur_part *part;
  const reading *readings;
  int64_t worst; /* a reading, or -1 */
  ur_status status;
  ur_error error;
} landed_cells;

static void check_landed(void *context, int64_t r) {
  landed_cells *cells = context;
  const reading *job = &cells->readings[r];
  ur_error error = {0};
  if (!job->check || (cells->worst >= 0 && cells->worst < r)) return;
  ur_status status = ur_unit_check(cells->part, job->unit, job->unit_bytes, &job->extent, &error);
  if (status == UR_OK) return;
  cells->worst = r;
  cells->status = status;
  cells->error = error;
}

static ur_status flush(const cell_batch *batch, read_queue *queue, ur_error *error) {
  ur_part *part = batch->group->part;
  landed_cells cells = {.part = part, .readings = queue->readings, .worst = -1};
  ur_landing landing = {check_landed, &cells};
  ur_status status = UR_OK;
  if (queue->span_count > 0)
    status = part->source->ops->read(part->source, queue->spans, queue->span_count, &landing, error);
  if (status != UR_OK) return ur_blame(error, status, batch->group, -1, -1);
  for (int64_t r = 0; r < queue->count; r++) /* what is empty was not read */
    if (queue->readings[r].extent.bytes == 0) check_landed(&cells, r);
  if (cells.worst >= 0) {
    const reading *job = &queue->readings[cells.worst];
    if (error != NULL) *error = cells.error;
    return blame_cell(batch, cells.status, job->i, job->output, error);
  }
  for (int64_t r = 0; r < queue->count; r++) {
    const reading *job = &queue->readings[r];
    if (job->unit_bytes != job->to && job->unit_bytes != NULL && job->cell.bytes > 0)
      memcpy(job->to, job->unit_bytes + (job->cell.offset - job->extent.offset), job->cell.bytes);
  }
  queue->count = queue->span_count = 0;
  queue->scratch_used = 0;
  return UR_OK;
}

/* Room for a unit in scratch memory; what is queued has been flushed when there was none. */
static ur_status reserve(const cell_batch *batch, read_queue *queue, uint64_t bytes, ur_error *error) {
  if (queue->scratch != NULL && bytes <= queue->scratch_size - queue->scratch_used) return UR_OK;
  ur_status status = flush(batch, queue, error);
  if (status != UR_OK || (queue->scratch != NULL && bytes <= queue->scratch_size)) return status;
  uint64_t size = bytes < SCRATCH_BYTES ? SCRATCH_BYTES : bytes;
  free(queue->scratch);
  queue->scratch = malloc(size);
  queue->scratch_size = queue->scratch == NULL ? 0 : size;
  if (queue->scratch != NULL) return UR_OK;
  return ur_fail(error, UR_NO_MEMORY, "no memory for a unit of %" PRIu64 " bytes", bytes);
}

/* Of the reading that is put into the queue next. */
static void add_span(read_queue *queue, const ur_extent *extent, uint8_t *to) {
  if (extent->bytes > 0)
    queue->spans[queue->span_count++] =
        (ur_span){.offset = extent->offset, .bytes = extent->bytes, .to = to, .tag = queue->count};
}

static ur_status enqueue(const cell_batch *batch, read_queue *queue, int64_t i, int32_t j, const ur_extent *cell,
                         ur_error *error) {
  ur_part *part = batch->group->part;
  const ur_output *output = output_of(batch, j);
  uint64_t row = (uint64_t)batch->group->rows[i], k = part->data.unit_rows;
  int32_t blob = blob_of(batch, j);
  reading job = {.cell = *cell, .i = i, .output = j};
  if (!destination(output, ur_place(batch->group, i), cell->bytes, &job.to)) return changed(error);
  job.unit = k > 0 ? row / k : row * (uint64_t)part->blob_columns + (uint64_t)blob;
  job.check = !ur_unit_is_checked(part, job.unit);
  if (!job.check || k == 0) {
    job.extent = *cell;
    job.unit_bytes = job.to;
    add_span(queue, cell, job.to);
  } else {
    const reading *before = queue->count > 0 ? &queue->readings[queue->count - 1] : NULL;
    if (before != NULL && before->unit == job.unit && before->unit_bytes != before->to) {
      job.extent = before->extent; /* the unit is on its way already, and is checked there */
      job.unit_bytes = before->unit_bytes;
      job.check = false;
    } else {
      ur_status status = ur_locate_unit(part, row, blob, cell, &job.unit, &job.extent, error);
      if (status == UR_OK) status = reserve(batch, queue, job.extent.bytes, error);
      if (status != UR_OK) return status;
      uint8_t *scratch = queue->scratch + queue->scratch_used;
      add_span(queue, &job.extent, scratch);
      queue->scratch_used += job.extent.bytes;
      job.unit_bytes = scratch;
    }
  }
  queue->readings[queue->count++] = job;
  return UR_OK;
}

static ur_status read_chunk(const cell_batch *batch, read_queue *queue, int64_t first, int64_t n, ur_error *error) {
  for (int64_t i = 0; i < n; i++)
    for (int32_t j = 0; j < batch->count; j++) {
      ur_status status = enqueue(batch, queue, first + i, j, &batch->cells[i * batch->count + j], error);
      if (status != UR_OK) return blame_cell(batch, status, first + i, j, error);
    }
  return flush(batch, queue, error);
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static ur_status run(cell_batch *batch, int64_t chunk, read_queue *queue, ur_error *error) {
  for (int64_t first = 0; first < batch->group->count; first += chunk) {
    int64_t left = batch->group->count - first, n = left < chunk ? left : chunk;
    ur_status status = locate(batch, first, n, error);
    if (status == UR_OK && queue != NULL) status = read_chunk(batch, queue, first, n, error);
    if (status == UR_OK && queue == NULL) status = verify_view(batch, first, n, error);
    if (status == UR_OK && queue == NULL) status = copy_view(batch, first, n, error);
    if (status != UR_OK) return status;
  }
  return UR_OK;
}

/* Memory for the arrays of most batches, on the stack: allocating them costs as much as a single row. */
typedef struct {
  int32_t wanted[16];
  ur_extent row[16];
  ur_extent cells[CHUNK];
} near_arrays;

static void *take(void *near, size_t near_bytes, size_t bytes) { return bytes <= near_bytes ? near : malloc(bytes); }

static void give(const void *near, void *taken) {
  if (taken != near) free(taken);
}

static bool find_wanted(cell_batch *batch, near_arrays *near, int32_t count) {
  batch->wanted = take(near->wanted, sizeof near->wanted, (size_t)count * sizeof *batch->wanted);
  if (batch->wanted == NULL) return false;
  for (int32_t i = 0; i < count; i++) {
    int32_t blob = batch->group->part->columns[batch->outputs[i].column].blob;
    if (blob < 0) continue;
    batch->wanted[batch->count++] = i;
    if (blob > batch->last_blob) batch->last_blob = blob;
  }
  return true;
}

/* With a view, a chunk is digested before it is copied: as many rows as a cache holds. */
static int64_t rows_of_chunk(const ur_part *part) {
  if (part->source->view == NULL) return CHUNK_READ;
  uint64_t mean = part->header.rows == 0 ? 0 : part->source->bytes / part->header.rows;
  uint64_t fitting = mean == 0 ? CHUNK : CHUNK_BYTES / mean;
  return fitting < 1 ? 1 : fitting > CHUNK ? CHUNK : (int64_t)fitting;
}

ur_status ur_gather_cells(const ur_group *group, const ur_output *outputs, int32_t count, ur_error *error) {
  bool row_units = group->part->data.unit_rows > 0;
  cell_batch batch = {.group = group, .outputs = outputs, .last_blob = -1, .row_units = row_units};
  near_arrays near;
  read_queue queue = {0};
  bool view = group->part->source->view != NULL;
  int64_t chunk = rows_of_chunk(group->part);
  if (chunk > group->count) chunk = group->count;
  ur_status status = UR_OK;
  bool memory = find_wanted(&batch, &near, count);
  if (memory && batch.count == 0) goto out;
  if (memory) {
    size_t cells = (size_t)chunk * (size_t)batch.count;
    batch.row = take(near.row, sizeof near.row, ((size_t)batch.last_blob + 1) * sizeof *batch.row);
    batch.cells = take(near.cells, sizeof near.cells, cells * sizeof *batch.cells);
    memory = batch.row != NULL && batch.cells != NULL;
    if (memory && !view) {
      queue.readings = malloc(cells * sizeof *queue.readings);
      queue.spans = malloc(cells * sizeof *queue.spans);
      memory = queue.readings != NULL && queue.spans != NULL;
    }
  }
  status = memory ? run(&batch, chunk, view ? NULL : &queue, error)
                  : ur_fail(error, UR_NO_MEMORY, "no memory to read %" PRId64 " rows", group->count);
out:
  give(near.wanted, batch.wanted);
  give(near.row, batch.row);
  give(near.cells, batch.cells);
  free(queue.readings);
  free(queue.spans);
  free(queue.scratch);
  return status;
}

ur_status ur_measure_cells(const ur_group *group, int32_t column, int64_t *lengths, ur_error *error) {
  for (int64_t i = 0; i < group->count; i++) {
    uint64_t bytes = 0;
    ur_status status =
        ur_cell_length(group->part, (uint64_t)group->rows[i], &group->part->columns[column], &bytes, error);
    if (status != UR_OK) return ur_blame(error, status, group, i, column);
    lengths[ur_place(group, i)] = (int64_t)bytes;
  }
  return UR_OK;
}
