/* test_references.c - wrong references, wrong files, wrong calls: named, each of them; parts outlive what refers to them. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "base/copy.h"
#include "batch/read.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 40 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char path[64], second[64];

static ur_status open_one(int io, int verify, ur_set **set, ur_error *error) {
  ur_part_ref ref = {.data_path = path, .rows = -1};
  ur_set_options options = {.io = io, .verify = verify};
  return ur_set_open(&ref, 1, &options, set, error);
}

/* ---- references and calls --------------------------------------------------------------------------------------- */

static ur_status open_ref(const char *data, const char *index, const uint8_t *id, int64_t rows, ur_error *error) {
  ur_part_ref ref = {.data_path = data, .index_path = index, .id = id, .rows = rows};
  ur_set_options options = {.io = UR_IO_MAP, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  ur_part *part = NULL;
  ur_status status = ur_set_open(&ref, 1, &options, &set, error);
  if (status == UR_OK) status = ur_set_part(set, 0, &part, error);
  ur_part_release(part);
  ur_set_release(set);
  return status;
}

static void a_reference_must_fit_its_part(void) {
  fixture *part = make_part(ROWS, 0, 0);
  store_part(part, path);
  uint8_t other[16] = {1};
  char index[128], waiting[128];
  (void)snprintf(index, sizeof index, "%s.idx", path);
  (void)snprintf(waiting, sizeof waiting, "%s.idx.new", path);
  ur_error error = {0};
  EXPECT_EQUAL(open_ref(path, NULL, fixture_id, ROWS, &error), UR_OK);
  EXPECT_EQUAL(open_ref(path, index, fixture_id, -1, &error), UR_OK);
  EXPECT_EQUAL(open_ref(path, NULL, other, -1, &error), UR_STALE);
  EXPECT_EQUAL(error.file, UR_FILE_DATA);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, ROWS + 1, &error), UR_STALE);
  EXPECT_EQUAL(error.part, 0);
  EXPECT_EQUAL(open_ref(path, second, NULL, -1, &error), UR_NOT_FOUND);
  EXPECT_EQUAL(open_ref(second, NULL, NULL, -1, NULL), UR_NOT_FOUND);
  EXPECT(rename(index, waiting) == 0); /* a writer that died between two renames */
  EXPECT_EQUAL(open_ref(path, NULL, NULL, ROWS, &error), UR_OK);
  EXPECT(truncate(waiting, 300) == 0);
  EXPECT(open_ref(path, NULL, NULL, ROWS, &error) == UR_CORRUPT || error.status == UR_FORMAT);
  EXPECT(open_ref(path, NULL, NULL, ROWS, NULL) != UR_OK);
  EXPECT(unlink(waiting) == 0);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, ROWS, &error), UR_NOT_FOUND);
  EXPECT_EQUAL(error.file, UR_FILE_INDEX);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, ROWS, NULL), UR_NOT_FOUND);
  EXPECT(truncate(path, 512) == 0);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, ROWS, NULL), UR_FORMAT);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, ROWS, &error), UR_FORMAT); /* unfinished */
  EXPECT(unlink(path) == 0 && mkfifo(path, 0600) == 0);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, ROWS, &error), UR_FORMAT); /* not a regular file, and no waiting for one */
  EXPECT(unlink(path) == 0 && mkdir(path, 0700) == 0);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, ROWS, &error), UR_FORMAT);
  EXPECT(rmdir(path) == 0);
  free(part);
}

static void an_index_of_another_part_is_stale(void) {
  fixture *part = make_part(ROWS, 0, 0), *other = make_part(ROWS, 0, 1);
  char index[128], waiting[128];
  (void)snprintf(index, sizeof index, "%s.idx", path);
  (void)snprintf(waiting, sizeof waiting, "%s.idx.new", path);
  ur_error error = {0};
  store_part(part, path);
  store_bytes(index, other->index, other->index_bytes); /* the same id, another data file */
  EXPECT_EQUAL(open_ref(path, NULL, NULL, -1, &error), UR_STALE);
  other->index[UR_AT_ID] ^= 1;
  seal_index(other);
  store_bytes(index, other->index, other->index_bytes);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, -1, &error), UR_STALE);
  store_bytes(waiting, other->index, other->index_bytes);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, -1, &error), UR_STALE);
  part->index[200] ^= 1;
  store_bytes(waiting, part->index, part->index_bytes); /* the right one waits, and is broken */
  EXPECT_EQUAL(open_ref(path, NULL, NULL, -1, &error), UR_CORRUPT);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, -1, NULL), UR_CORRUPT);
  part->index[200] ^= 1;
  store_bytes(waiting, part->index, part->index_bytes);
  EXPECT_EQUAL(open_ref(path, NULL, NULL, -1, &error), UR_OK);
  EXPECT(unlink(waiting) == 0);
  free(part);
  free(other);
}

