/* tsan_set.c - one set, joined or not, few descriptors, many threads: parts opened, closed again and read at once, and it closed under it. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 20, PARTS = 40, ALL = ROWS * PARTS, THREADS = 4, READS = 150, BATCH = 4 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[PARTS][64];
static atomic_int closed;

static ur_set *open_set(int io, int verify) {
  ur_part_ref refs[PARTS];
  for (int i = 0; i < PARTS; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = ROWS};
  ur_set_options options = {.io = io, .verify = verify};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &set, NULL), UR_OK);
  return set;
}

/* Two sets over the same parts as one: columns 0 and 3 are the first's. */
static ur_set *open_joined(int io, int verify) {
  static const ur_joined_column columns[] = {{0, 0}, {1, 1}, {1, 2}, {0, 3}};
  ur_set *layers[] = {open_set(io, verify), open_set(io, verify)}, *joined = NULL;
  EXPECT_EQUAL(ur_set_join(layers, 2, columns, 4, &joined, NULL), UR_OK);
  for (int i = 0; i < 2; i++) ur_set_release(layers[i]);
  return joined;
}

static void *read_at_random(void *argument) {
  ur_set *set = argument;
  contents *found = malloc(sizeof *found);
  unsigned seed = (unsigned)(uintptr_t)&seed;
  EXPECT(found != NULL);
  for (int i = 0; i < READS; i++) {
    int64_t rows[BATCH];
    ur_error error = {0};
    for (int k = 0; k < BATCH; k++) rows[k] = rand_r(&seed) % ALL;
    ur_status status = read_columns(set, rows, BATCH, 4, found, &error);
    if (status == UR_CLOSED) {
      atomic_fetch_add(&closed, 1);
      break;
    }
    EXPECT_EQUAL(status, UR_OK);
    for (int k = 0; k < BATCH; k++) expect_row(found, k, rows[k] % ROWS, 0);
    if (i % 7 == 0) ur_set_advise(set, rows, BATCH);
    ur_part *part = NULL;
    if (i % 5 == 0 && ur_set_part(set, rows[0] / ROWS, &part, NULL) == UR_OK) {
      ur_section section;
      EXPECT_EQUAL(ur_part_section(part, UR_SECTION_VALUES, 0, &section), UR_OK);
      EXPECT_EQUAL(ur_part_check(part, &section, 0, section.bytes, NULL), UR_OK);
      EXPECT_EQUAL(ur_load32(section.data + 4), 3);
      ur_part_release(part);
    }
  }
  free(found);
  ur_set_release(set);
  return NULL;
}

static void read_in_threads(ur_set *set, int count, int close_after) {
  pthread_t threads[THREADS];
  for (int i = 0; i < count; i++) EXPECT(pthread_create(&threads[i], NULL, read_at_random, ur_set_retain(set)) == 0);
  if (close_after > 0) {
    (void)usleep((useconds_t)close_after);
    ur_set_close(set);
  }
  ur_set_release(set); /* the last thread lets go of it */
  for (int i = 0; i < count; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  store_parts(folder, paths, PARTS, ROWS);
  struct rlimit few = {64, 64}; /* sets then keep at most 32 parts open, beside those being read */
  EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    read_in_threads(open_set(io, UR_VERIFY_FIRST), THREADS, 0);
    read_in_threads(open_set(io, UR_VERIFY_ALWAYS), THREADS, 2000 * io);
    read_in_threads(open_joined(io, UR_VERIFY_FIRST), THREADS / 2, 0);
    read_in_threads(open_joined(io, UR_VERIFY_ALWAYS), THREADS / 2, 2000 * io); /* a batch holds parts of both */
  }
  EXPECT(atomic_load(&closed) > 0);
  return remove_folder(folder);
}
