/* cache_shelf.c - bytes that a cache keeps, mapped piece by piece as they are wanted, or read where a map would be wrong. */
#define _GNU_SOURCE
#include "cache_shelf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"

#define WINDOW (UINT64_C(1) << 30)  /* bytes of the file that are mapped together */
#define WINDOWS 16384               /* what lies behind them is read */
#define SOON (UINT64_C(16) << 10)   /* bytes that a fault alone would not bring */

static const uint8_t unmapped; /* the address of it stands for a window that is not mapped */

void ur_shelf_open(ur_shelf *shelf, int fd, uint64_t seed) {
  shelf->fd = ur_descriptor_keep(fd);
  shelf->seed = seed;
  atomic_init(&shelf->known, 0);
  shelf->windows = calloc(WINDOWS, sizeof *shelf->windows); /* NULL: all is read */
}

void ur_shelf_close(ur_shelf *shelf) {
  for (int i = 0; shelf->windows != NULL && i < WINDOWS; i++) {
    const uint8_t *window = atomic_load_explicit(&shelf->windows[i], memory_order_relaxed);
    if (window != &unmapped) ur_file_unmap(window, WINDOW + UR_CACHE_STRETCH);
  }
  free((void *)shelf->windows);
  ur_file_close(shelf->fd);
}

/* Whether the file has the bytes before `end`; it may have grown. */
static bool reaches(ur_shelf *shelf, uint64_t end) {
  struct stat facts;
  if (end <= atomic_load_explicit(&shelf->known, memory_order_relaxed)) return true;
  if (fstat(shelf->fd, &facts) != 0 || (uint64_t)facts.st_size < end) return false;
  atomic_store_explicit(&shelf->known, (uint64_t)facts.st_size, memory_order_relaxed);
  return true;
}

/* A window and the beginning of the next one, so that no range reaches out of it; the file need not be so long. */
static const uint8_t *map_window(ur_shelf *shelf, uint64_t number) {
  const uint8_t *made = &unmapped, *before = NULL;
  uint64_t known = atomic_load_explicit(&shelf->known, memory_order_relaxed);
  if (ur_io_choose(shelf->fd, known) == UR_IO_MAP) {
    /* exact: number < WINDOWS */
    void *mapped = mmap(NULL, WINDOW + UR_CACHE_STRETCH, PROT_READ, MAP_SHARED, shelf->fd, (off_t)(number * WINDOW));
    if (mapped != MAP_FAILED) made = mapped;
  }
  if (atomic_compare_exchange_strong(&shelf->windows[number], &before, made)) return made;
  if (made != &unmapped) ur_file_unmap(made, WINDOW + UR_CACHE_STRETCH);
  return before;
}

const uint8_t *ur_shelf_view(ur_shelf *shelf, uint64_t place, uint64_t bytes, bool soon) {
  uint64_t number = place / WINDOW;
  if (shelf->windows == NULL || number >= WINDOWS || !reaches(shelf, place + bytes)) return NULL; /* exact: below 2^44 */
  const uint8_t *window = atomic_load_explicit(&shelf->windows[number], memory_order_acquire);
  if (window == NULL) window = map_window(shelf, number);
  if (window == &unmapped) return NULL;
  uint64_t at = place % WINDOW, page = (uint64_t)sysconf(_SC_PAGESIZE);
  if (soon && bytes >= SOON)
    /* exact: inside the window and what is mapped behind it */
    (void)madvise((void *)(uintptr_t)(window + at / page * page), at % page + bytes, MADV_WILLNEED);
  return window + at;
}

bool ur_shelf_read(ur_shelf *shelf, uint64_t place, uint64_t bytes, uint8_t *to, bool soon) {
  const uint8_t *from = ur_shelf_view(shelf, place, bytes, soon);
  if (from == NULL) return ur_file_read(shelf->fd, UR_FILE_NONE, place, bytes, to, NULL) == UR_OK;
  memcpy(to, from, bytes);
  return true;
}
