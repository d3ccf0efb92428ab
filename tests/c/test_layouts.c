/* test_layouts.c - parts that store more columns than their set has, or in another order: found by a layout. */
#define _GNU_SOURCE
#include "batch/read.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 20, PARTS = 2, ALL = PARTS * ROWS };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char wide_path[64], narrow_path[64];

/* The entries of these columns of the fixture's table. */
static void table_of(const int32_t *columns, size_t count, uint8_t *table) {
  static const fixture part = {.fixed = 0};
  uint8_t all[4 * UR_COLUMN_BYTES] = {0};
  put_columns(&part, all);
  for (size_t i = 0; i < count; i++)
    memcpy(table + i * UR_COLUMN_BYTES, all + (size_t)columns[i] * UR_COLUMN_BYTES, UR_COLUMN_BYTES);
}

/* A part of four columns and one of three, as a set with the columns that both have. */
static ur_status open_common(int io, int layout, ur_set **set, ur_error *error) {
  static const int32_t common[] = {0, 1, 2, 0, 1, 4, 0, 1, 1, -1, 1, 2, 0, 2, 1};
  uint8_t table[3 * UR_COLUMN_BYTES];
  table_of(common, 3, table);
  ur_part_ref refs[] = {{.data_path = wide_path, .rows = ROWS, .layout = layout}, {.data_path = narrow_path, .rows = ROWS}};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_ALWAYS, .table = table, .columns = 3, .layouts = common,
                            .layout_count = 5};
  return ur_set_open(refs, PARTS, &options, set, error);
}

static void parts_are_read_by_the_columns_of_their_set(void) {
  static contents found;
  int64_t rows[2 * ALL];
  for (int64_t i = 0; i < 2 * ALL; i++) rows[i] = i * 7 % ALL;
  for (int io = UR_IO_AUTO; io <= UR_IO_MEMORY; io++) {
    ur_set *set = NULL;
    ur_error error = {0};
    EXPECT_EQUAL(open_common(io, 1, &set, &error), UR_OK);
    ur_set_advise(set, rows, 2 * ALL);
    for (int again = 0; again < 3; again++) { /* by groups, and then straight where that is possible */
      EXPECT_EQUAL(read_columns(set, rows, 2 * ALL, 3, &found, &error), UR_OK);
      for (int64_t i = 0; i < 2 * ALL; i++) expect_row(&found, i, rows[i] % ROWS, 1);
    }
    EXPECT_EQUAL(read_columns(set, rows, 2, 4, &found, &error), UR_ARGUMENT);
    ur_set_release(set);
  }
}

static void any_order_of_columns_will_do(void) {
  static const int32_t layouts[] = {3, 1, 0};
  uint8_t table[3 * UR_COLUMN_BYTES], blobs[64], strings[8], numbers[8];
  int64_t offsets[2][3], rows[] = {ROWS + 5, 3};
  table_of(layouts, 3, table);
  for (int io = UR_IO_AUTO; io <= UR_IO_MEMORY; io++) {
    ur_part_ref refs[] = {{.data_path = wide_path, .rows = ROWS, .layout = 1}, {.data_path = wide_path, .rows = -1, .layout = 1}};
    ur_set_options options = {.io = io, .table = table, .columns = 3, .layouts = layouts, .layout_count = 1};
    ur_set *set = NULL;
    ur_part *part = NULL;
    ur_section section;
    ur_column_info info;
    uint64_t place[2];
    EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &set, NULL), UR_OK);
    ur_output outputs[] = {{.column = 0, .data = blobs, .capacity = sizeof blobs, .offsets = offsets[0]},
                           {.column = 1, .data = strings, .capacity = sizeof strings, .offsets = offsets[1]},
                           {.column = 2, .data = numbers, .capacity = sizeof numbers}};
    EXPECT_EQUAL(ur_set_read(set, rows, 2, outputs, 3, NULL), UR_OK);
    EXPECT_EQUAL(offsets[0][2], 5 + 3);
    EXPECT_EQUAL(blobs[0], 6);
    EXPECT_EQUAL(blobs[5], 4);
    EXPECT_EQUAL(strings[1], '0' + 5 % 3);
    EXPECT_EQUAL(ur_load32(numbers), 15);
    EXPECT_EQUAL(ur_load32(numbers + 4), 9);
    EXPECT_EQUAL(ur_set_part(set, 1, &part, NULL), UR_OK);
    EXPECT_EQUAL(ur_part_column(part, 2, &info), UR_OK);
    EXPECT_EQUAL(info.fixed_bytes, 4);
    EXPECT_EQUAL(ur_part_column(part, 3, &info), UR_ARGUMENT); /* the file's own columns are not shown */
    EXPECT_EQUAL(ur_part_section(part, UR_SECTION_VALUES, 2, &section), UR_OK);
    EXPECT_EQUAL(section.count, ROWS);
    EXPECT_EQUAL(ur_part_section(part, UR_SECTION_VALUES, 0, &section), UR_NOT_FOUND);
    EXPECT_EQUAL(ur_part_section(part, UR_SECTION_LENGTHS, 3, &section), UR_ARGUMENT);
    EXPECT_EQUAL(ur_part_locate(part, 5, 0, place, place + 1, NULL), UR_OK);
    EXPECT_EQUAL(place[1], 5);
    EXPECT_EQUAL(ur_part_locate(part, 5, 1, place, place + 1, NULL), UR_ARGUMENT);
    ur_part_release(part);
    ur_set_release(set);
  }
}

