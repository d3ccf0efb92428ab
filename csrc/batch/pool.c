/* batch/pool.c - memory of batches: pieces mapped from the system, kept when they come back, unmapped beyond a bound.
 *
 * Fresh memory costs a page fault per 4 KiB on first touch, about as much as the copy that fills it; a piece that comes
 * back has its pages already. Pieces of 2 MiB and more ask for huge pages. A child after fork() shares neither the lock
 * nor the list with its parent's threads: it unmaps what it is given and touches nothing else.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "batch/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fail.h"
#include "base/fork.h"
#include "unirecord_internal.h"

enum { HUGE_PAGE = 2 << 20, SMALL_PAGE = 4096, ALIGNMENT = 64 };

struct ur_pool {
  atomic_llong references;
  atomic_llong allocations;
  pthread_mutex_t lock;
  uint64_t owner; /* ur_forks() of the process that made it */
  int32_t spare_limit;
  int32_t spare_count;
  ur_piece *spare;
};

ur_status ur_pool_new(int32_t spare, ur_pool **out, ur_error *error) {
  if (spare < 0) return ur_fail(error, UR_ARGUMENT, "spare must be 0 or more, got %d", (int)spare);
  ur_pool *pool = calloc(1, sizeof *pool);
  if (pool == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a pool");
  if (pthread_mutex_init(&pool->lock, NULL) != 0) {
    free(pool);
    return ur_fail(error, UR_NO_MEMORY, "no memory for a lock");
  }
  atomic_init(&pool->references, 1);
  atomic_init(&pool->allocations, 0);
  pool->owner = ur_forks();
  pool->spare_limit = spare;
  *out = pool;
  return UR_OK;
}

ur_pool *ur_pool_retain(ur_pool *pool) {
  atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
  return pool;
}

void ur_pool_keep(ur_pool *pool, int32_t spare) {
  if (pool->owner != ur_forks()) return;
  pthread_mutex_lock(&pool->lock);
  if (spare > pool->spare_limit) pool->spare_limit = spare;
  pthread_mutex_unlock(&pool->lock);
}

int64_t ur_pool_allocations(const ur_pool *pool) {
  return atomic_load_explicit(&pool->allocations, memory_order_relaxed);
}

void ur_pool_release(ur_pool *pool) {
  if (pool == NULL || atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) != 1) return;
  while (pool->spare != NULL) {
    ur_piece *piece = pool->spare;
    pool->spare = piece->next;
    if (!piece->lent) munmap(piece, piece->bytes);
  }
  if (pool->owner == ur_forks()) pthread_mutex_destroy(&pool->lock);
  free(pool);
}

ur_status ur_pool_lend(ur_pool *pool, void *memory, uint64_t bytes, ur_error *error) {
  if ((uintptr_t)memory % ALIGNMENT != 0 || bytes % ALIGNMENT != 0 || bytes < SMALL_PAGE) {
    return ur_fail(error, UR_ARGUMENT, "lent memory must be a multiple of 64 bytes at such an address, and 4096 at least");
  }
  if (pool->owner != ur_forks()) return ur_fail(error, UR_ARGUMENT, "a pool made before fork() takes no memory in the child");
  ur_piece *piece = memory;
  *piece = (ur_piece){.bytes = bytes, .lent = 1, .pool = pool};
  pthread_mutex_lock(&pool->lock);
  piece->next = pool->spare;
  pool->spare = piece;
  pthread_mutex_unlock(&pool->lock);
  return UR_OK;
}

/* Unlinks the smallest spare piece that is large enough, so that one giant batch does not pin the large pieces. */
static ur_piece *take_spare(ur_pool *pool, size_t bytes) {
  ur_piece **best = NULL;
  for (ur_piece **at = &pool->spare; *at != NULL; at = &(*at)->next) {
    if ((*at)->bytes >= bytes && (best == NULL || (*at)->bytes < (*best)->bytes)) best = at;
  }
  if (best == NULL) return NULL;
  ur_piece *piece = *best;
  *best = piece->next;
  if (!piece->lent) pool->spare_count--;
  return piece;
}

static ur_piece *map_piece(size_t bytes) {
  /* An eighth more than asked for: batches of variable rows differ in size, and most then fit a used piece. */
  size_t wanted = bytes + bytes / 8; /* exact: it is compared with `bytes` below */
  size_t page = wanted >= HUGE_PAGE ? HUGE_PAGE : SMALL_PAGE;
  if (wanted < bytes || wanted > SIZE_MAX / 2) return NULL;
  size_t size = (wanted + page - 1) / page * page;
  size_t slack = page == HUGE_PAGE ? HUGE_PAGE : 0;
  /* exact: at most half of what there is, and 2 MiB */
  uint8_t *raw = mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return NULL;
  size_t skip = slack == 0 ? 0 : (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
  if (skip != 0) munmap(raw, skip);
  if (slack - skip != 0) munmap(raw + skip + size, slack - skip); /* exact: inside what was mapped */
#ifdef MADV_HUGEPAGE
  if (page == HUGE_PAGE) madvise(raw + skip, size, MADV_HUGEPAGE);
#endif
  ur_piece *piece = (ur_piece *)(void *)(raw + skip);
  piece->bytes = size;
  piece->lent = 0;
  return piece;
}

ur_piece *ur_pool_take(ur_pool *pool, size_t bytes) {
  ur_piece *piece = NULL;
  if (pool->owner == ur_forks()) {
    pthread_mutex_lock(&pool->lock);
    piece = take_spare(pool, bytes);
    pthread_mutex_unlock(&pool->lock);
  }
  if (piece == NULL) {
    piece = map_piece(bytes);
    if (piece == NULL) return NULL;
    atomic_fetch_add_explicit(&pool->allocations, 1, memory_order_relaxed);
  }
  piece->next = NULL;
  piece->pool = ur_pool_retain(pool);
  return piece;
}

/* The smallest of the pool's own spare pieces: it serves the fewest batches. There is one. */
static ur_piece **smallest_mapped(ur_pool *pool) {
  ur_piece **least = NULL;
  for (ur_piece **at = &pool->spare; *at != NULL; at = &(*at)->next) {
    if (!(*at)->lent && (least == NULL || (*at)->bytes < (*least)->bytes)) least = at;
  }
  return least;
}

void ur_pool_give(ur_piece *piece) {
  ur_pool *pool = piece->pool;
  if (pool->owner != ur_forks()) {
    if (!piece->lent) munmap(piece, piece->bytes);
    return;
  }
  ur_piece *surplus = NULL;
  pthread_mutex_lock(&pool->lock);
  piece->next = pool->spare;
  pool->spare = piece;
  if (!piece->lent && ++pool->spare_count > pool->spare_limit) {
    ur_piece **least = smallest_mapped(pool);
    surplus = *least;
    *least = surplus->next;
    pool->spare_count--;
  }
  pthread_mutex_unlock(&pool->lock);
  if (surplus != NULL) munmap(surplus, surplus->bytes);
  ur_pool_release(pool);
}
