/* base/hash.c - XXH3-64 and XXH3-128 with a seed, written from the xxHash specification (doc/xxhash_spec.md, version 0.2.0).
 * Of inputs of more than 240 bytes the low half of XXH3-128 is XXH3-64, so that one pass gives both.
 *
 * Inputs up to 240 bytes are a few multiplications. Longer ones run through eight 64-bit sums, 64 bytes (a stripe) at
 * a time, in blocks of 16 stripes; that loop exists in plain C, which compilers vectorise where they can, and
 * for x86-64 with SSE2 (always there), AVX2 and AVX-512 (chosen when the machine has them); all give the same digests.
 *
 * What each is for, in ns a digest (a Xeon with AVX-512, -O3, warm, ways in turn, medians of 201 turns on a busy machine;
 * up to 240 bytes all are one: 10 to 25 ns):
 *                               241 B    1 KiB    4 KiB    110 KiB
 *   gcc 12    portable             44      155      542     13,900
 *             SSE2                 34       81      274      7,030
 *             AVX2                 36       61      178      3,920
 *             AVX-512              42       64      146      3,930
 *   clang 14  portable             54      127      329     12,800
 *             SSE2                 52      116      282      9,650
 */
#include "base/hash.h"

#include "base/check.h"
#include "base/copy.h"
#include "unirecord_internal.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

__extension__ typedef unsigned __int128 u128;

#define PRIME32_1 UINT64_C(0x9E3779B1)
#define PRIME32_2 UINT64_C(0x85EBCA77)
#define PRIME32_3 UINT64_C(0xC2B2AE3D)
#define PRIME64_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME64_3 UINT64_C(0x165667B19E3779F9)
#define PRIME64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME64_5 UINT64_C(0x27D4EB2F165667C5)
#define PRIME_MX1 UINT64_C(0x165667919E3779F9)
#define PRIME_MX2 UINT64_C(0x9FB21C651E98DF25)

enum {
  STRIPE = 64,                               /* bytes */
  SECRET = 192,                              /* bytes */
  SECRET_STEP = 8,                           /* secret bytes from one stripe to the next */
  BLOCK_STRIPES = (SECRET - STRIPE) / SECRET_STEP,
  BLOCK = BLOCK_STRIPES * STRIPE,            /* bytes */
  SCRAMBLE_SECRET = SECRET - STRIPE,
  LAST_STRIPE_SECRET = SECRET - STRIPE - 7,
  MERGE_SECRET = 11,
  HIGH_MERGE_SECRET = SECRET - STRIPE - MERGE_SECRET,
  LONGEST_MEDIUM = 240,
  PIECE_BLOCKS = 8                           /* digested and then copied, while the next ones are loaded */
};

static const uint8_t DEFAULT_SECRET[SECRET] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

