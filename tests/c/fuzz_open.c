/* fuzz_open.c - any bytes at all as a part: opened, read and released; what LLVMFuzzerTestOneInput takes, and its seals.
 *
 * Input: u32 length of the data file, u8 options, data file, index. Options: bit 0 = make identities and sizes agree,
 * bit 1 = put right digests over the bytes (so that the checks behind the digests are reached), bits 2-3 = way of reading.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "fuzz_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"
#include "unirecord_internal.h"

enum { MOST_COLUMNS = 256, MOST_ROWS = 64, MOST_BYTES = 1 << 20, SECTION_KINDS = 24, CHUNK_SHAPE = 20, ARRAY = 32, MOST_RANK = 32, MOST_BOXES = 4 };

static uint32_t load32(const uint8_t *at) { return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; }
static uint64_t load64(const uint8_t *at) { return load32(at) | (uint64_t)load32(at + 4) << 32; }

void fuzz_store(uint8_t *at, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t seal(const uint8_t *id, uint64_t domain, uint64_t position, const uint8_t *bytes, uint64_t count) {
  uint8_t key[24] = {0};
  memcpy(key, id, 16);
  fuzz_store(key + 16, domain, 8);
  return ur_xxh3_64(bytes, (size_t)count, ur_xxh3_64(key, sizeof key, 0) + position * UINT64_C(0x9E3779B97F4A7C15));
}

/* A header of `size` bytes ends with the digest of the rest of the head and the one of itself. */
static void seal_head(uint8_t *file, uint64_t bytes, uint64_t size, uint64_t head_domain, uint64_t header_domain) {
  uint64_t head = load32(file + 20);
  if (head >= size && head <= bytes)
    fuzz_store(file + size - 16, seal(file + 24, head_domain, 0, file + size, head - size), 8);
  fuzz_store(file + size - 8, seal(file + 24, header_domain, 0, file, size - 8), 8);
}

void fuzz_agree(uint8_t *data, uint64_t data_bytes, uint8_t *index, uint64_t index_bytes) {
  if (data_bytes < 192 || index_bytes < 192) return;
  uint64_t table = (uint64_t)load32(data + 40) * 32;
  uint8_t *end = data + data_bytes - 64; /* the end page */
  fuzz_store(end + 8, load64(index + 56), 8);
  fuzz_store(end + 24, load64(index + 48), 8);
  memcpy(index + 104, end + 40, 16); /* content_digest */
  memcpy(index + 24, data + 24, 16);
  fuzz_store(index + 40, data_bytes, 8);
  fuzz_store(index + 64, load32(data + 40), 4);
  fuzz_store(index + 80, index_bytes, 8);
  uint64_t metadata = load32(data + 44), directory = (uint64_t)load32(index + 68) * 48;
  memcpy(index + 10, data + 10, 2); /* writer_version */
  memcpy(index + 16, data + 16, 4); /* optional_features */
  memcpy(index + 120, data + 48, 24); /* the layout of rows */
  fuzz_store(index + 72, metadata, 4);
  if (128 + table > data_bytes || 192 + table > index_bytes) return;
  memcpy(index + 192, data + 128, (size_t)table);
  if (128 + table + metadata <= data_bytes && 192 + table + directory + metadata <= index_bytes)
    memcpy(index + 192 + table + directory, data + 128 + table, (size_t)metadata);
}

void fuzz_seal(uint8_t *data, uint64_t data_bytes, uint8_t *index, uint64_t index_bytes) {
  if (data_bytes >= 192) {
    seal_head(data, data_bytes, 128, 2, 1);
    uint8_t *end = data + data_bytes - 64;
    fuzz_store(end + 56, seal(data + 24, 3, data_bytes - 64, end, 56), 8);
  }
  if (index_bytes < 192) return;
  uint64_t start = load32(index + 20), stop = load64(index + 88);
  for (uint64_t at = start, n = 0; start >= 192 && stop <= index_bytes && at < stop; at += 65536, n++) {
    uint64_t size = stop - at < 65536 ? stop - at : 65536;
    if (index_bytes - stop < 8 * (n + 1)) break;
    fuzz_store(index + stop + 8 * n, seal(index + 24, 8, n, index + at, size), 8);
  }
  if (data_bytes >= 192) memcpy(index + 96, data + 120, 8);
  seal_head(index, index_bytes, 192, 7, 6);
}

