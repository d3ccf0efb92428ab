/* test_cache.c - what a cache holds: found in pieces, read by threads while others change it, and dropped when damaged. */
#define _GNU_SOURCE
#include "expect.h"
#include "io/cache.h"
#include "unirecord_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 << 20, PIECE = 1000, PIECES = 2000, THREADS = 4, SEED = 7 };

static uint8_t object[BYTES]; /* what is kept lies at its own offset of the segment, but for a head of 100 bytes */
static int segment;             /* its file */

static ur_cache *make_cache(void) {
  ur_cache *cache = ur_cache_new(2, 1);
  EXPECT(cache != NULL);
  ur_cache_set_segment(cache, 0, dup(segment), SEED);
  EXPECT_EQUAL(ur_cache_set_file(cache, 0, 0, BYTES), UR_OK);
  return cache;
}

static ur_cache_range range_of(uint64_t offset, uint64_t bytes) {
  return (ur_cache_range){0, offset, bytes, offset + 100, ur_xxh3_64(object + offset, bytes, SEED)};
}

static void add(ur_cache *cache, uint64_t offset, uint64_t bytes) {
  ur_cache_range range = range_of(offset, bytes);
  EXPECT_EQUAL(ur_cache_add(cache, &range, 1), UR_OK);
}

/* Whether these bytes are there; they are right if they are. */
static bool has(ur_cache *cache, uint64_t offset, uint64_t bytes) {
  uint8_t *found = malloc(bytes);
  bool there = ur_cache_has(cache, 0, offset, bytes, found) == 1;
  EXPECT(!there || memcmp(found, object + offset, bytes) == 0);
  free(found);
  return there;
}

static void pieces_are_put_together(void) {
  ur_cache *cache = make_cache();
  add(cache, 500, 100);
  add(cache, 600, 50);
  add(cache, 800, 10);
  add(cache, 590, 100); /* overlaps: left out */
  add(cache, 790, 15);  /* and so does this, with what comes after it */
  EXPECT(!has(cache, 790, 1));
  EXPECT(has(cache, 500, 150));
  EXPECT(has(cache, 540, 100));
  EXPECT(!has(cache, 500, 151));
  EXPECT(!has(cache, 499, 2));
  EXPECT(has(cache, 805, 5));
  EXPECT(!has(cache, BYTES - 1, 2));
  ur_cache_range wanted = {.offset = 450, .bytes = 2 << 20}, gaps[8];
  uint64_t at = wanted.offset;
  EXPECT_EQUAL(ur_cache_gaps(cache, &wanted, &at, gaps, 2), 2);
  EXPECT(gaps[0].offset == 450 && gaps[0].bytes == 50 && gaps[1].offset == 650 && gaps[1].bytes == 150);
  EXPECT_EQUAL(ur_cache_gaps(cache, &wanted, &at, gaps, 8), 3); /* cut at each MiB */
  EXPECT(gaps[0].offset == 810 && gaps[1].offset == 1 << 20 && gaps[2].offset == 2 << 20 && gaps[2].bytes == 450);
  EXPECT_EQUAL(at, wanted.offset + wanted.bytes);
  ur_cache_range removed[] = {range_of(500, 100), range_of(800, 10)};
  ur_cache_remove(cache, removed, 2);
  EXPECT(!has(cache, 500, 1) && !has(cache, 800, 1) && has(cache, 600, 50));
  ur_cache_release(cache);
}

static void what_is_impossible_is_left_out(void) {
  ur_cache *cache = make_cache();
  ur_cache_range wrong[] = {{.file = -1, .offset = 0, .bytes = 1},
                            {.file = 2, .offset = 0, .bytes = 1},
                            {.file = 1, .offset = 0, .bytes = 1}, /* on no segment */
                            {.file = 0, .offset = 0, .bytes = 0},
                            {.file = 0, .offset = BYTES, .bytes = 1},
                            {.file = 0, .offset = UINT64_MAX, .bytes = 2},
                            {.file = 0, .offset = UR_CACHE_STRETCH - 1, .bytes = 2},
                            {.file = 0, .offset = 0, .bytes = 1, .place = UINT64_MAX}};
  EXPECT_EQUAL(ur_cache_add(cache, wrong, sizeof wrong / sizeof *wrong), UR_OK);
  ur_cache_remove(cache, wrong, sizeof wrong / sizeof *wrong);
  EXPECT(!has(cache, 0, 1));
  EXPECT(!has(cache, UR_CACHE_STRETCH - 1, 2));
  uint8_t byte;
  EXPECT_EQUAL(ur_cache_has(cache, -1, 0, 1, &byte), 0);
  EXPECT_EQUAL(ur_cache_has(cache, 1, 0, 1, &byte), 0);
  ur_cache_release(cache);
  ur_cache_release(NULL);
}

