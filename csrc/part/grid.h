/* part/grid.h - an array cut into chunks along all its dimensions: where each chunk lies, and boxes copied. Pure. Internal. */
#ifndef UR_GRID_H
#define UR_GRID_H

#include <stdbool.h>

#include "base/layout.h"

/* Chunks are in C order, those at the end of a dimension cut to what is there; elements of a chunk likewise. */
typedef struct {
  uint32_t rank;
  uint64_t element;             /* bytes of one */
  uint64_t shape[UR_MAX_RANK];  /* of a value; 0 for a free dimension, as the only one of bytes and text, until one is known */
  uint32_t free;                /* 1 + the number of the free dimension, or 0 */
  uint64_t along;               /* bytes of one along that */
  uint64_t chunk[UR_MAX_RANK];  /* of a chunk that is whole */
  uint64_t counts[UR_MAX_RANK]; /* chunks along each dimension */
  uint64_t chunks;              /* of a value */
} ur_grid;

/* Fills the rest; false unless 1 <= chunk <= shape in all dimensions but one, which may be free, and a value has *bytes < 2^62
 * bytes, which is said: with a free dimension, one of 1 along it. */
bool ur_grid_measure(ur_grid *grid, uint64_t element, uint64_t *bytes);

/* The grid of a value of so many bytes; false where they are no array. */
bool ur_grid_of_value(const ur_grid *grid, uint64_t bytes, ur_grid *own);

/* Which chunk number `number` is along each dimension, its first element and its sizes there; returns its bytes. */
uint64_t ur_grid_chunk(const ur_grid *grid, uint64_t number, uint64_t *at, uint64_t *first, uint64_t *sizes);

/* Bytes of all chunks before this one, which has the numbers `at` and the sizes `sizes`. */
uint64_t ur_grid_before(const ur_grid *grid, const uint64_t *at, const uint64_t *sizes);

/* Copies a box of so many elements along each dimension; `to` and `from` point at the first of them in arrays of these shapes,
 * in which it lies. With `streams` its stores go past the caches: ur_copy_settle (base/copy.h) makes all of them seen. */
void ur_box_copy(uint32_t rank, uint64_t element, const uint64_t *sizes, uint8_t *to, const uint64_t *to_shape,
                 const uint8_t *from, const uint64_t *from_shape, bool streams);

/* Where the element at these places begins in an array that has it. */
uint64_t ur_box_offset(uint32_t rank, uint64_t element, const uint64_t *shape, const uint64_t *at);

/* Copies a whole chunk from where its elements lie one after the other to its place in a value, likewise, and back. */
void ur_grid_put(const ur_grid *grid, uint64_t number, uint8_t *value, const uint8_t *chunk, bool streams);
void ur_grid_take(const ur_grid *grid, uint64_t number, const uint8_t *value, uint8_t *chunk);

#endif
