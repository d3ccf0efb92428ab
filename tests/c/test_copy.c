/* test_copy.c - streaming copies are copies: every alignment of both sides, every short length, nothing beside it touched. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"

enum { ROOM = 1 << 17, EDGE = 128 };

static int check(const uint8_t *to, const uint8_t *from, size_t at, size_t bytes) {
  if (memcmp(to + at, from, bytes) != 0) return 0;
  for (size_t i = at < EDGE ? 0 : at - EDGE; i < at; i++) {
    if (to[i] != 0xEE) return 0;
  }
  for (size_t i = at + bytes; i < at + bytes + EDGE; i++) {
    if (to[i] != 0xEE) return 0;
  }
  return 1;
}

int main(void) {
  uint8_t *from = aligned_alloc(64, ROOM), *to = aligned_alloc(64, ROOM);
  if (from == NULL || to == NULL) return 1;
  for (size_t i = 0; i < ROOM; i++) from[i] = (uint8_t)(i * 131 + i / 251);
  long cases = 0;
  for (size_t out = 0; out < 64; out += 3) {
    for (size_t in = 0; in < 64; in += 7) {
      for (size_t bytes = 0; bytes < 70000; bytes = bytes < 300 ? bytes + 1 : bytes * 3 + 17) {
        memset(to, 0xEE, bytes + 4 * EDGE);
        ur_copy_streaming(to + EDGE + out, from + in, bytes);
        if (!check(to, from + in, EDGE + out, bytes)) {
          printf("wrong: to %zu, from %zu, %zu bytes\n", out, in, bytes);
          return 1;
        }
        cases++;
      }
    }
  }
#if defined(__x86_64__) && defined(__GNUC__)
  for (size_t bytes = 0; bytes <= 64 * 50; bytes += 64) {
    for (size_t in = 0; in < 64; in++) {
      memset(to, 0xEE, bytes + 4 * EDGE);
      ur_stream_sse2(to + EDGE, from + in, bytes, in % 2 * 1024);
      if (!check(to, from + in, EDGE, bytes)) return 1;
      if (!__builtin_cpu_supports("avx512f")) continue;
      memset(to, 0xEE, bytes + 4 * EDGE);
      ur_stream_avx512(to + EDGE, from + in, bytes, in % 2 * 1024);
      if (!check(to, from + in, EDGE, bytes)) return 1;
      cases++;
    }
  }
#endif
  printf("%ld copies\n", cases);
  free(from);
  free(to);
  return 0;
}
