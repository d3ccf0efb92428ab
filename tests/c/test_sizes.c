/* test_sizes.c - sizes that a file makes up: sums that wrap, rows on top of each other, more bytes than the files hold. */
#define _GNU_SOURCE
#include "base/check.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 40 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char path[64];

static ur_status open_part(int32_t io, ur_set **set, ur_error *error) {
  ur_part_ref ref = {.data_path = path, .rows = ROWS};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
  ur_status status = ur_set_open(&ref, 1, &options, set, error);
  ur_part *part = NULL;
  if (status == UR_OK) status = ur_set_part(*set, 0, &part, error);
  ur_part_release(part);
  return status;
}

/* The rows 0, 1, … or row 0 again and again. */
static void number(int64_t *rows, int64_t step) {
  for (int64_t i = 0; i < ROWS; i++) rows[i] = i * step;
}

static void arrays_are_appended_as_far_as_64_bits_reach(void) {
  uint64_t at = 10, place = 0;
  EXPECT(ur_append_array(&at, 3, 8, 64, &place));
  EXPECT_EQUAL(place, 10);
  EXPECT_EQUAL(at, 64);
  EXPECT(!ur_append_array(&at, UINT64_C(1) << 61, 8, 64, &place));
  EXPECT(!ur_append_array(&at, UINT64_MAX - 63, 1, 64, &place));
  EXPECT_EQUAL(place, 10);
}

/* 2^61 bytes a value: eight of them are 2^64, which wraps to none at all. */
static void values_larger_than_their_file_are_refused_at_opening(void) {
  for (uint64_t shift = 16; shift <= 62; shift++) {
    fixture *part = make_part(ROWS, 0, 1);
    put(part->data + 128 + 32 * 2 + 8, UINT64_C(1) << shift, 8);
    put(part->index + 192 + 32 * 2 + 8, UINT64_C(1) << shift, 8);
    seal_data(part);
    seal_index(part);
    store_part(part, path);
    ur_set *set = NULL;
    ur_error error = {0};
    EXPECT_EQUAL(open_part(UR_IO_MAP, &set, &error), UR_CORRUPT);
    ur_set_release(set);
    free(part);
  }
}

