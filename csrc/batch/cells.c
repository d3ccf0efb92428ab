/* batch/cells.c - blob columns of a batch: cells located, read, verified, and copied into the caller's buffers.
 *
 * With a view (a map, or the file in memory) cells are verified where they lie and then copied, so the copy reads from
 * the processor's cache. Without one, they go through a queue (batch/queue.c). Either way the parts of a batch are taken
 * together: of a hundred parts a batch has a few rows each, too few to load the next ones meanwhile.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "batch/cells.h"
#include "base/check.h"
#include "base/copy.h"

#define CHUNK_ROWS 256                               /* rows located before the first is copied */
#define CHUNK_BYTES (UINT64_C(256) << 10)       /* at most, with a view: what a cache holds between digest and copy */
#define AHEAD 32                                /* rows between touching a cell and copying it … */
#define AHEAD_BYTES (UINT64_C(128) << 10)       /* … as long as what is copied meanwhile does not push it out of the cache */
#define UNITS_AHEAD 3                           /* rows between touching a unit and digesting it */
#define MORE_UNITS 16                           /* units checked in the file's order for each that had to be checked … */
#define MORE_ROWS 32                            /* … among this many rows: whoever reads a few wants those alone */

/* Some rows of a group: their cells are batch->cells[at * batch->count] and what follows. */
typedef struct {
  const ur_group *group;
  int64_t first, n, at;
} segment;

static ur_status locate(const ur_cell_batch *batch, const segment *rows, ur_error *error) {
  ur_part *part = rows->group->part;
  int32_t last = -1;
  for (int32_t j = 0; j < batch->count; j++) {
    batch->wanted[j].located = ur_blob_of(part, &batch->wanted[j]);
    if (batch->wanted[j].located > last) last = batch->wanted[j].located;
  }
  for (int64_t i = 0; i < rows->n; i++) {
    uint64_t row = (uint64_t)rows->group->rows[rows->first + i];
    ur_status status = ur_locate_cells(part, row, last + 1, batch->row, NULL, error);
    if (status != UR_OK) return ur_blame(error, status, rows->group, rows->first + i, -1);
    ur_extent *cells = &batch->cells[(rows->at + i) * batch->count];
    for (int32_t j = 0; j < batch->count; j++) cells[j] = batch->row[batch->wanted[j].located];
  }
  return UR_OK;
}

/* ---- with a view ----------------------------------------------------------------------------------------------- */

/* Rows located and not yet copied, of one group or of several. */
typedef struct {
  segment segments[CHUNK_ROWS];
  int64_t count, rows;
  int64_t limit;        /* rows that it may have: as many as a cache holds between digest and copy */
  const uint8_t **from; /* where each cell lies */
  bool *while_copied;   /* whether each cell is checked while it is copied, and not before */
} chunk;

/* Starts loading the unit of row i of the segment, when it is still to be checked: its first bytes are the slow ones. */
static void touch_unit(const ur_cell_batch *batch, const segment *rows, int64_t i) {
  const ur_part *part = rows->group->part;
  uint64_t k = part->data.unit_rows, row = (uint64_t)rows->group->rows[rows->first + i];
  if (k == 0 || part->data.row_bytes == 0 || ur_unit_is_checked(part, ur_unit_of(part, row, 0))) return;
  const ur_extent *cell = &batch->cells[(rows->at + i) * batch->count];
  uint64_t before = (row % k) * part->data.row_bytes; /* exact: rows x row_bytes is in the data file */
  uint64_t bytes = 0;
  if (before <= cell->offset && ur_multiply(part->data.row_bytes, k, &bytes))
    ur_touch_cell(part->file->view + (cell->offset - before), bytes); /* exact: the unit begins in the file */
}

/* Checks a unit that has not been checked, unless it is a cell that streams and nothing else: that is digested while it is
 * copied, which *while_copied says. */
