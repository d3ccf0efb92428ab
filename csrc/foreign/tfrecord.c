/* foreign/tfrecord.c - the records in a piece of a TFRecord file, found by their lengths, both checksums of each checked. */
#include "base/check.h"
#include "base/layout.h"
#include "unirecord.h"

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
