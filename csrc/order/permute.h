/* order/permute.h - a keyed permutation of [0, n) that is computed, not stored. Pure; used by order/order.c alone. */
#ifndef UNIRECORD_ORDER_PERMUTE_H
#define UNIRECORD_ORDER_PERMUTE_H

#include <stddef.h>
#include <stdint.h>

/* Up to here a permutation is a shuffled table: exactly uniform for tiny n, where a Feistel network is not. */
#define UR_TABLE_ROWS 2048

/* 6 a side. Over 4,000 permutations of 256 and of 1,024 rows the quality tests tell 3 a side from chance, and 4 not. */
#define UR_ROUNDS 12

typedef struct {
  uint64_t n;
  uint32_t low_bits;  /* the exact bit width of n - 1, cut in two; each half <= 31 */
  uint32_t high_bits;
  uint32_t key[UR_ROUNDS];
  uint32_t step[UR_ROUNDS];
  uint16_t forward[UR_TABLE_ROWS]; /* filled when n <= UR_TABLE_ROWS, and then the rest is not */
  uint16_t backward[UR_TABLE_ROWS];
} ur_permutation;

/* The permutation of [0, n) that (seed, epoch, domain, number) names; n <= 2^62. Frozen: every version must agree. */
void ur_permutation_make(ur_permutation *permutation, uint64_t n, uint64_t seed, uint64_t epoch, uint32_t domain,
                         uint64_t number);

/* Replaces values[i], each in [0, n), by its image, or by what it is the image of. */
void ur_permutation_apply(const ur_permutation *permutation, int64_t *values, size_t count);
void ur_permutation_invert(const ur_permutation *permutation, int64_t *values, size_t count);

#endif
