/* part/rows.c - where the cells of a row lie in the data file, and whether the bytes found there are the ones written. */
#include <inttypes.h>

#include "base/check.h"
#include "base/hash.h"
#include "codec/codec.h"
#include "part/part.h"
#include "unirecord_internal.h"

static ur_status outside(const ur_part *part, uint64_t row, uint64_t offset, uint64_t bytes, ur_error *error) {
  ur_status status = ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_NOWHERE,
                                "the row should lie at %" PRIu64 " + %" PRIu64 " bytes, the data file has %" PRIu64,
                                offset, bytes, part->header.data_bytes);
  if (error != NULL) error->row = (int64_t)row;
  return status;
}

ur_status ur_cell_length(ur_part *part, uint64_t row, const ur_column *column, uint64_t *bytes, ur_error *error) {
  if (column->stored_width > 0) {
    *bytes = column->stored_width;
    return UR_OK;
  }
  ur_vector lengths = ur_vector_of(part, column->section[UR_SECTION_LENGTHS]);
  ur_status status = ur_vector_check(part, &lengths, row, error);
  if (status != UR_OK) return status;
  uint64_t length = ur_vector_load(&lengths, row);
  if (part->header.data_bytes < length) return outside(part, row, 0, length, error);
  *bytes = length;
  return UR_OK;
}

ur_status ur_value_length(ur_part *part, uint64_t row, const ur_column *column, uint64_t *bytes, ur_error *error) {
  if (column->info.codec == UR_CODEC_PLAIN || column->info.fixed_bytes > 0) {
    *bytes = (uint64_t)column->info.fixed_bytes;
    return *bytes > 0 ? UR_OK : ur_cell_length(part, row, column, bytes, error);
  }
  uint64_t stored = 0;
  ur_vector lengths = ur_vector_of(part, column->section[UR_SECTION_RAW_LENGTHS]);
  ur_status status = ur_cell_length(part, row, column, &stored, error);
  if (status == UR_OK) status = ur_vector_check(part, &lengths, row, error);
  if (status != UR_OK) return status;
  *bytes = ur_vector_load(&lengths, row);
  if (ur_codec_sizes_fit(stored, *bytes)) return UR_OK;
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_NOWHERE,
                    "a compressed cell of %" PRIu64 " bytes cannot be a value of %" PRIu64 " bytes", stored, *bytes);
}

/* Where the row of a part with rows of fixed width starts. */
static ur_status fixed_start(ur_part *part, uint64_t row, uint64_t *start, ur_error *error) {
  uint64_t group = row / part->data.group_rows;
  ur_vector groups = ur_vector_of(part, part->groups_section);
  ur_status status = ur_vector_check(part, &groups, group, error);
  if (status != UR_OK) return status;
  uint64_t payload = ur_load64(groups.data + group * 32 + 24);
  /* rows x row_bytes <= data_bytes was checked when the part was opened, so this product is exact */
  /* exact: rows x row_bytes <= data_bytes was checked when the part was opened */
  uint64_t inside = (row - group * part->data.group_rows) * part->data.row_bytes;
  if (!ur_add(payload, inside, start) || !ur_inside(*start, part->data.row_bytes, part->header.data_bytes))
    return outside(part, row, payload, part->data.row_bytes, error);
  return UR_OK;
}

static ur_status overlaps(uint64_t row, uint64_t end, uint64_t next, ur_error *error) {
  ur_status status = ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_NOWHERE,
                                "the row ends at %" PRIu64 " of the data file, the one after it starts at %" PRIu64
                                ": they overlap", end, next);
  if (error != NULL) error->row = (int64_t)row;
  return status;
}

/* Start `number` of the section of starts; beyond the last one, the end of the file. */
static ur_status load_start(ur_part *part, const ur_vector *starts, uint64_t number, uint64_t *start, ur_error *error) {
  *start = part->header.data_bytes;
  if (number >= starts->count) return UR_OK;
  ur_status status = ur_vector_check(part, starts, number, error);
  if (status == UR_OK) *start = ur_vector_load(starts, number);
  return status;
}

/* Moves *at, where row `first` starts, to where row `last` does. */
static ur_status skip_rows(ur_part *part, uint64_t first, uint64_t last, uint64_t *at, ur_error *error) {
  uint64_t size = part->header.data_bytes;
  for (uint64_t row = first; row < last; row++) {
    for (int32_t i = 0; i < part->blob_columns; i++) {
      uint64_t bytes = 0;
      ur_status status = ur_cell_length(part, row, &part->columns[part->blobs[i]], &bytes, error);
      if (status != UR_OK) return status;
      if (!ur_align(*at, part->data.blob_align, at) || !ur_inside(*at, bytes, size))
        return outside(part, row, *at, bytes, error);
      *at += bytes; /* exact: inside the file */
    }
    if (!ur_align(*at, part->data.blob_align, at) || size < *at) return outside(part, row, *at, 0, error);
  }
  return UR_OK;
}

/* Where the row of a part with rows of differing size starts, and where the next known start is, which no cell of the row
 * may reach beyond: a start is stored for every row, or for the first of each unit. */