static inline uint32_t load32(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline uint64_t load64(const uint8_t *at) {
  uint64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

static inline void store64(uint8_t *at, uint64_t value) {
  memcpy(at, &value, sizeof value);
}

static inline uint64_t rotate_left(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

static inline uint64_t multiply_and_fold(uint64_t a, uint64_t b) {
  u128 product = (u128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t avalanche(uint64_t x) {
  x ^= x >> 37;
  x *= PRIME_MX1;
  return x ^ (x >> 32);
}

static inline uint64_t avalanche_xxh64(uint64_t x) {
  x ^= x >> 33;
  x *= PRIME64_2;
  x ^= x >> 29;
  x *= PRIME64_3;
  return x ^ (x >> 32);
}

/* ---- up to 240 bytes ---- */

static inline uint64_t hash_1_to_3(const uint8_t *data, size_t bytes, uint64_t seed) {
  uint32_t combined = (uint32_t)data[bytes - 1] | (uint32_t)bytes << 8 | (uint32_t)data[0] << 16 |
                      (uint32_t)data[bytes >> 1] << 24;
  uint64_t key = (uint64_t)(load32(DEFAULT_SECRET) ^ load32(DEFAULT_SECRET + 4)) + seed;
  return avalanche_xxh64(key ^ combined);
}

static inline uint64_t hash_4_to_8(const uint8_t *data, size_t bytes, uint64_t seed) {
  seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
  uint64_t combined = (uint64_t)load32(data + bytes - 4) | (uint64_t)load32(data) << 32;
  uint64_t value = ((load64(DEFAULT_SECRET + 8) ^ load64(DEFAULT_SECRET + 16)) - seed) ^ combined;
  value ^= rotate_left(value, 49) ^ rotate_left(value, 24);
  value *= PRIME_MX2;
  value ^= (value >> 35) + bytes;
  value *= PRIME_MX2;
  return value ^ (value >> 28);
}

static inline uint64_t hash_9_to_16(const uint8_t *data, size_t bytes, uint64_t seed) {
  uint64_t low = ((load64(DEFAULT_SECRET + 24) ^ load64(DEFAULT_SECRET + 32)) + seed) ^ load64(data);
  uint64_t high = ((load64(DEFAULT_SECRET + 40) ^ load64(DEFAULT_SECRET + 48)) - seed) ^ load64(data + bytes - 8);
  return avalanche(bytes + __builtin_bswap64(low) + high + multiply_and_fold(low, high));
}

static inline uint64_t mix(const uint8_t *data, size_t secret_offset, uint64_t seed) {
  const uint8_t *secret = DEFAULT_SECRET + secret_offset;
  return multiply_and_fold(load64(data) ^ (load64(secret) + seed), load64(data + 8) ^ (load64(secret + 8) - seed));
}

static inline uint64_t hash_17_to_128(const uint8_t *data, size_t bytes, uint64_t seed) {
  uint64_t sum = bytes * PRIME64_1;
  for (size_t i = (bytes - 1) / 32 + 1; i-- > 0;) {
    sum += mix(data + 16 * i, 32 * i, seed);
    sum += mix(data + bytes - 16 * i - 16, 32 * i + 16, seed);
  }
  return avalanche(sum);
}

static inline uint64_t hash_129_to_240(const uint8_t *data, size_t bytes, uint64_t seed) {
  uint64_t sum = bytes * PRIME64_1;
  for (size_t i = 0; i < 8; i++) sum += mix(data + 16 * i, 16 * i, seed);
  sum = avalanche(sum);
  for (size_t i = 8; i < bytes / 16; i++) sum += mix(data + 16 * i, 16 * (i - 8) + 3, seed);
  return avalanche(sum + mix(data + bytes - 16, 119, seed));
}

/* ---- up to 240 bytes, 128 bits: words[0] is the low half ---- */

static inline void hash128_0(uint64_t seed, uint64_t words[2]) {
  words[0] = avalanche_xxh64(seed ^ load64(DEFAULT_SECRET + 64) ^ load64(DEFAULT_SECRET + 72));
  words[1] = avalanche_xxh64(seed ^ load64(DEFAULT_SECRET + 80) ^ load64(DEFAULT_SECRET + 88));
}

static inline void hash128_1_to_3(const uint8_t *data, size_t bytes, uint64_t seed, uint64_t words[2]) {
  uint32_t combined = (uint32_t)data[bytes - 1] | (uint32_t)bytes << 8 | (uint32_t)data[0] << 16 |
                      (uint32_t)data[bytes >> 1] << 24;
  uint32_t swapped = __builtin_bswap32(combined);
  uint32_t rotated = swapped << 13 | swapped >> 19;
  uint64_t low = (uint64_t)(load32(DEFAULT_SECRET) ^ load32(DEFAULT_SECRET + 4)) + seed;
  uint64_t high = (uint64_t)(load32(DEFAULT_SECRET + 8) ^ load32(DEFAULT_SECRET + 12)) - seed;
  words[0] = avalanche_xxh64(low ^ combined);
  words[1] = avalanche_xxh64(high ^ rotated);
}

static inline void hash128_4_to_8(const uint8_t *data, size_t bytes, uint64_t seed, uint64_t words[2]) {
  seed ^= (uint64_t)__builtin_bswap32((uint32_t)seed) << 32;
  uint64_t combined = (uint64_t)load32(data) | (uint64_t)load32(data + bytes - 4) << 32;
  uint64_t key = (load64(DEFAULT_SECRET + 16) ^ load64(DEFAULT_SECRET + 24)) + seed;
  u128 product = (u128)(combined ^ key) * (PRIME64_1 + (bytes << 2));
  uint64_t low = (uint64_t)product, high = (uint64_t)(product >> 64);
  high += low << 1;
  low ^= high >> 3;
  low ^= low >> 35;
  low *= PRIME_MX2;
  words[0] = low ^ (low >> 28);
  words[1] = avalanche(high);
}

static inline void hash128_9_to_16(const uint8_t *data, size_t bytes, uint64_t seed, uint64_t words[2]) {
  uint64_t low_key = (load64(DEFAULT_SECRET + 32) ^ load64(DEFAULT_SECRET + 40)) - seed;
  uint64_t high_key = (load64(DEFAULT_SECRET + 48) ^ load64(DEFAULT_SECRET + 56)) + seed;
  uint64_t first = load64(data), last = load64(data + bytes - 8);
  u128 product = (u128)(first ^ last ^ low_key) * PRIME64_1;
  uint64_t low = (uint64_t)product, high = (uint64_t)(product >> 64);
  low += (uint64_t)(bytes - 1) << 54;
  last ^= high_key;
  high += last + (last & UINT32_MAX) * (PRIME32_2 - 1);
  low ^= __builtin_bswap64(high);
  product = (u128)low * PRIME64_2;
  words[0] = avalanche((uint64_t)product);
  words[1] = avalanche((uint64_t)(product >> 64) + high * PRIME64_2);
}

static inline void mix128(uint64_t sums[2], const uint8_t *one, const uint8_t *other, size_t secret_offset, uint64_t seed) {
  sums[0] = (sums[0] + mix(one, secret_offset, seed)) ^ (load64(other) + load64(other + 8));
  sums[1] = (sums[1] + mix(other, secret_offset + 16, seed)) ^ (load64(one) + load64(one + 8));
}

static inline void end_medium128(const uint64_t sums[2], size_t bytes, uint64_t seed, uint64_t words[2]) {
  words[0] = avalanche(sums[0] + sums[1]);
  words[1] = 0 - avalanche(sums[0] * PRIME64_1 + sums[1] * PRIME64_4 + (bytes - seed) * PRIME64_2);
}

static inline void hash128_17_to_128(const uint8_t *data, size_t bytes, uint64_t seed, uint64_t words[2]) {
  uint64_t sums[2] = {bytes * PRIME64_1, 0};
  for (size_t i = (bytes - 1) / 32 + 1; i-- > 0;)
    mix128(sums, data + 16 * i, data + bytes - 16 * i - 16, 32 * i, seed);
  end_medium128(sums, bytes, seed, words);
}

static inline void hash128_129_to_240(const uint8_t *data, size_t bytes, uint64_t seed, uint64_t words[2]) {
  uint64_t sums[2] = {bytes * PRIME64_1, 0};
  for (size_t i = 0; i < 4; i++) mix128(sums, data + 32 * i, data + 32 * i + 16, 32 * i, seed);
  sums[0] = avalanche(sums[0]);
  sums[1] = avalanche(sums[1]);
  for (size_t i = 4; i < bytes / 32; i++) mix128(sums, data + 32 * i, data + 32 * i + 16, 32 * (i - 4) + 3, seed);
  mix128(sums, data + bytes - 16, data + bytes - 32, 103, 0 - seed);
  end_medium128(sums, bytes, seed, words);
}

/* ---- longer: each way offers whole blocks (stripes, then a scramble), and a run of stripes ---- */

typedef void run_function(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count);

static inline void add_stripe(uint64_t sums[8], const uint8_t *data, const uint8_t *secret) {
  uint64_t words[8], keys[8];
  for (int i = 0; i < 8; i++) words[i] = load64(data + 8 * i);
  for (int i = 0; i < 8; i++) keys[i] = words[i] ^ load64(secret + 8 * i);
  for (int i = 0; i < 8; i++) sums[i] += words[i ^ 1] + (keys[i] & UINT32_MAX) * (keys[i] >> 32);
}

static void stripes_portable(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count) {
  for (size_t i = 0; i < count; i++) add_stripe(sums, data + STRIPE * i, secret + SECRET_STEP * i);
}

static void blocks_portable(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count) {
  for (size_t block = 0; block < count; block++) {
    stripes_portable(sums, data + BLOCK * block, secret, BLOCK_STRIPES);
    for (int i = 0; i < 8; i++) {
      sums[i] ^= (sums[i] >> 47) ^ load64(secret + SCRAMBLE_SECRET + 8 * i);
      sums[i] *= PRIME32_1;
    }
  }
}

#if defined(__x86_64__)

#define AVX2 __attribute__((target("avx2")))

static inline __m128i add_words_sse2(__m128i sum, const uint8_t *data, const uint8_t *secret) {
  __m128i words = _mm_loadu_si128((const __m128i *)(const void *)data);
  __m128i keys = _mm_xor_si128(words, _mm_loadu_si128((const __m128i *)(const void *)secret));
  __m128i product = _mm_mul_epu32(keys, _mm_shuffle_epi32(keys, _MM_SHUFFLE(3, 3, 1, 1)));
  return _mm_add_epi64(sum, _mm_add_epi64(product, _mm_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2))));
}

static inline __m128i scramble_sse2(__m128i sum, const uint8_t *secret) {
  __m128i mixed = _mm_xor_si128(sum, _mm_srli_epi64(sum, 47));
  mixed = _mm_xor_si128(mixed, _mm_loadu_si128((const __m128i *)(const void *)secret));
  __m128i prime = _mm_set1_epi64x((long long)PRIME32_1);
  __m128i high = _mm_slli_epi64(_mm_mul_epu32(_mm_srli_epi64(mixed, 32), prime), 32);
  return _mm_add_epi64(_mm_mul_epu32(mixed, prime), high);
}

static inline void run_sse2(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t stripes,
                            int scramble) {
  __m128i s[4];
  for (int k = 0; k < 4; k++) s[k] = _mm_loadu_si128((const __m128i *)(const void *)(sums + 2 * k));
  for (size_t i = 0; i < stripes; i++) {
    const uint8_t *words = data + STRIPE * i, *keys = secret + SECRET_STEP * i;
    for (int k = 0; k < 4; k++) s[k] = add_words_sse2(s[k], words + 16 * k, keys + 16 * k);
  }
  for (int k = 0; k < 4; k++) {
    if (scramble) s[k] = scramble_sse2(s[k], secret + SCRAMBLE_SECRET + 16 * k);
    _mm_storeu_si128((__m128i *)(void *)(sums + 2 * k), s[k]);
  }
}

static void stripes_sse2(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count) {
  run_sse2(sums, data, secret, count, 0);
}

static void blocks_sse2(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count) {
  for (size_t block = 0; block < count; block++) run_sse2(sums, data + BLOCK * block, secret, BLOCK_STRIPES, 1);
}

static inline AVX2 __m256i add_words_avx2(__m256i sum, const uint8_t *data, const uint8_t *secret) {
  __m256i words = _mm256_loadu_si256((const __m256i *)(const void *)data);
  __m256i keys = _mm256_xor_si256(words, _mm256_loadu_si256((const __m256i *)(const void *)secret));
  __m256i product = _mm256_mul_epu32(keys, _mm256_srli_epi64(keys, 32));
  return _mm256_add_epi64(sum, _mm256_add_epi64(product, _mm256_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2))));
}

static inline AVX2 __m256i scramble_avx2(__m256i sum, const uint8_t *secret) {
  __m256i mixed = _mm256_xor_si256(sum, _mm256_srli_epi64(sum, 47));
  mixed = _mm256_xor_si256(mixed, _mm256_loadu_si256((const __m256i *)(const void *)secret));
  __m256i prime = _mm256_set1_epi64x((long long)PRIME32_1);
  __m256i high = _mm256_slli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime), 32);
  return _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), high);
}

