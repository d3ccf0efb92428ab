/* cache_shelf.h - a file of bytes that a cache keeps: it only grows, and what lies at a place of it never changes. Internal. */
#ifndef UR_CACHE_SHELF_H
#define UR_CACHE_SHELF_H

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
} ur_shelf;

/* The shelf in the file of this descriptor, which it closes; all functions but these two may be called by many threads. */
void ur_shelf_open(ur_shelf *shelf, int fd, uint64_t seed);
void ur_shelf_close(ur_shelf *shelf);

/* Where bytes [place, place + bytes) lie in memory, for as long as the shelf is open; at most UR_CACHE_STRETCH of them. NULL
 * where the file is not mapped, or ends before them. `soon`: the disk is told that they are wanted, all at once. */
const uint8_t *ur_shelf_view(ur_shelf *shelf, uint64_t place, uint64_t bytes, bool soon);

/* Copies them; false when they cannot be had. */
bool ur_shelf_read(ur_shelf *shelf, uint64_t place, uint64_t bytes, uint8_t *to, bool soon);

#endif
