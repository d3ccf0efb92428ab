/* io/cache_segment.c - bytes that a cache keeps, mapped piece by piece as they are wanted, or read where a map would be wrong. */
#define _GNU_SOURCE
#include "io/cache_segment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/io.h"
#include "unirecord_internal.h"

#define WINDOW (UINT64_C(1) << 30)  /* bytes of the file that are mapped together */
#define WINDOWS 16384               /* what lies behind them is read */
#define SOON (UINT64_C(16) << 10)   /* bytes that a fault alone would not bring */
#define MOST_CALM 6                 /* 2^6 ranges at most are taken to be in memory, because those before them were */

static const uint8_t unmapped; /* the address of it stands for a window that is not mapped */

void ur_segment_open(ur_segment *segment, int fd, uint64_t seed) {
  segment->fd = ur_descriptor_keep(fd);
  segment->seed = seed;
  segment->mincore_lies = fd >= 0 && ur_mincore_lies(fd);
  atomic_init(&segment->known, 0);
  segment->windows = calloc(WINDOWS, sizeof *segment->windows); /* NULL: all is read */
}

void ur_segment_close(ur_segment *segment) {
  for (int i = 0; segment->windows != NULL && i < WINDOWS; i++) {
    const uint8_t *window = atomic_load_explicit(&segment->windows[i], memory_order_relaxed);
    if (window != &unmapped) ur_file_unmap(window, WINDOW + UR_CACHE_STRETCH);
  }
  free((void *)segment->windows);
  ur_file_close(segment->fd);
}

/* Whether the file has the bytes before `end`; it may have grown. */
static bool reaches(ur_segment *segment, uint64_t end) {
  struct stat facts;
  if (end <= atomic_load_explicit(&segment->known, memory_order_relaxed)) return true;
  if (fstat(segment->fd, &facts) != 0 || (uint64_t)facts.st_size < end) return false;
  atomic_store_explicit(&segment->known, (uint64_t)facts.st_size, memory_order_relaxed);
  return true;
}

/* A window and the beginning of the next one, so that no range reaches out of it; the file need not be so long. */
static const uint8_t *map_window(ur_segment *segment, uint64_t number) {
  const uint8_t *made = &unmapped, *before = NULL;
  uint64_t known = atomic_load_explicit(&segment->known, memory_order_relaxed);
  if (ur_io_choose(segment->fd, known) == UR_IO_MAP) {
    /* exact: number < WINDOWS */
    void *mapped = mmap(NULL, WINDOW + UR_CACHE_STRETCH, PROT_READ, MAP_SHARED, segment->fd, (off_t)(number * WINDOW));
    if (mapped != MAP_FAILED) made = mapped;
  }
  if (atomic_compare_exchange_strong(&segment->windows[number], &before, made)) return made;
  if (made != &unmapped) ur_file_unmap(made, WINDOW + UR_CACHE_STRETCH);
  return before;
}

/* Has the disk bring bytes that are wanted, unless they seem to be in memory: to ask for them costs as much then as to copy
 * some pages of them. After each range that was there, twice as many are believed to be there as before. */
static void call_for(ur_segment *segment, uint64_t place, const uint8_t *bytes, uint64_t count) {
  uint32_t calm = atomic_load_explicit(&segment->calm, memory_order_relaxed);
  if (calm > 0) {
    atomic_store_explicit(&segment->calm, calm - 1, memory_order_relaxed);
    return;
  }
  if (ur_page_is_cached(segment->fd, segment->mincore_lies, bytes, place)) {
    uint32_t cached = atomic_load_explicit(&segment->cached, memory_order_relaxed);
    atomic_store_explicit(&segment->calm, UINT32_C(1) << cached, memory_order_relaxed);
    if (cached < MOST_CALM) atomic_store_explicit(&segment->cached, cached + 1, memory_order_relaxed);
    return;
  }
  atomic_store_explicit(&segment->cached, 0, memory_order_relaxed);
  uint64_t into = (uint64_t)(uintptr_t)bytes % (uint64_t)sysconf(_SC_PAGESIZE);
  (void)madvise((void *)(uintptr_t)(bytes - into), into + count, MADV_WILLNEED);
}

const uint8_t *ur_segment_view(ur_segment *segment, uint64_t place, uint64_t bytes, bool soon) {
  uint64_t number = place / WINDOW;
  if (segment->windows == NULL || number >= WINDOWS || !reaches(segment, place + bytes)) return NULL; /* exact: below 2^44 */
  const uint8_t *window = atomic_load_explicit(&segment->windows[number], memory_order_acquire);
  if (window == NULL) window = map_window(segment, number);
  if (window == &unmapped) return NULL;
  const uint8_t *found = window + place % WINDOW; /* exact: inside the window and what is mapped behind it */
  if (soon && bytes >= SOON) call_for(segment, place, found, bytes);
  return found;
}

bool ur_segment_read(ur_segment *segment, uint64_t place, uint64_t bytes, uint8_t *to, bool soon) {
  const uint8_t *from = ur_segment_view(segment, place, bytes, soon);
  if (from == NULL) return ur_file_read(segment->fd, UR_FILE_NONE, place, bytes, to, NULL) == UR_OK;
  memcpy(to, from, bytes);
  return true;
}