static int file_of(const uint8_t *bytes, uint64_t count, char path[64]) {
  int fd = memfd_create("fuzz", 0);
  EXPECT(fd >= 0);
  EXPECT(write(fd, bytes, count) == (ssize_t)count);
  (void)snprintf(path, 64, "/proc/self/fd/%d", fd);
  return fd;
}

static void expect_error(ur_status status, const ur_error *error) {
  EXPECT(status >= UR_ARGUMENT && status <= UR_COLUMN);
  EXPECT_EQUAL(error->status, status);
  EXPECT(memchr(error->what, 0, sizeof error->what) != NULL);
}

static void read_rows(ur_set *set, const int64_t *rows, int64_t n, const ur_column_info *columns, int32_t count) {
  ur_output outputs[MOST_COLUMNS] = {0};
  for (int32_t i = 0; i < count; i++) {
    uint64_t bytes = columns[i].fixed_bytes > 0 ? (uint64_t)columns[i].fixed_bytes * (uint64_t)n : 256;
    if (bytes > MOST_BYTES) bytes = 16; /* then the reader must say that it is too small */
    outputs[i] = (ur_output){.column = i, .data = malloc(bytes), .capacity = bytes};
    if (columns[i].fixed_bytes == 0) outputs[i].offsets = malloc((size_t)(n + 1) * 8);
    outputs[i].valid = malloc((size_t)n + 1);
  }
  ur_error error = {0};
  ur_status status = ur_set_read(set, rows, n, outputs, count, &error);
  for (int again = 0; status == UR_TOO_SMALL && again < 3; again++) {
    for (int32_t i = 0; i < count; i++) {
      if (outputs[i].used <= outputs[i].capacity || outputs[i].used > MOST_BYTES) continue;
      free(outputs[i].data);
      outputs[i].data = malloc(outputs[i].used);
      outputs[i].capacity = outputs[i].used;
    }
    status = ur_set_read(set, rows, n, outputs, count, &error);
  }
  if (status != UR_OK && status != UR_TOO_SMALL) expect_error(status, &error);
  for (int32_t i = 0; i < count; i++) {
    if (status == UR_OK && outputs[i].offsets != NULL) {
      EXPECT_EQUAL(outputs[i].offsets[0], 0);
      for (int64_t r = 0; r < n; r++) EXPECT(outputs[i].offsets[r] <= outputs[i].offsets[r + 1]);
      EXPECT_EQUAL(outputs[i].offsets[n], outputs[i].used);
    }
    free(outputs[i].data);
    free(outputs[i].offsets);
    free(outputs[i].valid);
  }
}

/* Boxes of the columns that are cut into chunks, row by row: of arrays their later half, of bytes three from the second on. */
static void read_boxes(ur_set *set, ur_part *part, const int64_t *rows, int64_t n, const ur_column_info *columns, int32_t count) {
  for (int32_t c = 0; c < count; c++) {
    int64_t shape[MOST_RANK] = {0}, sizes[MOST_RANK] = {3}, starts[MOST_RANK] = {1};
    ur_boxes boxes = {.rank = 1, .sizes = sizes, .starts = starts};
    ur_section section;
    ur_error error = {0};
    if (!columns[c].chunked || ur_part_section(part, CHUNK_SHAPE, c, &section) != UR_OK) continue;
    if (ur_part_check(part, &section, 0, section.bytes, &error) != UR_OK) continue;
    if (columns[c].type == ARRAY) {
      boxes.rank = (int32_t)(section.bytes / 16);
      EXPECT(boxes.rank <= MOST_RANK);
      for (int32_t d = 0; d < boxes.rank; d++) {
        shape[d] = (int64_t)load64(section.data + 8 * d);
        sizes[d] = shape[d] > 1 ? shape[d] / 2 : shape[d];
        starts[d] = shape[d] - sizes[d];
      }
      boxes.shape = shape;
    }
    for (int64_t r = 0; r < n && r < MOST_BOXES; r++) {
      uint8_t box[4096], valid = 0;
      ur_output output = {.column = c, .data = box, .capacity = sizeof box, .valid = &valid, .boxes = &boxes};
      ur_status status = ur_set_read(set, rows + r, 1, &output, 1, &error);
      if (status != UR_OK && status != UR_TOO_SMALL) expect_error(status, &error);
    }
  }
}

