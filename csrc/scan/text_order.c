/* scan/text_order.c - strings in the order of their bytes: a radix sort of seven bytes at a time.
 *
 * Whatever the strings, each byte of them is looked at a bounded number of times: many long strings that share their
 * first bytes cost no more than reading them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "unirecord_internal.h"

enum {
  STEP = 7,        /* bytes of a string in a key; its lowest byte says how many of them the string has */
  MORE = STEP + 1, /* there: all of them, and further ones */
  FEW = 12,        /* strings, and keys, that are put in their places one by one */
  KINDS = 256
};

typedef struct {
  uint64_t key; /* when the strings are in order: whether it is the same string as the one before */
  const uint8_t *text;
  uint64_t size, number;
} entry;

static uint64_t key_of(const entry *e, uint64_t depth) {
  uint64_t left = e->size - depth, found = 0; /* exact: all strings that come here have `depth` bytes */
  if (left > STEP) {
    memcpy(&found, e->text + depth, sizeof found);
    return (__builtin_bswap64(found) & ~(uint64_t)(KINDS - 1)) | MORE;
  }
  for (uint64_t i = 0; i < left; i++) found |= (uint64_t)e->text[depth + i] << (8 * (STEP - i));
  return found | left;
}

static int compare(const entry *a, const entry *b, uint64_t depth) {
  uint64_t shorter = a->size < b->size ? a->size : b->size;
  int order = shorter == depth ? 0 : memcmp(a->text + depth, b->text + depth, (size_t)(shorter - depth));
  return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

/* How many bytes after the first `depth`, which are the same, all strings share. */
static uint64_t shared(const entry *e, uint64_t count, uint64_t depth) {
  uint64_t most = e->size - depth;
  for (uint64_t i = 1; i < count && most != 0; i++) {
    uint64_t here = e[i].size - depth < most ? e[i].size - depth : most, same = 0;
    while (same < here && e[i].text[depth + same] == e->text[depth + same]) same++;
    most = same;
  }
  return most;
}

static void swap(entry *a, entry *b) {
  entry kept = *a;
  *a = *b;
  *b = kept;
}

/* Puts entries in the order of their keys, which differ in the byte at `shift` and those below it at most. */
static void sort_keys(entry *e, uint64_t count, int shift) {
  if (count <= FEW) {
    for (uint64_t i = 1; i < count; i++) {
      entry kept = e[i];
      uint64_t at = i;
      for (; at > 0 && e[at - 1].key > kept.key; at--) e[at] = e[at - 1];
      e[at] = kept;
    }
    return;
  }
  uint64_t next[KINDS] = {0}, stops[KINDS], stop = 0;
  for (uint64_t i = 0; i < count; i++) next[e[i].key >> shift & (KINDS - 1)]++;
  for (int kind = 0; kind < KINDS; kind++) {
    stops[kind] = stop + next[kind]; /* exact: at most count */
    next[kind] = stop;
    stop = stops[kind];
  }
  for (int kind = 0; kind < KINDS; kind++)
    while (next[kind] < stops[kind]) {
      int belongs = (int)(e[next[kind]].key >> shift & (KINDS - 1));
      if (belongs == kind)
        next[kind]++;
      else
        swap(&e[next[kind]], &e[next[belongs]++]);
    }
  if (shift == 0) return;
  uint64_t start = 0;
  for (int kind = 0; kind < KINDS; start = stops[kind++])
    if (stops[kind] - start > 1) sort_keys(e + start, stops[kind] - start, shift - 8);
}

static void sort_few(entry *e, uint64_t count, uint64_t depth) {
  for (uint64_t i = 1; i < count; i++) {
    entry kept = e[i];
    uint64_t at = i;
    for (; at > 0 && compare(&e[at - 1], &kept, depth) > 0; at--) e[at] = e[at - 1];
    e[at] = kept;
  }
  for (uint64_t i = count; i-- > 1;) e[i].key = compare(&e[i - 1], &e[i], depth) == 0;
  e->key = 0;
}

/* Puts strings that share their first `depth` bytes in order, and says in their keys which are the same as the one before;
 * the first is not. It calls itself for all strings that are not told apart by a key but the most of them, so that it does
 * not go deep. */
static void sort_strings(entry *e, uint64_t count, uint64_t depth) {
  while (count > FEW) {
    depth += shared(e, count, depth); /* exact: at most the size of each string, as below */
    uint64_t differing = 0;
    for (uint64_t i = 0; i < count; i++) differing |= (e[i].key = key_of(&e[i], depth)) ^ e->key;
    if (differing != 0) sort_keys(e, count, (63 - __builtin_clzll(differing)) / 8 * 8);
    entry *most = e;
    uint64_t most_count = 0;
    for (uint64_t start = 0, stop; start < count; start = stop) {
      entry *run = e + start;
      uint64_t key = run->key, run_count;
      for (stop = start + 1; stop < count && e[stop].key == key; stop++) continue;
      run_count = stop - start;
      if ((key & (KINDS - 1)) != MORE || run_count == 1) {
        for (uint64_t i = 0; i < run_count; i++) run[i].key = i != 0;
        continue;
      }
      if (run_count > most_count) {
        entry *before = most;
        uint64_t before_count = most_count;
        most = run;
        most_count = run_count;
        run = before;
        run_count = before_count;
      }
      if (run_count != 0) sort_strings(run, run_count, depth + STEP);
    }
    if (most_count == 0) return;
    e = most;
    count = most_count;
    depth += STEP;
  }
  sort_few(e, count, depth);
}

ur_status ur_strings_order(const ur_string_piece *pieces, uint64_t piece_count, uint64_t *order, uint64_t *ranks) {
  uint64_t count = 0, number = 0;
  for (uint64_t p = 0; p < piece_count; p++)
    if (!ur_add(count, pieces[p].count, &count)) return UR_NO_MEMORY;
  if (count == 0) return UR_OK;
  entry *entries = calloc((size_t)count, sizeof *entries);
  if (entries == NULL) return UR_NO_MEMORY;
  for (uint64_t p = 0; p < piece_count; p++)
    for (uint64_t i = 0; i < pieces[p].count; i++, number++)
      entries[number] = (entry){0, pieces[p].data + pieces[p].starts[i], pieces[p].stops[i] - pieces[p].starts[i], number};
  sort_strings(entries, count, 0);
  uint64_t rank = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (entries[i].key == 0) rank = i;
    if (order != NULL) order[i] = entries[i].number;
    if (ranks != NULL) ranks[entries[i].number] = rank;
  }
  free(entries);
  return UR_OK;
}

void ur_strings_take(const uint8_t *data, const uint64_t *ends, const uint64_t *chosen, uint64_t count, uint8_t *content,
                     uint64_t *content_ends) {
  enum { AHEAD = 16 };
  uint64_t end = 0;
  content_ends[0] = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (i + AHEAD < count) __builtin_prefetch(data + ends[chosen[i + AHEAD]]);
    uint64_t start = ends[chosen[i]], size = ends[chosen[i] + 1] - start;
    memcpy(content + end, data + start, (size_t)size);
    content_ends[i + 1] = end += size; /* exact: the caller has made room for all */
  }
}
