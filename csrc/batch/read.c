/* batch/read.c - reading one batch: rows of a set, the chosen columns of each, into the caller's buffers. */
#include "batch/read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "batch/direct.h"
#include "unirecord_internal.h"

#define ANNOUNCED 64            /* parts that are said to be opened next */
#define PARTS_AHEAD 16         /* parts between touching what is known of one and using it */
#define NEAR_ROWS 256 /* row numbers that are copied to the stack: taking memory costs as much as a single row */

static bool is_variable(const ur_column_info *info) { return info->fixed_bytes == 0; }

/* The group of rows that run `run` of the plan names, with its part opened and referenced. */
static ur_status open_group(ur_set *set, const ur_plan *plan, const ur_run *run, ur_group *group, ur_error *error) {
  ur_part *part = NULL;
  ur_status status = ur_set_acquire(set, run->part, &part, error);
  if (status != UR_OK) return status;
  *group = (ur_group){.part = part,
                      .number = run->part,
                      .count = run->count,
                      .rows = plan->rows + run->first,
                      .places = plan->places == NULL ? NULL : plan->places + run->first};
  return UR_OK;
}

/* lengths[0..n) of one column's values. */
static ur_status measure_group(const ur_group *group, int32_t column, int64_t *lengths, ur_error *error) {
  if (group->part->columns[column].info.is_blob) return ur_measure_cells(group, column, lengths, error);
  return ur_measure_strings(group, column, lengths, error);
}

/* Turns lengths in offsets[1 .. n] into offsets. */
static ur_status sum_offsets(int64_t *offsets, int64_t n, ur_error *error) {
  int64_t at = 0;
  offsets[0] = 0;
  for (int64_t i = 1; i <= n; i++) {
    if (__builtin_add_overflow(at, offsets[i], &at))
      return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_NOWHERE,
                        "the lengths of a batch add up to more than 2^63");
    offsets[i] = at;
  }
  return UR_OK;
}

static ur_status fixed_size(int64_t n, const ur_column_info *info, uint64_t *bytes, ur_error *error) {
  if (ur_multiply((uint64_t)n, (uint64_t)info->fixed_bytes, bytes)) return UR_OK;
  return ur_fail(error, UR_ARGUMENT, "%" PRId64 " values of %" PRId64 " bytes exceed 2^64", n, info->fixed_bytes);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static ur_status check_column(const ur_read *read, int32_t column, ur_error *error) {
  if (column >= 0 && (uint32_t)column < read->columns->count) return UR_OK;
  return ur_fail(error, UR_ARGUMENT, "column %" PRId32 " is not in [0, %" PRIu32 ")", column, read->columns->count);
}

static ur_status check_outputs(const ur_read *read, const ur_output *outputs, int32_t count,
                               ur_error *error) {
  if (count < 0) return ur_fail(error, UR_ARGUMENT, "%" PRId32 " columns are not possible", count);
  for (int32_t i = 0; i < count; i++) {
    int32_t column = outputs[i].column;
    ur_status status = check_column(read, column, error);
    if (status != UR_OK) return status;
    status = ur_column_check(read->columns->info[column].type, UR_CODEC_PLAIN, error); /* codecs are each part's own */
    if (status != UR_OK && error != NULL) error->column = column;
    if (status != UR_OK) return status;
    if (outputs[i].boxes != NULL) continue; /* measuring them looks at more */
    if (is_variable(&read->columns->info[column]) && outputs[i].offsets == NULL)
      return ur_fail(error, UR_ARGUMENT, "column %" PRId32 " has values of different sizes and needs offsets", column);
    if (!is_variable(&read->columns->info[column]) && outputs[i].offsets != NULL)
      return ur_fail(error, UR_ARGUMENT, "column %" PRId32 " has values of one size and takes no offsets", column);
  }
  return UR_OK;
}

static ur_status look_at_groups(const ur_read *read, ur_error *error) {
  ur_trust looks = ur_trust_in(read->set, read->opened);
  for (int64_t g = 0; g < read->opened; g++) {
    const ur_group *group = &read->groups[g];
    ur_status status = ur_part_was_unchanged(group->part, looks.now, looks.trusted, error);
    if (status != UR_OK) return ur_blame(error, status, group, -1, -1);
    if (read->opened > 1) ur_touch_rows(group);
  }
  return UR_OK;
}

/* Says which of the next parts are not open yet, to a function that brings bytes: it can bring the heads of all at once. A
 * failure is one of the part that has it, which is told when that part is opened. */
static void announce(const ur_set *set, const ur_plan *plan, int64_t from) {
  ur_range ranges[ANNOUNCED];
  int64_t count = 0;
  if (set->options.fetch == NULL) return;
  for (int64_t i = from; i < plan->count && i < from + ANNOUNCED; i++) {
    int64_t part = plan->runs[i].part;
    if (atomic_load(&set->slots[part].part) == NULL) ranges[count++] = (ur_range){.part = part, .file = UR_FILE_DATA};
  }
  ur_source source = {set->options.fetch, set->options.context, 0, set->options.cache};
  if (count > 1) (void)ur_source_fetch(&source, ranges, count, NULL);
}

static ur_status open_groups(ur_read *read, ur_error *error) {
  read->groups = &read->one;
  if (read->plan.count > 1) {
    read->groups = malloc((size_t)read->plan.count * sizeof *read->groups);
    if (read->groups == NULL)
      return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRId64 " parts", read->plan.count);
  }
  int64_t count = read->plan.count;
  const ur_run *runs = read->plan.runs;
  for (; read->opened < count; read->opened++) {
    int64_t g = read->opened;
    if (count > 1 && g % ANNOUNCED == 0) {
      announce(read->set, &read->plan, g);
      ur_timing_pass(read->timing);
    }
    if (g + PARTS_AHEAD < count) ur_set_touch(read->set, runs[g + PARTS_AHEAD].part);
    ur_status status = open_group(read->set, &read->plan, &runs[g], &read->groups[g], error);
    if (status != UR_OK) return status;
    read->groups[g].timer = ur_timing_of(read->timing, g);
    ur_part_timer_end(read->groups[g].timer);
    if (count > 1) ur_part_touch(read->groups[g].part);
  }
  return look_at_groups(read, error);
}

