/* part/grid.c - see part/grid.h. Sizes were checked when the grid was measured: no sum or product here leaves a value. */
#include "part/grid.h"

#include "base/check.h"
#include "base/copy.h"
#include "base/fail.h"
#include "unirecord_internal.h"

#define MOST_BYTES (UINT64_C(1) << 62)

static uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

bool ur_grid_measure(ur_grid *grid, uint64_t element, uint64_t *bytes) {
  grid->element = *bytes = element;
  grid->chunks = 1;
  grid->free = 0;
  if (grid->rank < 1 || grid->rank > UR_MAX_RANK || element < 1) return false;
  for (uint32_t d = 0; d < grid->rank; d++) {
    if (grid->shape[d] == 0) {
      if (grid->free != 0 || grid->chunk[d] < 1 || grid->chunk[d] >= MOST_BYTES) return false;
      grid->free = d + 1;
      grid->counts[d] = 0;
      continue;
    }
    if (grid->chunk[d] < 1 || grid->chunk[d] > grid->shape[d]) return false;
    if (!ur_multiply(*bytes, grid->shape[d], bytes) || *bytes >= MOST_BYTES) return false;
    grid->counts[d] = divide_up(grid->shape[d], grid->chunk[d]);
    grid->chunks *= grid->counts[d]; /* exact: no more than elements of a value */
  }
  grid->along = *bytes;
  return true;
}

bool ur_grid_of_value(const ur_grid *grid, uint64_t bytes, ur_grid *own) {
  *own = *grid;
  if (grid->free == 0) return true;
  uint32_t d = grid->free - 1;
  own->shape[d] = bytes / grid->along;
  own->counts[d] = divide_up(own->shape[d], grid->chunk[d]);
  own->chunks *= own->counts[d]; /* exact: no more than elements of the value */
  return bytes % grid->along == 0;
}

uint64_t ur_grid_chunk(const ur_grid *grid, uint64_t number, uint64_t *at, uint64_t *first, uint64_t *sizes) {
  uint64_t bytes = grid->element;
  for (uint32_t d = grid->rank; d-- > 0;) {
    at[d] = number % grid->counts[d];
    number /= grid->counts[d];
    first[d] = at[d] * grid->chunk[d]; /* exact: inside the value, here and below */
    uint64_t left = grid->shape[d] - first[d];
    sizes[d] = left < grid->chunk[d] ? left : grid->chunk[d];
    bytes *= sizes[d]; /* exact: likewise */
  }
  return bytes;
}

uint64_t ur_grid_before(const ur_grid *grid, const uint64_t *at, const uint64_t *sizes) {
  uint64_t after = grid->element, before = 0; /* bytes of an element of dimension d - 1; of the chunks before */
  for (uint32_t d = grid->rank; d-- > 0;) {
    /* the chunks that begin like this one up to dimension d - 1, and stand before it along dimension d: as wide as it is along
     * the dimensions before d, and whole along those behind */
    uint64_t elements = at[d] * grid->chunk[d] * after;
    for (uint32_t e = 0; e < d; e++) elements *= sizes[e]; /* exact: inside the value */
    before += elements;
    after *= grid->shape[d];
  }
  return before;
}

uint64_t ur_box_offset(uint32_t rank, uint64_t element, const uint64_t *shape, const uint64_t *at) {
  uint64_t index = 0;
  for (uint32_t d = 0; d < rank; d++) index = index * shape[d] + at[d];
  return index * element;
}

void ur_box_copy(uint32_t rank, uint64_t element, const uint64_t *sizes, uint8_t *to, const uint64_t *to_shape,
                 const uint8_t *from, const uint64_t *from_shape, bool streams) {
  uint64_t run = element; /* bytes that follow each other on both sides */
  uint64_t to_step[UR_MAX_RANK], from_step[UR_MAX_RANK], at[UR_MAX_RANK] = {0};
  uint32_t outer = rank;
  while (outer > 0) {
    outer--;
    run *= sizes[outer]; /* exact: inside both arrays, here and below */
    if (sizes[outer] != to_shape[outer] || sizes[outer] != from_shape[outer]) break;
  }
  uint64_t to_bytes = element, from_bytes = element;
  for (uint32_t d = rank; d-- > 0;) {
    to_step[d] = to_bytes;
    from_step[d] = from_bytes;
    to_bytes *= to_shape[d];     /* exact: likewise */
    from_bytes *= from_shape[d]; /* exact: likewise */
  }
  for (;;) {
    uint64_t rows = outer > 0 ? sizes[outer - 1] : 1;
    uint64_t to_row = outer > 0 ? to_step[outer - 1] : 0, from_row = outer > 0 ? from_step[outer - 1] : 0;
    for (uint64_t i = 0; i < rows; i++) {
      if (streams) ur_copy_piece(to + i * to_row, from + i * from_row, run, UR_STREAM_AHEAD);
      else memcpy(to + i * to_row, from + i * from_row, run);
    }
    uint32_t d = outer > 0 ? outer - 1 : 0;
    while (d > 0) { /* the next one along the dimensions before these */
      d--;
      to += to_step[d];
      from += from_step[d];
      if (++at[d] < sizes[d]) break;
      to -= at[d] * to_step[d];
      from -= at[d] * from_step[d];
      at[d] = 0;
      if (d == 0) return;
    }
    if (outer <= 1) return;
  }
}

