/* set/direct.c - batches that hold no references to the parts they read: counted, so that no part is closed under them. */
#include <sched.h>
#include <stdlib.h>

#include "base/fork.h"
#include "set/set.h"

bool ur_direct_enter(ur_set *set) {
  /* the count belongs to one process: a child of fork() has none of the threads whose batches it finds, and begins anew */
  uint64_t process = ur_forks() << 32, reads = atomic_load(&set->direct_reads);
  uint64_t next;
  do {
    next = (reads >> 32 << 32) == process ? reads + 1 : process + 1; /* exact: far fewer than 2^32 threads */
  } while (!atomic_compare_exchange_weak(&set->direct_reads, &reads, next));
  if (!atomic_load(&set->direct_ended)) return true;
  atomic_fetch_sub(&set->direct_reads, 1);
  return false;
}

void ur_direct_leave(ur_set *set) { atomic_fetch_sub(&set->direct_reads, 1); }

void ur_direct_end(ur_set *set) {
  if (atomic_exchange(&set->direct_ended, true) && atomic_load(&set->direct) == NULL) return;
  for (;;) { /* batches that see it too late are under way already, and wait for no other thread */
    uint64_t reads = atomic_load(&set->direct_reads);
    if (reads >> 32 != (ur_forks() & UINT32_MAX) || (reads & UINT32_MAX) == 0) return;
    (void)sched_yield();
  }
}

void ur_direct_free(ur_set *set) {
  ur_direct *direct = atomic_load(&set->direct);
  if (direct == NULL) return;
  free(direct->parts);
  free(direct);
}
