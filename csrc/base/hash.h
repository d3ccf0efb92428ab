/* base/hash.h - XXH3 of what is being copied or made, and the ways of computing it, for tests that compare them. Internal. */
#ifndef UR_HASH_H
#define UR_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef enum { UR_HASH_PORTABLE = 0, UR_HASH_SSE2 = 1, UR_HASH_AVX2 = 2, UR_HASH_AVX512 = 3 } ur_hash_way;

/* 1 if this machine can run `way`. */
int ur_hash_can(ur_hash_way way);

/* What ur_xxh3_64 answers, computed in the given way, which the machine must be able to run; with `to`, the data are copied
 * there on the way. */
uint64_t ur_hash_by(ur_hash_way way, const void *data, size_t bytes, uint64_t seed, void *to);

/* What ur_xxh3_64 answers, and both words of ur_xxh3_128, the low one first; in one pass where the data are longer than
 * 240 bytes. */
uint64_t ur_hash_both_by(ur_hash_way way, const void *data, size_t bytes, uint64_t seed, uint64_t words[2]);

/* ur_xxh3_64 of the data, which are copied to `to` by stores past the caches: memory is read once for both, and while it
 * is being written. The ranges must not overlap. */
uint64_t ur_xxh3_64_copying(void *to, const void *data, size_t bytes, uint64_t seed);

/* Writes bytes [offset, offset + bytes) of what is digested to `to`: multiples of 8 where all of it is one. */
typedef void ur_hash_source(const void *context, uint64_t offset, size_t bytes, void *to);

/* ur_xxh3_64 of bytes that lie nowhere together: the source makes some thousands of them at a time. */
uint64_t ur_xxh3_64_of(ur_hash_source *source, const void *context, uint64_t bytes, uint64_t seed);

#endif
