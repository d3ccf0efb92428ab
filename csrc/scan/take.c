/* scan/take.c - writes the numbers of marked rows: eight at a time where they lie close, one by one where they do not. */
#include <string.h>

#include "base/wide.h"
#include "unirecord_internal.h"

enum { FEW = 4 }; /* of the 64 rows of a word: their bits are looked for one by one */

/* For each byte of marks: the places of its ones, and how many there are. */
typedef struct {
  uint8_t places[256][8], ones[256];
} byte_places;

static void find_places(byte_places *of) {
  memset(of, 0, sizeof *of);
  for (int byte = 0; byte < 256; byte++)
    for (int bit = 0; bit < 8; bit++)
      if (byte >> bit & 1) of->places[byte][of->ones[byte]++] = (uint8_t)bit;
}

static inline int64_t take_some(uint64_t word, int64_t first, int64_t *rows) {
  int64_t found = 0;
  for (; word != 0; word &= word - 1) rows[found++] = first + __builtin_ctzll(word);
  return found;
}

/* The rows of a word of which many are marked; writes to 64 places. */
static inline __attribute__((always_inline)) int64_t take_many(const byte_places *of, uint64_t word, int64_t first,
                                                               int64_t *rows) {
  int64_t found = 0;
  for (int at = 0; at < 64; at += 8) {
    uint8_t byte = (uint8_t)(word >> at), places[8];
    memcpy(places, of->places[byte], sizeof places);
    for (int j = 0; j < 8; j++) rows[found + j] = first + at + places[j];
    found += of->ones[byte];
  }
  return found;
}

/* The rows of a run whose marks are set; writes nothing beyond `room`, which is how many they are. */
WIDE static void take_marked(const byte_places *of, const uint64_t *marks, int64_t first, int64_t room, int64_t *rows) {
  for (; room > 0; first += 64) {
    uint64_t word = *marks++, less = word;
    int64_t found = 0;
    if (word == 0) continue;
    for (int i = 0; i < FEW; i++) less &= less - 1;
    if (less == 0 || room < 64) {
      found = take_some(word, first, rows);
    } else if (word == UINT64_MAX) {
      for (; found < 64; found++) rows[found] = first + found;
    } else {
      found = take_many(of, word, first, rows);
    }
    rows += found;
    room -= found;
  }
}

WIDE static void take_all(int64_t first, int64_t count, int64_t *rows) {
  for (int64_t i = 0; i < count; i++) rows[i] = first + i;
}

void ur_scan_take(const ur_scan_run *runs, int64_t run_count, int64_t *next, const uint64_t *marks, const int64_t *places,
                  int64_t base, int64_t *rows) {
  byte_places of;
  find_places(&of);
  for (int64_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < run_count;) {
    int64_t room = places[i + 1] - places[i], first = runs[i].start + base, *into = rows + places[i];
    if (runs[i].whole) {
      take_all(first, room, into);
    } else {
      take_marked(&of, marks + runs[i].marks, first, room, into);
    }
  }
}
