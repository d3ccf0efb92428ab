/* hash.h - the ways of computing XXH3-64, for tests that compare them. Internal. */
#ifndef UR_HASH_H
#define UR_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef enum { UR_HASH_PORTABLE = 0, UR_HASH_SSE2 = 1, UR_HASH_AVX2 = 2, UR_HASH_AVX512 = 3 } ur_hash_way;

/* 1 if this machine can run `way`. */
int ur_hash_can(ur_hash_way way);

/* What ur_xxh3_64 answers, computed in the given way, which the machine must be able to run. */
uint64_t ur_hash_by(ur_hash_way way, const void *data, size_t bytes, uint64_t seed);

#endif
