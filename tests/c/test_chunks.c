/* test_chunks.c - the frozen part whose columns are in chunks: whole values, every box of them, and damage of one chunk. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>

#include "expect.h"
#include "folder.h"
#include "unirecord_internal.h"

/* Columns of tests/support/small_parts.py's chunked_part: 1 uint16[5, 6] in chunks of [2, 4], row r holds i * r at i;
 * 2 float32[3, 16]? in chunks of [1, 16], compressed, row r holds r, and row 2 null; 3 bytes? in chunks of 7, row r has 9 r, and
 * row 5 is null; 4 bytes, row r has r times 'w'; 5 text in chunks of 32, compressed. */
enum { ROWS = 7, COLUMNS = 6, MOST = 1 << 12 };
static const char part_path[] = "tests/data/version1/chunked.urec";

typedef struct {
  uint8_t bytes[COLUMNS][MOST];
  int64_t offsets[COLUMNS][ROWS + 1];
  uint8_t valid[COLUMNS][ROWS];
} contents;

static ur_set *open_part(const char *path, int32_t io, int32_t verify) {
  ur_part_ref ref = {.data_path = path, .rows = -1};
  ur_set_options options = {.io = io, .verify = verify};
  ur_set *set = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, &error), UR_OK);
  return set;
}

static ur_status read_whole(ur_set *set, contents *found, ur_error *error) {
  static const int64_t rows[ROWS] = {0, 1, 2, 3, 4, 5, 6};
  ur_output outputs[COLUMNS] = {{0}};
  memset(found, 0, sizeof *found);
  for (int c = 0; c < COLUMNS; c++)
    outputs[c] = (ur_output){.column = c, .data = found->bytes[c], .capacity = MOST, .valid = found->valid[c],
                             .offsets = c < 3 ? NULL : found->offsets[c]};
  return ur_set_read(set, rows, ROWS, outputs, COLUMNS, error);
}

static ur_status read_box(ur_set *set, int32_t column, int64_t row, int32_t rank, const int64_t *shape, const int64_t *sizes,
                          const int64_t *starts, uint8_t *box, uint8_t *valid, ur_error *error) {
  ur_boxes boxes = {.rank = rank, .shape = shape, .sizes = sizes, .starts = starts};
  ur_output output = {.column = column, .data = box, .capacity = MOST, .valid = valid, .boxes = &boxes};
  return ur_set_read(set, &row, 1, &output, 1, error);
}

static void values_are_whole(const contents *found) {
  for (uint32_t r = 0; r < ROWS; r++) {
    uint16_t plain[30];
    float field[48];
    memcpy(plain, found->bytes[1] + sizeof plain * r, sizeof plain);
    memcpy(field, found->bytes[2] + sizeof field * r, sizeof field);
    for (uint32_t i = 0; i < 30; i++) EXPECT_EQUAL(plain[i], i * r);
    EXPECT_EQUAL(found->valid[2][r], r != 2);
    for (uint32_t i = 0; i < 48 && r != 2; i++) EXPECT_EQUAL(field[i], r);
    EXPECT_EQUAL(found->offsets[3][r + 1] - found->offsets[3][r], r == 5 ? 0 : 9 * r);
    EXPECT_EQUAL(found->valid[3][r], r != 5);
    EXPECT_EQUAL(found->offsets[4][r + 1] - found->offsets[4][r], r);
    EXPECT_EQUAL(found->offsets[5][r + 1] - found->offsets[5][r], 50 * (r % 4));
  }
}

/* Every box of two sizes of an array of `shape`, compared with the whole values. */
static void boxes_of_arrays(ur_set *set, const contents *found, int32_t column, const int64_t *shape, int64_t element) {
  static const int64_t sizes[][2] = {{1, 1}, {2, 3}, {3, 5}};
  uint8_t box[MOST], valid = 0;
  ur_error error = {0};
  for (int64_t row = 0; row < ROWS; row++)
    for (int s = 0; s < 3; s++)
      for (int64_t y = 0; y + sizes[s][0] <= shape[0]; y++)
        for (int64_t x = 0; x + sizes[s][1] <= shape[1]; x++) {
          int64_t starts[2] = {y, x};
          EXPECT_EQUAL(read_box(set, column, row, 2, shape, sizes[s], starts, box, &valid, &error), UR_OK);
          EXPECT_EQUAL(valid, found->valid[column][row]);
          const uint8_t *value = found->bytes[column] + row * shape[0] * shape[1] * element;
          for (int64_t i = 0; i < sizes[s][0] && valid; i++)
            EXPECT(memcmp(box + i * sizes[s][1] * element, value + ((y + i) * shape[1] + x) * element,
                          (size_t)(sizes[s][1] * element)) == 0);
        }
}

static void boxes_of_bytes(ur_set *set, const contents *found, int32_t column) {
  uint8_t box[MOST], valid = 0;
  ur_error error = {0};
  for (int64_t row = 0; row < ROWS; row++) {
    int64_t start = found->offsets[column][row], bytes = found->offsets[column][row + 1] - start;
    for (int64_t size = 1; size <= bytes + 1; size = 2 * size + 1)
      for (int64_t at = 0; at + size <= bytes + 1; at += 3 + size / 4) {
        ur_status status = read_box(set, column, row, 1, NULL, &size, &at, box, &valid, &error);
        if (valid == 0) continue;
        EXPECT_EQUAL(status, at + size <= bytes ? UR_OK : UR_ARGUMENT);
        if (status == UR_OK) EXPECT(memcmp(box, found->bytes[column] + start + at, (size_t)size) == 0);
      }
  }
}

