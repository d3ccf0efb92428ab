/* base/timing.h - how long reading took of each part: the time between two looks at the clock is that of the part read meanwhile.
 *
 * Only batches that are slow enough for these looks to cost nothing are timed: by the one before of the same thread. Internal.
 */
#ifndef UR_TIMING_H
#define UR_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#include "unirecord_internal.h"

#define UR_TIMING_NS 5000 /* a look at the clock may cost so little of it that nobody can measure it: some 25 ns */

#ifndef UR_TIME_ALL /* builds for tests time every batch, so that what reads while it is timed is tried as well */
#define UR_TIME_ALL 0
#endif

typedef struct ur_timing ur_timing;

/* One part's rows in a batch. */
typedef struct {
  ur_timing *timing;
  int64_t part;
  uint64_t ns, bytes;
} ur_part_timer;

/* The parts of the batch that a thread reads. */
struct ur_timing {
  uint64_t last;  /* when the clock was looked at */
  uint64_t took;  /* nanoseconds of the batch before … */
  int64_t looks;  /* … and looks at the clock in the last that was timed */
  int64_t count, room;
  ur_part_timer *of;
};

uint64_t ur_now_ns(void); /* of CLOCK_MONOTONIC */

/* Whether the next batch is timed. */
static inline bool ur_timing_are_due(const ur_timing *timing) { return timing->took >= (uint64_t)timing->looks * UR_TIMING_NS; }

/* Starts the clock for a batch with rows of `count` parts; what is not timed has NULL for `timing` and `timer`. Without memory none
 * is timed, and `count` is 0. */
void ur_timing_begin(ur_timing *timing, int64_t count);
void ur_timing_free(ur_timing *timing);

/* Where to count the time of part number g of the batch; NULL where it is the only one, whose time is that of all. */
static inline ur_part_timer *ur_timing_of(ur_timing *timing, int64_t g) {
  return timing == NULL || timing->count < 2 ? NULL : &timing->of[g];
}

/* Since the last look: of one part; of none; of several by `bytes` of `total`, where `spent` is what
 * ur_timing_spent said. */
void ur_part_timer_look(ur_part_timer *timer);
void ur_timing_pass(ur_timing *timing);
uint64_t ur_timing_spent(ur_timing *timing);
uint64_t ur_timing_spent_until(ur_timing *timing, uint64_t now);
void ur_part_timer_share(ur_part_timer *timer, uint64_t spent, uint64_t bytes, uint64_t total);

static inline void ur_part_timer_end(ur_part_timer *timer) {
  if (timer != NULL) ur_part_timer_look(timer);
}

/* The times of all the parts of a set, which threads add up. */
typedef struct ur_times ur_times;

ur_times *ur_times_new(int64_t parts); /* NULL without memory */
void ur_times_free(ur_times *times);

/* Adds a batch that has been read. */
void ur_times_add(ur_times *times, ur_timing *timing);

/* As ur_loader_part_times (unirecord.h). */
int64_t ur_times_copy(const ur_times *times, ur_part_time *out, int64_t room);

#endif