static void a_bad_cell_is_named_by_the_columns_of_its_set(void) {
  static const int32_t layouts[] = {3, 2};
  uint8_t table[2 * UR_COLUMN_BYTES], blobs[64];
  int64_t offsets[2], rows[] = {11};
  fixture *part = make_part(ROWS, 0, 0); /* a digest for each blob */
  char other[64];
  table_of(layouts, 2, table);
  (void)snprintf(other, sizeof other, "%.40s/bad.urec", folder);
  store_part(part, other);
  ur_part_ref ref = {.data_path = other, .rows = ROWS, .layout = 1};
  ur_set_options options = {.io = UR_IO_PREAD, .table = table, .columns = 2, .layouts = layouts, .layout_count = 1};
  ur_set *set = NULL;
  ur_part *opened = NULL;
  ur_error error = {0};
  uint64_t place[2];
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_set_part(set, 0, &opened, NULL), UR_OK);
  EXPECT_EQUAL(ur_part_locate(opened, 11, 0, place, place + 1, NULL), UR_OK);
  ur_part_release(opened);
  ur_set_release(set);
  part->data[place[0]] ^= 1;
  store_part(part, other);
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
  ur_output output = {.column = 0, .data = blobs, .capacity = sizeof blobs, .offsets = offsets};
  EXPECT_EQUAL(ur_set_read(set, rows, 1, &output, 1, &error), UR_CORRUPT);
  EXPECT_EQUAL(error.column, 0);
  EXPECT_EQUAL(error.row, 11);
  ur_set_release(set);
  free(part);
}

static void what_does_not_fit_is_refused(void) {
  static contents found;
  int64_t row = 0;
  ur_set *set = NULL;
  ur_error error = {0};
  for (int layout = 2; layout <= 5; layout++) { /* no such column, one twice, one below zero, and another order */
    EXPECT_EQUAL(open_common(UR_IO_PREAD, layout, &set, &error), UR_OK);
    EXPECT_EQUAL(read_columns(set, &row, 1, 3, &found, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.part, 0);
    ur_set_release(set);
  }
  EXPECT_EQUAL(open_common(UR_IO_PREAD, 0, &set, &error), UR_OK);
  EXPECT_EQUAL(read_columns(set, &row, 1, 3, &found, &error), UR_CORRUPT); /* four columns where three are expected */
  ur_set_release(set);
  EXPECT_EQUAL(open_common(UR_IO_PREAD, 6, &set, &error), UR_ARGUMENT);
  EXPECT_EQUAL(open_common(UR_IO_PREAD, -1, &set, &error), UR_ARGUMENT);
  ur_part_ref ref = {.data_path = wide_path, .rows = ROWS, .layout = 1};
  ur_set_options options = {.io = UR_IO_PREAD};
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, &error), UR_ARGUMENT);
}

int main(void) {
  if (mkdtemp(folder) == NULL) return 1;
  fixture *wide = make_part(ROWS, 0, 0), *narrow = make_part(ROWS, 1, 0);
  (void)snprintf(wide_path, sizeof wide_path, "%.40s/wide.urec", folder);
  (void)snprintf(narrow_path, sizeof narrow_path, "%.40s/narrow.urec", folder);
  store_part(wide, wide_path);
  store_part(narrow, narrow_path);
  free(wide);
  free(narrow);
  parts_are_read_by_the_columns_of_their_set();
  any_order_of_columns_will_do();
  a_bad_cell_is_named_by_the_columns_of_its_set();
  what_does_not_fit_is_refused();
  return remove_folder(folder);
}
