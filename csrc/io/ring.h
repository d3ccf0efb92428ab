/* io/ring.h - one io_uring per thread, by raw system calls: reads are put in, completions are taken out. Internal. */
#ifndef UR_IO_RING_H
#define UR_IO_RING_H

#include <stdbool.h>
#include <stdint.h>

#define UR_RING_DEPTH 64 /* reads in flight at most */
#define UR_RING_BYTES (UINT64_C(8) << 20)

typedef struct ur_ring ur_ring;

/* The calling thread's ring, made on first use (again in a forked child), or NULL where the kernel refuses one. */
ur_ring *ur_ring_here(void);

/* Puts in one read, of at most 2^30 bytes; `tag` comes back with its completion. At most UR_RING_DEPTH may be in flight,
 * and the caller takes all of them out before it returns. */
void ur_ring_put(ur_ring *ring, int fd, uint64_t offset, uint8_t *to, uint32_t bytes, uint64_t tag);

/* Takes out one completion, waiting for it: the bytes read, or minus an errno. */
int32_t ur_ring_take(ur_ring *ring, uint64_t *tag);

/* UR_RING_BYTES of memory for reads to land in, aligned for O_DIRECT, that belong to the ring; NULL without memory. */
uint8_t *ur_ring_memory(ur_ring *ring);

#endif
