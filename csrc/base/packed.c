/* base/packed.c - whole numbers packed to a few bits each, and back: eight at a time, where the processor can. */
#include "base/packed.h"

#include <stddef.h>

#include "base/unpack_wide.h"

/* Loops of their own by width, so that a store is one instruction. */
#define DEFINE_UNPACK(name, T)                                                                              \
  static void name(const ur_packed_numbers *p, uint64_t first, int64_t n, uint8_t *out) {                           \
    for (int64_t i = 0; i < n; i++) { /* exact: the caller's elements, and room */                          \
      T value = (T)(p->base + ur_packed_bits(p->data, p->bits, first + (uint64_t)i));                       \
      memcpy(out + (size_t)i * sizeof value, &value, sizeof value);                                         \
    }                                                                                                       \
  }

DEFINE_UNPACK(unpack_1, uint8_t)
DEFINE_UNPACK(unpack_2, uint16_t)
DEFINE_UNPACK(unpack_4, uint32_t)
DEFINE_UNPACK(unpack_8, uint64_t)

static void unpack_some(const ur_packed_numbers *p, uint64_t first, int64_t n, uint32_t width, uint8_t *out) {
  switch (width) {
    case 1: unpack_1(p, first, n, out); break;
    case 2: unpack_2(p, first, n, out); break;
    case 4: unpack_4(p, first, n, out); break;
    default: unpack_8(p, first, n, out); break;
  }
}

int32_t ur_packed_size(uint64_t count, uint32_t bits, uint64_t *bytes) { return ur_packed_bytes(count, bits, bytes); }

/* Single bits as bytes, eight at a time: bit i is left alone in byte i, carried to its top, and brought down. */
static int64_t spread_bits(const ur_packed_numbers *p, uint64_t first, int64_t n, uint8_t *out) {
  uint64_t bases = (p->base & 0xff) * UINT64_C(0x0101010101010101);
  for (int64_t i = 0; i + 8 <= n; i += 8) {
    uint64_t word = p->data[(first + (uint64_t)i) / 8] * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
    word = ((word + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101)) + bases; /* exact: no byte beyond 255 */
    memcpy(out + i, &word, sizeof word);
  }
  return n / 8 * 8;
}

void ur_packed_range(const ur_packed_numbers *packed, uint64_t first, int64_t n, uint32_t width, uint8_t *out) {
  int64_t lead = (int64_t)(-first % 8); /* up to where elements begin with a byte */
  if (lead > n) lead = n;
  unpack_some(packed, first, lead, width, out);
  uint64_t at = first + (uint64_t)lead;                                            /* exact: an element, or their end */
  uint8_t *rest = out + (size_t)lead * width;                                      /* exact: likewise */
  bool flags = packed->bits == 1 && width == 1 && (packed->base & 0xff) < 255;
  int64_t done = lead + (flags ? spread_bits(packed, at, n - lead, rest) : ur_unpack_wide(packed, at, n - lead, width, rest));
  unpack_some(packed, first + (uint64_t)done, n - done, width, out + (size_t)done * width);      /* exact: likewise */
}

uint64_t ur_packed_one(const ur_packed_numbers *packed, uint64_t i) {
  return packed->base + ur_packed_bits(packed->data, packed->bits, i);
}

void ur_packed_places(const ur_packed_numbers *packed, const int64_t *places, int64_t n, uint32_t width, uint8_t *out) {
  for (int64_t i = 0; i < n; i++) /* exact: the caller's elements, and room */
    ur_store_low(out + (size_t)i * width, width, packed->base + ur_packed_bits(packed->data, packed->bits, (uint64_t)places[i]));
}

static uint64_t load_low(const uint8_t *from, uint32_t width) {
  switch (width) {
    case 1: return from[0];
    case 2: return ur_load16(from);
    case 4: return ur_load32(from);
    default: return ur_load64(from);
  }
}

void ur_packed_make(const uint8_t *numbers, uint32_t width, int64_t n, uint64_t base, uint32_t bits, uint8_t *out) {
  uint64_t word = 0, mask = (UINT64_C(1) << bits) - 1;
  uint32_t used = 0;
  for (int64_t i = 0; i < n; i++) {
    uint64_t value = (load_low(numbers + (size_t)i * width, width) - base) & mask; /* exact: the caller's numbers */
    word |= value << used;
    used += bits; /* exact: less than 128 */
    if (used < 64) continue;
    memcpy(out, &word, sizeof word);
    out += sizeof word; /* exact: the caller's room */
    used -= 64;
    word = used == 0 ? 0 : value >> (bits - used);
  }
  if (used > 0) {
    memcpy(out, &word, sizeof word);
    out += sizeof word; /* exact: likewise */
  }
  memset(out, 0, sizeof word);
}