static ur_status verify_unit(ur_part *part, uint64_t row, const ur_wanted *wanted, const ur_extent *cell,
                             bool *while_copied, ur_error *error) {
  uint64_t unit = 0;
  ur_extent extent;
  ur_status status = ur_locate_unit(part, row, ur_blob_of(part, wanted), cell, &unit, &extent, error);
  if (status != UR_OK) return status;
  *while_copied = !wanted->other && ur_cell_streams(wanted->output, cell->bytes) && extent.offset == cell->offset &&
                  extent.bytes == cell->bytes;
  if (*while_copied) return UR_OK;
  /* exact: units are inside the file */
  return ur_unit_check(part, unit, part->file->view + extent.offset, &extent, NULL, error);
}

/* Checks what will not be checked while it is copied; of a batch of many rows, more than that. */
static ur_status verify_view(const ur_cell_batch *batch, const chunk *located, const segment *rows, ur_error *error) {
  const ur_group *group = rows->group;
  ur_part *part = group->part;
  if (part->verify == UR_VERIFY_NEVER) return UR_OK;
  uint64_t k = part->data.unit_rows;
  int32_t count = k > 0 ? 1 : batch->count; /* units of k rows, or of one cell */
  uint64_t checked = 0;
  if (k > 0 && ur_rows_are_checked(part, group->rows + rows->first, rows->n)) return UR_OK;
  for (int64_t i = 0; i < rows->n; i++) {
    uint64_t row = (uint64_t)group->rows[rows->first + i];
    if (i + UNITS_AHEAD < rows->n) touch_unit(batch, rows, i + UNITS_AHEAD);
    for (int32_t j = 0; j < count; j++) {
      const ur_wanted *wanted = &batch->wanted[j];
      int64_t at = (rows->at + i) * batch->count + j;
      if (ur_unit_is_checked(part, ur_unit_of(part, row, ur_blob_of(part, wanted)))) continue;
      ur_status status = verify_unit(part, row, wanted, &batch->cells[at], &located->while_copied[at], error);
      if (status != UR_OK) return ur_blame(error, status, group, rows->first + i, k > 0 ? -1 : wanted->output->column);
      checked += !located->while_copied[at];
    }
  }
  if (k > 0 && checked > 0 && located->rows >= MORE_ROWS) ur_units_check_ahead(part, checked * MORE_UNITS);
  return UR_OK;
}

/* Checks a cell, which is a unit, and copies it on the way. */
static ur_status copy_checking(const ur_group *group, int64_t i, const ur_wanted *wanted, const ur_extent *cell,
                               uint8_t *to, ur_error *error) {
  ur_part *part = group->part;
  uint64_t unit = ur_unit_of(part, (uint64_t)group->rows[i], ur_blob_of(part, wanted));
  /* exact: cells are inside the file */
  ur_status status = ur_unit_check(part, unit, part->file->view + cell->offset, cell, to, error);
  return ur_blame(error, status, group, i, part->data.unit_rows > 0 ? -1 : wanted->output->column);
}

/* Makes values of the cells of one output, the rows ahead already on their way into the cache. */
static ur_status decode_view(const ur_cell_batch *batch, const chunk *located, int32_t j, int64_t ahead, const segment *rows,
                             ur_error *error) {
  ur_codec_context *context = NULL;
  int64_t end = located->rows * batch->count, lead = ahead * batch->count;
  ur_status status = UR_OK;
  for (int64_t i = 0; i < rows->n && status == UR_OK; i++) {
    int64_t at = (rows->at + i) * batch->count + j;
    if (at + lead < end) ur_touch_cell(located->from[at + lead], batch->cells[at + lead].bytes);
    status = ur_decode_cell(rows->group, rows->first + i, batch->wanted[j].output, &context, located->from[at],
                            &batch->cells[at], error);
  }
  ur_codec_context_give(context);
  return status;
}

