/* scan/words.c - a scan of a single range of four or eight bytes: what AVX2 compares becomes bits in registers, not bytes. */
#include "scan/words.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/layout.h"
#include "base/unpack_wide.h"
#include "unirecord_internal.h"

#define AVX2 __attribute__((target("avx2,popcnt")))

/* Bits of the lanes that fail, or, of floats, of those that pass: NaN does neither more nor less than a bound. */
AVX2 static inline uint64_t fail_i32(const uint8_t *at, __m256i low, __m256i high) {
  __m256i values = _mm256_loadu_si256((const __m256i *)(const void *)at);
  __m256i fails = _mm256_or_si256(_mm256_cmpgt_epi32(low, values), _mm256_cmpgt_epi32(values, high));
  return (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(fails));
}

AVX2 static inline uint64_t fail_i64(const uint8_t *at, __m256i low, __m256i high) {
  __m256i values = _mm256_loadu_si256((const __m256i *)(const void *)at);
  __m256i fails = _mm256_or_si256(_mm256_cmpgt_epi64(low, values), _mm256_cmpgt_epi64(values, high));
  return (uint64_t)(uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(fails));
}

AVX2 static inline uint64_t pass_f32(const uint8_t *at, __m256i low, __m256i high) {
  __m256 values = _mm256_castsi256_ps(_mm256_loadu_si256((const __m256i *)(const void *)at));
  __m256 passes = _mm256_and_ps(_mm256_cmp_ps(values, _mm256_castsi256_ps(low), _CMP_GE_OQ),
                                _mm256_cmp_ps(values, _mm256_castsi256_ps(high), _CMP_LE_OQ));
  return (uint64_t)(uint32_t)_mm256_movemask_ps(passes);
}

#define DEFINE_WORDS(name, bits_of, width)                                                                         \
  AVX2 static int64_t name(const uint8_t *data, int64_t words, __m256i low, __m256i high, uint64_t flip,           \
                           uint64_t *marks) {                                                                      \
    int64_t found = 0;                                                                                             \
    for (int64_t w = 0; w < words; w++) {                                                                          \
      uint64_t word = 0;                                                                                           \
      for (int j = 0; j < 64; j += 32 / (width)) {                                                                 \
        word |= bits_of(data, low, high) << j;                                                                     \
        data += 32; /* exact: the words are of rows that the caller has */                                         \
      }                                                                                                            \
      word ^= flip;                                                                                                \
      found += __builtin_popcountll(word); /* exact: at most 64 a word */                                          \
      if (marks) marks[w] = word;                                                                                  \
    }                                                                                                              \
    return found;                                                                                                  \
  }

DEFINE_WORDS(words_of_i32, fail_i32, 4)
DEFINE_WORDS(words_of_i64, fail_i64, 8)
DEFINE_WORDS(words_of_f32, pass_f32, 4)

AVX2 static int64_t try_words(const ur_scan_step *s, const uint8_t *data, int64_t words, uint64_t *marks) {
  bool is_float = s->type == UR_TYPE_FLOAT32;
  uint64_t flip = (s->negated != 0) == is_float ? UINT64_MAX : 0; /* what floats give are those that pass */
  if (s->type == UR_TYPE_INT64)
    return words_of_i64(data, words, _mm256_set1_epi64x((int64_t)s->low), _mm256_set1_epi64x((int64_t)s->high), flip, marks);
  __m256i low = _mm256_set1_epi32((int32_t)s->low), high = _mm256_set1_epi32((int32_t)s->high);
  return is_float ? words_of_f32(data, words, low, high, flip, marks) : words_of_i32(data, words, low, high, flip, marks);
}

int64_t ur_try_words(const ur_scan_step *s, int64_t row, int64_t n, uint64_t *marks, int64_t *found) {
  bool known = s->type == UR_TYPE_INT32 || s->type == UR_TYPE_INT64 || s->type == UR_TYPE_FLOAT32;
  if (s->op != UR_SCAN_RANGE || !known || n < 64) return 0;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("popcnt")) return 0;
  size_t width = s->type == UR_TYPE_INT64 ? 8 : 4;
  const uint8_t *data = (const uint8_t *)s->data + (size_t)(row - s->first) * width; /* exact: a row that the column has */
  *found += try_words(s, data, n / 64, marks);
  return n / 64 * 64;
}

