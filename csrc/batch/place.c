/* batch/place.c - where in a batch a value goes, made of its cell on the way; which row and column an error is blamed on. */
#include "batch/cells.h"
#include "part/chunks.h"
#include "unirecord_internal.h"

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

/* ---- cells that are not their values: decompressed, or put together, straight into a batch ---------------------- */

ur_status ur_prepare_decoders(const ur_group *groups, int64_t group_count, const ur_output *outputs, int32_t count,
                              ur_error *error) {
  for (int64_t g = 0; g < group_count; g++) {
    ur_part *part = groups[g].part;
    for (int32_t i = 0; i < count; i++) {
      ur_column *column = &part->columns[outputs[i].column];
      if (column->info.codec == UR_CODEC_PLAIN) continue;
      const ur_decoder *decoder = NULL;
      ur_status status = ur_column_decoder(part, column, &decoder, error);
      if (status != UR_OK) return ur_blame(error, status, &groups[g], -1, outputs[i].column);
    }
  }
  return UR_OK;
}

ur_status ur_column_decoding(ur_part *part, ur_column *column, const ur_decoder **decoder, ur_codec_context **context,
                             ur_error *error) {
  *decoder = NULL;
  if (column->info.codec == UR_CODEC_PLAIN) return UR_OK;
  ur_status status = ur_column_decoder(part, column, decoder, error);
  if (status == UR_OK && *context == NULL) *context = ur_codec_context_take();
  return status != UR_OK || *context != NULL ? status : ur_fail(error, UR_NO_MEMORY, "no memory to decompress");
}

/* A cell of one frame, or of chunks. */
static ur_status make_value(ur_part *part, uint64_t row, ur_column *column, ur_codec_context **context, bool streams,
                            const uint8_t *stored, uint64_t bytes, uint8_t *to, uint64_t raw, ur_error *error) {
  const ur_decoder *decoder = NULL;
  bool table = false;
  ur_chunked cell;
  ur_status status = ur_column_decoding(part, column, &decoder, context, error);
  if (status == UR_OK && column->info.chunked)
    status = ur_chunked_open(part, row, column, bytes, raw, &table, &cell, error);
  if (status != UR_OK) return status;
  if (table) return ur_chunks_join(&cell, decoder, *context, streams, stored, to, error);
  if (decoder != NULL) return ur_decode(decoder, *context, stored, bytes, to, raw, error);
  memcpy(to, stored, raw); /* exact: of one chunk, and so what is stored */
  return UR_OK;
}

ur_status ur_decode_cell(const ur_group *group, int64_t i, const ur_output *output, ur_codec_context **context,
                         const uint8_t *stored, const ur_extent *cell, ur_error *error) {
  ur_column *column = &group->part->columns[output->column];
  int64_t place = ur_place(group, i);
  uint64_t raw = (uint64_t)column->info.fixed_bytes;
  uint8_t *to = NULL;
  if (output->offsets == NULL) {
    to = output->data + (uint64_t)place * raw; /* exact: all n of them are in the output, which was measured */
  } else {
    raw = (uint64_t)(output->offsets[place + 1] - output->offsets[place]);
    to = output->data + output->offsets[place]; /* exact: offsets that were measured */
  }
  ur_status status = make_value(group->part, (uint64_t)group->rows[i], column, context, ur_cell_streams(output, raw), stored,
                                cell->bytes, to, raw, error);
  if (status == UR_OK) return UR_OK;
  if (status == UR_CORRUPT && error != NULL && error->file == UR_FILE_NONE) {
    error->file = UR_FILE_DATA;
    error->offset = cell->offset;
  }
  return ur_blame(error, status, group, i, output->column);
}
