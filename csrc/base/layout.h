/* base/layout.h - numbers of docs/spec/format.md (sizes, offsets, codes, limits), explicit little-endian loads, ids as text. */
#ifndef UR_LAYOUT_H
#define UR_LAYOUT_H

#include <stdint.h>
#include <string.h>

#define UR_FILE_HEADER_BYTES 128u
#define UR_INDEX_HEADER_BYTES 192u
#define UR_PAGE_HEADER_BYTES 64u
#define UR_COLUMN_BYTES 32u
#define UR_SECTION_BYTES 48u
#define UR_ID_BYTES 16u
#define UR_WIDE_BYTES 16u /* of a digest that stands for what it is of: XXH3-128 */
#define UR_ALIGN 64u
#define UR_BLOCK_BYTES 65536u
#define UR_HEAD_LIMIT (1u << 24)
#define UR_MAX_COLUMNS 65534u
#define UR_NO_COLUMN 65535u
#define UR_MAX_RAW (UINT64_C(1) << 32) /* what a compressed scalar page holds is less */
#define UR_MEMORY_PAGE 4096u
#define UR_BIG_PAYLOAD 65536u /* payloads of blob pages from here on start at multiples of UR_MEMORY_PAGE */
#define UR_MAX_PACKED_BITS 56u /* eight bytes hold an element wherever in the first of them it begins */
#define UR_MAX_RANK 32u
#define UR_MAX_LATER_SCALAR 64u /* bytes of a scalar of a later version */
/* Rows of differing size that share a digest and a start. */
#define UR_MAX_VARIABLE_UNIT 64u
#define UR_VERSION 1u
#define UR_MAX_DICTIONARY (UINT64_C(1) << 20)
/* No frame of zstd becomes more than 2^15 times as large: a block of at most 2^17 bytes takes at least 4. */
#define UR_MAX_EXPANSION_BITS 15
#define UR_ZONE_ROWS 8192u
#define UR_MAX_ROWS (UINT64_C(1) << 62)

#define UR_DATA_MAGIC "\x89UREC\r\n\x1a"
#define UR_INDEX_MAGIC "\x89URIX\r\n\x1a"
#define UR_PAGE_MAGIC "URPG"

/* File header. */
#define UR_AT_MIN_VERSION 8
#define UR_AT_WRITER_VERSION 10
#define UR_AT_REQUIRED 12
#define UR_AT_OPTIONAL 16
#define UR_AT_HEADER_BYTES 20
#define UR_AT_ID 24
#define UR_AT_DATA_COLUMNS 40
#define UR_AT_DATA_METADATA 44
#define UR_AT_BLOB_ALIGN 48
#define UR_AT_UNIT_ROWS 52
#define UR_AT_GROUP_ROWS 56
#define UR_AT_ROW_BYTES 64
#define UR_AT_DATA_DIGESTS 72
#define UR_AT_DATA_RESERVED 76
#define UR_AT_HEAD_DIGEST 112
#define UR_AT_HEADER_DIGEST 120

/* Index header, where it differs. */
#define UR_AT_DATA_BYTES 40
#define UR_AT_ROWS 48
#define UR_AT_GROUPS 56
#define UR_AT_INDEX_COLUMNS 64
#define UR_AT_SECTIONS 68
#define UR_AT_INDEX_METADATA 72
#define UR_AT_BLOCK_BYTES 76
#define UR_AT_INDEX_BYTES 80
#define UR_AT_DIGESTS 88
#define UR_AT_DATA_DIGEST 96
#define UR_AT_CONTENT_DIGEST 104
#define UR_AT_INDEX_BLOB_ALIGN 120
#define UR_AT_INDEX_UNIT_ROWS 124
#define UR_AT_INDEX_GROUP_ROWS 128
#define UR_AT_INDEX_ROW_BYTES 136
#define UR_AT_INDEX_DIGESTS 144
#define UR_AT_INDEX_RESERVED 148
#define UR_AT_INDEX_HEAD_DIGEST 176
#define UR_AT_INDEX_HEADER_DIGEST 184

/* Column table. */
#define UR_AT_COLUMN_CODEC 4
/* Of the codec: that cells are cut into chunks. */
#define UR_CODEC_CHUNKED 0x40u
#define UR_AT_COLUMN_FIXED 8
#define UR_AT_COLUMN_VALUE 16

/* Section directory. */
#define UR_AT_SECTION_BITS 40

