/* part/parse.c - bytes of file heads, directory entries and page headers -> checked fields. Pure.
 *
 * Every function takes bytes that may be anything. A field is used only after it has been checked, sizes are compared
 * as "left < needed", and every sum and product of sizes goes through base/check.h.
 */
#include "part/parse.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/packed.h"
#include "base/fail.h"
#include "base/layout.h"

static const uint8_t width_of_type[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 2, 8, 16};

uint64_t ur_seed(const uint8_t id[16], uint64_t domain, uint64_t place) {
  uint8_t bytes[24] = {0};
  memcpy(bytes, id, UR_ID_BYTES);
  bytes[16] = (uint8_t)domain;
  return ur_xxh3_64(bytes, sizeof bytes, 0) + place * UR_PHI; /* exact: modulo 2^64 is meant */
}

static bool all_zero(const uint8_t *bytes, uint64_t count) {
  for (uint64_t i = 0; i < count; i++)
    if (bytes[i] != 0) return false;
  return true;
}

/* Magic, versions, features, which digests: what both kinds of file share, and the only fields a newer format must keep. */
static ur_status check_versions(const uint8_t *header, uint64_t bytes, ur_file_kind file, ur_error *error) {
  const char *magic = file == UR_FILE_DATA ? UR_DATA_MAGIC : UR_INDEX_MAGIC;
  uint64_t whole = file == UR_FILE_DATA ? UR_FILE_HEADER_BYTES : UR_INDEX_HEADER_BYTES;
  if (bytes == 0) return ur_fail_at(error, UR_FORMAT, file, 0, "the file is empty (0 bytes)");
  uint64_t seen = bytes < 8 ? bytes : 8;
  if (memcmp(header, magic, seen) != 0)
    return ur_fail_at(error, UR_FORMAT, file, 0, "the file does not start with the magic of a UniRecord %s file",
                      file == UR_FILE_DATA ? "data" : "index");
  ur_status status;
  if (bytes < whole) {
    status = ur_fail_at(error, UR_FORMAT, file, bytes, "the file ends inside its header: it has %" PRIu64
                        " of %" PRIu64 " bytes", bytes, whole);
    return ur_because(error, UR_REASON_UNFINISHED, status);
  }
  unsigned version = ur_load16(header + UR_AT_MIN_VERSION);
  if (version != UR_VERSION) {
    status = ur_fail_at(error, UR_FORMAT, file, UR_AT_MIN_VERSION, "the file needs reader version %u, this is version %u",
                        version, UR_VERSION);
    return ur_because(error, UR_REASON_NEWER, status);
  }
  if (ur_load16(header + UR_AT_WRITER_VERSION) < version)
    return ur_fail_at(error, UR_FORMAT, file, UR_AT_WRITER_VERSION, "writer_version is %u, below min_reader_version",
                      (unsigned)ur_load16(header + UR_AT_WRITER_VERSION));
  uint32_t required = ur_load32(header + UR_AT_REQUIRED);
  uint64_t digests_at = file == UR_FILE_DATA ? UR_AT_DATA_DIGESTS : UR_AT_INDEX_DIGESTS;
  uint32_t digests = ur_load32(header + digests_at);
  if (required == 0 && digests == 0) return UR_OK;
  if (required != 0)
    status = ur_fail_at(error, UR_FORMAT, file, UR_AT_REQUIRED,
                        "the file needs features 0x%08" PRIx32 " that this reader does not have", required);
  else
    status = ur_fail_at(error, UR_FORMAT, file, digests_at,
                        "the file has digests of algorithm %" PRIu32 ", this reader knows 0, XXH3", digests);
  return ur_because(error, UR_REASON_NEWER, status);
}

/* The digest is the last field of the header, over all before it. */
static ur_status check_header_digest(const uint8_t *header, ur_file_kind file, ur_error *error) {
  uint64_t digest_at = file == UR_FILE_DATA ? UR_AT_HEADER_DIGEST : UR_AT_INDEX_HEADER_DIGEST;
  uint64_t domain = file == UR_FILE_DATA ? UR_DOMAIN_DATA_HEADER : UR_DOMAIN_INDEX_HEADER;
  uint64_t expected = ur_load64(header + digest_at);
  uint64_t found = ur_xxh3_64(header, digest_at, ur_seed(header + UR_AT_ID, domain, 0));
  if (expected != found)
    return ur_fail_at(error, UR_CORRUPT, file, digest_at,
                      "the header's digest should be %016" PRIx64 ", its bytes give %016" PRIx64, expected, found);
  return UR_OK;
}