/* From now on the clock runs for each part of the plan. */
static void time_parts(ur_read *read, ur_timing *timing) {
  if (timing == NULL) return;
  ur_timing_begin(timing, read->plan.count);
  for (int64_t g = 0; g < timing->count; g++) timing->of[g] = (ur_part_timer){.timing = timing, .part = read->plan.runs[g].part};
  if (timing->count > 0) read->timing = timing;
}

/* Opens what `read` has begun with, for rows that are borrowed, and which its repeats are of where there are any. */
static ur_status open_rows(ur_read *read, const int64_t *rows, int64_t n, ur_timing *timing, ur_error *error) {
  ur_status status = ur_plan_rows(read->set, rows, n, &read->plan, error);
  if (status != UR_OK) return status;
  if (read->repeats.first != NULL) ur_repeats_plan(&read->repeats, &read->plan);
  time_parts(read, timing);
  return read->set->layers == NULL ? open_groups(read, error) : read->set->layers->reads->open(read, error);
}

/* Enters the set; *whole where its rows are found without a plan. */
static ur_status begin(ur_read *read, ur_set *set, const int64_t *rows, int64_t n, const ur_output *outputs, int32_t count,
                       bool *whole, ur_error *error) {
  *read = (ur_read){.rows = n, .groups = &read->one};
  *whole = false;
  if (n < 0) return ur_fail(error, UR_ARGUMENT, "%" PRId64 " rows are not possible", n);
  if (!ur_set_enter(set, error)) return UR_CLOSED;
  read->set = set;
  ur_status status = ur_set_schema(set, &read->columns, error);
  if (status == UR_OK) *whole = ur_direct_open(read, rows, outputs, count);
  return status;
}

ur_status ur_read_open(ur_read *read, ur_set *set, const int64_t *rows, int64_t n, const ur_output *outputs, int32_t count,
                       ur_timing *timing, ur_error *error) {
  bool whole = false;
  ur_status status = begin(read, set, rows, n, outputs, count, &whole, error);
  return status != UR_OK || whole ? status : open_rows(read, rows, n, timing, error);
}

ur_status ur_read_open_once(ur_read *read, ur_set *set, const int64_t *rows, const uint8_t *missing, int64_t n,
                            const ur_output *outputs, int32_t count, ur_timing *timing, ur_error *error) {
  bool whole = false;
  ur_status status = begin(read, set, rows, n, outputs, missing == NULL ? count : 0, &whole, error);
  if (status != UR_OK || whole) return status;
  status = ur_repeats_find(rows, missing, n, &read->repeats, error);
  return status != UR_OK ? status : open_rows(read, read->repeats.rows, read->repeats.count, timing, error);
}

