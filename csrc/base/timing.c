/* base/timing.c - see base/timing.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/timing.h"
#include "unirecord_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

uint64_t ur_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void ur_timing_begin(ur_timing *timing, int64_t count) {
  timing->count = 0;
  if (count > timing->room) {
    free(timing->of);
    timing->of = (uint64_t)count > SIZE_MAX / sizeof *timing->of ? NULL : malloc((size_t)count * sizeof *timing->of);
    timing->room = timing->of == NULL ? 0 : count;
    if (timing->of == NULL) return;
  }
  timing->count = count;
  timing->looks = 2; /* this one and that of ur_times_add */
  timing->last = ur_now_ns();
}

void ur_timing_free(ur_timing *timing) { free(timing->of); }

uint64_t ur_timing_spent_until(ur_timing *timing, uint64_t now) {
  uint64_t spent = now > timing->last ? now - timing->last : 0;
  timing->last += spent; /* exact: to `now` */
  return spent;
}

uint64_t ur_timing_spent(ur_timing *timing) {
  timing->looks++;
  return ur_timing_spent_until(timing, ur_now_ns());
}

void ur_part_timer_look(ur_part_timer *timer) { timer->ns += ur_timing_spent(timer->timing); }

void ur_timing_pass(ur_timing *timing) {
  if (timing != NULL && timing->count > 1) (void)ur_timing_spent(timing);
}

void ur_part_timer_share(ur_part_timer *timer, uint64_t spent, uint64_t bytes, uint64_t total) {
  if (total > 0) timer->ns += (uint64_t)((double)spent * ((double)bytes / (double)total));
}

/* ---- of all batches ---------------------------------------------------------------------------------------------- */

typedef struct {
  _Atomic uint64_t ns, bytes;
  _Atomic int64_t batches;
} part_time;

struct ur_times {
  int64_t parts;
  _Atomic int64_t timed; /* parts in `numbers` */
  part_time *of;
  _Atomic int64_t *numbers; /* of those that have been timed, in the order in which they first were and 1 more; 0: about to be told */
};

ur_times *ur_times_new(int64_t parts) {
  ur_times *times = calloc(1, sizeof *times);
  if (times == NULL) return NULL;
  times->parts = parts;
  times->of = calloc((size_t)parts + 1, sizeof *times->of);
  times->numbers = calloc((size_t)parts + 1, sizeof *times->numbers);
  if (times->of != NULL && times->numbers != NULL) return times;
  ur_times_free(times);
  return NULL;
}

void ur_times_free(ur_times *times) {
  if (times == NULL) return;
  free(times->of);
  free(times->numbers);
  free(times);
}

void ur_times_add(ur_times *times, ur_timing *timing) {
  if (timing->count == 1) timing->of[0].ns = ur_now_ns() - timing->last; /* nobody else's */
  for (int64_t g = 0; g < timing->count; g++) {
    const ur_part_timer *timer = &timing->of[g];
    part_time *of = &times->of[timer->part]; /* exact: a part of the set */
    atomic_fetch_add_explicit(&of->ns, timer->ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&of->bytes, timer->bytes, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&of->batches, 1, memory_order_relaxed) > 0) continue;
    int64_t place = atomic_fetch_add_explicit(&times->timed, 1, memory_order_relaxed);
    atomic_store_explicit(&times->numbers[place], timer->part + 1, memory_order_release); /* exact: each part once */
  }
}

int64_t ur_times_copy(const ur_times *times, ur_part_time *out, int64_t room) {
  int64_t timed = atomic_load_explicit(&times->timed, memory_order_relaxed), told = 0;
  for (int64_t i = 0; i < timed; i++) {
    int64_t number = atomic_load_explicit(&times->numbers[i], memory_order_acquire) - 1;
    if (number < 0) continue; /* another thread is about to write it */
    const part_time *of = &times->of[number];
    if (told < room)
      out[told] = (ur_part_time){.part = number,
                                 .batches = atomic_load_explicit(&of->batches, memory_order_relaxed),
                                 .bytes = atomic_load_explicit(&of->bytes, memory_order_relaxed),
                                 .ns = atomic_load_explicit(&of->ns, memory_order_relaxed)};
    told++;
  }
  return told;
}
