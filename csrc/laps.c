/* laps.c - see laps.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "laps.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

uint64_t ur_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void ur_laps_begin(ur_laps *laps, int64_t count) {
  laps->count = 0;
  if (count > laps->room) {
    free(laps->of);
    laps->of = (uint64_t)count > SIZE_MAX / sizeof *laps->of ? NULL : malloc((size_t)count * sizeof *laps->of);
    laps->room = laps->of == NULL ? 0 : count;
    if (laps->of == NULL) return;
  }
  laps->count = count;
  laps->looks = 2; /* this one and that of ur_times_add */
  laps->last = ur_now_ns();
}

void ur_laps_free(ur_laps *laps) { free(laps->of); }

uint64_t ur_laps_spent_until(ur_laps *laps, uint64_t now) {
  uint64_t spent = now > laps->last ? now - laps->last : 0;
  laps->last += spent; /* exact: to `now` */
  return spent;
}

uint64_t ur_laps_spent(ur_laps *laps) {
  laps->looks++;
  return ur_laps_spent_until(laps, ur_now_ns());
}

void ur_lap_look(ur_lap *lap) { lap->ns += ur_laps_spent(lap->laps); }

void ur_laps_pass(ur_laps *laps) {
  if (laps != NULL && laps->count > 1) (void)ur_laps_spent(laps);
}

void ur_lap_share(ur_lap *lap, uint64_t spent, uint64_t bytes, uint64_t total) {
  if (total > 0) lap->ns += (uint64_t)((double)spent * ((double)bytes / (double)total));
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

void ur_times_add(ur_times *times, ur_laps *laps) {
  if (laps->count == 1) laps->of[0].ns = ur_now_ns() - laps->last; /* nobody else's */
  for (int64_t g = 0; g < laps->count; g++) {
    const ur_lap *lap = &laps->of[g];
    part_time *of = &times->of[lap->part]; /* exact: a part of the set */
    atomic_fetch_add_explicit(&of->ns, lap->ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&of->bytes, lap->bytes, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&of->batches, 1, memory_order_relaxed) > 0) continue;
    int64_t place = atomic_fetch_add_explicit(&times->timed, 1, memory_order_relaxed);
    atomic_store_explicit(&times->numbers[place], lap->part + 1, memory_order_release); /* exact: each part once */
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