static inline AVX2 void run_avx2(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t stripes,
                                 int scramble) {
  __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)sums);
  __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(sums + 4));
#pragma GCC unroll 4
  for (size_t i = 0; i < stripes; i++) {
    low = add_words_avx2(low, data + STRIPE * i, secret + SECRET_STEP * i);
    high = add_words_avx2(high, data + STRIPE * i + 32, secret + SECRET_STEP * i + 32);
  }
  if (scramble) {
    low = scramble_avx2(low, secret + SCRAMBLE_SECRET);
    high = scramble_avx2(high, secret + SCRAMBLE_SECRET + 32);
  }
  _mm256_storeu_si256((__m256i *)(void *)sums, low);
  _mm256_storeu_si256((__m256i *)(void *)(sums + 4), high);
}

static AVX2 void stripes_avx2(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count) {
  run_avx2(sums, data, secret, count, 0);
}

static AVX2 void blocks_avx2(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count) {
  for (size_t block = 0; block < count; block++) run_avx2(sums, data + BLOCK * block, secret, BLOCK_STRIPES, 1);
}

#define AVX512 __attribute__((target("avx512f")))

static inline AVX512 __m512i add_words_avx512(__m512i sum, const uint8_t *data, __m512i secret) {
  __m512i words = _mm512_loadu_si512(data);
  __m512i keys = _mm512_xor_si512(words, secret);
  __m512i product = _mm512_mul_epu32(keys, _mm512_srli_epi64(keys, 32));
  __m512i swapped = _mm512_shuffle_epi32(words, (_MM_PERM_ENUM)_MM_SHUFFLE(1, 0, 3, 2));
  return _mm512_add_epi64(sum, _mm512_add_epi64(product, swapped));
}

