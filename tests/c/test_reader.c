/* test_reader.c - opening and reading parts: right bytes by every way of reading, and no file that can do harm. */
#define _GNU_SOURCE
#include "batch/read.h"
#include "part_contents.h"
#include "unirecord_internal.h"

#include <stdbool.h>
#include <sys/wait.h>

enum { ROWS = 40 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char path[64], second[64];

static ur_status open_parts(int parts, int io, int verify, ur_set **set, ur_error *error) {
  ur_part_ref refs[2] = {{.data_path = path, .rows = -1}, {.data_path = second, .rows = -1}};
  ur_set_options options = {.io = io, .verify = verify};
  return ur_set_open(refs, parts, &options, set, error);
}

static void every_way_of_reading_gives_the_rows(void) {
  static const int kinds[][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 8}, {0, 64}, {1, 0}, {1, 1}, {1, 4}, {1, 64}};
  int64_t rows[2 * ROWS];
  for (int64_t i = 0; i < 2 * ROWS; i++) rows[i] = i * 7 % ROWS;
  for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
    fixture *part = make_part(ROWS, kinds[kind][0], (uint64_t)kinds[kind][1]);
    store_part(part, path);
    for (int io = UR_IO_AUTO; io <= UR_IO_MEMORY; io++)
      for (int verify = UR_VERIFY_FIRST; verify <= UR_VERIFY_NEVER; verify++) {
        ur_set *set = NULL;
        ur_error error = {0};
        static contents found;
        EXPECT_EQUAL(open_parts(1, io, verify, &set, &error), UR_OK);
        for (int again = 0; again < 2; again++) {
          EXPECT_EQUAL(read_columns(set, rows, 2 * ROWS, 4 - part->fixed, &found, &error), UR_OK);
          for (int64_t i = 0; i < 2 * ROWS; i++) expect_row(&found, i, rows[i], part->fixed);
        }
        ur_set_release(set);
      }
    free(part);
  }
}

static void rows_of_several_parts_come_in_the_order_asked(void) {
  fixture *part = make_part(ROWS, 0, 0), *other = make_part(5, 0, 1);
  store_part(part, path);
  store_part(other, second);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_set *set = NULL;
    ur_error error = {0};
    static contents found;
    int64_t rows[] = {44, 0, 41, 39, 40, 1, 44, 40}, n = 8;
    EXPECT_EQUAL(open_parts(2, io, UR_VERIFY_FIRST, &set, &error), UR_OK);
    EXPECT_EQUAL(ur_set_rows(set), 45);
    EXPECT_EQUAL(read_columns(set, rows, n, 4, &found, &error), UR_OK);
    for (int64_t i = 0; i < n; i++) expect_row(&found, i, rows[i] % ROWS, 0);
    ur_output measured[] = {{.column = 0}, {.column = 1, .offsets = found.offsets[1]}, {.column = 2},
                            {.column = 3, .offsets = found.offsets[3]}};
    ur_read read;
    EXPECT_EQUAL(ur_read_open(&read, set, rows, n, NULL, 0, NULL, &error), UR_OK);
    EXPECT_EQUAL(ur_read_measure(&read, measured, 4, &error), UR_OK);
    ur_read_close(&read);
    for (int c = 0; c < 4; c++) EXPECT_EQUAL(measured[c].used, found.used[c]);
    ur_set_advise(set, rows, n);
    int64_t number = 0, inside = 0;
    EXPECT_EQUAL(ur_set_find(set, 41, &number, &inside), UR_OK);
    EXPECT_EQUAL(number, 1);
    EXPECT_EQUAL(inside, 1);
    ur_set_release(set);
  }
  free(part);
  free(other);
}