/* The checks that come before a field of either header is read. */
static ur_status check_start(const uint8_t *header, uint64_t bytes, ur_file_kind file, ur_error *error) {
  ur_status status = check_versions(header, bytes, file, error);
  return status == UR_OK ? check_header_digest(header, file, error) : status;
}

/* The parts of the head must add up to header_bytes, and the head must be in the file: nothing is read before that. */
static ur_status check_head_size(uint64_t parts, uint32_t header_bytes, uint64_t file_bytes, ur_file_kind file,
                                 ur_error *error) {
  uint64_t needed = (parts + UR_ALIGN - 1) / UR_ALIGN * UR_ALIGN; /* parts are sums of 32-bit fields */
  if (needed != header_bytes || header_bytes > UR_HEAD_LIMIT)
    return ur_fail_at(error, UR_CORRUPT, file, UR_AT_HEADER_BYTES,
                      "header_bytes is %" PRIu32 ", columns, sections and metadata need %" PRIu64 " (at most 2^24)",
                      header_bytes, needed);
  if (file_bytes < header_bytes)
    return ur_fail_at(error, UR_CORRUPT, file, file_bytes,
                      "the file is cut off inside its head: it has %" PRIu64 " bytes, the head has %" PRIu32,
                      file_bytes, header_bytes);
  return UR_OK;
}

static ur_status check_columns(uint32_t columns, ur_file_kind file, ur_error *error) {
  if (columns == 0 || columns > UR_MAX_COLUMNS)
    return ur_fail_at(error, UR_CORRUPT, file, file == UR_FILE_DATA ? UR_AT_DATA_COLUMNS : UR_AT_INDEX_COLUMNS,
                      "the number of columns is %" PRIu32 ", it must be 1 to 65,534", columns);
  return UR_OK;
}

ur_status ur_parse_data_header(const uint8_t *header, uint64_t bytes, uint64_t file_bytes, ur_data_header *out,
                               ur_error *error) {
  ur_status status = check_start(header, bytes, UR_FILE_DATA, error);
  if (status != UR_OK) return status;
  ur_data_header fields = {
      .writer_version = ur_load16(header + UR_AT_WRITER_VERSION),
      .optional_features = ur_load32(header + UR_AT_OPTIONAL),
      .header_bytes = ur_load32(header + UR_AT_HEADER_BYTES),
      .columns = ur_load32(header + UR_AT_DATA_COLUMNS),
      .metadata_bytes = ur_load32(header + UR_AT_DATA_METADATA),
      .blob_align = ur_load32(header + UR_AT_BLOB_ALIGN),
      .unit_rows = ur_load32(header + UR_AT_UNIT_ROWS),
      .group_rows = ur_load64(header + UR_AT_GROUP_ROWS),
      .row_bytes = ur_load64(header + UR_AT_ROW_BYTES),
      .head_digest = ur_load64(header + UR_AT_HEAD_DIGEST),
      .header_digest = ur_load64(header + UR_AT_HEADER_DIGEST),
  };
  memcpy(fields.id, header + UR_AT_ID, UR_ID_BYTES);
  status = check_columns(fields.columns, UR_FILE_DATA, error);
  if (status != UR_OK) return status;
  /* exact: 32-bit fields */
  uint64_t parts = UR_FILE_HEADER_BYTES + (uint64_t)UR_COLUMN_BYTES * fields.columns + fields.metadata_bytes;
  status = check_head_size(parts, fields.header_bytes, file_bytes, UR_FILE_DATA, error);
  if (status != UR_OK) return status;
  if (!ur_power_of_two(fields.blob_align) || fields.blob_align > UR_ALIGN)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_AT_BLOB_ALIGN,
                      "blob_align is %" PRIu32 ", it must be a power of two up to 64", fields.blob_align);
  if (fields.optional_features == 0 && !all_zero(header + UR_AT_DATA_RESERVED, UR_AT_HEAD_DIGEST - UR_AT_DATA_RESERVED))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_AT_DATA_RESERVED,
                      "reserved bytes of the header are not zero");
  *out = fields;
  return UR_OK;
}

