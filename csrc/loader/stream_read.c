/* loader/stream_read.c - samples of a stream read into the caller's buffers: the pieces of documents they consist of, verified, and
 * copied where they lie; where they do not lie in memory, or compressed, each document is read whole.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"
#include "batch/read.h"
#include "loader/stream.h"
#include "unirecord_internal.h"

enum { AHEAD = 8, LINE = 64, TOUCHED = 16 };

/* A document read whole. */
typedef struct {
  uint8_t *data;
  uint64_t capacity, bytes;
  int64_t row; /* of the set, or -1 */
} document;

static ur_status read_document(ur_set *set, int32_t column, bool variable, int64_t row, document *whole, ur_error *error) {
  if (whole->row == row) return UR_OK;
  whole->row = -1;
  for (;;) {
    int64_t offsets[2] = {0, 0};
    ur_output output = {.column = column, .data = whole->data, .capacity = whole->capacity,
                        .offsets = variable ? offsets : NULL};
    ur_status status = ur_set_read_row(set, row, &output, 1, error);
    if (status == UR_OK) {
      whole->row = row;
      whole->bytes = output.used;
    }
    if (status != UR_TOO_SMALL) return status;
    uint8_t *larger = realloc(whole->data, output.used);
    if (larger == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a document of %" PRIu64 " bytes", output.used);
    whole->data = larger;
    whole->capacity = output.used;
  }
}

/* Bytes of a stretch, and where they begin in its document of `size` bytes. */
static ur_status place_in(const ur_stream *stream, const ur_stretch *stretch, uint64_t size, uint64_t *first,
                          uint64_t *bytes, ur_error *error) {
  uint64_t width = (uint64_t)stream->element_bytes;
  if (ur_multiply((uint64_t)stretch->first, width, first) && ur_multiply((uint64_t)stretch->count, width, bytes) &&
      ur_inside(*first, *bytes, size))
    return UR_OK;
  return ur_fail(error, UR_STALE, "documents are not as long as they were when the stream was made");
}

/* The cell of a row in a part with a view, verified. */
static ur_status find_cell(const ur_group *group, int64_t i, int32_t column, ur_extent *cell, ur_error *error) {
  ur_part *part = group->part;
  int32_t blob = part->columns[column].blob;
  uint64_t row = (uint64_t)group->rows[i], unit = ur_unit_of(part, row, blob);
  ur_extent extent;
  ur_status status = UR_OK;
  if (ur_unit_is_checked(part, unit)) return UR_OK;
  status = ur_locate_unit(part, row, blob, cell, &unit, &extent, error);
  /* exact: units are inside the file */
  if (status == UR_OK) status = ur_unit_check(part, unit, part->file->view + extent.offset, &extent, NULL, error);
  return status == UR_OK ? UR_OK : ur_blame(error, status, group, i, part->data.unit_rows > 0 ? -1 : column);
}

static ur_status locate_cell(const ur_group *group, int64_t i, int32_t column, ur_extent *cells, ur_extent *cell,
                             ur_error *error) {
  ur_part *part = group->part;
  int32_t blob = part->columns[column].blob;
  ur_status status = ur_locate_cells(part, (uint64_t)group->rows[i], blob + 1, cells, NULL, error);
  if (status != UR_OK) return ur_blame(error, status, group, i, -1);
  *cell = cells[blob];
  return UR_OK;
}

/* Copies the stretches of one part where it is viewed; cells ahead are on their way into the cache. */
static ur_status copy_viewed(const ur_stream *stream, const ur_group *group, const ur_stretches *found, uint8_t *data,
                             ur_error *error) {
  ur_extent ring[AHEAD], *cells = malloc((size_t)(group->part->blob_columns + 1) * sizeof *cells);
  if (cells == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a batch");
  ur_status status = UR_OK;
  for (int64_t i = 0; i < group->count + AHEAD - 1 && status == UR_OK; i++) {
    if (i < group->count) {
      uint64_t first = 0, bytes = 0;
      const ur_stretch *next = &found->stretches[ur_place(group, i)];
      status = locate_cell(group, i, stream->column, cells, &ring[i % AHEAD], error);
      if (status == UR_OK) status = place_in(stream, next, ring[i % AHEAD].bytes, &first, &bytes, error);
      if (status != UR_OK) break;
      /* exact: inside the cell, and that inside the file */
      const uint8_t *from = group->part->file->view + ring[i % AHEAD].offset + first;
      for (uint64_t at = 0; at < bytes && at < TOUCHED * LINE; at += LINE) __builtin_prefetch(from + at);
    }
    int64_t now = i - AHEAD + 1;
    if (now < 0) continue;
    const ur_stretch *stretch = &found->stretches[ur_place(group, now)];
    ur_extent *cell = &ring[now % AHEAD];
    uint64_t first = 0, bytes = 0;
    status = find_cell(group, now, stream->column, cell, error);
    if (status == UR_OK) status = place_in(stream, stretch, cell->bytes, &first, &bytes, error);
    if (status == UR_OK)
      /* exact: inside the cell, and the output has room for the batch */
      memcpy(data + stretch->to * stream->element_bytes, group->part->file->view + cell->offset + first, bytes);
  }
  free(cells);
  return status;
}

static ur_status copy_read(const ur_stream *stream, ur_set *set, const ur_group *group, const ur_stretches *found,
                           bool variable, uint8_t *data, ur_error *error) {
  document whole = {.row = -1};
  ur_status status = UR_OK;
  for (int64_t i = 0; i < group->count && status == UR_OK; i++) {
    int64_t place = ur_place(group, i);
    const ur_stretch *stretch = &found->stretches[place];
    uint64_t first = 0, bytes = 0;
    status = read_document(set, stream->column, variable, found->rows[place], &whole, error);
    if (status == UR_OK) status = place_in(stream, stretch, whole.bytes, &first, &bytes, error);
    /* exact: inside the document, and the output has room for the batch */
    if (status == UR_OK && bytes > 0) memcpy(data + stretch->to * stream->element_bytes, whole.data + first, bytes);
  }
  free(whole.data);
  return status;
}

static ur_status copy_elements(const ur_stream *stream, ur_set *set, const ur_stretches *found, uint8_t *data,
                               ur_timing *timing, ur_error *error) {
  ur_read read;
  ur_status status = ur_read_open(&read, set, found->rows, found->count, NULL, 0, timing, error);
  for (int64_t g = 0; g < read.opened && status == UR_OK; g++) {
    const ur_group *group = &read.groups[g];
    const ur_column *column = &group->part->columns[stream->column];
    if (group->part->file->view != NULL && column->is_plain) {
      status = copy_viewed(stream, group, found, data, error);
    } else {
      status = copy_read(stream, set, group, found, column->info.fixed_bytes == 0, data, error);
    }
    ur_part_timer_end(group->timer);
    for (int64_t i = 0; read.timing != NULL && i < group->count; i++)
      /* exact: each stretch is inside a sample of the batch, which has been measured */
      timing->of[g].bytes += (uint64_t)(found->stretches[ur_place(group, i)].count * stream->element_bytes);
  }
  ur_read_close(&read);
  return status;
}

/* ---- what no document has ----------------------------------------------------------------------------------------- */

static void fill_elements(const ur_stream *stream, uint8_t *data, int64_t from, int64_t end) {
  size_t width = (size_t)stream->element_bytes;
  /* exact: inside the output */
  for (int64_t i = from; i < end; i++) memcpy(data + (size_t)i * width, stream->padding, width);
}

static void fill_numbers(int64_t *numbers, int64_t from, int64_t end, int64_t first, int64_t step) {
  for (int64_t i = from; i < end; i++) numbers[i] = first + (i - from) * step;
}

/* What the output says of elements [from, end): those of a document that is called so, or -1 for those that are filled up. */
static void describe(const ur_stream *stream, const ur_output *output, int64_t from, int64_t end, int64_t name) {
  int64_t *numbers = (int64_t *)(void *)output->data;
  if (output->column == UR_STREAM_DOCUMENTS) fill_numbers(numbers, from, end, name, 0);
  if (output->column == UR_STREAM_POSITIONS) fill_numbers(numbers, from, end, 0, 1);
  if (output->column == UR_STREAM_ELEMENTS && name < 0) fill_elements(stream, output->data, from, end);
}

static void fill_up(const ur_stream *stream, const ur_stretches *found, int64_t n, const ur_output *output) {
  int64_t at = 0;
  for (int64_t i = 0; i <= found->count; i++) {
    /* exact: inside the output */
    int64_t next = i < found->count ? found->stretches[i].to : n * stream->length;
    if (at < next) describe(stream, output, at, next, -1); /* at the end of one sample alone: each has something */
    if (i == found->count) return;
    at = next + found->stretches[i].count;
    if (output->column != UR_STREAM_ELEMENTS) describe(stream, output, next, at, found->stretches[i].name);
  }
}

/* ---- labels ------------------------------------------------------------------------------------------------------- */

enum { MASKED = -100 }; /* what losses leave out: torch.nn.CrossEntropyLoss(ignore_index=-100) */

static int64_t widened(const ur_stream *stream, const uint8_t *element) {
  uint64_t value = 0;
  int shift = 64 - 8 * stream->element_bytes; /* exact: 1 to 8 bytes */
  memcpy(&value, element, (size_t)stream->element_bytes);
  return stream->is_signed ? (int64_t)(value << shift) >> shift : (int64_t)value;
}

/* The elements lie at the end of the output first, and become wider from its front on: what is written never reaches what is
 * still to be read. */
static ur_status fill_labels(const ur_stream *stream, ur_set *set, const ur_stretches *found, int64_t n,
                             const ur_output *output, ur_timing *timing, ur_error *error) {
  int64_t *labels = (int64_t *)(void *)output->data;
  /* exact: the output has room for 8 bytes an element */
  uint8_t *elements = output->data + (uint64_t)(n * stream->length) * (uint64_t)(8 - stream->element_bytes);
  ur_status status = copy_elements(stream, set, found, elements, timing, error);
  int64_t at = 0;
  for (int64_t i = 0; i <= found->count && status == UR_OK; i++) {
    int64_t next = i < found->count ? found->stretches[i].to : n * stream->length; /* exact: inside the output */
    fill_numbers(labels, at, next, MASKED, 0);
    if (i == found->count) break;
    at = next + found->stretches[i].count;
    for (int64_t place = next; place < at; place++)
      /* exact: inside the output */
      labels[place] = place == next ? MASKED : widened(stream, elements + place * stream->element_bytes);
  }
  return status;
}

/* ---- runs --------------------------------------------------------------------------------------------------------- */

static uint64_t run_bytes(int32_t output) {
  return output == UR_STREAM_LENGTHS ? sizeof(int32_t) : sizeof(int64_t);
}

static void measure_runs(const ur_stream *stream, const ur_stretches *found, int64_t n, ur_output *output) {
  int64_t width = (int64_t)run_bytes(output->column), run = 0;
  for (int64_t i = 0; i < n; i++) {
    output->offsets[i] = run * width; /* exact: in memory a stretch takes more */
    /* exact: ur_stream_cut() has checked the end of all samples */
    while (run < found->count && found->stretches[run].to < (i + 1) * stream->length) run++;
  }
  output->offsets[n] = run * width; /* exact: likewise */
  output->used = (uint64_t)output->offsets[n];
}

static void fill_runs(const ur_stretches *found, const ur_output *output) {
  for (int64_t i = 0; i < found->count; i++) {
    const ur_stretch *stretch = &found->stretches[i];
    if (output->column == UR_STREAM_RUNS) ((int64_t *)(void *)output->data)[i] = stretch->name;
    else ((int32_t *)(void *)output->data)[i] = (int32_t)stretch->count; /* exact: ur_stream_width() has checked `length` */
  }
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

ur_status ur_stream_width(const ur_stream *stream, int32_t output, uint64_t *bytes, ur_error *error) {
  if (output < UR_STREAM_ELEMENTS || output > UR_STREAM_RUNS)
    return ur_fail(error, UR_ARGUMENT, "a stream has no output %" PRId32, output);
  if (output == UR_STREAM_LENGTHS && stream->length > INT32_MAX)
    return ur_fail(error, UR_ARGUMENT, "runs of samples of %" PRId64 " elements are more than int32 can count", stream->length);
  uint64_t width = output == UR_STREAM_ELEMENTS ? (uint64_t)stream->element_bytes : sizeof(int64_t);
  /* exact: ur_stream_check() has checked the product */
  *bytes = output >= UR_STREAM_LENGTHS ? 0 : (uint64_t)stream->length * width;
  return UR_OK;
}

ur_status ur_stream_measure(const ur_stream *stream, const ur_stretches *found, int64_t n, ur_output *outputs,
                            int32_t output_count, ur_error *error) {
  for (int32_t i = 0; i < output_count; i++) {
    ur_output *output = &outputs[i];
    uint64_t bytes = 0;
    ur_status status = ur_stream_width(stream, output->column, &bytes, error);
    if (status != UR_OK) return status;
    if ((bytes == 0) != (output->offsets != NULL))
      return ur_fail(error, UR_ARGUMENT, "offsets are those of outputs of variable width");
    if (bytes == 0) measure_runs(stream, found, n, output);
    else output->used = (uint64_t)n * bytes; /* exact: ur_stream_cut() has checked it */
  }
  return UR_OK;
}

ur_status ur_stream_fill(const ur_stream *stream, ur_set *set, const ur_stretches *found, int64_t n,
                         const ur_output *outputs, int32_t output_count, ur_timing *timing, ur_error *error) {
  ur_status status = UR_OK;
  for (int32_t i = 0; i < output_count && status == UR_OK; i++) {
    if (outputs[i].column == UR_STREAM_LABELS) {
      status = fill_labels(stream, set, found, n, &outputs[i], timing, error);
    } else if (outputs[i].offsets != NULL) {
      fill_runs(found, &outputs[i]);
    } else {
      if (outputs[i].column == UR_STREAM_ELEMENTS) status = copy_elements(stream, set, found, outputs[i].data, timing, error);
      if (status == UR_OK) fill_up(stream, found, n, &outputs[i]);
    }
  }
  return status;
}

ur_status ur_stream_read(ur_set *set, const ur_stream *stream, const int64_t *samples, int64_t n, ur_output *outputs,
                         int32_t output_count, ur_error *error) {
  ur_stretches found = {0};
  ur_status status = ur_stream_check(stream, set, error);
  if (status == UR_OK) status = ur_stream_cut(stream, set, samples, n, &found, error);
  if (status == UR_OK) status = ur_stream_measure(stream, &found, n, outputs, output_count, error);
  for (int32_t i = 0; i < output_count && status == UR_OK; i++)
    if (outputs[i].used > outputs[i].capacity) status = ur_fail(error, UR_TOO_SMALL, "a buffer is too small");
  if (status == UR_OK) status = ur_stream_fill(stream, set, &found, n, outputs, output_count, NULL, error);
  ur_stretches_free(&found);
  return status;
}
