/* scan/scan.c - tries conditions on flat columns: chunks of rows, each condition over the whole chunk, masks in L1 cache.
 *
 * The loops over values are branch-free, so that the compiler can vectorise them. A chunk's masks hold one byte a row,
 * 0 or 1; 16 masks of 1,024 rows are 16 KiB of stack, which small threads have, and 8 KiB what is unpacked of one.
 */
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/layout.h"
#include "base/packed.h"
#include "base/wide.h"
#include "scan/numbers.h"
#include "scan/words.h"
#include "unirecord_internal.h"

#define TRIED_ROWS 1024

/* ---- ranges */

#define DEFINE_RANGE(name, T)                                                                               \
  WIDE static void name(const uint8_t *data, int64_t n, T low, T high, uint8_t flip, uint8_t *out) {        \
    for (int64_t i = 0; i < n; i++) {                                                                       \
      T value;                                                                                              \
      memcpy(&value, data + (size_t)i * sizeof value, sizeof value);                                        \
      out[i] = (uint8_t)(((value >= low) & (value <= high)) ^ flip);                                        \
    }                                                                                                       \
  }

DEFINE_RANGE(range_i8, int8_t)
DEFINE_RANGE(range_u8, uint8_t)
DEFINE_RANGE(range_i16, int16_t)
DEFINE_RANGE(range_u16, uint16_t)
DEFINE_RANGE(range_i32, int32_t)
DEFINE_RANGE(range_u32, uint32_t)
DEFINE_RANGE(range_i64, int64_t)
DEFINE_RANGE(range_u64, uint64_t)
DEFINE_RANGE(range_f32, float)
DEFINE_RANGE(range_f64, double)

/* A float16 as an integer of the same order: its magnitude, with its sign. NaN lies beyond both infinities. */
static int32_t half_order(uint32_t bits) {
  int32_t magnitude = (int32_t)(bits & 0x7fff);
  return bits & 0x8000 ? -magnitude : magnitude;
}

WIDE static void range_f16(const uint8_t *data, int64_t n, int32_t low, int32_t high, uint8_t flip, uint8_t *out) {
  for (int64_t i = 0; i < n; i++) {
    uint16_t bits;
    memcpy(&bits, data + (size_t)i * sizeof bits, sizeof bits);
    int32_t value = half_order(bits);
    out[i] = (uint8_t)(((value >= low) & (value <= high)) ^ flip);
  }
}

static float float_of(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}

static double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static size_t width_of(int32_t type) {
  switch (type) {
    case UR_TYPE_BOOL: case UR_TYPE_INT8: case UR_TYPE_UINT8: return 1;
    case UR_TYPE_INT16: case UR_TYPE_UINT16: case UR_TYPE_FLOAT16: return 2;
    case UR_TYPE_INT32: case UR_TYPE_UINT32: case UR_TYPE_FLOAT32: return 4;
    case UR_TYPE_INT64: case UR_TYPE_UINT64: case UR_TYPE_FLOAT64: return 8;
    default: return 0;
  }
}

static void try_range(const ur_scan_step *s, const uint8_t *data, int64_t n, uint8_t *out) {
  int64_t low = (int64_t)s->low, high = (int64_t)s->high;
  uint8_t flip = s->negated != 0;
  switch (s->type) {
    case UR_TYPE_INT8: range_i8(data, n, (int8_t)low, (int8_t)high, flip, out); break;
    case UR_TYPE_BOOL: case UR_TYPE_UINT8: range_u8(data, n, (uint8_t)low, (uint8_t)high, flip, out); break;
    case UR_TYPE_INT16: range_i16(data, n, (int16_t)low, (int16_t)high, flip, out); break;
    case UR_TYPE_UINT16: range_u16(data, n, (uint16_t)low, (uint16_t)high, flip, out); break;
    case UR_TYPE_INT32: range_i32(data, n, (int32_t)low, (int32_t)high, flip, out); break;
    case UR_TYPE_UINT32: range_u32(data, n, (uint32_t)low, (uint32_t)high, flip, out); break;
    case UR_TYPE_INT64: range_i64(data, n, low, high, flip, out); break;
    case UR_TYPE_UINT64: range_u64(data, n, s->low, s->high, flip, out); break;
    case UR_TYPE_FLOAT16:
      range_f16(data, n, half_order((uint32_t)s->low), half_order((uint32_t)s->high), flip, out);
      break;
    case UR_TYPE_FLOAT32: range_f32(data, n, float_of(s->low), float_of(s->high), flip, out); break;
    default: range_f64(data, n, double_of(s->low), double_of(s->high), flip, out); break;
  }
}

