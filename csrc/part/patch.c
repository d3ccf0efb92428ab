/* part/patch.c - values of a part that were corrected: put into its index as this process has it. docs/spec/format.md, "Patches". */
#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "part/part.h"

enum { TABLE_HEAD = 16, AT_COLUMN = 4, AT_ROWS = 8, AT_WIDTH = 12 };

/* The values that rows of one column get. */
typedef struct {
  uint32_t file, column, count, width; /* width: bytes of a value, 0 of strings */
  const uint8_t *rows, *valid;         /* u64 each; 1, or 0 where the value is null */
  const uint8_t *lengths, *values;     /* lengths: u32 each, of strings alone */
} patch_table;

/* What a table is written over: the column's sections. */
typedef struct {
  ur_part *part;
  const ur_column *column;
  ur_vector values, codes, entries, offsets, validity, zones, flags;
  uint64_t zone_rows;
} patched_column;

static ur_status wrong(const char *what, ur_error *error) {
  return ur_because(error, UR_REASON_PATCH, ur_fail(error, UR_CORRUPT, "the patch that the manifest has of this part %s", what));
}

static const uint8_t *take(const uint8_t **at, uint64_t *left, uint64_t bytes) {
  const uint8_t *found = *at;
  if (bytes > *left) return NULL;
  *at += bytes; /* exact: there are as many */
  *left -= bytes;
  return found;
}

/* The next table, whose bytes are all there. */
static bool take_table(const uint8_t **at, uint64_t *left, patch_table *table) {
  const uint8_t *head = take(at, left, TABLE_HEAD);
  uint64_t bytes = 0;
  if (head == NULL) return false;
  *table = (patch_table){.file = ur_load32(head), .column = ur_load32(head + AT_COLUMN), .count = ur_load32(head + AT_ROWS),
                         .width = ur_load32(head + AT_WIDTH)};
  table->rows = take(at, left, UINT64_C(8) * table->count); /* exact: 32 bits */
  table->valid = take(at, left, table->count);
  if (table->width == 0) {
    table->lengths = take(at, left, UINT64_C(4) * table->count); /* exact: likewise */
    for (uint32_t i = 0; table->lengths != NULL && i < table->count; i++) bytes += ur_load32(table->lengths + UINT64_C(4) * i); /* exact: 2^32 of 32 bits */
  } else {
    bytes = (uint64_t)table->count * table->width; /* exact: 32 bits each */
  }
  table->values = take(at, left, bytes);
  return table->count > 0 && table->rows != NULL && table->valid != NULL && table->values != NULL &&
         (table->width != 0 || table->lengths != NULL);
}

static uint64_t row_of(const patch_table *table, uint32_t i) { return ur_load64(table->rows + UINT64_C(8) * i); } /* exact: inside the patch */

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

static bool is_signed(int32_t type) {
  return type == UR_TYPE_INT8 || type == UR_TYPE_INT16 || type == UR_TYPE_INT32 || type == UR_TYPE_INT64;
}

static bool is_float(int32_t type) { return type >= UR_TYPE_FLOAT16 && type <= UR_TYPE_BFLOAT16; }

static uint64_t load(const uint8_t *from, uint32_t width) {
  uint64_t value = 0;
  memcpy(&value, from, width);
  return value;
}

/* A number of `width` bytes with its sign in all bits above. */
static uint64_t widened(uint64_t value, int32_t type, uint32_t width) {
  uint64_t sign = UINT64_C(1) << (8 * width - 1); /* exact: 1, 2, 4 or 8 bytes */
  return is_signed(type) && (value & sign) != 0 ? value | ~(sign | (sign - 1)) : value;
}

/* What orders numbers as their entries in a dictionary are. */
static uint64_t key_of(uint64_t value, int32_t type, uint32_t width) {
  uint64_t sign = UINT64_C(1) << (8 * width - 1); /* exact: likewise */
  if (is_float(type)) return (value & sign) != 0 ? ~value & (sign | (sign - 1)) : value | sign;
  return is_signed(type) ? widened(value, type, width) ^ UINT64_C(1) << 63 : value;
}

