/* base/copy.c - copies of large cells with stores that go past the caches. */
#include "base/copy.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { LINE = 64 };

static void copy_line_sse2(uint8_t *to, const uint8_t *from) {
  __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
  __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
  __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
  __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
  _mm_stream_si128((__m128i *)(void *)to, a);
  _mm_stream_si128((__m128i *)(void *)(to + 16), b);
  _mm_stream_si128((__m128i *)(void *)(to + 32), c);
  _mm_stream_si128((__m128i *)(void *)(to + 48), d);
}

/* SSE2 is part of x86-64. `to` stands at a multiple of LINE, and `bytes` is one. */
void ur_stream_sse2(uint8_t *to, const uint8_t *from, size_t bytes, size_t ahead) {
  for (size_t i = 0; i < bytes; i += LINE) {
    if (ahead > 0) _mm_prefetch((const char *)from + i + ahead, _MM_HINT_T1);
    copy_line_sse2(to + i, from + i);
  }
}

__attribute__((target("avx512f"))) void ur_stream_avx512(uint8_t *to, const uint8_t *from, size_t bytes,
                                                         size_t ahead) {
  for (size_t i = 0; i < bytes; i += LINE) {
    if (ahead > 0) _mm_prefetch((const char *)from + i + ahead, _MM_HINT_T1);
    _mm512_stream_si512((__m512i *)(void *)(to + i), _mm512_loadu_si512((const void *)(from + i)));
  }
}

void ur_copy_piece(void *to, const void *from, size_t bytes, size_t ahead) {
  uint8_t *out = to;
  const uint8_t *in = from;
  size_t head = (LINE - (uintptr_t)out % LINE) % LINE;
  if (bytes < head + LINE) {
    memcpy(out, in, bytes);
    return;
  }
  memcpy(out, in, head);
  size_t body = (bytes - head) / LINE * LINE;
  if (__builtin_cpu_supports("avx512f")) {
    ur_stream_avx512(out + head, in + head, body, ahead);
  } else {
    ur_stream_sse2(out + head, in + head, body, ahead);
  }
  memcpy(out + head + body, in + head + body, bytes - head - body);
}

void ur_copy_settle(void) { _mm_sfence(); }

void ur_copy_streaming(void *to, const void *from, size_t bytes) {
  size_t lead = bytes > UR_STREAM_AHEAD ? bytes - UR_STREAM_AHEAD : 0;
  ur_copy_piece(to, from, lead, UR_STREAM_AHEAD);
  ur_copy_piece((uint8_t *)to + lead, (const uint8_t *)from + lead, bytes - lead, 0);
  ur_copy_settle();
}

#else

void ur_copy_piece(void *to, const void *from, size_t bytes, size_t ahead) {
  (void)ahead;
  memcpy(to, from, bytes);
}

void ur_copy_settle(void) {}

void ur_copy_streaming(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }

#endif