static void rows_that_overlap_are_refused(void) {
  fixture *part = make_part(ROWS, 0, 0);
  uint8_t *starts = section_of(part, UR_SECTION_ROW_STARTS);
  for (uint64_t r = 0; r < ROWS; r++) memcpy(starts + 8 * r, starts, 8);
  seal_index(part);
  store_part(part, path);
  static contents found;
  for (int32_t io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_set *set = NULL;
    ur_error error = {0};
    int64_t row = 3;
    EXPECT_EQUAL(open_part(io, &set, &error), UR_OK);
    EXPECT_EQUAL(read_columns(set, &row, 1, 4, &found, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.row, 3);
    ur_set_release(set);
  }
  free(part);
}

/* Every cell of column 3 as long as the data file: the sum of all is never asked for, but one cell again and again is. */
static void rows_that_differ_are_not_more_than_the_files_hold(void) {
  fixture *part = make_part(ROWS, 0, 0);
  uint8_t *lengths = section_of(part, UR_SECTION_LENGTHS);
  for (uint64_t r = 0; r < ROWS; r++) put(lengths + 4 * r, part->data_bytes, 4);
  seal_index(part);
  store_part(part, path);
  ur_set *set = NULL;
  ur_error error = {0};
  int64_t rows[ROWS], offsets[2][ROWS + 1];
  ur_output twice[2] = {{.column = 3, .offsets = offsets[0]}, {.column = 3, .offsets = offsets[1]}};
  EXPECT_EQUAL(open_part(UR_IO_MAP, &set, &error), UR_OK);
  number(rows, 1);
  EXPECT_EQUAL(ur_set_read(set, rows, ROWS, twice, 2, &error), UR_CORRUPT);
  EXPECT_EQUAL(error.part, 0);
  EXPECT_EQUAL(ur_set_read(set, rows, 1, twice, 2, &error), UR_TOO_SMALL);
  number(rows, 0);
  EXPECT_EQUAL(ur_set_read(set, rows, ROWS, twice, 2, &error), UR_TOO_SMALL);
  EXPECT_EQUAL(twice[1].used, ROWS * part->data_bytes);
  ur_set_release(set);
  free(part);
}

/* A sound part before it does not stand in for what the second one holds, nor does its first column. */
static void what_the_second_part_cannot_hold_is_refused(void) {
  char second[80], index[96];
  (void)snprintf(second, sizeof second, "%s/second.urec", folder);
  fixture *part = make_part(ROWS, 0, 0);
  store_part(part, path);
  uint8_t *lengths = section_of(part, UR_SECTION_LENGTHS);
  for (uint64_t r = 0; r < ROWS; r++) put(lengths + 4 * r, part->data_bytes, 4);
  seal_index(part);
  store_part(part, second);
  ur_part_ref refs[2] = {{.data_path = path, .rows = ROWS}, {.data_path = second, .rows = ROWS}};
  ur_set_options options = {.io = UR_IO_MAP, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  ur_error error = {0};
  int64_t rows[ROWS], offsets[ROWS + 1];
  for (int64_t i = 0; i < ROWS; i++) rows[i] = i == 0 ? 0 : ROWS + i;
  ur_output both[2] = {{.column = 2}, {.column = 3, .offsets = offsets}};
  EXPECT_EQUAL(ur_set_open(refs, 2, &options, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_set_read(set, rows, ROWS, both, 2, &error), UR_CORRUPT);
  EXPECT_EQUAL(error.part, 1);
  ur_set_release(set);
  free(part);
  (void)snprintf(index, sizeof index, "%s.idx", second);
  (void)unlink(index);
  (void)unlink(second);
}

static void a_loader_takes_no_memory_for_what_the_files_cannot_hold(void) {
  ur_set *set = NULL;
  ur_pool *pool = NULL;
  ur_order *order = NULL;
  ur_loader *loader = NULL;
  ur_error error = {0};
  ur_batch_info info;
  int32_t column = 3;
  EXPECT_EQUAL(open_part(UR_IO_MAP, &set, &error), UR_OK);
  EXPECT_EQUAL(ur_pool_new(0, &pool, NULL), UR_OK);
  EXPECT_EQUAL(ur_order_new(ROWS, UR_ORDER_SEQUENTIAL, 0, 0, 1, 1, NULL, 0, &order, NULL), UR_OK);
  ur_loader_options options = {.order = order, .selection_step = 1, .stride = 1, .samples = ROWS, .batch_size = ROWS,
                               .prefetch = 1, .threads = 1, .output_count = 1, .columns = &column};
  EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, NULL), UR_OK);
  EXPECT_EQUAL(ur_loader_next(loader, &info, &error), UR_CORRUPT);
  EXPECT_EQUAL(ur_pool_allocations(pool), 0);
  ur_loader_release(loader);
  ur_order_release(order);
  ur_pool_release(pool);
  ur_set_release(set);
}

/* Room for 64 values of which 40 come: the rest is zero, not what stood there. */
static void what_is_left_of_a_buffer_of_fixed_width_is_zero(void) {
  fixture *part = make_part(ROWS, 1, 0);
  store_part(part, path);
  ur_set *set = NULL;
  ur_error error = {0};
  int64_t rows[ROWS];
  uint8_t bytes[64 * 24];
  memset(bytes, 0xee, sizeof bytes);
  ur_output output = {.column = 2, .data = bytes, .capacity = sizeof bytes};
  number(rows, 1);
  EXPECT_EQUAL(open_part(UR_IO_MAP, &set, &error), UR_OK);
  EXPECT_EQUAL(ur_set_read(set, rows, ROWS, &output, 1, &error), UR_OK);
  EXPECT_EQUAL(output.used, ROWS * 24);
  for (size_t i = 0; i < sizeof bytes; i++) EXPECT_EQUAL(bytes[i], i < ROWS * 24 ? i / 24 : 0);
  ur_set_release(set);
  free(part);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  (void)snprintf(path, sizeof path, "%s/part.urec", folder);
  arrays_are_appended_as_far_as_64_bits_reach();
  values_larger_than_their_file_are_refused_at_opening();
  rows_that_overlap_are_refused();
  what_the_second_part_cannot_hold_is_refused();
  rows_that_differ_are_not_more_than_the_files_hold();
  a_loader_takes_no_memory_for_what_the_files_cannot_hold();
  what_is_left_of_a_buffer_of_fixed_width_is_zero();
  char index[96];
  (void)snprintf(index, sizeof index, "%s.idx", path);
  (void)unlink(index);
  (void)unlink(path);
  (void)rmdir(folder);
  return 0;
}
