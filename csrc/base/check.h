/* base/check.h - arithmetic on sizes and offsets from files: every operation says whether it stayed in range. */
#ifndef UR_CHECK_H
#define UR_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Where one of these does not hold, the core would be wrong in silence. */
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "UniRecord's C core needs a little-endian machine: values are handed out as they lie in the files"
#endif
#if !defined(__SIZEOF_INT128__)
#error "UniRecord's C core needs a 64-bit machine, with a compiler that has __int128 (gcc, clang)"
#endif
_Static_assert(sizeof(void *) == 8 && sizeof(size_t) == 8, "sizes of files are sizes of memory: 64 bits");
_Static_assert(sizeof(off_t) == 8, "offsets of files have 64 bits");

/* *sum = a + b; false on overflow. */
static inline bool ur_add(uint64_t a, uint64_t b, uint64_t *sum) { return !__builtin_add_overflow(a, b, sum); }

/* *product = a * b; false on overflow. */
static inline bool ur_multiply(uint64_t a, uint64_t b, uint64_t *product) {
  return !__builtin_mul_overflow(a, b, product);
}

/* *aligned = the least multiple of `to` (a power of two) that is >= value; false on overflow. */
static inline bool ur_align(uint64_t value, uint64_t to, uint64_t *aligned) {
  uint64_t raised;
  if (!ur_add(value, to - 1, &raised)) return false;
  *aligned = raised & ~(to - 1);
  return true;
}

/* An array of `count` elements of `width` bytes that begins at *at: *place is where, and *at becomes the next multiple of
 * `to` after its end. False on overflow. */
static inline bool ur_append_array(uint64_t *at, uint64_t count, uint64_t width, uint64_t to, uint64_t *place) {
  uint64_t bytes, end, next;
  if (!ur_multiply(count, width, &bytes) || !ur_add(*at, bytes, &end) || !ur_align(end, to, &next)) return false;
  *place = *at;
  *at = next;
  return true;
}

/* Whether [offset, offset + bytes) lies in [0, size). */
static inline bool ur_inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

static inline bool ur_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

#endif