static bool is_nan(uint64_t value, int32_t type) {
  if (!is_float(type)) return false;
  uint64_t infinite = type == UR_TYPE_FLOAT16 ? 0x7C00 : type == UR_TYPE_BFLOAT16 ? 0x7F80 : type == UR_TYPE_FLOAT32 ? 0x7F800000
                                                                                              : UINT64_C(0x7FF0000000000000);
  uint64_t sign = type == UR_TYPE_FLOAT32 ? UINT64_C(1) << 31 : type == UR_TYPE_FLOAT64 ? UINT64_C(1) << 63 : UINT64_C(1) << 15;
  return (value & ~sign) > infinite;
}

/* ---- elements ------------------------------------------------------------------------------------------------------ */

/* Where an element lies that may be written: memory of this process's own. */
static uint8_t *place_of(const ur_vector *vector, uint64_t byte) { return (uint8_t *)(uintptr_t)(vector->data + byte); } /* exact: inside the section */

/* Puts a number where element i lies, whose block has been checked; false where its bits have no room for it. */
static bool put(const ur_vector *vector, uint64_t i, uint64_t value) {
  if (vector->bits == 0) {
    ur_store_low(place_of(vector, i * vector->width), vector->width, value); /* exact: an element of the section */
    return true;
  }
  uint64_t mask = (UINT64_C(1) << vector->bits) - 1, shift = i * vector->bits % 8; /* exact: likewise */
  uint8_t *at = place_of(vector, ur_packed_place(vector->bits, i));
  value -= vector->base;
  if (value > mask) return false;
  uint64_t word = (ur_load64(at) & ~(mask << shift)) | value << shift;
  memcpy(at, &word, sizeof word);
  return true;
}

static ur_status no_room(uint64_t row, ur_error *error) {
  ur_status status = wrong("has a value for which its index has no room: it was made for another one", error);
  if (error != NULL) error->row = (int64_t)row;
  return status;
}

/* How the entry stands to the value: < 0, 0 or > 0. */
static ur_status compare_entry(const patched_column *to, uint64_t entry, const uint8_t *value, uint64_t bytes, int *order,
                               ur_error *error) {
  int32_t type = to->column->info.type;
  if (type != UR_TYPE_STRING) {
    uint32_t width = to->entries.width;
    ur_status status = ur_vector_check(to->part, &to->entries, entry, error);
    if (status != UR_OK) return status;
    uint64_t mine = key_of(ur_vector_load(&to->entries, entry), type, width), wanted = key_of(load(value, width), type, width);
    *order = (mine > wanted) - (mine < wanted);
    return UR_OK;
  }
  ur_status status = ur_vector_check(to->part, &to->offsets, entry, error);
  if (status == UR_OK) status = ur_vector_check(to->part, &to->offsets, entry + 1, error);
  if (status != UR_OK) return status;
  uint64_t start = ur_vector_load(&to->offsets, entry), end = ur_vector_load(&to->offsets, entry + 1);
  if (end < start || end > to->entries.count) return wrong("cannot be used: the dictionary of a column is damaged", error);
  status = ur_index_check(to->part, to->entries.offset + start, end - start, error); /* exact: inside the section */
  if (status != UR_OK) return status;
  uint64_t least = end - start < bytes ? end - start : bytes;
  *order = least == 0 ? 0 : memcmp(to->entries.data + start, value, least); /* exact: likewise */
  if (*order == 0) *order = (end - start > bytes) - (end - start < bytes);
  return UR_OK;
}

