/* loader_fill.c - see loader_fill.h. A batch is one piece of memory: its head, then row ids and the arrays of each column.
 *
 * Cold files: every batch counts the major page faults of its thread, and while there are some, the kernel is told of the
 * batches ahead.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader_fill.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fail.h"
#include "reader.h"

enum { ALIGNMENT = 64, ADVISE_BATCHES = 256, GLANCE_BATCHES = 8 };

static uint64_t align_up(uint64_t value) { return (value + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* ---- what to fill ------------------------------------------------------------------------------------------------ */

static ur_status check_options(const ur_set *set, const ur_loader_options *o, ur_error *error) {
  if (o->order == NULL) return ur_fail(error, UR_ARGUMENT, "a loader needs an order");
  if (o->first < 0 || o->stride < 1) return ur_fail(error, UR_ARGUMENT, "first must be >= 0 and stride >= 1");
  if (o->samples < 0) return ur_fail(error, UR_ARGUMENT, "samples must be >= 0");
  if (o->batch_size < 1) return ur_fail(error, UR_ARGUMENT, "batch_size must be >= 1");
  if (o->prefetch < 1 || o->prefetch > 4096) return ur_fail(error, UR_ARGUMENT, "prefetch must be in 1..4096");
  if (o->threads < 1 || o->threads > 1024) return ur_fail(error, UR_ARGUMENT, "threads must be in 1..1024");
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

static ur_status copy_columns(ur_filler *filler, const ur_loader_options *options, ur_error *error) {
  size_t outputs = (size_t)options->output_count;
  filler->columns = calloc(outputs + 1, sizeof *filler->columns);
  filler->infos = calloc(outputs + 1, sizeof *filler->infos);
  if (!filler->columns || !filler->infos) return ur_fail(error, UR_NO_MEMORY, "no memory for a loader");
  for (size_t c = 0; c < outputs; c++) {
    filler->columns[c] = options->columns[c];
    ur_status status = ur_set_column(filler->set, options->columns[c], &filler->infos[c], error);
    if (status != UR_OK) return status;
  }
  filler->options.columns = filler->columns;
  return UR_OK;
}

ur_status ur_filler_make(ur_filler *filler, ur_set *set, ur_pool *pool, const ur_loader_options *options,
                         ur_error *error) {
  *filler = (ur_filler){.options = *options};
  ur_status status = check_options(set, options, error);
  if (status != UR_OK) return status;
  filler->set = ur_set_retain(set);
  filler->pool = ur_pool_retain(pool);
  filler->batches = options->samples / options->batch_size;
  if (!options->drop_last && options->samples % options->batch_size != 0) filler->batches++;
  return copy_columns(filler, options, error);
}

void ur_filler_free(ur_filler *filler) {
  free(filler->columns);
  free(filler->infos);
  ur_set_release(filler->set);
  ur_pool_release(filler->pool);
}

void ur_scratch_free(ur_scratch *s) {
  free(s->rows);
  free(s->skipped);
  free(s->ahead);
  free(s->bytes);
  free(s->outputs);
  free(s->views);
}

int ur_scratch_make(const ur_filler *filler, ur_scratch *s) {
  size_t rows = (size_t)(filler->options.batch_size < filler->options.samples ? filler->options.batch_size
                                                                              : filler->options.samples);
  size_t outputs = (size_t)filler->options.output_count;
  memset(s, 0, sizeof *s);
  s->rows = calloc(rows + 1, sizeof *s->rows);
  s->skipped = calloc(rows + 1, sizeof *s->skipped);
  s->ahead = calloc(rows + 1, sizeof *s->ahead);
  s->bytes = calloc(outputs + 1, sizeof *s->bytes);
  s->outputs = calloc(outputs + 1, sizeof *s->outputs);
  s->views = calloc(outputs + 1, sizeof *s->views);
  if (s->rows && s->skipped && s->ahead && s->bytes && s->outputs && s->views) return 1;
  ur_scratch_free(s);
  memset(s, 0, sizeof *s);
  return 0;
}

/* ---- filling ----------------------------------------------------------------------------------------------------- */

int64_t ur_filler_rows(const ur_filler *filler, int64_t number) {
  int64_t left = filler->options.samples - number * filler->options.batch_size;
  return left < filler->options.batch_size ? left : filler->options.batch_size;
}

static ur_status row_ids_of_batch(const ur_filler *filler, int64_t number, int64_t *rows) {
  const ur_loader_options *o = &filler->options;
  int64_t count = ur_filler_rows(filler, number);
  ur_status status =
      ur_order_range(o->order, o->first + number * o->batch_size * o->stride, o->stride, count, rows);
  if (status != UR_OK) return status;
  if (o->selection != NULL) {
    for (int64_t i = 0; i < count; i++) rows[i] = o->selection[rows[i]];
  } else if (o->selection_start != 0 || o->selection_step != 1) {
    for (int64_t i = 0; i < count; i++) rows[i] = o->selection_start + rows[i] * o->selection_step;
  }
  return UR_OK;
}

/* Places of the arrays of a batch of `rows` rows, given the bytes of each output's data; the end is returned. */
static uint64_t lay_out(const ur_filler *filler, int64_t rows, const uint64_t *data_bytes, ur_column_view *views,
                        uint64_t *row_ids_at) {
  uint64_t n = (uint64_t)rows;
  uint64_t at = align_up(sizeof(ur_batch) + (size_t)filler->options.output_count * sizeof(ur_column_view));
  *row_ids_at = at;
  at = align_up(at + n * sizeof(int64_t));
  for (int32_t c = 0; c < filler->options.output_count; c++) {
    views[c].offsets_at = UINT64_MAX;
    views[c].valid_at = UINT64_MAX;
    if (filler->infos[c].fixed_bytes == 0) {
      views[c].offsets_at = at;
      at = align_up(at + (n + 1) * sizeof(int64_t));
    }
    if (filler->infos[c].nullable) {
      views[c].valid_at = at;
      at = align_up(at + n);
    }
    views[c].data_at = at;
    views[c].data_bytes = data_bytes[c];
    at = align_up(at + data_bytes[c]);
  }
  return at;
}

/* s->bytes[c] = bytes of output c for these rows; columns of fixed width need no look at the files. */
static ur_status measure(const ur_filler *filler, const ur_scratch *s, const ur_read *read, ur_error *error) {
  int32_t count = filler->options.output_count;
  int32_t variable = 0;
  for (int32_t c = 0; c < count; c++) {
    s->bytes[c] = (uint64_t)read->rows * (uint64_t)filler->infos[c].fixed_bytes;
    if (filler->infos[c].fixed_bytes == 0) variable++;
  }
  return variable == 0 ? UR_OK : ur_read_measure(read, filler->columns, count, s->bytes, error);
}

/* A piece of memory with room for the rows that are about to be read, and s->outputs pointing into it. */
static ur_status prepare(const ur_filler *filler, const ur_scratch *s, int64_t number, int64_t rows, int64_t skipped,
                         ur_batch **out, ur_error *error) {
  int32_t count = filler->options.output_count;
  uint64_t row_ids_at = 0;
  uint64_t skipped_at = lay_out(filler, rows, s->bytes, s->views, &row_ids_at);
  uint64_t end = skipped_at + (uint64_t)skipped * sizeof(int64_t);
  ur_piece *piece = ur_pool_take(filler->pool, end);
  if (piece == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a batch of %llu bytes", (unsigned long long)end);
  ur_batch *batch = (ur_batch *)piece;
  uint8_t *memory = (uint8_t *)piece;
  batch->number = number;
  batch->rows = rows;
  batch->skipped = skipped;
  batch->row_ids_at = row_ids_at;
  batch->skipped_at = skipped_at;
  memcpy(batch->columns, s->views, (size_t)count * sizeof(ur_column_view));
  memcpy(memory + row_ids_at, s->rows, (size_t)rows * sizeof(int64_t));
  memcpy(memory + skipped_at, s->skipped, (size_t)skipped * sizeof(int64_t));
  for (int32_t c = 0; c < count; c++) {
    const ur_column_view *view = &s->views[c];
    s->outputs[c] = (ur_output){
        .column = filler->columns[c],
        .data = memory + view->data_at,
        .capacity = view->data_bytes,
        .offsets = view->offsets_at == UINT64_MAX ? NULL : (int64_t *)(void *)(memory + view->offsets_at),
        .valid = view->valid_at == UINT64_MAX ? NULL : memory + view->valid_at,
    };
  }
  *out = batch;
  return UR_OK;
}

static ur_status read_into_batch(const ur_filler *filler, const ur_scratch *s, int64_t number, int64_t rows,
                                 int64_t skipped, ur_batch **out, ur_error *error) {
  ur_read read;
  ur_batch *batch = NULL;
  ur_status status = ur_read_open(&read, filler->set, s->rows, rows, error);
  if (status == UR_OK) status = measure(filler, s, &read, error);
  if (status == UR_OK) status = prepare(filler, s, number, rows, skipped, &batch, error);
  if (status == UR_OK) status = ur_read_fill(&read, s->outputs, filler->options.output_count, error);
  ur_read_close(&read);
  if (status == UR_OK) {
    *out = batch;
  } else {
    ur_batch_release(batch);
  }
  return status;
}

/* Moves every occurrence of the corrupt row that `error` names from rows to skipped; false when it names none of them. */
static int leave_out(const ur_filler *filler, ur_scratch *s, int64_t *rows, int64_t *skipped, const ur_error *error) {
  int64_t kept = 0;
  int64_t before = *skipped;
  for (int64_t i = 0; i < *rows; i++) {
    int64_t part = -1, row = -1;
    if (ur_set_find(filler->set, s->rows[i], &part, &row) == UR_OK && part == error->part && row == error->row) {
      s->skipped[(*skipped)++] = s->rows[i];
    } else {
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
  for (;;) {
    status = read_into_batch(filler, s, number, rows, skipped, batch, error);
    if (status != UR_CORRUPT || filler->options.on_corrupt == 0) return status;
    if (!leave_out(filler, s, &rows, &skipped, error)) return status;
  }
}

/* Tells the kernel of batch `number`, if there is one. */
static void advise_batch(const ur_filler *filler, ur_scratch *s, int64_t number) {
  if (number < filler->batches && row_ids_of_batch(filler, number, s->ahead) == UR_OK) {
    ur_set_advise(filler->set, s->ahead, ur_filler_rows(filler, number));
  }
}

void ur_filler_advise(const ur_filler *filler, ur_scratch *s, int64_t number) {
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