void ur_grid_put(const ur_grid *grid, uint64_t number, uint8_t *value, const uint8_t *chunk, bool streams) {
  uint64_t at[UR_MAX_RANK], first[UR_MAX_RANK], sizes[UR_MAX_RANK];
  (void)ur_grid_chunk(grid, number, at, first, sizes);
  uint8_t *to = value + ur_box_offset(grid->rank, grid->element, grid->shape, first);
  ur_box_copy(grid->rank, grid->element, sizes, to, grid->shape, chunk, sizes, streams);
}

void ur_grid_take(const ur_grid *grid, uint64_t number, const uint8_t *value, uint8_t *chunk) {
  uint64_t at[UR_MAX_RANK], first[UR_MAX_RANK], sizes[UR_MAX_RANK];
  (void)ur_grid_chunk(grid, number, at, first, sizes);
  const uint8_t *from = value + ur_box_offset(grid->rank, grid->element, grid->shape, first);
  ur_box_copy(grid->rank, grid->element, sizes, chunk, sizes, from, grid->shape, false);
}

/* The grid of arrays that a caller has, and their bytes. */
static ur_status given_grid(int32_t rank, const uint64_t *shape, const uint64_t *chunk, uint64_t element_bytes,
                            ur_grid *grid, uint64_t *bytes, ur_error *error) {
  *grid = (ur_grid){.rank = (uint32_t)rank};
  if (rank < 1 || rank > (int32_t)UR_MAX_RANK) return ur_fail(error, UR_ARGUMENT, "an array has 1 to 32 dimensions");
  memcpy(grid->shape, shape, (size_t)rank * sizeof *shape);
  memcpy(grid->chunk, chunk, (size_t)rank * sizeof *chunk);
  if (ur_grid_measure(grid, element_bytes, bytes) && grid->free == 0) return UR_OK;
  return ur_fail(error, UR_ARGUMENT, "the chunks do not fit the array");
}

static uint64_t bytes_of_chunk(const ur_grid *grid, uint64_t number) {
  uint64_t at[UR_MAX_RANK], first[UR_MAX_RANK], sizes[UR_MAX_RANK];
  return ur_grid_chunk(grid, number, at, first, sizes);
}

ur_status ur_values_cut(int32_t rank, const uint64_t *shape, const uint64_t *chunk, uint64_t element_bytes,
                        const uint8_t *values, uint64_t count, uint8_t *out, ur_error *error) {
  ur_grid grid;
  uint64_t bytes = 0;
  ur_status status = given_grid(rank, shape, chunk, element_bytes, &grid, &bytes, error);
  for (uint64_t i = 0; i < count && status == UR_OK; i++, values += bytes) /* exact: so many values are in memory */
    for (uint64_t number = 0; number < grid.chunks; number++) {
      ur_grid_take(&grid, number, values, out);
      out += bytes_of_chunk(&grid, number);
    }
  return status;
}

ur_status ur_values_join(int32_t rank, const uint64_t *shape, const uint64_t *chunk, uint64_t element_bytes,
                         const uint8_t *cells, uint64_t count, uint8_t *out, ur_error *error) {
  ur_grid grid;
  uint64_t bytes = 0;
  ur_status status = given_grid(rank, shape, chunk, element_bytes, &grid, &bytes, error);
  for (uint64_t i = 0; i < count && status == UR_OK; i++, out += bytes) /* exact: so many values are in memory */
    for (uint64_t number = 0; number < grid.chunks; number++) {
      ur_grid_put(&grid, number, out, cells, false);
      cells += bytes_of_chunk(&grid, number);
    }
  return status;
}