/* Also where as many dimensions as there are would fit. */
static void boxes_of_another_rank_are_refused(ur_set *set) {
  static const int64_t shape[3] = {5, 6, 1}, sizes[3] = {1, 1, 1}, starts[3] = {0, 0, 0};
  uint8_t box[MOST], valid = 0;
  ur_error error = {0};
  EXPECT_EQUAL(read_box(set, 1, 3, 3, shape, sizes, starts, box, &valid, &error), UR_ARGUMENT);
  EXPECT_EQUAL(read_box(set, 1, 3, 1, shape, sizes, starts, box, &valid, &error), UR_ARGUMENT);
}

static void copy_file(const char *from, const char *to, uint64_t damaged) {
  static uint8_t bytes[1 << 16];
  FILE *file = fopen(from, "rb");
  EXPECT(file != NULL);
  size_t count = fread(bytes, 1, sizeof bytes, file);
  EXPECT(count < sizeof bytes);
  (void)fclose(file);
  if (damaged != 0) bytes[damaged] ^= 1;
  file = fopen(to, "wb");
  EXPECT(file != NULL && fwrite(bytes, 1, count, file) == count);
  (void)fclose(file);
}

/* A byte of one chunk costs the boxes that touch it, and no others; `first` and `last`: of the chunk's bytes in the cell. */
static void damage(const char *folder, int32_t io, int32_t verify, int64_t first, int64_t last) {
  static const int64_t shape[2] = {5, 6}, one[2] = {1, 1};
  char path[128], index[160];
  (void)snprintf(path, sizeof path, "%.80s/part.urec", folder);
  (void)snprintf(index, sizeof index, "%s.idx", path);
  for (int64_t at = first; at <= last; at += last - first > 0 ? last - first : 1) {
    ur_set *good = open_part(part_path, io, verify);
    ur_part *part = NULL;
    ur_error error = {0};
    uint64_t offset = 0, bytes = 0;
    EXPECT_EQUAL(ur_set_part(good, 0, &part, &error), UR_OK);
    EXPECT_EQUAL(ur_part_locate(part, 3, 1, &offset, &bytes, &error), UR_OK);
    ur_part_release(part);
    ur_set_release(good);
    EXPECT_EQUAL(bytes, 60);
    copy_file(part_path, path, offset + (uint64_t)at);
    copy_file("tests/data/version1/chunked.urec.idx", index, 0);
    ur_set *set = open_part(path, io, verify);
    static contents found;
    EXPECT_EQUAL(read_whole(set, &found, &error), UR_CORRUPT);
    for (int again = 0; again < 2; again++)
      for (int64_t y = 0; y < 5; y++)
        for (int64_t x = 0; x < 6; x++) {
          uint8_t box[MOST], valid = 0;
          int64_t starts[2] = {y, x}, chunk = y / 2 * 2 + x / 4;
          int64_t begins = (int64_t[]){0, 16, 24, 40, 48, 56}[chunk], ends = (int64_t[]){16, 24, 40, 48, 56, 60}[chunk];
          bool bad = at >= begins && at < ends;
          EXPECT_EQUAL(read_box(set, 1, 3, 2, shape, one, starts, box, &valid, &error), bad ? UR_CORRUPT : UR_OK);
          if (bad) EXPECT_EQUAL(error.file, UR_FILE_DATA);
          EXPECT_EQUAL(read_box(set, 1, 4, 2, shape, one, starts, box, &valid, &error), UR_OK);
        }
    ur_set_release(set);
  }
}

int main(void) {
  static const int32_t ways[] = {UR_IO_MAP, UR_IO_PREAD, UR_IO_MEMORY};
  static const int64_t plain[2] = {5, 6}, field[2] = {3, 16};
  char folder[] = "/tmp/unirecord-chunks-XXXXXX";
  EXPECT(mkdtemp(folder) != NULL);
  for (int io = 0; io < 3; io++)
    for (int32_t verify = UR_VERIFY_FIRST; verify <= UR_VERIFY_NEVER; verify++) {
      static contents found;
      ur_error error = {0};
      ur_set *set = open_part(part_path, ways[io], verify);
      EXPECT_EQUAL(read_whole(set, &found, &error), UR_OK);
      values_are_whole(&found);
      boxes_of_another_rank_are_refused(set);
      for (int again = 0; again < (verify == UR_VERIFY_FIRST ? 2 : 1); again++) {
        boxes_of_arrays(set, &found, 1, plain, 2);
        boxes_of_arrays(set, &found, 2, field, 4);
        boxes_of_bytes(set, &found, 3);
        boxes_of_bytes(set, &found, 4);
        boxes_of_bytes(set, &found, 5);
      }
      ur_set_release(set);
      if (verify == UR_VERIFY_NEVER) continue;
      damage(folder, ways[io], verify, 0, 15);
      damage(folder, ways[io], verify, 16, 23);
      damage(folder, ways[io], verify, 56, 59);
    }
  return remove_folder(folder);
}