static void look_at_part(ur_set *set) {
  ur_part *part = NULL;
  ur_error error = {0};
  if (ur_set_part(set, 0, &part, &error) != UR_OK) return;
  ur_part_info info;
  ur_part_describe(part, &info);
  volatile uint8_t sum = 0;
  for (uint64_t i = 0; i < info.metadata_bytes; i++) sum = (uint8_t)(sum + info.metadata[i]);
  ur_column_info columns[MOST_COLUMNS];
  int32_t count = info.columns < MOST_COLUMNS ? info.columns : MOST_COLUMNS;
  for (int32_t c = -1; c < count; c++) {
    if (c >= 0) EXPECT_EQUAL(ur_part_column(part, c, &columns[c]), UR_OK);
    for (int32_t kind = 0; kind < SECTION_KINDS; kind++) {
      ur_section section;
      if (ur_part_section(part, kind, c, &section) != UR_OK) continue;
      if (ur_part_check(part, &section, 0, section.bytes, &error) != UR_OK) continue;
      for (uint64_t i = 0; i < section.bytes; i++) sum = (uint8_t)(sum + section.data[i]);
    }
    uint64_t offset = 0, bytes = 0;
    if (c >= 0 && columns[c].is_blob && info.rows > 0 &&
        ur_part_locate(part, info.rows - 1, c, &offset, &bytes, &error) == UR_OK)
      EXPECT(offset <= info.data_bytes && bytes <= info.data_bytes - offset);
  }
  int64_t rows[MOST_ROWS], n = 0;
  for (int64_t r = 0; r < info.rows && n < MOST_ROWS / 2; r++) rows[n++] = r;
  for (int64_t r = info.rows - 1; r >= 0 && n < MOST_ROWS; r--) rows[n++] = r;
  if (n > 0) read_rows(set, rows, n, columns, count);
  read_boxes(set, part, rows, n, columns, count);
  ur_set_advise(set, rows, n);
  ur_part_release(part);
}

bool fuzz_try(const uint8_t *data, uint64_t data_bytes, const uint8_t *index, uint64_t index_bytes, int32_t io, int32_t verify) {
  char data_path[64], index_path[64];
  int data_fd = file_of(data, data_bytes, data_path), index_fd = file_of(index, index_bytes, index_path);
  ur_part_ref ref = {.data_path = data_path, .index_path = index_path, .rows = -1};
  ur_set_options options = {.io = io, .verify = verify};
  ur_set *set = NULL;
  ur_error error = {0};
  ur_status status = ur_set_open(&ref, 1, &options, &set, &error);
  if (status == UR_OK) {
    look_at_part(set);
    ur_set_release(set);
  } else {
    expect_error(status, &error);
  }
  close(data_fd);
  close(index_fd);
  return status == UR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
  if (size < 5) return 0;
  uint64_t rest = size - 5, data_bytes = load32(input) < rest ? load32(input) : rest;
  uint8_t options = input[4], *copy = malloc(rest + 1);
  if (copy == NULL) return 0;
  memcpy(copy, input + 5, rest);
  uint8_t *index = copy + data_bytes;
  if (options & 1) fuzz_agree(copy, data_bytes, index, rest - data_bytes);
  if (options & 2) fuzz_seal(copy, data_bytes, index, rest - data_bytes);
  static const int32_t ways[4] = {UR_IO_MAP, UR_IO_PREAD, UR_IO_MEMORY, UR_IO_AUTO};
  (void)fuzz_try(copy, data_bytes, index, rest - data_bytes, ways[options >> 2 & 3], options >> 4 & 1 ? UR_VERIFY_NEVER : UR_VERIFY_FIRST);
  free(copy);
  return 0;
}
