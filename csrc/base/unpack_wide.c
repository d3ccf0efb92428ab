/* base/unpack_wide.c - packed elements eight at a time by AVX2: a shuffle brings each to four bytes, and a shift to their start. */
#include "base/unpack_wide.h"

#include <stddef.h>

#if defined(__x86_64__) && defined(__GNUC__)

#define STORE(to, vector) _mm256_storeu_si256((__m256i *)(void *)(to), vector)

UR_WIDE_TARGET static void to_8_bytes(const ur_eight *eight, const uint8_t *at, int64_t n, uint64_t base, uint8_t *out) {
  __m256i bases = _mm256_set1_epi64x((int64_t)base);
  for (int64_t i = 0; i < n; i += 8) {
    __m256i found = ur_eight_at(eight, at);
    STORE(out, _mm256_add_epi64(_mm256_cvtepu32_epi64(_mm256_castsi256_si128(found)), bases));
    STORE(out + 32, _mm256_add_epi64(_mm256_cvtepu32_epi64(_mm256_extracti128_si256(found, 1)), bases));
    at += eight->bits; /* exact: the caller's elements, and room */
    out += 64;         /* exact: likewise */
  }
}

UR_WIDE_TARGET static void to_4_bytes(const ur_eight *eight, const uint8_t *at, int64_t n, uint64_t base, uint8_t *out) {
  __m256i bases = _mm256_set1_epi32((int32_t)base);
  for (int64_t i = 0; i < n; i += 8) {
    STORE(out, _mm256_add_epi32(ur_eight_at(eight, at), bases));
    at += eight->bits; /* exact: as above */
    out += 32;         /* exact: likewise */
  }
}

/* The lower halves of eight numbers of 32 bits, which fit in them. */
UR_WIDE_TARGET static inline __m128i halves(__m256i eight) {
  return _mm_packus_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
}

UR_WIDE_TARGET static void to_2_bytes(const ur_eight *eight, const uint8_t *at, int64_t n, uint64_t base, uint8_t *out) {
  __m128i bases = _mm_set1_epi16((int16_t)base);
  for (int64_t i = 0; i < n; i += 8) {
    _mm_storeu_si128((__m128i *)(void *)out, _mm_add_epi16(halves(ur_eight_at(eight, at)), bases));
    at += eight->bits; /* exact: as above */
    out += 16;         /* exact: likewise */
  }
}

UR_WIDE_TARGET static void to_1_byte(const ur_eight *eight, const uint8_t *at, int64_t n, uint64_t base, uint8_t *out) {
  __m128i bases = _mm_set1_epi8((int8_t)base);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m128i first = halves(ur_eight_at(eight, at)), second = halves(ur_eight_at(eight, at + eight->bits));
    _mm_storeu_si128((__m128i *)(void *)out, _mm_add_epi8(_mm_packus_epi16(first, second), bases));
    at += 2 * eight->bits; /* exact: as above */
    out += 16;             /* exact: likewise */
  }
  for (; i < n; i += 8) {
    __m128i found = halves(ur_eight_at(eight, at));
    _mm_storel_epi64((__m128i *)(void *)out, _mm_add_epi8(_mm_packus_epi16(found, found), bases));
    at += eight->bits; /* exact: as above */
    out += 8;          /* exact: likewise */
  }
}

UR_WIDE_TARGET static void pairs_to_8_bytes(const ur_pairs *pairs, const uint8_t *at, int64_t n, uint64_t base, uint8_t *out) {
  __m256i bases = _mm256_set1_epi64x((int64_t)base);
  for (int64_t i = 0; i < n; i += 8) {
    STORE(out, _mm256_add_epi64(ur_pairs_at(pairs, at, 0), bases));
    STORE(out + 32, _mm256_add_epi64(ur_pairs_at(pairs, at, 1), bases));
    at += pairs->bits; /* exact: as above */
    out += 64;         /* exact: likewise */
  }
}

int64_t ur_unpack_wide(const ur_packed_numbers *packed, uint64_t first, int64_t n, uint32_t width, uint8_t *out) {
  bool narrow = packed->bits <= UR_WIDE_BITS;
  if (n < 8 || !ur_can_unpack_wide() || (narrow ? packed->bits > 8 * width : width < 8)) return 0; /* exact: a width is at most 8 */
  int64_t whole = ur_eights(packed, first, n);
  const uint8_t *at = packed->data + first / 8 * packed->bits; /* exact: an element's */
  if (!narrow) {
    ur_pairs pairs = ur_pairs_of(packed->bits);
    pairs_to_8_bytes(&pairs, at, whole, packed->base, out);
    return whole;
  }
  ur_eight eight = ur_eight_of(packed->bits);
  switch (width) {
    case 1: to_1_byte(&eight, at, whole, packed->base, out); break;
    case 2: to_2_bytes(&eight, at, whole, packed->base, out); break;
    case 4: to_4_bytes(&eight, at, whole, packed->base, out); break;
    default: to_8_bytes(&eight, at, whole, packed->base, out); break;
  }
  return whole;
}
#else
int64_t ur_unpack_wide(const ur_packed_numbers *packed, uint64_t first, int64_t n, uint32_t width, uint8_t *out) {
  (void)packed, (void)first, (void)n, (void)width, (void)out;
  return 0;
}
#endif
