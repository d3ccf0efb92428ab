/* test_io.c - the ways of reading a file, compared on random spans that overlap, touch, repeat and end with the file. */
#define _GNU_SOURCE
#include "expect.h"
#include "io.h"

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

static ur_source *open_source(int io) {
  int fd = -1;
  uint64_t bytes = 0;
  struct timespec modified;
  ur_source *source = NULL;
  EXPECT(ur_file_open(path, UR_FILE_DATA, &fd, &bytes, &modified, NULL) == UR_OK);
  EXPECT(ur_source_open(fd, bytes, modified, io, &source, NULL) == UR_OK);
  return source;
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

/* From one source or, in turns of no order, from two of the same file. */
static void read_random_spans(const ur_source *source, const ur_source *other, uint64_t longest) {
  static uint8_t memory[SPANS * (LONGEST + 1)];
  ur_span spans[SPANS], asked[SPANS];
  for (int i = 0; i < SPANS; i++) {
    uint64_t bytes = 1 + random_below(longest), offset = random_below(FILE_BYTES - bytes + 1);
    if (i % 9 == 1) offset = spans[i - 1].offset + random_below(spans[i - 1].bytes);
    if (i % 9 == 2) offset = spans[i - 1].offset + spans[i - 1].bytes;
    if (i % 9 == 3) offset = FILE_BYTES - bytes;
    if (offset > FILE_BYTES - bytes) offset = FILE_BYTES - bytes;
    asked[i] = spans[i] = (ur_span){.source = random_below(2) ? source : other,
                                    .offset = offset,
                                    .bytes = bytes,
                                    .to = memory + (uint64_t)i * (LONGEST + 1),
                                    .tag = i};
    memset(spans[i].to, 0x55, bytes + 1);
  }
  arrivals seen = {.asked = asked};
  ur_landing landing = {.call = note_landing, .context = &seen};
  EXPECT_EQUAL(source->ops->read(spans, SPANS, &landing, NULL), UR_OK);
  for (int i = 0; i < SPANS; i++) {
    EXPECT(memcmp(asked[i].to, content + asked[i].offset, asked[i].bytes) == 0);
    EXPECT_EQUAL(asked[i].to[asked[i].bytes], 0x55);
    EXPECT_EQUAL(seen.times[i], 1);
  }
}

static void every_way_reads_the_same(void) {
  for (int io = UR_IO_PREAD; io <= UR_IO_URING_DIRECT; io++) {
    ur_source *source = open_source(io), *other = open_source(io);
    for (int round = 0; round < 4; round++) {
      read_random_spans(source, source, round % 2 ? LONGEST : 3000);
      read_random_spans(source, other, round % 2 ? LONGEST : 3000);
    }
    pid_t child = fork(); /* the ring of this thread is not the child's */
    if (child == 0) {
      read_random_spans(source, other, 3000);
      _exit(0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    read_random_spans(source, other, 3000);
    ur_source_close(other);
    ur_source_close(source);
  }
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io += UR_IO_MEMORY - UR_IO_MAP) {
    ur_source *source = open_source(io);
    EXPECT(memcmp(source->view, content, FILE_BYTES) == 0);
    ur_source_close(source);
  }
}

static void the_end_of_the_file_is_stale(void) {
  for (int io = UR_IO_PREAD; io <= UR_IO_URING_DIRECT; io++) {
    ur_source *source = open_source(io);
    uint8_t memory[64];
    ur_span spans[] = {
        {.source = source, .offset = 8, .bytes = 16, .to = memory, .tag = 5},
        {.source = source, .offset = FILE_BYTES - 8, .bytes = 16, .to = memory + 16, .tag = 6},
    };
    ur_landing landing = {.call = ignore_landing};
    ur_error error = {0};
    EXPECT_EQUAL(source->ops->read(spans, 2, &landing, &error), UR_STALE);
    EXPECT_EQUAL(landing.failed, 6);
    EXPECT_EQUAL(error.offset, FILE_BYTES);
    EXPECT_EQUAL(ur_source_check(source, NULL), UR_OK);
    ur_source_close(source);
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
