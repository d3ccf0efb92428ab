/* part/index.c - a validated view of a mapped index: its columns, its directory, and the checks of its blocks. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "part/chunks.h"
#include "unirecord_internal.h"

static uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

static ur_status bad_section(const ur_section_entry *entry, const char *problem, ur_error *error) {
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, entry->offset, "section %u of column %u %s (width %" PRIu32
                    ", count %" PRIu64 ")", entry->kind, entry->column, problem, entry->width, entry->count);
}

/* Bytes that the column's cell takes in every row at least: a value of fixed width is not compressed beyond a bound. */
static uint64_t least_cell(const ur_column_info *info) {
  if (info->codec == UR_CODEC_PLAIN) return (uint64_t)info->fixed_bytes;
  if (info->codec > UR_CODEC_SHUFFLE_ZSTD || info->fixed_bytes == 0) return 0;
  uint64_t least = (uint64_t)info->fixed_bytes >> UR_MAX_EXPANSION_BITS;
  return least > 0 ? least : 1;
}

/* *row_bytes = what every row takes in the data file at least: its cells of fixed width. */
static ur_status read_columns(ur_part *part, uint64_t *row_bytes, ur_error *error) {
  uint64_t place = 0;
  int32_t blobs = 0;
  for (uint32_t i = 0; i < part->header.columns; i++) {
    ur_column *column = &part->columns[i];
    const uint8_t *entry = part->head + UR_INDEX_HEADER_BYTES + (uint64_t)i * UR_COLUMN_BYTES;
    ur_status status = ur_parse_column(entry, &column->info, error);
    if (status != UR_OK) return status;
    column->blob = -1;
    column->stored_width = ur_stored_width(&column->info);
    column->rank = entry[3];
    column->is_plain = column->info.codec == UR_CODEC_PLAIN && (!column->info.chunked || column->rank < 2);
    if (!column->info.is_blob) continue;
    part->blobs[blobs] = (int32_t)i;
    column->blob = blobs++;
    if (!ur_append_array(&place, least_cell(&column->info), 1, part->data.blob_align, &column->place))
      return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_FILE_HEADER_BYTES, "the bytes of a row exceed 2^64");
  }
  part->blob_columns = blobs;
  *row_bytes = place;
  return UR_OK;
}

/* Rows, groups and units: the numbers that the counts of the sections must equal. */
static ur_status count_units(ur_part *part, uint64_t row_bytes, ur_error *error) {
  uint64_t rows = part->header.rows, k = part->data.unit_rows;
  part->units = 0;
  if (part->blob_columns > 0 && k > 0) part->units = divide_up(rows, k);
  if (part->blob_columns > 0 && k == 0 && !ur_multiply(rows, (uint64_t)part->blob_columns, &part->units))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_ROWS, "%" PRIu64 " rows are not possible", rows);
  uint64_t group_rows = part->data.group_rows, bytes = 0;
  if (group_rows > 0 && divide_up(rows, group_rows) != part->header.groups)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_GROUPS,
                      "%" PRIu64 " rows in groups of %" PRIu64 " are not %" PRIu64 " groups", rows, group_rows,
                      part->header.groups);
  if (!ur_multiply(rows, row_bytes, &bytes) || bytes > part->header.data_bytes)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_ROWS,
                      "%" PRIu64 " rows of %" PRIu64 " bytes do not fit a data file of %" PRIu64 " bytes", rows,
                      row_bytes, part->header.data_bytes);
  return UR_OK;
}

/* Whether base and bits of packed values or codes lead to no number that the type does not have. */
static bool packing_fits(const ur_section_entry *entry, const ur_column_info *info) {
  static const uint8_t digits[] = {0, 1, 7, 8, 15, 16, 31, 32, 63, 64}; /* of bool to uint64, in bits */
  uint64_t most = (UINT64_C(1) << entry->bits) - 1, last = 0;
  if (entry->kind == UR_SECTION_CODES) return entry->extra == 0;
  if (info->type < UR_TYPE_BOOL || info->type > UR_TYPE_UINT64) return false;
  bool is_signed = info->type != UR_TYPE_BOOL && info->type % 2 == 0;
  uint64_t greatest = UINT64_MAX >> (64 - digits[info->type]);
  if (!is_signed) return ur_add(entry->extra, most, &last) && last <= greatest;
  int64_t base = (int64_t)entry->extra, end = 0;
  return base >= -(int64_t)greatest - 1 && !__builtin_add_overflow(base, (int64_t)most, &end) && end <= (int64_t)greatest;
}

