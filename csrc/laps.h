/* laps.h - how long reading took of each part: the time between two looks at the clock is that of the part read meanwhile.
 *
 * Only batches that are slow enough for these looks to cost nothing are timed: by the one before of the same thread. Internal.
 */
#ifndef UR_LAPS_H
#define UR_LAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "unirecord.h"

#define UR_LAP_NS 5000 /* a look at the clock may cost so little of it that nobody can measure it: some 25 ns */

#ifndef UR_TIME_ALL /* builds for tests time every batch, so that what reads while it is timed is tried as well */
#define UR_TIME_ALL 0
#endif

typedef struct ur_laps ur_laps;

/* One part's rows in a batch. */
typedef struct {
  ur_laps *laps;
  int64_t part;
  uint64_t ns, bytes;
} ur_lap;

/* The parts of the batch that a thread reads. */
struct ur_laps {
  uint64_t last;  /* when the clock was looked at */
  uint64_t took;  /* nanoseconds of the batch before … */
  int64_t looks;  /* … and looks at the clock in the last that was timed */
  int64_t count, room;
  ur_lap *of;
};

uint64_t ur_now_ns(void); /* of CLOCK_MONOTONIC */

/* Whether the next batch is timed. */
static inline bool ur_laps_are_due(const ur_laps *laps) { return laps->took >= (uint64_t)laps->looks * UR_LAP_NS; }

/* Starts the clock for a batch with rows of `count` parts; what is not timed has NULL for `laps` and `lap`. Without memory none
 * is timed, and `count` is 0. */
void ur_laps_begin(ur_laps *laps, int64_t count);
void ur_laps_free(ur_laps *laps);

/* Where to count the time of part number g of the batch; NULL where it is the only one, whose time is that of all. */
static inline ur_lap *ur_laps_of(ur_laps *laps, int64_t g) {
  return laps == NULL || laps->count < 2 ? NULL : &laps->of[g];
}

/* Since the last look: of one part; of none; of several by `bytes` of `total`, where `spent` is what
 * ur_laps_spent said. */
void ur_lap_look(ur_lap *lap);
void ur_laps_pass(ur_laps *laps);
uint64_t ur_laps_spent(ur_laps *laps);
uint64_t ur_laps_spent_until(ur_laps *laps, uint64_t now);
void ur_lap_share(ur_lap *lap, uint64_t spent, uint64_t bytes, uint64_t total);

static inline void ur_lap_end(ur_lap *lap) {
  if (lap != NULL) ur_lap_look(lap);
}

/* The times of all the parts of a set, which threads add up. */
typedef struct ur_times ur_times;

ur_times *ur_times_new(int64_t parts); /* NULL without memory */
void ur_times_free(ur_times *times);

/* Adds a batch that has been read. */
void ur_times_add(ur_times *times, ur_laps *laps);

/* As ur_loader_part_times (unirecord.h). */
int64_t ur_times_copy(const ur_times *times, ur_part_time *out, int64_t room);

#endif
