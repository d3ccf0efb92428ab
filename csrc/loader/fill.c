/* loader/fill.c - see loader/fill.h. A batch is one piece of memory: its head, then row ids and the arrays of each column.
 *
 * Cold files: every batch counts the major page faults of its thread, and while there are some, the kernel is told of the
 * batches ahead.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader/fill.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/fail.h"
#include "base/layout.h"
#include "batch/read.h"
#include "unirecord_internal.h"

enum { ALIGNMENT = 64, ADVISE_BATCHES = 256, GLANCE_BATCHES = 8 };

/* ---- what to fill ------------------------------------------------------------------------------------------------ */

static ur_status check_options(const ur_set *set, const ur_loader_options *o, ur_error *error) {
  if (o->order == NULL) return ur_fail(error, UR_ARGUMENT, "a loader needs an order");
  if (o->first < 0 || o->stride < 1) return ur_fail(error, UR_ARGUMENT, "first must be >= 0 and stride >= 1");
  if (o->samples < 0) return ur_fail(error, UR_ARGUMENT, "samples must be >= 0");
  if (o->batch_size < 1) return ur_fail(error, UR_ARGUMENT, "batch_size must be >= 1");
  if (o->prefetch < 1 || o->prefetch > 4096) return ur_fail(error, UR_ARGUMENT, "prefetch must be in 1..4096");
  if (o->threads < 1 || o->threads > 1024) return ur_fail(error, UR_ARGUMENT, "threads must be in 1..1024");
  if (o->prefetch_near < 0 || o->prefetch_near > o->prefetch || o->threads_near < 0 || o->threads_near > o->threads)
    return ur_fail(error, UR_ARGUMENT, "prefetch_near and threads_near must be 0, or in 1..prefetch and 1..threads");
  if (o->output_count < 0 || (o->output_count > 0 && o->columns == NULL)) {
    return ur_fail(error, UR_ARGUMENT, "output_count must be >= 0, with columns");
  }
  int64_t last = 0;
  if (o->samples > 0 && (__builtin_mul_overflow(o->samples - 1, o->stride, &last) || last > INT64_MAX - o->first)) {
    return ur_fail(error, UR_ARGUMENT, "the last sample's position exceeds 2^63");
  }
  if (o->samples > 0 && ur_set_rows(set) == 0) return ur_fail(error, UR_ARGUMENT, "the set has no rows");
  return UR_OK;
}

/* An output of a stream, as a column. */
static ur_status stream_column(ur_filler *filler, size_t output, ur_error *error) {
  uint64_t bytes = 0;
  ur_status status = ur_stream_width(filler->options.stream, filler->columns[output], &bytes, error);
  filler->infos[output].fixed_bytes = (int64_t)bytes; /* exact: ur_stream_check() has checked the product */
  return status;
}

/* Batches of different sizes, none empty, are all samples. */
static ur_status check_batch_ends(const ur_loader_options *o, ur_error *error) {
  if (o->batch_ends == NULL) return UR_OK;
  int64_t end = 0;
  bool good = o->batches >= 0;
  for (int64_t i = 0; good && i < o->batches; i++) {
    good = o->batch_ends[i] > end && o->batch_ends[i] <= o->samples && o->batch_ends[i] - end <= o->batch_size;
    end = o->batch_ends[i];
  }
  if (!good || end != o->samples)
    return ur_fail(error, UR_ARGUMENT, "batch_ends must ascend to samples, each at most batch_size after the one before");
  return UR_OK;
}

/* The crop of an output; NULL where it has whole values. */
static const ur_drawn_box *crop_of(const ur_filler *filler, int32_t output) {
  const ur_drawn_box *crops = filler->options.crops;
  return crops == NULL || crops[output].rank == 0 ? NULL : &crops[output];
}