/* Whether the width and count of a section fit the part; sections of a column are only asked about real columns. */
static bool section_fits(const ur_part *part, const ur_section_entry *entry, const ur_column *column) {
  uint64_t rows = part->header.rows, width = entry->width, count = entry->count;
  const ur_column_info *info = column == NULL ? NULL : &column->info;
  bool string = info != NULL && info->type == UR_TYPE_STRING;
  bool number = info != NULL && !info->is_blob && !string;
  bool ordered = info != NULL && !info->is_blob && ur_type_is_known(info);
  bool coded = ordered && info->type != UR_TYPE_BOOL; /* may have a dictionary */
  bool global = entry->kind <= UR_SECTION_ROW_STARTS || entry->kind == UR_SECTION_DIGESTS ||
                entry->kind == UR_SECTION_STATISTICS;
  if (global != (column == NULL)) return false;
  if (entry->bits != 0) {
    if (info == NULL || !packing_fits(entry, info)) return false;
  } else if (entry->extra != 0 && entry->kind != UR_SECTION_ZONES && entry->kind != UR_SECTION_ZONE_FLAGS) {
    return false;
  }
  switch (entry->kind) {
    case UR_SECTION_GROUPS: return width == 32 && count == part->header.groups;
    case UR_SECTION_ROW_STARTS:
      return part->blob_columns > 0 && part->data.row_bytes == 0 && width == 8 &&
             count == (part->data.unit_rows > 1 ? part->units : rows);
    case UR_SECTION_LENGTHS:
      return info->is_blob && column->stored_width == 0 && width <= 8 && ur_power_of_two(width) && count == rows;
    case UR_SECTION_DIGESTS: return part->blob_columns > 0 && width == 8 && count == part->units;
    case UR_SECTION_VALUES: return number && width == (uint64_t)info->fixed_bytes && count == rows;
    case UR_SECTION_VALIDITY: return info->nullable && width == 1 && count == divide_up(rows, 8);
    case UR_SECTION_CODES: return coded && (width == 1 || width == 2 || width == 4) && count == rows;
    case UR_SECTION_DICTIONARY_OFFSETS: return string && width == 8 && count >= 1;
    case UR_SECTION_STRING_OFFSETS: return string && width == 8 && count == rows + 1;
    case UR_SECTION_DICTIONARY_ENTRIES:
      return string ? width == 1 : coded && width == (uint64_t)info->fixed_bytes && count >= 1;
    case UR_SECTION_STRING_BYTES: return string && width == 1;
    case UR_SECTION_ZONES: {
      uint64_t value = (uint64_t)info->fixed_bytes;
      if (string) value = part->sections[column->section[UR_SECTION_CODES] - 1].width;
      return ordered && entry->extra > 0 && width == 2 * value && count == divide_up(rows, entry->extra);
    }
    case UR_SECTION_ZONE_FLAGS:
      return ordered && entry->extra > 0 && width == 1 && count == divide_up(rows, entry->extra);
    case UR_SECTION_RAW_LENGTHS:
      return info->codec != UR_CODEC_PLAIN && info->fixed_bytes == 0 && width <= 8 && ur_power_of_two(width) && count == rows;
    case UR_SECTION_CODEC_DICTIONARY:
      return info->codec != UR_CODEC_PLAIN && width == 1 && count > 0 && count <= UR_MAX_DICTIONARY;
    case UR_SECTION_STATISTICS: return width == 1;
    case UR_SECTION_CHUNK_SHAPE:
      return info->chunked && width == 8 && count == (column->rank == 0 ? 1 : 2 * (uint64_t)column->rank);
    case UR_SECTION_CHUNK_STARTS: return info->chunked && info->fixed_bytes == 0 && width == 8 && count == rows;
    case UR_SECTION_CHUNK_ENDS: return info->chunked && info->codec != UR_CODEC_PLAIN && width == 4;
    case UR_SECTION_CHUNK_DIGESTS: return info->chunked && width == 8;
    default: /* other kinds are none of this version */
      return entry->kind == UR_SECTION_ORDER && ordered && width == (rows > UINT64_C(1) << 32 ? 8 : 4) && count == rows;
  }
}

