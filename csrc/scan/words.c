/* scan/words.c - a scan of a single range of four or eight bytes: what AVX2 compares becomes bits in registers, not bytes. */
#include "scan/words.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/layout.h"
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
#else
int64_t ur_try_words(const ur_scan_step *s, int64_t row, int64_t n, uint64_t *marks, int64_t *found) {
  (void)s, (void)row, (void)n, (void)marks, (void)found;
  return 0;
}
#endif
