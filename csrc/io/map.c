/* io/map.c - the data file in memory: mapped (UR_IO_MAP), or loaded once and shared by forks (UR_IO_MEMORY). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fail.h"
#include "io/io.h"

#define SAMPLES 32
#define CALM_CALLS 16       /* calls that ask for nothing after one that found everything cached */
#define CALM_CALLS_LARGE 2  /* … of batches so large that looking again costs nothing beside reading them */
#define LARGE_BATCH (UINT64_C(1) << 20)
#define JOIN_BYTES (UINT64_C(64) << 10)

/* The start of the page that holds byte `offset`; mappings start with a page. */
static uint64_t page_of(uint64_t offset) { return offset & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1); }

#ifdef __linux__

/* Since Linux 5.2 mincore calls every byte resident to whoever neither owns the file nor may write it. */
bool ur_mincore_lies(int fd) {
  struct stat facts;
  char path[32];
  if (fstat(fd, &facts) == 0 && facts.st_uid == geteuid()) return false;
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0;
}

/* Whether a byte can be read without waiting, which the kernel says to everybody. */
static bool is_read_at_once(int fd, uint64_t offset) {
  uint8_t byte;
  struct iovec one = {&byte, 1};
  return preadv2(fd, &one, 1, (off_t)offset, RWF_NOWAIT) == 1;
}

#else

bool ur_mincore_lies(int fd) { return (void)fd, false; }

static bool is_read_at_once(int fd, uint64_t offset) { return (void)fd, (void)offset, false; }

#endif

bool ur_page_is_cached(int fd, bool mincore_lies, const uint8_t *mapped, uint64_t offset) {
  unsigned char page = 0;
  if (mincore_lies) return is_read_at_once(fd, offset);
  uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
  /* macOS has another type for the last argument */
  return mincore((void *)((uintptr_t)mapped / size * size), 1, (void *)&page) == 0 && (page & 1) == 1; /* exact: its own page */
}

static bool map_resident(const ur_data_file *file, uint64_t offset, uint64_t bytes) {
  if (file->mincore_lies) return false;
  unsigned char pages[UR_RESIDENT_MOST / 4096 + 2] = {0};
  uint64_t first = page_of(offset), size = (uint64_t)sysconf(_SC_PAGESIZE);
  /* exact: spans are inside the file, and files end below 2^63 */
  uint64_t count = (offset + bytes - first + size - 1) / size;
  if (count > sizeof pages) return false;
  void *start = (void *)(uintptr_t)(file->view + first);
  /* exact: inside the file; macOS has another type for the last argument */
  if (mincore(start, offset + bytes - first, (void *)pages) != 0) return false;
  unsigned char all = 1; /* the lowest bit of each says it */
  for (uint64_t i = 0; i < count; i++) all &= pages[i];
  return all == 1;
}

/* Whether the first page of each of some spans is in the page cache. Readahead around faults brings many rows in by
 * chance, so a few samples would take a cold file for a cached one. */
static bool seem_cached(const ur_data_file *file, const ur_span *spans, int64_t count) {
  int64_t step = count / SAMPLES + 1;
  for (int64_t i = 0; i < count; i += step) {
    /* exact: spans are inside the file */
    if (!ur_page_is_cached(file->fd, file->mincore_lies, file->view + spans[i].offset, spans[i].offset)) return false;
  }
  return true;
}

/* One MADV_WILLNEED for each run of spans that lie close together. */
static void map_advise(ur_data_file *file, ur_span *spans, int64_t count) {
  if (count == 0) return;
  if (seem_cached(file, spans, count)) {
    uint64_t large = spans[0].bytes >= LARGE_BATCH / (uint64_t)count;
    atomic_store_explicit(&file->calm, large ? CALM_CALLS_LARGE : CALM_CALLS, memory_order_relaxed);
    return;
  }
  ur_spans_sort(spans, count);
  for (int64_t i = 0; i < count;) {
    uint64_t first = page_of(spans[i].offset);
    uint64_t end = ur_span_end(&spans[i]);
    for (i++; i < count && spans[i].offset <= end + JOIN_BYTES; i++)
      if (end < ur_span_end(&spans[i])) end = ur_span_end(&spans[i]);
    (void)madvise((void *)(uintptr_t)(file->view + first), end - first, MADV_WILLNEED);
  }
}

static void map_close(ur_data_file *file) { ur_file_unmap(file->view, file->bytes); }

static const ur_data_file_ops map_ops = {.read = NULL, .advise = map_advise, .resident = map_resident, .close = map_close};

ur_status ur_map_open(ur_data_file *file, ur_error *error) {
  file->ops = &map_ops;
  file->mincore_lies = ur_mincore_lies(file->fd);
  return ur_file_map(file->fd, UR_FILE_DATA, file->bytes, false, &file->view, error);
}

static const ur_data_file_ops memory_ops = {.read = NULL, .advise = NULL, .close = map_close};

ur_status ur_memory_open(ur_data_file *file, ur_error *error) {
  file->ops = &memory_ops;
  void *memory = mmap(NULL, file->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return ur_fail_os(error, UR_FILE_DATA, errno, "there is no memory to load the whole file (mmap)");
#ifdef MADV_HUGEPAGE
  (void)madvise(memory, file->bytes, MADV_HUGEPAGE);
#endif
  ur_status status = ur_file_read(file->fd, UR_FILE_DATA, 0, file->bytes, memory, error);
  if (status == UR_OK) status = ur_file_check(file->fd, UR_FILE_DATA, file->bytes, &file->modified, error);
  if (status != UR_OK) {
    (void)munmap(memory, file->bytes);
    return status;
  }
  (void)mprotect(memory, file->bytes, PROT_READ);
  ur_file_close(file->fd);
  file->fd = -1;
  file->view = memory;
  return UR_OK;
}