static inline AVX512 __m512i sum_stripes_avx512(__m512i sum, const uint8_t *data, const uint8_t *secret, size_t count) {
#pragma GCC unroll 4
  for (size_t i = 0; i < count; i++) {
    sum = add_words_avx512(sum, data + STRIPE * i, _mm512_loadu_si512(secret + SECRET_STEP * i));
  }
  return sum;
}

static AVX512 void stripes_avx512(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count) {
  _mm512_storeu_si512(sums, sum_stripes_avx512(_mm512_loadu_si512(sums), data, secret, count));
}

/* A block is summed apart, so that one block waits for the one before in the scramble alone. */
static AVX512 void blocks_avx512(uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count) {
  __m512i scramble = _mm512_loadu_si512(secret + SCRAMBLE_SECRET);
  __m512i prime = _mm512_set1_epi64((long long)PRIME32_1);
  __m512i sum = _mm512_loadu_si512(sums);
  for (size_t block = 0; block < count; block++, data += BLOCK) {
    sum = _mm512_add_epi64(sum, sum_stripes_avx512(_mm512_setzero_si512(), data, secret, BLOCK_STRIPES));
    __m512i mixed = _mm512_xor_si512(_mm512_xor_si512(sum, _mm512_srli_epi64(sum, 47)), scramble);
    __m512i high = _mm512_slli_epi64(_mm512_mul_epu32(_mm512_srli_epi64(mixed, 32), prime), 32);
    sum = _mm512_add_epi64(_mm512_mul_epu32(mixed, prime), high);
  }
  _mm512_storeu_si512(sums, sum);
}

