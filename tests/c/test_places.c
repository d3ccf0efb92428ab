/* test_places.c - an index of many blocks, each broken in turn; rows that lie beyond the file: named, each of them. */
#define _GNU_SOURCE

#include "batch/read.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 40, BLOCK = 65536, MOST_BLOCKS = 16 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char path[64];

/* ---- an index with a block for each section --------------------------------------------------------------------- */

static uint8_t spread[(MOST_BLOCKS + 1) * BLOCK];
static uint64_t spread_bytes, blocks;

/* Moves each section of the part's index into a block of its own, and gives column 0 values of another width. */
static void spread_out(const fixture *part, uint64_t value_width) {
  uint64_t head = ur_load32(part->index + UR_AT_HEADER_BYTES), count = ur_load32(part->index + UR_AT_SECTIONS);
  uint64_t entry = 192 + 32 * fixture_columns(part);
  memset(spread, 0, sizeof spread);
  memcpy(spread, part->index, head);
  for (uint64_t i = 0; i < count; i++, entry += 48) {
    uint8_t *at = spread + entry;
    uint64_t from = ur_load64(at + 8), bytes = ur_load64(at + 16), to = head + i * BLOCK, kind = at[0];
    if (value_width != 4 && at[2] == 0 && (kind == UR_SECTION_VALUES || kind == UR_SECTION_ZONES)) {
      uint64_t width = kind == UR_SECTION_VALUES ? value_width : 2 * value_width, n = ur_load64(at + 24);
      for (uint64_t r = 0; r < n && kind == UR_SECTION_VALUES; r++)
        memcpy(spread + to + width * r, part->index + from + 4 * r, width < 4 ? width : 4);
      put(at + 4, width, 4);
      put(at + 16, width * n, 8);
    } else {
      memcpy(spread + to, part->index + from, bytes);
    }
    put(at + 8, to, 8);
  }
  if (value_width != 4) put_column(spread + 192, value_width == 8 ? 8 : value_width == 2 ? 4 : 2, 0, 1, 0, value_width);
  blocks = count;
  spread_bytes = head + count * BLOCK;
  put(spread + UR_AT_DIGESTS, spread_bytes, 8);
  spread_bytes += 8 * count;
  put(spread + UR_AT_INDEX_BYTES, spread_bytes, 8);
}

static void seal_spread(const fixture *part) {
  const uint8_t *id = spread + UR_AT_ID;
  uint64_t head = ur_load32(spread + UR_AT_HEADER_BYTES);
  memcpy(spread + UR_AT_DATA_DIGEST, part->data + UR_AT_HEADER_DIGEST, 8);
  for (uint64_t b = 0; b < blocks; b++)
    put(spread + head + blocks * BLOCK + 8 * b,
        ur_xxh3_64(spread + head + b * BLOCK, BLOCK, ur_seed(id, UR_DOMAIN_INDEX_BLOCK, b)), 8);
  put(spread + UR_AT_INDEX_HEAD_DIGEST, ur_xxh3_64(spread + 192, head - 192, ur_seed(id, UR_DOMAIN_INDEX_HEAD, 0)), 8);
  put(spread + UR_AT_INDEX_HEADER_DIGEST, ur_xxh3_64(spread, 184, ur_seed(id, UR_DOMAIN_INDEX_HEADER, 0)), 8);
}

static void store_spread(fixture *part) {
  char index[128];
  (void)snprintf(index, sizeof index, "%s.idx", path);
  memcpy(part->data + 128, spread + 192, 32);
  seal_data(part);
  seal_spread(part);
  store_part(part, path);
  store_bytes(index, spread, spread_bytes);
}

static ur_status open_one(int io, int verify, ur_set **set, ur_error *error) {
  ur_part_ref ref = {.data_path = path, .rows = -1};
  ur_set_options options = {.io = io, .verify = verify};
  return ur_set_open(&ref, 1, &options, set, error);
}

/* ---- reading it ------------------------------------------------------------------------------------------------- */

static ur_status read_one_column(ur_set *set, int32_t column, int valid, ur_error *error) {
  static uint8_t bytes[8192], nulls[ROWS];
  static int64_t offsets[ROWS + 1];
  int64_t rows[ROWS];
  for (int64_t i = 0; i < ROWS; i++) rows[i] = ROWS - 1 - i;
  ur_output output = {column, 0, bytes, sizeof bytes, column % 2 ? offsets : NULL, valid ? nulls : NULL, 0, NULL};
  return ur_set_read(set, rows, ROWS, &output, 1, error);
}