/* Elements have 25 bits at most, so that they compare as signed numbers of 32. */
AVX2 static int64_t packed_words(const ur_eight *eight, const uint8_t *at, int64_t words, uint64_t low, uint64_t high,
                                 uint64_t flip, uint64_t *marks) {
  __m256i lows = _mm256_set1_epi32((int32_t)low), highs = _mm256_set1_epi32((int32_t)high);
  int64_t found = 0;
  for (int64_t w = 0; w < words; w++) {
    uint64_t word = 0;
    for (int j = 0; j < 64; j += 8) {
      __m256i values = ur_eight_at(eight, at);
      __m256i fails = _mm256_or_si256(_mm256_cmpgt_epi32(lows, values), _mm256_cmpgt_epi32(values, highs));
      word |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(fails)) << j;
      at += eight->bits; /* exact: the words are of rows that the caller has */
    }
    word ^= flip;
    found += __builtin_popcountll(word); /* exact: at most 64 a word */
    if (marks) marks[w] = word;
  }
  return found;
}

/* Elements have 56 bits at most, so that they compare as signed numbers of 64. */
AVX2 static int64_t pair_words(const ur_pairs *pairs, const uint8_t *at, int64_t words, uint64_t low, uint64_t high,
                               uint64_t flip, uint64_t *marks) {
  __m256i lows = _mm256_set1_epi64x((int64_t)low), highs = _mm256_set1_epi64x((int64_t)high);
  int64_t found = 0;
  for (int64_t w = 0; w < words; w++) {
    uint64_t word = 0;
    for (int j = 0; j < 64; j += 8) {
      for (int four = 0; four < 2; four++) {
        __m256i values = ur_pairs_at(pairs, at, four);
        __m256i fails = _mm256_or_si256(_mm256_cmpgt_epi64(lows, values), _mm256_cmpgt_epi64(values, highs));
        word |= (uint64_t)(uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(fails)) << (j + 4 * four);
      }
      at += pairs->bits; /* exact: the words are of rows that the caller has */
    }
    word ^= flip;
    found += __builtin_popcountll(word); /* exact: at most 64 a word */
    if (marks) marks[w] = word;
  }
  return found;
}

/* Single bits are the marks themselves, or their opposite, or all alike. */
AVX2 static int64_t bit_words(const uint8_t *at, int64_t words, uint64_t low, uint64_t high, uint64_t flip, uint64_t *marks) {
  uint64_t zeros = low == 0 ? UINT64_MAX : 0, ones = high >= 1 ? UINT64_MAX : 0;
  int64_t found = 0;
  for (int64_t w = 0; w < words; w++) {
    uint64_t bits = ur_load64(at + 8 * w), word = ((bits & ones) | (~bits & zeros)) ^ flip; /* exact: as above */
    found += __builtin_popcountll(word); /* exact: likewise */
    if (marks) marks[w] = word;
  }
  return found;
}

int64_t ur_try_packed_words(const ur_scan_step *s, uint64_t low, uint64_t high, int64_t row, int64_t n, uint64_t *marks,
                            int64_t *found) {
  uint64_t first = (uint64_t)(row - s->first);
  uint32_t bits = s->packed->bits;
  if (low > high || first % 8 != 0 || !ur_can_unpack_wide()) return 0;
  const uint8_t *at = s->packed->data + first / 8 * bits; /* exact: an element's place */
  uint64_t flip = s->negated != 0 ? 0 : UINT64_MAX;       /* what is compared are those that fail */
  if (bits == 1) {
    *found += bit_words(at, n / 64, low, high, ~flip, marks);
    return n / 64 * 64;
  }
  int64_t words = ur_eights(s->packed, first, n) / 64;
  if (bits <= UR_WIDE_BITS) {
    ur_eight eight = ur_eight_of(bits);
    *found += packed_words(&eight, at, words, low, high, flip, marks);
  } else {
    ur_pairs pairs = ur_pairs_of(bits);
    *found += pair_words(&pairs, at, words, low, high, flip, marks);
  }
  return words * 64;
}
#else
int64_t ur_try_packed_words(const ur_scan_step *s, uint64_t low, uint64_t high, int64_t row, int64_t n, uint64_t *marks,
                            int64_t *found) {
  (void)s, (void)low, (void)high, (void)row, (void)n, (void)marks, (void)found;
  return 0;
}

int64_t ur_try_words(const ur_scan_step *s, int64_t row, int64_t n, uint64_t *marks, int64_t *found) {
  (void)s, (void)row, (void)n, (void)marks, (void)found;
  return 0;
}
#endif