/* Copies the cells of one output, the rows ahead already on their way into the cache. */
static ur_status copy_view(const ur_cell_batch *batch, const chunk *located, int32_t j, int64_t ahead, const segment *rows,
                           ur_error *error) {
  const ur_output *output = batch->wanted[j].output;
  if (!rows->group->part->columns[output->column].is_plain)
    return decode_view(batch, located, j, ahead, rows, error);
  const ur_extent *cells = batch->cells;
  const uint8_t *const *from = located->from;
  int64_t end = located->rows * batch->count, lead = ahead * batch->count;
  for (int64_t i = 0; i < rows->n; i++) {
    int64_t at = (rows->at + i) * batch->count + j;
    if (at + lead < end) ur_touch_cell(from[at + lead], cells[at + lead].bytes);
    uint64_t bytes = cells[at].bytes;
    uint8_t *to = NULL;
    if (!ur_cell_destination(output, ur_place(rows->group, rows->first + i), bytes, &to))
      return ur_blame(error, ur_cells_changed(error), rows->group, rows->first + i, output->column);
    if (located->while_copied[at]) {
      ur_status status = copy_checking(rows->group, rows->first + i, &batch->wanted[j], &cells[at], to, error);
      if (status != UR_OK) return status;
    } else if (ur_cell_streams(output, bytes)) {
      ur_copy_streaming(to, from[at], bytes);
    } else if (bytes > 0) {
      memcpy(to, from[at], bytes);
    }
  }
  return UR_OK;
}

/* Rows between touching a cell of one output and copying it: as many as bring no more than a cache holds, of the cells that this
 * output has, however long their rows are. */
static int64_t rows_ahead(const ur_cell_batch *batch, const chunk *located, int32_t j) {
  uint64_t bytes = 0;
  for (int64_t i = 0; i < located->rows; i++) bytes += batch->cells[i * batch->count + j].bytes; /* exact: inside files */
  if (bytes <= AHEAD_BYTES) return AHEAD;
  int64_t fitting = (int64_t)(AHEAD_BYTES / (bytes / (uint64_t)located->rows + 1));
  return fitting < 1 ? 1 : fitting > AHEAD ? AHEAD : fitting;
}

/* Verifies and copies what has been located. */
static ur_status finish_chunk(const ur_cell_batch *batch, chunk *located, ur_error *error) {
  ur_status status = UR_OK;
  memset(located->while_copied, 0, (size_t)(located->rows * batch->count));
  for (int64_t s = 0; s < located->count && status == UR_OK; s++) {
    const segment *rows = &located->segments[s];
    const uint8_t *view = rows->group->part->file->view;
    status = verify_view(batch, located, rows, error);
    ur_part_timer_end(rows->group->timer);
    for (int64_t c = rows->at * batch->count; c < (rows->at + rows->n) * batch->count; c++)
      located->from[c] = view + batch->cells[c].offset; /* exact: cells are inside the file */
  }
  for (int32_t j = 0; j < batch->count && status == UR_OK; j++) {
    int64_t ahead = rows_ahead(batch, located, j);
    for (int64_t i = 0; i < located->rows && i < ahead; i++)
      ur_touch_cell(located->from[i * batch->count + j], batch->cells[i * batch->count + j].bytes);
    for (int64_t s = 0; s < located->count && status == UR_OK; s++) {
      status = copy_view(batch, located, j, ahead, &located->segments[s], error);
      ur_part_timer_end(located->segments[s].group->timer);
    }
  }
  located->count = located->rows = 0;
  return status;
}

/* How many of a part's rows lie in `bytes`, as they are on average: between 1 and `most`. */
static int64_t rows_in(const ur_part *part, uint64_t bytes, int64_t most) {
  uint64_t mean = part->header.rows == 0 ? 0 : part->file->bytes / part->header.rows;
  uint64_t fitting = mean == 0 ? (uint64_t)most : bytes / mean;
  return fitting < 1 ? 1 : fitting > (uint64_t)most ? most : (int64_t)fitting;
}

