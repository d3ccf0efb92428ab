/* loader/stream.c - see loader/stream.h. Documents are found by a table of what comes before each `every`-th of them, and from there by
 * their lengths in the index.
 */
#include "loader/stream.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/fail.h"
#include "set/set.h"
#include "unirecord_internal.h"

enum { TOGETHER = 64 }; /* samples that are looked for at the same time */

/* ---- lengths from the index --------------------------------------------------------------------------------------- */

/* The part that was looked at last, open and found unchanged. */
typedef struct {
  const ur_stream *stream;
  ur_set *set;
  ur_part *part;
  int64_t first, end; /* rows of the set that it has */
} reader;

static void close_reader(reader *from) {
  if (from->part != NULL) ur_part_release(from->part);
}

static ur_status part_with(reader *from, int64_t row, ur_error *error) {
  if (from->part != NULL && row >= from->first && row < from->end) return UR_OK;
  close_reader(from);
  from->part = NULL;
  int64_t number = ur_set_part_of(from->set, row);
  ur_status status = ur_set_acquire(from->set, number, &from->part, error);
  if (status != UR_OK) return status;
  from->first = from->set->starts[number];
  from->end = from->set->starts[number + 1];
  status = ur_part_is_unchanged(from->part, error);
  if (status != UR_OK && error != NULL) error->part = number;
  return status;
}

/* The row of the set that document `number` is. */
static ur_status row_of(const reader *from, int64_t number, int64_t *row, ur_error *error) {
  const ur_stream *stream = from->stream;
  if (stream->selection != NULL) {
    *row = stream->selection[number];
  } else {
    *row = (int64_t)((uint64_t)stream->selection_start + (uint64_t)number * (uint64_t)stream->selection_step);
    if (stream->bitmap != NULL) *row = ur_bitmap_one(stream->bitmap, *row);
  }
  if (*row >= 0 && *row < ur_set_rows(from->set)) return UR_OK;
  return ur_fail(error, UR_ARGUMENT, "document %" PRId64 " is no row of the set", number);
}

/* The row, and the elements, of document `number`. */
static ur_status look_up(reader *from, int64_t number, int64_t *row, int64_t *elements, ur_error *error) {
  uint64_t bytes = 0;
  ur_status status = row_of(from, number, row, error);
  if (status == UR_OK) status = part_with(from, *row, error);
  if (status != UR_OK) return status;
  const ur_column *column = &from->part->columns[from->stream->column];
  status = ur_value_length(from->part, (uint64_t)(*row - from->first), column, &bytes, error);
  *elements = (int64_t)(bytes / (uint64_t)from->stream->element_bytes);
  return status;
}

/* ---- finding ------------------------------------------------------------------------------------------------------ */

static int64_t windows_in(const ur_stream *stream, int64_t elements) {
  if (!stream->padded) return elements < stream->length ? 0 : (elements - stream->length) / stream->stride + 1;
  int64_t overlap = stream->length > stream->stride ? stream->length - stream->stride : 0;
  int64_t left = elements > overlap ? elements - overlap : 1; /* windows go on until one reaches the end */
  int64_t more = left % stream->stride != 0;
  return elements == 0 ? 0 : left / stream->stride + more; /* exact: at most left + 1 */
}

/* What a window's number stands for in the table: an element, or a window. */
static inline int64_t counted_at(const ur_stream *stream, int64_t sample) {
  return stream->kind == UR_STREAM_WHOLE ? sample * stream->stride : sample; /* exact: ur_stream_check() has checked the last's */
}

/* The entries of the table that windows lie behind, as ur_find_start finds one: step by step for all of them together, so that
 * none waits for the memory of another. */
static void find_entries(const ur_stream *stream, const int64_t *samples, int64_t n, int64_t *entries) {
  for (int64_t i = 0; i < n; i++) entries[i] = 0;
  /* exact: documents >= 1 */
  for (int64_t left = (stream->documents - 1) / stream->every + 1; left > 1; left -= left / 2) {
    int64_t half = left / 2;
    for (int64_t i = 0; i < n; i++)
      entries[i] = stream->before[entries[i] + half] <= counted_at(stream, samples[i]) ? entries[i] + half : entries[i];
  }
}

/* The document that holds number `wanted` of what the table counts (elements, or windows), and how many come before it, from
 * its entry of the table on. */
