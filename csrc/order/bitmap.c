/* order/bitmap.c - selected rows, one bit each, with a directory that finds the k-th of them and counts those before a row.
 *
 * The directory is rank9 of Vigna, "Broadword implementation of rank/select queries" (WEA 2008): two words for each block of
 * 512 bits, the ones before the block, and, in 9 bits each, the ones in it before its words 1 to 7; one more block that has
 * all ones before it; and behind them the block of every 4,096th one. Selecting in a word is that paper's algorithm too.
 */
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/check.h"
#include "base/hash.h"
#include "unirecord_internal.h"

#define EACH_BYTE UINT64_C(0x0101010101010101)
#define TOP_BITS UINT64_C(0x8080808080808080)
#define DIAGONAL UINT64_C(0x8040201008040201)
#define EACH_PART UINT64_C(0x0040201008040201) /* 9 bits each */
#define TOP_PARTS (EACH_PART << 8)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define MOST_BITS (INT64_C(1) << 62)

enum { WORD = 64, BLOCK_WORDS = 8, BLOCK = WORD * BLOCK_WORDS, SAMPLE = 4096, TOGETHER = 64 };

static int64_t words_of(int64_t bits) { return bits / WORD + (bits % WORD != 0); }

static int64_t blocks_of(int64_t bits) { return bits / BLOCK + (bits % BLOCK != 0); }

