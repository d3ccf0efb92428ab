/* base/item.h - one value of msgpack: what its head says. Internal. */
#ifndef UR_ITEM_H
#define UR_ITEM_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { STRING, BINARY, NATURAL, NEGATIVE, ARRAY, MAP, EXTENSION, OTHER } item_kind;

/* One value without what is inside of it: of a string, binary or extension `size` bytes at `content`, before which stands the
 * type of the extension; of an array or map `size` items or pairs, of an integer its 64 bits. */
typedef struct {
  item_kind kind;
  uint64_t size;
  const uint8_t *content;
} item;

static inline uint64_t load_big(const uint8_t *at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
  return value;
}

static inline uint64_t sign_extended(uint64_t value, int bytes) {
  int shift = 64 - 8 * bytes; /* exact: 1 to 8 bytes */
  return shift == 0 ? value : (uint64_t)((int64_t)(value << shift) >> shift);
}

/* An item whose head says its size in the next `bytes` bytes. */
static inline item sized(item_kind kind, const uint8_t *at, int bytes) {
  return (item){kind, load_big(at + 1, bytes), at + 1 + bytes}; /* exact: the head is there whole */
}

static inline item fixed_size(item_kind kind, uint64_t size, const uint8_t *content) { return (item){kind, size, content}; }

/* Bytes of the head that begins with `first`, number, float or type of an extension included; 0: there is no such head. */
static inline int head_bytes(uint8_t first) {
  static const uint8_t from_c0[32] = {1, 0, 1, 1, 2, 3, 5, 3, 4, 6, 5, 9, 2, 3, 5, 9,
                                      2, 3, 5, 9, 2, 2, 2, 2, 2, 2, 3, 5, 3, 5, 3, 5};
  return first < 0xc0 || first > 0xdf ? 1 : from_c0[first - 0xc0];
}

/* The item at `at`, whose head is there whole. */
static inline item item_at(const uint8_t *at) {
  uint8_t first = *at;
  if (first < 0x80) return fixed_size(NATURAL, first, at + 1);
  if (first < 0x90) return fixed_size(MAP, first & 0x0f, at + 1);
  if (first < 0xa0) return fixed_size(ARRAY, first & 0x0f, at + 1);
  if (first < 0xc0) return fixed_size(STRING, first & 0x1f, at + 1);
  if (first >= 0xe0) return fixed_size(NEGATIVE, sign_extended(first, 1), at + 1);
  int bytes = head_bytes(first) - 1;
  if (first >= 0xc4 && first <= 0xc6) return sized(BINARY, at, bytes);
  const uint8_t *behind = at + 1 + bytes; /* exact: no further than the head's end */
  if (first >= 0xc7 && first <= 0xc9) return fixed_size(EXTENSION, load_big(at + 1, bytes - 1), behind);
  if (first >= 0xd4 && first <= 0xd8) return fixed_size(EXTENSION, UINT64_C(1) << (first - 0xd4), behind);
  if (first >= 0xcc && first <= 0xcf) return fixed_size(NATURAL, load_big(at + 1, bytes), behind);
  if (first >= 0xd0 && first <= 0xd3) {
    uint64_t value = sign_extended(load_big(at + 1, bytes), bytes);
    return fixed_size(value >> 63 ? NEGATIVE : NATURAL, value, behind);
  }
  if (first >= 0xd9 && first <= 0xdb) return sized(STRING, at, bytes);
  if (first == 0xdc || first == 0xdd) return sized(ARRAY, at, bytes);
  if (first == 0xde || first == 0xdf) return sized(MAP, at, bytes);
  return fixed_size(OTHER, 0, behind);
}

static inline bool has_bytes(item_kind kind) { return kind == STRING || kind == BINARY || kind == EXTENSION; }

#endif