/* Page header. */
#define UR_AT_PAGE_KIND 4
#define UR_AT_PAGE_CODEC 6
#define UR_AT_PAGE_GROUP 8
#define UR_AT_PAGE_FIRST_ROW 16
#define UR_AT_PAGE_ROWS 24
#define UR_AT_PAGE_PAYLOAD 32
#define UR_AT_PAGE_GAP 40 /* of a compressed scalar page: what its frame holds */
#define UR_AT_PAGE_DIGEST 48
#define UR_AT_PAGE_HEADER_DIGEST 56
/* Of an end page, in the place of first_row, and of gap and payload_digest. */
#define UR_AT_END_PAGES_DIGEST 16
#define UR_AT_END_CONTENT_DIGEST 40

enum { UR_PAGE_SCALAR = 1, UR_PAGE_BLOB = 2, UR_PAGE_END = 3, UR_PAGE_DICTIONARY = 4 };

enum {
  UR_TYPE_BOOL = 1,
  UR_TYPE_INT8 = 2,
  UR_TYPE_UINT8 = 3,
  UR_TYPE_INT16 = 4,
  UR_TYPE_UINT16 = 5,
  UR_TYPE_INT32 = 6,
  UR_TYPE_UINT32 = 7,
  UR_TYPE_INT64 = 8,
  UR_TYPE_UINT64 = 9,
  UR_TYPE_FLOAT16 = 10,
  UR_TYPE_FLOAT32 = 11,
  UR_TYPE_FLOAT64 = 12,
  UR_TYPE_BFLOAT16 = 13,
  UR_TYPE_COMPLEX64 = 14,
  UR_TYPE_COMPLEX128 = 15,
  UR_TYPE_STRING = 20,
  UR_TYPE_BYTES = 30,
  UR_TYPE_TEXT = 31,
  UR_TYPE_ARRAY = 32,
  UR_TYPE_OBJECT = 33,
  /* For types of later versions: scalars, which state their width, and blobs of variable width. */
  UR_TYPE_LATER_SCALARS = 64,
  UR_TYPE_LATER_BLOBS = 128,
  UR_TYPE_LATER_END = 192
};

enum {
  UR_SECTION_GROUPS = 1,
  UR_SECTION_ROW_STARTS = 2,
  UR_SECTION_LENGTHS = 3,
  UR_SECTION_DIGESTS = 4,
  UR_SECTION_VALUES = 5,
  UR_SECTION_VALIDITY = 6,
  UR_SECTION_CODES = 7,
  UR_SECTION_DICTIONARY_OFFSETS = 8,
  UR_SECTION_DICTIONARY_ENTRIES = 9,
  UR_SECTION_STRING_OFFSETS = 10,
  UR_SECTION_STRING_BYTES = 11,
  UR_SECTION_ZONES = 12,
  UR_SECTION_ZONE_FLAGS = 13,
  UR_SECTION_ORDER = 14,
  UR_SECTION_RAW_LENGTHS = 15,
  UR_SECTION_CODEC_DICTIONARY = 16,
  UR_SECTION_STATISTICS = 17,
  UR_SECTION_CHUNK_SHAPE = 18,
  UR_SECTION_CHUNK_STARTS = 19,
  UR_SECTION_CHUNK_ENDS = 20,
  UR_SECTION_CHUNK_DIGESTS = 21,
  UR_SECTION_KINDS = 22
};

/* Kinds of sections and pages from here on are checked as bytes and otherwise ignored. */
#define UR_ANCILLARY 0x8000u
#define UR_SECTION_SKETCH 0x8000u
#define UR_SECTION_LOOK_UP 0x8001u
#define UR_ANCILLARY_KINDS 2u /* of sections that are known, all of a column and of 8 bytes an element */

enum {
  UR_DOMAIN_DATA_HEADER = 1,
  UR_DOMAIN_DATA_HEAD = 2,
  UR_DOMAIN_PAGE_HEADER = 3,
  UR_DOMAIN_SCALAR_PAGE = 4,
  UR_DOMAIN_UNIT = 5,
  UR_DOMAIN_INDEX_HEADER = 6,
  UR_DOMAIN_INDEX_HEAD = 7,
  UR_DOMAIN_INDEX_BLOCK = 8,
  UR_DOMAIN_PAGES = 9,
  UR_DOMAIN_CODEC_DICTIONARY = 10,
  UR_DOMAIN_ANCILLARY = 11,
  UR_DOMAIN_CHUNK = 12,
  UR_DOMAIN_CONTENT = 13
};

#define UR_PHI UINT64_C(0x9E3779B97F4A7C15)

#define UR_HEX_TEXT 33 /* characters of an id or a wide digest as text, with the zero at its end */

static inline void ur_hex(const uint8_t bytes[16], char text[UR_HEX_TEXT]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 32; i++) text[i] = digits[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
  text[32] = '\0';
}

static inline uint16_t ur_load16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }

static inline uint32_t ur_load32(const uint8_t *at) {
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t ur_load64(const uint8_t *at) {
  return (uint64_t)ur_load32(at) | (uint64_t)ur_load32(at + 4) << 32;
}

#endif