/* A range of packed numbers is one of what they are without their base. */
typedef struct {
  uint64_t low, high; /* what passes; nothing if low > high */
} packed_range;

static packed_range range_of(const ur_scan_step *s) {
  uint64_t base = s->packed->base, most = (UINT64_C(1) << s->packed->bits) - 1, low = 0, high = 0;
  bool is_signed = s->type % 2 == 0; /* int8 to int64 */
  bool over = is_signed ? (int64_t)s->high < (int64_t)base : s->high < base;
  if (over) return (packed_range){1, 0};
  bool under = is_signed ? (int64_t)s->low < (int64_t)base : s->low < base;
  low = under ? 0 : s->low - base;
  high = s->high - base;
  return (packed_range){low, high < most ? high : most};
}

/* What the last step of a chunk has unpacked, for the next one. */
typedef struct {
  const ur_packed_numbers *of; /* or NULL */
  uint64_t first;
  uint8_t room[TRIED_ROWS * 8];
} unpacked;

/* Unpacked no wider than needed, and without their base. */
static void try_packed_range(const ur_scan_step *s, uint64_t first, int64_t n, uint8_t flip, unpacked *last, uint8_t *out) {
  ur_packed_numbers raw = *s->packed;
  uint8_t *room = last->room;
  packed_range range = range_of(s);
  uint32_t width = raw.bits <= 8 ? 1 : raw.bits <= 16 ? 2 : raw.bits <= 32 ? 4 : 8;
  raw.base = 0;
  if (range.low > range.high) {
    memset(out, flip, (size_t)n);
    return;
  }
  if (last->of != s->packed || last->first != first) ur_packed_range(&raw, first, n, width, room);
  last->of = s->packed;
  last->first = first;
  switch (width) {
    case 1: range_u8(room, n, (uint8_t)range.low, (uint8_t)range.high, flip, out); break;
    case 2: range_u16(room, n, (uint16_t)range.low, (uint16_t)range.high, flip, out); break;
    case 4: range_u32(room, n, (uint32_t)range.low, (uint32_t)range.high, flip, out); break;
    default: range_u64(room, n, range.low, range.high, flip, out); break;
  }
}

/* ---- tables of codes */

#define DEFINE_TABLE(name, T)                                                                               \
  static int64_t name(const uint8_t *data, int64_t n, const uint8_t *table, uint64_t entries, uint8_t flip, \
                      uint8_t *out) {                                                                       \
    for (int64_t i = 0; i < n; i++) {                                                                       \
      T code;                                                                                               \
      memcpy(&code, data + (size_t)i * sizeof code, sizeof code);                                           \
      if (code >= entries) return i;                                                                        \
      out[i] = (uint8_t)((table[code] != 0) ^ flip);                                                        \
    }                                                                                                       \
    return n;                                                                                               \
  }

DEFINE_TABLE(table_u8, uint8_t)
DEFINE_TABLE(table_u16, uint16_t)
DEFINE_TABLE(table_u32, uint32_t)

/* Returns n, or the place of the first code without an entry. */
static int64_t try_table(const ur_scan_step *s, const uint8_t *data, int64_t n, uint8_t *out) {
  uint8_t flip = s->negated != 0;
  if (s->type == UR_TYPE_UINT8) return table_u8(data, n, s->table, s->table_entries, flip, out);
  if (s->type == UR_TYPE_UINT16) return table_u16(data, n, s->table, s->table_entries, flip, out);
  return table_u32(data, n, s->table, s->table_entries, flip, out);
}

static int64_t try_packed_table(const ur_scan_step *s, uint64_t first, int64_t n, uint8_t *out) {
  static _Thread_local uint8_t room[TRIED_ROWS * 4]; /* not on the stack */
  ur_packed_range(s->packed, first, n, (uint32_t)width_of(s->type), room);
  return try_table(s, room, n, out);
}

/* ---- the other conditions */

