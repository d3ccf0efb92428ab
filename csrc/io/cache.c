/* io/cache.c - what a cache on the disk holds of the files of a set: found by place, read, and checked before its first use.
 *
 * A file's ranges are kept by the MiB that they lie in, sorted there, and never across two of them: few bytes are looked at
 * to find a range, and few are digested to use a piece of it. They are found under a lock that readers share, and read
 * without it: what a segment's file holds at a place never changes.
 */
#define _GNU_SOURCE
#include "io/cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fork.h"
#include "io/cache_segment.h"
#include "unirecord_internal.h"

typedef struct {
  uint64_t offset, place, digest;
  uint32_t bytes;
  atomic_bool checked;
} held;

/* The ranges that lie in one MiB of a file. */
typedef struct {
  held *ranges; /* sorted, without overlap */
  uint32_t count, room;
} stretch;

typedef struct {
  stretch *stretches;
  uint64_t bytes;
  int64_t segment;   /* -1: nothing of the file is kept */
  uint64_t removed; /* ranges, since the file was set */
} cached_file;

struct ur_cache {
  pthread_rwlock_t lock;
  uint64_t owner; /* ur_forks() of the process that made it */
  cached_file *files;
  ur_segment *segments;
  int64_t file_count, segment_count;
  ur_cache_range *dropped; /* waiting for ur_cache_take_dropped */
  int64_t dropped_count, dropped_room;
  _Atomic(uint64_t) hits, hit_bytes, damaged;
};

static bool is_own(const ur_cache *cache) { return cache->owner == ur_forks(); }

/* False in a forked child, which may have found the lock held by a thread that it does not have: there is nothing then. */
static bool lock_to_look(ur_cache *cache) { return is_own(cache) && pthread_rwlock_rdlock(&cache->lock) == 0; }

static bool lock_to_change(ur_cache *cache) { return is_own(cache) && pthread_rwlock_wrlock(&cache->lock) == 0; }

static void unlock(ur_cache *cache) { (void)pthread_rwlock_unlock(&cache->lock); }

/* ---- making one ------------------------------------------------------------------------------------------------------ */

ur_cache *ur_cache_new(int64_t files, int64_t segments) {
  ur_cache *cache = calloc(1, sizeof *cache);
  if (cache == NULL) return NULL;
  cache->files = calloc((size_t)files + 1, sizeof *cache->files);
  cache->segments = calloc((size_t)segments + 1, sizeof *cache->segments);
  if (cache->files == NULL || cache->segments == NULL || pthread_rwlock_init(&cache->lock, NULL) != 0) {
    free(cache->files);
    free(cache->segments);
    free(cache);
    return NULL;
  }
  cache->owner = ur_forks();
  cache->file_count = files;
  cache->segment_count = segments;
  for (int64_t i = 0; i < files; i++) cache->files[i].segment = -1;
  for (int64_t i = 0; i < segments; i++) cache->segments[i].fd = -1;
  return cache;
}

void ur_cache_set_segment(ur_cache *cache, int64_t number, int32_t fd, uint64_t seed) {
  ur_segment_open(&cache->segments[number], fd, seed);
}

ur_status ur_cache_set_file(ur_cache *cache, int64_t number, int64_t segment_number, uint64_t bytes) {
  cached_file *file = &cache->files[number];
  stretch *made = calloc(bytes / UR_CACHE_STRETCH + 1, sizeof *made);
  if (made == NULL) return UR_NO_MEMORY;
  *file = (cached_file){made, bytes, segment_number, 0};
  return UR_OK;
}

void ur_cache_release(ur_cache *cache) {
  if (cache == NULL) return;
  for (int64_t f = 0; f < cache->file_count; f++) {
    cached_file *file = &cache->files[f];
    if (file->segment < 0) continue;
    uint64_t count = file->bytes / UR_CACHE_STRETCH + 1;
    for (uint64_t i = 0; i < count; i++) free(file->stretches[i].ranges);
    free(file->stretches);
  }
  for (int64_t i = 0; i < cache->segment_count; i++) ur_segment_close(&cache->segments[i]);
  if (is_own(cache)) (void)pthread_rwlock_destroy(&cache->lock);
  free(cache->files);
  free(cache->segments);
  free(cache->dropped);
  free(cache);
}

/* ---- ranges of a file -------------------------------------------------------------------------------------------------- */

static uint64_t end_of(const held *range) { return range->offset + range->bytes; /* exact: inside the file */ }