ur_status ur_parse_column(const uint8_t *entry, ur_column_info *out, ur_error *error) {
  unsigned type = entry[0], dtype = entry[1], flags = entry[2], rank = entry[3], stated = entry[UR_AT_COLUMN_CODEC];
  bool chunked = (stated & ~(UR_CODEC_CHUNKED - 1)) == UR_CODEC_CHUNKED; /* what is beyond is a codec of a later version */
  unsigned codec = chunked ? stated - UR_CODEC_CHUNKED : stated;
  uint64_t stored = ur_load64(entry + UR_AT_COLUMN_FIXED), value = ur_load64(entry + UR_AT_COLUMN_VALUE);
  uint64_t fixed = codec == UR_CODEC_PLAIN ? stored : value;
  bool number = type >= UR_TYPE_BOOL && type <= UR_TYPE_FLOAT64;
  bool later = type >= UR_TYPE_LATER_SCALARS && type < UR_TYPE_LATER_BLOBS;
  bool scalar = number || later || type == UR_TYPE_STRING;
  bool array = type == UR_TYPE_ARRAY;
  bool other = type == UR_TYPE_BYTES || type == UR_TYPE_TEXT || type == UR_TYPE_OBJECT ||
               (type >= UR_TYPE_LATER_BLOBS && type < UR_TYPE_LATER_END);
  bool good = (scalar || array || other) && (flags & ~1u) == 0 &&
              all_zero(entry + 5, 3) && all_zero(entry + 24, 8) && fixed <= (uint64_t)INT64_MAX &&
              (codec == UR_CODEC_PLAIN ? value == 0 : stored == 0 && !scalar) &&
              (codec != UR_CODEC_SHUFFLE_ZSTD || array) &&
              (!chunked || array || type == UR_TYPE_BYTES || type == UR_TYPE_TEXT);
  if (array)
    good = good && dtype >= UR_TYPE_BOOL && dtype <= UR_TYPE_COMPLEX128 && rank >= 1 && rank <= UR_MAX_RANK &&
           fixed % width_of_type[dtype] == 0;
  else if (later)
    good = good && dtype == 0 && rank == 0 && fixed <= UR_MAX_LATER_SCALAR && ur_power_of_two(fixed);
  else
    good = good && dtype == 0 && rank == 0 && fixed == (number ? width_of_type[type] : 0);
  if (!good)
    return ur_fail(error, UR_CORRUPT,
                   "the column table entry (type %u, dtype %u, flags %u, rank %u, codec %u, bytes %" PRIu64
                   ") is not legal", type, dtype, flags, rank, stated, fixed);
  *out = (ur_column_info){.type = (int32_t)type,
                          .dtype = (int32_t)dtype,
                          .nullable = (int32_t)flags,
                          .is_blob = !scalar,
                          .fixed_bytes = (int64_t)fixed,
                          .codec = (int32_t)codec,
                          .chunked = chunked};
  return UR_OK;
}

/* Row layout that the columns give: the number of blob columns, and the bytes of a row (0 when they differ). */
static ur_status measure_rows(const uint8_t *table, const ur_data_header *header, uint32_t *blobs, uint64_t *row_bytes,
                              ur_error *error) {
  bool fixed = true;
  uint64_t bytes = 0;
  *blobs = 0;
  for (uint32_t i = 0; i < header->columns; i++) {
    ur_column_info column;
    ur_status status = ur_parse_column(table + (uint64_t)i * UR_COLUMN_BYTES, &column, error);
    if (status != UR_OK) {
      if (error != NULL) {
        error->file = UR_FILE_DATA;
        error->offset = UR_FILE_HEADER_BYTES + (uint64_t)i * UR_COLUMN_BYTES;
      }
      return status;
    }
    if (!column.is_blob) continue;
    *blobs += 1;
    fixed = fixed && ur_stored_width(&column) > 0;
    if (!ur_align(bytes, header->blob_align, &bytes) || !ur_add(bytes, ur_stored_width(&column), &bytes))
      return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_FILE_HEADER_BYTES, "the bytes of a row exceed 2^64");
  }
  if (!ur_align(bytes, header->blob_align, &bytes) || bytes > (uint64_t)INT64_MAX)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_FILE_HEADER_BYTES, "the bytes of a row exceed 2^63");
  *row_bytes = fixed ? bytes : 0;
  return UR_OK;
}