/* Crops are of bytes, text and arrays of one free dimension at most; the rest is found wrong when they are measured. */
static ur_status check_crops(const ur_filler *filler, ur_error *error) {
  const ur_loader_options *o = &filler->options;
  for (int32_t c = 0; o->crops != NULL && c < o->output_count; c++) {
    const ur_drawn_box *crop = crop_of(filler, c);
    if (crop == NULL) continue;
    int32_t type = filler->infos[c].type, free = 0;
    bool array = type == UR_TYPE_ARRAY, other = type == UR_TYPE_BYTES || type == UR_TYPE_TEXT;
    bool good = o->stream == NULL && crop->rank > 0 && crop->rank <= (int32_t)UR_MAX_RANK && (array || (other && crop->rank == 1));
    for (int32_t d = 0; good && d < crop->rank; d++) {
      free += crop->shape[d] == 0;
      good = crop->sizes[d] >= 0 && (crop->shape[d] == 0 || crop->sizes[d] <= crop->shape[d]);
    }
    good = good && free == (filler->infos[c].fixed_bytes == 0);
    if (!good) return ur_fail(error, UR_ARGUMENT, "crops of column %" PRId32 " do not fit its values", filler->columns[c]);
  }
  if (o->crops != NULL && o->crop_period < 0) return ur_fail(error, UR_ARGUMENT, "crop_period must be >= 0");
  return UR_OK;
}

/* How many values each output has of a sample. */
static ur_status count_steps(ur_filler *filler, ur_error *error) {
  const ur_sequence *sequence = filler->options.sequence;
  if (sequence == NULL) return UR_OK;
  if (filler->options.stream != NULL || filler->options.crops != NULL)
    return ur_fail(error, UR_ARGUMENT, "sequences are of whole rows");
  ur_status status = ur_sequence_check(sequence, filler->set, filler->options.output_count, error);
  if (status != UR_OK) return status;
  int64_t *steps = filler->steps;
  for (int32_t i = 0; i < sequence->steps_count; i++)
    for (int32_t j = 0; j < sequence->steps[i].outputs; j++) *steps++ = sequence->steps[i].count;
  filler->offsets = ur_sequence_offsets(sequence);
  return UR_OK;
}

static ur_status copy_columns(ur_filler *filler, const ur_loader_options *options, ur_error *error) {
  size_t outputs = (size_t)options->output_count;
  filler->columns = calloc(outputs + 1, sizeof *filler->columns);
  filler->infos = calloc(outputs + 1, sizeof *filler->infos);
  filler->steps = calloc(outputs + 1, sizeof *filler->steps);
  if (!filler->columns || !filler->infos || !filler->steps) return ur_fail(error, UR_NO_MEMORY, "no memory for a loader");
  for (size_t c = 0; c < outputs; c++) {
    filler->columns[c] = options->columns[c];
    filler->steps[c] = 1;
    ur_status status = options->stream == NULL ? ur_set_column(filler->set, options->columns[c], &filler->infos[c], error)
                                               : stream_column(filler, c, error);
    if (status != UR_OK) return status;
  }
  filler->options.columns = filler->columns;
  ur_status status = check_crops(filler, error);
  return status == UR_OK ? count_steps(filler, error) : status;
}