/* The number of ranges of a stretch that begin at or before `offset`. */
static uint32_t before(const stretch *in, uint64_t offset) {
  uint32_t first = 0, last = in->count;
  while (first < last) {
    uint32_t middle = first + (last - first) / 2;
    if (in->ranges[middle].offset <= offset)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

static stretch *stretch_of(const cached_file *file, uint64_t offset) {
  return &file->stretches[offset / UR_CACHE_STRETCH];
}

static uint64_t next_stretch(uint64_t offset) {
  return (offset / UR_CACHE_STRETCH + 1) * UR_CACHE_STRETCH; /* exact: files end below 2^63 */
}

/* The range that holds byte `offset`, or NULL; then *next is where the next one of its stretch begins, or it ends. */
static held *find(const cached_file *file, uint64_t offset, uint64_t *next) {
  stretch *in = stretch_of(file, offset);
  uint32_t count = before(in, offset);
  if (count > 0 && offset < end_of(&in->ranges[count - 1])) return &in->ranges[count - 1];
  *next = count < in->count ? in->ranges[count].offset : next_stretch(offset);
  return NULL;
}

static bool has_all(const cached_file *file, uint64_t offset, uint64_t end) {
  uint64_t next = 0;
  while (offset < end) {
    const held *range = find(file, offset, &next);
    if (range == NULL) return false;
    offset = end_of(range);
  }
  return true;
}

static bool is_possible(const ur_cache *cache, const ur_cache_range *range) {
  if (range->file < 0 || range->file >= cache->file_count) return false;
  const cached_file *file = &cache->files[range->file];
  return file->segment >= 0 && range->bytes > 0 && ur_inside(range->offset, range->bytes, file->bytes) &&
         range->offset / UR_CACHE_STRETCH == (range->offset + range->bytes - 1) / UR_CACHE_STRETCH && /* exact: inside */
         range->place <= INT64_MAX - UR_CACHE_STRETCH;
}

static ur_status add_one(ur_cache *cache, const ur_cache_range *range) {
  if (!is_possible(cache, range)) return UR_OK;
  stretch *in = stretch_of(&cache->files[range->file], range->offset);
  uint32_t at = before(in, range->offset);
  if (at > 0 && range->offset < end_of(&in->ranges[at - 1])) return UR_OK; /* another process has put it there too */
  if (at < in->count && in->ranges[at].offset < range->offset + range->bytes) return UR_OK; /* exact: inside the file */
  if (in->count == in->room) {
    uint32_t room = in->room == 0 ? 4 : 2 * in->room; /* exact: a MiB has at most 2^20 ranges */
    held *grown = realloc(in->ranges, room * sizeof *grown); /* exact: likewise */
    if (grown == NULL) return UR_NO_MEMORY;
    in->ranges = grown;
    in->room = room;
  }
  memmove(in->ranges + at + 1, in->ranges + at, (in->count - at) * sizeof *in->ranges); /* exact: there is room */
  in->ranges[at].offset = range->offset;
  in->ranges[at].place = range->place;
  in->ranges[at].digest = range->digest;
  in->ranges[at].bytes = (uint32_t)range->bytes;
  atomic_init(&in->ranges[at].checked, false);
  in->count++;
  return UR_OK;
}

ur_status ur_cache_add(ur_cache *cache, const ur_cache_range *ranges, int64_t count) {
  ur_status status = UR_OK;
  if (!lock_to_change(cache)) return UR_OK;
  for (int64_t i = 0; i < count && status == UR_OK; i++) status = add_one(cache, &ranges[i]);
  unlock(cache);
  return status;
}

/* Removes the range at `offset` that lies at `place` of the segment; false when another one is there, or none. */
static bool remove_one(cached_file *file, uint64_t offset, uint64_t place) {
  stretch *in = stretch_of(file, offset);
  uint32_t at = before(in, offset);
  if (at == 0 || in->ranges[at - 1].offset != offset || in->ranges[at - 1].place != place) return false;
  memmove(in->ranges + at - 1, in->ranges + at, (in->count - at) * sizeof *in->ranges); /* exact: at <= count */
  in->count--;
  file->removed++;
  return true;
}

void ur_cache_remove(ur_cache *cache, const ur_cache_range *ranges, int64_t count) {
  if (!lock_to_change(cache)) return;
  for (int64_t i = 0; i < count; i++)
    if (is_possible(cache, &ranges[i]))
      (void)remove_one(&cache->files[ranges[i].file], ranges[i].offset, ranges[i].place);
  unlock(cache);
}

int64_t ur_cache_gaps(ur_cache *cache, const ur_cache_range *wanted, uint64_t *at, ur_cache_range *gaps, int64_t room) {
  const cached_file *file = &cache->files[wanted->file];
  uint64_t end = wanted->offset + wanted->bytes, next = 0; /* exact: inside the file */
  int64_t count = 0;
  bool holds = file->segment >= 0 && lock_to_look(cache);
  while (*at < end && count < room) {
    const held *range = holds ? find(file, *at, &next) : NULL;
    if (range != NULL) {
      *at = end_of(range);
      continue;
    }
    if (!holds) next = next_stretch(*at);
    if (next > end) next = end;
    gaps[count++] = (ur_cache_range){.file = wanted->file, .offset = *at, .bytes = next - *at};
    *at = next;
  }
  if (holds) unlock(cache);
  return count;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

/* Remembers a range that is gone, so that the cache's journal can be told. */
static void note_dropped(ur_cache *cache, int64_t number, const held *range) {
  if (cache->dropped_count == cache->dropped_room) {
    int64_t room = cache->dropped_room == 0 ? 16 : 2 * cache->dropped_room; /* exact: ranges in memory */
    ur_cache_range *grown = realloc(cache->dropped, (size_t)room * sizeof *grown);
    if (grown == NULL) return; /* the next process finds out for itself */
    cache->dropped = grown;
    cache->dropped_room = room;
  }
  cache->dropped[cache->dropped_count++] =
      (ur_cache_range){number, range->offset, range->bytes, range->place, range->digest};
}

static bool drop(ur_cache *cache, int64_t number, const held *range) {
  if (!lock_to_change(cache)) return false;
  bool was_there = remove_one(&cache->files[number], range->offset, range->place);
  if (was_there) {
    note_dropped(cache, number, range);
    atomic_fetch_add(&cache->damaged, 1);
  }
  unlock(cache);
  return was_there;
}

static void set_checked(ur_cache *cache, int64_t number, const held *range) {
  uint64_t next = 0;
  if (!lock_to_look(cache)) return;
  held *there = find(&cache->files[number], range->offset, &next);
  if (there != NULL && there->place == range->place) atomic_store_explicit(&there->checked, true, memory_order_relaxed);
  unlock(cache);
}

/* A whole range to `to`, if its digest is right. */
static bool read_checking(ur_segment *from, const held *range, uint8_t *to) {
  return ur_segment_read(from, range->place, range->bytes, to, true) &&
         ur_xxh3_64(to, range->bytes, from->seed) == range->digest;
}

/* How bytes are read. */
typedef enum {
  OF_THE_CACHE, /* compared with the cache's own digest when they are first used */
  OF_THE_PART,  /* the caller compares them with the part's */
  SETTLED       /* it has done so before, if nothing has been taken out of the file's ranges since */
} trust_mode;

/* Bytes [offset, offset + bytes) of a range. */
static bool read_piece(ur_cache *cache, int64_t number, const held *range, uint64_t offset, uint64_t bytes, uint8_t *to,
                       trust_mode trust) {
  ur_segment *from = &cache->segments[cache->files[number].segment];
  uint64_t skip = offset - range->offset; /* exact: inside the range */
  bool used = trust == SETTLED || atomic_load_explicit(&range->checked, memory_order_relaxed), right;
  if (used || trust == OF_THE_PART) {
    right = ur_segment_read(from, range->place + skip, bytes, to, !used); /* exact: inside the range */
  } else if (bytes == range->bytes) {
    right = read_checking(from, range, to);
    if (right) set_checked(cache, number, range);
  } else {
    uint8_t *whole = malloc(range->bytes);
    if (whole == NULL) return false;
    right = read_checking(from, range, whole);
    if (right) {
      memcpy(to, whole + skip, bytes); /* exact: inside the range */
      set_checked(cache, number, range);
    }
    free(whole);
  }
  if (!right) (void)drop(cache, number, range);
  return right;
}

static int64_t number_of(int64_t part, int32_t file) { return 2 * part + (file == UR_FILE_INDEX); }

/* A copy of the range that holds byte `offset`; with `first`, only if all bytes up to `end` are there. */
static bool look_up(ur_cache *cache, const cached_file *file, uint64_t offset, uint64_t end, bool first, bool settled,
                    held *out) {
  uint64_t next = 0;
  if (!lock_to_look(cache)) return false;
  const held *range = settled && file->removed > 0 ? NULL : find(file, offset, &next);
  bool there = range != NULL && (!first || end <= end_of(range) || has_all(file, end_of(range), end));
  if (there) {
    out->offset = range->offset;
    out->place = range->place;
    out->digest = range->digest;
    out->bytes = range->bytes;
    atomic_init(&out->checked, atomic_load_explicit(&range->checked, memory_order_relaxed));
  }
  unlock(cache);
  return there;
}

static bool read_range(ur_cache *cache, int64_t number, uint64_t offset, uint64_t bytes, uint8_t *to, trust_mode trust) {
  if (!is_own(cache) || number < 0 || number >= cache->file_count || cache->files[number].segment < 0) return false;
  const cached_file *file = &cache->files[number];
  if (!ur_inside(offset, bytes, file->bytes)) return false;
  uint64_t end = offset + bytes; /* exact: inside the file */
  for (uint64_t at = offset; at < end;) {
    held range;
    if (!look_up(cache, file, at, end, at == offset, trust == SETTLED, &range)) return false;
    uint64_t stop = end_of(&range) < end ? end_of(&range) : end;
    if (!read_piece(cache, number, &range, at, stop - at, to + (at - offset), trust)) return false; /* exact: at >= offset */
    at = stop;
  }
  atomic_fetch_add_explicit(&cache->hits, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&cache->hit_bytes, bytes, memory_order_relaxed);
  return true;
}

int32_t ur_cache_has(ur_cache *cache, int64_t number, uint64_t offset, uint64_t bytes, uint8_t *to) {
  return read_range(cache, number, offset, bytes, to, OF_THE_CACHE);
}

bool ur_cache_read(ur_cache *cache, int64_t part, int32_t file, uint64_t offset, uint64_t bytes, uint8_t *to,
                   bool checked_next) {
  trust_mode trust = checked_next ? OF_THE_PART : OF_THE_CACHE;
  return cache != NULL && read_range(cache, number_of(part, file), offset, bytes, to, trust);
}

bool ur_cache_read_settled(ur_cache *cache, int64_t part, uint64_t offset, uint64_t bytes, uint8_t *to) {
  return cache != NULL && read_range(cache, number_of(part, UR_FILE_DATA), offset, bytes, to, SETTLED);
}

void ur_cache_trust(ur_cache *cache, int64_t part, int32_t file, uint64_t offset, uint64_t bytes) {
  const cached_file *of = &cache->files[number_of(part, file)];
  uint64_t end = offset + bytes, next = 0; /* exact: it has been read */
  if (!lock_to_look(cache)) return;
  for (uint64_t at = offset; at < end;) {
    held *range = find(of, at, &next);
    if (range != NULL && range->offset >= offset && end_of(range) <= end)
      atomic_store_explicit(&range->checked, true, memory_order_relaxed);
    at = range == NULL ? next : end_of(range);
  }
  unlock(cache);
}

bool ur_cache_forget(ur_cache *cache, int64_t part, int32_t file, uint64_t offset, uint64_t bytes) {
  bool forgot = false;
  if (cache == NULL || !is_own(cache)) return false;
  int64_t number = number_of(part, file);
  if (number >= cache->file_count || cache->files[number].segment < 0) return false;
  if (!ur_inside(offset, bytes, cache->files[number].bytes)) return false;
  for (uint64_t at = offset, next = 0; at < offset + bytes;) { /* exact: inside the file */
    held range;
    if (look_up(cache, &cache->files[number], at, at, false, false, &range)) {
      forgot |= drop(cache, number, &range);
      at = end_of(&range);
    } else if (lock_to_look(cache)) {
      at = find(&cache->files[number], at, &next) == NULL ? next : at;
      unlock(cache);
    } else {
      return forgot;
    }
  }
  return forgot;
}

int64_t ur_cache_take_dropped(ur_cache *cache, ur_cache_range *dropped, int64_t room) {
  if (!lock_to_change(cache)) return 0;
  int64_t count = cache->dropped_count < room ? cache->dropped_count : room;
  cache->dropped_count -= count;
  if (count > 0) memcpy(dropped, cache->dropped + cache->dropped_count, (size_t)count * sizeof *dropped);
  unlock(cache);
  return count;
}

void ur_cache_counts(ur_cache *cache, uint64_t counts[3]) {
  counts[0] = atomic_load(&cache->hits);
  counts[1] = atomic_load(&cache->hit_bytes);
  counts[2] = atomic_load(&cache->damaged);
}
