/* batch/boxes.c - boxes of values, cut straight into a batch: of cells in chunks, only those that a box touches are read, and
 * compared with their digests. Other cells are read, and compared, whole.
 *
 * What is to be read of a row is one piece for each chunk, or one for the cell. With a view, a piece is dealt with where it lies;
 * without one, as many as fit into scratch memory are read together, and each is dealt with as soon as it lands.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "batch/batch.h"
#include "io/cache.h"
#include "part/chunks.h"

#define ROOM 1024                         /* pieces read together, at most */
#define WHOLE UINT64_MAX                  /* in place of the number of a chunk */

/* A chunk that a box touches, or the cell of its value. */
typedef struct {
  const ur_group *group;
  int64_t i;         /* row in the group */
  ur_chunked cell;   /* of a chunk; of a whole cell, its value's grid: one chunk */
  uint64_t number;   /* of the chunk, or WHOLE */
  uint64_t raw;      /* bytes of its values */
  ur_extent stored;  /* in the file */
  ur_extent read;    /* what is read of the file: of a whole cell, the unit where that is to be checked */
  uint64_t unit;
  bool check;
  const uint8_t *bytes; /* of `read` */
} piece;

/* The boxes of one output; and what making them takes. */
typedef struct {
  const ur_output *output;
  uint64_t box_bytes;
  ur_codec_context *context;
  uint8_t *room;         /* for what is decompressed */
  uint64_t room_bytes;
  piece *pieces;         /* without a view: those on their way */
  ur_span *spans;
  uint8_t *scratch;
  uint64_t scratch_size, scratch_used;
  int64_t count, span_count;
  int64_t worst;         /* of the pieces that have landed, the first that is wrong, or -1 */
  ur_status status;
  ur_error error;
} cutting;

/* ---- what is asked for ------------------------------------------------------------------------------------------ */

static ur_status bad_boxes(int32_t column, const char *problem, ur_error *error) {
  ur_status status = ur_fail(error, UR_ARGUMENT, "the boxes of column %" PRId32 " %s", column, problem);
  if (error != NULL) error->column = column;
  return status;
}

ur_status ur_measure_boxes(const ur_column_info *info, const ur_output *output, int64_t rows, uint64_t *needed,
                           ur_error *error) {
  const ur_boxes *boxes = output->boxes;
  bool array = info->type == UR_TYPE_ARRAY, other = info->type == UR_TYPE_BYTES || info->type == UR_TYPE_TEXT;
  uint32_t free = 0; /* dimensions */
  if (!other && !array) return bad_boxes(output->column, "are not of bytes, text or arrays", error);
  if (output->offsets != NULL) return bad_boxes(output->column, "are of one size, and take no offsets", error);
  if (boxes->rank < 1 || boxes->rank > (int32_t)UR_MAX_RANK || (other && boxes->rank != 1))
    return bad_boxes(output->column, "have another number of dimensions than its values", error);
  uint64_t bytes = array ? ur_element_bytes(info) : 1, value = bytes;
  for (int32_t d = 0; d < boxes->rank; d++) {
    if (boxes->sizes[d] < 0 || !ur_multiply(bytes, (uint64_t)boxes->sizes[d], &bytes))
      return bad_boxes(output->column, "have sizes that are not possible", error);
    if (array && boxes->shape[d] == 0 && boxes->sizes[d] >= 0) {
      free++;
      continue;
    }
    if (array && (boxes->shape[d] < boxes->sizes[d] || !ur_multiply(value, (uint64_t)boxes->shape[d], &value)))
      return bad_boxes(output->column, "are larger than its values", error);
  }
  if (array && (info->fixed_bytes > 0 ? free != 0 || value != (uint64_t)info->fixed_bytes : free != 1))
    return bad_boxes(output->column, "are of values of another shape", error);
  if (!ur_multiply(bytes, (uint64_t)rows, needed)) return bad_boxes(output->column, "exceed 2^64 bytes", error);
  return UR_OK;
}