/* Ones in each byte. */
static inline uint64_t byte_sums(uint64_t word) {
  word -= (word >> 1) & UINT64_C(0x5555555555555555);
  word = (word & UINT64_C(0x3333333333333333)) + ((word >> 2) & UINT64_C(0x3333333333333333));
  return (word + (word >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
}

static inline int64_t count_ones(uint64_t word) { return (int64_t)((byte_sums(word) * EACH_BYTE) >> 56); }

/* How many bytes of `values`, all below 128, are at most `most`. */
static inline uint64_t bytes_at_most(uint64_t values, uint64_t most) {
  return (((((most * EACH_BYTE) | TOP_BITS) - values) & TOP_BITS) >> 7) * EACH_BYTE >> 56;
}

/* Place of one number `rank` of the word, which has more than that. */
static inline int64_t select_in_word(uint64_t word, uint64_t rank) {
  uint64_t ends = byte_sums(word) * EACH_BYTE;       /* ones up to the end of each byte */
  uint64_t byte = 8 * bytes_at_most(ends, rank);      /* first bit of the byte that has it */
  uint64_t in_byte = rank - (((ends << 8) >> byte) & 0xFF);
  uint64_t spread = (((word >> byte) & 0xFF) * EACH_BYTE) & DIAGONAL;       /* a bit to each byte */
  uint64_t each = ((((spread & ~TOP_BITS) + ~TOP_BITS) | spread) & TOP_BITS) >> 7; /* 1 where it is set */
  return (int64_t)(byte + bytes_at_most(each * EACH_BYTE, in_byte));
}

/* ---- making one ---------------------------------------------------------------------------------------------------- */

ur_status ur_bitmap_add(uint64_t *words, int64_t bits, const int64_t *rows, int64_t count) {
  for (int64_t i = 0; i < count;) {
    if (rows[i] < 0 || rows[i] >= bits) return UR_ARGUMENT;
    int64_t word = rows[i] / WORD;
    uint64_t set = 0;
    for (; i < count && rows[i] >= 0 && rows[i] < bits && rows[i] / WORD == word; i++) set |= UINT64_C(1) << (rows[i] % WORD);
    __atomic_fetch_or(&words[word], set, __ATOMIC_RELAXED); /* neighbours may be another thread's */
  }
  return UR_OK;
}

int64_t ur_bitmap_ones(const uint64_t *words, int64_t bits) {
  int64_t ones = 0;
  for (int64_t i = 0; i < words_of(bits); i++) ones += count_ones(words[i]);
  return ones;
}

int64_t ur_bitmap_directory(int64_t bits, int64_t ones) {
  if (bits < 0 || bits > MOST_BITS || ones < 0 || ones > bits) return -1;
  return 2 * (blocks_of(bits) + 1) + ones / SAMPLE + 2;
}

ur_status ur_bitmap_index(const uint64_t *words, int64_t bits, int64_t ones, uint64_t *directory) {
  if (ur_bitmap_directory(bits, ones) < 0) return UR_ARGUMENT;
  int64_t blocks = blocks_of(bits), count = words_of(bits), before = 0, samples = 0;
  uint64_t *sample = directory + 2 * (blocks + 1);
  for (int64_t block = 0; block < blocks; block++) {
    int64_t inside = 0;
    uint64_t parts = 0;
    for (int64_t i = 0; i < BLOCK_WORDS; i++) {
      if (i > 0) parts |= (uint64_t)inside << (9 * (i - 1));
      if (block * BLOCK_WORDS + i < count) inside += count_ones(words[block * BLOCK_WORDS + i]);
    }
    directory[2 * block] = (uint64_t)before;
    directory[2 * block + 1] = parts;
    before += inside;
    if (before > ones) return UR_ARGUMENT;
    for (; samples * SAMPLE < before; samples++) sample[samples] = (uint64_t)block;
  }
  directory[2 * blocks] = (uint64_t)before;
  directory[2 * blocks + 1] = 0;
  for (; samples < ones / SAMPLE + 2; samples++) sample[samples] = (uint64_t)(blocks > 0 ? blocks - 1 : 0);
  int tail = (int)(bits % WORD);
  if (tail != 0 && words[count - 1] >> tail != 0) return UR_ARGUMENT;
  return before == ones ? UR_OK : UR_ARGUMENT;
}

/* ---- asking it ----------------------------------------------------------------------------------------------------- */

/* Where one number `rank` is: among blocks from .. last, near `guess` where ones lie evenly. */
typedef struct {
  int64_t from, last, guess;
} stretch;

static inline stretch stretch_with(const ur_bitmap *bitmap, int64_t rank) {
  const uint64_t *sample = bitmap->directory + 2 * (blocks_of(bitmap->bits) + 1) + rank / SAMPLE;
  stretch s = {(int64_t)sample[0], (int64_t)sample[1], 0};
  int64_t along = rank % SAMPLE, blocks = s.last - s.from;
  s.guess = s.from + blocks / SAMPLE * along + blocks % SAMPLE * along / SAMPLE;
  return s;
}

/* The last block of the stretch that has no more than `rank` ones before it. Where ones lie evenly it is the guess or a
 * neighbour of it, which is seen without a branch that depends on them; else it is found in ever longer steps from the guess,
 * and then by halves. */
static inline int64_t block_of(const ur_bitmap *bitmap, int64_t rank, stretch s) {
  const uint64_t *before = bitmap->directory;
  int64_t near = s.guess - (s.guess > s.from); /* one entry more stands behind that of the last block */
  near += near < s.last && before[2 * (near + 1)] <= (uint64_t)rank;
  near += near < s.last && before[2 * (near + 1)] <= (uint64_t)rank;
  if (before[2 * near] <= (uint64_t)rank && (uint64_t)rank < before[2 * (near + 1)]) return near;
  int64_t low = s.guess, high = s.guess + 1;
  for (int64_t step = 1; low > s.from && before[2 * low] > (uint64_t)rank; step *= 2) {
    high = low;
    low = low - s.from > step ? low - step : s.from;
  }
  for (int64_t step = 1; high <= s.last && before[2 * high] <= (uint64_t)rank; step *= 2) {
    low = high;
    high = s.last - high >= step ? high + step : s.last + 1;
  }
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (before[2 * middle] <= (uint64_t)rank) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/* How many of the seven parts are at most `left`, which is below 512: Vigna's comparison of 9 bits at a time. */
static inline int64_t parts_at_most(uint64_t parts, uint64_t left) {
  uint64_t each = left * EACH_PART;
  uint64_t less = ((((each | TOP_PARTS) - (parts & ~TOP_PARTS)) | (each ^ parts)) ^ (parts & ~each)) & TOP_PARTS;
  return (int64_t)((less >> 8) * EACH_PART >> 54 & 7);
}

typedef int64_t in_word(uint64_t word, uint64_t rank);

ALWAYS_INLINE int64_t select_in_block(const ur_bitmap *bitmap, int64_t block, int64_t rank, in_word *select) {
  uint64_t left = (uint64_t)rank - bitmap->directory[2 * block], parts = bitmap->directory[2 * block + 1];
  int64_t word = parts_at_most(parts, left);
  left -= (parts >> (9 * (word - (word > 0)))) & (word > 0 ? 511U : 0U);
  /* in the last block, words beyond the end have as many ones before them as all: none is chosen while left < ones */
  int64_t at = block * BLOCK_WORDS + word;
  return at * WORD + select(bitmap->words[at], left);
}

int64_t ur_bitmap_one(const ur_bitmap *bitmap, int64_t rank) {
  if (rank < 0 || rank >= bitmap->ones) return -1;
  return select_in_block(bitmap, block_of(bitmap, rank, stretch_with(bitmap, rank)), rank, select_in_word);
}

/* At most TOGETHER ranks, in passes over them: what one needs is loaded while others are looked at. */
ALWAYS_INLINE void select_together(const ur_bitmap *bitmap, const int64_t *ranks, int64_t count, int64_t *rows,
                                   in_word *select) {
  stretch among[TOGETHER];
  int64_t blocks[TOGETHER];
  for (int64_t i = 0; i < count; i++) {
    among[i] = stretch_with(bitmap, ranks[i]);
    const uint64_t *entry = &bitmap->directory[2 * among[i].guess];
    __builtin_prefetch(entry + 2);
    if (among[i].guess > among[i].from) __builtin_prefetch(entry - 2);
  }
  for (int64_t i = 0; i < count; i++) {
    blocks[i] = block_of(bitmap, ranks[i], among[i]);
    __builtin_prefetch(&bitmap->words[blocks[i] * BLOCK_WORDS]);
  }
  for (int64_t i = 0; i < count; i++) rows[i] = select_in_block(bitmap, blocks[i], ranks[i], select);
}

static void select_plainly(const ur_bitmap *bitmap, const int64_t *ranks, int64_t count, int64_t *rows) {
  select_together(bitmap, ranks, count, rows, select_in_word);
}

#ifdef __x86_64__
/* A bit is put where one number `rank` of the word is: Pandey, Bender, Johnson, "A Fast x86 Implementation of Select", 2017. */
__attribute__((target("bmi2"))) static inline int64_t deposited(uint64_t word, uint64_t rank) {
  return __builtin_ctzll(_pdep_u64(UINT64_C(1) << rank, word));
}

__attribute__((target("bmi2"))) static void select_depositing(const ur_bitmap *bitmap, const int64_t *ranks, int64_t count,
                                                              int64_t *rows) {
  select_together(bitmap, ranks, count, rows, deposited);
}
#endif

ur_status ur_bitmap_select(const ur_bitmap *bitmap, const int64_t *ranks, int64_t count, int64_t *rows) {
  for (int64_t i = 0; i < count; i++)
    if (ranks[i] < 0 || ranks[i] >= bitmap->ones) return UR_ARGUMENT;
  void (*select)(const ur_bitmap *, const int64_t *, int64_t, int64_t *) = select_plainly;
#ifdef __x86_64__
  if (__builtin_cpu_supports("bmi2")) select = select_depositing;
#endif
  for (int64_t i = 0; i < count; i += TOGETHER)
    select(bitmap, ranks + i, count - i < TOGETHER ? count - i : TOGETHER, rows + i);
  return UR_OK;
}

ur_status ur_bitmap_range(const ur_bitmap *bitmap, int64_t start, int64_t count, int64_t *rows) {
  if (start < 0 || count < 0 || start > bitmap->ones || count > bitmap->ones - start) return UR_ARGUMENT;
  if (count == 0) return UR_OK;
  int64_t row = ur_bitmap_one(bitmap, start), word = row / WORD;
  uint64_t left = bitmap->words[word] & (UINT64_MAX << (row % WORD));
  for (int64_t i = 0; i < count; left &= left - 1) {
    while (left == 0) left = bitmap->words[++word];
    rows[i++] = word * WORD + __builtin_ctzll(left);
  }
  return UR_OK;
}

ur_status ur_bitmap_rank(const ur_bitmap *bitmap, const int64_t *rows, int64_t count, int64_t *ranks) {
  for (int64_t i = 0; i < count; i++) {
    int64_t row = rows[i];
    if (row < 0 || row > bitmap->bits) return UR_ARGUMENT;
    int64_t block = row / BLOCK, word = row % BLOCK / WORD;
    uint64_t before = bitmap->directory[2 * block];
    if (word > 0) before += (bitmap->directory[2 * block + 1] >> (9 * (word - 1))) & 511;
    if (row % WORD != 0) before += (uint64_t)count_ones(bitmap->words[row / WORD] & ~(UINT64_MAX << (row % WORD)));
    ranks[i] = (int64_t)before;
  }
  return UR_OK;
}

/* ---- its digest ---------------------------------------------------------------------------------------------------- */

typedef struct {
  const ur_bitmap *bitmap;
  int64_t start, step;
} ranks_from;

static void rows_as_bytes(const void *context, uint64_t offset, size_t bytes, void *to) {
  const ranks_from *ranks = context;
  int64_t *rows = to;
  int64_t first = (int64_t)(offset / sizeof *rows), count = (int64_t)(bytes / sizeof *rows);
  if (ranks->step == 1) {
    (void)ur_bitmap_range(ranks->bitmap, ranks->start + first, count, rows);
    return;
  }
  for (int64_t i = 0; i < count; i++) rows[i] = ranks->start + (first + i) * ranks->step;
  (void)ur_bitmap_select(ranks->bitmap, rows, count, rows);
}

ur_status ur_bitmap_digest(const ur_bitmap *bitmap, int64_t start, int64_t step, int64_t count, uint64_t seed,
                           uint64_t *digest) {
  int64_t way = 0, last = start;
  if (count < 0 || count > bitmap->ones) return UR_ARGUMENT;
  if (count > 0 && (__builtin_mul_overflow(count - 1, step, &way) || __builtin_add_overflow(start, way, &last)))
    return UR_ARGUMENT;
  if (count > 0 && (start < 0 || start >= bitmap->ones || last < 0 || last >= bitmap->ones)) return UR_ARGUMENT;
  ranks_from ranks = {bitmap, start, step};
  *digest = ur_xxh3_64_of(rows_as_bytes, &ranks, (uint64_t)count * sizeof(int64_t), seed);
  return UR_OK;
}