static void what_is_damaged_goes_and_is_told_once(void) {
  ur_cache *cache = make_cache();
  ur_cache_range bad = range_of(100, 50), gone[2];
  bad.digest ^= 1;
  EXPECT_EQUAL(ur_cache_add(cache, &bad, 1), UR_OK);
  ur_cache_range beyond = {.offset = 1000, .bytes = 10, .place = BYTES + 1000};
  EXPECT_EQUAL(ur_cache_add(cache, &beyond, 1), UR_OK);
  add(cache, 300, 50);
  EXPECT(!has(cache, 110, 10));
  EXPECT(!has(cache, 1000, 10));
  EXPECT(has(cache, 310, 10));
  (void)ur_cache_forget(cache, 0, UR_FILE_DATA, 0, 330); /* whoever reads it says that it is wrong */
  EXPECT(!has(cache, 340, 1));
  EXPECT_EQUAL(ur_cache_take_dropped(cache, gone, 2), 2);
  EXPECT_EQUAL(ur_cache_take_dropped(cache, gone, 2), 1);
  EXPECT_EQUAL(ur_cache_take_dropped(cache, gone, 2), 0);
  uint64_t counts[3];
  ur_cache_counts(cache, counts);
  EXPECT(counts[0] == 1 && counts[1] == 10 && counts[2] == 3);
  ur_cache_release(cache);
}

/* That a part's own digest was right of some bytes is said of no range that reaches beyond them. */
static void trust_is_of_whole_ranges(void) {
  ur_cache *cache = make_cache();
  uint8_t found[100];
  ur_cache_range bad = range_of(1100, 100);
  bad.digest ^= 1;
  add(cache, 1000, 100);
  EXPECT_EQUAL(ur_cache_add(cache, &bad, 1), UR_OK);
  ur_cache_trust(cache, 0, UR_FILE_DATA, 1000, 150);
  EXPECT(has(cache, 1000, 100));
  EXPECT_EQUAL(ur_cache_has(cache, 0, 1100, 100, found), 0);
  ur_cache_release(cache);
}

static void what_is_settled_is_read_until_something_goes(void) {
  ur_cache *cache = make_cache();
  uint8_t found[100];
  add(cache, 1000, 100);
  add(cache, 1100, 100);
  add(cache, 5000, 100);
  EXPECT(ur_cache_read_settled(cache, 0, 1050, 100, found) && memcmp(found, object + 1050, 100) == 0);
  EXPECT(!ur_cache_read_settled(cache, 0, 1150, 100, found)); /* not all of it is there */
  EXPECT(!ur_cache_read_settled(NULL, 0, 1050, 100, found));
  (void)ur_cache_forget(cache, 0, UR_FILE_DATA, 5000, 1);
  add(cache, 5000, 100); /* as it has come anew, which nobody has checked */
  EXPECT(!ur_cache_read_settled(cache, 0, 5000, 100, found));
  EXPECT(!ur_cache_read_settled(cache, 0, 1050, 100, found));
  EXPECT(has(cache, 5000, 100));
  ur_cache_release(cache);
}

static void a_segment_grows_while_it_is_read(void) {
  ur_cache *cache = ur_cache_new(2, 1);
  int grows = memfd_create("grows", MFD_CLOEXEC);
  uint8_t found[100];
  EXPECT(cache != NULL && grows >= 0);
  ur_cache_set_segment(cache, 0, dup(grows), SEED);
  EXPECT_EQUAL(ur_cache_set_file(cache, 0, 0, BYTES), UR_OK);
  for (uint64_t end = 1000; end <= BYTES; end += 1 << 20) {
    EXPECT(pwrite(grows, object, end, 100) == (ssize_t)end);
    add(cache, end - 200, 100);
    EXPECT(has(cache, end - 200, 100));
    EXPECT(ur_cache_read_settled(cache, 0, end - 200, 100, found));
    ur_cache_range beyond = range_of(end + 1000, 100);
    EXPECT_EQUAL(ur_cache_add(cache, &beyond, 1), UR_OK);
    if (end > BYTES - (1 << 20)) EXPECT(!has(cache, end + 1000, 100)); /* the file ends before */
  }
  (void)close(grows);
  ur_cache_release(cache);
}

static void what_lies_far_behind_is_read_too(void) {
  int far = memfd_create("far", MFD_CLOEXEC); /* with a hole of many GiB */
  uint64_t places[] = {(UINT64_C(1) << 30) - 50, UINT64_C(5) << 30, (UINT64_C(1) << 44) + 7};
  EXPECT(far >= 0);
  ur_cache *other = ur_cache_new(2, 1);
  ur_cache_set_segment(other, 0, dup(far), SEED);
  EXPECT_EQUAL(ur_cache_set_file(other, 0, 0, BYTES), UR_OK);
  for (uint64_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (pwrite(far, object + i * 1000, 100, (off_t)places[i]) != 100) continue; /* this system's files end before */
    ur_cache_range range = range_of(i * 1000, 100);
    range.place = places[i];
    EXPECT_EQUAL(ur_cache_add(other, &range, 1), UR_OK);
    EXPECT(has(other, i * 1000, 100));
  }
  (void)close(far);
  ur_cache_release(other);
}

