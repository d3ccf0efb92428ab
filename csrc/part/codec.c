/* part/codec.c - what decompresses the cells of a part's compressed columns: made on first use, with the column's dictionary. */
#include "part/part.h"

/* The width of an element in the column table: type codes 1 to 15. */
static uint32_t element_bytes(const ur_column_info *info) {
  static const uint8_t widths[] = {1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 2, 8, 16};
  return widths[info->dtype];
}

static ur_status make_decoder(ur_part *part, const ur_column *column, ur_decoder **decoder, ur_error *error) {
  const uint8_t *dictionary = NULL;
  uint64_t bytes = 0;
  uint32_t number = column->section[UR_SECTION_CODEC_DICTIONARY];
  if (number != 0) {
    const ur_section_entry *entry = &part->sections[number - 1];
    ur_status status = ur_index_check(part, entry->offset, entry->bytes, error);
    if (status != UR_OK) return status;
    dictionary = part->index + entry->offset; /* exact: ur_parse_section() has checked it */
    bytes = entry->bytes;
  }
  ur_status status = ur_decoder_new(column->info.codec, element_bytes(&column->info), dictionary, bytes, decoder, error);
  if (status == UR_CORRUPT && error != NULL) error->file = UR_FILE_INDEX;
  return status;
}

ur_status ur_column_decoder(ur_part *part, ur_column *column, const ur_decoder **decoder, ur_error *error) {
  ur_decoder *known = atomic_load_explicit(&column->decoder, memory_order_acquire);
  if (known == NULL) {
    ur_decoder *made = NULL;
    ur_status status = make_decoder(part, column, &made, error);
    if (status != UR_OK) return status;
    if (atomic_compare_exchange_strong(&column->decoder, &known, made))
      known = made;
    else
      ur_decoder_release(made); /* another thread was faster */
  }
  *decoder = known;
  return UR_OK;
}
