/* test_tfrecord.c - records found in memory of exactly its size: whole, cut at every byte, and with every byte changed. */
#include <string.h>

#include "expect.h"
#include "unirecord_internal.h"

enum { RECORDS = 3, BYTES = (16 + 0) + (16 + 5) + (16 + 40), ROOM = 8 };

static const uint64_t LENGTHS[RECORDS] = {0, 5, 40};
static const uint64_t ENDS[RECORDS] = {16, 37, 93};

typedef struct {
  uint64_t starts[ROOM], lengths[ROOM], count, used, wanted;
  ur_tfrecord_stop stop;
} found;

static void put32(uint8_t *at, uint32_t value) {
  for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static void put_checksum(uint8_t *at, const uint8_t *data, size_t bytes) {
  uint32_t crc = ur_crc32c(data, bytes);
  put32(at, (crc >> 15 | crc << 17) + UINT32_C(0xA282EAD8));
}

static void make(uint8_t *out) {
  for (int i = 0; i < RECORDS; i++) {
    memset(out, 0, 12);
    out[0] = (uint8_t)LENGTHS[i];
    put_checksum(out + 8, out, 8);
    for (uint64_t at = 0; at < LENGTHS[i]; at++) out[12 + at] = (uint8_t)(at * 7 + 1);
    put_checksum(out + 12 + LENGTHS[i], out + 12, (size_t)LENGTHS[i]);
    out += 16 + LENGTHS[i];
  }
}

static found find(const uint8_t *data, size_t bytes, uint64_t room) {
  found at = {.count = 99};
  uint8_t *own = malloc(bytes + (bytes == 0));
  EXPECT(own != NULL);
  memcpy(own, data, bytes);
  at.stop = ur_tfrecord_find(own, bytes, room, at.starts, at.lengths, &at.count, &at.used, &at.wanted);
  free(own);
  return at;
}

static void all_records_are_found_as_far_as_there_is_room(const uint8_t *data) {
  for (uint64_t room = 0; room <= RECORDS + 1; room++) {
    found at = find(data, BYTES, room);
    EXPECT_EQUAL(at.count, room < RECORDS ? room : RECORDS);
    EXPECT_EQUAL(at.used, at.count == 0 ? 0 : ENDS[at.count - 1]);
    EXPECT_EQUAL(at.stop, room <= RECORDS ? UR_TFRECORD_FULL : UR_TFRECORD_MORE);
    for (uint64_t i = 0; i < at.count; i++) {
      EXPECT_EQUAL(at.lengths[i], LENGTHS[i]);
      EXPECT_EQUAL(at.starts[i], (i == 0 ? 0 : ENDS[i - 1]) + 12);
    }
  }
}

static void a_cut_record_says_how_much_it_wants(const uint8_t *data) {
  for (size_t bytes = 0; bytes < BYTES; bytes++) {
    found at = find(data, bytes, ROOM);
    uint64_t whole = 0;
    while (ENDS[whole] <= bytes) whole++;
    EXPECT_EQUAL(at.stop, UR_TFRECORD_MORE);
    EXPECT_EQUAL(at.count, whole);
    EXPECT_EQUAL(at.used, whole == 0 ? 0 : ENDS[whole - 1]);
    EXPECT_EQUAL(at.wanted, bytes - at.used < 12 ? 12 : 16 + LENGTHS[whole]);
  }
}

static void a_changed_byte_is_found(uint8_t *data) {
  for (size_t place = 0; place < BYTES; place++) {
    data[place] ^= 0x10;
    found at = find(data, BYTES, ROOM);
    uint64_t record = 0;
    while (ENDS[record] <= place) record++;
    uint64_t begin = record == 0 ? 0 : ENDS[record - 1];
    EXPECT_EQUAL(at.count, record);
    EXPECT_EQUAL(at.stop, place - begin < 12 ? UR_TFRECORD_BAD_LENGTH : UR_TFRECORD_BAD_CONTENT);
    data[place] ^= 0x10;
  }
}

static void a_length_beyond_all_memory_is_no_length(void) {
  uint8_t head[40];
  memset(head, 0xFF, sizeof head);
  put_checksum(head + 8, head, 8);
  EXPECT_EQUAL(find(head, sizeof head, ROOM).stop, UR_TFRECORD_BAD_LENGTH);
}

int main(void) {
  uint8_t data[BYTES];
  make(data);
  all_records_are_found_as_far_as_there_is_room(data);
  a_cut_record_says_how_much_it_wants(data);
  a_changed_byte_is_found(data);
  a_length_beyond_all_memory_is_no_length();
  return 0;
}
