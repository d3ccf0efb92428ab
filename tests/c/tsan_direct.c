/* tsan_direct.c - many threads read rows of fixed width directly, until parts must be closed for others, and the set under them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "batch/direct.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 20, PARTS = 40, KNOWN = 12, ALL = ROWS * PARTS, THREADS = 4, READS = 200, BATCH = 16, BYTES = 24 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[PARTS][64];
static atomic_int direct;

static void *read_at_random(void *argument) {
  ur_set *set = argument;
  unsigned seed = (unsigned)(uintptr_t)&seed;
  for (int i = 0; i < READS; i++) {
    int64_t rows[BATCH];
    uint8_t data[BATCH * BYTES];
    ur_output output = {.column = 2, .data = data, .capacity = sizeof data};
    ur_read read;
    int parts = i < READS / 2 ? KNOWN : PARTS; /* from the middle on there are more than may stay open */
    for (int k = 0; k < BATCH; k++) rows[k] = rand_r(&seed) % (ROWS * parts);
    ur_status status = ur_read_open(&read, set, rows, BATCH, &output, 1, NULL, NULL);
    if (status == UR_OK && read.direct != NULL) atomic_fetch_add(&direct, 1);
    if (status == UR_OK) status = ur_read_measure(&read, &output, 1, NULL);
    if (status == UR_OK) status = ur_read_gather(&read, &output, 1, NULL);
    ur_read_close(&read);
    if (status == UR_CLOSED) break;
    EXPECT_EQUAL(status, UR_OK);
    for (int k = 0; k < BATCH * BYTES; k++) EXPECT_EQUAL(data[k], rows[k / BYTES] % ROWS);
  }
  ur_set_release(set);
  return NULL;
}

static void read_in_threads(int verify, int close_after) {
  pthread_t threads[THREADS];
  ur_part_ref refs[PARTS];
  ur_set *set = NULL;
  for (int i = 0; i < PARTS; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = ROWS};
  ur_set_options options = {.io = UR_IO_MAP, .verify = verify};
  EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &set, NULL), UR_OK);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, read_at_random, ur_set_retain(set)) == 0);
  if (close_after > 0) {
    (void)usleep((useconds_t)close_after);
    ur_set_close(set);
  }
  ur_set_release(set);
  for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  fixture *part = make_part(ROWS, 1, 0);
  for (int i = 0; i < PARTS; i++) {
    (void)snprintf(paths[i], sizeof paths[i], "%.40s/%d.urec", folder, i);
    store_part(part, paths[i]);
  }
  free(part);
  struct rlimit few = {64, 64}; /* of which parts take three quarters */
  EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
  for (int i = 0; i < 5; i++) {
    read_in_threads(UR_VERIFY_FIRST, 0);
    read_in_threads(UR_VERIFY_NEVER, 0);
    read_in_threads(UR_VERIFY_NEVER, 500 * (i + 1));
  }
  EXPECT(atomic_load(&direct) > 0);
  return remove_folder(folder);
}