#endif

static void derive_secret(uint64_t seed, uint8_t secret[SECRET]) {
  for (size_t i = 0; i < SECRET; i += 16) {
    store64(secret + i, load64(DEFAULT_SECRET + i) + seed);
    store64(secret + i + 8, load64(DEFAULT_SECRET + i + 8) - seed);
  }
}

/* Digests whole blocks and copies them, piece by piece. */
static void copy_blocks(run_function *blocks, uint64_t sums[8], const uint8_t *data, const uint8_t *secret, size_t count,
                        uint8_t *to) {
  for (size_t first = 0; first < count; first += PIECE_BLOCKS) {
    size_t n = count - first < PIECE_BLOCKS ? count - first : PIECE_BLOCKS;
    size_t ahead = count - first >= 2 * PIECE_BLOCKS ? (size_t)PIECE_BLOCKS * BLOCK : 0;
    blocks(sums, data + first * BLOCK, secret, n);
    ur_copy_piece(to + first * BLOCK, data + first * BLOCK, n * BLOCK, ahead);
  }
}

/* A digest of more than 240 bytes on its way. */
typedef struct {
  uint64_t sums[8];
  uint8_t secret[SECRET];
} long_hash;

static void begin_long(long_hash *hash, uint64_t seed) {
  static const uint64_t first[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};
  memcpy(hash->sums, first, sizeof first);
  derive_secret(seed, hash->secret);
}

