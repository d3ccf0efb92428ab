/* test_io.c - the ways of reading a file, compared on random spans that overlap, touch, repeat and end with the file. */
#define _GNU_SOURCE
#include "expect.h"
#include "io/io.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_BYTES = 3000001, SPANS = 90, LONGEST = 700000 };

static uint8_t content[FILE_BYTES];
static char path[] = "/tmp/unirecord-test-XXXXXX";
static uint64_t state = 1;

static uint64_t random_below(uint64_t limit) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (state >> 33) % limit;
}

static ur_data_file *open_data_file(int io) {
  int fd = -1;
  uint64_t bytes = 0;
  struct timespec modified;
  ur_data_file *file = NULL;
  EXPECT(ur_file_open(path, UR_FILE_DATA, &fd, &bytes, &modified, NULL) == UR_OK);
  EXPECT(ur_data_file_open(fd, bytes, modified, io, &file, NULL) == UR_OK);
  return file;
}

typedef struct {
  const ur_span *asked;
  int times[SPANS];
} arrivals;

/* Every span lands once, and is whole by then. */
static void note_landing(void *context, int64_t tag) {
  arrivals *seen = context;
  const ur_span *span = &seen->asked[tag];
  seen->times[tag]++;
  EXPECT(memcmp(span->to, content + span->offset, span->bytes) == 0);
}

static void ignore_landing(void *context, int64_t tag) { (void)context, (void)tag; }

/* Opened once or, in turns of no order, twice. */
static void read_random_spans(const ur_data_file *file, const ur_data_file *other, uint64_t longest) {
  static uint8_t memory[SPANS * (LONGEST + 1)];
  ur_span spans[SPANS], asked[SPANS];
  for (int i = 0; i < SPANS; i++) {
    uint64_t bytes = 1 + random_below(longest), offset = random_below(FILE_BYTES - bytes + 1);
    if (i % 9 == 1) offset = spans[i - 1].offset + random_below(spans[i - 1].bytes);
    if (i % 9 == 2) offset = spans[i - 1].offset + spans[i - 1].bytes;
    if (i % 9 == 3) offset = FILE_BYTES - bytes;
    if (offset > FILE_BYTES - bytes) offset = FILE_BYTES - bytes;
    asked[i] = spans[i] = (ur_span){.file = random_below(2) ? file : other,
                                    .offset = offset,
                                    .bytes = bytes,
                                    .to = memory + (uint64_t)i * (LONGEST + 1),
                                    .tag = i};
    memset(spans[i].to, 0x55, bytes + 1);
  }
  arrivals seen = {.asked = asked};
  ur_landing landing = {.call = note_landing, .context = &seen};
  EXPECT_EQUAL(file->ops->read(spans, SPANS, &landing, NULL), UR_OK);
  for (int i = 0; i < SPANS; i++) {
    EXPECT(memcmp(asked[i].to, content + asked[i].offset, asked[i].bytes) == 0);
    EXPECT_EQUAL(asked[i].to[asked[i].bytes], 0x55);
    EXPECT_EQUAL(seen.times[i], 1);
  }
}

static void every_way_reads_the_same(void) {
  for (int io = UR_IO_PREAD; io <= UR_IO_URING_DIRECT; io++) {
    ur_data_file *file = open_data_file(io), *other = open_data_file(io);
    for (int round = 0; round < 4; round++) {
      read_random_spans(file, file, round % 2 ? LONGEST : 3000);
      read_random_spans(file, other, round % 2 ? LONGEST : 3000);
    }
    pid_t child = fork(); /* the ring of this thread is not the child's */
    if (child == 0) {
      read_random_spans(file, other, 3000);
      _exit(0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    read_random_spans(file, other, 3000);
    ur_data_file_close(other);
    ur_data_file_close(file);
  }
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io += UR_IO_MEMORY - UR_IO_MAP) {
    ur_data_file *file = open_data_file(io);
    EXPECT(memcmp(file->view, content, FILE_BYTES) == 0);
    ur_data_file_close(file);
  }
}

static void the_end_of_the_file_is_stale(void) {
  for (int io = UR_IO_PREAD; io <= UR_IO_URING_DIRECT; io++) {
    ur_data_file *file = open_data_file(io);
    uint8_t memory[64];
    ur_span spans[] = {
        {.file = file, .offset = 8, .bytes = 16, .to = memory, .tag = 5},
        {.file = file, .offset = FILE_BYTES - 8, .bytes = 16, .to = memory + 16, .tag = 6},
    };
    ur_landing landing = {.call = ignore_landing};
    ur_error error = {0};
    EXPECT_EQUAL(file->ops->read(spans, 2, &landing, &error), UR_STALE);
    EXPECT_EQUAL(landing.failed, 6);
    EXPECT_EQUAL(error.offset, FILE_BYTES);
    EXPECT_EQUAL(ur_data_file_check(file, NULL), UR_OK);
    ur_data_file_close(file);
  }
}

int main(void) {
  int fd = mkstemp(path);
  EXPECT(fd >= 0);
  for (int i = 0; i < FILE_BYTES; i++) content[i] = (uint8_t)random_below(256);
  EXPECT_EQUAL(write(fd, content, FILE_BYTES), FILE_BYTES);
  EXPECT_EQUAL(fsync(fd), 0);
  (void)close(fd);
  every_way_reads_the_same();
  the_end_of_the_file_is_stale();
  return unlink(path);
}
