/* batch/place.c - where in a batch a value goes, and which row and column an error is blamed on. */
#include "batch/cells.h"

ur_status ur_blame(ur_error *error, ur_status status, const ur_group *group, int64_t i, int32_t column) {
  if (status == UR_OK || error == NULL) return status;
  error->part = group->number;
  if (i >= 0) error->row = group->rows[i];
  error->column = column;
  return status;
}

bool ur_cell_destination(const ur_output *output, int64_t place, uint64_t bytes, uint8_t **to) {
  if (output->offsets == NULL) {
    *to = output->data + (uint64_t)place * bytes; /* exact: all n of them are in the output, which was measured */
    return true;
  }
  uint64_t room = (uint64_t)(output->offsets[place + 1] - output->offsets[place]);
  *to = bytes == 0 ? NULL : output->data + output->offsets[place];
  return room == bytes;
}

ur_status ur_cells_changed(ur_error *error) {
  return ur_fail_at(error, UR_STALE, UR_FILE_INDEX, UR_NOWHERE, "the lengths of blobs changed while they were read");
}