/* Sections by the column that needs them; all of a part's blob columns need the groups or the places of rows. */
static int needs(const fixture *part, int column, int valid, int kind, int of) {
  if (kind == UR_SECTION_ZONES || kind == UR_SECTION_ZONE_FLAGS || kind == UR_SECTION_STATISTICS) return 0;
  if (kind == UR_SECTION_VALIDITY) return column == 0 && valid;
  if (kind == UR_SECTION_LENGTHS) return column == of || (column >= 2 && part->unit_rows > 0);
  if (of != UR_NO_COLUMN) return column == of;
  if (kind == UR_SECTION_GROUPS) return part->fixed && column >= 2;
  return column >= 2;
}

static void each_broken_block_is_named_by_who_needs_it(int fixed, uint64_t unit_rows) {
  fixture *part = make_part(ROWS, fixed, unit_rows);
  spread_out(part, 4);
  store_spread(part);
  uint64_t head = ur_load32(spread + UR_AT_HEADER_BYTES), entry = 192 + 32 * fixture_columns(part);
  for (uint64_t broken = 0; broken < blocks; broken++, entry += 48) {
    int kind = spread[entry], of = spread[entry + 2] | spread[entry + 3] << 8;
    char index[128];
    (void)snprintf(index, sizeof index, "%s.idx", path);
    spread[head + broken * BLOCK + BLOCK - 1] ^= 1;
    store_bytes(index, spread, spread_bytes);
    for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++)
      for (int column = 0; column < (int)fixture_columns(part); column++)
        for (int valid = 0; valid < 2; valid++) {
          ur_set *set = NULL;
          ur_error error = {0};
          EXPECT_EQUAL(open_one(io, UR_VERIFY_FIRST, &set, &error), UR_OK);
          ur_status expected = needs(part, column, valid, kind, of) ? UR_CORRUPT : UR_OK;
          EXPECT_EQUAL(read_one_column(set, column, valid, &error), expected);
          EXPECT_EQUAL(read_one_column(set, column, valid, NULL), expected);
          if (expected == UR_CORRUPT) EXPECT_EQUAL(error.file, UR_FILE_INDEX);
          if (expected == UR_CORRUPT && column < 2) EXPECT_EQUAL(error.column, column);
          if (expected == UR_CORRUPT) EXPECT_EQUAL(error.offset, head + broken * BLOCK);
          ur_set_release(set);
        }
    spread[head + broken * BLOCK + BLOCK - 1] ^= 1;
  }
  free(part);
}

static void values_of_every_width_are_gathered(void) {
  for (uint64_t width = 1; width <= 8; width *= 2) {
    fixture *part = make_part(ROWS, 0, 0);
    spread_out(part, width);
    store_spread(part);
    ur_set *set = NULL;
    uint64_t found[ROWS] = {0};
    uint8_t *bytes = (uint8_t *)found;
    int64_t rows[ROWS];
    for (int64_t i = 0; i < ROWS; i++) rows[i] = (i * 7) % ROWS;
    ur_output output = {0, 0, bytes, sizeof found, NULL, NULL, 0, NULL};
    EXPECT_EQUAL(open_one(UR_IO_MAP, UR_VERIFY_ALWAYS, &set, NULL), UR_OK);
    EXPECT_EQUAL(ur_set_read(set, rows, ROWS, &output, 1, NULL), UR_OK);
    EXPECT_EQUAL(output.used, width * ROWS);
    for (int64_t i = 0; i < ROWS; i++) EXPECT_EQUAL(bytes[width * (uint64_t)i], rows[i] % 5 == 4 ? 0 : rows[i] * 3);
    ur_set_release(set);
    free(part);
  }
}

