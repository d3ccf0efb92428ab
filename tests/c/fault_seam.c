/* fault_seam.c - what --wrap puts in the place of the core's calls: they fail when it is their turn, and are counted. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "fault_seam.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "codec/zstd.h"
#include "expect.h"
#include "io/ring.h"

static fault_plan plan;
static const fault_machine *machine;
static atomic_int armed;
static atomic_llong calls, failures, allocations, mapped, descriptors;
static _Thread_local int64_t reads_here;

void fault_arm(const fault_plan *wanted) {
  plan = *wanted;
  atomic_store(&calls, 0);
  atomic_store(&failures, 0);
  atomic_store(&armed, 1);
}

int64_t fault_disarm(void) {
  atomic_store(&armed, 0);
  return atomic_load(&failures);
}

void fault_pretend(const fault_machine *wanted) { machine = wanted; }

/* The path on the machine that is pretended. */
static const char *path_there(const char *path, char there[512]) {
  if (machine == NULL || (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0)) return path;
  (void)snprintf(there, 512, "%s%s", machine->root, path);
  return there;
}

int64_t fault_count(void) { return atomic_load(&calls); }

int64_t fault_reads_here(void) { return reads_here; }

fault_holdings fault_held(void) {
  return (fault_holdings){atomic_load(&allocations), atomic_load(&mapped), atomic_load(&descriptors)};
}

int64_t fault_alone(void *(*run)(void *), void *argument) {
  fault_holdings before = fault_held();
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, run, argument) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  int64_t failed = fault_disarm();
  fault_holdings after = fault_held();
  EXPECT_EQUAL(after.allocations, before.allocations);
  EXPECT_EQUAL(after.mapped_bytes, before.mapped_bytes);
  EXPECT_EQUAL(after.descriptors, before.descriptors);
  return failed;
}

/* Whether this call is one that fails. */
static int due(int kind) {
  if (!atomic_load(&armed) || (plan.calls & kind) == 0) return 0;
  int64_t number = atomic_fetch_add(&calls, 1);
  if (number != plan.at && !(plan.for_ever && number > plan.at)) return 0;
  atomic_fetch_add(&failures, 1);
  errno = plan.error;
  return 1;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t bytes) {
  void *memory = due(FAULT_MEMORY) ? NULL : __real_malloc(bytes);
  if (memory != NULL) atomic_fetch_add(&allocations, 1);
  return memory;
}

void *__wrap_calloc(size_t count, size_t bytes) {
  void *memory = due(FAULT_MEMORY) ? NULL : __real_calloc(count, bytes);
  if (memory != NULL) atomic_fetch_add(&allocations, 1);
  return memory;
}

void __wrap_free(void *memory) {
  if (memory != NULL) atomic_fetch_sub(&allocations, 1);
  __real_free(memory);
}

/* Lengths are counted in whole pages, as the kernel gives and takes them. */
static long long pages(size_t bytes) { return (long long)((bytes + 4095) / 4096 * 4096); }

void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t bytes);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  void *memory = due(FAULT_MAP) ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
  if (memory != MAP_FAILED) atomic_fetch_add(&mapped, pages(bytes));
  return memory;
}

int __wrap_munmap(void *at, size_t bytes) {
  atomic_fetch_sub(&mapped, pages(bytes));
  return __real_munmap(at, bytes);
}

int __real_madvise(void *at, size_t bytes, int advice);
int __real_mincore(void *at, size_t bytes, unsigned char *resident);
int __real_mprotect(void *at, size_t bytes, int protection);
int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_mincore(void *at, size_t bytes, unsigned char *resident);
int __wrap_mprotect(void *at, size_t bytes, int protection);

int __wrap_madvise(void *at, size_t bytes, int advice) {
  return due(FAULT_HINT) ? -1 : __real_madvise(at, bytes, advice);
}

ssize_t __real_preadv2(int fd, const struct iovec *vectors, int count, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *vectors, int count, off_t offset, int flags);

ssize_t __wrap_preadv2(int fd, const struct iovec *vectors, int count, off_t offset, int flags) {
  return due(FAULT_HINT) ? -1 : __real_preadv2(fd, vectors, count, offset, flags);
}

