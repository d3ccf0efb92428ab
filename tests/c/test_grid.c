/* test_grid.c - arrays cut into chunks and put together again, boxes of them, and grids that are refused. */
#include <string.h>

#include "expect.h"
#include "part/grid.h"
#include "unirecord_internal.h"

enum { MOST = 4096 };

static uint32_t state = 1;

static uint32_t drawn(uint32_t below) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % below;
}

/* An array of 1 to 4 dimensions in some chunks; its elements say where they are. */
static ur_grid some_grid(uint8_t *value, uint64_t *bytes) {
  ur_grid grid = {.rank = 1 + drawn(4)};
  for (uint32_t d = 0; d < grid.rank; d++) {
    grid.shape[d] = 1 + drawn(5);
    grid.chunk[d] = 1 + drawn((uint32_t)grid.shape[d]);
  }
  EXPECT(ur_grid_measure(&grid, 1 + drawn(3), bytes));
  EXPECT(*bytes <= MOST);
  for (uint64_t i = 0; i < *bytes; i++) value[i] = (uint8_t)drawn(256);
  return grid;
}

static void chunks_follow_each_other_without_a_gap(void) {
  static uint8_t value[MOST];
  for (int turn = 0; turn < 500; turn++) {
    uint64_t bytes = 0, end = 0, at[UR_MAX_RANK], first[UR_MAX_RANK], sizes[UR_MAX_RANK];
    ur_grid grid = some_grid(value, &bytes);
    for (uint64_t number = 0; number < grid.chunks; number++) {
      uint64_t size = ur_grid_chunk(&grid, number, at, first, sizes);
      EXPECT_EQUAL(ur_grid_before(&grid, at, sizes), end);
      end += size;
    }
    EXPECT_EQUAL(end, bytes);
  }
}

static void what_is_cut_is_put_together_again(void) {
  static uint8_t value[MOST], cell[MOST], again[MOST];
  for (int turn = 0; turn < 500; turn++) {
    uint64_t bytes = 0;
    ur_grid grid = some_grid(value, &bytes);
    ur_error error = {0};
    EXPECT_EQUAL(ur_values_cut((int32_t)grid.rank, grid.shape, grid.chunk, grid.element, value, 1, cell, &error), UR_OK);
    EXPECT_EQUAL(ur_values_join((int32_t)grid.rank, grid.shape, grid.chunk, grid.element, cell, 1, again, &error), UR_OK);
    EXPECT_EQUAL(memcmp(value, again, bytes), 0);
  }
}

static void a_free_dimension_is_as_long_as_the_bytes_of_a_value_say(void) {
  static uint8_t value[MOST];
  for (int turn = 0; turn < 500; turn++) {
    uint64_t bytes = 0, along = 0;
    ur_grid whole = some_grid(value, &bytes), grid = {.rank = whole.rank}, own;
    memcpy(grid.shape, whole.shape, sizeof grid.shape);
    memcpy(grid.chunk, whole.chunk, sizeof grid.chunk);
    uint32_t free = drawn(grid.rank);
    grid.shape[free] = 0;
    EXPECT(ur_grid_measure(&grid, whole.element, &along));
    EXPECT_EQUAL(along * whole.shape[free], bytes);
    EXPECT(ur_grid_of_value(&grid, bytes, &own));
    EXPECT_EQUAL(own.chunks, whole.chunks);
    EXPECT_EQUAL(memcmp(own.shape, whole.shape, whole.rank * sizeof *own.shape), 0);
    EXPECT_EQUAL(memcmp(own.counts, whole.counts, whole.rank * sizeof *own.counts), 0);
    EXPECT(along == 1 || !ur_grid_of_value(&grid, bytes + 1, &own));
    EXPECT(ur_grid_of_value(&grid, 0, &own));
    EXPECT_EQUAL(own.chunks, 0);
    grid.shape[(free + 1) % grid.rank] = 0;
    EXPECT(grid.rank == 1 || !ur_grid_measure(&grid, whole.element, &along));
  }
}

/* The elements of a box, one by one. */
static void boxes_are_their_elements(void) {
  static uint8_t value[MOST], box[MOST];
  for (int turn = 0; turn < 500; turn++) {
    uint64_t bytes = 0, start[UR_MAX_RANK], sizes[UR_MAX_RANK], at[UR_MAX_RANK] = {0}, from[UR_MAX_RANK], elements = 1;
    ur_grid grid = some_grid(value, &bytes);
    for (uint32_t d = 0; d < grid.rank; d++) {
      start[d] = drawn((uint32_t)grid.shape[d]);
      sizes[d] = 1 + drawn((uint32_t)(grid.shape[d] - start[d]));
      elements *= sizes[d];
    }
    uint64_t offset = ur_box_offset(grid.rank, grid.element, grid.shape, start);
    ur_box_copy(grid.rank, grid.element, sizes, box, sizes, value + offset, grid.shape, turn % 2 == 0);
    for (uint64_t i = 0; i < elements; i++) {
      uint64_t left = i;
      for (uint32_t d = grid.rank; d-- > 0; left /= sizes[d]) at[d] = left % sizes[d];
      for (uint32_t d = 0; d < grid.rank; d++) from[d] = start[d] + at[d];
      uint64_t place = ur_box_offset(grid.rank, grid.element, grid.shape, from);
      EXPECT_EQUAL(memcmp(box + i * grid.element, value + place, grid.element), 0);
    }
  }
}

static void grids_that_make_no_sense_are_refused(void) {
  static const struct {
    uint32_t rank;
    uint64_t shape, chunk, element;
  } wrong[] = {{1, 4, 0, 1}, {1, 4, 5, 1}, {1, 0, 0, 1}, {0, 1, 1, 1}, {33, 1, 1, 1}, {1, 4, 2, 0},
               {2, UINT64_C(1) << 32, 1, 1}, {1, UINT64_MAX, 1, 2}, {1, UINT64_C(1) << 62, 1, 1}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    ur_grid grid = {.rank = wrong[i].rank};
    uint64_t bytes = 0;
    for (uint32_t d = 0; d < UR_MAX_RANK; d++) {
      grid.shape[d] = wrong[i].shape;
      grid.chunk[d] = wrong[i].chunk;
    }
    EXPECT(!ur_grid_measure(&grid, wrong[i].element, &bytes));
  }
  uint8_t byte = 0;
  uint64_t shape = 1, chunk = 2;
  ur_error error = {0};
  EXPECT_EQUAL(ur_values_cut(1, &shape, &chunk, 1, &byte, 1, &byte, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_values_join(0, &shape, &chunk, 1, &byte, 1, &byte, &error), UR_ARGUMENT);
}

int main(void) {
  chunks_follow_each_other_without_a_gap();
  what_is_cut_is_put_together_again();
  a_free_dimension_is_as_long_as_the_bytes_of_a_value_say();
  boxes_are_their_elements();
  grids_that_make_no_sense_are_refused();
  return 0;
}
