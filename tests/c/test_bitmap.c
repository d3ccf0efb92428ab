/* test_bitmap.c - bitmaps with rank and select against a plain list of rows, at every size, density and edge. */
#include <string.h>

#include "base/hash.h"
#include "expect.h"
#include "unirecord_internal.h"

enum { MOST = 20000 };

static int64_t rows[MOST + 1], found[MOST + 1], ranks[MOST + 1];
static uint64_t state = 5;

static uint64_t next_random(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

/* All that can be asked of a bitmap of these rows, in memory that has no byte more than it needs. */
static void expect_bitmap(int64_t bits, int64_t ones) {
  size_t count = (size_t)((bits + 63) / 64);
  int64_t needed = ur_bitmap_directory(bits, ones);
  uint64_t *words = calloc(count, sizeof *words), *directory = malloc((size_t)needed * sizeof *directory);
  EXPECT(needed > 0 && directory != NULL && (count == 0 || words != NULL));
  EXPECT_EQUAL(ur_bitmap_add(words, bits, rows, ones), UR_OK);
  EXPECT_EQUAL(ur_bitmap_ones(words, bits), ones);
  EXPECT_EQUAL(ur_bitmap_index(words, bits, ones, directory), UR_OK);
  ur_bitmap bitmap = {words, directory, bits, ones};
  for (int64_t i = 0; i < ones; i++) {
    EXPECT_EQUAL(ur_bitmap_one(&bitmap, i), rows[i]);
    ranks[i] = ones - 1 - i;
  }
  EXPECT_EQUAL(ur_bitmap_select(&bitmap, ranks, ones, ranks), UR_OK); /* in place */
  for (int64_t i = 0; i < ones; i++) EXPECT_EQUAL(ranks[i], rows[ones - 1 - i]);
  for (int64_t start = 0; start <= ones; start += 1 + ones / 5) {
    EXPECT_EQUAL(ur_bitmap_range(&bitmap, start, ones - start, found), UR_OK);
    EXPECT(start == ones || memcmp(found, rows + start, (size_t)(ones - start) * sizeof *found) == 0);
  }
  for (int64_t row = 0, before = 0; row <= bits; row++) {
    EXPECT_EQUAL(ur_bitmap_rank(&bitmap, &row, 1, found), UR_OK);
    EXPECT_EQUAL(found[0], before);
    before += before < ones && rows[before] == row;
  }
  uint64_t digest = 0;
  EXPECT_EQUAL(ur_bitmap_digest(&bitmap, 0, 1, ones, 7, &digest), UR_OK);
  EXPECT_EQUAL(digest, ur_xxh3_64(rows, (size_t)ones * sizeof *rows, 7));
  int64_t every_third = 0;
  for (int64_t i = ones - 1; i >= 0; i -= 3) found[every_third++] = rows[i];
  EXPECT_EQUAL(ur_bitmap_digest(&bitmap, ones - 1, -3, every_third, 7, &digest), UR_OK);
  EXPECT_EQUAL(digest, ur_xxh3_64(found, (size_t)every_third * sizeof *found, 7));
  free(words);
  free(directory);
}

/* Rows of which `of` in 1,024 are in it, or stretches of neighbours when `run` > 1. */
static void expect_random(int64_t bits, uint64_t of, int64_t run) {
  int64_t ones = 0;
  for (int64_t row = 0; row < bits;) {
    int in = next_random() % 1024 < of;
    for (int64_t i = 0; i < run && row < bits; i++, row++)
      if (in) rows[ones++] = row;
  }
  expect_bitmap(bits, ones);
}

static void bitmaps_answer_as_lists_do(void) {
  for (int64_t bits = 0; bits <= 1100; bits = bits < 130 ? bits + 1 : bits + 63)
    for (uint64_t of = 0; of <= 1024; of += 128) expect_random(bits, of, 1);
  for (uint64_t of = 1; of <= 1024; of *= 4)
    for (int64_t run = 1; run <= 5000; run = run * 7 + 1) expect_random(MOST, of, run);
}

static void ones_far_apart_are_found(void) {
  int64_t ones = 0;
  for (int64_t row = 0; row < 4500; row++) rows[ones++] = row;
  rows[ones++] = MOST - 1;
  expect_bitmap(MOST, ones);
  for (int64_t i = 0; i < ones; i++) rows[i] = MOST - ones + i;
  expect_bitmap(MOST, ones);
}

static void a_directory_takes_little(void) {
  EXPECT(ur_bitmap_directory(INT64_C(1) << 40, INT64_C(1) << 40) * 64 < (INT64_C(1) << 40) / 100 * 27);
  EXPECT_EQUAL(ur_bitmap_directory(-1, 0), -1);
  EXPECT_EQUAL(ur_bitmap_directory(10, 11), -1);
  EXPECT_EQUAL(ur_bitmap_directory(10, -1), -1);
  EXPECT_EQUAL(ur_bitmap_directory(INT64_MAX, 0), -1);
}

static void wrong_calls_are_refused(void) {
  uint64_t words[2] = {0, 0}, directory[8], digest = 0;
  EXPECT(ur_bitmap_directory(100, 3) <= 8);
  int64_t some[] = {3, 64, 99}, outside[] = {0, 100}, negative[] = {-1};
  EXPECT_EQUAL(ur_bitmap_add(words, 100, outside, 2), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_add(words, 100, negative, 1), UR_ARGUMENT);
  words[0] = words[1] = 0;
  EXPECT_EQUAL(ur_bitmap_add(words, 100, some, 3), UR_OK);
  EXPECT_EQUAL(ur_bitmap_index(words, 100, 2, directory), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_index(words, 100, 4, directory), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_index(words, 99, 3, directory), UR_ARGUMENT); /* a bit beyond the last row */
  EXPECT_EQUAL(ur_bitmap_index(words, 100, 3, directory), UR_OK);
  ur_bitmap bitmap = {words, directory, 100, 3};
  int64_t three = 3, before = -1, beyond = 101, got = 0;
  EXPECT_EQUAL(ur_bitmap_select(&bitmap, &three, 1, &got), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_select(&bitmap, &before, 1, &got), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_one(&bitmap, 3), -1);
  EXPECT_EQUAL(ur_bitmap_one(&bitmap, -1), -1);
  EXPECT_EQUAL(ur_bitmap_range(&bitmap, 2, 2, found), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_range(&bitmap, -1, 1, found), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_range(&bitmap, 0, -1, found), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_rank(&bitmap, &beyond, 1, &got), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_rank(&bitmap, &before, 1, &got), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_digest(&bitmap, 0, 2, 3, 0, &digest), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_digest(&bitmap, 3, 1, 1, 0, &digest), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_digest(&bitmap, 0, INT64_MAX, 3, 0, &digest), UR_ARGUMENT);
  EXPECT_EQUAL(ur_bitmap_digest(&bitmap, 0, 1, 4, 0, &digest), UR_ARGUMENT);
}

int main(void) {
  bitmaps_answer_as_lists_do();
  ones_far_apart_are_found();
  a_directory_takes_little();
  wrong_calls_are_refused();
  return 0;
}