static void a_large_index_that_is_cut_or_written_to_is_stale(void) {
  for (int cut = 0; cut < 2; cut++) {
    fixture *part = make_part(ROWS, 0, 0);
    spread_out(part, 4);
    store_spread(part);
    char index[128];
    (void)snprintf(index, sizeof index, "%s.idx", path);
    ur_set *set = NULL;
    ur_part *opened = NULL;
    ur_error error = {0};
    ur_section section;
    EXPECT_EQUAL(open_one(UR_IO_PREAD, UR_VERIFY_FIRST, &set, &error), UR_OK);
    EXPECT_EQUAL(ur_set_part(set, 0, &opened, &error), UR_OK);
    EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_VALUES, 0, &section), UR_OK);
    EXPECT_EQUAL(ur_part_check(opened, &section, 0, section.bytes, &error), UR_OK);
    (void)usleep(20000);
    EXPECT(cut ? truncate(index, 4096) == 0 : truncate(index, (off_t)spread_bytes) == 0);
    EXPECT_EQUAL(ur_part_check(opened, &section, 0, section.bytes, &error), UR_STALE);
    EXPECT_EQUAL(error.file, UR_FILE_INDEX);
    EXPECT_EQUAL(read_one_column(set, 0, 1, &error), UR_STALE);
    uint64_t offset = 0, bytes = 0;
    EXPECT_EQUAL(ur_part_locate(opened, 0, 3, &offset, &bytes, &error), UR_STALE);
    EXPECT_EQUAL(ur_part_locate(opened, 0, 3, &offset, &bytes, NULL), UR_STALE);
    int64_t row = 0;
    ur_set_advise(set, &row, 1);
    ur_part_release(opened);
    ur_set_release(set);
    free(part);
  }
}

/* ---- rows that lie beyond the file ------------------------------------------------------------------------------- */

static ur_status read_row(int io, int64_t row, int32_t column, ur_error *error) {
  static uint8_t bytes[256];
  int64_t offsets[2];
  ur_set *set = NULL;
  ur_output output = {column, 0, bytes, sizeof bytes, column == 3 ? offsets : NULL, NULL, 0, NULL};
  EXPECT_EQUAL(open_one(io, UR_VERIFY_FIRST, &set, error), UR_OK);
  ur_status status = ur_set_read(set, &row, 1, &output, 1, error);
  ur_set_release(set);
  return status;
}

static void the_end_page(fixture *part) {
  uint64_t at = part->data_bytes - 64;
  put_page(part, at, UR_PAGE_END, 1, part->rows, 0);
  put(part->index + UR_AT_DATA_BYTES, part->data_bytes, 8);
}

/* Row 4 ends with the file, whose length is no multiple of the alignment: what pads the row would lie beyond it. */
static void a_row_whose_padding_would_be_beyond_the_file_is_refused(void) {
  fixture *part = make_part(9, 0, 1);
  uint8_t *starts = NULL;
  for (uint64_t entry = 192 + 32 * 4;; entry += 48)
    if (part->index[entry] == UR_SECTION_ROW_STARTS) {
      starts = part->index + ur_load64(part->index + entry + 8);
      break;
    }
  uint64_t row = up(part->data_bytes, 8) + 64;
  part->data_bytes = row + 24 + 4;
  the_end_page(part);
  put(starts + 8 * 4, row, 8);
  seal_index(part);
  store_part(part, path);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_error error = {0};
    EXPECT_EQUAL(read_row(io, 4, 2, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.row, 4);
    EXPECT_EQUAL(read_row(io, 4, 2, NULL), UR_CORRUPT);
  }
  free(part);
}

static void a_unit_that_would_reach_beyond_the_file_is_refused(void) {
  fixture *part = make_part(8, 1, 4);
  uint64_t groups = ur_load64(part->index + 192 + 32 * 3 + 8);
  put(part->index + groups + 24, part->data_bytes - 48, 8); /* two rows of the unit's four are in the file */
  seal_index(part);
  store_part(part, path);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_error error = {0};
    EXPECT_EQUAL(read_row(io, 0, 2, &error), UR_CORRUPT);
    EXPECT_EQUAL(read_row(io, 3, 2, &error), UR_CORRUPT);
  }
  free(part);
}

