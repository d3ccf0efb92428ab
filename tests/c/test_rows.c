/* test_rows.c - what holds of the first row, column and part holds of the others: in small batches, by every way of reading. */
#define _GNU_SOURCE
#include "part_contents.h"
#include "unirecord_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { ROWS = 40, BOTH = 2 * ROWS };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[2][64];
static fixture *parts[2];

static void make(uint64_t unit_rows, int fixed) {
  for (int i = 0; i < 2; i++) {
    (void)snprintf(paths[i], sizeof paths[i], "%s/%d.urec", folder, i);
    free(parts[i]);
    parts[i] = make_part(ROWS, fixed, unit_rows);
    store_part(parts[i], paths[i]);
  }
}

static ur_set *open_both(int io, int verify) {
  ur_part_ref refs[2] = {{.data_path = paths[0], .rows = ROWS}, {.data_path = paths[1], .rows = ROWS}};
  ur_set_options options = {.io = io, .verify = verify};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, 2, &options, &set, NULL), UR_OK);
  return set;
}

/* Where the cell of blob column `column` of a row of the second part lies. */
static uint64_t place_of(int64_t row, int32_t column) {
  uint64_t offset = 0, bytes = 0;
  ur_set *set = open_both(UR_IO_PREAD, UR_VERIFY_NEVER);
  ur_part *part = NULL;
  EXPECT_EQUAL(ur_set_part(set, 1, &part, NULL), UR_OK);
  EXPECT_EQUAL(ur_part_locate(part, row, column, &offset, &bytes, NULL), UR_OK);
  EXPECT(bytes > 0);
  ur_part_release(part);
  ur_set_release(set);
  return offset;
}

/* Changes a byte of the second part's data file, which keeps its time. */
static void flip(uint64_t at) {
  struct stat facts;
  uint8_t byte;
  int fd = open(paths[1], O_RDWR);
  EXPECT(fd >= 0 && fstat(fd, &facts) == 0);
  EXPECT(pread(fd, &byte, 1, (off_t)at) == 1);
  byte ^= 1;
  EXPECT(pwrite(fd, &byte, 1, (off_t)at) == 1);
  struct timespec times[2] = {facts.st_atim, facts.st_mtim};
  EXPECT(futimens(fd, times) == 0);
  (void)close(fd);
}

/* Any order of the rows of two parts, whatever the digests cover. */
static void rows_of_two_parts_are_right_in_any_order(void) {
  static const int kinds[][2] = {{0, 0}, {1, 0}, {8, 0}, {1, 1}, {4, 1}, {64, 1}};
  static contents found;
  int64_t rows[BOTH];
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    make((uint64_t)kinds[kind][0], kinds[kind][1]);
    for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++)
      for (int64_t step = 1; step <= 7; step += 2) {
        ur_set *set = open_both(io, UR_VERIFY_ALWAYS);
        for (int64_t i = 0; i < BOTH; i++) rows[i] = (i * step + 3) % BOTH;
        int64_t n = step % 5 == 0 ? BOTH / 2 : BOTH; /* of multiples of 5 there are fewer, and some come again */
        EXPECT_EQUAL(read_columns(set, rows, n, 4 - kinds[kind][1], &found, NULL), UR_OK);
        for (int64_t i = 0; i < n; i++) expect_row(&found, i, rows[i] % ROWS, kinds[kind][1]);
        ur_set_release(set);
      }
  }
}

/* A wrong byte in the unit of one row is found whatever rows stand around it, though theirs have been checked. */
static void a_wrong_row_is_found_wherever_it_stands(void) {
  static const int kinds[][2] = {{0, 0}, {1, 0}, {8, 0}, {1, 1}, {4, 1}};
  static contents found;
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
    for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++)
      for (int place = 0; place < 3; place++) {
        make((uint64_t)kinds[kind][0], kinds[kind][1]);
        int64_t good[] = {0, 1, 2, 3, ROWS, ROWS + 1, ROWS + 2, ROWS + 3}, bad[] = {ROWS + 1, ROWS + 2, ROWS + 3};
        flip(place_of(ROWS - 1, 2));
        ur_set *set = open_both(io, UR_VERIFY_FIRST);
        ur_error error = {0};
        for (int again = 0; again < 2; again++)
          EXPECT_EQUAL(read_columns(set, good, 8, 4 - kinds[kind][1], &found, &error), UR_OK);
        bad[place] = BOTH - 1;
        EXPECT_EQUAL(read_columns(set, bad, 3, 4 - kinds[kind][1], &found, &error), UR_CORRUPT);
        EXPECT_EQUAL(error.part, 1);
        EXPECT_EQUAL(error.row, ROWS - 1);
        int64_t all[] = {0, BOTH - 1, 1};
        EXPECT_EQUAL(read_columns(set, all, 3, 4 - kinds[kind][1], &found, &error), UR_CORRUPT);
        EXPECT(error.part == 1 && error.row == ROWS - 1);
        ur_set_release(set);
      }
}