/* The rows of a batch are read over all parts together; what is wrong with one is said of that one. */
static void a_bad_cell_is_named_by_part_and_row(void) {
  fixture *part = make_part(ROWS, 0, 0), *other = make_part(ROWS, 0, 0);
  ur_set *set = NULL;
  ur_part *opened = NULL;
  uint64_t offset = 0, bytes = 0;
  store_part(part, path);
  store_part(other, second);
  EXPECT_EQUAL(open_parts(2, UR_IO_PREAD, UR_VERIFY_FIRST, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_set_part(set, 1, &opened, NULL), UR_OK);
  EXPECT_EQUAL(ur_part_locate(opened, 11, 2, &offset, &bytes, NULL), UR_OK);
  ur_part_release(opened);
  ur_set_release(set);
  other->data[offset] ^= 1;
  store_part(other, second);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    int64_t rows[] = {3, ROWS + 2, 30, ROWS + 11, 0, ROWS + 39};
    ur_error error = {0};
    static contents found;
    EXPECT_EQUAL(open_parts(2, io, UR_VERIFY_FIRST, &set, NULL), UR_OK);
    EXPECT_EQUAL(read_columns(set, rows, 6, 4, &found, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.part, 1);
    EXPECT_EQUAL(error.row, 11);
    EXPECT_EQUAL(error.column, 2);
    EXPECT_EQUAL(error.offset, offset);
    rows[3] = ROWS + 12;
    EXPECT_EQUAL(read_columns(set, rows, 6, 4, &found, &error), UR_OK);
    for (int64_t i = 0; i < 6; i++) expect_row(&found, i, rows[i] % ROWS, 0);
    ur_set_release(set);
  }
  free(part);
  free(other);
}

static void wrong_calls_are_refused(void) {
  fixture *part = make_part(ROWS, 0, 0);
  store_part(part, path);
  ur_set *set = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(open_parts(1, UR_IO_MAP, UR_VERIFY_FIRST, &set, &error), UR_OK);
  int64_t outside[] = {0, ROWS}, inside[] = {3};
  static contents found;
  EXPECT_EQUAL(read_columns(set, outside, 2, 4, &found, &error), UR_ARGUMENT);
  EXPECT_EQUAL(error.row, ROWS);
  uint8_t byte = 0;
  int64_t offsets[2];
  ur_output few = {2, 0, &byte, 1, NULL, NULL, 0, NULL};
  EXPECT_EQUAL(ur_set_read(set, inside, 1, &few, 1, &error), UR_TOO_SMALL);
  EXPECT_EQUAL(few.used, 24);
  ur_output no_offsets = {3, 0, &byte, 1, NULL, NULL, 0, NULL}, needless = {0, 0, &byte, 1, offsets, NULL, 0, NULL},
            unknown = {4, 0, &byte, 1, NULL, NULL, 0, NULL};
  EXPECT_EQUAL(ur_set_read(set, inside, 1, &no_offsets, 1, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_read(set, inside, 1, &needless, 1, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_read(set, inside, 1, &unknown, 1, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_read(set, inside, -1, &unknown, 1, NULL), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_read(set, inside, 0, &few, 1, &error), UR_OK);
  ur_set *refused = NULL;
  ur_set_options options = {.io = 99, .verify = 0};
  EXPECT_EQUAL(ur_set_open(NULL, 0, &options, &refused, &error), UR_ARGUMENT);
  ur_set_release(set);
  free(part);
}

static void a_closed_set_answers_so_and_its_parts_live_on(void) {
  fixture *part = make_part(ROWS, 1, 4);
  store_part(part, path);
  ur_set *set = NULL;
  ur_part *opened = NULL;
  EXPECT_EQUAL(open_parts(1, UR_IO_MAP, UR_VERIFY_FIRST, &set, NULL), UR_OK);
  EXPECT_EQUAL(ur_set_part(set, 0, &opened, NULL), UR_OK);
  ur_set_close(ur_set_retain(set));
  int64_t row = 1;
  static contents found;
  ur_error error = {0};
  EXPECT_EQUAL(read_columns(set, &row, 1, 3, &found, &error), UR_CLOSED);
  EXPECT_EQUAL(ur_set_part(set, 0, &opened, &error), UR_CLOSED);
  ur_set_release(set);
  ur_set_release(set);
  ur_part_info info;
  ur_part_describe(opened, &info);
  EXPECT_EQUAL(info.rows, ROWS);
  ur_section section;
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_VALUES, 0, &section), UR_OK);
  EXPECT_EQUAL(ur_part_check(opened, &section, 0, section.bytes, NULL), UR_OK);
  EXPECT_EQUAL(ur_load32(section.data + 4), 3);
  EXPECT_EQUAL(ur_part_check(opened, &section, 1, section.bytes, NULL), UR_ARGUMENT);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_ORDER, 0, &section), UR_NOT_FOUND);
  uint64_t offset = 0, bytes = 0;
  EXPECT_EQUAL(ur_part_locate(opened, 7, 2, &offset, &bytes, NULL), UR_OK);
  EXPECT_EQUAL(part->data[offset], 7);
  EXPECT_EQUAL(ur_part_locate(opened, ROWS, 2, &offset, &bytes, NULL), UR_ARGUMENT);
  ur_part_release(opened);
  free(part);
}