static ur_status find_document(reader *from, int64_t wanted, int64_t entry, int64_t *document, int64_t *before,
                               ur_error *error) {
  const ur_stream *stream = from->stream;
  int64_t number = entry * stream->every, at = stream->before[entry];
  for (; stream->every > 1 && number < stream->documents; number++) {
    int64_t row = 0, elements = 0;
    ur_status status = look_up(from, number, &row, &elements, error);
    if (status != UR_OK) return status;
    int64_t counted = stream->kind == UR_STREAM_WHOLE ? elements : windows_in(stream, elements);
    if (wanted - at < counted) break;
    at += counted;
  }
  *document = number;
  *before = at;
  return UR_OK;
}

static ur_status add_stretch(ur_stretches *found, int64_t row, ur_stretch stretch, ur_error *error) {
  if (found->count == found->room) {
    int64_t room = found->room < 512 ? 1024 : 2 * found->room; /* exact: bounded by what memory holds */
    int64_t *rows = realloc(found->rows, (size_t)room * sizeof *rows);
    if (rows != NULL) found->rows = rows;
    ur_stretch *stretches = rows == NULL ? NULL : realloc(found->stretches, (size_t)room * sizeof *stretches);
    if (stretches == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRId64 " pieces of documents", room);
    found->stretches = stretches;
    found->room = room;
  }
  found->rows[found->count] = row;
  found->stretches[found->count++] = stretch;
  return UR_OK;
}

static ur_status changed(ur_error *error) {
  return ur_fail(error, UR_STALE, "documents are not as long as they were when the stream was made");
}

/* A window that begins at element `first` of a document, and goes on into those behind it. */
static ur_status cut_whole(reader *from, int64_t sample, int64_t entry, int64_t to, ur_stretches *found, ur_error *error) {
  const ur_stream *stream = from->stream;
  int64_t left = stream->length, document = 0, before = 0;
  int64_t start = counted_at(stream, sample);
  ur_status status = find_document(from, start, entry, &document, &before, error);
  for (int64_t first = start - before; status == UR_OK && left > 0; first = 0, document++) {
    int64_t row = 0, elements = 0;
    if (document >= stream->documents) return stream->padded ? UR_OK : changed(error);
    if (stream->every == 1) {
      status = row_of(from, document, &row, error);
      elements = stream->before[document + 1] - stream->before[document];
    } else {
      status = look_up(from, document, &row, &elements, error);
    }
    if (status != UR_OK || first >= elements) continue; /* an empty one */
    int64_t count = elements - first < left ? elements - first : left;
    status = add_stretch(found, row, (ur_stretch){first, count, to, row}, error);
    left -= count;
    to += count;
  }
  return status;
}

/* A window of one document. */
static ur_status cut_apart(reader *from, int64_t sample, int64_t entry, int64_t to, ur_stretches *found, ur_error *error) {
  const ur_stream *stream = from->stream;
  int64_t document = 0, before = 0, row = 0, elements = 0, first = 0;
  ur_status status = find_document(from, sample, entry, &document, &before, error);
  if (status == UR_OK && document >= stream->documents) return changed(error);
  if (status == UR_OK) status = look_up(from, document, &row, &elements, error);
  if (status != UR_OK) return status;
  if (__builtin_mul_overflow(sample - before, stream->stride, &first) || first >= elements) return changed(error);
  int64_t count = elements - first < stream->length ? elements - first : stream->length;
  if (count < stream->length && !stream->padded) return changed(error);
  return add_stretch(found, row, (ur_stretch){first, count, to, row}, error);
}

/* Pieces of documents, as the table says. */
static ur_status cut_packed(const reader *from, int64_t sample, int64_t to, ur_stretches *found, ur_error *error) {
  const ur_stream *stream = from->stream;
  int64_t left = stream->length;
  for (int64_t i = stream->before[sample]; i < stream->before[sample + 1]; i++) {
    const ur_stream_piece *piece = &stream->pieces[i];
    int64_t row = 0;
    if (piece->document < 0 || piece->document >= stream->documents || piece->first < 0 || piece->count < 1 ||
        piece->count > left)
      return ur_fail(error, UR_ARGUMENT, "piece %" PRId64 " does not fit its sample", i);
    ur_status status = row_of(from, piece->document, &row, error);
    if (status == UR_OK) status = add_stretch(found, row, (ur_stretch){piece->first, piece->count, to, stream->numbers == NULL ? row : stream->numbers[i]}, error);
    if (status != UR_OK) return status;
    left -= piece->count;
    to += piece->count;
  }
  return UR_OK;
}

