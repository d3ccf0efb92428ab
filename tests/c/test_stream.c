/* test_stream.c - windows and packed samples of bytes, against the rows that the fixture wrote; packing; wrong calls. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 40, COLUMN = 3, MOST = 8 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[1][64];
static uint8_t text[ROWS * 8];
static int64_t row_of[ROWS * 8], before[ROWS + 1];

static ur_set *open_set(int io) {
  ur_part_ref ref = {.data_path = paths[0], .rows = ROWS};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_ALWAYS};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
  return set;
}

/* Document d is row ROWS - 1 - d, of (row % 7) bytes row + 1. */
static void list_documents(void) {
  for (int64_t d = 0; d < ROWS; d++) {
    int64_t row = ROWS - 1 - d, size = row % 7;
    for (int64_t i = 0; i < size; i++) {
      text[before[d] + i] = (uint8_t)(row + 1);
      row_of[before[d] + i] = row;
    }
    before[d + 1] = before[d] + size;
  }
}

static ur_stream windows(int64_t length, int64_t stride, int64_t samples) {
  return (ur_stream){.kind = UR_STREAM_WHOLE, .column = COLUMN, .element_bytes = 1, .length = length, .stride = stride,
                     .samples = samples, .documents = ROWS, .before = before, .every = 1,
                     .selection_start = ROWS - 1, .selection_step = -1};
}

static void windows_are_pieces_of_the_stream(ur_set *set) {
  for (int64_t length = 1; length <= MOST; length++)
    for (int64_t stride = 1; stride <= 9; stride += 4) {
      int64_t samples = (before[ROWS] - length) / stride + 1;
      ur_stream stream = windows(length, stride, samples);
      for (int64_t first = 0; first < samples; first += 5) {
        uint8_t found[2 * MOST];
        int64_t rows[2 * MOST], numbers[2] = {first, samples - 1 - first};
        ur_output outputs[] = {{.column = UR_STREAM_ELEMENTS, .data = found, .capacity = sizeof found},
                               {.column = UR_STREAM_DOCUMENTS, .data = (uint8_t *)rows, .capacity = sizeof rows}};
        EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 2, outputs, 2, NULL), UR_OK);
        for (int64_t i = 0; i < 2; i++) {
          EXPECT(memcmp(found + i * length, text + numbers[i] * stride, (size_t)length) == 0);
          EXPECT(memcmp(rows + i * length, row_of + numbers[i] * stride, (size_t)length * sizeof *rows) == 0);
        }
      }
    }
}

static void packed_samples_are_filled_up(ur_set *set) {
  const int64_t starts[] = {0, 2, 3};
  const ur_stream_piece pieces[] = {{0, 1, 3}, {1, 0, 2}, {3, 0, 1}};
  ur_stream stream = windows(6, 6, 2);
  stream.kind = UR_STREAM_PACKED;
  stream.before = starts;
  stream.pieces = pieces;
  stream.padded = 1;
  stream.padding[0] = 200;
  uint8_t found[12];
  int64_t places[12];
  const int64_t numbers[] = {1, 0};
  const int64_t expected[12] = {0, 0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 0};
  ur_output outputs[] = {{.column = UR_STREAM_ELEMENTS, .data = found, .capacity = sizeof found},
                         {.column = UR_STREAM_POSITIONS, .data = (uint8_t *)places, .capacity = sizeof places}};
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 2, outputs, 2, NULL), UR_OK);
  EXPECT_EQUAL(found[0], ROWS - 3);
  EXPECT_EQUAL(found[1], 200);
  EXPECT_EQUAL(found[6], ROWS);
  EXPECT_EQUAL(found[9], ROWS - 1);
  EXPECT_EQUAL(found[11], 200);
  EXPECT(memcmp(places, expected, sizeof places) == 0);
}

/* What is said of runs has as many entries as they are, and none for what is filled up. */
static void runs_are_told_with_their_names(ur_set *set) {
  const int64_t starts[] = {0, 2, 3}, names[] = {70, 80, 90};
  const ur_stream_piece pieces[] = {{0, 1, 3}, {1, 0, 2}, {3, 0, 1}};
  ur_stream stream = windows(6, 6, 2);
  stream.kind = UR_STREAM_PACKED;
  stream.before = starts;
  stream.pieces = pieces;
  stream.padded = 1;
  int32_t lengths[3];
  int64_t rows[3], ends[3], of_rows[3];
  const int64_t numbers[] = {1, 0};
  ur_output outputs[] = {{.column = UR_STREAM_LENGTHS, .data = (uint8_t *)lengths, .capacity = sizeof lengths, .offsets = ends},
                         {.column = UR_STREAM_RUNS, .data = (uint8_t *)rows, .capacity = sizeof rows, .offsets = of_rows}};
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 2, outputs, 2, NULL), UR_OK);
  EXPECT(lengths[0] == 1 && lengths[1] == 3 && lengths[2] == 2);
  EXPECT(ends[0] == 0 && ends[1] == 4 && ends[2] == 12);
  EXPECT(rows[0] == ROWS - 4 && rows[1] == ROWS - 1 && rows[2] == ROWS - 2);
  EXPECT(of_rows[0] == 0 && of_rows[1] == 8 && of_rows[2] == 24);
  stream.numbers = names;
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 2, outputs, 2, NULL), UR_OK);
  EXPECT(rows[0] == 90 && rows[1] == 70 && rows[2] == 80);
  outputs[0].capacity = 8;
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 2, outputs, 2, NULL), UR_TOO_SMALL);
  EXPECT_EQUAL(outputs[0].used, 12);
  outputs[0].offsets = NULL;
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 2, outputs, 1, NULL), UR_ARGUMENT);
  outputs[0].column = UR_STREAM_RUNS + 1;
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 2, outputs, 1, NULL), UR_ARGUMENT);
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, -1, outputs, 0, NULL), UR_ARGUMENT);
  const ur_stream_piece empty[] = {{0, 1, 0}, {1, 0, 2}, {3, 0, 1}};
  stream.pieces = empty;
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 2, outputs, 0, NULL), UR_ARGUMENT);
  stream.pieces = pieces;
  stream.length = (int64_t)INT32_MAX + 1;
  outputs[0] = (ur_output){.column = UR_STREAM_LENGTHS, .data = (uint8_t *)lengths, .capacity = sizeof lengths, .offsets = ends};
  EXPECT_EQUAL(ur_stream_read(set, &stream, numbers, 1, outputs, 1, NULL), UR_ARGUMENT);
}