/* Opens what is at `path` and reads all of it; the contents must be the fixture's where the reader says it is well. */
static ur_status try_all(const fixture *part, int io, int verify, bool compare) {
  ur_set *set = NULL;
  ur_error error = {0};
  static contents found;
  int64_t rows[ROWS];
  ur_status status = open_parts(1, io, verify, &set, &error);
  if (status != UR_OK) {
    EXPECT(error.what[0] != '\0');
    return status;
  }
  int64_t n = ur_set_rows(set) < ROWS ? ur_set_rows(set) : ROWS;
  for (int64_t i = 0; i < n; i++) rows[i] = i;
  ur_set_advise(set, rows, n);
  status = read_columns(set, rows, n, 4 - part->fixed, &found, &error);
  if (status == UR_OK && compare) {
    EXPECT_EQUAL(n, part->rows);
    for (int64_t i = 0; i < n; i++) expect_row(&found, i, i, part->fixed);
  }
  ur_set_release(set);
  return status;
}

static void every_flipped_bit_is_seen_or_harmless(void) {
  for (int kind = 0; kind < 2; kind++) {
    fixture *part = make_part(9, kind, (uint64_t)kind * 4);
    for (int file = 0; file < 2; file++) {
      uint8_t *bytes = file ? part->index : part->data;
      uint64_t count = file ? part->index_bytes : part->data_bytes;
      for (uint64_t bit = 0; bit < 8 * count; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << (bit % 8));
        store_again(part, path);
        (void)try_all(part, bit % 2 ? UR_IO_MAP : UR_IO_PREAD, UR_VERIFY_FIRST, true);
        bytes[bit / 8] ^= (uint8_t)(1 << (bit % 8));
      }
    }
    free(part);
  }
}

static void every_truncation_is_refused(void) {
  fixture *part = make_part(9, 0, 0);
  uint64_t data = part->data_bytes, index = part->index_bytes;
  for (uint64_t length = 0; length < data; length++) {
    part->data_bytes = length;
    store_again(part, path);
    EXPECT(try_all(part, UR_IO_MAP, UR_VERIFY_NEVER, false) != UR_OK);
  }
  part->data_bytes = data;
  for (uint64_t length = 0; length < index; length++) {
    part->index_bytes = length;
    store_again(part, path);
    EXPECT(try_all(part, UR_IO_MAP, UR_VERIFY_NEVER, false) != UR_OK);
  }
  free(part);
}

/* Files whose digests are right and whose fields are anything: nothing may be read or written outside. */
static void sealed_nonsense_does_no_harm(void) {
  static const uint64_t values[] = {0,         1,         3,         UINT32_MAX - 1, UINT32_MAX,     (uint64_t)1 << 32,
                                    (uint64_t)1 << 62, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX - 7, UINT64_MAX};
  for (int kind = 0; kind < 3; kind++) {
    fixture *part = make_part(9, kind > 0, kind == 2 ? 4 : 0);
    for (int file = 0; file < 2; file++) {
      uint8_t *bytes = file ? part->index : part->data;
      uint64_t count = file ? part->index_bytes : part->data_bytes;
      for (uint64_t at = 8; at + 8 <= count; at += 4)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
          uint8_t before[8];
          int width = v % 2 ? 8 : 4;
          memcpy(before, bytes + at, 8);
          put(bytes + at, values[v], width);
          seal_data(part);
          seal_index(part);
          store_again(part, path);
          int io = (int)(v % 2 ? UR_IO_PREAD : UR_IO_MAP);
          (void)try_all(part, io, at % 8 ? UR_VERIFY_NEVER : UR_VERIFY_FIRST, false);
          memcpy(bytes + at, before, 8);
          seal_data(part);
          seal_index(part);
        }
    }
    free(part);
  }
}

