/* fault_seam.h - the calls of the core to the system and the allocator, any one of which can be made to fail.
 *
 * fault_seam.c stands between the two by the linker's --wrap (Makefile). It also counts what is held: a case that gives back
 * less than it took shows at once.
 */
#ifndef UR_FAULT_SEAM_H
#define UR_FAULT_SEAM_H

#include <stdint.h>

enum {
  FAULT_MEMORY = 1,  /* malloc, calloc */
  FAULT_MAP = 2,     /* mmap */
  FAULT_OPEN = 4,    /* open, fopen */
  FAULT_STAT = 8,    /* fstat, fstatfs, getrlimit */
  FAULT_READ = 16,   /* pread, preadv, read, completions of io_uring */
  FAULT_RING = 32,   /* io_uring_setup, io_uring_enter */
  FAULT_THREAD = 64, /* pthread_create, and the making of locks and keys */
  FAULT_HINT = 128,  /* madvise, mincore, mprotect, preadv2 */
  FAULT_WRITE = 256, /* writev */
  FAULT_COMPLETION = 512, /* completions of io_uring alone */
  FAULT_ZSTD = 1024, /* whatever of libzstd may take memory, as it says so itself */
};

enum { FAULT_ERROR, FAULT_SHORT, FAULT_END };

typedef struct {
  int calls;     /* which calls count */
  int64_t at;    /* number of the first call to fail, from 0 */
  int for_ever;  /* those after it too */
  int manner;    /* FAULT_ERROR: with `error`; FAULT_SHORT: half of what was asked; FAULT_END: nothing more to read */
  int error;     /* errno */
} fault_plan;

typedef struct {
  int64_t allocations, mapped_bytes, descriptors;
} fault_holdings;

/* Another machine: the number of its file system, and a folder before the paths under /proc and /sys. NULL: this one again. */
typedef struct {
  uint32_t file_system;
  const char *root;
} fault_machine;

void fault_pretend(const fault_machine *machine);

void fault_arm(const fault_plan *plan);
int64_t fault_disarm(void); /* how many calls have failed since */
/* Runs a case that arms a plan on a thread of its own: how many calls failed. All that it took is given back. */
int64_t fault_alone(void *(*run)(void *), void *argument);
int64_t fault_count(void);  /* how many calls of the plan's kinds there have been */
void fault_before_threads(void (*call)(void)); /* in pthread_create, before it begins a thread; NULL: nothing */
int64_t fault_reads_here(void); /* calls of pread and preadv on the calling thread */
fault_holdings fault_held(void);

#endif
