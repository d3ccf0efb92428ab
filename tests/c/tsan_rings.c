/* tsan_rings.c - threads that come and go, each with a ring and a set of its own: every ring and descriptor is given back. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "io/io.h"
#include "part_contents.h"

enum { ROWS = 20, PARTS = 3, ALL = ROWS * PARTS, THREADS = 8, WAVES = 12, READS = 6, BATCH = 5 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[PARTS][64];
static ur_set *shared;
static atomic_int begun, go;

static ur_set *open_set(int io) {
  ur_part_ref refs[PARTS];
  for (int i = 0; i < PARTS; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = ROWS};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &set, NULL), UR_OK);
  return set;
}

static void read_all(ur_set *set, contents *found) {
  for (int64_t at = 0; at < READS; at++) {
    int64_t rows[BATCH];
    for (int64_t i = 0; i < BATCH; i++) rows[i] = (at * 37 + i * 11) % ALL;
    EXPECT_EQUAL(read_columns(set, rows, BATCH, 4, found, NULL), UR_OK);
    for (int64_t i = 0; i < BATCH; i++) expect_row(found, i, rows[i] % ROWS, 0);
  }
}

/* All threads of a wave have a ring at one time, and give it back at one time. */
static void *read_in_a_thread(void *argument) {
  (void)argument;
  contents *found = malloc(sizeof *found);
  EXPECT(found != NULL);
  read_all(shared, found);
  atomic_fetch_add(&begun, 1);
  while (!atomic_load(&go)) (void)usleep(100);
  EXPECT(ur_descriptors_held() >= 0);
  for (int io = UR_IO_URING; io <= UR_IO_URING_DIRECT; io++) {
    ur_set *own = open_set(io);
    read_all(own, found);
    ur_set_release(own);
  }
  free(found);
  return NULL;
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  store_parts(folder, paths, PARTS, ROWS);
  EXPECT_EQUAL(ur_descriptors_held(), 0);
  for (int wave = 0; wave < WAVES; wave++) {
    pthread_t threads[THREADS];
    shared = open_set(UR_IO_URING);
    atomic_store(&begun, 0);
    atomic_store(&go, 0);
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_create(&threads[i], NULL, read_in_a_thread, NULL) == 0);
    while (atomic_load(&begun) < THREADS) (void)usleep(100);
    atomic_store(&go, 1);
    for (int i = 0; i < THREADS; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    ur_set_release(shared);
    EXPECT_EQUAL(ur_descriptors_held(), 0); /* those of the rings went with their threads */
  }
  return remove_folder(folder);
}
