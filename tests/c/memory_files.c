/* memory_files.c - files that are memory, for fuzzers and test_hostile: no system call between a case and the code it tries.
 *
 * Linked with --wrap for each call below (Makefile, FUZZ_CALLS). Descriptors from FIRST on are pieces of memory of exactly the
 * file's size, so the sanitizer also sees a read in the last page beyond the file's end; all other calls pass through.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FIRST = 1 << 20, FILES = 16, MAPS = 16 };

typedef struct {
  uint8_t *bytes;
  size_t size;
  int used;
} memory_file;

static memory_file files[FILES];
static void *maps[MAPS];

int __real_open(const char *path, int flags, mode_t mode);
int __real_close(int fd);
int __real_fstat(int fd, struct stat *facts);
ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __real_pread(int fd, void *to, size_t count, off_t offset);
ssize_t __real_preadv(int fd, const struct iovec *vectors, int count, off_t offset);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);

int __wrap_open(const char *path, int flags, ...);
int __wrap_close(int fd);
int __wrap_fstat(int fd, struct stat *facts);
int __wrap_memfd_create(const char *name, unsigned flags);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_pread(int fd, void *to, size_t count, off_t offset);
ssize_t __wrap_preadv(int fd, const struct iovec *vectors, int count, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

static memory_file *file_of_fd(int fd) { return fd >= FIRST && fd < FIRST + FILES ? &files[fd - FIRST] : NULL; }

static int new_file(const uint8_t *bytes, size_t size) {
  for (int i = 0; i < FILES; i++) {
    if (files[i].used) continue;
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, bytes, size);
    files[i] = (memory_file){copy, size, 1};
    return FIRST + i;
  }
  abort();
}

int __wrap_memfd_create(const char *name, unsigned flags) {
  (void)name;
  (void)flags;
  return new_file(NULL, 0);
}

int __wrap_open(const char *path, int flags, ...) {
  int fd = -1;
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (sscanf(path, "/proc/self/fd/%d", &fd) != 1 || file_of_fd(fd) == NULL) return __real_open(path, flags, mode);
  return new_file(files[fd - FIRST].bytes, files[fd - FIRST].size);
}

int __wrap_close(int fd) {
  memory_file *file = file_of_fd(fd);
  if (file == NULL) return __real_close(fd);
  if (!file->used) abort(); /* closed twice */
  free(file->bytes);
  *file = (memory_file){0};
  return 0;
}

int __wrap_fstat(int fd, struct stat *facts) {
  const memory_file *file = file_of_fd(fd);
  if (file == NULL) return __real_fstat(fd, facts);
  memset(facts, 0, sizeof *facts);
  facts->st_mode = S_IFREG | 0600;
  facts->st_size = (off_t)file->size;
  return 0;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count) {
  memory_file *file = file_of_fd(fd);
  if (file == NULL) return __real_write(fd, bytes, count);
  free(file->bytes);
  file->bytes = malloc(count == 0 ? 1 : count);
  if (file->bytes == NULL) abort();
  memcpy(file->bytes, bytes, count);
  file->size = count;
  return (ssize_t)count;
}

ssize_t __wrap_pread(int fd, void *to, size_t count, off_t offset) {
  const memory_file *file = file_of_fd(fd);
  if (file == NULL) return __real_pread(fd, to, count, offset);
  if (offset < 0) {
    errno = EINVAL;
    return -1;
  }
  size_t left = (size_t)offset < file->size ? file->size - (size_t)offset : 0;
  if (count > left) count = left;
  memcpy(to, file->bytes + offset, count);
  return (ssize_t)count;
}

ssize_t __wrap_preadv(int fd, const struct iovec *vectors, int count, off_t offset) {
  if (file_of_fd(fd) == NULL) return __real_preadv(fd, vectors, count, offset);
  ssize_t total = 0;
  for (int i = 0; i < count; i++) {
    ssize_t got = __wrap_pread(fd, vectors[i].iov_base, vectors[i].iov_len, offset + total);
    if (got < 0) return got;
    total += got;
    if ((size_t)got < vectors[i].iov_len) break;
  }
  return total;
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  const memory_file *file = file_of_fd(fd);
  if (file == NULL) return __real_mmap(at, bytes, protection, flags, fd, offset);
  if (bytes == 0 || bytes > file->size || offset != 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  for (int i = 0; i < MAPS; i++) {
    if (maps[i] != NULL) continue;
    if (posix_memalign(&maps[i], 64, bytes) != 0) abort();
    memcpy(maps[i], file->bytes, bytes);
    return maps[i];
  }
  abort();
}

int __wrap_munmap(void *at, size_t bytes) {
  for (int i = 0; i < MAPS; i++) {
    if (at == NULL || maps[i] != at) continue;
    free(at);
    maps[i] = NULL;
    return 0;
  }
  return __real_munmap(at, bytes);
}