int __wrap_mincore(void *at, size_t bytes, unsigned char *resident) {
  return due(FAULT_HINT) ? -1 : __real_mincore(at, bytes, resident);
}

int __wrap_mprotect(void *at, size_t bytes, int protection) {
  return due(FAULT_HINT) ? -1 : __real_mprotect(at, bytes, protection);
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

int __real_open(const char *path, int flags, mode_t mode);
int __real_close(int fd);
FILE *__real_fopen(const char *path, const char *mode);
int __real_fstat(int fd, struct stat *facts);
int __real_fstatfs(int fd, struct statfs *facts);
int __real_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_open(const char *path, int flags, ...);
int __wrap_close(int fd);
FILE *__wrap_fopen(const char *path, const char *mode);
int __wrap_fstat(int fd, struct stat *facts);
int __wrap_fstatfs(int fd, struct statfs *facts);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);

int __wrap_open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  char there[512];
  int fd = due(FAULT_OPEN) ? -1 : __real_open(path_there(path, there), flags, mode);
  if (fd >= 0) atomic_fetch_add(&descriptors, 1);
  return fd;
}

int __wrap_close(int fd) {
  atomic_fetch_sub(&descriptors, 1);
  return __real_close(fd);
}

FILE *__wrap_fopen(const char *path, const char *mode) {
  char there[512];
  return due(FAULT_OPEN) ? NULL : __real_fopen(path_there(path, there), mode);
}

int __wrap_fstat(int fd, struct stat *facts) { return due(FAULT_STAT) ? -1 : __real_fstat(fd, facts); }

int __wrap_fstatfs(int fd, struct statfs *facts) {
  int result = due(FAULT_STAT) ? -1 : __real_fstatfs(fd, facts);
  if (machine != NULL) facts->f_type = machine->file_system;
  return result;
}

int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit) {
  return due(FAULT_STAT) ? -1 : __real_getrlimit(resource, limit);
}

/* What a read that is due answers instead of `got`. */
static ssize_t faulty(ssize_t got) {
  if (plan.manner == FAULT_ERROR) errno = plan.error;
  if (plan.manner == FAULT_ERROR) return -1;
  return plan.manner == FAULT_SHORT && got > 1 ? got / 2 : plan.manner == FAULT_SHORT ? got : 0;
}

ssize_t __real_read(int fd, void *to, size_t bytes);
ssize_t __real_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __real_preadv(int fd, const struct iovec *vectors, int count, off_t offset);
int32_t __real_ur_ring_take(ur_ring *ring, uint64_t *tag);
ssize_t __wrap_read(int fd, void *to, size_t bytes);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset);
ssize_t __wrap_preadv(int fd, const struct iovec *vectors, int count, off_t offset);
int32_t __wrap_ur_ring_take(ur_ring *ring, uint64_t *tag);

ssize_t __wrap_read(int fd, void *to, size_t bytes) {
  ssize_t got = __real_read(fd, to, bytes);
  return due(FAULT_READ) ? faulty(got) : got;
}

ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t offset) {
  ssize_t got = __real_pread(fd, to, bytes, offset);
  reads_here++;
  return due(FAULT_READ) ? faulty(got) : got;
}

ssize_t __wrap_preadv(int fd, const struct iovec *vectors, int count, off_t offset) {
  ssize_t got = __real_preadv(fd, vectors, count, offset);
  reads_here++;
  return due(FAULT_READ) ? faulty(got) : got;
}

ssize_t __real_writev(int fd, const struct iovec *vectors, int count);
ssize_t __wrap_writev(int fd, const struct iovec *vectors, int count);

/* A short one takes half of the first piece. */
ssize_t __wrap_writev(int fd, const struct iovec *vectors, int count) {
  if (!due(FAULT_WRITE)) return __real_writev(fd, vectors, count);
  if (plan.manner == FAULT_ERROR) return -1;
  struct iovec half = {vectors->iov_base, vectors->iov_len / 2};
  return __real_writev(fd, &half, 1);
}

