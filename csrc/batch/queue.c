/* batch/queue.c - blob cells of a batch whose data files are not in memory: queued, read together, verified as they land.
 *
 * A cell is read straight into the caller's buffer and verified there as soon as it lands; only where rows share a digest
 * and it has not been checked yet, the whole unit is read into scratch memory first. The cells of all parts are read
 * together: a batch of a set of a hundred parts has a few rows in each, too few to keep a disk busy one after the other.
 * Cells that are compressed or cut into chunks are always read into scratch memory, and their values made from there.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "batch/cells.h"
#include "io/cache.h"

#define ROOM 4096                         /* cells read together, at most */

/* One cell on its way: read straight to its destination, or out of a unit in scratch memory. */
struct ur_reading {
  const ur_group *group;
  const ur_output *output;   /* where its value goes, when the cell is not that; else NULL */
  uint8_t *to;
  const uint8_t *unit_bytes; /* what the digest covers, once it has been read */
  ur_extent cell;
  ur_extent extent;          /* of the unit */
  uint64_t unit;
  int64_t i;                 /* row in the group */
  int32_t column;            /* to be blamed, or -1 */
  bool check;
  bool is_whole;             /* unit_bytes are the unit, in scratch memory, whatever the cell */
};

/* What has been found wrong with the cells that have landed: of the first of them in the queue's order. */
typedef struct {
  const ur_reading *readings;
  int64_t worst; /* a reading, or -1 */
  ur_status status;
  ur_error error;
  const ur_cell_queue *queue;
  ur_landing landing;
  bool brought;  /* by a function, which may say when each was there */
  bool together; /* what comes next has been on its way together with all the others */
} landed_cells;

static ur_status check_reading(const ur_reading *job, ur_error *error) {
  return ur_unit_check(job->group->part, job->unit, job->unit_bytes, &job->extent, NULL, error);
}

static bool is_checked(void *context, int64_t r) { return ((landed_cells *)context)->readings[r].check; }

/* Of what a cache had: it need not be checked again. */
static ur_status check_cached(void *context, int64_t r) {
  const ur_reading *job = &((landed_cells *)context)->readings[r];
  ur_status status = check_reading(job, NULL);
  if (status == UR_OK) ur_unit_settle(job->group->part, job->unit);
  return status;
}

static void check_cell(landed_cells *cells, int64_t r) {
  const ur_reading *job = &cells->readings[r];
  ur_error error = {0};
  if (!job->check || (cells->worst >= 0 && cells->worst < r)) return;
  ur_status status = check_reading(job, &error);
  if (status == UR_OK) return;
  const ur_source *source = &job->group->part->source;
  (void)ur_cache_forget(source->cache, source->part, UR_FILE_DATA, job->extent.offset, job->extent.bytes);
  cells->worst = r;
  cells->status = status;
  cells->error = error;
}

/* The time in which all cells were on their way together: each is given its share. */
static void share_time(const ur_cell_queue *queue, uint64_t spent) {
  uint64_t total = 0;
  /* exact: cells of a batch, which has been measured */
  for (int64_t r = 0; r < queue->count; r++) total += queue->readings[r].cell.bytes;
  for (int64_t r = 0; r < queue->count; r++)
    ur_part_timer_share(queue->readings[r].group->timer, spent, queue->readings[r].cell.bytes, total);
}

static void check_landed(void *context, int64_t r) {
  landed_cells *cells = context;
  ur_part_timer *timer = cells->readings[r].group->timer;
  check_cell(cells, r);
  if (timer == NULL || (cells->brought && cells->landing.came == 0)) return;
  uint64_t now = cells->brought ? cells->landing.came : ur_now_ns();
  if (!cells->brought) timer->timing->looks++;
  uint64_t spent = ur_timing_spent_until(timer->timing, now);
  if (cells->together) share_time(cells->queue, spent);
  else timer->ns += spent;
  cells->together = false;
}

static ur_status read_spans(ur_cell_queue *queue, landed_cells *cells, ur_error *error) {
  if (queue->span_count == 0) return UR_OK;
  int32_t io = queue->spans[0].file->io;
  const ur_part_timer *timer = queue->readings[0].group->timer; /* all have one, or none */
  cells->landing = (ur_landing){
      .call = check_landed, .checks = is_checked, .check = check_cached, .context = cells, .wants_times = timer != NULL};
  cells->brought = io == UR_IO_FETCH;
  cells->together = cells->brought || io == UR_IO_URING || io == UR_IO_URING_DIRECT;
  if (timer != NULL) ur_timing_pass(timer->timing);
  ur_status status = queue->ops->read(queue->spans, queue->span_count, &cells->landing, error);
  if (timer != NULL && (cells->together || cells->brought)) share_time(queue, ur_timing_spent(timer->timing));
  return status == UR_OK ? UR_OK : ur_blame(error, status, queue->readings[cells->landing.failed].group, -1, -1);
}