/* Of two wrong rows the first of the batch is named, by every way that reads them in turn. */
static void the_first_wrong_row_is_named(void) {
  static contents found;
  make(1, 0);
  flip(place_of(5, 2));
  flip(place_of(ROWS - 2, 2));
  ur_set *set = open_both(UR_IO_PREAD, UR_VERIFY_FIRST);
  for (int turned = 0; turned < 2; turned++) {
    int64_t rows[] = {1, ROWS + 3, turned ? BOTH - 2 : ROWS + 5, turned ? ROWS + 5 : BOTH - 2};
    ur_error error = {0};
    EXPECT_EQUAL(read_columns(set, rows, 4, 4, &found, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.part, 1);
    EXPECT_EQUAL(error.row, turned ? ROWS - 2 : 5);
  }
  ur_set_release(set);
}

/* A row number that is none is refused in each place, and by its number. */
static void a_row_that_is_none_is_refused_wherever_it_stands(void) {
  static contents found;
  make(1, 0);
  ur_set *set = open_both(UR_IO_PREAD, UR_VERIFY_FIRST);
  for (int place = 0; place < 3; place++)
    for (int wrong = 0; wrong < 2; wrong++) {
      int64_t rows[] = {0, BOTH - 1, 3};
      ur_error error = {0};
      rows[place] = wrong ? -1 : BOTH;
      EXPECT_EQUAL(read_columns(set, rows, 3, 4, &found, &error), UR_ARGUMENT);
      EXPECT_EQUAL(error.row, rows[place]);
    }
  ur_set_release(set);
}

/* That the second part's file has been written to is seen by a batch that begins in the first. */
static void a_second_part_that_has_changed_is_seen(void) {
  static contents found;
  for (int columns = 1; columns <= 4; columns++)
    for (int io = UR_IO_MAP; io < UR_IO_MEMORY; io++) {
      make(1, 0);
      ur_set *set = open_both(io, UR_VERIFY_NEVER);
      int64_t rows[] = {0, BOTH - 1}, first[] = {0};
      ur_error error = {0};
      EXPECT_EQUAL(read_columns(set, rows, 2, columns, &found, &error), UR_OK);
      struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
      EXPECT(utimensat(AT_FDCWD, paths[1], times, 0) == 0);
      EXPECT_EQUAL(read_columns(set, first, 1, columns, &found, &error), UR_OK);
      (void)usleep(20000); /* for a moment a look at a file is trusted */
      EXPECT_EQUAL(read_columns(set, rows, 2, columns, &found, &error), UR_STALE);
      EXPECT_EQUAL(error.part, 1);
      ur_set_release(set);
    }
}

/* Parts whose second column is another one are not of one set. */
static void a_second_column_that_is_another_one_is_refused(void) {
  static contents found;
  for (int column = 0; column < 3; column++) {
    make(1, 0);
    parts[1]->data[128 + 32 * column + 2] ^= 1; /* nullable or not */
    seal_data(parts[1]);
    memcpy(parts[1]->index + UR_AT_DATA_DIGEST, parts[1]->data + UR_AT_HEADER_DIGEST, 8);
    seal_index(parts[1]);
    store_part(parts[1], paths[1]);
    ur_set *set = open_both(UR_IO_PREAD, UR_VERIFY_FIRST);
    int64_t rows[] = {0, BOTH - 1};
    ur_error error = {0};
    EXPECT(read_columns(set, rows, 2, 4, &found, &error) != UR_OK);
    EXPECT_EQUAL(error.part, 1);
    ur_set_release(set);
  }
}

/* What a buffer is too large by is zero, to its end. */
static void room_that_is_left_over_is_zero(void) {
  uint8_t bytes[24 * 5];
  int64_t rows[] = {1, ROWS + 2};
  make(1, 0);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_set *set = open_both(io, UR_VERIFY_FIRST);
    memset(bytes, 0xee, sizeof bytes);
    ur_output output = {.column = 2, .data = bytes, .capacity = sizeof bytes};
    EXPECT_EQUAL(ur_set_read(set, rows, 2, &output, 1, NULL), UR_OK);
    for (size_t i = 0; i < sizeof bytes; i++) EXPECT_EQUAL(bytes[i], i < 24 ? 1 : i < 48 ? 2 : 0);
    ur_set_release(set);
  }
}

