/* order/permute.c - the keyed permutation: a shuffled table for small n, a Feistel network above.
 *
 * The network works on exactly the bit width of n - 1, cut into a low and a high half that may differ by one bit. Rounds
 * add a keyed function of one half to the other, in turn. Addition, unlike xor, also reaches odd permutations. A result
 * outside [0, n) is put through again ("cycle walking") until it is inside; as n > 2^(width - 1), twice at most on average.
 */
#include "order/permute.h"

#include "unirecord.h"

/* O3 because GCC 12 vectorises these loops from there on only. The AVX2 clone is chosen at load time, by a resolver that runs
 * before a sanitizer is set up and would crash it. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define UR_VECTOR __attribute__((optimize("O3"), target_clones("avx2", "default")))
#else
#define UR_VECTOR
#endif

enum { LANES = 256, TABLE_ROUND = 255 };

static uint64_t derive(uint64_t seed, uint64_t epoch, uint64_t number, uint32_t domain, uint32_t round) {
  const uint64_t words[4] = {seed, epoch, number, ((uint64_t)domain << 8) | round};
  uint8_t message[32];
  for (size_t i = 0; i < sizeof message; i++) {
    message[i] = (uint8_t)(words[i / 8] >> (8 * (i % 8)));
  }
  return ur_xxh3_64(message, sizeof message, 0);
}

/* ---- small n: Fisher-Yates over a counter-mode generator ------------------------------------------------------------ */

static uint32_t draw(uint64_t *state) {
  uint64_t z = (*state += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return (uint32_t)((z ^ (z >> 31)) >> 32);
}

/* Uniform in [0, bound): the top half of a product, redrawn in the few cases that would favour some values. */
static uint32_t draw_below(uint64_t *state, uint32_t bound) {
  uint64_t product = (uint64_t)draw(state) * bound;
  if ((uint32_t)product < bound) {
    const uint32_t unfair = (0U - bound) % bound;
    while ((uint32_t)product < unfair) {
      product = (uint64_t)draw(state) * bound;
    }
  }
  return (uint32_t)(product >> 32);
}

static void make_table(ur_permutation *p, uint64_t state) {
  const uint32_t n = (uint32_t)p->n;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t j = draw_below(&state, i + 1);
    p->forward[i] = p->forward[j];
    p->forward[j] = (uint16_t)i;
  }
  for (uint32_t i = 0; i < n; i++) {
    p->backward[p->forward[i]] = (uint16_t)i;
  }
}

static void look_up(const uint16_t *table, int64_t *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    values[i] = table[values[i]];
  }
}

/* ---- large n: Feistel network, many lanes at a time ----------------------------------------------------------------- */

/* Good bits are at the top, where the caller takes them. */
static inline uint32_t mix(uint32_t x, uint32_t key, uint32_t step) {
  x = (x ^ key) * 0x85EBCA6BU;
  x = ((x ^ (x >> 15)) + step) * 0xC2B2AE35U;
  return x;
}

UR_VECTOR static void encipher(const ur_permutation *p, int64_t *values, size_t count) {
  uint32_t low[LANES];
  uint32_t high[LANES];
  const uint32_t low_bits = p->low_bits;
  const uint32_t low_mask = (1U << low_bits) - 1U;
  const uint32_t high_mask = (1U << p->high_bits) - 1U;
  const uint32_t low_shift = 32U - low_bits;
  const uint32_t high_shift = 32U - p->high_bits;
  for (size_t i = 0; i < count; i++) {
    low[i] = (uint32_t)values[i] & low_mask;
    high[i] = (uint32_t)((uint64_t)values[i] >> low_bits);
  }
  for (size_t r = 0; r < UR_ROUNDS; r += 2) {
    const uint32_t k0 = p->key[r], s0 = p->step[r], k1 = p->key[r + 1], s1 = p->step[r + 1];
    for (size_t i = 0; i < count; i++) {
      high[i] = (high[i] + (mix(low[i], k0, s0) >> high_shift)) & high_mask;
      low[i] = (low[i] + (mix(high[i], k1, s1) >> low_shift)) & low_mask;
    }
  }
  for (size_t i = 0; i < count; i++) {
    values[i] = (int64_t)(((uint64_t)high[i] << low_bits) | low[i]);
  }
}