static void begin_chunk(chunk *located, const ur_part *part) {
  bool digested = part->verify != UR_VERIFY_NEVER && atomic_load_explicit(&part->units_left, memory_order_relaxed) > 0;
  located->limit = digested ? rows_in(part, CHUNK_BYTES, CHUNK_ROWS) : CHUNK_ROWS;
}

static ur_status gather_viewed(const ur_cell_batch *batch, chunk *located, const ur_group *group, ur_error *error) {
  for (int64_t first = 0; first < group->count;) {
    if (located->rows == 0) begin_chunk(located, group->part);
    int64_t room = located->limit - located->rows, left = group->count - first;
    segment *rows = &located->segments[located->count++];
    *rows = (segment){group, first, left < room ? left : room, located->rows};
    ur_status status = locate(batch, rows, error);
    first += rows->n;
    located->rows += rows->n;
    if (status == UR_OK && located->rows == located->limit) status = finish_chunk(batch, located, error);
    if (status != UR_OK) return status;
  }
  return UR_OK;
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static ur_status gather_read(const ur_cell_batch *batch, ur_cell_queue *queue, const ur_group *group, ur_error *error) {
  ur_status status = UR_OK;
  for (int64_t first = 0; first < group->count && status == UR_OK; first += CHUNK_ROWS) {
    int64_t left = group->count - first;
    segment rows = {group, first, left < CHUNK_ROWS ? left : CHUNK_ROWS, 0};
    status = locate(batch, &rows, error);
    if (status == UR_OK) status = ur_queue_cells(queue, batch, group, first, rows.n, error);
  }
  return status;
}

static ur_status gather(const ur_cell_batch *batch, chunk *located, ur_cell_queue *queue, const ur_group *groups,
                        int64_t count, ur_error *error) {
  ur_status status = UR_OK;
  for (int64_t g = 0; g < count && status == UR_OK; g++) {
    if (groups[g].part->file->view != NULL) {
      status = gather_viewed(batch, located, &groups[g], error);
    } else {
      status = finish_chunk(batch, located, error); /* whose place among the cells is needed */
      if (status == UR_OK) status = gather_read(batch, queue, &groups[g], error);
    }
  }
  if (status == UR_OK) status = finish_chunk(batch, located, error);
  return status == UR_OK ? ur_queue_flush(queue, error) : status;
}

/* Memory for the arrays of most batches, on the stack: allocating them costs as much as a single row. */
typedef struct {
  ur_wanted wanted[16];
  ur_extent row[16];
  ur_extent cells[CHUNK_ROWS];
  const uint8_t *from[CHUNK_ROWS];
  bool while_copied[CHUNK_ROWS];
} near_arrays;

static void *take(void *near, size_t near_bytes, size_t bytes) { return bytes <= near_bytes ? near : malloc(bytes); }

static void give(const void *near, const void *taken) {
  if (taken != near) free((void *)(uintptr_t)taken);
}

static void find_wanted(ur_cell_batch *batch, const ur_group *groups, int64_t group_count, const ur_output *outputs,
                        int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    int32_t column = outputs[i].column;
    if (groups->part->columns[column].blob < 0 || outputs[i].boxes != NULL) continue; /* in all parts, or in none */
    bool other = false;
    for (int64_t g = 0; g < group_count; g++)
      other = other || !groups[g].part->columns[column].is_plain;
    batch->wanted[batch->count++] = (ur_wanted){&outputs[i], -1, other};
  }
}

