/* part/parse.h - bytes of file heads and pages -> checked fields. Pure: no I/O, no allocation. Internal. */
#ifndef UR_PARSE_H
#define UR_PARSE_H

#include <stdbool.h>

#include "base/layout.h"
#include "unirecord.h"

typedef struct {
  uint16_t writer_version;
  uint32_t optional_features;
  uint32_t header_bytes;
  uint8_t id[16];
  uint32_t columns;
  uint32_t metadata_bytes;
  uint32_t blob_align;
  uint32_t unit_rows;
  uint64_t group_rows;
  uint64_t row_bytes;
  uint64_t head_digest;
  uint64_t header_digest;
} ur_data_header;

typedef struct {
  uint16_t writer_version;
  uint32_t optional_features;
  uint32_t header_bytes;
  uint8_t id[16];
  uint64_t data_bytes;
  uint64_t rows;
  uint64_t groups;
  uint32_t columns;
  uint32_t sections;
  uint32_t metadata_bytes;
  uint64_t index_bytes;
  uint64_t digests_offset;
  uint64_t data_header_digest;
  uint8_t content_digest[16];
  uint32_t blob_align; /* these four as in the data file */
  uint32_t unit_rows;
  uint64_t group_rows;
  uint64_t row_bytes;
  uint64_t head_digest;
} ur_index_header;

typedef struct {
  uint16_t kind;
  uint16_t codec;          /* of a scalar page, else 0 */
  uint64_t group;
  uint64_t first_row;
  uint64_t rows;
  uint64_t payload_bytes;
  uint64_t gap;
  uint64_t raw_bytes;      /* of a scalar page with a codec: bytes of what its frame holds, else 0 */
  uint64_t payload_digest; /* of an end page this, first_row and gap are 0: other fields stand in their places */
} ur_page_header;

/* What the last page of a data file says of all of them. */
typedef struct {
  uint64_t groups;
  uint64_t rows;
  uint8_t content_digest[16];
} ur_end_page;

typedef struct {
  uint16_t kind;
  uint16_t column;
  uint32_t width;
  uint64_t offset;
  uint64_t bytes;
  uint64_t count;
  uint64_t extra;
  uint16_t bits; /* of a packed section, else 0 */
} ur_section_entry;

/* The seed of a digest (docs/spec/format.md, "Digests"). */
uint64_t ur_seed(const uint8_t id[16], uint64_t domain, uint64_t place);

/* The header of a data file of `file_bytes` bytes; `bytes` is what there is of its first 128. */
ur_status ur_parse_data_header(const uint8_t *header, uint64_t bytes, uint64_t file_bytes, ur_data_header *out,
                               ur_error *error);

/* The whole head of a data file: its digest, the column table (every entry), the zeros at its end, and the rules that tie
 * columns and header together. */
ur_status ur_check_data_head(const uint8_t *head, const ur_data_header *header, ur_error *error);

/* The header of an index file of `file_bytes` bytes. */
ur_status ur_parse_index_header(const uint8_t *header, uint64_t bytes, uint64_t file_bytes, ur_index_header *out,
                                ur_error *error);

/* The whole head of an index: its digest and the zeros at its end. Directory entries are read with ur_parse_section. */
ur_status ur_check_index_head(const uint8_t *head, const ur_index_header *header, ur_error *error);

/* Bytes of a cell as it is stored in every row, or 0 when they differ. */
static inline uint64_t ur_stored_width(const ur_column_info *info) {
  return info->codec == UR_CODEC_PLAIN ? (uint64_t)info->fixed_bytes : 0;
}

/* Whether this version knows what values of the column are. */
static inline bool ur_type_is_known(const ur_column_info *info) { return info->type < UR_TYPE_LATER_SCALARS; }

/* One entry of the column table; a codec or type of a later version is none of its faults. */
ur_status ur_parse_column(const uint8_t *entry, ur_column_info *out, ur_error *error);

/* One directory entry: known kind, width x count = bytes, offset aligned, inside [header_bytes, digests_offset). */
ur_status ur_parse_section(const uint8_t *entry, const ur_index_header *header, ur_section_entry *out, ur_error *error);

/* One page header at file offset `offset`, its digest included. */
ur_status ur_parse_page(const uint8_t *page, uint64_t bytes, const uint8_t id[16], uint64_t offset, ur_page_header *out,
                        ur_error *error);

/* The end page of a data file of `file_bytes` bytes: its last 64. */
ur_status ur_parse_end_page(const uint8_t page[64], const ur_data_header *header, uint64_t file_bytes, ur_end_page *out,
                            ur_error *error);

#endif
