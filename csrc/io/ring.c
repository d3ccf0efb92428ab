/* io/ring.c - one io_uring per thread, by raw system calls: reads are put in, completions are taken out. */
#define _GNU_SOURCE
#include "io/ring.h"

#ifdef __linux__

#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fork.h"
#include "io/io.h"

enum { REFUSALS = 64, RINGS = 1024 };

struct ur_ring {
  int fd;
  uint64_t forks;           /* ur_forks() when it was made: a forked child sees the same rings, and must not use them */
  void *rings;              /* submission and completion ring, one mapping */
  size_t rings_bytes;
  struct io_uring_sqe *entries;
  size_t entries_bytes;
  _Atomic(uint32_t) *submit_tail, *complete_head, *complete_tail;
  uint32_t *submit_array;
  struct io_uring_cqe *completions;
  uint32_t submit_mask, complete_mask;
  uint32_t unsubmitted;
  uint8_t *memory;
};

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void unmap(void *memory, size_t bytes) {
  if (memory != NULL && memory != MAP_FAILED) (void)munmap(memory, bytes);
}

/* The rings of all threads, as far as there is room: a forked child gives back those of threads that it does not have. */
static _Atomic(ur_ring *) all_rings[RINGS];

static void list_ring(ur_ring *ring) {
  for (int i = 0; i < RINGS; i++) {
    ur_ring *none = NULL;
    if (atomic_compare_exchange_strong(&all_rings[i], &none, ring)) return;
  }
}

static void unlist_ring(const ur_ring *ring) {
  for (int i = 0; i < RINGS; i++) {
    ur_ring *listed = (ur_ring *)(uintptr_t)ring;
    if (atomic_compare_exchange_strong(&all_rings[i], &listed, NULL)) return;
  }
}

static void give_back(ur_ring *ring) {
  unmap(ring->rings, ring->rings_bytes);
  unmap(ring->entries, ring->entries_bytes);
  unmap(ring->memory, UR_RING_BYTES);
  ur_file_close(ring->fd);
  ring->rings = ring->memory = NULL;
  ring->entries = NULL;
  ring->fd = -1;
}

static void ring_free(void *given) {
  ur_ring *ring = given;
  if (ring == NULL) return;
  unlist_ring(ring);
  give_back(ring);
  free(ring);
}

/* In a child, which has but one thread: all rings are its parent's. The small structures of other threads stay. */
static void give_back_all(void) {
  for (int i = 0; i < RINGS; i++) {
    ur_ring *ring = atomic_exchange(&all_rings[i], NULL);
    if (ring != NULL) give_back(ring);
  }
}

static void make_key(void) {
  key_made = pthread_key_create(&key, ring_free) == 0;
  (void)pthread_atfork(NULL, NULL, give_back_all);
}

/* Atomic views of the words that the kernel shares with us. */
static _Atomic(uint32_t) *shared_word(void *rings, uint32_t offset) {
  return (_Atomic(uint32_t) *)(void *)((uint8_t *)rings + offset); /* exact: the kernel's own offset */
}

static bool map_rings(ur_ring *ring, const struct io_uring_params *params) {
  size_t submit = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
  size_t complete = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
  int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
  ring->rings_bytes = submit > complete ? submit : complete;
  ring->rings = mmap(NULL, ring->rings_bytes, protection, flags, ring->fd, IORING_OFF_SQ_RING);
  ring->entries_bytes = params->sq_entries * sizeof *ring->entries;
  ring->entries = mmap(NULL, ring->entries_bytes, protection, flags, ring->fd, IORING_OFF_SQES);
  if (ring->rings == MAP_FAILED || ring->entries == MAP_FAILED) return false;
  ring->submit_tail = shared_word(ring->rings, params->sq_off.tail);
  ring->complete_head = shared_word(ring->rings, params->cq_off.head);
  ring->complete_tail = shared_word(ring->rings, params->cq_off.tail);
  ring->submit_array = (uint32_t *)(void *)((uint8_t *)ring->rings + params->sq_off.array);
  ring->completions = (struct io_uring_cqe *)(void *)((uint8_t *)ring->rings + params->cq_off.cqes);
  ring->submit_mask = params->sq_entries - 1;
  ring->complete_mask = params->cq_entries - 1;
  return true;
}