ur_status ur_stream_cut(const ur_stream *stream, ur_set *set, const int64_t *samples, int64_t n, ur_stretches *found,
                        ur_error *error) {
  reader from = {.stream = stream, .set = set};
  ur_status status = UR_OK;
  int64_t entries[TOGETHER], bytes = 0;
  found->count = 0;
  if (n < 0 || __builtin_mul_overflow(n, stream->length * 8, &bytes)) /* exact: ur_stream_check() has checked it */
    return ur_fail(error, UR_ARGUMENT, "%" PRId64 " samples exceed 2^63 bytes", n);
  for (int64_t i = 0; i < n; i++)
    if (samples[i] < 0 || samples[i] >= stream->samples)
      return ur_because(error, UR_REASON_ROW, ur_fail(error, UR_ARGUMENT, "there is no sample %" PRId64, samples[i]));
  if (!ur_set_enter(set, error)) return UR_CLOSED;
  for (int64_t i = 0; i < n && status == UR_OK; i++) {
    int64_t to = i * stream->length, place = i % TOGETHER; /* exact: whoever asks has made room for n samples */
    if (place == 0 && stream->kind != UR_STREAM_PACKED)
      find_entries(stream, samples + i, n - i < TOGETHER ? n - i : TOGETHER, entries);
    if (stream->kind == UR_STREAM_WHOLE) {
      status = cut_whole(&from, samples[i], entries[place], to, found, error);
    } else if (stream->kind == UR_STREAM_APART) {
      status = cut_apart(&from, samples[i], entries[place], to, found, error);
    } else {
      status = cut_packed(&from, samples[i], to, found, error);
    }
  }
  close_reader(&from);
  ur_set_leave(set);
  return status;
}

void ur_stretches_free(ur_stretches *stretches) {
  free(stretches->rows);
  free(stretches->stretches);
}

/* ---- checking ----------------------------------------------------------------------------------------------------- */

ur_status ur_stream_check(const ur_stream *stream, ur_set *set, ur_error *error) {
  ur_column_info info = {0};
  int64_t bytes = 0, end = 0;
  int32_t size = stream->element_bytes;
  if (stream->kind < UR_STREAM_WHOLE || stream->kind > UR_STREAM_PACKED)
    return ur_fail(error, UR_ARGUMENT, "there is no kind %" PRId32 " of stream", stream->kind);
  if (size < 1 || size > 8 || !ur_power_of_two((uint64_t)size))
    return ur_fail(error, UR_ARGUMENT, "elements have 1, 2, 4 or 8 bytes, not %" PRId32, size);
  if (stream->length < 1 || stream->stride < 1 || __builtin_mul_overflow(stream->length, 8, &bytes))
    return ur_fail(error, UR_ARGUMENT, "length and stride must be >= 1");
  if (stream->samples < 0 || stream->documents < 0 || stream->every < 1 || stream->before == NULL ||
      (stream->samples > 0 && stream->documents < 1))
    return ur_fail(error, UR_ARGUMENT, "a stream needs documents, and a table of them");
  if (__builtin_mul_overflow(stream->samples, stream->stride, &end))
    return ur_fail(error, UR_ARGUMENT, "the last sample's place exceeds 2^63");
  if (stream->kind == UR_STREAM_PACKED && stream->samples > 0 && stream->pieces == NULL)
    return ur_fail(error, UR_ARGUMENT, "packed samples need pieces");
  if (set->layers != NULL) return ur_fail(error, UR_ARGUMENT, "a stream is not cut from joined sets");
  if (!ur_set_enter(set, error)) return UR_CLOSED;
  ur_status status = ur_set_column(set, stream->column, &info, error);
  ur_set_leave(set);
  if (status == UR_OK) status = ur_column_check(info.type, UR_CODEC_PLAIN, error);
  if (status == UR_OK && !info.is_blob) return ur_fail(error, UR_ARGUMENT, "column %" PRId32 " has no elements", stream->column);
  return status;
}
