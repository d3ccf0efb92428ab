/* base/packed.h - whole numbers of a few bits each: element i is the bits [i x bits, (i + 1) x bits) of little-endian words, and
 * a base added to them. Internal. */
#ifndef UR_PACKED_H
#define UR_PACKED_H

#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/layout.h"
#include "unirecord_internal.h"

/* Bytes of so many elements; false on overflow. */
static inline bool ur_packed_bytes(uint64_t count, uint32_t bits, uint64_t *bytes) {
  uint64_t all = 0;
  if (!ur_multiply(count, bits, &all)) return false;
  *bytes = (all / 64 + (all % 64 != 0) + 1) * 8; /* exact: at most 2^61 and some */
  return true;
}

/* The byte where element i begins; the caller knows that there is one, so that i x bits is exact. */
static inline uint64_t ur_packed_place(uint32_t bits, uint64_t i) { return i * bits / 8; }

/* Element i without its base. */
static inline uint64_t ur_packed_bits(const uint8_t *data, uint32_t bits, uint64_t i) {
  uint64_t at = i * bits; /* exact: as above */
  return ur_load64(data + at / 8) >> at % 8 & ((UINT64_C(1) << bits) - 1);
}

/* Stores the low bytes of a number: 1, 2, 4 or 8 of them. */
static inline void ur_store_low(uint8_t *to, uint32_t width, uint64_t value) {
  switch (width) {
    case 1: memcpy(to, &value, 1); break;
    case 2: memcpy(to, &value, 2); break;
    case 4: memcpy(to, &value, 4); break;
    default: memcpy(to, &value, 8); break;
  }
}

#endif
