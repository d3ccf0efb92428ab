/* test_hash.c - XXH3: every way of computing it agrees, reads no byte too many, and matches published vectors. */
#define _GNU_SOURCE
#include "base/hash.h"
#include "expect.h"
#include "unirecord_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LONGEST = 5000 };

/* A buffer whose last byte is the last of a page, with an unreadable page behind it. */
static uint8_t *guarded_end(size_t pages) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *start = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(start != MAP_FAILED);
  EXPECT(mprotect(start + pages * page, page, PROT_NONE) == 0);
  return start + pages * page;
}

/* Likewise at the front: the first byte follows an unreadable page. */
static uint8_t *guarded_start(size_t pages) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *start = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(start != MAP_FAILED);
  EXPECT(mprotect(start, page, PROT_NONE) == 0);
  return start + page;
}

static void fill(uint8_t *data, size_t bytes) {
  uint64_t state = 1;
  for (size_t i = 0; i < bytes; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    data[i] = (uint8_t)(state >> 56);
  }
}

static void ways_agree_at_the_edges_of_readable_memory(void) {
  uint8_t *end = guarded_end(2), *start = guarded_start(2);
  const uint64_t seeds[] = {0, 1, UINT64_C(0x9E3779B97F4A7C15), UINT64_MAX};
  uint8_t pattern[LONGEST];
  fill(pattern, LONGEST);
  for (size_t bytes = 0; bytes <= LONGEST; bytes++) {
    memcpy(end - bytes, pattern, bytes);
    memcpy(start, pattern, bytes);
    for (size_t s = 0; s < sizeof seeds / sizeof seeds[0]; s++) {
      uint64_t expected = ur_hash_by(UR_HASH_PORTABLE, end - bytes, bytes, seeds[s], NULL);
      for (int way = UR_HASH_SSE2; way <= UR_HASH_AVX512; way++) {
        if (!ur_hash_can((ur_hash_way)way)) continue;
        EXPECT_EQUAL(ur_hash_by((ur_hash_way)way, end - bytes, bytes, seeds[s], NULL), expected);
        EXPECT_EQUAL(ur_hash_by((ur_hash_way)way, start, bytes, seeds[s], NULL), expected);
      }
      uint64_t wide[2], words[2];
      EXPECT_EQUAL(ur_hash_both_by(UR_HASH_PORTABLE, end - bytes, bytes, seeds[s], wide), expected);
      EXPECT(bytes <= 240 || wide[0] == expected);
      for (int way = UR_HASH_SSE2; way <= UR_HASH_AVX512; way++) {
        if (!ur_hash_can((ur_hash_way)way)) continue;
        EXPECT_EQUAL(ur_hash_both_by((ur_hash_way)way, end - bytes, bytes, seeds[s], words), expected);
        EXPECT(memcmp(words, wide, sizeof wide) == 0);
        EXPECT_EQUAL(ur_hash_both_by((ur_hash_way)way, start, bytes, seeds[s], words), expected);
        EXPECT(memcmp(words, wide, sizeof wide) == 0);
      }
      uint8_t digest[16];
      ur_xxh3_128(end - bytes, bytes, seeds[s], digest);
      for (int i = 0; i < 16; i++) EXPECT_EQUAL(digest[i], (uint8_t)(wide[i / 8] >> (8 * (i % 8))));
      EXPECT_EQUAL(ur_xxh3_64(end - bytes, bytes, seeds[s]), expected);
    }
  }
}

/* From the last byte of readable memory, to every alignment, with nothing beside the copy touched. */
static void what_is_digested_on_the_way_is_copied(void) {
  enum { PAGES = 40, LARGEST = 150000, EDGE = 64 };
  uint8_t *end = guarded_end(PAGES), *to = malloc(LARGEST + 3 * EDGE);
  EXPECT(to != NULL);
  fill(end - LARGEST, LARGEST);
  for (size_t bytes = 0, turn = 0; bytes <= LARGEST; bytes = bytes < LONGEST ? bytes + 1 : bytes + 9973, turn++) {
    const uint8_t *from = end - bytes;
    uint8_t *at = to + EDGE + turn % EDGE;
    uint64_t expected = ur_xxh3_64(from, bytes, turn);
    for (int way = UR_HASH_PORTABLE; way <= UR_HASH_AVX512 + 1; way++) {
      if (way <= UR_HASH_AVX512 && !ur_hash_can((ur_hash_way)way)) continue;
      memset(to, 0xEE, bytes + 3 * EDGE);
      uint64_t found = way <= UR_HASH_AVX512 ? ur_hash_by((ur_hash_way)way, from, bytes, turn, at)
                                             : ur_xxh3_64_copying(at, from, bytes, turn);
      EXPECT_EQUAL(found, expected);
      EXPECT(memcmp(at, from, bytes) == 0);
      for (size_t i = 1; i <= EDGE; i++) EXPECT(at[-(ptrdiff_t)i] == 0xEE && at[bytes + i - 1] == 0xEE);
    }
  }
  free(to);
}

static void published_digests_are_met(void) {
  EXPECT_EQUAL(ur_xxh3_64(NULL, 0, 0), UINT64_C(0x2D06800538D394C2));
  EXPECT_EQUAL(ur_xxh3_64("a", 1, 0), UINT64_C(0xE6C632B61E964E1F));
  EXPECT_EQUAL(ur_xxh3_64("abc", 3, 0), UINT64_C(0x78AF5F94892F3950));
  static const uint8_t nothing[16] = {0x7f, 0x49, 0x8d, 0x46, 0x24, 0xc3, 0x01, 0x60,
                                      0xd8, 0x98, 0x47, 0x01, 0xd3, 0x06, 0xaa, 0x99};
  uint8_t digest[16];
  ur_xxh3_128(NULL, 0, 0, digest);
  EXPECT(memcmp(digest, nothing, 16) == 0);
}

static void ranges_use_their_own_seeds(void) {
  uint8_t data[LONGEST];
  fill(data, LONGEST);
  const uint64_t starts[] = {0, 7, 300, LONGEST};
  const uint64_t lengths[] = {240, 241, 4000, 0};
  uint64_t digests[4], wide[8], words[2];
  for (int both = 0; both < 2; both++) {
    memset(digests, 0, sizeof digests);
    ur_digest_ranges(data, starts, lengths, 4, UINT64_MAX - 1, 3, digests, both ? wide : NULL);
    for (uint64_t i = 0; i < 4; i++) {
      uint64_t seed = UINT64_MAX - 1 + 3 * i;
      EXPECT_EQUAL(digests[i], ur_xxh3_64(data + starts[i], (size_t)lengths[i], seed));
      (void)ur_hash_both_by(UR_HASH_PORTABLE, data + starts[i], (size_t)lengths[i], seed, words);
      if (both) EXPECT(memcmp(words, wide + 2 * i, sizeof words) == 0);
    }
  }
  ur_digest_ranges(NULL, NULL, NULL, 0, 0, 0, NULL, NULL);
}

static void every_status_has_a_text(void) {
  for (int32_t status = -1; status <= UR_CLOSED + 1; status++) {
    EXPECT(ur_status_text(status) != NULL);
    EXPECT(strlen(ur_status_text(status)) > 0);
  }
  EXPECT(strcmp(ur_status_text(UR_OK), ur_status_text(UR_CORRUPT)) != 0);
}

int main(void) {
  ways_agree_at_the_edges_of_readable_memory();
  what_is_digested_on_the_way_is_copied();
  published_digests_are_met();
  ranges_use_their_own_seeds();
  every_status_has_a_text();
  return 0;
}
