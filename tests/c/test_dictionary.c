/* test_dictionary.c - numbers that a dictionary has, gathered from one part and from many; and codes without an entry. */
#define _GNU_SOURCE
#include "batch/direct.h"
#include "part_contents.h"

enum { ROWS = 30, PARTS = 12 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[PARTS][64];

static fixture *make(int coded) { return make_coded_part(ROWS, 1, 4, coded); }

static void store(const fixture *part) {
  for (int i = 0; i < PARTS; i++) {
    (void)snprintf(paths[i], sizeof paths[i], "%.40s/%d.urec", folder, i);
    store_part(part, paths[i]);
  }
}

static ur_set *open_set(int parts, int io, int verify) {
  ur_part_ref refs[PARTS];
  for (int i = 0; i < parts; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = ROWS};
  ur_set_options options = {.io = io, .verify = verify};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, parts, &options, &set, NULL), UR_OK);
  return set;
}

/* Reads column 0 of all rows in another order. */
static ur_status read_all(ur_set *set, int parts, int nulls, bool *direct, ur_error *error) {
  enum { MOST = ROWS * PARTS };
  static uint8_t data[4 * MOST], valid[MOST];
  int64_t rows[MOST], all = ROWS * parts;
  for (int64_t i = 0; i < all; i++) rows[i] = i * 77 % all;
  ur_output output = {.column = 0, .data = data, .capacity = sizeof data, .valid = valid};
  ur_read read;
  memset(data, 0xEE, sizeof data);
  ur_status status = ur_read_open(&read, set, rows, all, &output, 1, NULL, error);
  *direct = status == UR_OK && read.direct != NULL;
  if (status == UR_OK) status = ur_read_measure(&read, &output, 1, error);
  if (status == UR_OK) status = ur_read_gather(&read, &output, 1, error);
  ur_read_close(&read);
  for (int64_t i = 0; i < all && status == UR_OK; i++) {
    int64_t r = rows[i] % ROWS;
    bool null = nulls && r % 5 == 4;
    EXPECT_EQUAL(valid[i], !null);
    EXPECT_EQUAL(ur_load32(data + 4 * i), null ? 0 : 3 * r);
  }
  return status;
}

static void values_are_the_entries_of_their_codes(void) {
  static const int codes[] = {5, 6, 8};
  for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
    fixture *part = make(codes[c]);
    store(part);
    for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++)
      for (int verify = UR_VERIFY_FIRST; verify <= UR_VERIFY_NEVER; verify++)
        for (int parts = 1; parts <= PARTS; parts += PARTS - 1) {
          ur_set *set = open_set(parts, io, verify);
          bool direct = false, mapped = io == UR_IO_MAP || io == UR_IO_MEMORY;
          for (int i = 0; i < 3; i++) EXPECT_EQUAL(read_all(set, parts, has_nulls(part), &direct, NULL), UR_OK);
          /* with verification, not before the digests of all rows have been compared */
          EXPECT_EQUAL(direct, parts > 1 && mapped && verify == UR_VERIFY_NEVER && !has_nulls(part));
          ur_set_release(set);
        }
    free(part);
  }
}

static void a_code_without_an_entry_is_refused(void) {
  static const int codes[] = {5, 6, 8};
  for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
    for (int parts = 1; parts <= PARTS; parts += PARTS - 1) {
      fixture *part = make(codes[c]);
      *section_of(part, UR_SECTION_CODES) = 0xFF; /* of the first row */
      seal_index(part);
      store(part);
      ur_set *set = open_set(parts, UR_IO_MAP, UR_VERIFY_NEVER);
      bool direct = true;
      for (int i = 0; i < 3; i++) {
        ur_error error = {0};
        EXPECT_EQUAL(read_all(set, parts, has_nulls(part), &direct, &error), UR_CORRUPT);
        EXPECT_EQUAL(error.row % ROWS, 0);
        EXPECT_EQUAL(error.column, 0);
        EXPECT(strstr(error.what, "has no entry") != NULL);
        EXPECT(!direct);
      }
      ur_set_release(set);
      free(part);
    }
}

/* A part that is changed where it is mapped after it has been looked at gives other values, and no read outside. */
static void a_code_that_changes_is_no_read_outside(void) {
  fixture *part = make(8);
  store(part);
  ur_set *set = open_set(PARTS, UR_IO_MEMORY, UR_VERIFY_NEVER);
  bool direct = false;
  for (int i = 0; i < 3; i++) EXPECT_EQUAL(read_all(set, PARTS, 0, &direct, NULL), UR_OK);
  EXPECT(direct);
  ur_part *opened = NULL;
  EXPECT_EQUAL(ur_set_part(set, 0, &opened, NULL), UR_OK);
  ur_section section;
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_CODES, 0, &section), UR_OK);
  memset((uint8_t *)(uintptr_t)section.data, 0xFF, ROWS);
  int64_t rows[ROWS];
  uint8_t data[4 * ROWS];
  for (int64_t i = 0; i < ROWS; i++) rows[i] = i < PARTS ? i * ROWS : i;
  ur_output output = {.column = 0, .data = data, .capacity = sizeof data};
  EXPECT_EQUAL(ur_set_read(set, rows, ROWS, &output, 1, NULL), UR_OK);
  EXPECT_EQUAL(ur_load32(data), 0);
  ur_part_release(opened);
  ur_set_release(set);
  free(part);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  values_are_the_entries_of_their_codes();
  a_code_without_an_entry_is_refused();
  a_code_that_changes_is_no_read_outside();
  return remove_folder(folder);
}