static void all_parts_of_a_set_have_the_same_columns(void) {
  fixture *part = make_part(ROWS, 0, 0), *fewer = make_part(ROWS, 1, 1), *nullable = make_part(ROWS, 0, 0);
  ur_part_ref refs[2] = {{.data_path = path, .rows = ROWS}, {.data_path = second, .id = fixture_id, .rows = ROWS}};
  ur_set_options options = {.io = UR_IO_MAP, .verify = UR_VERIFY_FIRST};
  nullable->data[128 + 32 * 3] = nullable->index[192 + 32 * 3] = UR_TYPE_TEXT; /* bytes elsewhere */
  seal_data(nullable);
  seal_index(nullable);
  store_part(part, path);
  for (int i = 0; i < 2; i++) {
    store_part(i ? nullable : fewer, second);
    ur_set *set = NULL;
    ur_error error = {0};
    static contents found;
    int64_t rows[] = {1, ROWS + 1};
    EXPECT_EQUAL(ur_set_open(refs, 2, &options, &set, &error), UR_OK);
    EXPECT_EQUAL(ur_set_io(set), UR_IO_AUTO);
    EXPECT_EQUAL(ur_set_parts(set), 2);
    EXPECT_EQUAL(read_columns(set, rows, 2, 4, &found, &error), UR_ARGUMENT);
    EXPECT_EQUAL(error.part, 1);
    EXPECT_EQUAL(read_columns(set, rows, 2, 4, &found, NULL), UR_ARGUMENT);
    EXPECT_EQUAL(read_columns(set, rows, 1, 4, &found, &error), UR_OK);
    EXPECT_EQUAL(ur_set_io(set), UR_IO_MAP);
    ur_set_release(set);
  }
  free(part);
  free(fewer);
  free(nullable);
}

