/* faults_choice.c - io="auto" on machines that are not here: file systems elsewhere, little memory, limits of control groups. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"
#include "fault_seam.h"
#include "folder.h"
#include "io/io.h"

#define GB UINT64_C(1000000000)
#define EIGHT_GB "MemTotal:       99999999 kB\nMemAvailable:    7812500 kB\nBuffers:         7 kB\n"

enum { EXT4 = 0xEF53, NFS = 0x6969 };

static char root[] = "/tmp/unirecord-test-XXXXXX";
static int file;

static void put_file(const char *name, const char *text) {
  char path[256];
  (void)snprintf(path, sizeof path, "%s%s", root, name);
  for (char *at = path + sizeof root; (at = strchr(at, '/')) != NULL; at++) {
    *at = '\0';
    (void)mkdir(path, 0700);
    *at = '/';
  }
  FILE *out = fopen(path, "w");
  EXPECT(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
}

static int32_t choose(uint32_t system, uint64_t bytes) {
  fault_machine machine = {system, root};
  fault_pretend(&machine);
  int32_t io = ur_io_choose(file, bytes);
  fault_pretend(NULL);
  return io;
}

static void files_that_are_elsewhere_are_not_mapped(void) {
  static const uint32_t elsewhere[] = {NFS, 0xff534d42, 0x65735546, 0x01021997, 0xbacbacbc};
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
    EXPECT_EQUAL(choose(elsewhere[i], GB), UR_IO_PREAD);
  EXPECT_EQUAL(choose(EXT4, GB), UR_IO_MAP);
  fault_plan plan = {.calls = FAULT_STAT, .error = EIO};
  fault_arm(&plan);
  EXPECT_EQUAL(choose(EXT4, GB), UR_IO_PREAD); /* nothing is known of it */
  EXPECT_EQUAL(fault_disarm(), 1);
}

static void data_beyond_memory_goes_past_the_page_cache(void) {
  EXPECT_EQUAL(choose(EXT4, 5 * GB), UR_IO_MAP);
  EXPECT_EQUAL(choose(EXT4, 7 * GB), UR_IO_URING_DIRECT);
}

static void memory_that_is_not_told_is_enough(void) {
  put_file("/proc/meminfo", "MemTotal:       99999999 kB\n"); /* before Linux 3.14 */
  EXPECT_EQUAL(choose(EXT4, 7 * GB), UR_IO_MAP);
  put_file("/proc/meminfo", EIGHT_GB);
}

static void the_least_limit_of_the_control_groups_counts(void) {
  put_file("/proc/self/cgroup", "0::/\n");
  put_file("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQUAL(choose(EXT4, 2 * GB), UR_IO_MAP);
  put_file("/proc/self/cgroup", "1:cpu:/jobs/42\n0::/jobs/42\n");
  put_file("/sys/fs/cgroup/jobs/42/memory.max", "max\n");
  put_file("/sys/fs/cgroup/jobs/memory.max", "1000000000\n"); /* the outer group's */
  EXPECT_EQUAL(choose(EXT4, 2 * GB), UR_IO_URING_DIRECT);
  EXPECT_EQUAL(choose(EXT4, GB / 2), UR_IO_MAP);
  put_file("/sys/fs/cgroup/jobs/memory.max", "");
  EXPECT_EQUAL(choose(EXT4, 2 * GB), UR_IO_MAP);
  put_file("/sys/fs/cgroup/memory.max", "1000000000\n"); /* the root's, inside a container */
  EXPECT_EQUAL(choose(EXT4, 2 * GB), UR_IO_URING_DIRECT);
  put_file("/sys/fs/cgroup/memory.max", "max\n");
  put_file("/proc/self/cgroup", "5:memory:/old/7\n1:name=systemd:/x\n"); /* version 1 */
  put_file("/sys/fs/cgroup/memory/old/7/memory.limit_in_bytes", "1000000000\n");
  EXPECT_EQUAL(choose(EXT4, 2 * GB), UR_IO_URING_DIRECT);
  put_file("/sys/fs/cgroup/memory/old/7/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQUAL(choose(EXT4, 2 * GB), UR_IO_MAP);
  put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000000\n");
  EXPECT_EQUAL(choose(EXT4, 2 * GB), UR_IO_URING_DIRECT);
}

static void every_question_may_go_unanswered(void) {
  for (int calls = FAULT_OPEN; calls <= FAULT_READ; calls *= 2)
    for (int at = 0; at < 8; at++) {
      fault_plan plan = {.calls = calls, .at = at, .for_ever = 1, .error = EACCES};
      fault_arm(&plan);
      int32_t io = choose(EXT4, 2 * GB);
      EXPECT(io == UR_IO_MAP || io == UR_IO_URING_DIRECT || io == UR_IO_PREAD);
      (void)fault_disarm();
    }
}

int main(void) {
  EXPECT(mkdtemp(root) != NULL);
  file = open("/dev/null", O_RDONLY);
  EXPECT(file >= 0);
  put_file("/proc/meminfo", EIGHT_GB);
  files_that_are_elsewhere_are_not_mapped();
  data_beyond_memory_goes_past_the_page_cache();
  memory_that_is_not_told_is_enough();
  the_least_limit_of_the_control_groups_counts();
  every_question_may_go_unanswered();
  (void)close(file);
  return remove_folder(root);
}
