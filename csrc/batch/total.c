/* batch/total.c - no batch is larger than the files it is read from: cells on top of each other are told by their sum.
 *
 * Every cell of a row stands in the data file once, so the cells of rows that differ cannot be more than it holds. Rows
 * that were asked for several times are counted once, and values of compressed columns as they are stored, which is looked
 * into only when the plain sum is too large. What they become has been measured against what is stored. Strings stand in
 * pages that may be compressed, and so are more than the files by what a frame holds at most; scalars of fixed width lie
 * nowhere but where their row is.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "batch/batch.h"

typedef struct {
  int64_t row, place;
} asked;

static int by_row(const void *left, const void *right) {
  const asked *a = left, *b = right;
  return (a->row > b->row) - (a->row < b->row);
}

/* Bytes in the two files of a part, both read through descriptors that say so. */
static uint64_t held(const ur_part *part) {
  uint64_t bytes;
  return ur_add(part->file->bytes, part->header.index_bytes, &bytes) ? bytes : UINT64_MAX;
}

/* *total += what one row takes in the files in all blob columns, and *texts in those of strings, no column twice; false on
 * overflow. */
static bool add_row(ur_part *part, const asked *at, const ur_output *outputs, int32_t count, uint64_t *total,
                    uint64_t *texts) {
  for (int32_t i = 0; i < count; i++) {
    const ur_output *output = &outputs[i];
    const ur_column *column = &part->columns[output->column];
    uint64_t bytes = (uint64_t)column->info.fixed_bytes;
    if (!column->info.is_blob && output->offsets == NULL) continue;
    if (column->info.codec != UR_CODEC_PLAIN) {
      if (ur_cell_length(part, (uint64_t)at->row, column, &bytes, NULL) != UR_OK) return false;
    } else if (output->offsets != NULL) {
      bytes = (uint64_t)(output->offsets[at->place + 1] - output->offsets[at->place]);
    }
    uint64_t *sum = column->info.is_blob ? total : texts;
    if (!ur_add(*sum, bytes, sum)) return false;
  }
  return true;
}

static ur_status check_group(const ur_group *group, const ur_output *outputs, int32_t count, ur_error *error) {
  uint64_t total = 0, texts = 0, limit = held(group->part);
  asked *rows = calloc((size_t)group->count, sizeof *rows);
  if (rows == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to compare %" PRId64 " rows", group->count);
  for (int64_t i = 0; i < group->count; i++) rows[i] = (asked){group->rows[i], ur_place(group, i)};
  qsort(rows, (size_t)group->count, sizeof *rows, by_row);
  bool good = true;
  for (int64_t i = 0; i < group->count && good; i++)
    if (i == 0 || rows[i].row != rows[i - 1].row)
      good = add_row(group->part, &rows[i], outputs, count, &total, &texts) && total <= limit &&
             texts >> UR_MAX_EXPANSION_BITS <= limit;
  free(rows);
  if (good) return UR_OK;
  ur_status status = ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_NOWHERE,
                                "the values of %" PRId64 " rows should have more bytes than the part's files, %" PRIu64
                                ": the index lets them overlap", group->count, limit);
  return ur_blame(error, status, group, -1, -1);
}

/* The outputs without those that repeat a column; NULL without memory. */
static ur_output *distinct(const ur_part *part, const ur_output *outputs, int32_t count, int32_t *kept) {
  uint8_t *seen = calloc((size_t)part->shown + 1, 1);
  ur_output *once = calloc((size_t)count + 1, sizeof *once);
  *kept = 0;
  for (int32_t i = 0; i < count && seen != NULL && once != NULL; i++)
    if (!seen[outputs[i].column]) {
      seen[outputs[i].column] = 1;
      once[(*kept)++] = outputs[i];
    }
  if (seen == NULL) {
    free(once);
    once = NULL;
  }
  free(seen);
  return once;
}

ur_status ur_check_total(const ur_group *groups, int64_t group_count, const ur_output *outputs, int32_t count,
                         ur_error *error) {
  uint64_t total = 0, limit = 0;
  bool exact = true;
  for (int32_t i = 0; i < count; i++) exact = exact && ur_add(total, outputs[i].used, &total);
  for (int64_t g = 0; g < group_count && (!exact || limit < total); g++)
    if (!ur_add(limit, held(groups[g].part), &limit)) limit = UINT64_MAX;
  if ((exact && total <= limit) || group_count == 0) return UR_OK;
  int32_t kept = 0;
  ur_output *once = distinct(groups->part, outputs, count, &kept);
  if (once == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to compare %" PRId32 " columns", count);
  ur_status status = UR_OK;
  for (int64_t g = 0; g < group_count && status == UR_OK; g++)
    status = check_group(&groups[g], once, kept, error);
  free(once);
  return status;
}