/* Whether what is said of chunks is there, of as many as have digests. */
static bool has_chunks(const ur_part *part, const ur_column *column) {
  const uint32_t *has = column->section;
  bool chunked = column->info.chunked != 0, compressed = chunked && column->info.codec != UR_CODEC_PLAIN;
  uint32_t digests = has[UR_SECTION_CHUNK_DIGESTS], ends = has[UR_SECTION_CHUNK_ENDS];
  return (has[UR_SECTION_CHUNK_SHAPE] != 0) == chunked && (digests != 0) == chunked && (ends != 0) == compressed &&
         (has[UR_SECTION_CHUNK_STARTS] != 0) == (chunked && column->info.fixed_bytes == 0) &&
         (ends == 0 || part->sections[ends - 1].count == part->sections[digests - 1].count);
}

/* Kinds of sections that must and may be there for a column. */
static bool has_all_sections(const ur_part *part, const ur_column *column) {
  const uint32_t *has = column->section;
  const ur_column_info *info = &column->info;
  bool string = info->type == UR_TYPE_STRING;
  if ((has[UR_SECTION_VALIDITY] != 0) != (info->nullable != 0)) return false;
  if (info->is_blob)
    return (has[UR_SECTION_LENGTHS] != 0) == (column->stored_width == 0) &&
           (has[UR_SECTION_RAW_LENGTHS] != 0) == (info->codec != UR_CODEC_PLAIN && info->fixed_bytes == 0) &&
           has_chunks(part, column);
  if (!ur_type_is_known(info)) return has[UR_SECTION_VALUES] != 0;
  bool coded = has[UR_SECTION_CODES] != 0, plain = has[UR_SECTION_STRING_OFFSETS] != 0;
  /* The columns of strings alone have offsets: section_fits() has seen to it. */
  return (coded ? 1 : 0) + (plain ? 1 : 0) + (has[UR_SECTION_VALUES] != 0 ? 1 : 0) == 1 &&
         (coded && string) == (has[UR_SECTION_DICTIONARY_OFFSETS] != 0) &&
         coded == (has[UR_SECTION_DICTIONARY_ENTRIES] != 0) && plain == (has[UR_SECTION_STRING_BYTES] != 0) &&
         (has[UR_SECTION_ZONES] != 0) == !plain && has[UR_SECTION_ZONE_FLAGS] != 0;
}

static ur_status place_section(ur_part *part, uint32_t number, ur_error *error) {
  const ur_section_entry *entry = &part->sections[number];
  ur_column *column = NULL;
  if (entry->kind >= UR_ANCILLARY) {
    uint32_t kind = entry->kind - UR_ANCILLARY; /* exact: it is no less */
    bool known = kind < UR_ANCILLARY_KINDS && entry->column < part->header.columns && entry->width == 8 && entry->bits == 0;
    if (known) part->columns[entry->column].ancillary[kind] = number + 1;
    return UR_OK;
  }
  if (entry->column != UR_NO_COLUMN) {
    if (entry->column >= part->header.columns) return bad_section(entry, "names no column of the schema", error);
    column = &part->columns[entry->column];
    if (entry->kind == UR_SECTION_ZONES && column->info.type == UR_TYPE_STRING &&
        column->section[UR_SECTION_CODES] == 0)
      return bad_section(entry, "has zones without codes", error);
  }
  if (!section_fits(part, entry, column)) return bad_section(entry, "does not fit the schema and the rows", error);
  if (column != NULL) column->section[entry->kind] = number + 1;
  if (entry->kind == UR_SECTION_GROUPS) part->groups_section = number + 1;
  if (entry->kind == UR_SECTION_ROW_STARTS) part->starts_section = number + 1;
  if (entry->kind == UR_SECTION_DIGESTS) part->digests_section = number + 1;
  if (entry->kind == UR_SECTION_STATISTICS) part->statistics_section = number + 1;
  return UR_OK;
}

static ur_status read_directory(ur_part *part, ur_error *error) {
  const uint8_t *directory = part->head + UR_INDEX_HEADER_BYTES + (uint64_t)UR_COLUMN_BYTES * part->header.columns;
  uint64_t end = part->header.header_bytes;
  for (uint32_t i = 0; i < part->header.sections; i++) {
    ur_section_entry *entry = &part->sections[i];
    ur_status status = ur_parse_section(directory + (uint64_t)i * UR_SECTION_BYTES, &part->header, entry, error);
    if (status != UR_OK) return status;
    if (i > 0) {
      const ur_section_entry *before = entry - 1;
      bool sorted = before->kind < entry->kind || (before->kind == entry->kind && before->column < entry->column);
      if (!sorted) return bad_section(entry, "is not in order", error);
    }
    /* That it begins right behind the one before is for verify: for whoever reads, it is enough that none overlap. */
    if (entry->offset < end) return bad_section(entry, "overlaps the one before", error);
    end = entry->offset + entry->bytes; /* exact: ur_parse_section() has checked the end */
    status = place_section(part, i, error);
    if (status != UR_OK) return status;
  }
  bool complete = part->groups_section != 0 && part->statistics_section != 0 && (part->digests_section != 0) == (part->blob_columns > 0) &&
                  (part->starts_section != 0) == (part->blob_columns > 0 && part->data.row_bytes == 0);
  for (uint32_t i = 0; i < part->header.columns; i++) complete = complete && has_all_sections(part, &part->columns[i]);
  if (!complete)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_INDEX_HEADER_BYTES,
                      "a section that the schema needs is missing from the directory");
  return UR_OK;
}

