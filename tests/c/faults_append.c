/* faults_append.c - pieces arrive in their order, in few calls, and a call that takes less or fails is told. */
#define _GNU_SOURCE
#include "expect.h"
#include "fault_seam.h"
#include "unirecord_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 20, MOST = 5000, CALL = 128 << 10, PER_CALL = 1024 };

static uint8_t data[ROOM], found[ROOM];
static const void *pieces[MOST];
static uint64_t lengths[MOST];
static char path[] = "/tmp/unirecord-test-XXXXXX";
static int fd;

/* `count` pieces of `bytes` bytes each, those at 3, 8, 13 … empty: how many bytes they are. */
static uint64_t cut(size_t count, uint64_t bytes) {
  uint64_t end = 0;
  for (size_t i = 0; i < count; i++) {
    lengths[i] = i % 5 == 3 ? 0 : bytes;
    pieces[i] = lengths[i] == 0 ? NULL : data + end;
    end += lengths[i];
  }
  EXPECT(end <= ROOM);
  return end;
}

static void empty_file(void) {
  EXPECT(ftruncate(fd, 0) == 0);
  EXPECT(lseek(fd, 0, SEEK_SET) == 0);
}

static void file_holds(uint64_t bytes) {
  EXPECT_EQUAL(lseek(fd, 0, SEEK_END), bytes);
  EXPECT_EQUAL(pread(fd, found, ROOM, 0), bytes);
  EXPECT(memcmp(found, data, bytes) == 0);
}

/* The number of calls made. */
static int64_t append_all(size_t count, uint64_t bytes) {
  fault_plan none = {.calls = FAULT_WRITE, .at = -1};
  uint64_t all = cut(count, bytes), written = 1;
  empty_file();
  fault_arm(&none);
  EXPECT_EQUAL(ur_append(fd, pieces, lengths, count, &written), 0);
  EXPECT_EQUAL(fault_disarm(), 0);
  EXPECT_EQUAL(written, all);
  file_holds(all);
  return fault_count();
}

static void all_is_written_in_few_calls(void) {
  EXPECT_EQUAL(append_all(0, 0), 0);
  EXPECT_EQUAL(append_all(9, 0), 0);
  EXPECT_EQUAL(append_all(1, 1), 1);
  EXPECT_EQUAL(append_all(1, CALL), 1);
  EXPECT_EQUAL(append_all(1, CALL + 1), 2);
  EXPECT_EQUAL(append_all(1, ROOM), ROOM / CALL);
  EXPECT_EQUAL(append_all(9, CALL - 1), 7);
  EXPECT_EQUAL(append_all(MOST, 3), (MOST * 4 / 5 + PER_CALL - 1) / PER_CALL);
  EXPECT_EQUAL(append_all(MOST, 200), (MOST * 4 / 5 * 200 + CALL - 1) / CALL);
}

/* The call at `at` takes half a piece, or nothing at all; what follows it is another append's. */
static void what_was_taken_is_told(int64_t at, int manner) {
  fault_plan plan = {.calls = FAULT_WRITE, .at = at, .manner = manner, .error = EINTR};
  uint64_t all = cut(1, ROOM), written = 1, expected = (uint64_t)at * CALL;
  if (manner == FAULT_SHORT) expected += CALL / 2;
  empty_file();
  fault_arm(&plan);
  EXPECT_EQUAL(ur_append(fd, pieces, lengths, 1, &written), expected == 0 ? EINTR : 0);
  EXPECT_EQUAL(fault_disarm(), 1);
  EXPECT_EQUAL(fault_count(), at + 1);
  EXPECT_EQUAL(written, expected);
  file_holds(expected);
  pieces[0] = data + expected;
  lengths[0] = all - expected;
  EXPECT_EQUAL(ur_append(fd, pieces, lengths, 1, &written), 0);
  EXPECT_EQUAL(written, all - expected);
  file_holds(all);
}

int main(void) {
  for (int i = 0; i < ROOM; i++) data[i] = (uint8_t)(i * 131 + i / 251);
  fd = mkstemp(path);
  EXPECT(fd >= 0);
  EXPECT(unlink(path) == 0);
  all_is_written_in_few_calls();
  for (int64_t at = 0; at < ROOM / CALL; at++) {
    what_was_taken_is_told(at, FAULT_ERROR);
    what_was_taken_is_told(at, FAULT_SHORT);
  }
  uint64_t written = 1;
  cut(1, 1);
  EXPECT_EQUAL(ur_append(-1, pieces, lengths, 1, &written), EBADF);
  EXPECT_EQUAL(written, 0);
  return 0;
}
