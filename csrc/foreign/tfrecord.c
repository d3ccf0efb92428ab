/* foreign/tfrecord.c - the records in a piece of a TFRecord file, found by their lengths, both checksums of each checked.
 *
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4): eight bytes a step, by the processor's instruction where it has one.
 *
 * "Slicing by 8": Kounavis and Berry, "A Systematic Approach to Building High Performance Software-Based CRC
 * Generators", 2005. The instruction gives its answer three steps late, so three ranges are taken side by side and put
 * together: Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", 2011.
 */
#include "foreign/tfrecord.h"
#include "base/check.h"
#include "base/layout.h"
#include "unirecord_internal.h"

#include <pthread.h>
#ifdef __x86_64__
#include <nmmintrin.h>
#endif

enum { SLICES = 8, LANE = 2048 /* bytes of each of three ranges */ };

static const uint32_t POLYNOMIAL = UINT32_C(0x82F63B78); /* 0x1EDC6F41, its bits reversed */

static uint32_t tables[SLICES][256];
static uint32_t over_lane[4][256]; /* what LANE zeros make of each byte of a state */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_over_lane(void) {
  for (int byte = 0; byte < 4; byte++) {
    over_lane[byte][0] = 0;
    for (uint32_t bit = 1; bit < 256; bit *= 2) {
      uint32_t state = bit << (8 * byte);
      for (int i = 0; i < LANE; i++) state = (state >> 8) ^ tables[0][state & 0xFF];
      for (uint32_t below = 0; below < bit; below++) over_lane[byte][bit + below] = state ^ over_lane[byte][below];
    }
  }
}

static void fill_tables(void) {
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = (crc & 1) != 0 ? (crc >> 1) ^ POLYNOMIAL : crc >> 1;
    tables[0][byte] = crc;
  }
  for (int slice = 1; slice < SLICES; slice++) {
    for (int byte = 0; byte < 256; byte++) {
      uint32_t crc = tables[slice - 1][byte];
      tables[slice][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
    }
  }
  fill_over_lane();
}

uint32_t ur_crc32c_by_tables(const void *data, size_t bytes) {
  (void)pthread_once(&once, fill_tables);
  const uint8_t *at = data;
  uint32_t crc = UINT32_MAX;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word = ur_load64(at) ^ crc;
    crc = tables[7][word & 0xFF] ^ tables[6][(word >> 8) & 0xFF] ^ tables[5][(word >> 16) & 0xFF] ^
          tables[4][(word >> 24) & 0xFF] ^ tables[3][(word >> 32) & 0xFF] ^ tables[2][(word >> 40) & 0xFF] ^
          tables[1][(word >> 48) & 0xFF] ^ tables[0][word >> 56];
  }
  for (; bytes > 0; bytes--, at++) crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

#ifdef __x86_64__
static uint64_t pass_lane(uint64_t state) {
  return over_lane[0][state & 0xFF] ^ over_lane[1][(state >> 8) & 0xFF] ^ over_lane[2][(state >> 16) & 0xFF] ^
         over_lane[3][state >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(const uint8_t *at, size_t bytes) {
  uint64_t crc = UINT32_MAX;
  if (bytes >= 3 * LANE) (void)pthread_once(&once, fill_tables);
  for (; bytes >= 3 * LANE; bytes -= 3 * LANE, at += 3 * LANE) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < LANE; i += 8) {
      crc = _mm_crc32_u64(crc, ur_load64(at + i));
      second = _mm_crc32_u64(second, ur_load64(at + LANE + i));
      third = _mm_crc32_u64(third, ur_load64(at + 2 * LANE + i));
    }
    crc = pass_lane(pass_lane(crc) ^ second) ^ third;
  }
  for (; bytes >= 8; bytes -= 8, at += 8) crc = _mm_crc32_u64(crc, ur_load64(at));
  uint32_t last = (uint32_t)crc;
  for (; bytes > 0; bytes--, at++) last = _mm_crc32_u8(last, *at);
  return ~last;
}

uint32_t ur_crc32c(const void *data, size_t bytes) {
  return __builtin_cpu_supports("sse4.2") ? by_instruction(data, bytes) : ur_crc32c_by_tables(data, bytes);
}
#else
uint32_t ur_crc32c(const void *data, size_t bytes) { return ur_crc32c_by_tables(data, bytes); }
#endif

/* ---- records ----------------------------------------------------------------------------------------------------- */

enum { HEAD = 12 /* length and its checksum */, TAIL = 4 /* checksum of the content */ };

/* TFRecord's own form of it: turned by 15 bits and moved, so that a checksum of data that holds one differs. */
static uint32_t masked(const uint8_t *data, size_t bytes) {
  uint32_t crc = ur_crc32c(data, bytes);
  return (crc >> 15 | crc << 17) + UINT32_C(0xA282EAD8);
}

ur_tfrecord_stop ur_tfrecord_find(const uint8_t *data, uint64_t bytes, uint64_t room, uint64_t *starts, uint64_t *lengths,
                                  uint64_t *count, uint64_t *used, uint64_t *wanted) {
  *count = *used = *wanted = 0;
  while (*count < room) {
    const uint8_t *at = data + (size_t)*used; /* exact: inside the data */
    uint64_t left = bytes - *used, whole;
    if (left < HEAD) {
      *wanted = HEAD;
      return UR_TFRECORD_MORE;
    }
    uint64_t length = ur_load64(at);
    bool fits = ur_add(length, HEAD + TAIL, &whole);
    if (!fits || masked(at, 8) != ur_load32(at + 8)) return UR_TFRECORD_BAD_LENGTH;
    if (whole > left) {
      *wanted = whole;
      return UR_TFRECORD_MORE;
    }
    if (masked(at + HEAD, (size_t)length) != ur_load32(at + (size_t)(whole - TAIL))) return UR_TFRECORD_BAD_CONTENT;
    starts[*count] = *used + HEAD; /* exact: inside the data, as is the next */
    lengths[*count] = length;
    *used += whole; /* exact: inside the data */
    ++*count;
  }
  return UR_TFRECORD_FULL;
}