/* One bit of a byte for each byte of a word: bit i is left alone in byte i, carried to its top, and brought down. */
static uint64_t spread_bits(uint8_t bits) {
  uint64_t word = (bits * UINT64_C(0x0101010101010101)) & UINT64_C(0x8040201008040201);
  return ((word + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7) & UINT64_C(0x0101010101010101);
}

static void try_bits(const ur_scan_step *s, int64_t row, int64_t n, uint8_t *out) {
  const uint8_t *bits = s->data;
  uint64_t at = (uint64_t)(row - s->first), flip = s->negated ? UINT64_C(0x0101010101010101) : 0;
  int64_t i = 0;
  for (; i < n && ((at + (uint64_t)i) & 7) != 0; i++)
    out[i] = (uint8_t)(((bits[(at + (uint64_t)i) >> 3] >> ((at + (uint64_t)i) & 7)) & 1) ^ (flip & 1));
  for (; i + 8 <= n; i += 8) {
    uint64_t word = spread_bits(bits[(at + (uint64_t)i) >> 3]) ^ flip;
    memcpy(out + i, &word, sizeof word);
  }
  for (; i < n; i++)
    out[i] = (uint8_t)(((bits[(at + (uint64_t)i) >> 3] >> ((at + (uint64_t)i) & 7)) & 1) ^ (flip & 1));
}

WIDE static void try_bytes(const uint8_t *data, int64_t n, uint8_t flip, uint8_t *out) {
  for (int64_t i = 0; i < n; i++) out[i] = (uint8_t)((data[i] != 0) ^ flip);
}

static void try_rows(const ur_scan_step *s, int64_t row, int64_t n, uint8_t *out) {
  int64_t low = (int64_t)s->low, high = (int64_t)s->high;
  uint8_t flip = s->negated != 0;
  for (int64_t i = 0; i < n; i++) out[i] = (uint8_t)(((row + i >= low) & (row + i <= high)) ^ flip);
}

WIDE static void merge(int32_t combine, const uint8_t *from, int64_t n, uint8_t *into) {
  if (combine == UR_SCAN_AND) {
    for (int64_t i = 0; i < n; i++) into[i] &= from[i];
  } else {
    for (int64_t i = 0; i < n; i++) into[i] |= from[i];
  }
}

/* Tries one step over rows [row, row + n); returns n, or the place where the data is corrupt. */
static int64_t try_step(const ur_scan_step *s, int64_t row, int64_t n, uint8_t (*masks)[TRIED_ROWS], unpacked *last) {
  uint8_t outcome[TRIED_ROWS];
  uint8_t *out = s->combine == UR_SCAN_SET ? masks[s->target] : outcome;
  const uint8_t *data = s->data;
  int64_t place = n;
  switch (s->op) {
    case UR_SCAN_RANGE:
      if (s->packed != NULL) try_packed_range(s, (uint64_t)(row - s->first), n, s->negated != 0, last, out);
      else try_range(s, data + (size_t)(row - s->first) * width_of(s->type), n, out);
      break;
    case UR_SCAN_TABLE:
      if (s->packed != NULL) place = try_packed_table(s, (uint64_t)(row - s->first), n, out);
      else place = try_table(s, data + (size_t)(row - s->first) * width_of(s->type), n, out);
      break;
    case UR_SCAN_BITS: try_bits(s, row, n, out); break;
    case UR_SCAN_BYTES: try_bytes(data + (row - s->first), n, s->negated != 0, out); break;
    case UR_SCAN_ROWS: try_rows(s, row, n, out); break;
    case UR_SCAN_NUMBERS: ur_try_numbers(s, row, n, out); break;
    default: try_bytes(masks[s->mask], n, s->negated != 0, out); break;
  }
  if (place == n && s->combine != UR_SCAN_SET) merge(s->combine, out, n, masks[s->target]);
  return place;
}

/* ---- marking the rows */

/* How many bytes of a chunk's mask are 1: eight sums side by side, of at most TRIED_ROWS / 8 each, which fit in bytes. */
WIDE static int64_t count_true(const uint8_t *mask, int64_t n) {
  uint64_t sums = 0, pairs;
  int64_t i = 0, rest = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    memcpy(&word, mask + i, sizeof word);
    sums += word;
  }
  for (; i < n; i++) rest += mask[i];
  pairs = (sums & UINT64_C(0x00ff00ff00ff00ff)) + ((sums >> 8) & UINT64_C(0x00ff00ff00ff00ff));
  return rest + (int64_t)((pairs * UINT64_C(0x0001000100010001)) >> 48);
}

_Static_assert(TRIED_ROWS / 8 <= UINT8_MAX, "the sums of a chunk fit in bytes");