static ur_ring *ring_new(void) {
  ur_ring *ring = calloc(1, sizeof *ring);
  if (ring == NULL) return NULL;
  struct io_uring_params params;
  memset(&params, 0, sizeof params);
  ring->forks = ur_forks();
  ring->fd = ur_descriptor_keep((int)syscall(SYS_io_uring_setup, UR_RING_DEPTH, &params));
  bool good = ring->fd >= 0 && (params.features & IORING_FEAT_SINGLE_MMAP) != 0 &&
              (params.features & IORING_FEAT_RW_CUR_POS) != 0; /* came with IORING_OP_READ, in Linux 5.6 */
  if (good && map_rings(ring, &params)) {
    list_ring(ring);
    return ring;
  }
  ring_free(ring);
  return NULL;
}

ur_ring *ur_ring_here(void) {
  (void)pthread_once(&key_once, make_key);
  if (!key_made) return NULL;
  ur_ring *ring = pthread_getspecific(key);
  if (ring != NULL && ring->forks != ur_forks()) {
    ring_free(ring);
    ring = NULL;
    (void)pthread_setspecific(key, NULL);
  }
  if (ring != NULL) return ring;
  ring = ring_new();
  if (ring != NULL && pthread_setspecific(key, ring) != 0) {
    ring_free(ring);
    return NULL;
  }
  return ring;
}

void ur_ring_put(ur_ring *ring, int fd, uint64_t offset, uint8_t *to, uint32_t bytes, uint64_t tag) {
  uint32_t tail = atomic_load_explicit(ring->submit_tail, memory_order_relaxed);
  uint32_t slot = tail & ring->submit_mask;
  struct io_uring_sqe *entry = &ring->entries[slot];
  memset(entry, 0, sizeof *entry);
  entry->opcode = IORING_OP_READ;
  entry->fd = fd;
  entry->off = offset;
  entry->addr = (uint64_t)(uintptr_t)to;
  entry->len = bytes;
  entry->user_data = tag;
  ring->submit_array[slot] = slot;
  atomic_store_explicit(ring->submit_tail, tail + 1, memory_order_release);
  ring->unsubmitted++;
}

/* Takes back the read put in last, which the kernel has not seen and will not take (a sandbox closed behind us, say). */
static int32_t withdraw(ur_ring *ring, int failure, uint64_t *tag) {
  uint32_t tail = atomic_load_explicit(ring->submit_tail, memory_order_relaxed) - 1;
  *tag = ring->entries[tail & ring->submit_mask].user_data;
  atomic_store_explicit(ring->submit_tail, tail, memory_order_release);
  ring->unsubmitted--;
  return -failure;
}

int32_t ur_ring_take(ur_ring *ring, uint64_t *tag) {
  int refused = 0;
  uint32_t head = atomic_load_explicit(ring->complete_head, memory_order_relaxed);
  while (ring->unsubmitted > 0 || head == atomic_load_explicit(ring->complete_tail, memory_order_acquire)) {
    uint32_t wait = head == atomic_load_explicit(ring->complete_tail, memory_order_acquire);
    long done = syscall(SYS_io_uring_enter, ring->fd, ring->unsubmitted, wait, IORING_ENTER_GETEVENTS, NULL, 0);
    if (done > 0) ring->unsubmitted -= (uint32_t)done;
    if (done >= 0 || errno == EINTR) continue;
    bool busy = errno == EAGAIN || errno == EBUSY;
    if (ring->unsubmitted > 0 && (!busy || ++refused == REFUSALS)) return withdraw(ring, busy ? EAGAIN : errno, tag);
    (void)sched_yield(); /* reads in flight must end before the caller's buffers do: wait for as long as it takes */
  }
  const struct io_uring_cqe *completion = &ring->completions[head & ring->complete_mask];
  int32_t result = completion->res;
  *tag = completion->user_data;
  atomic_store_explicit(ring->complete_head, head + 1, memory_order_release);
  return result;
}

uint8_t *ur_ring_memory(ur_ring *ring) {
  if (ring->memory != NULL) return ring->memory;
  void *memory = mmap(NULL, UR_RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return NULL;
  (void)madvise(memory, UR_RING_BYTES, MADV_HUGEPAGE);
  ring->memory = memory;
  return memory;
}

#else /* no system but Linux has one: readers use pread */

#include <stddef.h>

ur_ring *ur_ring_here(void) { return NULL; }

void ur_ring_put(ur_ring *ring, int fd, uint64_t offset, uint8_t *to, uint32_t bytes, uint64_t tag) {
  (void)ring, (void)fd, (void)offset, (void)to, (void)bytes, (void)tag;
}

int32_t ur_ring_take(ur_ring *ring, uint64_t *tag) {
  (void)ring;
  *tag = 0;
  return -1;
}

uint8_t *ur_ring_memory(ur_ring *ring) {
  (void)ring;
  return NULL;
}

#endif