ur_status ur_check_data_head(const uint8_t *head, const ur_data_header *header, ur_error *error) {
  uint64_t found = ur_xxh3_64(head + UR_FILE_HEADER_BYTES, header->header_bytes - UR_FILE_HEADER_BYTES,
                              ur_seed(header->id, UR_DOMAIN_DATA_HEAD, 0));
  if (found != header->head_digest)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_FILE_HEADER_BYTES,
                      "the digest of column table and metadata should be %016" PRIx64 ", their bytes give %016" PRIx64,
                      header->head_digest, found);
  /* exact: check_head_size() has checked it */
  uint64_t end = UR_FILE_HEADER_BYTES + (uint64_t)UR_COLUMN_BYTES * header->columns + header->metadata_bytes;
  if (!all_zero(head + end, header->header_bytes - end))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, end, "the bytes after the metadata are not zero");
  uint32_t blobs = 0;
  uint64_t row_bytes = 0;
  ur_status status = measure_rows(head + UR_FILE_HEADER_BYTES, header, &blobs, &row_bytes, error);
  if (status != UR_OK) return status;
  if (header->row_bytes != row_bytes)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_AT_ROW_BYTES,
                      "row_bytes is %" PRIu64 ", the column table gives %" PRIu64, header->row_bytes, row_bytes);
  uint64_t k = header->unit_rows, group = header->group_rows;
  bool good;
  if (row_bytes > 0)
    good = group > 0 && group <= UR_MAX_ROWS && (k == 0 || (ur_power_of_two(k) && group % k == 0));
  else if (blobs > 0)
    good = group == 0 && (k == 0 || (ur_power_of_two(k) && k <= UR_MAX_VARIABLE_UNIT));
  else
    good = k == 0 && group > 0 && group <= UR_MAX_ROWS;
  if (!good)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_AT_UNIT_ROWS,
                      "unit_rows %" PRIu64 " and group_rows %" PRIu64 " do not fit these columns", k, group);
  return UR_OK;
}

static ur_status check_index_sizes(const ur_index_header *fields, uint64_t file_bytes, ur_error *error) {
  if (fields->index_bytes != file_bytes)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_INDEX_BYTES,
                      "the index file has %" PRIu64 " bytes, its header says %" PRIu64 "%s", file_bytes,
                      fields->index_bytes, file_bytes < fields->index_bytes ? ": it is cut off" : "");
  if (fields->digests_offset < fields->header_bytes || fields->digests_offset % UR_ALIGN != 0)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_DIGESTS,
                      "the block digests cannot start at %" PRIu64 " (head: %" PRIu32 " bytes)", fields->digests_offset,
                      fields->header_bytes);
  uint64_t body = fields->digests_offset - fields->header_bytes;
  uint64_t blocks = body / UR_BLOCK_BYTES + (body % UR_BLOCK_BYTES != 0);
  uint64_t end = 0;
  if (!ur_add(fields->digests_offset, blocks * 8, &end) || end != fields->index_bytes)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_DIGESTS,
                      "%" PRIu64 " block digests at %" PRIu64 " do not end at the end of the file, %" PRIu64, blocks,
                      fields->digests_offset, fields->index_bytes);
  return UR_OK;
}

