/* scan/text.c - tries a test on each of many strings: between two bounds, or like a pattern. */
#include <string.h>

#include "unirecord_internal.h"

enum { BYTE = 0, ONE = 1, MANY = 2 };

static int compare(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes) {
  uint64_t both = a_bytes < b_bytes ? a_bytes : b_bytes;
  int order = both ? memcmp(a, b, (size_t)both) : 0;
  if (order) return order;
  return a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

static int is_between(const ur_text_test *t, const uint8_t *text, uint64_t bytes) {
  if (compare(text, bytes, t->low, t->low_bytes) < 0) return 0;
  return t->open || compare(text, bytes, t->high, t->high_bytes) < 0;
}

/* The place after the character that starts at `at` < bytes: UTF-8's continuation bytes are 10xxxxxx. */
static uint64_t next_character(const uint8_t *text, uint64_t bytes, uint64_t at) {
  at++;
  while (at < bytes && (text[at] & 0xc0) == 0x80) at++;
  return at;
}

/* The first place from `at` on where element `p`, which follows a MANY, can match; `bytes` if there is none. */
static uint64_t next_try(const ur_text_test *t, uint64_t p, const uint8_t *text, uint64_t bytes, uint64_t at) {
  if (at >= bytes || t->high[p] != BYTE) return at;
  const uint8_t *found = memchr(text + at, t->low[p], (size_t)(bytes - at));
  return found ? (uint64_t)(found - text) : bytes;
}

/* Only the last MANY is ever tried again: an earlier one cannot do better. */
static int is_like(const ur_text_test *t, const uint8_t *text, uint64_t bytes) {
  uint64_t p = 0, at = 0, retry_p = 0, retry_at = 0;
  int can_retry = 0;
  while (at < bytes) {
    if (p < t->low_bytes && t->high[p] == MANY) {
      if (++p == t->low_bytes) return 1;
      at = next_try(t, p, text, bytes, at);
      retry_p = p;
      retry_at = at;
      can_retry = 1;
    } else if (p < t->low_bytes && t->high[p] == ONE) {
      at = next_character(text, bytes, at);
      p++;
    } else if (p < t->low_bytes && t->low[p] == text[at]) {
      at++;
      p++;
    } else {
      if (!can_retry) return 0;
      retry_at = next_try(t, retry_p, text, bytes, next_character(text, bytes, retry_at));
      at = retry_at;
      p = retry_p;
    }
  }
  while (p < t->low_bytes && t->high[p] == MANY) p++;
  return p == t->low_bytes;
}

ur_status ur_scan_text(const uint64_t *offsets, const uint8_t *bytes, uint64_t size, int64_t count,
                       const ur_text_test *test, uint8_t *mask) {
  for (int64_t i = 0; i < count; i++) {
    uint64_t start, stop;
    memcpy(&start, offsets + i, sizeof start);
    memcpy(&stop, offsets + i + 1, sizeof stop);
    if (start > stop || stop > size) return UR_CORRUPT;
    const uint8_t *text = bytes + start; /* exact: start <= size */
    uint64_t length = stop - start;
    mask[i] = (uint8_t)(test->op == UR_TEXT_LIKE ? is_like(test, text, length) : is_between(test, text, length));
  }
  return UR_OK;
}