ur_status ur_index_read(ur_part *part, ur_error *error) {
  part->columns = calloc(part->header.columns, sizeof *part->columns);
  part->blobs = calloc(part->header.columns, sizeof *part->blobs);
  part->sections = calloc(part->header.sections + (size_t)1, sizeof *part->sections);
  if (part->columns == NULL || part->blobs == NULL || part->sections == NULL)
    return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRIu32 " columns", part->header.columns);
  uint64_t row_bytes = 0;
  ur_status status = read_columns(part, &row_bytes, error);
  if (status == UR_OK) status = count_units(part, row_bytes, error);
  atomic_init(&part->units_left, part->units);
  if (status == UR_OK) status = read_directory(part, error);
  if (status != UR_OK) {
    if (error != NULL && error->file == UR_FILE_NONE) error->file = UR_FILE_INDEX;
    return status;
  }
  part->shown = part->header.columns;
  part->table = part->head + UR_INDEX_HEADER_BYTES;
  part->block_seed = ur_seed(part->header.id, UR_DOMAIN_INDEX_BLOCK, 0);
  part->unit_seed = ur_seed(part->header.id, UR_DOMAIN_UNIT, 0);
  part->chunk_seed = ur_seed(part->header.id, UR_DOMAIN_CHUNK, 0);
  part->blocks = divide_up(part->header.digests_offset - part->header.header_bytes, UR_BLOCK_BYTES);
  if (part->verify == UR_VERIFY_NEVER && part->source.fetch == NULL) return UR_OK;
  part->blocks_checked = calloc(part->blocks / 64 + 1, sizeof *part->blocks_checked);
  if (part->blocks_checked == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the map of checked blocks");
  return UR_OK;
}

static ur_status lacks_column(int32_t column, ur_error *error) {
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_FILE_HEADER_BYTES,
                    "the part should have a column %" PRId32 " that is no other's place, and has none", column);
}

ur_status ur_part_show(ur_part *part, const int32_t *columns, uint32_t count, ur_error *error) {
  uint32_t stored = part->header.columns;
  for (uint32_t i = 0; i < count; i++) {
    if (columns[i] < 0 || (uint32_t)columns[i] >= stored) return lacks_column(columns[i], error);
    for (uint32_t j = 0; j < i; j++)
      if (columns[j] == columns[i]) return lacks_column(columns[i], error);
  }
  ur_column *all = calloc((size_t)count + stored, sizeof *all);
  part->own_table = malloc((size_t)count * UR_COLUMN_BYTES + 1);
  if (all == NULL || part->own_table == NULL) {
    free(all);
    return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRIu32 " columns", count);
  }
  for (uint32_t i = 0; i < count; i++) {
    memcpy(&all[i], &part->columns[columns[i]], sizeof *all);
    memcpy(part->own_table + (size_t)i * UR_COLUMN_BYTES, part->table + (size_t)columns[i] * UR_COLUMN_BYTES, UR_COLUMN_BYTES);
  }
  memcpy(all + count, part->columns, (size_t)stored * sizeof *all);
  for (int32_t i = 0; i < part->blob_columns; i++) part->blobs[i] += (int32_t)count; /* exact: both at most UR_MAX_COLUMNS */
  free(part->columns);
  part->columns = all;
  part->table = part->own_table;
  part->shown = count;
  return UR_OK;
}

void ur_index_free(ur_part *part) {
  size_t columns = part->own_table == NULL ? part->header.columns : (size_t)part->shown + part->header.columns;
  for (size_t i = 0; part->columns != NULL && i < columns; i++) {
    ur_decoder_release(atomic_load(&part->columns[i].decoder));
    ur_chunks_free(part, &part->columns[i]);
  }
  free(part->own_table);
  free(part->columns);
  free(part->blobs);
  free(part->sections);
  free((void *)part->blocks_checked);
}
