/* io/file.c - opening, measuring, reading and mapping whole files: the system calls that every way of reading shares. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "io/io.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

#define READ_AT_MOST (UINT64_C(1) << 30)
#define LEASE_PAUSE_NS 50000000
#define LEASE_PAUSES 1200 /* a minute of them */

static atomic_llong held;

int ur_descriptor_keep(int fd) {
  if (fd >= 0) (void)atomic_fetch_add_explicit(&held, 1, memory_order_relaxed);
  return fd;
}

int64_t ur_descriptors_held(void) { return atomic_load_explicit(&held, memory_order_relaxed); }

/* Without waiting, so that a FIFO cannot hold us up. Under a lease (a file server's, say) that is refused until its holder
 * has given it up, which the kernel sees to within /proc/sys/fs/lease-break-time, 45 s. */
static int open_at_once(const char *path) {
  const struct timespec pause = {.tv_nsec = LEASE_PAUSE_NS};
  for (int pauses = 0;;) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 || (errno != EINTR && errno != EWOULDBLOCK) || pauses == LEASE_PAUSES) return ur_descriptor_keep(fd);
    if (errno == EINTR) continue;
    pauses++;
    (void)nanosleep(&pause, NULL);
  }
}

ur_status ur_file_open(const char *path, ur_file_kind file, int *fd, uint64_t *bytes, struct timespec *modified,
                       ur_error *error) {
  int opened = open_at_once(path);
  if (opened < 0) return ur_fail_os(error, file, errno, "the file cannot be opened");
  struct stat facts;
  ur_status status = UR_OK;
  if (fstat(opened, &facts) != 0)
    status = ur_fail_os(error, file, errno, "the file cannot be measured (fstat)");
  else if (!S_ISREG(facts.st_mode))
    status = ur_fail_at(error, UR_FORMAT, file, 0, "this is not a regular file");
  if (status != UR_OK) {
    ur_file_close(opened);
    return status;
  }
  (void)fcntl(opened, F_SETFL, 0); /* reads may wait: with O_NONBLOCK, io_uring answers EAGAIN instead */
  *fd = opened;
  *bytes = (uint64_t)facts.st_size;
  *modified = facts.st_mtim;
  return UR_OK;
}

ur_status ur_file_read(int fd, ur_file_kind file, uint64_t offset, uint64_t bytes, uint8_t *to, ur_error *error) {
  while (bytes > 0) {
    size_t most = (size_t)(bytes < READ_AT_MOST ? bytes : READ_AT_MOST);
    ssize_t got = pread(fd, to, most, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ur_fail_os(error, file, errno, "the file cannot be read (pread)");
    if (got == 0)
      return ur_fail_at(error, UR_STALE, file, offset, "the file ends at %" PRIu64 ", %" PRIu64
                        " bytes early: it has been cut", offset, bytes);
    offset += (uint64_t)got; /* exact: inside the file */
    bytes -= (uint64_t)got;
    to += got;
  }
  return UR_OK;
}

ur_status ur_file_map(int fd, ur_file_kind file, uint64_t bytes, bool own, const uint8_t **view, ur_error *error) {
  int access = own ? PROT_READ | PROT_WRITE : PROT_READ, kind = own ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
  void *mapped = mmap(NULL, bytes, access, kind, fd, 0);
  if (mapped == MAP_FAILED) return ur_fail_os(error, file, errno, "the file cannot be mapped (mmap)");
  *view = mapped;
  return UR_OK;
}

void ur_file_unmap(const uint8_t *view, uint64_t bytes) {
  if (view != NULL) (void)munmap((void *)(uintptr_t)view, bytes);
}

void ur_file_close(int fd) {
  if (fd < 0) return;
  (void)atomic_fetch_sub_explicit(&held, 1, memory_order_relaxed);
  (void)close(fd);
}

ur_status ur_file_check(int fd, ur_file_kind file, uint64_t bytes, const struct timespec *modified, ur_error *error) {
  struct stat facts;
  if (fstat(fd, &facts) != 0) return ur_fail_os(error, file, errno, "the file cannot be measured (fstat)");
  uint64_t found = (uint64_t)facts.st_size;
  if (found != bytes)
    return ur_fail_at(error, UR_STALE, file, found,
                      "the file has %" PRIu64 " bytes, it had %" PRIu64 " when it was opened: it has been %s", found,
                      bytes, found < bytes ? "cut" : "written to");
  if (facts.st_mtim.tv_sec != modified->tv_sec || facts.st_mtim.tv_nsec != modified->tv_nsec)
    return ur_fail_at(error, UR_STALE, file, UR_NOWHERE, "the file has been written to since it was opened");
  return UR_OK;
}

int64_t ur_file_clock(void) {
#ifdef CLOCK_MONOTONIC_COARSE
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now) == 0) return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 1;
#endif
  return 0;
}

void *ur_pages_new(uint64_t bytes) {
  if (bytes == 0) bytes = 1;
  void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return pages == MAP_FAILED ? NULL : pages;
}

void ur_pages_free(void *pages, uint64_t bytes) {
  if (pages != NULL) (void)munmap(pages, bytes == 0 ? 1 : bytes);
}

int64_t ur_file_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1 << 20;
  return limit.rlim_cur > (1u << 20) ? 1 << 20 : (int64_t)limit.rlim_cur;
}
