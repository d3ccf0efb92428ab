/* test_fork.c - what a fork does: it is counted on both sides, and a child closes what is not for it. */
#define _GNU_SOURCE
#include "base/fork.h"
#include "expect.h"
#include "unirecord_internal.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static int status_of(pid_t child) {
  int status = -1;
  EXPECT(waitpid(child, &status, 0) == child);
  return status;
}

static void forks_are_counted_on_both_sides(void) {
  uint64_t all = ur_all_forks(), own = ur_forks();
  pid_t child = fork();
  if (child == 0) _exit(ur_all_forks() != all && ur_forks() != own ? 0 : 1);
  EXPECT_EQUAL(status_of(child), 0);
  EXPECT(ur_all_forks() != all);
  EXPECT_EQUAL(ur_forks(), own);
}

static int is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

static void a_child_closes_what_is_not_for_it(void) {
  static const int numbers[] = {63, 64, 65, 200};
  enum { COUNT = sizeof numbers / sizeof *numbers };
  for (int i = 0; i < COUNT; i++) EXPECT_EQUAL(dup2(0, numbers[i]), numbers[i]);
  for (int i = 0; i < COUNT; i++) ur_fork_closes(numbers[i], 1);
  ur_fork_closes(64, 0);
  ur_fork_closes(-1, 1);
  ur_fork_closes(1 << 20, 1);
  pid_t child = fork();
  if (child == 0) {
    if (is_open(63) || !is_open(64) || is_open(65) || is_open(200)) _exit(1);
    EXPECT_EQUAL(dup2(0, 63), 63); /* its own, which its children have */
    child = fork();
    if (child == 0) _exit(is_open(63) ? 0 : 1);
    _exit(status_of(child) == 0 ? 0 : 1);
  }
  EXPECT_EQUAL(status_of(child), 0);
  for (int i = 0; i < COUNT; i++) EXPECT(is_open(numbers[i]));
  for (int i = 0; i < COUNT; i++) ur_fork_closes(numbers[i], 0);
  child = fork();
  if (child == 0) _exit(is_open(63) && is_open(200) ? 0 : 1);
  EXPECT_EQUAL(status_of(child), 0);
}

/* Of a process that is busy for ever; the test's own end of the pipe is told of its end. */
static void a_process_ends_with_its_parent_whatever_it_is_at(void) {
  int ends[2];
  char byte = 0;
  EXPECT_EQUAL(pipe(ends), 0);
  pid_t parent = fork();
  if (parent == 0) {
    int64_t self = getpid();
    if (fork() == 0) {
      if (ur_end_with_parent(self) != 0 || write(ends[1], "b", 1) != 1) _exit(1);
      for (;;) continue;
    }
    while (read(ends[0], &byte, 1) != 1) continue; /* it has begun */
    _exit(0);
  }
  EXPECT_EQUAL(status_of(parent), 0);
  EXPECT_EQUAL(close(ends[1]), 0);
  EXPECT_EQUAL(read(ends[0], &byte, 1), 0);
  EXPECT_EQUAL(close(ends[0]), 0);
}

static void a_process_of_which_the_parent_has_ended_before_ends(void) {
  int ends[2];
  char byte = 0;
  EXPECT_EQUAL(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    if (ur_end_with_parent((int64_t)getppid() + 1) != 0) _exit(2);
    for (;;) (void)pause();
  }
  EXPECT_EQUAL(close(ends[1]), 0);
  EXPECT_EQUAL(read(ends[0], &byte, 1), 0);
  EXPECT_EQUAL(WEXITSTATUS(status_of(child)), 1);
  EXPECT_EQUAL(close(ends[0]), 0);
}

int main(void) {
  forks_are_counted_on_both_sides();
  a_child_closes_what_is_not_for_it();
  a_process_ends_with_its_parent_whatever_it_is_at();
  a_process_of_which_the_parent_has_ended_before_ends();
  return 0;
}