/* Whether the box of a row lies in its value. */
static bool lies_inside(const ur_boxes *boxes, const int64_t *starts, const ur_grid *grid) {
  for (int32_t d = 0; d < boxes->rank; d++)
    if (starts[d] < 0 || !ur_inside((uint64_t)starts[d], (uint64_t)boxes->sizes[d], grid->shape[d])) return false;
  return true;
}

/* ---- a piece, once its bytes are there -------------------------------------------------------------------------- */

static const int64_t *starts_of(const ur_output *output, int64_t place) {
  return output->boxes->starts + place * output->boxes->rank; /* exact: of each row, so many are in memory */
}

static ur_status verify(const piece *job, ur_error *error) {
  if (!job->check) return UR_OK;
  if (job->number == WHOLE)
    return ur_unit_check(job->cell.part, job->unit, job->bytes, &job->read, NULL, error);
  return ur_chunk_check(&job->cell, job->number, job->bytes, job->stored.bytes, job->stored.offset, error);
}

/* The values of a piece: where they lie, or decompressed. */
static ur_status values_of(cutting *work, const piece *job, const uint8_t **values, ur_error *error) {
  *values = job->bytes + (job->stored.offset - job->read.offset); /* exact: inside what is read */
  const ur_decoder *decoder = NULL;
  ur_status status = ur_column_decoding(job->cell.part, job->cell.column, &decoder, &work->context, error);
  if (status != UR_OK || decoder == NULL || job->stored.bytes == job->raw) return status;
  if (work->room_bytes < job->raw) {
    free(work->room);
    work->room = malloc(job->raw);
    work->room_bytes = work->room == NULL ? 0 : job->raw;
    if (work->room == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRIu64 " bytes of a value", job->raw);
  }
  status = ur_decode(decoder, work->context, *values, job->stored.bytes, work->room, job->raw, error);
  *values = work->room;
  if (status == UR_CORRUPT && error != NULL) {
    error->file = UR_FILE_DATA;
    error->offset = job->stored.offset;
  }
  return status;
}

/* Copies what a chunk and the box of its row share. */
static void cut(const cutting *work, const piece *job, const uint8_t *values) {
  const ur_boxes *boxes = work->output->boxes;
  const ur_grid *grid = &job->cell.grid;
  int64_t place = ur_place(job->group, job->i);
  const int64_t *starts = starts_of(work->output, place);
  uint64_t at[UR_MAX_RANK], first[UR_MAX_RANK], sizes[UR_MAX_RANK], box[UR_MAX_RANK], to[UR_MAX_RANK], from[UR_MAX_RANK];
  uint64_t shared[UR_MAX_RANK];
  if (job->number != WHOLE) {
    (void)ur_grid_chunk(grid, job->number, at, first, sizes);
  } else {
    memset(first, 0, sizeof first);
    memcpy(sizes, grid->shape, sizeof sizes);
  }
  for (uint32_t d = 0; d < grid->rank; d++) { /* exact: the box lies inside the value, and touches the chunk */
    uint64_t start = (uint64_t)starts[d], low = start > first[d] ? start : first[d];
    box[d] = (uint64_t)boxes->sizes[d];
    uint64_t box_end = start + box[d], chunk_end = first[d] + sizes[d]; /* exact: likewise */
    shared[d] = (box_end < chunk_end ? box_end : chunk_end) - low;
    to[d] = low - start;
    from[d] = low - first[d];
  }
  uint8_t *data = work->output->data + (uint64_t)place * work->box_bytes; /* exact: all n of them are in the output */
  ur_box_copy(grid->rank, grid->element, shared, data + ur_box_offset(grid->rank, grid->element, box, to), box,
              values + ur_box_offset(grid->rank, grid->element, sizes, from), sizes, false);
}