ur_status ur_parse_index_header(const uint8_t *header, uint64_t bytes, uint64_t file_bytes, ur_index_header *out,
                                ur_error *error) {
  ur_status status = check_start(header, bytes, UR_FILE_INDEX, error);
  if (status != UR_OK) return status;
  ur_index_header fields = {
      .writer_version = ur_load16(header + UR_AT_WRITER_VERSION),
      .optional_features = ur_load32(header + UR_AT_OPTIONAL),
      .header_bytes = ur_load32(header + UR_AT_HEADER_BYTES),
      .data_bytes = ur_load64(header + UR_AT_DATA_BYTES),
      .rows = ur_load64(header + UR_AT_ROWS),
      .groups = ur_load64(header + UR_AT_GROUPS),
      .columns = ur_load32(header + UR_AT_INDEX_COLUMNS),
      .sections = ur_load32(header + UR_AT_SECTIONS),
      .metadata_bytes = ur_load32(header + UR_AT_INDEX_METADATA),
      .index_bytes = ur_load64(header + UR_AT_INDEX_BYTES),
      .digests_offset = ur_load64(header + UR_AT_DIGESTS),
      .data_header_digest = ur_load64(header + UR_AT_DATA_DIGEST),
      .blob_align = ur_load32(header + UR_AT_INDEX_BLOB_ALIGN),
      .unit_rows = ur_load32(header + UR_AT_INDEX_UNIT_ROWS),
      .group_rows = ur_load64(header + UR_AT_INDEX_GROUP_ROWS),
      .row_bytes = ur_load64(header + UR_AT_INDEX_ROW_BYTES),
      .head_digest = ur_load64(header + UR_AT_INDEX_HEAD_DIGEST),
  };
  memcpy(fields.id, header + UR_AT_ID, UR_ID_BYTES);
  memcpy(fields.content_digest, header + UR_AT_CONTENT_DIGEST, UR_WIDE_BYTES);
  status = check_columns(fields.columns, UR_FILE_INDEX, error);
  if (status != UR_OK) return status;
  uint64_t parts = UR_INDEX_HEADER_BYTES + (uint64_t)UR_COLUMN_BYTES * fields.columns +
                   (uint64_t)UR_SECTION_BYTES * fields.sections + fields.metadata_bytes; /* exact: 32-bit fields */
  status = check_head_size(parts, fields.header_bytes, file_bytes, UR_FILE_INDEX, error);
  if (status != UR_OK) return status;
  if (fields.optional_features == 0 &&
      !all_zero(header + UR_AT_INDEX_RESERVED, UR_AT_INDEX_HEAD_DIGEST - UR_AT_INDEX_RESERVED))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_INDEX_RESERVED,
                      "reserved bytes of the header are not zero");
  if (ur_load32(header + UR_AT_BLOCK_BYTES) != UR_BLOCK_BYTES)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_BLOCK_BYTES,
                      "block_bytes is %" PRIu32 " and must be 65,536", ur_load32(header + UR_AT_BLOCK_BYTES));
  if (fields.rows > UR_MAX_ROWS || fields.groups > fields.rows || (fields.rows > 0 && fields.groups == 0))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_AT_ROWS,
                      "%" PRIu64 " rows in %" PRIu64 " row groups are not possible", fields.rows, fields.groups);
  status = check_index_sizes(&fields, file_bytes, error);
  if (status != UR_OK) return status;
  *out = fields;
  return UR_OK;
}

ur_status ur_check_index_head(const uint8_t *head, const ur_index_header *header, ur_error *error) {
  uint64_t found = ur_xxh3_64(head + UR_INDEX_HEADER_BYTES, header->header_bytes - UR_INDEX_HEADER_BYTES,
                              ur_seed(header->id, UR_DOMAIN_INDEX_HEAD, 0));
  if (found != header->head_digest)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_INDEX_HEADER_BYTES,
                      "the digest of the index's head should be %016" PRIx64 ", its bytes give %016" PRIx64,
                      header->head_digest, found);
  uint64_t end = UR_INDEX_HEADER_BYTES + (uint64_t)UR_COLUMN_BYTES * header->columns +
                 /* exact: check_head_size() has checked it */
                 (uint64_t)UR_SECTION_BYTES * header->sections + header->metadata_bytes;
  if (!all_zero(head + end, header->header_bytes - end))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, end, "the bytes after the metadata are not zero");
  return UR_OK;
}

ur_status ur_parse_section(const uint8_t *entry, const ur_index_header *header, ur_section_entry *out,
                           ur_error *error) {
  ur_section_entry fields = {
      .kind = ur_load16(entry),
      .column = ur_load16(entry + 2),
      .width = ur_load32(entry + 4),
      .offset = ur_load64(entry + 8),
      .bytes = ur_load64(entry + 16),
      .count = ur_load64(entry + 24),
      .extra = ur_load64(entry + 32),
      .bits = ur_load16(entry + UR_AT_SECTION_BITS),
  };
  uint64_t bytes = 0;
  bool known = fields.kind != 0 && fields.kind < UR_SECTION_KINDS;
  bool reserved = header->optional_features == 0 && !all_zero(entry + UR_AT_SECTION_BITS + 2, 6);
  if ((!known && fields.kind < UR_ANCILLARY) || reserved)
    return ur_fail(error, UR_CORRUPT, "section %u of column %u is of no known kind, or its reserved bytes are not zero",
                   fields.kind, fields.column);
  bool packs = fields.kind == UR_SECTION_VALUES || fields.kind == UR_SECTION_CODES;
  /* exact: 8 times 32 bits */
  if (fields.bits != 0 && (!packs || fields.bits > UR_MAX_PACKED_BITS || fields.bits >= 8 * (uint64_t)fields.width))
    return ur_fail(error, UR_CORRUPT, "section %u of column %u cannot have elements of %u bits", fields.kind, fields.column,
                   fields.bits);
  bool sized = fields.bits == 0 ? ur_multiply(fields.width, fields.count, &bytes)
                                : ur_packed_bytes(fields.count, fields.bits, &bytes);
  if (fields.width == 0 || !sized || bytes != fields.bytes)
    return ur_fail(error, UR_CORRUPT,
                   "section %u of column %u: %" PRIu64 " elements of %" PRIu32 " bytes (or %u bits) are not %" PRIu64
                   " bytes", fields.kind, fields.column, fields.count, fields.width, fields.bits, fields.bytes);
  if (fields.offset % UR_ALIGN != 0 || fields.offset < header->header_bytes ||
      !ur_inside(fields.offset, fields.bytes, header->digests_offset))
    return ur_fail(error, UR_CORRUPT,
                   "section %u of column %u: [%" PRIu64 ", +%" PRIu64 ") is not in the body [%" PRIu32 ", %" PRIu64 ")",
                   fields.kind, fields.column, fields.offset, fields.bytes, header->header_bytes,
                   header->digests_offset);
  *out = fields;
  return UR_OK;
}