/* What has landed in scratch memory, to where it goes. */
static ur_status deliver(const ur_cell_queue *queue, ur_error *error) {
  ur_codec_context *context = NULL;
  ur_status status = UR_OK;
  for (int64_t r = 0; r < queue->count && status == UR_OK; r++) {
    const ur_reading *job = &queue->readings[r];
    /* exact: the cell is inside its unit */
    const uint8_t *from = job->unit_bytes == NULL ? NULL : job->unit_bytes + (job->cell.offset - job->extent.offset);
    if (job->output != NULL) {
      status = ur_decode_cell(job->group, job->i, job->output, &context, from, &job->cell, error);
      ur_part_timer_end(job->group->timer);
    } else if (job->unit_bytes != job->to && from != NULL && job->cell.bytes > 0) {
      memcpy(job->to, from, job->cell.bytes);
    }
  }
  ur_codec_context_give(context);
  return status;
}

ur_status ur_queue_flush(ur_cell_queue *queue, ur_error *error) {
  landed_cells cells = {.readings = queue->readings, .queue = queue, .worst = -1};
  ur_status status = read_spans(queue, &cells, error);
  if (status != UR_OK) return status;
  for (int64_t r = 0; r < queue->count; r++) /* what is empty was not read, which took no time */
    if (queue->readings[r].extent.bytes == 0) check_cell(&cells, r);
  if (cells.worst >= 0) {
    const ur_reading *job = &queue->readings[cells.worst];
    if (error != NULL) *error = cells.error;
    return ur_blame(error, cells.status, job->group, job->i, job->column);
  }
  status = deliver(queue, error);
  if (status != UR_OK) return status;
  queue->count = queue->span_count = 0;
  queue->scratch_used = 0;
  return UR_OK;
}

/* Room for a unit in scratch memory; what is queued has been flushed when there was none. */
static ur_status reserve(ur_cell_queue *queue, uint64_t bytes, ur_error *error) {
  if (queue->scratch != NULL && bytes <= queue->scratch_size - queue->scratch_used) return UR_OK;
  ur_status status = ur_queue_flush(queue, error);
  if (status != UR_OK || (queue->scratch != NULL && bytes <= queue->scratch_size)) return status;
  uint64_t size = bytes < UR_SCRATCH_BYTES ? UR_SCRATCH_BYTES : bytes;
  free(queue->scratch);
  queue->scratch = malloc(size);
  queue->scratch_size = queue->scratch == NULL ? 0 : size;
  if (queue->scratch != NULL) return UR_OK;
  return ur_fail(error, UR_NO_MEMORY, "no memory for a unit of %" PRIu64 " bytes", bytes);
}

/* Of the reading that is put into the queue next. */
static void add_span(ur_cell_queue *queue, const ur_data_file *file, const ur_extent *extent, uint8_t *to) {
  if (extent->bytes > 0)
    queue->spans[queue->span_count++] = (ur_span){
        .file = file, .offset = extent->offset, .bytes = extent->bytes, .to = to, .tag = queue->count};
}

/* Has `extent` read into scratch memory, of which reserve() has seen to the room; returns where. */
static uint8_t *add_scratch_span(ur_cell_queue *queue, const ur_data_file *file, const ur_extent *extent) {
  uint8_t *scratch = queue->scratch + queue->scratch_used; /* exact: reserve() has seen to the room */
  add_span(queue, file, extent, scratch);
  queue->scratch_used += extent->bytes; /* exact: likewise */
  return scratch;
}

/* The reading before, when its unit is this one and is on its way to scratch memory already. */
static const ur_reading *same_unit(const ur_cell_queue *queue, const ur_group *group, uint64_t unit) {
  if (queue->count == 0) return NULL;
  const ur_reading *before = &queue->readings[queue->count - 1];
  return before->group == group && before->unit == unit && before->is_whole ? before : NULL;
}