static void expect_status(ur_set *set, const ur_stream *stream, int64_t sample, ur_status status) {
  uint8_t found[MOST];
  ur_output output = {.column = UR_STREAM_ELEMENTS, .data = found, .capacity = sizeof found};
  EXPECT_EQUAL(ur_stream_read(set, stream, &sample, 1, &output, 1, NULL), status);
}

static void wrong_calls_are_refused(ur_set *set) {
  ur_stream good = windows(4, 4, 5), wrong = good;
  expect_status(set, &good, 5, UR_ARGUMENT);
  expect_status(set, &good, -1, UR_ARGUMENT);
  wrong.kind = 3;
  expect_status(set, &wrong, 0, UR_ARGUMENT);
  wrong = good;
  wrong.element_bytes = 3;
  expect_status(set, &wrong, 0, UR_ARGUMENT);
  wrong = good;
  wrong.length = 0;
  expect_status(set, &wrong, 0, UR_ARGUMENT);
  wrong = good;
  wrong.column = 0;
  expect_status(set, &wrong, 0, UR_ARGUMENT);
  wrong = good;
  wrong.stride = INT64_MAX;
  expect_status(set, &wrong, 0, UR_ARGUMENT);
  wrong = good;
  wrong.length = MOST + 1;
  expect_status(set, &wrong, 0, UR_TOO_SMALL);
  wrong = good;
  wrong.selection_start = ROWS + 3; /* documents that are no rows */
  expect_status(set, &wrong, 0, UR_ARGUMENT);
}

/* A table of other lengths than the rows have leads to no byte outside of them. */
static void a_wrong_table_is_stale(ur_set *set) {
  int64_t twice[ROWS + 1];
  for (int64_t d = 0; d <= ROWS; d++) twice[d] = 16 * d;
  ur_stream stream = windows(8, 8, 2 * ROWS);
  stream.before = twice;
  for (int64_t sample = 0; sample < 2 * ROWS; sample++) expect_status(set, &stream, sample, UR_STALE);
  int64_t apart[ROWS + 1];
  for (int64_t d = 0; d <= ROWS; d++) apart[d] = d;
  stream.kind = UR_STREAM_APART;
  stream.samples = ROWS;
  stream.before = apart;
  for (int64_t sample = 0; sample < ROWS; sample++) expect_status(set, &stream, sample, UR_STALE);
  const int64_t starts[] = {0, 1};
  const ur_stream_piece piece = {0, INT64_MAX - 3, 3};
  stream.kind = UR_STREAM_PACKED;
  stream.samples = 1;
  stream.before = starts;
  stream.pieces = &piece;
  expect_status(set, &stream, 0, UR_STALE);
}

static void lengths_go_where_the_least_room_is(void) {
  const int64_t lengths[] = {6, 5, 5, 4, 3, 2, 2, 1};
  const int64_t expected[] = {0, 1, 1, 0, 2, 2, 2, 2};
  int64_t places[8], used = 0;
  EXPECT_EQUAL(ur_pack(lengths, 8, 10, places, &used, NULL), UR_OK);
  EXPECT_EQUAL(used, 3);
  for (int i = 0; i < 8; i++) EXPECT_EQUAL(places[i], expected[i]);
  const int64_t alike[] = {6, 6, 4};
  EXPECT_EQUAL(ur_pack(alike, 3, 10, places, &used, NULL), UR_OK);
  EXPECT_EQUAL(places[2], 1);
  const int64_t zero = 0, large = 11;
  EXPECT_EQUAL(ur_pack(&zero, 1, 10, places, &used, NULL), UR_ARGUMENT);
  EXPECT_EQUAL(ur_pack(&large, 1, 10, places, &used, NULL), UR_ARGUMENT);
  EXPECT_EQUAL(ur_pack(&large, 1, 0, places, &used, NULL), UR_ARGUMENT);
  EXPECT_EQUAL(ur_pack(&large, -1, 10, places, &used, NULL), UR_ARGUMENT);
  EXPECT_EQUAL(ur_pack(NULL, 0, 10, places, &used, NULL), UR_OK);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  store_parts(folder, paths, 1, ROWS);
  list_documents();
  for (int io = UR_IO_MAP; io <= UR_IO_PREAD; io++) {
    ur_set *set = open_set(io);
    windows_are_pieces_of_the_stream(set);
    packed_samples_are_filled_up(set);
    runs_are_told_with_their_names(set);
    wrong_calls_are_refused(set);
    a_wrong_table_is_stale(set);
    ur_set_release(set);
  }
  lengths_go_where_the_least_room_is();
  return remove_folder(folder);
}