UR_VECTOR static void decipher(const ur_permutation *p, int64_t *values, size_t count) {
  uint32_t low[LANES];
  uint32_t high[LANES];
  const uint32_t low_bits = p->low_bits;
  const uint32_t low_mask = (1U << low_bits) - 1U;
  const uint32_t high_mask = (1U << p->high_bits) - 1U;
  const uint32_t low_shift = 32U - low_bits;
  const uint32_t high_shift = 32U - p->high_bits;
  for (size_t i = 0; i < count; i++) {
    low[i] = (uint32_t)values[i] & low_mask;
    high[i] = (uint32_t)((uint64_t)values[i] >> low_bits);
  }
  for (size_t r = UR_ROUNDS; r > 0; r -= 2) {
    const uint32_t k0 = p->key[r - 2], s0 = p->step[r - 2], k1 = p->key[r - 1], s1 = p->step[r - 1];
    for (size_t i = 0; i < count; i++) {
      low[i] = (low[i] - (mix(high[i], k1, s1) >> low_shift)) & low_mask;
      high[i] = (high[i] - (mix(low[i], k0, s0) >> high_shift)) & high_mask;
    }
  }
  for (size_t i = 0; i < count; i++) {
    values[i] = (int64_t)(((uint64_t)high[i] << low_bits) | low[i]);
  }
}

typedef void cipher(const ur_permutation *p, int64_t *values, size_t count);

/* One chunk: all lanes once, then those still outside [0, n) again, packed, until none is left. */
static void walk(const ur_permutation *p, cipher *once, int64_t *values, size_t count) {
  int64_t outside[LANES];
  uint16_t lane[LANES];
  size_t left = 0;
  once(p, values, count);
  for (size_t i = 0; i < count; i++) {
    outside[left] = values[i];
    lane[left] = (uint16_t)i;
    left += (uint64_t)values[i] >= p->n;
  }
  while (left > 0) {
    size_t still = 0;
    once(p, outside, left);
    for (size_t i = 0; i < left; i++) {
      const int64_t value = outside[i];
      values[lane[i]] = value; /* of the values a lane gets, the last one stays */
      outside[still] = value;
      lane[still] = lane[i];
      still += (uint64_t)value >= p->n;
    }
    left = still;
  }
}

static void walk_all(const ur_permutation *p, cipher *once, int64_t *values, size_t count) {
  for (size_t done = 0; done < count; done += LANES) {
    walk(p, once, values + done, count - done < LANES ? count - done : LANES);
  }
}

/* ---- the three functions of the header ------------------------------------------------------------------------------ */

void ur_permutation_make(ur_permutation *p, uint64_t n, uint64_t seed, uint64_t epoch, uint32_t domain,
                         uint64_t number) {
  p->n = n;
  p->low_bits = p->high_bits = 0;
  if (n <= UR_TABLE_ROWS) {
    make_table(p, derive(seed, epoch, number, domain, TABLE_ROUND));
    return;
  }
  uint32_t width = 0;
  for (uint64_t rest = n - 1; rest > 0; rest >>= 1) {
    width++;
  }
  p->low_bits = width / 2;
  p->high_bits = width - width / 2;
  for (uint32_t r = 0; r < UR_ROUNDS; r++) {
    const uint64_t word = derive(seed, epoch, number, domain, r);
    p->key[r] = (uint32_t)word;
    p->step[r] = (uint32_t)(word >> 32);
  }
}

void ur_permutation_apply(const ur_permutation *p, int64_t *values, size_t count) {
  if (p->n <= UR_TABLE_ROWS) {
    look_up(p->forward, values, count);
  } else {
    walk_all(p, encipher, values, count);
  }
}

void ur_permutation_invert(const ur_permutation *p, int64_t *values, size_t count) {
  if (p->n <= UR_TABLE_ROWS) {
    look_up(p->backward, values, count);
  } else {
    walk_all(p, decipher, values, count);
  }
}