static ur_status variable_start(ur_part *part, uint64_t row, uint64_t *start, uint64_t *next, ur_error *error) {
  ur_vector starts = ur_vector_of(part, part->starts_section);
  uint64_t k = part->data.unit_rows > 1 ? part->data.unit_rows : 1, number = row / k;
  ur_status status = load_start(part, &starts, number, start, error);
  if (status == UR_OK) status = load_start(part, &starts, number + 1, next, error);
  /* exact: number x k is at most row */
  return status == UR_OK && k > 1 ? skip_rows(part, number * k, row, start, error) : status;
}

static ur_status variable_cells(ur_part *part, uint64_t row, int32_t count, ur_extent *cells, ur_extent *whole,
                                ur_error *error) {
  uint64_t start = 0, next = 0;
  ur_status status = variable_start(part, row, &start, &next, error);
  if (status != UR_OK) return status;
  uint64_t size = part->header.data_bytes, at = start;
  int32_t needed = whole != NULL ? part->blob_columns : count;
  for (int32_t i = 0; i < needed; i++) {
    uint64_t bytes = 0;
    status = ur_cell_length(part, row, &part->columns[part->blobs[i]], &bytes, error);
    if (status != UR_OK) return status;
    if (!ur_align(at, part->data.blob_align, &at) || !ur_inside(at, bytes, size))
      return outside(part, row, at, bytes, error);
    if (i < count) cells[i] = (ur_extent){at, bytes};
    at += bytes; /* exact: inside the file */
  }
  if (next < at) return overlaps(row, at, next, error);
  if (whole == NULL) return UR_OK;
  if (!ur_align(at, part->data.blob_align, &at) || size < at) return outside(part, row, start, at - start, error);
  *whole = (ur_extent){start, at - start};
  return UR_OK;
}

ur_status ur_locate_cells(ur_part *part, uint64_t row, int32_t count, ur_extent *cells, ur_extent *whole,
                          ur_error *error) {
  if (part->data.row_bytes == 0) return variable_cells(part, row, count, cells, whole, error);
  uint64_t start = 0;
  ur_status status = fixed_start(part, row, &start, error);
  if (status != UR_OK) return status;
  for (int32_t i = 0; i < count; i++) {
    const ur_column *column = &part->columns[part->blobs[i]];
    /* exact: the cell is inside its row, and the row inside the file */
    cells[i] = (ur_extent){start + column->place, column->stored_width};
  }
  if (whole != NULL) *whole = (ur_extent){start, part->data.row_bytes};
  return UR_OK;
}

ur_status ur_locate_unit(ur_part *part, uint64_t row, int32_t blob, const ur_extent *cell, uint64_t *unit,
                         ur_extent *extent, ur_error *error) {
  uint64_t k = part->data.unit_rows;
  *unit = ur_unit_of(part, row, blob);
  if (k == 0) {
    *extent = *cell;
    return UR_OK;
  }
  ur_status status = ur_locate_cells(part, *unit * k, 0, NULL, extent, error); /* exact: at most row */
  if (status != UR_OK || k == 1) return status;
  uint64_t left = part->header.rows - *unit * k; /* exact: at most row */
  if (part->data.row_bytes == 0) {
    uint64_t end = extent->offset + extent->bytes; /* exact: inside the file */
    status = skip_rows(part, *unit * k + 1, *unit * k + (left < k ? left : k), &end, error); /* exact: at most rows */
    extent->bytes = end - extent->offset;
    return status;
  }
  /* exact: rows x row_bytes <= data_bytes was checked when the part was opened */
  extent->bytes = (left < k ? left : k) * part->data.row_bytes; /* in one group: group_rows is a multiple of k */
  if (!ur_inside(extent->offset, extent->bytes, part->header.data_bytes))
    return outside(part, row, extent->offset, extent->bytes, error);
  return UR_OK;
}

static _Atomic(uint64_t) *checked_units(ur_part *part) {
  _Atomic(uint64_t) *bits = atomic_load_explicit(&part->units_checked, memory_order_acquire);
  if (bits != NULL) return bits;
  uint64_t bytes = (part->units / 64 + 1) * 8;
  _Atomic(uint64_t) *made = ur_pages_new(bytes);
  if (made == NULL) return NULL; /* then every read verifies */
  if (atomic_compare_exchange_strong(&part->units_checked, &bits, made)) return made;
  ur_pages_free((void *)made, bytes);
  return bits;
}

static bool has_bit(const ur_part *part, uint64_t unit) {
  _Atomic(uint64_t) *bits = atomic_load_explicit(&part->units_checked, memory_order_acquire);
  if (bits == NULL) return false;
  return (atomic_load_explicit(&bits[unit / 64], memory_order_relaxed) >> (unit % 64)) & 1;
}

/* Whether what is read next is what was read before: what is fetched may come with a wrong bit the next time. */
static bool stays(const ur_part *part) { return part->source.fetch == NULL; }

bool ur_unit_is_checked(const ur_part *part, uint64_t unit) {
  if (part->verify != UR_VERIFY_FIRST) return part->verify == UR_VERIFY_NEVER;
  return stays(part) && has_bit(part, unit);
}

