/* part_fixture.h - writes small parts byte by byte, and seals them again after a test has changed them. */
#ifndef UR_PART_FIXTURE_H
#define UR_PART_FIXTURE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/layout.h"
#include "folder.h"
#include "part/parse.h"

/* Columns: 0 int32?, 1 string (a dictionary), 2 array uint8[24], and unless `fixed` 3 bytes. Row r holds r * 3 (null if
 * r % 5 == 4), "s" followed by the digit r % 3, 24 bytes of value r, and r % 7 bytes of value r + 1. */
typedef struct {
  uint8_t data[1 << 16];
  uint8_t index[1 << 17];
  uint64_t data_bytes, index_bytes;
  uint64_t rows;
  int fixed;
  uint64_t unit_rows;
  int coded; /* bits of the codes of column 0, which has a dictionary then; of 8 they lie as bytes; 0: it has none */
} fixture;

/* Codes of 5 bits are of a column with nulls, others of one without. */
static inline bool has_nulls(const fixture *part) { return part->coded == 0 || part->coded == 5; }

static const uint8_t fixture_id[16] = "0123456789abcdef";

static inline void put(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

static inline uint64_t fixture_columns(const fixture *part) { return part->fixed ? 3 : 4; }

static inline void put_column(uint8_t *at, int type, int dtype, int flags, int rank, uint64_t bytes) {
  at[0] = (uint8_t)type;
  at[1] = (uint8_t)dtype;
  at[2] = (uint8_t)flags;
  at[3] = (uint8_t)rank;
  put(at + 8, bytes, 8);
}

static inline void put_columns(const fixture *part, uint8_t *at) {
  put_column(at, 6, 0, has_nulls(part), 0, 4);
  put_column(at + 32, UR_TYPE_STRING, 0, 0, 0, 0);
  put_column(at + 64, UR_TYPE_ARRAY, 3, 0, 1, 24);
  if (!part->fixed) put_column(at + 96, UR_TYPE_BYTES, 0, 0, 0, 0);
}

/* Digests of the data file's head and header. */
static inline void seal_data(fixture *part) {
  uint64_t head = ur_load32(part->data + UR_AT_HEADER_BYTES);
  if (head >= 128 && head <= part->data_bytes)
    put(part->data + UR_AT_HEAD_DIGEST,
        ur_xxh3_64(part->data + 128, head - 128, ur_seed(part->data + UR_AT_ID, UR_DOMAIN_DATA_HEAD, 0)), 8);
  put(part->data + UR_AT_HEADER_DIGEST,
      ur_xxh3_64(part->data, 120, ur_seed(part->data + UR_AT_ID, UR_DOMAIN_DATA_HEADER, 0)), 8);
}

/* Digests of the index's blocks, head and header, as far as the header's fields make sense. */
static inline void seal_index(fixture *part) {
  uint8_t *index = part->index;
  const uint8_t *id = index + UR_AT_ID;
  uint64_t head = ur_load32(index + UR_AT_HEADER_BYTES), digests = ur_load64(index + UR_AT_DIGESTS);
  memcpy(index + UR_AT_DATA_DIGEST, part->data + UR_AT_HEADER_DIGEST, 8);
  memcpy(index + UR_AT_CONTENT_DIGEST, part->data + part->data_bytes - 64 + UR_AT_END_CONTENT_DIGEST, UR_WIDE_BYTES);
  for (uint64_t block = 0; head <= digests && digests < part->index_bytes; block++) {
    uint64_t start = head + block * UR_BLOCK_BYTES, at = digests + 8 * block;
    if (start >= digests || at + 8 > part->index_bytes) break;
    uint64_t bytes = digests - start < UR_BLOCK_BYTES ? digests - start : UR_BLOCK_BYTES;
    put(index + at, ur_xxh3_64(index + start, bytes, ur_seed(id, UR_DOMAIN_INDEX_BLOCK, block)), 8);
  }
  if (head >= 192 && head <= part->index_bytes)
    put(index + UR_AT_INDEX_HEAD_DIGEST, ur_xxh3_64(index + 192, head - 192, ur_seed(id, UR_DOMAIN_INDEX_HEAD, 0)), 8);
  put(index + UR_AT_INDEX_HEADER_DIGEST, ur_xxh3_64(index, 184, ur_seed(id, UR_DOMAIN_INDEX_HEADER, 0)), 8);
}

static inline void put_page(fixture *part, uint64_t at, int kind, uint64_t group, uint64_t rows, uint64_t payload) {
  uint8_t *page = part->data + at;
  memcpy(page, UR_PAGE_MAGIC, 4);
  put(page + UR_AT_PAGE_KIND, (uint64_t)kind, 2);
  put(page + UR_AT_PAGE_GROUP, group, 8);
  put(page + UR_AT_PAGE_ROWS, rows, 8);
  put(page + UR_AT_PAGE_PAYLOAD, payload, 8);
  put(page + UR_AT_PAGE_HEADER_DIGEST, ur_xxh3_64(page, 56, ur_seed(fixture_id, UR_DOMAIN_PAGE_HEADER, at)), 8);
}

/* The end page, with the digest of the only scalar page, which stands at `scalars`, and a content digest that readers only
 * compare: of that page's header. */
static inline void put_end(fixture *part, uint64_t at, uint64_t scalars) {
  put(part->data + at + UR_AT_END_PAGES_DIGEST,
      ur_xxh3_64(part->data + scalars + UR_AT_PAGE_DIGEST, 8, ur_seed(fixture_id, UR_DOMAIN_PAGES, 0)), 8);
  ur_xxh3_128(part->data + scalars, 64, ur_seed(fixture_id, UR_DOMAIN_CONTENT, 0), part->data + at + UR_AT_END_CONTENT_DIGEST);
  put_page(part, at, UR_PAGE_END, 1, part->rows, 0);
}

/* The data file: one row group whose scalar page is empty but for its header, for the reader never looks into it. */
static inline void make_data(fixture *part, uint64_t *starts, uint64_t *payload) {
  uint8_t *data = part->data;
  uint64_t head = up(128 + 32 * fixture_columns(part) + 1, 64);
  memcpy(data, UR_DATA_MAGIC, 8);
  put(data + UR_AT_MIN_VERSION, 1, 2);
  put(data + UR_AT_WRITER_VERSION, 1, 2);
  put(data + UR_AT_HEADER_BYTES, head, 4);
  memcpy(data + UR_AT_ID, fixture_id, 16);
  put(data + UR_AT_DATA_COLUMNS, fixture_columns(part), 4);
  put(data + UR_AT_DATA_METADATA, 1, 4);
  put(data + UR_AT_BLOB_ALIGN, 8, 4);
  put(data + UR_AT_UNIT_ROWS, part->unit_rows, 4);
  put(data + UR_AT_GROUP_ROWS, part->fixed ? 64 : 0, 8);
  put(data + UR_AT_ROW_BYTES, part->fixed ? 24 : 0, 8);
  put_columns(part, data + 128);
  data[128 + 32 * fixture_columns(part)] = 0xc0;
  uint64_t at = head;
  put_page(part, at, UR_PAGE_SCALAR, 0, part->rows, 0);
  uint64_t blob = at + 64;
  *payload = at = blob + 64;
  for (uint64_t r = 0; r < part->rows; r++) {
    starts[r] = at;
    memset(data + at, (int)r, 24);
    at += 24;
    if (!part->fixed) memset(data + at, (int)r + 1, r % 7);
    if (!part->fixed) at = up(at + r % 7, 8);
  }
  starts[part->rows] = at;
  put_page(part, blob, UR_PAGE_BLOB, 0, part->rows, at - *payload);
  at = up(at, 64);
  put_end(part, at, head);
  part->data_bytes = at + 64;
  seal_data(part);
}

typedef struct {
  fixture *part;
  uint64_t entry, at;
} index_maker;

/* Adds a directory entry; returns where its `count` elements go. */
static inline uint8_t *add_section(index_maker *make, int kind, int column, uint64_t width, uint64_t count,
                                   uint64_t extra) {
  uint8_t *entry = make->part->index + make->entry, *section = make->part->index + make->at;
  put(entry, (uint64_t)kind, 2);
  put(entry + 2, (uint64_t)column, 2);
  put(entry + 4, width, 4);
  put(entry + 8, make->at, 8);
  put(entry + 16, width * count, 8);
  put(entry + 24, count, 8);
  put(entry + 32, extra, 8);
  make->entry += 48;
  make->at = up(make->at + width * count, 64);
  return section;
}

static inline void add_digests(index_maker *make, const uint64_t *starts) {
  const fixture *part = make->part;
  uint64_t k = part->unit_rows, blobs = part->fixed ? 1 : 2, rows = part->rows;
  uint64_t units = k > 0 ? (rows + k - 1) / k : rows * blobs;
  uint8_t *digests = add_section(make, UR_SECTION_DIGESTS, 65535, 8, units, 0);
  for (uint64_t u = 0; u < units; u++) {
    uint64_t row = k > 0 ? u * k : u / blobs, blob = k > 0 ? 0 : u % blobs;
    uint64_t start = starts[row] + 24 * blob, bytes = blob ? row % 7 : 24;
    if (k > 0) bytes = starts[row + k < rows ? row + k : rows] - start;
    put(digests + 8 * u, ur_xxh3_64(part->data + start, bytes, ur_seed(fixture_id, UR_DOMAIN_UNIT, u)), 8);
  }
}

/* Codes of column 0, one for each row but for nulls, which have code 0. */
static inline void add_codes(index_maker *make) {
  fixture *part = make->part;
  uint64_t rows = part->rows, bits = (uint64_t)part->coded, bytes = bits == 8 ? rows : ((rows * bits + 63) / 64 + 1) * 8;
  uint8_t *entry = part->index + make->entry, *at = add_section(make, UR_SECTION_CODES, 0, 1, bytes, 0);
  put(entry + 24, rows, 8);
  if (bits != 8) put(entry + UR_AT_SECTION_BITS, bits, 2);
  for (uint64_t r = 0, code = 0; r < rows; r++) {
    uint64_t mine = has_nulls(part) && r % 5 == 4 ? 0 : code++;
    for (uint64_t b = 0; b < bits; b++)
      if (mine >> b & 1) at[(r * bits + b) / 8] = (uint8_t)(at[(r * bits + b) / 8] | 1 << ((r * bits + b) % 8));
  }
}

/* The entries: one for each row that is not null. */
static inline void add_entries(index_maker *make) {
  uint64_t rows = make->part->rows, entries = 0;
  for (uint64_t r = 0; r < rows; r++) entries += !has_nulls(make->part) || r % 5 != 4;
  uint8_t *at = add_section(make, UR_SECTION_DICTIONARY_ENTRIES, 0, 4, entries, 0);
  for (uint64_t r = 0; r < rows; r++) {
    if (has_nulls(make->part) && r % 5 == 4) continue;
    put(at, r * 3, 4);
    at += 4;
  }
}

static inline void make_index(fixture *part, const uint64_t *starts, uint64_t payload) {
  uint64_t sections = (part->fixed ? 12u : 14u) + (part->coded != 0 ? 1u : 0u) - (has_nulls(part) ? 0u : 1u), columns = fixture_columns(part), rows = part->rows, w = rows > 0;
  uint64_t head = up(192 + 32 * columns + 48 * sections + 1, 64), zones = w;
  index_maker make = {part, 192 + 32 * columns, head};
  uint8_t *index = part->index, *at = add_section(&make, UR_SECTION_GROUPS, 65535, 32, w, 0);
  if (w) put(at + 8, ur_load32(part->data + UR_AT_HEADER_BYTES), 8);
  if (w) put(at + 16, payload - 64, 8);
  if (w) put(at + 24, payload, 8);
  if (!part->fixed) {
    uint64_t k = part->unit_rows > 1 ? part->unit_rows : 1;
    at = add_section(&make, UR_SECTION_ROW_STARTS, 65535, 8, (rows + k - 1) / k, 0);
    for (uint64_t r = 0; r < rows; r += k) put(at + 8 * (r / k), starts[r], 8);
    at = add_section(&make, UR_SECTION_LENGTHS, 3, 4, rows, 0);
    for (uint64_t r = 0; r < rows; r++) put(at + 4 * r, r % 7, 4);
  }
  add_digests(&make, starts);
  if (!part->coded) {
    at = add_section(&make, UR_SECTION_VALUES, 0, 4, rows, 0);
    for (uint64_t r = 0; r < rows; r++) put(at + 4 * r, r % 5 == 4 ? 0 : r * 3, 4);
  }
  if (has_nulls(part)) {
    at = add_section(&make, UR_SECTION_VALIDITY, 0, 1, (rows + 7) / 8, 0);
    for (uint64_t r = 0; r < rows; r++)
      if (r % 5 != 4) at[r / 8] = (uint8_t)(at[r / 8] | 1 << (r % 8));
  }
  if (part->coded) add_codes(&make);
  at = add_section(&make, UR_SECTION_CODES, 1, 1, rows, 0);
  for (uint64_t r = 0; r < rows; r++) at[r] = (uint8_t)(r % 3);
  at = add_section(&make, UR_SECTION_DICTIONARY_OFFSETS, 1, 8, 4, 0);
  for (uint64_t i = 0; i < 4; i++) put(at + 8 * i, 2 * i, 8);
  if (part->coded) add_entries(&make);
  memcpy(add_section(&make, UR_SECTION_DICTIONARY_ENTRIES, 1, 1, 6, 0), "s0s1s2", 6);
  (void)add_section(&make, UR_SECTION_ZONES, 0, 8, zones, UR_ZONE_ROWS);
  (void)add_section(&make, UR_SECTION_ZONES, 1, 2, zones, UR_ZONE_ROWS);
  (void)add_section(&make, UR_SECTION_ZONE_FLAGS, 0, 1, zones, UR_ZONE_ROWS);
  (void)add_section(&make, UR_SECTION_ZONE_FLAGS, 1, 1, zones, UR_ZONE_ROWS);
  *add_section(&make, UR_SECTION_STATISTICS, 65535, 1, 1, 0) = 0xc0;
  memcpy(index, UR_INDEX_MAGIC, 8);
  put(index + UR_AT_MIN_VERSION, 1, 2);
  put(index + UR_AT_WRITER_VERSION, 1, 2);
  put(index + UR_AT_HEADER_BYTES, head, 4);
  memcpy(index + UR_AT_ID, fixture_id, 16);
  put(index + UR_AT_DATA_BYTES, part->data_bytes, 8);
  put(index + UR_AT_ROWS, rows, 8);
  put(index + UR_AT_GROUPS, w, 8);
  put(index + UR_AT_INDEX_COLUMNS, columns, 4);
  put(index + UR_AT_SECTIONS, sections, 4);
  put(index + UR_AT_INDEX_METADATA, 1, 4);
  put(index + UR_AT_BLOCK_BYTES, UR_BLOCK_BYTES, 4);
  put(index + UR_AT_DIGESTS, make.at, 8);
  memcpy(index + UR_AT_INDEX_BLOB_ALIGN, part->data + UR_AT_BLOB_ALIGN, 24);
  put_columns(part, index + 192);
  index[make.entry] = 0xc0;
  part->index_bytes = make.at + 8 * ((make.at - head + UR_BLOCK_BYTES - 1) / UR_BLOCK_BYTES);
  put(index + UR_AT_INDEX_BYTES, part->index_bytes, 8);
  seal_index(part);
}

/* Where the elements of the first section of a kind stand in a part's index. */
static inline uint8_t *section_of(fixture *part, int kind) {
  for (uint64_t entry = 192 + 32 * fixture_columns(part);; entry += 48)
    if (ur_load16(part->index + entry) == kind) return part->index + ur_load64(part->index + entry + 8);
}

/* At most 64 rows, of which column 0 has at most 2^coded kinds. unit_rows: 0, or a power of two up to 64. */
static inline fixture *make_coded_part(uint64_t rows, int fixed, uint64_t unit_rows, int coded) {
  fixture *part = calloc(1, sizeof *part);
  if (part == NULL) abort();
  uint64_t starts[65], payload = 0;
  part->rows = rows;
  part->fixed = fixed;
  part->unit_rows = unit_rows;
  part->coded = coded;
  make_data(part, starts, &payload);
  make_index(part, starts, payload);
  return part;
}

static inline fixture *make_part(uint64_t rows, int fixed, uint64_t unit_rows) {
  return make_coded_part(rows, fixed, unit_rows, 0);
}

/* Writes over what is there, whose length is set last: ext4 takes long to make a file where many have just been removed. */
static inline void store_bytes(const char *path, const uint8_t *bytes, uint64_t count) {
  int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || pwrite(file, bytes, count, 0) != (ssize_t)count || ftruncate(file, (off_t)count) != 0 || close(file) != 0)
    abort();
}

/* Both files, in those that are there: no reader may have them open. */
static inline void store_again(const fixture *part, const char *path) {
  char index[256];
  (void)snprintf(index, sizeof index, "%.200s.idx", path);
  store_bytes(path, part->data, part->data_bytes);
  store_bytes(index, part->index, part->index_bytes);
}

/* Writes both files, replacing what is there. */
static inline void store_part(const fixture *part, const char *path) {
  char index[256];
  (void)snprintf(index, sizeof index, "%.200s.idx", path);
  (void)unlink(path);
  (void)unlink(index);
  store_again(part, path);
}

/* The same part as many times as there are paths, each in the folder. */
static inline void store_parts(const char *folder, char (*paths)[64], int parts, uint64_t rows) {
  fixture *part = make_part(rows, 0, 0);
  for (int i = 0; i < parts; i++) {
    (void)snprintf(paths[i], sizeof paths[i], "%.40s/%d.urec", folder, i);
    store_part(part, paths[i]);
  }
  free(part);
}

#endif