/* Reads a cell at once that a cache has, and that was right when it was read from there before. */
static ur_status take_settled(ur_cell_queue *queue, ur_reading *job, ur_error *error) {
  const ur_part *part = job->group->part;
  uint8_t *to = job->to;
  if (part->source.cache == NULL || job->cell.bytes == 0 || !ur_unit_is_settled(part, job->unit)) return UR_OK;
  if (job->output != NULL) {
    ur_status status = reserve(queue, job->cell.bytes, error);
    if (status != UR_OK) return status;
    to = queue->scratch + queue->scratch_used; /* exact: reserve() has seen to the room */
  }
  if (!ur_cache_read_settled(part->source.cache, part->source.part, job->cell.offset, job->cell.bytes, to)) return UR_OK;
  if (job->output != NULL) queue->scratch_used += job->cell.bytes; /* exact: likewise */
  job->unit_bytes = to;
  job->extent = job->cell;
  job->check = false;
  return UR_OK;
}

static ur_status enqueue(ur_cell_queue *queue, const ur_group *group, const ur_wanted *wanted, int64_t i,
                         const ur_extent *cell, ur_error *error) {
  ur_part *part = group->part;
  uint64_t row = (uint64_t)group->rows[i], k = part->data.unit_rows;
  ur_reading job = {.group = group, .cell = *cell, .i = i, .column = k > 0 ? -1 : wanted->output->column};
  if (!part->columns[wanted->output->column].is_plain)
    job.output = wanted->output;
  else if (!ur_cell_destination(wanted->output, ur_place(group, i), cell->bytes, &job.to))
    return ur_cells_changed(error);
  job.unit = ur_unit_of(part, row, ur_blob_of(part, wanted));
  job.check = !ur_unit_is_checked(part, job.unit);
  if (job.check) {
    ur_status status = take_settled(queue, &job, error);
    if (status != UR_OK) return status;
  }
  if (job.unit_bytes != NULL) {
    /* it is there */
  } else if (!job.check || k == 0) {
    job.extent = *cell;
    if (job.output == NULL) {
      job.unit_bytes = job.to;
      add_span(queue, part->file, cell, job.to);
    } else {
      ur_status status = reserve(queue, cell->bytes, error);
      if (status != UR_OK) return status;
      job.unit_bytes = add_scratch_span(queue, part->file, cell);
    }
  } else {
    const ur_reading *before = same_unit(queue, group, job.unit);
    if (before != NULL) {
      job.extent = before->extent;
      job.unit_bytes = before->unit_bytes;
      job.check = false; /* it is checked there */
      job.is_whole = true;
    } else {
      ur_status status = ur_locate_unit(part, row, ur_blob_of(part, wanted), cell, &job.unit, &job.extent, error);
      if (status == UR_OK) status = reserve(queue, job.extent.bytes, error);
      if (status != UR_OK) return status;
      job.unit_bytes = add_scratch_span(queue, part->file, &job.extent);
      job.is_whole = true;
    }
  }
  queue->readings[queue->count++] = job;
  return UR_OK;
}

static ur_status make_room(ur_cell_queue *queue, ur_error *error) {
  queue->room = queue->expected < ROOM ? queue->expected : ROOM;
  queue->readings = malloc((size_t)queue->room * sizeof *queue->readings);
  queue->spans = malloc((size_t)queue->room * sizeof *queue->spans);
  if (queue->readings != NULL && queue->spans != NULL) return UR_OK;
  return ur_fail(error, UR_NO_MEMORY, "no memory to read %" PRId64 " cells", queue->room);
}

ur_status ur_queue_cells(ur_cell_queue *queue, const ur_cell_batch *batch, const ur_group *group, int64_t first, int64_t n,
                         ur_error *error) {
  const ur_data_file_ops *ops = group->part->file->ops;
  ur_status status = UR_OK;
  if (queue->readings == NULL) status = make_room(queue, error);
  if (status == UR_OK && queue->ops != ops) status = ur_queue_flush(queue, error);
  queue->ops = ops;
  for (int64_t i = 0; i < n; i++)
    for (int32_t j = 0; j < batch->count; j++) {
      if (status == UR_OK && queue->count == queue->room) status = ur_queue_flush(queue, error);
      if (status != UR_OK) return status;
      const ur_wanted *wanted = &batch->wanted[j];
      status = enqueue(queue, group, wanted, first + i, &batch->cells[i * batch->count + j], error);
      if (status != UR_OK)
        return ur_blame(error, status, group, first + i, group->part->data.unit_rows > 0 ? -1 : wanted->output->column);
    }
  return status;
}

void ur_queue_free(ur_cell_queue *queue) {
  free(queue->readings);
  free(queue->spans);
  free(queue->scratch);
}