static void places_near_2_to_the_64_are_refused(void) {
  fixture *part = make_part(9, 0, 1);
  store_part(part, path);
  ur_set *set = NULL;
  ur_part *opened = NULL;
  ur_section starts;
  ur_extent cells[2], whole;
  ur_error error = {0};
  EXPECT_EQUAL(open_one(UR_IO_PREAD, UR_VERIFY_NEVER, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_set_part(set, 0, &opened, NULL), UR_OK);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_ROW_STARTS, -1, &starts), UR_OK);
  uint64_t bytes = opened->header.data_bytes;
  opened->header.data_bytes = UINT64_MAX; /* no file is so large: all that is between is arithmetic */
  for (uint64_t back = 1; back < 200; back++) {
    put((uint8_t *)(uintptr_t)starts.data + 8 * 4, UINT64_MAX - back, 8);
    ur_status status = ur_locate_cells(opened, 4, 2, cells, &whole, &error);
    EXPECT(status == UR_CORRUPT || (status == UR_OK && whole.offset + whole.bytes > whole.offset));
  }
  put((uint8_t *)(uintptr_t)starts.data + 8 * 4, UINT64_MAX - 31, 8);
  EXPECT_EQUAL(ur_locate_cells(opened, 4, 2, cells, &whole, &error), UR_CORRUPT);
  opened->header.data_bytes = bytes;
  ur_part_release(opened);
  ur_set_release(set);
  ur_data_header header;
  ur_end_page page;
  EXPECT_EQUAL(ur_parse_data_header(part->data, 128, part->data_bytes, &header, NULL), UR_OK);
  const uint8_t *end = part->data + part->data_bytes - 64;
  EXPECT_EQUAL(ur_parse_end_page(end, &header, part->data_bytes, &page, NULL), UR_OK);
  header.header_bytes = (uint32_t)part->data_bytes - 63; /* an end page inside the head */
  EXPECT_EQUAL(ur_parse_end_page(end, &header, part->data_bytes, &page, NULL), UR_CORRUPT);
  free(part);
}

static void a_part_without_rows_can_be_opened(void) {
  fixture *part = make_part(0, 0, 0);
  put_page(part, part->data_bytes - 64, UR_PAGE_END, 0, 0, 0);
  store_part(part, path);
  for (int io = UR_IO_AUTO; io <= UR_IO_MEMORY; io++) {
    ur_set *set = NULL;
    EXPECT_EQUAL(open_one(io, UR_VERIFY_FIRST, &set, NULL), UR_OK);
    EXPECT_EQUAL(ur_set_rows(set), 0);
    static contents found;
    EXPECT_EQUAL(read_columns(set, NULL, 0, 4, &found, NULL), UR_OK);
    ur_set_release(set);
  }
  free(part);
}

/* Lengths that change between measuring and copying, as in a mapped index that is written over. */
static void values_of_another_length_than_measured_are_refused(void) {
  fixture *part = make_part(ROWS, 0, 0);
  store_part(part, path);
  for (int io = UR_IO_MAP; io <= UR_IO_PREAD; io++) {
    ur_set *set = NULL;
    ur_part *opened = NULL;
    EXPECT_EQUAL(open_one(io, UR_VERIFY_FIRST, &set, NULL), UR_OK);
    EXPECT_EQUAL(ur_set_part(set, 0, &opened, NULL), UR_OK);
    uint8_t bytes[64];
    int64_t row = 5, offsets[2] = {0, 60};
    ur_group group = {.part = opened, .number = 0, .count = 1, .rows = &row};
    ur_output strings = {1, 0, bytes, sizeof bytes, offsets, NULL, 60, NULL}, blobs = {3, 0, bytes, sizeof bytes, offsets, NULL, 60, NULL};
    ur_error error = {0};
    EXPECT_EQUAL(ur_gather_strings(&group, &strings, &error), UR_CORRUPT);
    EXPECT_EQUAL(ur_gather_cells(&group, 1, &blobs, 1, &error), UR_STALE);
    ur_part_release(opened);
    ur_set_release(set);
  }
  free(part);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  (void)snprintf(path, sizeof path, "%s/a.urec", folder);
  each_broken_block_is_named_by_who_needs_it(0, 0);
  each_broken_block_is_named_by_who_needs_it(0, 1);
  each_broken_block_is_named_by_who_needs_it(0, 4);
  each_broken_block_is_named_by_who_needs_it(1, 1);
  each_broken_block_is_named_by_who_needs_it(1, 4);
  values_of_every_width_are_gathered();
  a_large_index_that_is_cut_or_written_to_is_stale();
  a_row_whose_padding_would_be_beyond_the_file_is_refused();
  a_unit_that_would_reach_beyond_the_file_is_refused();
  places_near_2_to_the_64_are_refused();
  a_part_without_rows_can_be_opened();
  values_of_another_length_than_measured_are_refused();
  return remove_folder(folder);
}
