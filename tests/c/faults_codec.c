/* faults_codec.c - compressing, training and reading compressed columns, where each allocation and each call to libzstd fails
 * in turn: an error that says so, never another value, and nothing lost. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "expect.h"
#include "fault_seam.h"
#include "unirecord_internal.h"

enum { CELLS = 60, CELL = 400, USED = 4, ROOM = CELLS * CELL, DICTIONARY = 2048, ROWS = 7, COLUMNS = 6, MOST = 4096 };

static uint8_t values[CELLS][CELL];
static const void *cells[CELLS];
static uint64_t lengths[CELLS], starts[CELLS];
static int64_t cases, failed_cases;
static ur_codec_context *taken[100000];
static int64_t taken_count;

typedef struct {
  uint8_t bytes[COLUMNS][MOST];
  int64_t offsets[COLUMNS][ROWS + 1];
  uint8_t valid[COLUMNS][ROWS];
} contents;

static contents expected;

static bool clear(ur_status status, const ur_error *error) {
  if (status == UR_OK) return true;
  EXPECT_EQUAL(status, UR_NO_MEMORY);
  EXPECT_EQUAL(error->status, status);
  EXPECT(strstr(error->what, "memory") != NULL);
  return false;
}

/* The cells by a dictionary of their own, there and back. */
static void there_and_back(int32_t codec) {
  static uint8_t dictionary[DICTIONARY], packed[ROOM], found[ROOM];
  uint64_t bytes = 0, stored[USED];
  uint8_t good[USED];
  ur_encoder *encoder = NULL;
  ur_decoder *decoder = NULL;
  ur_error error = {0};
  if (!clear(ur_codec_train(codec, 4, cells, lengths, CELLS, dictionary, DICTIONARY, &bytes, &error), &error)) return;
  EXPECT(bytes > 0);
  if (!clear(ur_encoder_new(codec, 4, 3, dictionary, bytes, &encoder, &error), &error)) return;
  bool made = clear(ur_encoder_encode(encoder, cells, lengths, USED, packed, ROOM, stored, &error), &error);
  ur_encoder_release(encoder);
  if (!made) return;
  uint64_t sum = 0;
  for (int i = 0; i < USED; i++) {
    starts[i] = sum;
    sum += stored[i];
  }
  EXPECT(sum < USED * CELL);
  ur_status status = ur_decoder_new(codec, 4, dictionary, bytes, &decoder, &error);
  if (status == UR_CORRUPT) return; /* libzstd alone had no memory, and there was some a moment later: it cannot be told */
  if (!clear(status, &error)) return;
  if (clear(ur_decoder_decode(decoder, packed, starts, stored, lengths, USED, found, good, &error), &error)) {
    for (int i = 0; i < USED; i++) EXPECT(good[i]);
    EXPECT(memcmp(found, values, USED * CELL) == 0);
  }
  ur_decoder_release(decoder);
}

static ur_status read_rows(ur_set *set, contents *found, ur_error *error) {
  static const int64_t rows[ROWS] = {6, 0, 3, 5, 1, 4, 2};
  static const int fixed[COLUMNS] = {1, 0, 0, 1, 0, 0};
  ur_output outputs[COLUMNS] = {{0}};
  memset(found, 0, sizeof *found);
  for (int c = 0; c < COLUMNS; c++)
    outputs[c] = (ur_output){.column = c, .data = found->bytes[c], .capacity = MOST, .valid = found->valid[c],
                             .offsets = fixed[c] ? NULL : found->offsets[c]};
  return ur_set_read(set, rows, ROWS, outputs, COLUMNS, error);
}

/* A part with a dictionary in one column and another in a second, shuffled one; and again when that failed. */
static void read_part(int32_t io, const fault_plan *plan) {
  static contents found;
  ur_part_ref ref = {.data_path = "tests/data/hostile/compressed.urec", .rows = -1};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  ur_error error = {0};
  if (!clear(ur_set_open(&ref, 1, &options, &set, &error), &error)) return;
  for (int tries = 0, failures = 0; tries < 2; tries++) {
    ur_status status = read_rows(set, &found, &error);
    if (status == UR_OK) {
      EXPECT(memcmp(&found, &expected, sizeof found) == 0);
    } else if (status != UR_CORRUPT || ((plan->calls & FAULT_MEMORY) != 0 && plan->for_ever)) { /* as above, of the part's dictionaries */
      (void)clear(status, &error);
    }
    failures += status != UR_OK;
    EXPECT(failures < 2 || plan->for_ever);
  }
  ur_set_release(set);
}

static void run(int what, const fault_plan *plan) {
  if (what == 0)
    there_and_back(UR_CODEC_ZSTD);
  else if (what == 1)
    there_and_back(UR_CODEC_SHUFFLE_ZSTD);
  else
    read_part(what == 2 ? UR_IO_MAP : UR_IO_PREAD, plan);
}

/* Contexts are kept for whoever decompresses next: taken away, so that every case has to make its own. */
static int64_t take_contexts(void) {
  fault_plan none_new = {.calls = FAULT_MEMORY, .for_ever = 1, .error = ENOMEM};
  int64_t before = taken_count;
  fault_arm(&none_new);
  while ((taken[taken_count] = ur_codec_context_take()) != NULL) taken_count++;
  (void)fault_disarm();
  return taken_count - before;
}

static void fail_each(fault_plan plan, int what) {
  for (plan.for_ever = 0; plan.for_ever < 2; plan.for_ever++)
    for (plan.at = 0;; plan.at++) {
      int64_t before = fault_held().allocations;
      fault_arm(&plan);
      run(what, &plan);
      int64_t failures = fault_disarm();
      int64_t more = fault_held().allocations - before;
      int64_t contexts = take_contexts();
      EXPECT(contexts <= 1 && more >= 0 && more <= 2 * contexts); /* itself, and its room to unshuffle in */
      cases++;
      failed_cases += failures > 0;
      if (failures == 0) break;
      EXPECT(plan.at < 10000);
    }
}

int main(void) {
  static const int kinds[] = {FAULT_MEMORY, FAULT_ZSTD, FAULT_MEMORY | FAULT_ZSTD};
  if (ur_codec_check(UR_CODEC_ZSTD, NULL) != UR_OK) {
    printf("no libzstd here\n");
    return 0;
  }
  for (int i = 0; i < CELLS; i++) {
    cells[i] = values[i];
    lengths[i] = CELL;
    for (int b = 0; b < CELL; b++) values[i][b] = (uint8_t)(b % 4 == 0 ? i * 7 + b / 9 : "river stone light paper"[(b + i) % 23]);
  }
  ur_part_ref ref = {.data_path = "tests/data/hostile/compressed.urec", .rows = -1};
  ur_set_options options = {.io = UR_IO_PREAD, .verify = UR_VERIFY_ALWAYS};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &set, NULL), UR_OK);
  EXPECT_EQUAL(read_rows(set, &expected, NULL), UR_OK);
  ur_set_release(set);
  (void)take_contexts();
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int what = 0; what < 4; what++) fail_each((fault_plan){.calls = kinds[k], .error = ENOMEM}, what);
  for (int64_t i = 0; i < taken_count; i++) ur_codec_context_give(taken[i]);
  printf("%" PRId64 " cases, a call failed in %" PRId64 "\n", cases, failed_cases);
  return 0;
}
