/* fork.h - telling a forked child from its parent without a system call. Internal. */
#ifndef UR_FORK_H
#define UR_FORK_H

#include <stdint.h>

/* How many forks lie between this process and the one that asked first: a handle that notes the number when it is made is
 * in another process when the number has changed. */
uint64_t ur_forks(void);

#endif