static ur_status finish(cutting *work, const piece *job, ur_error *error) {
  const uint8_t *values = NULL;
  bool unit = job->number == WHOLE && job->cell.part->data.unit_rows > 0;
  ur_status status = verify(job, error);
  if (status != UR_OK) return ur_blame(error, status, job->group, job->i, unit ? -1 : work->output->column);
  status = values_of(work, job, &values, error);
  if (status != UR_OK) return ur_blame(error, status, job->group, job->i, work->output->column);
  cut(work, job, values);
  return UR_OK;
}

/* ---- without a view --------------------------------------------------------------------------------------------- */

static bool is_checked(void *context, int64_t r) { return ((cutting *)context)->pieces[r].check; }

/* Of what a cache had. */
static ur_status check_cached(void *context, int64_t r) { return verify(&((cutting *)context)->pieces[r], NULL); }

static void landed(void *context, int64_t r) {
  cutting *work = context;
  const piece *job = &work->pieces[r];
  ur_error error = {0};
  if (work->worst >= 0 && work->worst < r) return;
  ur_status status = finish(work, job, &error);
  if (status == UR_OK) return;
  const ur_source *source = &job->cell.part->source;
  (void)ur_cache_forget(source->cache, source->part, UR_FILE_DATA, job->read.offset, job->read.bytes);
  work->worst = r;
  work->status = status;
  work->error = error;
}

/* Reads what is on its way. */
static ur_status flush(cutting *work, ur_error *error) {
  work->worst = -1;
  if (work->span_count > 0) {
    ur_landing landing = {.call = landed, .checks = is_checked, .check = check_cached, .context = work};
    const ur_data_file_ops *ops = work->spans[0].file->ops;
    ur_status status = ops->read(work->spans, work->span_count, &landing, error);
    if (status != UR_OK) return ur_blame(error, status, work->pieces[landing.failed].group, -1, -1);
  }
  for (int64_t r = 0; r < work->count; r++)
    if (work->pieces[r].read.bytes == 0) landed(work, r); /* it was not read */
  work->count = work->span_count = 0;
  work->scratch_used = 0;
  if (work->worst < 0) return UR_OK;
  if (error != NULL) *error = work->error;
  return work->status;
}