/* The code of a value; UR_CORRUPT where the dictionary does not have it. */
static ur_status code_of(const patched_column *to, uint64_t row, const uint8_t *value, uint64_t bytes, uint64_t *code, ur_error *error) {
  uint64_t low = 0, high = to->column->info.type == UR_TYPE_STRING ? to->offsets.count - (to->offsets.count > 0) : to->entries.count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2; /* exact: below high */
    int order = 0;
    ur_status status = compare_entry(to, middle, value, bytes, &order, error);
    if (status != UR_OK) return status;
    if (order == 0) {
      *code = middle;
      return UR_OK;
    }
    if (order < 0) low = middle + 1; /* exact: at most high */
    else high = middle;
  }
  return no_room(row, error);
}

/* ---- zones --------------------------------------------------------------------------------------------------------- */

enum { HAS_NULL = 1, HAS_NAN = 2, HAS_BOUNDS = 4 };

/* The row's zone says of its values also what is true of this one; what is not true any more it may still say. */
static ur_status widen_zone(const patched_column *to, uint64_t row, bool valid, uint64_t value, ur_error *error) {
  uint64_t zone = row / to->zone_rows;
  int32_t type = to->column->info.type;
  uint32_t width = to->zones.width / 2;
  ur_status status = ur_vector_check(to->part, &to->flags, zone, error);
  if (status == UR_OK) status = ur_vector_check(to->part, &to->zones, zone, error);
  if (status != UR_OK) return status;
  uint8_t *flags = place_of(&to->flags, zone), *bounds = place_of(&to->zones, zone * to->zones.width); /* exact: a zone of the section */
  if (!valid || is_nan(value, type)) {
    *flags |= valid ? HAS_NAN : HAS_NULL;
    return UR_OK;
  }
  if (is_float(type) && (value & ((UINT64_C(1) << (8 * width - 1)) - 1)) == 0) value = 0; /* -0.0. exact: 2, 4 or 8 bytes */
  uint64_t key = key_of(value, type, width);
  bool any = (*flags & HAS_BOUNDS) != 0;
  if (!any || key < key_of(load(bounds, width), type, width)) ur_store_low(bounds, width, value);
  if (!any || key > key_of(load(bounds + width, width), type, width)) ur_store_low(bounds + width, width, value); /* exact: both bounds */
  *flags |= HAS_BOUNDS;
  return UR_OK;
}

/* ---- tables -------------------------------------------------------------------------------------------------------- */

static ur_status set_value(const patched_column *to, uint64_t row, bool valid, const uint8_t *value, uint64_t bytes, ur_error *error) {
  int32_t type = to->column->info.type;
  const ur_vector *elements = to->codes.data != NULL ? &to->codes : &to->values;
  ur_status status = ur_vector_check(to->part, elements, row, error);
  if (status == UR_OK && to->validity.data != NULL) status = ur_vector_check(to->part, &to->validity, row / 8, error);
  if (status != UR_OK) return status;
  uint64_t number = valid && type != UR_TYPE_STRING ? load(value, (uint32_t)bytes) : 0, element = number;
  if (type == UR_TYPE_BOOL && number > 1) return wrong("has a bool that is neither 0 nor 1", error);
  if (valid && to->codes.data != NULL) status = code_of(to, row, value, bytes, &element, error);
  else if (valid) element = widened(number, type, (uint32_t)bytes);
  else element = elements->base; /* of which the bits are 0 */
  if (status != UR_OK) return status;
  if (!put(elements, row, element)) return no_room(row, error);
  if (to->validity.data != NULL) {
    uint8_t *byte = place_of(&to->validity, row / 8), bit = (uint8_t)(1 << row % 8);
    *byte = (uint8_t)(valid ? *byte | bit : *byte & ~bit);
  }
  return widen_zone(to, row, valid, type == UR_TYPE_STRING ? element : number, error);
}

static ur_vector section_of(const ur_part *part, const ur_column *column, int kind) {
  return column->section[kind] == 0 ? (ur_vector){0} : ur_vector_of(part, column->section[kind]);
}

