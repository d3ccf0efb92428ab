/* part_contents.h - reads rows of a part that part_fixture.h has made, and compares them with what it put there. */
#ifndef UR_PART_CONTENTS_H
#define UR_PART_CONTENTS_H

#include "expect.h"
#include "part_fixture.h"
#include "unirecord.h"

typedef struct {
  uint8_t bytes[4][8192];
  uint64_t used[4];
  int64_t offsets[4][256];
  uint8_t valid[4][256];
} contents;

static inline ur_status read_columns(ur_set *set, const int64_t *rows, int64_t n, int columns, contents *found,
                                     ur_error *error) {
  ur_output outputs[4] = {{0}};
  memset(found, 0, sizeof *found);
  for (int c = 0; c < columns; c++) {
    outputs[c] = (ur_output){c, 0, found->bytes[c], sizeof found->bytes[c], NULL, found->valid[c], 0, NULL};
    if (c == 1 || c == 3) outputs[c].offsets = found->offsets[c];
  }
  ur_status status = ur_set_read(set, rows, n, outputs, columns, error);
  for (int c = 0; c < columns; c++) found->used[c] = outputs[c].used;
  return status;
}

/* What the fixture says of row r, compared with place i of what was read. */
static inline void expect_row(const contents *found, int64_t i, int64_t r, int fixed) {
  EXPECT_EQUAL(found->valid[0][i], r % 5 != 4);
  EXPECT_EQUAL(ur_load32(found->bytes[0] + 4 * i), r % 5 == 4 ? 0 : r * 3);
  EXPECT_EQUAL(found->offsets[1][i + 1] - found->offsets[1][i], 2);
  EXPECT_EQUAL(found->bytes[1][found->offsets[1][i] + 1], '0' + r % 3);
  for (int b = 0; b < 24; b++) EXPECT_EQUAL(found->bytes[2][24 * i + b], r);
  if (fixed) return;
  EXPECT_EQUAL(found->offsets[3][i + 1] - found->offsets[3][i], r % 7);
  for (int64_t b = found->offsets[3][i]; b < found->offsets[3][i + 1]; b++) EXPECT_EQUAL(found->bytes[3][b], r + 1);
}

/* The same of one batch of a loader over columns 0 to 3, whose rows count on over parts of `part_rows` rows. */
static inline void expect_batch(const ur_batch_info *info, int64_t part_rows) {
  const uint8_t *memory = (const uint8_t *)info->batch;
  const int64_t *rows = (const int64_t *)(const void *)(memory + info->row_ids_at);
  const ur_column_view *views = info->columns;
  const int64_t *strings = (const int64_t *)(const void *)(memory + views[1].offsets_at);
  const int64_t *blobs = (const int64_t *)(const void *)(memory + views[3].offsets_at);
  for (int64_t i = 0; i < info->rows; i++) {
    int64_t r = rows[i] % part_rows;
    EXPECT_EQUAL(memory[views[0].valid_at + (uint64_t)i], r % 5 != 4);
    EXPECT_EQUAL(ur_load32(memory + views[0].data_at + 4 * i), r % 5 == 4 ? 0 : r * 3);
    EXPECT_EQUAL(strings[i + 1] - strings[i], 2);
    EXPECT_EQUAL(memory[views[1].data_at + (uint64_t)strings[i] + 1], '0' + r % 3);
    for (int b = 0; b < 24; b++) EXPECT_EQUAL(memory[views[2].data_at + (uint64_t)(24 * i + b)], r);
    EXPECT_EQUAL(blobs[i + 1] - blobs[i], r % 7);
    for (int64_t b = blobs[i]; b < blobs[i + 1]; b++) EXPECT_EQUAL(memory[views[3].data_at + (uint64_t)b], r + 1);
  }
}

#endif
