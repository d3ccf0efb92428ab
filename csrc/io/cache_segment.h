/* io/cache_segment.h - a file of bytes that a cache keeps: it only grows, and what lies at a place of it never changes. Internal. */
#ifndef UR_CACHE_SEGMENT_H
#define UR_CACHE_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "unirecord.h"

typedef struct {
  int fd; /* -1: none */
  uint64_t seed;
  _Atomic(uint64_t) known;            /* bytes that the file is known to have */
  _Atomic(const uint8_t *) *windows;  /* pieces of it that are mapped, when they are first read; or NULL */
  bool mincore_lies;
  _Atomic(uint32_t) cached;           /* ranges that were looked at in turn and were in memory */
  _Atomic(uint32_t) calm;             /* ranges that will be taken to be in memory too */
} ur_segment;

/* The segment in the file of this descriptor, which it closes; all functions but these two may be called by many threads. */
void ur_segment_open(ur_segment *segment, int fd, uint64_t seed);
void ur_segment_close(ur_segment *segment);

/* Where bytes [place, place + bytes) lie in memory, for as long as the segment is open; at most UR_CACHE_STRETCH of them. NULL
 * where the file is not mapped, or ends before them. `soon`: the disk is told that they are wanted, all at once. */
const uint8_t *ur_segment_view(ur_segment *segment, uint64_t place, uint64_t bytes, bool soon);

/* Copies them; false when they cannot be had. */
bool ur_segment_read(ur_segment *segment, uint64_t place, uint64_t bytes, uint8_t *to, bool soon);

#endif