static uint64_t merge(const long_hash *hash, const uint8_t *secret, uint64_t merged) {
  for (size_t i = 0; i < 8; i += 2) {
    const uint8_t *key = secret + 8 * i;
    merged += multiply_and_fold(hash->sums[i] ^ load64(key), hash->sums[i + 1] ^ load64(key + 8));
  }
  return avalanche(merged);
}

/* After the whole blocks: what is left, 1 to 1,024 bytes, and the last 64 bytes of all. With `high`, the other half of the
 * 128 bits is put there. */
static uint64_t end_long(long_hash *hash, run_function *stripes, const uint8_t *rest, const uint8_t *last, uint64_t bytes,
                         uint64_t *high) {
  stripes(hash->sums, rest, hash->secret, (size_t)((bytes - 1) % BLOCK) / STRIPE);
  stripes(hash->sums, last, hash->secret + LAST_STRIPE_SECRET, 1);
  if (high != NULL) *high = merge(hash, hash->secret + HIGH_MERGE_SECRET, ~(bytes * PRIME64_2));
  return merge(hash, hash->secret + MERGE_SECRET, bytes * PRIME64_1);
}

static uint64_t hash_long(run_function *blocks, run_function *stripes, const uint8_t *data, size_t bytes,
                          uint64_t seed, uint8_t *to, uint64_t *high) {
  long_hash hash;
  begin_long(&hash, seed);
  size_t whole = (bytes - 1) / BLOCK;
  if (to == NULL) {
    blocks(hash.sums, data, hash.secret, whole);
  } else {
    copy_blocks(blocks, hash.sums, data, hash.secret, whole, to);
    memcpy(to + whole * BLOCK, data + whole * BLOCK, bytes - whole * BLOCK);
    ur_copy_settle();
  }
  return end_long(&hash, stripes, data + whole * BLOCK, data + bytes - STRIPE, bytes, high);
}

int ur_hash_can(ur_hash_way way) {
#if defined(__x86_64__)
  if (way == UR_HASH_AVX512) return __builtin_cpu_supports("avx512f") != 0;
  if (way == UR_HASH_AVX2) return __builtin_cpu_supports("avx2") != 0;
  return 1;
#else
  return way == UR_HASH_PORTABLE;
#endif
}

static uint64_t hash_short(const uint8_t *data, size_t bytes, uint64_t seed) {
  if (bytes > 128) return hash_129_to_240(data, bytes, seed);
  if (bytes > 16) return hash_17_to_128(data, bytes, seed);
  if (bytes > 8) return hash_9_to_16(data, bytes, seed);
  if (bytes >= 4) return hash_4_to_8(data, bytes, seed);
  if (bytes > 0) return hash_1_to_3(data, bytes, seed);
  return avalanche_xxh64(seed ^ load64(DEFAULT_SECRET + 56) ^ load64(DEFAULT_SECRET + 64));
}

static void functions_of(ur_hash_way way, run_function **blocks, run_function **stripes) {
  *blocks = blocks_portable;
  *stripes = stripes_portable;
#if defined(__x86_64__)
  if (way == UR_HASH_AVX512) *blocks = blocks_avx512, *stripes = stripes_avx512;
  if (way == UR_HASH_AVX2) *blocks = blocks_avx2, *stripes = stripes_avx2;
  if (way == UR_HASH_SSE2) *blocks = blocks_sse2, *stripes = stripes_sse2;
#else
  (void)way;
#endif
}

uint64_t ur_hash_by(ur_hash_way way, const void *data, size_t bytes, uint64_t seed, void *to) {
  if (bytes <= LONGEST_MEDIUM) {
    if (to != NULL && bytes > 0) memcpy(to, data, bytes);
    return hash_short(data, bytes, seed);
  }
  run_function *blocks, *stripes;
  functions_of(way, &blocks, &stripes);
  return hash_long(blocks, stripes, data, bytes, seed, to, NULL);
}