static ur_status make_room(cutting *work, uint64_t bytes, ur_error *error) {
  if (work->pieces == NULL) {
    work->pieces = malloc(ROOM * sizeof *work->pieces);
    work->spans = malloc(ROOM * sizeof *work->spans);
    if (work->pieces == NULL || work->spans == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to read chunks");
  }
  bool full = work->count == ROOM || bytes > work->scratch_size - work->scratch_used;
  ur_status status = full ? flush(work, error) : UR_OK;
  if (status != UR_OK || (work->scratch != NULL && bytes <= work->scratch_size)) return status;
  uint64_t size = bytes < UR_SCRATCH_BYTES ? UR_SCRATCH_BYTES : bytes;
  free(work->scratch);
  work->scratch = malloc(size);
  work->scratch_size = work->scratch == NULL ? 0 : size;
  return work->scratch != NULL ? UR_OK : ur_fail(error, UR_NO_MEMORY, "no memory for a chunk of %" PRIu64 " bytes", bytes);
}

static ur_status enqueue(cutting *work, const piece *job, ur_error *error) {
  const ur_data_file *file = job->cell.part->file;
  bool other = work->span_count > 0 && work->spans[0].file->ops != file->ops;
  ur_status status = other ? flush(work, error) : UR_OK;
  if (status == UR_OK) status = make_room(work, job->read.bytes, error);
  if (status != UR_OK) return status;
  piece *queued = &work->pieces[work->count];
  *queued = *job;
  uint8_t *to = work->scratch + work->scratch_used; /* exact: make_room() has seen to the room */
  queued->bytes = to;
  if (job->read.bytes > 0)
    work->spans[work->span_count++] = (ur_span){
        .file = file, .offset = job->read.offset, .bytes = job->read.bytes, .to = to, .tag = work->count};
  work->scratch_used += job->read.bytes; /* exact: likewise */
  work->count++;
  return UR_OK;
}

static ur_status deal_with(cutting *work, piece *job, ur_error *error) {
  const uint8_t *view = job->cell.part->file->view;
  if (view == NULL) return enqueue(work, job, error);
  job->bytes = view + job->read.offset; /* exact: inside the file */
  return finish(work, job, error);
}

/* ---- which pieces a box needs ----------------------------------------------------------------------------------- */

static ur_status take_whole(cutting *work, piece *job, const ur_extent *cell, ur_error *error) {
  ur_part *part = job->cell.part;
  int32_t blob = job->cell.column->blob;
  job->number = WHOLE;
  job->stored = job->read = *cell;
  job->unit = ur_unit_of(part, job->cell.row, blob);
  job->check = !ur_unit_is_checked(part, job->unit);
  ur_status status = UR_OK;
  if (job->check) status = ur_locate_unit(part, job->cell.row, blob, cell, &job->unit, &job->read, error);
  if (status != UR_OK) return ur_blame(error, status, job->group, job->i, work->output->column);
  return deal_with(work, job, error);
}

static ur_status take_chunk(cutting *work, piece *job, const ur_extent *cell, const uint64_t *at, ur_error *error) {
  const ur_grid *grid = &job->cell.grid;
  uint64_t first[UR_MAX_RANK], sizes[UR_MAX_RANK], same[UR_MAX_RANK];
  job->number = 0;
  for (uint32_t d = 0; d < grid->rank; d++) job->number = job->number * grid->counts[d] + at[d];
  job->raw = ur_grid_chunk(grid, job->number, same, first, sizes);
  ur_status status = ur_chunk_locate(&job->cell, job->number, at, sizes, job->raw, &job->stored, error);
  if (status != UR_OK) return ur_blame(error, status, job->group, job->i, work->output->column);
  job->stored.offset += cell->offset; /* exact: the chunk is inside its cell, and that inside the file */
  job->read = job->stored;
  job->check = !ur_chunk_is_checked(&job->cell, job->number);
  return deal_with(work, job, error);
}

/* The chunks that a box touches: from `low` to `high` along each dimension; `at` begins with the first. */
typedef struct {
  uint64_t low[UR_MAX_RANK], high[UR_MAX_RANK], at[UR_MAX_RANK];
} touched;

static touched chunks_of(const ur_boxes *boxes, const ur_grid *grid, const int64_t *starts) {
  touched chunks = {.low = {0}};
  for (uint32_t d = 0; d < grid->rank; d++) {
    uint64_t start = (uint64_t)starts[d], size = (uint64_t)boxes->sizes[d];
    chunks.low[d] = chunks.at[d] = start / grid->chunk[d];
    chunks.high[d] = (start + size - 1) / grid->chunk[d]; /* exact: the box has elements, and lies inside the value */
  }
  return chunks;
}

/* The next one in the order of the cell, as far as the first `rank` dimensions go; false behind the last. */
static bool go_on(touched *chunks, uint32_t rank) {
  uint32_t d = rank;
  while (d > 0 && chunks->at[d - 1] == chunks->high[d - 1]) {
    d--;
    chunks->at[d] = chunks->low[d];
  }
  if (d > 0) chunks->at[d - 1]++;
  return d > 0;
}

static ur_status take_chunks(cutting *work, piece *job, const ur_extent *cell, const int64_t *starts, ur_error *error) {
  touched chunks = chunks_of(work->output->boxes, &job->cell.grid, starts);
  ur_status status = UR_OK;
  do status = take_chunk(work, job, cell, chunks.at, error);
  while (status == UR_OK && go_on(&chunks, job->cell.grid.rank));
  return status;
}

static ur_status outside(const piece *job, const ur_output *output, ur_error *error) {
  ur_status status = ur_fail(error, UR_ARGUMENT, "the box does not lie inside the value, which is smaller: give it another size or place, or leave the row out");
  return ur_blame(error, status, job->group, job->i, output->column);
}

/* The grid of a value that is one piece: of arrays, of the shape that the caller has been given; false where it has another. */
static bool one_chunk(const ur_boxes *boxes, const ur_column_info *info, uint64_t raw, ur_grid *grid) {
  bool array = info->type == UR_TYPE_ARRAY;
  uint64_t bytes = 0;
  ur_grid whole = {.rank = (uint32_t)boxes->rank};
  for (int32_t d = 0; d < boxes->rank; d++) {
    whole.shape[d] = array ? (uint64_t)boxes->shape[d] : 0;
    whole.chunk[d] = whole.shape[d] > 0 ? whole.shape[d] : 1;
  }
  if (!ur_grid_measure(&whole, array ? ur_element_bytes(info) : 1, &bytes) || !ur_grid_of_value(&whole, raw, grid)) return false;
  grid->chunks = 1;
  return true;
}

static bool same_shape(const ur_boxes *boxes, const ur_grid *grid) {
  if (grid->rank != (uint32_t)boxes->rank) return false;
  for (uint32_t d = 0; d < grid->rank; d++)
    if (grid->shape[d] != (uint64_t)boxes->shape[d] && grid->free != d + 1) return false;
  return true;
}

/* Whether a null stands where a value would: of variable width, it has no bytes, and no box lies in it. */
static bool is_null(const ur_group *group, int64_t i, const ur_output *output) {
  return output->valid != NULL && output->valid[ur_place(group, i)] == 0;
}

/* The cell of a row that is not null, whose box lies inside its value, in `cells`; *table as ur_chunked_open says. */
static ur_status find_cell(const cutting *work, const ur_group *group, int64_t i, ur_extent *cells, piece *job, bool *table,
                           ur_error *error) {
  const ur_output *output = work->output;
  ur_part *part = group->part;
  ur_column *column = &part->columns[output->column];
  uint64_t row = (uint64_t)group->rows[i], raw = 0;
  *job = (piece){.group = group, .i = i};
  ur_status status = ur_locate_cells(part, row, column->blob + 1, cells, NULL, error);
  if (status == UR_OK) status = ur_value_length(part, row, column, &raw, error);
  if (status != UR_OK) return ur_blame(error, status, group, i, output->column);
  const ur_extent *cell = &cells[column->blob];
  *table = false;
  job->cell.part = part;
  job->cell.column = column;
  job->cell.row = row;
  job->raw = raw;
  if (column->info.chunked) status = ur_chunked_open(part, row, column, cell->bytes, raw, table, &job->cell, error);
  if (status != UR_OK) return ur_blame(error, status, group, i, output->column);
  bool same = *table ? column->info.type != UR_TYPE_ARRAY || same_shape(output->boxes, &job->cell.grid)
                     : one_chunk(output->boxes, &column->info, raw, &job->cell.grid);
  if (!same) return ur_blame(error, bad_boxes(output->column, "are of values of another shape", error), group, i, output->column);
  return lies_inside(output->boxes, starts_of(output, ur_place(group, i)), &job->cell.grid) ? UR_OK : outside(job, output, error);
}

static ur_status cut_row(cutting *work, const ur_group *group, int64_t i, ur_extent *cells, ur_error *error) {
  const ur_output *output = work->output;
  int64_t place = ur_place(group, i);
  piece job;
  bool table = false;
  if (is_null(group, i, output)) {
    memset(output->data + (uint64_t)place * work->box_bytes, 0, work->box_bytes); /* exact: as cut() says */
    return UR_OK;
  }
  ur_status status = find_cell(work, group, i, cells, &job, &table, error);
  if (status != UR_OK || work->box_bytes == 0) return status;
  const ur_extent *cell = &cells[job.cell.column->blob];
  return table ? take_chunks(work, &job, cell, starts_of(output, place), error) : take_whole(work, &job, cell, error);
}

/* The blocks of the index that have the entries of the chunks which a box touches. */
static ur_status want_entries(ur_arrivals *wanted, const ur_boxes *boxes, const piece *job, const int64_t *starts) {
  const ur_chunked *cell = &job->cell;
  const ur_column *column = cell->column;
  touched chunks = chunks_of(boxes, &cell->grid, starts);
  uint32_t last = cell->grid.rank - 1;
  ur_status status = UR_OK;
  do { /* entries that follow each other: those along the last dimension */
    uint64_t number = 0;
    for (uint32_t d = 0; d <= last; d++) number = number * cell->grid.counts[d] + chunks.low[d] * (d == last) + chunks.at[d] * (d != last);
    uint64_t first = cell->first + number, end = first + (chunks.high[last] - chunks.low[last]); /* exact: chunks of the section */
    status = ur_index_want(wanted, cell->part, column->section[UR_SECTION_CHUNK_DIGESTS], first, end, NULL);
    if (status == UR_OK && column->info.codec != UR_CODEC_PLAIN)
      status = ur_index_want(wanted, cell->part, column->section[UR_SECTION_CHUNK_ENDS], number == 0 ? first : first - 1, end, NULL);
  } while (status == UR_OK && go_on(&chunks, last));
  return status;
}

/* Brings what the index says of all chunks that boxes touch, at once, where it comes from afar. What cannot be had or is wrong
 * is found again by whoever needs it, and told then. */
static void bring_entries(const cutting *work, const ur_group *groups, int64_t group_count) {
  ur_arrivals wanted = {.count = 0};
  ur_status status = UR_OK;
  for (int64_t g = 0; g < group_count && status == UR_OK; g++) {
    const ur_group *group = &groups[g];
    ur_part *part = group->part;
    if (part->source.fetch == NULL || !part->columns[work->output->column].info.chunked || atomic_load(&part->blocks_left) == 0)
      continue;
    ur_extent *cells = malloc((size_t)(part->blob_columns + 1) * sizeof *cells);
    for (int64_t i = 0; i < group->count && cells != NULL && status == UR_OK; i++) {
      piece job;
      bool table = false;
      if (!is_null(group, i, work->output) && find_cell(work, group, i, cells, &job, &table, NULL) == UR_OK && table)
        status = want_entries(&wanted, work->output->boxes, &job, starts_of(work->output, ur_place(group, i)));
    }
    free(cells);
  }
  (void)ur_arrivals_finish(&wanted, status, NULL);
}

static ur_status cut_group(cutting *work, const ur_group *group, ur_error *error) {
  ur_extent *cells = malloc((size_t)(group->part->blob_columns + 1) * sizeof *cells);
  if (cells == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to find cells");
  ur_status status = UR_OK;
  for (int64_t i = 0; i < group->count && status == UR_OK; i++) status = cut_row(work, group, i, cells, error);
  free(cells);
  ur_part_timer_end(group->timer);
  return status;
}

ur_status ur_gather_boxes(const ur_group *groups, int64_t group_count, const ur_output *output, int64_t rows,
                          ur_error *error) {
  cutting work = {.output = output, .box_bytes = rows > 0 ? output->used / (uint64_t)rows : 0, .worst = -1};
  ur_status status = UR_OK;
  if (work.box_bytes > 0) bring_entries(&work, groups, group_count);
  for (int64_t g = 0; g < group_count && status == UR_OK; g++) status = cut_group(&work, &groups[g], error);
  if (status == UR_OK && work.count > 0) status = flush(&work, error);
  ur_codec_context_give(work.context);
  free(work.room);
  free(work.pieces);
  free(work.spans);
  free(work.scratch);
  return status;
}
