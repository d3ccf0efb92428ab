/* base/fork.h - telling a forked child from its parent without a system call; threads that a fork finds begun or not. Internal. */
#ifndef UR_FORK_H
#define UR_FORK_H

#include <pthread.h>
#include <stdint.h>

/* How many forks lie between this process and the one that asked first: a handle that notes the number when it is made is
 * in another process when the number has changed. */
uint64_t ur_forks(void);

/* pthread_create() with the usual attributes, during which no other thread forks: glibc gives back the thread-local memory
 * of the stack that it uses again, and a child of that moment (seen with 2.36) gives it back a second time. */
int ur_thread_begin(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
