/* crc32c.c - CRC-32C (Castagnoli, RFC 3720 appendix B.4), by which TFRecord files are checked; eight bytes a step, by the
 * processor's instruction where it has one.
 *
 * "Slicing by 8": Kounavis and Berry, "A Systematic Approach to Building High Performance Software-Based CRC
 * Generators", 2005.
 */
#include "crc32c.h"
#include "layout.h"
#include "unirecord.h"

#include <pthread.h>
#ifdef __x86_64__
#include <nmmintrin.h>
#endif

enum { SLICES = 8 };

static const uint32_t POLYNOMIAL = UINT32_C(0x82F63B78); /* 0x1EDC6F41, its bits reversed */

static uint32_t tables[SLICES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

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
__attribute__((target("sse4.2"))) static uint32_t by_instruction(const uint8_t *at, size_t bytes) {
  uint64_t crc = UINT32_MAX;
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