static void *use(void *context) {
  ur_cache *cache = context;
  unsigned state = (unsigned)(uintptr_t)pthread_self();
  uint8_t found[2 * PIECE];
  for (int i = 0; i < 3000; i++) {
    state = state * 1103515245u + 12345u;
    uint64_t number = state / 65536u % (PIECES - 1), offset = number * PIECE;
    bool checked = i % 3 == 0;
    if (ur_cache_read(cache, 0, UR_FILE_DATA, offset, 2 * PIECE, found, checked)) {
      EXPECT(memcmp(found, object + offset, 2 * PIECE) == 0);
      if (ur_cache_read_settled(cache, 0, offset, PIECE, found)) EXPECT(memcmp(found, object + offset, PIECE) == 0);
      if (checked) ur_cache_trust(cache, 0, UR_FILE_DATA, offset, 2 * PIECE);
    } else {
      add(cache, offset, offset / UR_CACHE_STRETCH == (offset + PIECE - 1) / UR_CACHE_STRETCH ? PIECE : 1);
    }
    if (i % 64 == 0) ur_cache_forget(cache, 0, UR_FILE_DATA, offset, 3);
  }
  return NULL;
}

static void threads_read_while_others_change_it(void) {
  ur_cache *cache = make_cache();
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, use, cache) == 0);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
  ur_cache_release(cache);
}

/* Forks beside threads: neither ThreadSanitizer nor the emulator takes them. */
#if !defined(__SANITIZE_THREAD__) && !defined(UR_EMULATED)

static atomic_bool ended;

/* Holds the lock most of the time. */
static void *take_in(void *context) {
  static ur_cache_range ranges[PIECES];
  for (uint64_t i = 0; i < PIECES; i++) ranges[i] = range_of(i * PIECE, i % 1000 == 999 ? 1 : PIECE / 2);
  while (!atomic_load(&ended)) {
    EXPECT_EQUAL(ur_cache_add(context, ranges, PIECES), UR_OK);
    ur_cache_remove(context, ranges, PIECES);
  }
  return NULL;
}

/* What a forked child may ask: it has nothing, and waits for no lock of a thread that it does not have. */
static void ask_in_child(ur_cache *cache) {
  ur_cache_range range = range_of(1500, 100), gaps[8];
  uint64_t at = 0;
  (void)alarm(60);
  EXPECT_EQUAL(ur_cache_add(cache, &range, 1), UR_OK);
  ur_cache_remove(cache, &range, 1);
  EXPECT_EQUAL(ur_cache_gaps(cache, &(ur_cache_range){.bytes = BYTES}, &at, gaps, 8), 3); /* one for each MiB */
  EXPECT(at == BYTES && gaps[0].offset == 0 && gaps[2].offset == 2 << 20 && gaps[2].bytes == 1 << 20);
  EXPECT(!has(cache, 0, 1));
  EXPECT(!ur_cache_read(cache, 0, UR_FILE_DATA, 0, 1, (uint8_t[1]){0}, true));
  EXPECT(!ur_cache_read_settled(cache, 0, 0, 1, (uint8_t[1]){0}));
  ur_cache_trust(cache, 0, UR_FILE_DATA, 0, 100);
  EXPECT(!ur_cache_forget(cache, 0, UR_FILE_DATA, 0, 100));
  EXPECT_EQUAL(ur_cache_take_dropped(cache, gaps, 8), 0);
  uint64_t counts[3];
  ur_cache_counts(cache, counts);
  ur_cache_release(cache);
  _exit(0);
}

static void a_forked_child_waits_for_no_lock(void) {
  ur_cache *cache = make_cache();
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, take_in, cache) == 0);
  for (int i = 0; i < 20; i++) {
    int status = -1;
    (void)usleep(1000);
    pid_t child = fork();
    if (child == 0) ask_in_child(cache);
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT_EQUAL(status, 0);
  }
  atomic_store(&ended, true);
  EXPECT(pthread_join(thread, NULL) == 0);
  ur_cache_release(cache);
}
#endif

static void a_file_on_no_segment_has_gaps_alone(void) {
  ur_cache *cache = make_cache();
  ur_cache_range wanted = {.file = 1, .offset = 10, .bytes = 20}, gap;
  uint64_t at = wanted.offset;
  EXPECT_EQUAL(ur_cache_gaps(cache, &wanted, &at, &gap, 1), 1);
  EXPECT(at == 30 && gap.offset == 10 && gap.bytes == 20);
  ur_cache_release(cache);
}

int main(void) {
  uint64_t state = 1;
  for (size_t i = 0; i < BYTES; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    object[i] = (uint8_t)(state >> 56);
  }
  segment = memfd_create("segment", MFD_CLOEXEC);
  EXPECT(segment >= 0);
  EXPECT(pwrite(segment, object, BYTES, 100) == BYTES);
  pieces_are_put_together();
  what_is_impossible_is_left_out();
  what_is_damaged_goes_and_is_told_once();
  trust_is_of_whole_ranges();
  what_is_settled_is_read_until_something_goes();
  a_segment_grows_while_it_is_read();
  what_lies_far_behind_is_read_too();
  a_file_on_no_segment_has_gaps_alone();
  threads_read_while_others_change_it();
#if !defined(__SANITIZE_THREAD__) && !defined(UR_EMULATED)
  a_forked_child_waits_for_no_lock();
#endif
  (void)close(segment);
  return 0;
}
