/* base/digest_job.c - digests computed on a thread of their own, while the caller does something else with the same bytes. */
#include <pthread.h>
#include <stdlib.h>

#include "base/fork.h"
#include "unirecord_internal.h"

struct ur_digesting {
  pthread_t thread;
  uint64_t owner; /* ur_forks() of the process that has the thread */
  const void *data;
  const uint64_t *starts, *lengths;
  size_t count;
  uint64_t first_seed, seed_step;
  uint64_t *digests, *wide;
};

static void *run(void *argument) {
  const ur_digesting *job = argument;
  ur_digest_ranges(job->data, job->starts, job->lengths, job->count, job->first_seed, job->seed_step, job->digests,
                   job->wide);
  return NULL;
}

ur_digesting *ur_digesting_start(const void *data, const uint64_t *starts, const uint64_t *lengths, size_t count,
                                 uint64_t first_seed, uint64_t seed_step, uint64_t *digests, uint64_t *wide) {
  ur_digesting *job = malloc(sizeof *job);
  if (job != NULL) {
    *job = (ur_digesting){.owner = ur_forks(), .data = data, .starts = starts, .lengths = lengths, .count = count,
                          .first_seed = first_seed, .seed_step = seed_step, .digests = digests,
                          .wide = wide};
    if (ur_thread_begin(&job->thread, run, job) == 0) return job;
    free(job);
  }
  ur_digest_ranges(data, starts, lengths, count, first_seed, seed_step, digests, wide);
  return NULL;
}

void ur_digesting_end(ur_digesting *job) {
  if (job == NULL) return;
  if (job->owner == ur_forks())
    (void)pthread_join(job->thread, NULL);
  else
    (void)run(job); /* a forked child has the memory, and not the thread */
  free(job);
}