bool ur_unit_is_settled(const ur_part *part, uint64_t unit) {
  return part->verify == UR_VERIFY_FIRST && has_bit(part, unit);
}

void ur_unit_settle(ur_part *part, uint64_t unit) {
  _Atomic(uint64_t) *bits = part->verify == UR_VERIFY_FIRST ? checked_units(part) : NULL;
  if (bits == NULL) return;
  uint64_t bit = UINT64_C(1) << (unit % 64);
  uint64_t before = atomic_fetch_or_explicit(&bits[unit / 64], bit, memory_order_relaxed);
  if ((before & bit) == 0) atomic_fetch_sub_explicit(&part->units_left, 1, memory_order_relaxed);
}

bool ur_rows_are_checked(const ur_part *part, const int64_t *rows, int64_t n) {
  if (part->verify != UR_VERIFY_FIRST) return part->verify == UR_VERIFY_NEVER;
  _Atomic(uint64_t) *bits = atomic_load_explicit(&part->units_checked, memory_order_acquire);
  if (bits == NULL || !stays(part)) return false;
  if (atomic_load_explicit(&part->units_left, memory_order_relaxed) == 0) return true;
  int shift = __builtin_ctz(part->data.unit_rows); /* a power of two */
  uint64_t all = 1;
  for (int64_t i = 0; i < n; i++) {
    uint64_t unit = (uint64_t)rows[i] >> shift;
    all &= atomic_load_explicit(&bits[unit / 64], memory_order_relaxed) >> (unit % 64);
  }
  return all == 1;
}

ur_status ur_unit_check(ur_part *part, uint64_t unit, const uint8_t *bytes, const ur_extent *extent, uint8_t *to,
                        ur_error *error) {
  ur_vector digests = ur_vector_of(part, part->digests_section);
  ur_status status = ur_vector_check(part, &digests, unit, error);
  if (status != UR_OK) return status;
  uint64_t expected = ur_vector_load(&digests, unit);
  uint64_t seed = part->unit_seed + unit * UR_PHI;
  uint64_t found = to == NULL ? ur_xxh3_64(bytes, extent->bytes, seed)
                              : ur_xxh3_64_copying(to, bytes, extent->bytes, seed);
  if (expected != found)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, extent->offset,
                      "the digest of these %" PRIu64 " bytes (unit %" PRIu64 ") should be %016" PRIx64
                      ", they give %016" PRIx64, extent->bytes, unit, expected, found);
  if (stays(part)) ur_unit_settle(part, unit);
  return UR_OK;
}

/* Whether units [first, last) lie close together in the file, and are all in memory. */
static bool are_resident(ur_part *part, uint64_t first, uint64_t last) {
  uint64_t unit = 0, k = part->data.unit_rows;
  ur_extent from, to;
  if (ur_locate_unit(part, first * k, 0, NULL, &unit, &from, NULL) != UR_OK) return false;
  if (ur_locate_unit(part, (last - 1) * k, 0, NULL, &unit, &to, NULL) != UR_OK) return false;
  uint64_t end = to.offset + to.bytes; /* exact: units are inside the file */
  if (to.offset < from.offset || end - from.offset > UR_RESIDENT_MOST) return false;
  return part->file->ops->resident == NULL || part->file->ops->resident(part->file, from.offset, end - from.offset);
}

static void check_resident(ur_part *part, uint64_t first, uint64_t last) {
  if (!are_resident(part, first, last)) return;
  for (uint64_t u = first; u < last; u++) {
    uint64_t unit = 0;
    ur_extent extent;
    if (ur_unit_is_checked(part, u)) continue;
    if (ur_locate_unit(part, u * part->data.unit_rows, 0, NULL, &unit, &extent, NULL) == UR_OK)
      /* exact: units are inside the file */
      (void)ur_unit_check(part, u, part->file->view + extent.offset, &extent, NULL, NULL);
  }
}

void ur_units_check_ahead(ur_part *part, uint64_t count) {
  if (part->verify != UR_VERIFY_FIRST || part->file->view == NULL || part->data.row_bytes > UR_RESIDENT_MOST) return;
  uint64_t unit_bytes = part->data.unit_rows * part->data.row_bytes; /* exact: 2^32 times 2 MiB at most */
  if (unit_bytes == 0) return;
  uint64_t piece = UR_RESIDENT_MOST / 2 / unit_bytes; /* the other half for what lies between row groups */
  if (piece == 0 || atomic_load_explicit(&part->units_ahead, memory_order_relaxed) >= part->units) return;
  uint64_t first = atomic_fetch_add_explicit(&part->units_ahead, count, memory_order_relaxed);
  uint64_t end = first + count < part->units ? first + count : part->units;
  for (; first < end; first += piece) check_resident(part, first, end - first < piece ? end : first + piece);
}

/* ---- what decompresses the cells of a compressed column: made on first use, with the column's dictionary ------- */

/* The width of an element in the column table: type codes 1 to 15. */
uint32_t ur_element_bytes(const ur_column_info *info) {
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
  ur_status status = ur_decoder_new(column->info.codec, ur_element_bytes(&column->info), dictionary, bytes, decoder, error);
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