ur_status ur_read_open_planned(ur_read *read, ur_set *set, const ur_plan *plan, int64_t n, ur_timing *timing,
                               ur_error *error) {
  *read = (ur_read){.rows = n, .groups = &read->one, .timing = timing};
  if (!ur_set_enter(set, error)) return UR_CLOSED;
  read->set = set;
  read->plan = *plan;
  read->plan.memory = NULL; /* its owner's */
  ur_status status = ur_set_schema(set, &read->columns, error);
  return status == UR_OK ? open_groups(read, error) : status;
}

void ur_read_close(ur_read *read) {
  for (int64_t i = 0; i < read->opened; i++) ur_part_release(read->groups[i].part);
  if (read->layers != NULL) read->set->layers->reads->close(read);
  if (read->direct != NULL) ur_direct_close(read);
  ur_repeats_free(&read->repeats);
  if (read->groups != &read->one) free(read->groups);
  ur_plan_free(&read->plan);
  if (read->set != NULL) ur_set_leave(read->set);
}

/* Bytes that the values of a column take, or their boxes; fills the offsets for a column of variable width. */
static ur_status measure_column(const ur_read *read, const ur_output *output, uint64_t *needed, ur_error *error) {
  int32_t column = output->column;
  int64_t *offsets = output->offsets;
  const ur_column_info *info = &read->columns->info[column];
  if (output->boxes != NULL) {
    ur_status status = ur_measure_boxes(info, output, read->rows, needed, error);
    for (int64_t g = 0; g < read->opened && status == UR_OK && output->boxes->lengths != NULL && is_variable(info); g++)
      status = measure_group(&read->groups[g], column, output->boxes->lengths, error);
    return status;
  }
  if (!is_variable(info)) return fixed_size(read->rows, info, needed, error);
  ur_status status = UR_OK;
  for (int64_t g = 0; g < read->opened; g++) ur_touch_lengths(&read->groups[g], column);
  for (int64_t g = 0; g < read->opened && status == UR_OK; g++)
    status = measure_group(&read->groups[g], column, offsets + 1, error);
  if (status == UR_OK) status = sum_offsets(offsets, read->rows, error);
  if (status == UR_OK) *needed = (uint64_t)offsets[read->rows];
  return status;
}

/* Brings the blocks of all indexes at once. */
static ur_status prefetch(const ur_read *read, const ur_output *outputs, int32_t count, ur_error *error) {
  if (read->set->options.fetch == NULL) return UR_OK;
  ur_arrivals wanted = {.count = 0}; /* kilobytes, which a single row need not clear */
  ur_status status = UR_OK;
  for (int64_t g = 0; g < read->opened && (status == UR_OK || status == UR_CORRUPT); g++) {
    const ur_group *group = &read->groups[g];
    status = ur_index_prefetch(&wanted, group->part, group->rows, group->count, outputs, count, error);
  }
  if (status == UR_CORRUPT) status = UR_OK;
  status = ur_arrivals_finish(&wanted, status, error);
  return status == UR_CORRUPT ? UR_OK : status; /* whoever needs that block says which row it is of */
}

static ur_status measure(const ur_read *read, ur_output *outputs, int32_t output_count, ur_error *error) {
  ur_status status = check_outputs(read, outputs, output_count, error);
  if (status == UR_OK && read->layers != NULL) return read->set->layers->reads->measure(read, outputs, output_count, error);
  if (status == UR_OK) status = prefetch(read, outputs, output_count, error);
  if (status == UR_OK) status = ur_prepare_decoders(read->groups, read->opened, outputs, output_count, error);
  for (int32_t i = 0; i < output_count && status == UR_OK; i++)
    status = measure_column(read, &outputs[i], &outputs[i].used, error);
  return status == UR_OK ? ur_check_total(read->groups, read->opened, outputs, output_count, error) : status;
}

ur_status ur_read_measure(const ur_read *read, ur_output *outputs, int32_t output_count, ur_error *error) {
  size_t n = (size_t)read->rows;
  if (read->repeats.first == NULL) return measure(read, outputs, output_count, error);
  for (int32_t i = 0; i < output_count; i++)
    if (outputs[i].offsets != NULL) memset(outputs[i].offsets, 0, (n + 1) * sizeof *outputs[i].offsets); /* exact: they are there */
  ur_status status = measure(read, outputs, output_count, error);
  for (int32_t i = 0; i < output_count && status == UR_OK; i++) {
    if (outputs[i].offsets == NULL) continue;
    status = ur_repeats_spread(&read->repeats, read->rows, outputs[i].offsets, error);
    outputs[i].used = (uint64_t)outputs[i].offsets[read->rows];
  }
  return status;
}

/* UR_TOO_SMALL when an output has less room than it needs. What is left over of fixed width is set to zero, so that nothing
 * is handed out that was not written. */