int32_t __wrap_ur_ring_take(ur_ring *ring, uint64_t *tag) {
  int32_t got = __real_ur_ring_take(ring, tag);
  if (got < 0 || !due(plan.calls & FAULT_COMPLETION ? FAULT_COMPLETION : FAULT_READ)) return got;
  ssize_t instead = faulty(got);
  return instead < 0 ? -plan.error : (int32_t)instead;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...) {
  va_list arguments;
  va_start(arguments, number);
  long a[6];
  int count = number == SYS_io_uring_setup ? 2 : 6;
  for (int i = 0; i < 6; i++) a[i] = i < count ? va_arg(arguments, long) : 0;
  va_end(arguments);
  if (due(FAULT_RING)) return -1;
  long result = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (number == SYS_io_uring_setup && result >= 0) atomic_fetch_add(&descriptors, 1);
  return result;
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __real_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

static void (*before_threads)(void);

void fault_before_threads(void (*call)(void)) { before_threads = call; }

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  if (before_threads != NULL) before_threads();
  return due(FAULT_THREAD) ? plan.error : __real_pthread_create(thread, attributes, run, argument);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *lock, const pthread_mutexattr_t *attributes) {
  return due(FAULT_THREAD) ? plan.error : __real_pthread_mutex_init(lock, attributes);
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value) {
  return due(FAULT_THREAD) ? plan.error : __real_pthread_setspecific(key, value);
}

/* ---- libzstd ---------------------------------------------------------------------------------------------------- */

static const ur_zstd *zstd;

static size_t no_memory(void) { return (size_t)-64; }

static void *new_decompression(void) { return due(FAULT_ZSTD) ? NULL : zstd->new_decompression(); }
static void *new_compression(void) { return due(FAULT_ZSTD) ? NULL : zstd->new_compression(); }

static void *new_decompression_dictionary(const void *dictionary, size_t bytes) {
  return due(FAULT_ZSTD) ? NULL : zstd->new_decompression_dictionary(dictionary, bytes);
}

static void *new_compression_dictionary(const void *dictionary, size_t bytes, int level) {
  return due(FAULT_ZSTD) ? NULL : zstd->new_compression_dictionary(dictionary, bytes, level);
}

static size_t decompress(void *context, void *to, size_t room, const void *from, size_t bytes) {
  return due(FAULT_ZSTD) ? no_memory() : zstd->decompress(context, to, room, from, bytes);
}

static size_t decompress_with(void *context, void *to, size_t room, const void *from, size_t bytes, const void *with) {
  return due(FAULT_ZSTD) ? no_memory() : zstd->decompress_with(context, to, room, from, bytes, with);
}

static size_t use_dictionary(void *context, const void *dictionary) {
  return due(FAULT_ZSTD) ? no_memory() : zstd->use_dictionary(context, dictionary);
}

static size_t compress(void *context, void *to, size_t room, const void *from, size_t bytes) {
  return due(FAULT_ZSTD) ? no_memory() : zstd->compress(context, to, room, from, bytes);
}

static size_t train(void *dictionary, size_t room, const void *samples, const size_t *sizes, unsigned count) {
  return due(FAULT_ZSTD) ? no_memory() : zstd->train(dictionary, room, samples, sizes, count);
}

const ur_zstd *__real_ur_zstd_library(ur_error *error);
const ur_zstd *__wrap_ur_zstd_library(ur_error *error);

const ur_zstd *__wrap_ur_zstd_library(ur_error *error) {
  static ur_zstd faulty;
  zstd = __real_ur_zstd_library(error);
  if (zstd == NULL) return NULL;
  faulty = *zstd;
  faulty.new_decompression = new_decompression;
  faulty.new_compression = new_compression;
  faulty.new_decompression_dictionary = new_decompression_dictionary;
  faulty.new_compression_dictionary = new_compression_dictionary;
  faulty.decompress = decompress;
  faulty.decompress_with = decompress_with;
  faulty.use_dictionary = use_dictionary;
  faulty.compress = compress;
  faulty.train = train;
  return &faulty;
}