/* An index with the id and the sizes of the part, made for other values: refused, and the one that waits is taken. */
static void an_index_of_other_content_is_stale(void) {
  char index[80], waiting[80];
  (void)snprintf(index, sizeof index, "%s.idx", path);
  (void)snprintf(waiting, sizeof waiting, "%s.idx.new", path);
  fixture *part = make_part(ROWS, 1, 4);
  for (int io = UR_IO_AUTO; io <= UR_IO_MEMORY; io++)
    for (int verify = UR_VERIFY_FIRST; verify <= UR_VERIFY_NEVER; verify++) {
      ur_set *set = NULL;
      ur_error error = {0};
      store_part(part, path);
      EXPECT(rename(index, waiting) == 0);
      part->index[UR_AT_CONTENT_DIGEST + (io + 7 * verify) % (int)UR_WIDE_BYTES] ^= 1; /* any byte of it */
      put(part->index + UR_AT_INDEX_HEADER_DIGEST,
          ur_xxh3_64(part->index, 184, ur_seed(fixture_id, UR_DOMAIN_INDEX_HEADER, 0)), 8);
      store_bytes(index, part->index, part->index_bytes);
      EXPECT_EQUAL(open_parts(1, io, verify, &set, &error), UR_OK);
      ur_set_release(set);
      EXPECT(rename(index, waiting) == 0);
      EXPECT_EQUAL(open_parts(1, io, verify, &set, &error), UR_NOT_FOUND);
      store_bytes(index, part->index, part->index_bytes);
      EXPECT_EQUAL(open_parts(1, io, verify, &set, &error), UR_STALE);
      EXPECT_EQUAL(error.file, UR_FILE_INDEX);
      EXPECT_EQUAL(error.offset, UR_AT_CONTENT_DIGEST);
      EXPECT(unlink(waiting) == 0);
      seal_index(part);
    }
  free(part);
}

static void a_shorter_or_rewritten_file_is_stale(void) {
  for (int io = UR_IO_MAP; io < UR_IO_MEMORY; io++)
    for (int shorter = 0; shorter < 2; shorter++) {
      fixture *part = make_part(ROWS, 1, 4);
      store_part(part, path);
      ur_set *set = NULL;
      ur_error error = {0};
      static contents found;
      int64_t row = 3;
      EXPECT_EQUAL(open_parts(1, io, UR_VERIFY_FIRST, &set, &error), UR_OK);
      EXPECT_EQUAL(read_columns(set, &row, 1, 3, &found, &error), UR_OK);
      (void)usleep(20000);
      if (shorter) EXPECT(truncate(path, (off_t)part->data_bytes - 64) == 0);
      if (!shorter) {
        FILE *file = fopen(path, "r+b");
        EXPECT(file != NULL && fputc('x', file) == 'x' && fclose(file) == 0);
      }
      EXPECT_EQUAL(read_columns(set, &row, 1, 3, &found, &error), UR_STALE);
      EXPECT_EQUAL(error.part, 0);
      EXPECT_EQUAL(error.file, UR_FILE_DATA);
      ur_set_release(set);
      free(part);
    }
}

static void a_forked_child_reads_on(void) {
  fixture *part = make_part(ROWS, 0, 1);
  store_part(part, path);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_set *set = NULL;
    static contents found;
    int64_t rows[] = {1, 30, 2};
    EXPECT_EQUAL(open_parts(1, io, UR_VERIFY_FIRST, &set, NULL), UR_OK);
    EXPECT_EQUAL(read_columns(set, rows, 1, 4, &found, NULL), UR_OK);
    pid_t child = fork();
    if (child == 0) {
      if (read_columns(set, rows, 3, 4, &found, NULL) != UR_OK) _exit(1);
      for (int64_t i = 0; i < 3; i++) expect_row(&found, i, rows[i], 0);
      _exit(0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    EXPECT_EQUAL(read_columns(set, rows, 3, 4, &found, NULL), UR_OK);
    ur_set_release(set);
  }
  free(part);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  (void)snprintf(path, sizeof path, "%s/a.urec", folder);
  (void)snprintf(second, sizeof second, "%s/b.urec", folder);
  every_way_of_reading_gives_the_rows();
  rows_of_several_parts_come_in_the_order_asked();
  a_bad_cell_is_named_by_part_and_row();
  wrong_calls_are_refused();
  a_closed_set_answers_so_and_its_parts_live_on();
  every_flipped_bit_is_seen_or_harmless();
  every_truncation_is_refused();
  sealed_nonsense_does_no_harm();
  an_index_of_other_content_is_stale();
  a_shorter_or_rewritten_file_is_stale();
  a_forked_child_reads_on();
  return remove_folder(folder);
}