ur_status ur_gather_cells(const ur_group *groups, int64_t group_count, const ur_output *outputs, int32_t count,
                          ur_error *error) {
  if (group_count == 0) return UR_OK;
  near_arrays near;
  ur_cell_batch batch = {.count = 0};
  ur_cell_queue queue = {0};
  chunk located;
  located.count = located.rows = 0;
  int64_t rows = 0;
  int32_t blobs = 0;
  for (int64_t g = 0; g < group_count; g++) {
    rows += groups[g].count;
    if (groups[g].part->blob_columns > blobs) blobs = groups[g].part->blob_columns;
  }
  size_t cells = (size_t)(rows < CHUNK_ROWS ? rows : CHUNK_ROWS) * (size_t)count;
  batch.wanted = take(near.wanted, sizeof near.wanted, (size_t)count * sizeof *batch.wanted);
  batch.row = take(near.row, sizeof near.row, (size_t)blobs * sizeof *batch.row);
  batch.cells = take(near.cells, sizeof near.cells, cells * sizeof *batch.cells);
  located.from = take(near.from, sizeof near.from, cells * sizeof *located.from);
  located.while_copied = take(near.while_copied, sizeof near.while_copied, cells);
  ur_status status = UR_OK;
  if (batch.wanted != NULL && batch.row != NULL && batch.cells != NULL && located.from != NULL &&
      located.while_copied != NULL) {
    find_wanted(&batch, groups, group_count, outputs, count);
    queue.expected = rows * batch.count;
    if (batch.count > 0) status = gather(&batch, &located, &queue, groups, group_count, error);
  } else {
    status = ur_fail(error, UR_NO_MEMORY, "no memory to read %" PRId64 " rows", rows);
  }
  ur_queue_free(&queue);
  give(near.wanted, batch.wanted);
  give(near.row, batch.row);
  give(near.cells, batch.cells);
  give(near.from, located.from);
  give(near.while_copied, located.while_copied);
  return status;
}

void ur_touch_lengths(const ur_group *group, int32_t column) {
  const ur_part *part = group->part;
  const ur_column *wanted = &part->columns[column];
  if (!wanted->info.is_blob || wanted->stored_width > 0) return;
  ur_vector lengths = ur_vector_of(part, wanted->section[UR_SECTION_LENGTHS]);
  ur_vector starts = ur_vector_of(part, part->starts_section);
  uint64_t k = part->data.unit_rows > 1 ? part->data.unit_rows : 1;
  for (int64_t i = 0; i < group->count; i++) {
    uint64_t row = (uint64_t)group->rows[i];
    __builtin_prefetch(lengths.data + row * lengths.width, 0, 2); /* exact: inside the section */
    __builtin_prefetch(starts.data + row / k * starts.width, 0, 2); /* exact: inside the section */
  }
}

void ur_touch_rows(const ur_group *group) {
  const ur_part *part = group->part;
  if (part->blob_columns == 0) return;
  bool fixed = part->data.row_bytes != 0;
  ur_vector starts = ur_vector_of(part, fixed ? part->groups_section : part->starts_section);
  uint64_t k = fixed ? part->data.group_rows : part->data.unit_rows > 1 ? part->data.unit_rows : 1;
  uint64_t width = fixed ? 32 : starts.width;
  for (int64_t i = 0; i < group->count; i++)
    __builtin_prefetch(starts.data + (uint64_t)group->rows[i] / k * width, 0, 2); /* exact: inside the section */
}

ur_status ur_measure_cells(const ur_group *group, int32_t column, int64_t *lengths, ur_error *error) {
  const ur_column *measured = &group->part->columns[column];
  ur_status (*measure)(ur_part *, uint64_t, const ur_column *, uint64_t *, ur_error *) =
      measured->info.codec == UR_CODEC_PLAIN ? ur_cell_length : ur_value_length;
  for (int64_t i = 0; i < group->count; i++) {
    uint64_t bytes = 0;
    ur_status status = measure(group->part, (uint64_t)group->rows[i], measured, &bytes, error);
    if (status != UR_OK) return ur_blame(error, status, group, i, column);
    lengths[ur_place(group, i)] = (int64_t)bytes;
  }
  return UR_OK;
}