static void sets_that_cannot_be_are_refused(void) {
  ur_set_options options = {.io = UR_IO_MAP, .verify = UR_VERIFY_FIRST};
  ur_part_ref huge[2] = {{.data_path = path, .rows = INT64_C(1) << 61}, {.data_path = path, .rows = (INT64_C(1) << 61) + 1}};
  ur_set *set = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(ur_set_open(huge, 2, &options, &set, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_open(huge, -1, &options, &set, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_open(huge, INT64_C(1) << 32, &options, &set, NULL), UR_ARGUMENT);
  for (int wrong = -1; wrong < 9; wrong += wrong < 0 ? 7 : 3) {
    ur_set_options io = {.io = wrong, .verify = UR_VERIFY_FIRST}, verify = {.io = UR_IO_MAP, .verify = wrong};
    EXPECT_EQUAL(ur_set_open(huge, 0, &io, &set, &error), UR_ARGUMENT);
    EXPECT_EQUAL(ur_set_open(huge, 0, &verify, &set, &error), UR_ARGUMENT);
  }
  EXPECT_EQUAL(ur_set_open(NULL, 0, &options, &set, &error), UR_OK);
  ur_column_info info;
  ur_output none = {0};
  int64_t row = 0, inside = 0;
  EXPECT_EQUAL(ur_set_column(set, 0, &info, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_read(set, &row, 0, &none, 0, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_find(set, 0, &row, &inside), UR_ARGUMENT);
  ur_set_close(set);
  EXPECT_EQUAL(ur_set_column(set, 0, &info, &error), UR_CLOSED);
  ur_set_advise(set, &row, 1);
  ur_set_release(set);
  ur_set_release(NULL);
}

static void calls_out_of_range_are_refused(void) {
  fixture *part = make_part(ROWS, 0, 0);
  store_part(part, path);
  ur_set *set = NULL;
  ur_part *opened = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(open_one(UR_IO_AUTO, UR_VERIFY_FIRST, &set, &error), UR_OK);
  EXPECT_EQUAL(ur_set_part(set, -1, &opened, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_part(set, 1, &opened, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_part(set, 0, &opened, &error), UR_OK);
  int64_t number = 0, inside = 0, rows[] = {0, 1};
  EXPECT_EQUAL(ur_set_find(set, -1, &number, &inside), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_find(set, ROWS, &number, &inside), UR_ARGUMENT);
  ur_column_info info;
  ur_section section = {0};
  uint64_t offset = 0, bytes = 0;
  for (int32_t column = -1; column <= 4; column += 5) {
    EXPECT_EQUAL(ur_part_column(opened, column, &info), UR_ARGUMENT);
    EXPECT_EQUAL(ur_set_column(set, column, &info, &error), UR_ARGUMENT);
    EXPECT_EQUAL(ur_part_locate(opened, 0, column, &offset, &bytes, &error), UR_ARGUMENT);
  }
  EXPECT_EQUAL(ur_part_locate(opened, -1, 3, &offset, &bytes, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_part_locate(opened, 0, 0, &offset, &bytes, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_part_section(opened, 0, 0, &section), UR_ARGUMENT);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_KINDS, 0, &section), UR_ARGUMENT);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_GROUPS, -2, &section), UR_ARGUMENT);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_GROUPS, 4, &section), UR_ARGUMENT);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_VALUES, -1, &section), UR_NOT_FOUND);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_ROW_STARTS, -1, &section), UR_OK);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_DIGESTS, -1, &section), UR_OK);
  EXPECT_EQUAL(ur_part_section(opened, UR_SECTION_GROUPS, -1, &section), UR_OK);
  EXPECT_EQUAL(ur_part_check(opened, &section, 0, 0, &error), UR_OK);
  ur_section forged = section;
  forged.bytes = UINT64_MAX;
  EXPECT_EQUAL(ur_part_check(opened, &forged, UINT64_MAX - 8, 8, &error), UR_ARGUMENT);
  forged.offset = 0;
  EXPECT_EQUAL(ur_part_check(opened, &forged, 0, 8, &error), UR_ARGUMENT);
  forged.offset = 1 << 30;
  EXPECT_EQUAL(ur_part_check(opened, &forged, 0, 8, &error), UR_ARGUMENT);
  ur_read read;
  EXPECT_EQUAL(ur_read_open(&read, set, rows, -1, NULL, 0, NULL, &error), UR_ARGUMENT);
  ur_read_close(&read);
  EXPECT_EQUAL(ur_read_open(&read, set, rows, 2, NULL, 0, NULL, &error), UR_OK);
  ur_output output = {.column = -1};
  EXPECT_EQUAL(ur_read_measure(&read, &output, 1, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_read_measure(&read, &output, -1, &error), UR_ARGUMENT);
  output.column = 99;
  EXPECT_EQUAL(ur_read_measure(&read, &output, 1, &error), UR_ARGUMENT);
  ur_read_close(&read);
  output.column = -1;
  EXPECT_EQUAL(ur_set_read(set, rows, 1, &output, 1, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_read(set, rows, 1, &output, -1, &error), UR_ARGUMENT);
  ur_set_advise(set, rows, 0);
  ur_part_release(opened);
  ur_set_release(set);
  free(part);
}

/* ---- what is hard to meet by chance ------------------------------------------------------------------------------ */

static void a_part_that_someone_is_about_to_reference_lives_on(void) {
  fixture *part = make_part(ROWS, 0, 0);
  store_part(part, path);
  store_part(part, second);
  ur_part_ref refs[2] = {{.data_path = path, .rows = -1}, {.data_path = second, .rows = -1}};
  ur_set_options options = {.io = UR_IO_MAP, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, 2, &options, &set, NULL), UR_OK);
  ur_part *seen = atomic_load(&set->slots[0].part);
  atomic_fetch_add(&set->slots[0].pins, 1); /* between reading the pointer and taking the reference */
  ur_set_close(set);
  ur_part_retain(seen);
  atomic_fetch_sub(&set->slots[0].pins, 1);
  ur_part_info info;
  ur_part_describe(seen, &info);
  EXPECT_EQUAL(info.rows, ROWS);
  ur_set_release(set);
  ur_part_describe(seen, &info);
  EXPECT_EQUAL(info.rows, ROWS);
  ur_part_release(seen);
  ur_part_release(NULL);
  free(part);
}

static void streaming_copies_are_copies(void) {
  enum { MOST = 1000 };
  static uint8_t from[MOST + 64], to[MOST + 192];
  for (int i = 0; i < MOST + 64; i++) from[i] = (uint8_t)(i * 7 + 1);
  for (size_t shift = 0; shift < 64; shift += 3)
    for (size_t bytes = 0; bytes < MOST; bytes += 1 + bytes / 20) {
      memset(to, 0, sizeof to);
      ur_copy_streaming(to + shift + 64, from + shift / 2, bytes);
      EXPECT(memcmp(to + shift + 64, from + shift / 2, bytes) == 0);
      EXPECT_EQUAL(to[shift + 63], 0);
      EXPECT_EQUAL(to[shift + 64 + bytes], 0);
    }
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  (void)snprintf(path, sizeof path, "%s/a.urec", folder);
  (void)snprintf(second, sizeof second, "%s/b.urec", folder);
  a_reference_must_fit_its_part();
  an_index_of_another_part_is_stale();
  all_parts_of_a_set_have_the_same_columns();
  sets_that_cannot_be_are_refused();
  calls_out_of_range_are_refused();
  a_part_that_someone_is_about_to_reference_lives_on();
  streaming_copies_are_copies();
  return remove_folder(folder);
}