static void hash128_short(const uint8_t *data, size_t bytes, uint64_t seed, uint64_t words[2]) {
  if (bytes > 128) hash128_129_to_240(data, bytes, seed, words);
  else if (bytes > 16) hash128_17_to_128(data, bytes, seed, words);
  else if (bytes > 8) hash128_9_to_16(data, bytes, seed, words);
  else if (bytes >= 4) hash128_4_to_8(data, bytes, seed, words);
  else if (bytes > 0) hash128_1_to_3(data, bytes, seed, words);
  else hash128_0(seed, words);
}

uint64_t ur_hash_both_by(ur_hash_way way, const void *data, size_t bytes, uint64_t seed, uint64_t words[2]) {
  if (bytes <= LONGEST_MEDIUM) {
    hash128_short(data, bytes, seed, words);
    return hash_short(data, bytes, seed);
  }
  run_function *blocks, *stripes;
  functions_of(way, &blocks, &stripes);
  words[0] = hash_long(blocks, stripes, data, bytes, seed, NULL, &words[1]);
  return words[0];
}

static inline ur_hash_way best_way(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return UR_HASH_AVX512;
  return __builtin_cpu_supports("avx2") ? UR_HASH_AVX2 : UR_HASH_SSE2;
#else
  return UR_HASH_PORTABLE;
#endif
}

uint64_t ur_xxh3_64(const void *data, size_t bytes, uint64_t seed) {
  if (bytes <= LONGEST_MEDIUM) return hash_short(data, bytes, seed);
  return ur_hash_by(best_way(), data, bytes, seed, NULL);
}

void ur_xxh3_128(const void *data, size_t bytes, uint64_t seed, uint8_t digest[16]) {
  uint64_t words[2];
  (void)ur_hash_both_by(best_way(), data, bytes, seed, words);
  for (int i = 0; i < 16; i++) digest[i] = (uint8_t)(words[i / 8] >> (8 * (i % 8)));
}

uint64_t ur_xxh3_64_copying(void *to, const void *data, size_t bytes, uint64_t seed) {
  return ur_hash_by(best_way(), data, bytes, seed, to);
}

uint64_t ur_xxh3_64_of(ur_hash_source *source, const void *context, uint64_t bytes, uint64_t seed) {
  enum { PIECE = 8 };
  _Alignas(64) uint8_t piece[PIECE * BLOCK], last[STRIPE];
  if (bytes <= LONGEST_MEDIUM) {
    source(context, 0, (size_t)bytes, piece);
    return hash_short(piece, (size_t)bytes, seed);
  }
  run_function *blocks, *stripes;
  functions_of(best_way(), &blocks, &stripes);
  long_hash hash;
  begin_long(&hash, seed);
  uint64_t whole = (bytes - 1) / BLOCK;
  for (uint64_t first = 0; first < whole; first += PIECE) {
    size_t n = (size_t)(whole - first < PIECE ? whole - first : PIECE);
    source(context, first * BLOCK, n * BLOCK, piece);
    blocks(hash.sums, piece, hash.secret, n);
  }
  source(context, whole * BLOCK, (size_t)(bytes - whole * BLOCK), piece);
  source(context, bytes - STRIPE, STRIPE, last);
  return end_long(&hash, stripes, piece, last, bytes, NULL);
}

void ur_digest_ranges(const void *data, const uint64_t *starts, const uint64_t *lengths, size_t count,
                      uint64_t first_seed, uint64_t seed_step, uint64_t *digests, uint64_t *wide) {
  ur_hash_way way = best_way();
  for (size_t i = 0; i < count; i++) {
    /* An empty range needs no `data`, which may then be NULL. */
    const uint8_t *start = lengths[i] == 0 ? NULL : (const uint8_t *)((uintptr_t)data + (uintptr_t)starts[i]);
    uint64_t seed = first_seed + i * seed_step;
    digests[i] = wide == NULL ? ur_xxh3_64(start, (size_t)lengths[i], seed)
                              : ur_hash_both_by(way, start, (size_t)lengths[i], seed, wide + 2 * i);
  }
}
