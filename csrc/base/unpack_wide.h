/* base/unpack_wide.h - packed elements eight at a time, where the processor can. Internal. */
#ifndef UR_UNPACK_WIDE_H
#define UR_UNPACK_WIDE_H

#include "base/packed.h"

/* Unpacks as many of the elements [first, first + n) as it can, and returns how many; `first` is a multiple of 8. */
int64_t ur_unpack_wide(const ur_packed_numbers *packed, uint64_t first, int64_t n, uint32_t width, uint8_t *out);

/* Elements of at most so many bits lie in four bytes, wherever they begin in the first of them. */
#define UR_WIDE_BITS 25u

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define UR_WIDE_TARGET __attribute__((target("avx2,popcnt")))

/* How eight elements, which take `bits` bytes, come to eight numbers of 32 bits: four of either half of 16 bytes. */
typedef struct {
  __m256i bytes, shifts, mask;
  uint32_t bits, half; /* the second half begins so many bytes later */
} ur_eight;

UR_WIDE_TARGET static inline ur_eight ur_eight_of(uint32_t bits) {
  uint8_t bytes[32];
  uint32_t shifts[8];
  for (uint32_t i = 0; i < 8; i++) {
    uint32_t at = i % 4 * bits + (i < 4 ? 0 : 4 * bits % 8);
    for (uint32_t j = 0; j < 4; j++) bytes[4 * i + j] = (uint8_t)(at / 8 + j); /* exact: 14 at most */
    shifts[i] = at % 8;
  }
  return (ur_eight){.bytes = _mm256_loadu_si256((const __m256i *)(const void *)bytes),
                    .shifts = _mm256_loadu_si256((const __m256i *)(const void *)shifts),
                    .mask = _mm256_set1_epi32((int32_t)((UINT32_C(1) << bits) - 1)),
                    .bits = bits,
                    .half = 4 * bits / 8};
}

/* The eight elements that begin at `at`, of which half + 16 bytes can be loaded. */
UR_WIDE_TARGET static inline __m256i ur_eight_at(const ur_eight *eight, const uint8_t *at) {
  __m128i low = _mm_loadu_si128((const __m128i *)(const void *)at);
  __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(at + eight->half));
  __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
  __m256i each = _mm256_shuffle_epi8(both, eight->bytes);
  return _mm256_and_si256(_mm256_srlv_epi32(each, eight->shifts), eight->mask);
}

/* How eight elements of more bits come to two vectors of four numbers of 64: two of either half of 16 bytes. */
typedef struct {
  __m256i bytes[2], shifts[2], mask;
  uint32_t bits, starts[4]; /* where each pair begins */
} ur_pairs;

UR_WIDE_TARGET static inline ur_pairs ur_pairs_of(uint32_t bits) {
  ur_pairs pairs = {.mask = _mm256_set1_epi64x((int64_t)((UINT64_C(1) << bits) - 1)), .bits = bits};
  for (uint32_t four = 0; four < 2; four++) {
    uint8_t bytes[32];
    uint64_t shifts[4];
    for (uint32_t i = 0; i < 4; i++) {
      uint32_t pair = 2 * four + i / 2, at = i % 2 * bits + 2 * bits * pair % 8;
      pairs.starts[pair] = 2 * bits * pair / 8;
      for (uint32_t j = 0; j < 8; j++) bytes[8 * i + j] = (uint8_t)(at / 8 + j); /* exact: 15 at most */
      shifts[i] = at % 8;
    }
    pairs.bytes[four] = _mm256_loadu_si256((const __m256i *)(const void *)bytes);
    pairs.shifts[four] = _mm256_loadu_si256((const __m256i *)(const void *)shifts);
  }
  return pairs;
}

/* Four of the eight elements that begin at `at`, the second ones if `four` is 1; starts[3] + 16 bytes can be loaded. */
UR_WIDE_TARGET static inline __m256i ur_pairs_at(const ur_pairs *pairs, const uint8_t *at, int four) {
  __m128i low = _mm_loadu_si128((const __m128i *)(const void *)(at + pairs->starts[2 * four]));
  __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(at + pairs->starts[2 * four + 1]));
  __m256i each = _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), pairs->bytes[four]);
  return _mm256_and_si256(_mm256_srlv_epi64(each, pairs->shifts[four]), pairs->mask);
}

/* Of n elements from `first` on, a multiple of 8, how many come in whole groups of eight whose loads stay inside. */
static inline int64_t ur_eights(const ur_packed_numbers *packed, uint64_t first, int64_t n) {
  uint64_t last = packed->bits <= UR_WIDE_BITS ? 4 * packed->bits / 8 : 6 * packed->bits / 8;
  uint64_t start = first / 8 * packed->bits, most = last + 16; /* exact: in the bytes that there are */
  if (start + most > packed->bytes) return 0;                          /* exact: both in memory, or nearly */
  int64_t inside = (int64_t)((packed->bytes - most - start) / packed->bits + 1), groups = n / 8;
  return 8 * (groups < inside ? groups : inside);
}

static inline bool ur_can_unpack_wide(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
}
#endif

#endif
