/* io/auto.c - which way of reading suits a file: the choice behind io="auto", in one place.
 *
 * A map is the fastest way to bytes in memory, and no slower than others to bytes on a local disk that are told of
 * ahead. It is wrong for network and FUSE file systems, where a fault can block or kill the process. Data that will not
 * stay in memory is read with many reads in flight, past the page cache: what each read brings in is seldom still there
 * when it is read again, and a map then reads a lot around each fault only to drop it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#elif defined(__APPLE__)
#include <sys/mount.h>
#include <sys/param.h>
#endif

#include "io/io.h"

#define FITS_ANYWHERE (UINT64_C(64) << 20) /* data so small that asking for the size of memory costs more than it tells */

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

/* The text of a small file of /proc or /sys, or its start; false when there is none. Without stdio, whose first use costs
 * a process as much as all of these files. */
static bool small_file(const char *path, char *text, size_t room) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t got = read(fd, text, room - 1);
  (void)close(fd);
  text[got < 0 ? 0 : got] = '\0';
  return got > 0;
}

/* The number in a small file, or UINT64_MAX: no file, no number ("max"), no limit. */
static uint64_t number_in(const char *path) {
  char text[32];
  return small_file(path, text, sizeof text) && text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* The least limit of a control group and of those around it, as one line of /proc/self/cgroup names it: "0::/a/b", or of
 * version 1 "5:memory:/a/b". */
static uint64_t limit_of(char *line) {
  char path[640];
  bool second = strncmp(line, "0::", 3) == 0;
  char *memory = strstr(line, ":memory:"), *group = second ? line + 3 : memory == NULL ? NULL : memory + 8;
  uint64_t least = UINT64_MAX;
  while (group != NULL && group[0] == '/' && group[1] != '\0') {
    int fits = snprintf(path, sizeof path, second ? "/sys/fs/cgroup%s/memory.max"
                                                  : "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", group);
    uint64_t limit = fits > 0 && (size_t)fits < sizeof path ? number_in(path) : UINT64_MAX;
    if (limit < least) least = limit;
    *strrchr(group, '/') = '\0';
  }
  return least;
}

/* The least limit of memory from this process's control group (v2, or v1's memory controller) up to the root. */
static uint64_t group_limit(void) {
  char groups[4096], *rest = groups;
  uint64_t least = number_in("/sys/fs/cgroup/memory.max");
  uint64_t first_version = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  if (first_version < least) least = first_version;
  if (!small_file("/proc/self/cgroup", groups, sizeof groups)) return least;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    uint64_t limit = limit_of(line);
    if (limit < least) least = limit;
  }
  return least;
}

/* What the system can give without swapping: free, or in caches. */
static uint64_t available_memory(void) {
  static const char label[] = "MemAvailable:"; /* one of the first lines */
  char facts[1024];
  const char *found = small_file("/proc/meminfo", facts, sizeof facts) ? strstr(facts, label) : NULL;
  uint64_t kilobytes = found == NULL ? UINT64_MAX : strtoull(found + sizeof label - 1, NULL, 10);
  return kilobytes < UINT64_MAX >> 10 ? kilobytes << 10 : UINT64_MAX;
}

/* Bytes of memory that this process may fill, the page cache included. */
static uint64_t memory_limit(void) {
  uint64_t available = available_memory(), group = group_limit();
  return group < available ? group : available;
}

#else

static uint64_t memory_limit(void) { return UINT64_MAX; } /* no use to know: there is no io_uring to turn to */

#endif

int32_t ur_io_choose(int fd, uint64_t bytes) {
  if (is_remote(fd)) return UR_IO_PREAD;
  if (bytes <= FITS_ANYWHERE) return UR_IO_MAP;
  uint64_t limit = memory_limit();
  return bytes > limit - limit / 4 ? UR_IO_URING_DIRECT : UR_IO_MAP;
}