/* The lowest bits of 64 bytes, the first one's the lowest. */
static inline uint64_t low_bits(const uint8_t *mask) {
  uint64_t bits = 0;
#ifdef __SSE2__
  for (int j = 0; j < 64; j += 16) {
    __m128i sixteen = _mm_slli_epi16(_mm_loadu_si128((const __m128i *)(const void *)(mask + j)), 7);
    bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(sixteen) << j;
  }
#else
  for (int j = 0; j < 64; j += 8) { /* a product brings those of a word to one byte */
    uint64_t word;
    memcpy(&word, mask + j, sizeof word);
    bits |= (word * UINT64_C(0x0102040810204080)) >> 56 << j;
  }
#endif
  return bits;
}

/* Writes a chunk's mask as bits. */
static void mark_true(const uint8_t *mask, int64_t n, uint64_t *marks) {
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) marks[i / 64] = low_bits(mask + i);
  if (i == n) return;
  marks[i / 64] = 0;
  for (int64_t j = i; j < n; j++) marks[i / 64] |= (uint64_t)mask[j] << (j - i);
}

static int packing_is_sound(const ur_packed_numbers *packed, int32_t type) {
  bool whole = type >= UR_TYPE_BOOL && type <= UR_TYPE_UINT64;
  return packed == NULL || (whole && packed->bits > 0 && packed->bits <= UR_MAX_PACKED_BITS);
}

static int step_is_sound(const ur_scan_step *s) {
  if (s->target < 0 || s->target >= UR_SCAN_MASKS || s->mask < 0 || s->mask >= UR_SCAN_MASKS) return 0;
  if (s->combine < UR_SCAN_SET || s->combine > UR_SCAN_OR) return 0;
  if ((s->op == UR_SCAN_RANGE || s->op == UR_SCAN_TABLE) && !packing_is_sound(s->packed, s->type)) return 0;
  if (s->op == UR_SCAN_RANGE) return width_of(s->type) != 0;
  if (s->op == UR_SCAN_TABLE) return s->type == UR_TYPE_UINT8 || s->type == UR_TYPE_UINT16 || s->type == UR_TYPE_UINT32;
  if (s->op == UR_SCAN_NUMBERS) return ur_numbers_are_sound(s);
  return s->op >= UR_SCAN_BITS && s->op <= UR_SCAN_MASK;
}

/* Tries a run chunk by chunk; returns how many rows pass, or -1 with *broken = the row with corrupt data. */
static int64_t try_run(const ur_scan_step *steps, int32_t step_count, int64_t start, int64_t stop, uint64_t *marks,
                       int64_t *broken) {
  uint8_t masks[UR_SCAN_MASKS][TRIED_ROWS];
  int64_t found = 0, tried = 0;
  /* Not on the stack, of which there may be little. */
  static _Thread_local unpacked last;
  last.of = NULL;
  if (step_count == 1 && steps[0].op == UR_SCAN_RANGE && steps[0].packed != NULL) {
    packed_range range = range_of(&steps[0]);
    tried = ur_try_packed_words(&steps[0], range.low, range.high, start, stop - start, marks, &found);
  } else if (step_count == 1) {
    tried = ur_try_words(&steps[0], start, stop - start, marks, &found);
  }
  for (int64_t row = start + tried; row < stop; row += TRIED_ROWS) { /* exact: rows of the run */
    int64_t n = stop - row < TRIED_ROWS ? stop - row : TRIED_ROWS;
    for (int32_t s = 0; s < step_count; s++) {
      int64_t place = try_step(&steps[s], row, n, masks, &last);
      if (place < n) {
        *broken = row + place; /* exact: a row of the run */
        return -1;
      }
    }
    found += count_true(masks[0], n);
    if (marks) mark_true(masks[0], n, marks + (row - start) / 64);
  }
  return found;
}

_Static_assert(TRIED_ROWS % 64 == 0, "a chunk's marks are whole words");

ur_status ur_scan_mark(const ur_scan_step *steps, int32_t step_count, const ur_scan_run *runs, int64_t run_count,
                       int64_t *next, uint64_t *marks, int64_t *counts, int64_t *broken) {
  if (step_count < 1) return UR_ARGUMENT;
  for (int32_t s = 0; s < step_count; s++) {
    if (!step_is_sound(&steps[s])) return UR_ARGUMENT;
  }
  for (int64_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < run_count;) {
    const ur_scan_run *run = &runs[i];
    counts[i] = run->stop - run->start;
    if (run->whole) continue;
    counts[i] = try_run(steps, step_count, run->start, run->stop, marks ? marks + run->marks : NULL, broken);
    if (counts[i] < 0) {
      __atomic_store_n(next, run_count, __ATOMIC_RELAXED); /* the others need not go on */
      return UR_CORRUPT;
    }
  }
  return UR_OK;
}