static ur_status check_room(const ur_read *read, const ur_output *outputs, int32_t count, ur_error *error) {
  for (int32_t i = 0; i < count; i++)
    if (outputs[i].used > outputs[i].capacity)
      return ur_fail(error, UR_TOO_SMALL, "a buffer is too small for %" PRId64 " rows", read->rows);
  for (int32_t i = 0; i < count; i++)
    if (outputs[i].offsets == NULL && outputs[i].used < outputs[i].capacity)
      memset(outputs[i].data + outputs[i].used, 0, outputs[i].capacity - outputs[i].used); /* exact: used < capacity */
  return UR_OK;
}

static ur_status gather_scalars(const ur_read *read, const ur_group *group, const ur_output *outputs, int32_t count,
                                ur_error *error) {
  for (int32_t i = 0; i < count; i++) {
    const ur_column_info *info = &read->columns->info[outputs[i].column];
    ur_status status = UR_OK;
    if (!info->is_blob)
      status = is_variable(info) ? ur_gather_strings(group, &outputs[i], error)
                                 : ur_gather_values(group, &outputs[i], error);
    if (status == UR_OK && outputs[i].valid != NULL) status = ur_gather_valid(group, &outputs[i], error);
    if (status != UR_OK) return status;
  }
  return UR_OK;
}

static bool has_blobs(const ur_read *read, const ur_output *outputs, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    if (read->columns->info[outputs[i].column].is_blob) return true;
  return false;
}

/* Beside blobs, scalars take no time to speak of but that in which the system clears the batch's memory. */
static void share_time(const ur_read *read) {
  if (read->opened == 0 || read->groups[0].timer == NULL) return;
  uint64_t spent = ur_timing_spent(read->timing);
  for (int64_t g = 0; g < read->opened; g++)
    ur_part_timer_share(read->groups[g].timer, spent, (uint64_t)read->groups[g].count, (uint64_t)read->rows);
}

static ur_status gather(const ur_read *read, const ur_output *outputs, int32_t output_count, ur_error *error) {
  if (read->layers != NULL) return read->set->layers->reads->gather(read, outputs, output_count, error);
  ur_status status = UR_OK;
  if (read->direct != NULL) {
    ur_direct_gather(read, outputs, output_count);
    return UR_OK;
  }
  ur_timing_pass(read->timing);
  bool blobs = has_blobs(read, outputs, output_count);
  for (int64_t g = 0; g < read->opened && status == UR_OK; g++) {
    status = gather_scalars(read, &read->groups[g], outputs, output_count, error);
    if (!blobs) ur_part_timer_end(read->groups[g].timer);
  }
  if (blobs) share_time(read);
  if (status == UR_OK && blobs)
    status = ur_gather_cells(read->groups, read->opened, outputs, output_count, error);
  for (int32_t i = 0; i < output_count && status == UR_OK; i++)
    if (outputs[i].boxes != NULL) status = ur_gather_boxes(read->groups, read->opened, &outputs[i], read->rows, error);
  if (status == UR_OK) ur_direct_learn(read, outputs, output_count);
  return status;
}

ur_status ur_read_gather(const ur_read *read, const ur_output *outputs, int32_t output_count, ur_error *error) {
  ur_status status = gather(read, outputs, output_count, error);
  for (int32_t i = 0; i < output_count && status == UR_OK && read->repeats.first != NULL; i++)
    ur_repeats_copy(&read->repeats, read->rows, &outputs[i], read->columns->info[outputs[i].column].fixed_bytes);
  return status;
}

static ur_status read_rows(ur_set *set, const int64_t *rows, int64_t n, ur_output *outputs, int32_t output_count,
                           ur_error *error) {
  ur_read read;
  ur_status status = ur_read_open(&read, set, rows, n, outputs, output_count, NULL, error);
  if (status == UR_OK) status = ur_read_measure(&read, outputs, output_count, error);
  if (status == UR_OK) status = check_room(&read, outputs, output_count, error);
  if (status == UR_OK) status = ur_read_gather(&read, outputs, output_count, error);
  ur_read_close(&read);
  return status;
}

/* The caller's row numbers in memory that no other thread can change between checking and using them: in `near` when they
 * are few. NULL without memory. */
static int64_t *copy_rows(const int64_t *rows, int64_t n, int64_t near[NEAR_ROWS]) {
  near[0] = 0;
  if (n <= 0) return near;
  int64_t *copy = n <= NEAR_ROWS ? near : (uint64_t)n > SIZE_MAX / sizeof *copy ? NULL : malloc((size_t)n * sizeof *copy);
  if (copy != NULL) memcpy(copy, rows, (size_t)n * sizeof *copy);
  return copy;
}

