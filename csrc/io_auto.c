/* io_auto.c - which way of reading suits a file: the choice behind io="auto", in one place.
 *
 * A map is the fastest way to bytes in memory, and no slower than others to bytes on a local disk that are told of
 * ahead. It is wrong for network and FUSE file systems, where a fault can block or kill the process. Data that will not
 * stay in memory and comes in large rows is read with many reads in flight, past the page cache: filling it costs as much
 * as the reads do, and a row read once an epoch in random order is seldom still there when it is read again.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#elif defined(__APPLE__)
#include <sys/param.h>
#include <sys/mount.h>
#endif

#include "io.h"

#define LARGE_ROW (UINT64_C(16) << 10)

#ifdef __linux__

/* Magic numbers of file systems whose files are somewhere else, from linux/magic.h and the sources of Linux. */
static const uint32_t remote_systems[] = {
    0x6969,     /* NFS */
    0x517b,     /* SMB */
    0xff534d42, /* CIFS */
    0xfe534d42, /* SMB2 */
    0x65735546, /* FUSE: sshfs, s3fs, gcsfuse */
    0x00c36400, /* Ceph */
    0x01021997, /* 9p */
    0x5346414f, /* AFS */
    0x6b414653, /* kAFS */
    0x73757245, /* Coda */
    0x0bd00bd0, /* Lustre */
    0x47504653, /* GPFS */
    0x20030528, /* OrangeFS */
    0x7461636f, /* OCFS2 */
    0x01161970, /* GFS2 */
    0x19830326, /* BeeGFS */
    0x786f4256, /* VirtualBox shared folders */
    0xbacbacbc, /* VMware shared folders */
};

static bool is_remote(int fd) {
  struct statfs facts;
  if (fstatfs(fd, &facts) != 0) return true; /* nothing is known, so nothing is mapped */
  for (size_t i = 0; i < sizeof remote_systems / sizeof *remote_systems; i++)
    if ((uint32_t)facts.f_type == remote_systems[i]) return true;
  return false;
}

#else

static bool is_remote(int fd) {
#ifdef MNT_LOCAL
  struct statfs facts;
  return fstatfs(fd, &facts) != 0 || (facts.f_flags & MNT_LOCAL) == 0;
#else
  (void)fd;
  return true; /* nothing is known, so nothing is mapped */
#endif
}

#endif

#ifdef __linux__

/* The number in a small file of /proc or /sys, or UINT64_MAX: no file, no number ("max"), no limit. */
static uint64_t number_in(const char *path) {
  char text[32] = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return UINT64_MAX;
  ssize_t got = read(fd, text, sizeof text - 1);
  (void)close(fd);
  if (got <= 0 || text[0] < '0' || text[0] > '9') return UINT64_MAX;
  return strtoull(text, NULL, 10);
}

/* The least limit of memory from this process's control group (v2, or v1's memory controller) up to the root. */
static uint64_t group_limit(void) {
  uint64_t least = number_in("/sys/fs/cgroup/memory.max");
  uint64_t first_version = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  if (first_version < least) least = first_version;
  FILE *groups = fopen("/proc/self/cgroup", "re");
  if (groups == NULL) return least;
  char line[512], path[640];
  while (fgets(line, sizeof line, groups) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    bool second = strncmp(line, "0::", 3) == 0;
    char *memory = strstr(line, ":memory:"), *group = second ? line + 3 : memory == NULL ? NULL : memory + 8;
    while (group != NULL && strlen(group) > 1) {
      int fits = snprintf(path, sizeof path, second ? "/sys/fs/cgroup%s/memory.max"
                                                    : "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", group);
      uint64_t limit = fits > 0 && (size_t)fits < sizeof path ? number_in(path) : UINT64_MAX;
      if (limit < least) least = limit;
      *strrchr(group, '/') = '\0';
    }
  }
  (void)fclose(groups);
  return least;
}

/* Bytes of memory that this process may fill, the page cache included. */
static uint64_t memory_limit(void) {
  struct sysinfo facts;
  uint64_t limit = sysinfo(&facts) == 0 ? (uint64_t)facts.totalram * facts.mem_unit : UINT64_MAX;
  uint64_t group = group_limit();
  return group < limit ? group : limit;
}

#else

static uint64_t memory_limit(void) { return UINT64_MAX; } /* no use to know: there is no io_uring to turn to */

#endif

int32_t ur_io_choose(int fd, uint64_t bytes, uint64_t row_bytes) {
  if (is_remote(fd)) return UR_IO_PREAD;
  uint64_t limit = row_bytes >= LARGE_ROW ? memory_limit() : UINT64_MAX;
  return bytes > limit - limit / 4 ? UR_IO_URING_DIRECT : UR_IO_MAP;
}