/* An index that has been sealed again is of the second part; what reading a cell of it by itself gives. */
static ur_status read_resealed(int io, int64_t row, ur_error *error) {
  uint8_t data[64];
  int64_t offsets[2];
  seal_index(parts[1]);
  store_part(parts[1], paths[1]);
  ur_set *set = open_both(io, UR_VERIFY_FIRST);
  ur_output output = {.column = 3, .data = data, .capacity = sizeof data, .offsets = offsets};
  int64_t wanted = (int64_t)parts[0]->rows + row;
  ur_status status = ur_set_read(set, &wanted, 1, &output, 1, error);
  ur_set_release(set);
  return status;
}

/* A cell of no bytes is not read, and has a digest like all others. */
static void an_empty_cell_has_its_digest(void) {
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_error error = {0};
    make(0, 0);
    EXPECT_EQUAL(read_resealed(io, 7, &error), UR_OK);
    section_of(parts[1], UR_SECTION_DIGESTS)[8 * (2 * 7 + 1)] ^= 1;
    EXPECT_EQUAL(read_resealed(io, 7, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.row, 7);
  }
}

/* A cell ends where the next row begins, to the byte. */
static void a_cell_that_reaches_into_the_next_row_is_refused(void) {
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_error error = {0};
    make(0, 0);
    uint8_t *starts = section_of(parts[1], UR_SECTION_ROW_STARTS);
    put(starts + 8 * 2, ur_load64(starts + 8 * 1) + 24, 8); /* of 25 bytes */
    EXPECT_EQUAL(read_resealed(io, 1, &error), UR_CORRUPT);
  }
}

/* Rows of other units by turns, as many as are read together and as go into scratch memory, and many more. */
static void more_rows_than_are_read_together_are_right(void) {
  enum { MANY = 5 * 4096 + 3 };
  static int64_t rows[MANY];
  static uint8_t data[MANY * 24];
  make(32, 0);
  for (int64_t i = 0; i < MANY; i++) rows[i] = i % 2 * 32 + i / 2 % 5;
  int ways[] = {UR_IO_PREAD, UR_IO_URING};
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
    for (int verify = UR_VERIFY_FIRST; verify <= UR_VERIFY_NEVER; verify++) {
      ur_set *set = open_both(ways[w], verify);
      ur_output output = {.column = 2, .data = data, .capacity = sizeof data};
      memset(data, 0xee, sizeof data);
      EXPECT_EQUAL(ur_set_read(set, rows, MANY, &output, 1, NULL), UR_OK);
      int right = 1;
      for (int64_t i = 0; i < MANY; i++)
        for (int b = 0; b < 24; b++) right &= data[24 * i + b] == rows[i];
      EXPECT(right);
      ur_set_release(set);
    }
}

/* The unit of the same number of the part before is another one. */
static void the_first_unit_of_a_second_part_is_its_own(void) {
  int ways[] = {UR_IO_PREAD, UR_IO_URING};
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    uint8_t data[2 * 24];
    int64_t rows[] = {0, ROWS + 1};
    ur_error error = {0};
    make(32, 0);
    flip(place_of(1, 2));
    ur_set *set = open_both(ways[w], UR_VERIFY_FIRST);
    ur_output output = {.column = 2, .data = data, .capacity = sizeof data};
    EXPECT_EQUAL(ur_set_read(set, rows, 2, &output, 1, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.part, 1);
    ur_set_release(set);
  }
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  rows_of_two_parts_are_right_in_any_order();
  a_wrong_row_is_found_wherever_it_stands();
  the_first_wrong_row_is_named();
  a_row_that_is_none_is_refused_wherever_it_stands();
  a_second_part_that_has_changed_is_seen();
  a_second_column_that_is_another_one_is_refused();
  room_that_is_left_over_is_zero();
  an_empty_cell_has_its_digest();
  a_cell_that_reaches_into_the_next_row_is_refused();
  more_rows_than_are_read_together_are_right();
  the_first_unit_of_a_second_part_is_its_own();
  for (int i = 0; i < 2; i++) free(parts[i]);
  return remove_folder(folder);
}
