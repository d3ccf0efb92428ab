/* io/cache.h - what a cache on the disk holds of the files of a set, as the reader asks for it. Internal. */
#ifndef UR_CACHE_H
#define UR_CACHE_H

#include <stdbool.h>

#include "unirecord.h"

/* Copies bytes [offset, offset + bytes) of a file of part `part` to `to`, if the cache (NULL is allowed) has all of them,
 * and they are those that were put there; else false, and what `to` holds means nothing. With `checked_next`, the caller
 * compares them with the part's digests, so that the cache need not, and then calls one of the two functions below. */
bool ur_cache_read(ur_cache *cache, int64_t part, int32_t file, uint64_t offset, uint64_t bytes, uint8_t *to,
                   bool checked_next);

/* The same of a data file's bytes that the caller has compared with the part's digests when it read them from this cache
 * before: false, too, once anything has been taken out of what the cache had of the file, as it may have come anew since. */
bool ur_cache_read_settled(ur_cache *cache, int64_t part, uint64_t offset, uint64_t bytes, uint8_t *to);

/* Takes it that all these bytes, which it has just read, are right. */
void ur_cache_trust(ur_cache *cache, int64_t part, int32_t file, uint64_t offset, uint64_t bytes);

/* Forgets what it has of these bytes, which were not what the part's digests say; false when it had none. */
bool ur_cache_forget(ur_cache *cache, int64_t part, int32_t file, uint64_t offset, uint64_t bytes);

#endif