ur_status ur_set_read(ur_set *set, const int64_t *rows, int64_t n, ur_output *outputs, int32_t output_count,
                      ur_error *error) {
  int64_t near[NEAR_ROWS], *copy = copy_rows(rows, n, near);
  if (copy == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRId64 " row numbers", n);
  ur_status status = read_rows(set, copy, n, outputs, output_count, error);
  if (copy != near) free(copy);
  return status;
}

ur_status ur_set_read_row(ur_set *set, int64_t row, ur_output *outputs, int32_t output_count, ur_error *error) {
  return read_rows(set, &row, 1, outputs, output_count, error);
}

/* ---- telling the kernel ----------------------------------------------------------------------------------------- */

/* Asked first: where nothing is to be told, a warm batch costs no system call here. */
static bool wants_advice(ur_part *part) {
  return part->file->ops->advise != NULL && part->blob_columns > 0 && ur_data_file_wants_advice(part->file);
}

/* Brings the blocks of the index that the cells of these rows are found by. */
static void prefetch_cells(ur_part *part, const int64_t *rows, int64_t count) {
  ur_arrivals wanted = {.count = 0};
  ur_output first = {.column = (int32_t)part->blobs[0]};
  ur_status status = ur_index_prefetch(&wanted, part, rows, count, &first, 1, NULL);
  (void)ur_arrivals_finish(&wanted, status, NULL);
}

/* The bytes that reading a row takes, at most `part->blob_columns` spans: its cells, or the unit that they are digested with. */
static int64_t spans_of_row(ur_part *part, uint64_t row, ur_extent *cells, ur_span *spans) {
  bool by_unit = part->source.fetch != NULL && part->data.unit_rows > 0 && part->verify != UR_VERIFY_NEVER;
  ur_extent whole;
  uint64_t unit;
  int64_t used = 0;
  if (ur_locate_cells(part, row, part->blob_columns, cells, &whole, NULL) != UR_OK || whole.bytes == 0) return 0;
  if (by_unit && ur_locate_unit(part, row, 0, &cells[0], &unit, &whole, NULL) != UR_OK) return 0;
  if (by_unit || part->source.fetch == NULL) {
    spans[0] = (ur_span){.offset = whole.offset, .bytes = whole.bytes};
    return 1;
  }
  for (int32_t i = 0; i < part->blob_columns; i++)
    if (cells[i].bytes > 0) spans[used++] = (ur_span){.offset = cells[i].offset, .bytes = cells[i].bytes};
  return used;
}

static void advise_group(ur_part *part, const int64_t *rows, int64_t count) {
  size_t columns = (size_t)part->blob_columns;
  ur_span *spans = calloc((size_t)count, columns * sizeof *spans);
  ur_extent *cells = malloc(columns * sizeof *cells);
  int64_t used = 0;
  if (part->source.fetch != NULL) prefetch_cells(part, rows, count);
  for (int64_t i = 0; i < count && spans != NULL && cells != NULL; i++)
    used += spans_of_row(part, (uint64_t)rows[i], cells, spans + used); /* exact: `columns` of each row at most */
  if (used > 0) part->file->ops->advise(part->file, spans, used);
  free(spans);
  free(cells);
}

static void advise_rows(ur_set *set, const int64_t *rows, int64_t n) {
  ur_plan plan = {0};
  if (ur_plan_rows(set, rows, n, &plan, NULL) == UR_OK) {
    ur_trust looks = ur_trust_in(set, plan.count);
    for (int64_t i = 0; i < plan.count; i++) {
      ur_part *part = NULL;
      const ur_run *run = &plan.runs[i];
      if (plan.count > 1 && i % ANNOUNCED == 0) announce(set, &plan, i);
      if (ur_set_acquire(set, run->part, &part, NULL) != UR_OK) continue;
      if (wants_advice(part) && ur_part_was_unchanged(part, looks.now, looks.trusted, NULL) == UR_OK)
        advise_group(part, plan.rows + run->first, run->count);
      ur_part_release(part);
    }
  }
  ur_plan_free(&plan);
}

void ur_set_advise(ur_set *set, const int64_t *rows, int64_t n) {
  if (n <= 0 || !ur_set_enter(set, NULL)) return;
  for (int32_t i = 0; set->layers != NULL && i < set->layers->count; i++) ur_set_advise(set->layers->sets[i], rows, n);
  int64_t near[NEAR_ROWS], *copy = copy_rows(rows, n, near);
  if (copy != NULL && set->layers == NULL) advise_rows(set, copy, n);
  if (copy != near) free(copy);
  ur_set_leave(set);
}
