/* set/layers.c - joined sets: several sets with the same rows in the same parts, read as one with columns of each. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "batch/read.h"
#include "unirecord_internal.h"

static ur_status check_rows(const ur_set *first, const ur_set *other, int32_t number, ur_error *error) {
  if (other->layers != NULL) return ur_fail(error, UR_ARGUMENT, "layer %" PRId32 " is a joined set already", number);
  if (other->parts != first->parts)
    return ur_fail(error, UR_ARGUMENT, "layer %" PRId32 " has %" PRId64 " parts; expected %" PRId64, number, other->parts,
                   first->parts);
  for (int64_t i = 0; i < first->parts; i++) {
    if (other->starts[i + 1] == first->starts[i + 1]) continue;
    ur_status status = ur_fail(error, UR_ARGUMENT, "part %" PRId64 " of layer %" PRId32 " has %" PRId64
                               " rows; expected %" PRId64, i, number, other->starts[i + 1] - other->starts[i],
                               first->starts[i + 1] - first->starts[i]);
    if (error != NULL) error->part = i;
    return status;
  }
  return UR_OK;
}

static ur_status fill_columns(ur_set *joined, ur_set_columns *columns, ur_error *error) {
  for (uint32_t i = 0; i < columns->count; i++) {
    const ur_joined_column *from = &joined->layers->columns[i];
    if (from->layer < 0 || from->layer >= joined->layers->count)
      return ur_fail(error, UR_ARGUMENT, "layer %" PRId32 " is not in [0, %" PRId32 ")", from->layer, joined->layers->count);
    ur_status status = ur_set_column(joined->layers->sets[from->layer], from->column, &columns->info[i], error);
    if (status != UR_OK) return status;
  }
  return UR_OK;
}

static ur_status fill(ur_set *joined, ur_set *const *layers, int32_t count, const ur_joined_column *columns,
                      int32_t column_count, ur_error *error) {
  size_t infos = (size_t)column_count * sizeof(ur_column_info), places = (size_t)column_count * sizeof *columns;
  size_t starts = ((size_t)layers[0]->parts + 1) * sizeof *joined->starts;
  ur_set_columns *made = calloc(1, sizeof *made + infos);
  atomic_init(&joined->columns, made);
  joined->starts = malloc(starts);
  joined->layers = calloc(1, sizeof *joined->layers + places);
  if (joined->layers != NULL) joined->layers->sets = calloc((size_t)count, sizeof *joined->layers->sets);
  if (made == NULL || joined->starts == NULL || joined->layers == NULL || joined->layers->sets == NULL)
    return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRId32 " joined columns", column_count);
  joined->layers->reads = &ur_joined;
  for (int32_t i = 0; i < count; i++) {
    ur_status status = check_rows(layers[0], layers[i], i, error);
    if (status != UR_OK) return status;
    joined->layers->sets[joined->layers->count++] = ur_set_retain(layers[i]);
  }
  joined->options = layers[0]->options;
  joined->options.table = joined->options.schema = NULL; /* the layer's own */
  joined->options.layouts = NULL;
  joined->parts = layers[0]->parts;
  memcpy(joined->starts, layers[0]->starts, starts);
  memcpy(joined->layers->columns, columns, places);
  made->count = (uint32_t)column_count;
  return fill_columns(joined, made, error);
}

ur_status ur_set_join(ur_set *const *layers, int32_t count, const ur_joined_column *columns, int32_t column_count,
                      ur_set **joined, ur_error *error) {
  if (count < 1 || column_count < 1)
    return ur_fail(error, UR_ARGUMENT, "%" PRId32 " columns of %" PRId32 " sets are not possible", column_count, count);
  ur_set *set = calloc(1, sizeof *set);
  if (set == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a joined set");
  atomic_init(&set->references, 1);
  ur_status status = fill(set, layers, count, columns, column_count, error);
  if (status == UR_OK)
    *joined = set;
  else
    ur_set_release(set);
  return status;
}
