/* faults_digesting.c - digests computed meanwhile are those computed at once, with and without memory and a thread for it. */
#define _GNU_SOURCE
#include "base/hash.h"
#include "expect.h"
#include "fault_seam.h"
#include "unirecord_internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 1 << 20, PIECES = 64 };

static uint8_t data[ROOM];
static uint64_t starts[PIECES], addresses[PIECES], lengths[PIECES], expected[PIECES], expected_wide[2 * PIECES];

static void all_are_found(const void *base, const uint64_t *places, int thread) {
  uint64_t found[PIECES] = {0}, wide[2 * PIECES] = {0};
  ur_digesting *job = ur_digesting_start(base, places, lengths, PIECES, 5, 7, found, wide);
  EXPECT_EQUAL(job != NULL, thread);
  ur_digesting_end(job);
  for (int i = 0; i < PIECES; i++) EXPECT_EQUAL(found[i], expected[i]);
  EXPECT(memcmp(wide, expected_wide, sizeof wide) == 0);
}

static void nothing_is_missing_when(int calls) {
  fault_plan plan = {.calls = calls, .for_ever = 1, .manner = FAULT_ERROR, .error = EAGAIN};
  fault_holdings before = fault_held();
  fault_arm(&plan);
  all_are_found(data, starts, calls == 0);
  EXPECT_EQUAL(fault_disarm(), calls == 0 ? 0 : 1);
  EXPECT_EQUAL(fault_held().allocations, before.allocations);
}

/* The child has no thread to wait for. */
static void a_forked_child_finds_them_too(void) {
  uint64_t found[PIECES] = {0}, wide[2 * PIECES] = {0};
  ur_digesting *job = ur_digesting_start(data, starts, lengths, PIECES, 5, 7, found, wide);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    ur_digesting_end(job);
    _exit(memcmp(found, expected, sizeof found) != 0 || memcmp(wide, expected_wide, sizeof wide) != 0);
  }
  ur_digesting_end(job);
  int status = -1;
  EXPECT_EQUAL(waitpid(child, &status, 0), child);
  EXPECT_EQUAL(status, 0);
  for (int i = 0; i < PIECES; i++) EXPECT_EQUAL(found[i], expected[i]);
  EXPECT(memcmp(wide, expected_wide, sizeof wide) == 0);
}

static atomic_int armed, beginning;
static int begins[2];

/* Long enough for a fork to come in between, if it may. */
static void begin_slowly(void) {
  atomic_store(&beginning, 1);
  EXPECT(write(begins[1], "", 1) == 1);
  (void)usleep(20000);
  atomic_store(&beginning, 0);
}

static void *digest_all(void *argument) {
  while (!atomic_load(&armed)) (void)usleep(100);
  all_are_found(data, starts, 1);
  return argument;
}

/* Whether the child of a fork that is asked for while a thread begins came when none did, and could use threads of its own;
 * `hung` is set where it ended by its alarm. */
static void fork_while_a_thread_begins(bool *hung) {
  pthread_t thread;
  char byte = 0;
  atomic_store(&armed, 0);
  EXPECT(pipe(begins) == 0);
  EXPECT(pthread_create(&thread, NULL, digest_all, NULL) == 0);
  fault_before_threads(begin_slowly);
  atomic_store(&armed, 1);
  EXPECT(read(begins[0], &byte, 1) == 1);
  pid_t child = fork();
  if (child == 0) {
    alarm(10);
    int between = atomic_load(&beginning);
    fault_before_threads(NULL);
    all_are_found(data, starts, 1); /* nothing is held that its own threads need */
    _exit(between);
  }
  int status = -1;
  EXPECT_EQUAL(waitpid(child, &status, 0), child);
  *hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
  if (!*hung) EXPECT_EQUAL(status, 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  fault_before_threads(NULL);
  EXPECT(close(begins[0]) == 0 && close(begins[1]) == 0);
}

/* The address sanitizer does not take the locks of its allocator while a process forks: one that another thread holds just
 * then hangs the child, one time in four. What hangs each time is ours. */
static void no_fork_comes_while_a_thread_begins(void) {
  bool hung = true;
  for (int tries = 0; hung && tries < 10; tries++) fork_while_a_thread_begins(&hung);
  EXPECT(!hung);
}

int main(void) {
  for (int i = 0; i < ROOM; i++) data[i] = (uint8_t)(i * 131 + i / 251);
  for (uint64_t i = 0; i < PIECES; i++) {
    starts[i] = i * (ROOM / PIECES);
    addresses[i] = (uint64_t)(uintptr_t)(data + starts[i]);
    lengths[i] = i * 250;
    expected[i] = ur_hash_both_by(UR_HASH_PORTABLE, data + starts[i], (size_t)lengths[i], 5 + 7 * i, expected_wide + 2 * i);
  }
  all_are_found(data, starts, 1);
  all_are_found(NULL, addresses, 1);
  nothing_is_missing_when(0);
  nothing_is_missing_when(FAULT_MEMORY);
  nothing_is_missing_when(FAULT_THREAD);
  a_forked_child_finds_them_too();
  no_fork_comes_while_a_thread_begins();
  return 0;
}