ur_status ur_parse_page(const uint8_t *page, uint64_t bytes, const uint8_t id[16], uint64_t offset, ur_page_header *out,
                        ur_error *error) {
  if (bytes < UR_PAGE_HEADER_BYTES || memcmp(page, UR_PAGE_MAGIC, 4) != 0)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, offset, "there should be a page header here, there is none");
  uint64_t expected = ur_load64(page + UR_AT_PAGE_HEADER_DIGEST);
  uint64_t found = ur_xxh3_64(page, UR_AT_PAGE_HEADER_DIGEST, ur_seed(id, UR_DOMAIN_PAGE_HEADER, offset));
  if (expected != found)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, offset,
                      "the page header's digest should be %016" PRIx64 ", its bytes give %016" PRIx64, expected, found);
  ur_page_header fields = {
      .kind = ur_load16(page + UR_AT_PAGE_KIND),
      .codec = ur_load16(page + UR_AT_PAGE_CODEC),
      .group = ur_load64(page + UR_AT_PAGE_GROUP),
      .first_row = ur_load64(page + UR_AT_PAGE_FIRST_ROW),
      .rows = ur_load64(page + UR_AT_PAGE_ROWS),
      .payload_bytes = ur_load64(page + UR_AT_PAGE_PAYLOAD),
      .payload_digest = ur_load64(page + UR_AT_PAGE_DIGEST),
  };
  bool is_end = fields.kind == UR_PAGE_END; /* which has other things where the others have digest and gap */
  if (is_end) fields.first_row = fields.payload_digest = 0;
  *(fields.codec == UR_CODEC_PLAIN ? &fields.gap : &fields.raw_bytes) = is_end ? 0 : ur_load64(page + UR_AT_PAGE_GAP);
  bool known = fields.kind >= UR_PAGE_SCALAR && fields.kind <= UR_PAGE_DICTIONARY;
  bool compressed = fields.kind == UR_PAGE_SCALAR && fields.raw_bytes > 0 && fields.raw_bytes < UR_MAX_RAW;
  bool big = fields.kind == UR_PAGE_BLOB && fields.payload_bytes >= UR_BIG_PAYLOAD;
  uint64_t gap = big ? (0 - offset - UR_PAGE_HEADER_BYTES) % UR_MEMORY_PAGE : 0;
  if ((!known && fields.kind < UR_ANCILLARY) || (fields.codec != UR_CODEC_PLAIN && !compressed) || fields.gap != gap)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, offset,
                      "the page header (kind %u, codec %u, gap %" PRIu64 ", raw bytes %" PRIu64 ") is not legal",
                      fields.kind, fields.codec, fields.gap, fields.raw_bytes);
  *out = fields;
  return UR_OK;
}

ur_status ur_parse_end_page(const uint8_t page[64], const ur_data_header *header, uint64_t file_bytes,
                            ur_end_page *out, ur_error *error) {
  uint64_t at = file_bytes - UR_PAGE_HEADER_BYTES; /* the file holds at least its head of 192 bytes */
  ur_page_header fields = {0};
  ur_status status = ur_parse_page(page, UR_PAGE_HEADER_BYTES, header->id, at, &fields, error);
  if (status != UR_OK) return status;
  if (fields.kind != UR_PAGE_END || fields.payload_bytes != 0 || file_bytes - header->header_bytes < UR_PAGE_HEADER_BYTES)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, at, "the data file does not end with an end page");
  *out = (ur_end_page){.groups = fields.group, .rows = fields.rows};
  memcpy(out->content_digest, page + UR_AT_END_CONTENT_DIGEST, UR_WIDE_BYTES);
  return UR_OK;
}
