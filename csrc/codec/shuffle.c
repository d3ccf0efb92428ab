/* codec/shuffle.c - the bytes of an array by their place in an element, and back. Widths are loops of their own, which the
 * compiler turns into vector instructions. */
#include "codec/shuffle.h"

#include <string.h>

static void shuffle_any(const uint8_t *restrict from, uint64_t n, uint32_t width, uint8_t *restrict to) {
  for (uint32_t plane = 0; plane < width; plane++)
    for (uint64_t i = 0; i < n; i++) to[plane * n + i] = from[i * width + plane]; /* exact: n x width is in memory */
}

static void unshuffle_any(const uint8_t *restrict from, uint64_t n, uint32_t width, uint8_t *restrict to) {
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t plane = 0; plane < width; plane++)
      to[i * width + plane] = from[plane * n + i]; /* exact: n x width is in memory */
}

static void unshuffle_2(const uint8_t *restrict from, uint64_t n, uint8_t *restrict to) {
  for (uint64_t i = 0; i < n; i++) {
    to[2 * i] = from[i];
    to[2 * i + 1] = from[n + i];
  }
}

static void unshuffle_4(const uint8_t *restrict from, uint64_t n, uint8_t *restrict to) {
  const uint8_t *a = from, *b = a + n, *c = b + n, *d = c + n;
  for (uint64_t i = 0; i < n; i++) {
    to[4 * i] = a[i];
    to[4 * i + 1] = b[i];
    to[4 * i + 2] = c[i];
    to[4 * i + 3] = d[i];
  }
}

static void unshuffle_8(const uint8_t *restrict from, uint64_t n, uint8_t *restrict to) {
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t plane = 0; plane < 8; plane++) to[8 * i + plane] = from[plane * n + i];
}

/* What is left over after the last whole element. */
static void copy_rest(const uint8_t *from, uint64_t bytes, uint32_t width, uint8_t *to) {
  uint64_t rest = bytes % width;
  memcpy(to + (bytes - rest), from + (bytes - rest), rest); /* exact: rest is at most bytes */
}

void ur_shuffle(const uint8_t *from, uint64_t bytes, uint32_t width, uint8_t *to) {
  shuffle_any(from, bytes / width, width, to);
  copy_rest(from, bytes, width, to);
}

void ur_unshuffle(const uint8_t *from, uint64_t bytes, uint32_t width, uint8_t *to) {
  uint64_t n = bytes / width;
  switch (width) {
    case 2: unshuffle_2(from, n, to); break;
    case 4: unshuffle_4(from, n, to); break;
    case 8: unshuffle_8(from, n, to); break;
    default: unshuffle_any(from, n, width, to);
  }
  copy_rest(from, bytes, width, to);
}
