/* base/utf8.h - whether bytes are UTF-8, character by character. Internal. */
#ifndef UR_UTF8_H
#define UR_UTF8_H

#include <stdint.h>

/* Bytes of the UTF-8 character at `at`, 0 for what is none. */
static inline int ur_utf8_bytes(const uint8_t *at, const uint8_t *end) {
  uint8_t first = *at;
  if (first < 0x80) return 1;
  int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC2 || first > 0xF4 || end - at <= more) return 0;
  for (int i = 1; i <= more; i++)
    if (at[i] >> 6 != 2) return 0;
  if (first == 0xE0 && at[1] < 0xA0) return 0; /* a shorter form would do */
  if (first == 0xED && at[1] > 0x9F) return 0; /* a surrogate */
  if (first == 0xF0 && at[1] < 0x90) return 0;
  if (first == 0xF4 && at[1] > 0x8F) return 0; /* beyond the last character */
  return more + 1;
}

#endif