ur_status ur_filler_make(ur_filler *filler, ur_set *set, ur_pool *pool, const ur_loader_options *options,
                         ur_error *error) {
  *filler = (ur_filler){.options = *options};
  ur_status status = check_options(set, options, error);
  if (status == UR_OK) status = check_batch_ends(options, error);
  if (status != UR_OK) return status;
  filler->set = ur_set_retain(set);
  filler->pool = ur_pool_retain(pool);
  filler->times = ur_times_new(ur_set_parts(set));
  if (filler->times == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a loader");
  if (options->stream != NULL) status = ur_stream_check(options->stream, set, error);
  if (status != UR_OK) return status;
  filler->options.order = filler->order = ur_order_retain(options->order);
  if (options->bitmap != NULL) {
    filler->bitmap = *options->bitmap;
    filler->options.bitmap = &filler->bitmap;
  }
  filler->batches = options->samples / options->batch_size;
  if (!options->drop_last && options->samples % options->batch_size != 0) filler->batches++;
  if (options->batch_ends != NULL) {
    filler->batches = options->batches;
    filler->batch_ends = calloc((size_t)options->batches + 1, sizeof *filler->batch_ends);
    if (filler->batch_ends == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a loader");
    /* exact: as many have been allocated */
    memcpy(filler->batch_ends, options->batch_ends, (size_t)options->batches * sizeof *filler->batch_ends);
    filler->options.batch_ends = filler->batch_ends;
  }
  return copy_columns(filler, options, error);
}

void ur_filler_free(ur_filler *filler) {
  free(filler->columns);
  free(filler->infos);
  free(filler->steps);
  free(filler->batch_ends);
  ur_times_free(filler->times);
  ur_set_release(filler->set);
  ur_pool_release(filler->pool);
  ur_order_release(filler->order);
}

void ur_scratch_free(ur_scratch *s) {
  free(s->rows);
  free(s->skipped);
  free(s->ahead);
  free(s->draws);
  free(s->boxes);
  free(s->offsets);
  free(s->outputs);
  free(s->views);
  free(s->step_rows);
  free(s->missing);
  free(s->reads);
  ur_stretches_free(&s->stretches);
  ur_timing_free(&s->timing);
}

/* An offset for each value, and 1, of each output of variable width; NULL without memory. */
static int64_t *room_for_offsets(const ur_filler *filler, size_t rows) {
  size_t values = 0, count = 1;
  for (int32_t c = 0; c < filler->options.output_count; c++) {
    if (filler->infos[c].fixed_bytes != 0) continue;
    if (__builtin_mul_overflow(rows, (size_t)filler->steps[c], &values) || __builtin_add_overflow(count, values + 1, &count)) return NULL;
  }
  return calloc(count, sizeof(int64_t));
}

/* Room for what stands at the steps of so many samples of a sequence; false without memory. */
static bool room_for_steps(const ur_filler *filler, ur_scratch *s, size_t rows) {
  const ur_sequence *sequence = filler->options.sequence;
  size_t values = 0;
  if (sequence == NULL) return true;
  if (__builtin_mul_overflow(rows, (size_t)filler->offsets, &values) || values > SIZE_MAX / 16) return false;
  s->step_rows = calloc(values + 1, sizeof *s->step_rows);
  s->missing = calloc(values + 1, sizeof *s->missing);
  s->reads = calloc((size_t)sequence->steps_count + 1, sizeof *s->reads);
  return s->step_rows != NULL && s->missing != NULL && s->reads != NULL;
}

int ur_scratch_make(const ur_filler *filler, ur_scratch *s) {
  size_t rows = (size_t)(filler->options.batch_size < filler->options.samples ? filler->options.batch_size
                                                                              : filler->options.samples);
  size_t outputs = (size_t)filler->options.output_count;
  memset(s, 0, sizeof *s);
  s->rows = calloc(rows + 1, sizeof *s->rows);
  s->skipped = calloc(rows + 1, sizeof *s->skipped);
  s->ahead = calloc(rows + 1, sizeof *s->ahead);
  s->draws = calloc(rows + 1, sizeof *s->draws);
  s->boxes = calloc(outputs + 1, sizeof *s->boxes);
  s->offsets = room_for_offsets(filler, rows);
  s->outputs = calloc(outputs + 1, sizeof *s->outputs);
  s->views = calloc(outputs + 1, sizeof *s->views);
  bool good = s->rows && s->skipped && s->ahead && s->draws && s->boxes && s->offsets && s->outputs && s->views;
  if (good && room_for_steps(filler, s, rows)) return 1;
  ur_scratch_free(s);
  memset(s, 0, sizeof *s);
  return 0;
}

void ur_batch_release(ur_batch *batch) {
  if (batch != NULL) ur_pool_give(&batch->piece);
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

static int64_t first_sample(const ur_filler *filler, int64_t number) {
  const int64_t *ends = filler->options.batch_ends;
  if (ends != NULL) return number == 0 ? 0 : ends[number - 1];
  return number * filler->options.batch_size; /* exact: no more than `samples` */
}

int64_t ur_filler_rows(const ur_filler *filler, int64_t number) {
  if (filler->options.batch_ends != NULL) return filler->options.batch_ends[number] - first_sample(filler, number);
  int64_t left = filler->options.samples - first_sample(filler, number);
  return left < filler->options.batch_size ? left : filler->options.batch_size;
}

/* Whether the places ascend one by one. */
static bool are_neighbours(const int64_t *places, int64_t count) {
  for (int64_t i = 1; i < count; i++) {
    if ((uint64_t)places[i] - (uint64_t)places[i - 1] != 1) return false; /* they may have wrapped */
  }
  return count > 0;
}

static ur_status row_ids_of_batch(const ur_filler *filler, int64_t number, int64_t *rows) {
  const ur_loader_options *o = &filler->options;
  int64_t count = ur_filler_rows(filler, number);
  ur_status status =
      /* exact: check_options() has checked the last sample's */
      ur_order_range(o->order, o->first + first_sample(filler, number) * o->stride, o->stride, count, rows);
  if (status != UR_OK) return status;
  if (o->selection != NULL) {
    for (int64_t i = 0; i < count; i++) rows[i] = o->selection[rows[i]];
    return UR_OK;
  }
  if (o->selection_start != 0 || o->selection_step != 1) { /* what leaves the set, wraps included, is refused */
    for (int64_t i = 0; i < count; i++) rows[i] = (int64_t)((uint64_t)o->selection_start + (uint64_t)rows[i] * (uint64_t)o->selection_step);
  }
  if (o->bitmap == NULL) return UR_OK;
  return are_neighbours(rows, count) ? ur_bitmap_range(o->bitmap, rows[0], count, rows)
                                     : ur_bitmap_select(o->bitmap, rows, count, rows);
}

/* What tells samples of one row apart, which may come again; -1 where none does. */
static void draws_of_batch(const ur_filler *filler, int64_t number, int64_t count, int64_t *draws) {
  const ur_loader_options *o = &filler->options;
  int64_t first = first_sample(filler, number);
  for (int64_t i = 0; i < count; i++) {
    /* exact: check_options() has checked the last sample's position */
    int64_t position = o->first + (first + i) * o->stride;
    draws[i] = o->crop_draws != NULL ? o->crop_draws[first + i] : o->crop_period > 0 ? position % o->crop_period : -1;
  }
}

/* Places of the arrays of a batch of `rows` rows and `skipped` others, given s->outputs[c].used bytes for each output;
 * false when they exceed 2^64. */
static bool lay_out(const ur_filler *filler, const ur_scratch *s, int64_t rows, int64_t skipped, ur_batch *head,
                    uint64_t *end) {
  uint64_t n = (uint64_t)rows, at = 0, start = 0;
  bool good = ur_append_array(&at, sizeof *head, 1, 1, &start) &&
              ur_append_array(&at, (uint64_t)filler->options.output_count, sizeof(ur_column_view), ALIGNMENT, &start) &&
              ur_append_array(&at, n, sizeof(int64_t), ALIGNMENT, &head->row_ids_at);
  for (int32_t c = 0; c < filler->options.output_count && good; c++) {
    ur_column_view *view = &s->views[c];
    uint64_t values = n * (uint64_t)filler->steps[c]; /* exact: the thread has room for as many numbers */
    *view = (ur_column_view){.data_bytes = s->outputs[c].used, .offsets_at = UINT64_MAX, .valid_at = UINT64_MAX,
                             .starts_at = UINT64_MAX, .missing_at = UINT64_MAX};
    const ur_drawn_box *crop = crop_of(filler, c);
    if (crop != NULL) good = ur_append_array(&at, n, (uint64_t)crop->rank * sizeof(int64_t), ALIGNMENT, &view->starts_at);
    if (good && filler->infos[c].fixed_bytes == 0 && crop == NULL)
      good = ur_append_array(&at, values + 1, sizeof(int64_t), ALIGNMENT, &view->offsets_at);
    if (good && filler->infos[c].nullable) good = ur_append_array(&at, values, 1, ALIGNMENT, &view->valid_at);
    if (good && filler->options.sequence != NULL) good = ur_append_array(&at, values, 1, ALIGNMENT, &view->missing_at);
    good = good && ur_append_array(&at, view->data_bytes, 1, ALIGNMENT, &view->data_at);
  }
  if (!good || !ur_append_array(&at, (uint64_t)skipped, sizeof(int64_t), ALIGNMENT, &head->skipped_at)) return false;
  *end = at;
  return true;
}

/* The outputs as they are measured: offsets in the thread's own memory, and no data yet. */
static void outputs_to_measure(const ur_filler *filler, const ur_scratch *s, int64_t rows) {
  int64_t *offsets = s->offsets;
  for (int32_t c = 0; c < filler->options.output_count; c++) {
    const ur_drawn_box *crop = crop_of(filler, c);
    s->outputs[c] = (ur_output){.column = filler->columns[c], .boxes = crop == NULL ? NULL : &s->boxes[c]};
    if (crop != NULL) s->boxes[c] = (ur_boxes){.rank = crop->rank, .shape = crop->shape, .sizes = crop->sizes};
    if (filler->infos[c].fixed_bytes != 0) continue;
    if (crop != NULL) s->boxes[c].lengths = offsets;
    else s->outputs[c].offsets = offsets;
    offsets += rows * filler->steps[c] + 1; /* exact: there is room for them */
  }
}

__extension__ typedef unsigned __int128 wide;

/* f of docs/spec/order.md: one step of SplitMix64 from a state that has been raised. */
static uint64_t finished(uint64_t z) {
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* Bytes of a value for each element along its free dimension. */
static uint64_t bytes_along(const ur_column_info *info, const ur_drawn_box *crop) {
  uint64_t bytes = info->type == UR_TYPE_ARRAY ? ur_element_bytes(info) : 1;
  for (int32_t d = 0; d < crop->rank; d++)
    if (crop->shape[d] != 0) bytes *= (uint64_t)crop->shape[d]; /* exact: the boxes were measured */
  return bytes;
}

/* Where the crop of each row begins: by the key of its sample and the name of the column alone. Values that are smaller have it
 * nowhere, which cutting it finds. */
static void draw_places(const ur_filler *filler, const ur_scratch *s, int64_t rows, int32_t c, int64_t *starts) {
  const ur_drawn_box *crop = crop_of(filler, c);
  uint64_t along = bytes_along(&filler->infos[c], crop);
  for (int64_t i = 0; i < rows; i++) {
    uint64_t key = finished((uint64_t)s->rows[i] * UR_PHI + filler->options.crop_base); /* modulo 2^64, here and below */
    if (s->draws[i] >= 0) key = finished(key ^ finished(((uint64_t)s->draws[i] + 1) * UR_PHI));
    uint64_t state = finished((key ^ crop->name) + UR_PHI);
    for (int32_t d = 0; d < crop->rank; d++) {
      uint64_t size = (uint64_t)crop->sizes[d], whole = (uint64_t)crop->shape[d];
      if (whole == 0) whole = (uint64_t)s->boxes[c].lengths[i] / along;
      uint64_t places = whole < size ? 1 : whole - size + 1;
      state += UR_PHI;
      *starts++ = (int64_t)(uint64_t)(((wide)finished(state) * places) >> 64);
    }
  }
}

/* Points s->outputs into the batch's memory, and takes the offsets that were measured along. */
static void outputs_to_fill(const ur_filler *filler, const ur_scratch *s, int64_t rows, uint8_t *memory) {
  for (int32_t c = 0; c < filler->options.output_count; c++) {
    const ur_column_view *view = &s->views[c];
    ur_output *output = &s->outputs[c];
    const ur_drawn_box *crop = crop_of(filler, c);
    if (crop != NULL) {
      int64_t *starts = (int64_t *)(void *)(memory + view->starts_at);
      draw_places(filler, s, rows, c, starts);
      s->boxes[c].starts = starts;
    }
    output->data = memory + view->data_at;
    output->capacity = view->data_bytes;
    output->valid = view->valid_at == UINT64_MAX ? NULL : memory + view->valid_at;
    if (output->offsets == NULL) continue;
    /* exact: lay_out() has checked it */
    memcpy(memory + view->offsets_at, output->offsets, ((size_t)(rows * filler->steps[c]) + 1) * sizeof *output->offsets);
    output->offsets = (int64_t *)(void *)(memory + view->offsets_at); /* exact: likewise */
  }
}

/* A piece of memory with room for the rows that have been measured, and s->outputs pointing into it. */
static ur_status prepare(const ur_filler *filler, const ur_scratch *s, int64_t number, int64_t rows, int64_t skipped,
                         ur_batch **out, ur_error *error) {
  ur_batch head = {.number = number, .rows = rows, .skipped = skipped};
  uint64_t end = 0;
  ur_piece *piece = lay_out(filler, s, rows, skipped, &head, &end) ? ur_pool_take(filler->pool, end) : NULL;
  if (piece == NULL)
    return ur_fail(error, UR_NO_MEMORY, "no memory for a batch of %" PRId64 " rows (%" PRIu64 " bytes)", rows, end);
  head.piece = *piece;
  ur_batch *batch = (ur_batch *)piece;
  uint8_t *memory = (uint8_t *)piece;
  *batch = head;
  memcpy(batch->columns, s->views, (size_t)filler->options.output_count * sizeof(ur_column_view));
  memcpy(memory + head.row_ids_at, s->rows, (size_t)rows * sizeof(int64_t));
  memcpy(memory + head.skipped_at, s->skipped, (size_t)skipped * sizeof(int64_t));
  outputs_to_fill(filler, s, rows, memory);
  *out = batch;
  return UR_OK;
}

/* Bytes of the values of each part in outputs [first, end), in a batch that has been timed. */
static void count_bytes(const ur_filler *filler, const ur_scratch *s, int32_t first, int32_t end, const ur_plan *plan,
                        ur_timing *timing) {
  for (int64_t g = 0; g < timing->count; g++) {
    const ur_run *run = &plan->runs[g];
    for (int32_t c = first; c < end; c++) {
      const int64_t *offsets = s->outputs[c].offsets;
      /* exact: the batch was measured */
      if (crop_of(filler, c) != NULL) timing->of[g].bytes += s->outputs[c].used / (uint64_t)s->batch_rows * (uint64_t)run->count;
      /* exact: likewise */
      else if (offsets == NULL) timing->of[g].bytes += (uint64_t)run->count * (uint64_t)filler->infos[c].fixed_bytes;
      for (int64_t i = run->first; offsets != NULL && i < run->first + run->count; i++) {
        int64_t place = plan->places == NULL ? i : plan->places[i];
        timing->of[g].bytes += (uint64_t)(offsets[place + 1] - offsets[place]); /* exact: likewise */
      }
    }
  }
}

static ur_status stream_into_batch(const ur_filler *filler, ur_scratch *s, int64_t number, int64_t rows, int64_t skipped,
                                   ur_timing *timing, ur_batch **out, ur_error *error) {
  const ur_stream *stream = filler->options.stream;
  ur_batch *batch = NULL;
  if (timing != NULL) timing->count = 0; /* it begins where elements are read */
  outputs_to_measure(filler, s, rows);
  ur_status status = ur_stream_cut(stream, filler->set, s->rows, rows, &s->stretches, error);
  if (status == UR_OK)
    status = ur_stream_measure(stream, &s->stretches, rows, s->outputs, filler->options.output_count, error);
  if (status == UR_OK) status = prepare(filler, s, number, rows, skipped, &batch, error);
  if (status == UR_OK)
    status = ur_stream_fill(stream, filler->set, &s->stretches, rows, s->outputs, filler->options.output_count, timing, error);
  if (status == UR_OK && timing != NULL) ur_times_add(filler->times, timing);
  if (status == UR_OK) {
    *out = batch;
  } else {
    ur_batch_release(batch);
  }
  return status;
}

/* The rows at all steps of the samples, one of the steps after the other. */
static ur_status find_steps(const ur_filler *filler, ur_scratch *s, const int64_t *anchors, int64_t rows, ur_error *error) {
  const ur_sequence *sequence = filler->options.sequence;
  ur_status status = UR_OK;
  int64_t at = 0;
  for (int32_t i = 0; i < sequence->steps_count && status == UR_OK; i++) {
    status = ur_sequence_find(sequence, i, anchors, rows, s->step_rows + at, s->missing + at, error);
    at += rows * sequence->steps[i].count; /* exact: there is room for them, here and below */
  }
  return status;
}

/* Opens and measures what stands at each of the steps; *opened of the reads are to be closed. */
static ur_status open_steps(const ur_filler *filler, ur_scratch *s, int64_t number, int64_t rows, ur_timing *timing,
                            int32_t *opened, ur_error *error) {
  const ur_sequence *sequence = filler->options.sequence;
  ur_status status = find_steps(filler, s, s->rows, rows, error);
  ur_output *outputs = s->outputs;
  int64_t at = 0;
  for (*opened = 0; *opened < sequence->steps_count && status == UR_OK; ++*opened) {
    const ur_steps *steps = &sequence->steps[*opened];
    ur_read *read = &s->reads[*opened];
    status = ur_read_open_once(read, filler->set, s->step_rows + at, sequence->blank ? s->missing + at : NULL,
                               rows * steps->count, outputs, steps->outputs,
                               *opened == number % sequence->steps_count ? timing : NULL, error);
    if (status == UR_OK) status = ur_read_measure(read, outputs, steps->outputs, error);
    at += rows * steps->count;
    outputs += steps->outputs;
  }
  return status;
}

/* Reads what has been measured, and says what is missing. Of one of the steps the time is taken, another one in each batch. */
static ur_status gather_steps(const ur_filler *filler, const ur_scratch *s, int64_t rows, ur_batch *batch, ur_error *error) {
  const ur_sequence *sequence = filler->options.sequence;
  const uint8_t *missing = s->missing;
  int32_t first = 0;
  ur_status status = UR_OK;
  for (int32_t i = 0; i < sequence->steps_count && status == UR_OK; i++) {
    const ur_steps *steps = &sequence->steps[i];
    const ur_read *read = &s->reads[i];
    size_t values = (size_t)(rows * steps->count);
    for (int32_t c = first; c < first + steps->outputs; c++) memcpy((uint8_t *)batch + s->views[c].missing_at, missing, values);
    status = ur_read_gather(read, s->outputs + first, steps->outputs, error);
    if (status == UR_OK && read->timing != NULL) {
      count_bytes(filler, s, first, first + steps->outputs, &read->plan, read->timing);
      ur_times_add(filler->times, read->timing);
    }
    missing += values;
    first += steps->outputs;
  }
  return status;
}

static ur_status sequence_into_batch(const ur_filler *filler, ur_scratch *s, int64_t number, int64_t rows, int64_t skipped,
                                     ur_timing *timing, ur_batch **out, ur_error *error) {
  ur_batch *batch = NULL;
  int32_t opened = 0;
  outputs_to_measure(filler, s, rows);
  ur_status status = open_steps(filler, s, number, rows, timing, &opened, error);
  if (status == UR_OK) status = prepare(filler, s, number, rows, skipped, &batch, error);
  if (status == UR_OK) status = gather_steps(filler, s, rows, batch, error);
  for (int32_t i = 0; i < opened; i++) ur_read_close(&s->reads[i]);
  if (status == UR_OK) {
    *out = batch;
  } else {
    ur_batch_release(batch);
  }
  return status;
}

static ur_status read_into_batch(const ur_filler *filler, ur_scratch *s, int64_t number, int64_t rows,
                                 int64_t skipped, ur_batch **out, ur_error *error) {
  ur_read read;
  ur_batch *batch = NULL;
  int32_t count = filler->options.output_count;
  ur_timing *timing = UR_TIME_ALL || ur_timing_are_due(&s->timing) ? &s->timing : NULL;
  if (filler->options.stream != NULL) return stream_into_batch(filler, s, number, rows, skipped, timing, out, error);
  if (filler->options.sequence != NULL) return sequence_into_batch(filler, s, number, rows, skipped, timing, out, error);
  outputs_to_measure(filler, s, rows);
  ur_status status = ur_read_open(&read, filler->set, s->rows, rows, s->outputs, count, timing, error);
  if (status == UR_OK) status = ur_read_measure(&read, s->outputs, count, error);
  if (status == UR_OK) status = prepare(filler, s, number, rows, skipped, &batch, error);
  if (status == UR_OK) status = ur_read_gather(&read, s->outputs, count, error);
  if (status == UR_OK && read.timing != NULL) {
    count_bytes(filler, s, 0, count, &read.plan, timing);
    ur_times_add(filler->times, timing);
  }
  ur_read_close(&read);
  if (status == UR_OK) {
    *out = batch;
  } else {
    ur_batch_release(batch);
  }
  return status;
}

/* Whether the corrupt row that `error` names is row `row` of the set. */
static bool is_named(const ur_filler *filler, int64_t row, const ur_error *error) {
  int64_t part = -1, row_in_part = -1;
  return ur_set_find(filler->set, row, &part, &row_in_part) == UR_OK && part == error->part && row_in_part == error->row;
}

/* Whether that row stands at a step of sample number `i`. */
static bool is_at_step(const ur_filler *filler, const ur_scratch *s, int64_t i, const ur_error *error) {
  const ur_sequence *sequence = filler->options.sequence;
  int64_t at = 0;
  for (int32_t j = 0; j < sequence->steps_count; j++) {
    int64_t count = sequence->steps[j].count;
    for (int64_t k = at + i * count; k < at + (i + 1) * count; k++) /* exact: there are as many, here and below */
      if (!(sequence->blank && s->missing[k]) && is_named(filler, s->step_rows[k], error)) return true;
    at += s->batch_rows * count;
  }
  return false;
}

/* Whether that row is sample number `i` of the batch, stands at one of its steps, or is one of a stream's documents in it. */
static bool is_in(const ur_filler *filler, const ur_scratch *s, int64_t i, const ur_error *error) {
  const ur_stream *stream = filler->options.stream;
  if (filler->options.sequence != NULL) return is_at_step(filler, s, i, error);
  if (stream == NULL) return is_named(filler, s->rows[i], error);
  for (int64_t k = 0; k < s->stretches.count; k++)
    if (s->stretches.stretches[k].to / stream->length == i && is_named(filler, s->stretches.rows[k], error)) return true;
  return false;
}

/* Moves every occurrence of the corrupt row that `error` names from rows to skipped; false when it names none of them. */
static int leave_out(const ur_filler *filler, ur_scratch *s, int64_t *rows, int64_t *skipped, const ur_error *error) {
  int64_t kept = 0;
  int64_t before = *skipped;
  for (int64_t i = 0; i < *rows; i++) {
    if (is_in(filler, s, i, error)) {
      s->skipped[(*skipped)++] = s->rows[i];
    } else {
      s->draws[kept] = s->draws[i];
      s->rows[kept++] = s->rows[i];
    }
  }
  *rows = kept;
  return *skipped != before;
}

ur_status ur_filler_fill(const ur_filler *filler, ur_scratch *s, int64_t number, ur_batch **batch, ur_error *error) {
  int64_t rows = ur_filler_rows(filler, number);
  int64_t skipped = 0;
  ur_status status = row_ids_of_batch(filler, number, s->rows);
  if (status != UR_OK) return ur_fail(error, status, "the order does not fit the loader");
  if (filler->options.crops != NULL) draws_of_batch(filler, number, rows, s->draws);
  for (;;) {
    s->batch_rows = rows;
    status = read_into_batch(filler, s, number, rows, skipped, batch, error);
    if (status != UR_CORRUPT || filler->options.on_corrupt == 0) return status;
    if (!leave_out(filler, s, &rows, &skipped, error)) return status;
  }
}

int64_t ur_filler_glance(const ur_filler *filler, ur_scratch *s) {
  if (filler->options.crops != NULL) return 0; /* whole cells are more than it needs */
  int64_t rows = filler->batches == 0 ? 0 : ur_filler_rows(filler, 0);
  return rows > 0 && row_ids_of_batch(filler, 0, s->ahead) == UR_OK ? rows : 0;
}

/* Tells the kernel of batch `number`, if there is one. */
static void advise_batch(const ur_filler *filler, ur_scratch *s, int64_t number) {
  if (number >= filler->batches || row_ids_of_batch(filler, number, s->ahead) != UR_OK) return;
  int64_t rows = ur_filler_rows(filler, number);
  if (filler->options.sequence != NULL) {
    if (find_steps(filler, s, s->ahead, rows, NULL) == UR_OK) ur_set_advise(filler->set, s->step_rows, rows * filler->offsets);
  } else if (filler->options.stream == NULL) {
    ur_set_advise(filler->set, s->ahead, rows);
  } else if (ur_stream_cut(filler->options.stream, filler->set, s->ahead, rows, &s->stretches, NULL) == UR_OK) {
    ur_set_advise(filler->set, s->stretches.rows, s->stretches.count);
  }
}

void ur_filler_advise(const ur_filler *filler, ur_scratch *s, int64_t number) {
  if (filler->set->options.fetch != NULL) return; /* batches on their way are asked for already */
  if (filler->options.crops != NULL) return;      /* whole cells are more than it needs */
  if (number == 0) {
    for (int64_t first = 0; first < filler->options.prefetch; first++) advise_batch(filler, s, first);
  }
  if (number < s->advise_until || ++s->looked >= GLANCE_BATCHES) {
    struct rusage usage;
#ifdef RUSAGE_THREAD
    getrusage(RUSAGE_THREAD, &usage);
#else
    getrusage(RUSAGE_SELF, &usage);
#endif
    s->looked = 0;
    if (usage.ru_majflt != s->major_faults) s->advise_until = number + ADVISE_BATCHES;
    s->major_faults = usage.ru_majflt;
  }
  if (number < s->advise_until) advise_batch(filler, s, number + filler->options.prefetch);
}