/* The blocks of an index that is fetched, those of all rows in one call. */
static ur_status prefetch(ur_part *part, const patch_table *table, ur_error *error) {
  if (part->source.fetch == NULL) return UR_OK;
  ur_arrivals wanted = {.count = 0};
  ur_output output = {.column = (int32_t)table->column};
  int64_t *rows = malloc(table->count * sizeof *rows);
  if (rows == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the rows of a patch");
  for (uint32_t i = 0; i < table->count; i++) rows[i] = (int64_t)row_of(table, i);
  ur_status status = ur_arrivals_finish(&wanted, ur_index_prefetch(&wanted, part, rows, table->count, &output, 1, error), error);
  free(rows);
  return status;
}

static ur_status apply_table(ur_part *part, const patch_table *table, ur_error *error) {
  if (table->column >= part->header.columns) return wrong("names a column that its file does not have", error);
  ur_column *column = &part->columns[table->column];
  const ur_column_info *info = &column->info;
  if (info->is_blob || (info->type > UR_TYPE_BFLOAT16 && info->type != UR_TYPE_STRING) || column->section[UR_SECTION_ORDER] != 0 ||
      column->section[UR_SECTION_STRING_OFFSETS] != 0 || table->width != (info->type == UR_TYPE_STRING ? 0 : info->fixed_bytes))
    return wrong("names a column that cannot have one, or values of another width", error);
  for (uint32_t i = 0; i < table->count; i++) {
    uint64_t row = row_of(table, i);
    if (row >= part->header.rows || (i > 0 && row <= row_of(table, i - 1)))
      return wrong("names rows that do not ascend, or are not the part's", error);
    if (table->valid[i] > 1 || (table->valid[i] == 0 && !info->nullable)) return wrong("has a null that cannot be", error);
  }
  patched_column to = {.part = part, .column = column,
                       .values = section_of(part, column, UR_SECTION_VALUES),
                       .codes = section_of(part, column, UR_SECTION_CODES),
                       .entries = section_of(part, column, UR_SECTION_DICTIONARY_ENTRIES),
                       .offsets = section_of(part, column, UR_SECTION_DICTIONARY_OFFSETS),
                       .validity = section_of(part, column, UR_SECTION_VALIDITY),
                       .zones = section_of(part, column, UR_SECTION_ZONES),
                       .flags = section_of(part, column, UR_SECTION_ZONE_FLAGS)};
  to.zone_rows = part->sections[column->section[UR_SECTION_ZONE_FLAGS] - 1].extra;
  if (part->sections[column->section[UR_SECTION_ZONES] - 1].extra != to.zone_rows)
    return wrong("cannot be used: the zones of a column have other rows than their flags", error);
  memset(column->ancillary, 0, sizeof column->ancillary); /* which are of the values that were there */
  ur_status status = prefetch(part, table, error);
  const uint8_t *value = table->values;
  for (uint32_t i = 0; i < table->count && status == UR_OK; i++) {
    uint64_t bytes = table->width != 0 ? table->width : ur_load32(table->lengths + UINT64_C(4) * i); /* exact: inside the patch */
    status = set_value(&to, row_of(table, i), table->valid[i] == 1, value, bytes, error);
    value += bytes; /* exact: likewise */
  }
  return status;
}

ur_status ur_part_patch(ur_part *part, const uint8_t *patch, uint64_t bytes, uint32_t file, ur_error *error) {
  ur_status status = UR_OK;
  uint64_t before = 0;
  bool first = true;
  while (bytes > 0 && status == UR_OK) {
    patch_table table;
    if (!take_table(&patch, &bytes, &table)) return wrong("is cut off, or has a table without rows", error);
    uint64_t place = (uint64_t)table.file << 32 | table.column;
    if (!first && place <= before) return wrong("has tables that are not in order", error);
    first = false;
    before = place;
    if (table.file == file) status = apply_table(part, &table, error);
  }
  return status;
}
