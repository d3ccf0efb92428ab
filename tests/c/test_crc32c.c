/* test_crc32c.c - CRC-32C by the processor's instruction is that by tables, for every length and start. */
#include "expect.h"
#include "foreign/tfrecord.h"
#include "unirecord_internal.h"

enum { ROOM = 400, LANES = 3 * 2048 /* taken side by side */, LARGE = 2 * LANES + 100 };

int main(void) {
  static uint8_t data[LARGE];
  uint32_t state = 7;
  for (int i = 0; i < LARGE; i++) {
    state = state * 1664525 + 1013904223;
    data[i] = (uint8_t)(state >> 24);
  }
  for (size_t start = 0; start < 17; start++) {
    for (size_t size = 0; start + size <= ROOM; size++) {
      EXPECT_EQUAL(ur_crc32c(data + start, size), ur_crc32c_by_tables(data + start, size));
    }
  }
  for (size_t start = 0; start < 9; start += 3) {
    for (size_t size = LANES - 20; start + size <= LARGE; size += size % LANES < 40 || size % LANES > LANES - 20 ? 1 : 19) {
      EXPECT_EQUAL(ur_crc32c(data + start, size), ur_crc32c_by_tables(data + start, size));
    }
  }
  EXPECT_EQUAL(ur_crc32c_by_tables("123456789", 9), 0xE3069283);
  return 0;
}
