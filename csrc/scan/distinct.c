/* scan/distinct.c - the distinct strings of a column, numbered in the order in which they are met: a hash table.
 *
 * Strings may be chosen by whoever wants it to be slow. Strings whose hashes fall on one place form a run; the table is
 * given up when a run becomes longer than chance makes it, so that time goes with the number of strings.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "unirecord_internal.h"

/* At most half of the places are taken. Of a million strings the longest run is then about 70 long. */
enum { LONGEST_RUN = 1024, FIRST_PLACES = 1024, FIRST_BYTES = 1 << 14, AT_ONCE = 64 };

typedef struct {
  uint32_t print; /* the lower half of the hash, which says where it belongs, so that a table grows from place to place */
  uint32_t next;  /* the number of the string + 1; 0: nobody */
} place;

struct ur_distinct {
  place *places;
  uint64_t place_count; /* a power of two */
  uint8_t *content;     /* the strings, one after the other */
  uint64_t *ends;       /* count + 1 of them */
  uint64_t content_room, end_room;
  uint64_t count, most_count, most_bytes;
};

ur_status ur_distinct_new(uint64_t most_count, uint64_t most_bytes, ur_distinct **set) {
  *set = NULL;
  if (most_count > INT32_MAX || most_bytes > INT64_MAX) return UR_ARGUMENT;
  ur_distinct *made = calloc(1, sizeof *made);
  if (made == NULL) return UR_NO_MEMORY;
  *made = (ur_distinct){.place_count = FIRST_PLACES, .content_room = FIRST_BYTES, .end_room = FIRST_PLACES / 2 + 1,
                        .most_count = most_count, .most_bytes = most_bytes};
  made->places = calloc((size_t)made->place_count, sizeof *made->places);
  made->content = malloc((size_t)made->content_room);
  made->ends = calloc((size_t)made->end_room, sizeof *made->ends);
  if (made->places == NULL || made->content == NULL || made->ends == NULL) {
    ur_distinct_release(made);
    return UR_NO_MEMORY;
  }
  *set = made;
  return UR_OK;
}

void ur_distinct_release(ur_distinct *set) {
  if (set == NULL) return;
  free(set->places);
  free(set->content);
  free(set->ends);
  free(set);
}

static place *place_at(const ur_distinct *set, uint64_t number) { return &set->places[number & (set->place_count - 1)]; }

static uint32_t print_of(const uint8_t *data, const uint64_t *ends) {
  return (uint32_t)ur_xxh3_64(data + ends[0], (size_t)(ends[1] - ends[0]), 0);
}

/* The place of a string of this print, or the free one where it would go; NULL when the run is too long. */
static place *place_of(const ur_distinct *set, const uint8_t *string, uint64_t size, uint32_t print) {
  for (uint64_t run = 0; run < LONGEST_RUN; run++) {
    place *at = place_at(set, print + run); /* exact: below 2^33 */
    if (at->next == 0) return at;
    if (at->print != print) continue;
    uint64_t start = set->ends[at->next - 1];
    if (set->ends[at->next] - start == size && memcmp(set->content + start, string, (size_t)size) == 0) return at;
  }
  return NULL;
}

/* Takes places over that are all free, more than there were. False when a run becomes too long. */
static bool move(ur_distinct *set, place *places, uint64_t place_count) {
  place *before = set->places;
  uint64_t before_count = set->place_count;
  bool room = true;
  set->places = places;
  set->place_count = place_count;
  for (uint64_t i = 0; i < before_count && room; i++) {
    if (before[i].next == 0) continue;
    uint64_t run = 0;
    while (run < LONGEST_RUN && place_at(set, before[i].print + run)->next != 0) run++; /* exact: below 2^33 */
    room = run < LONGEST_RUN;
    if (room) *place_at(set, before[i].print + run) = before[i]; /* exact: the same */
  }
  free(before);
  return room;
}

/* UR_OK with *full set when a run has become too long. */
static ur_status make_room(ur_distinct *set, uint64_t size, int32_t *full) {
  uint64_t needed;
  if (!ur_add(set->ends[set->count], size, &needed)) return UR_NO_MEMORY;
  if (needed > set->content_room) {
    uint64_t room = needed > 2 * set->content_room ? needed : 2 * set->content_room; /* exact: at most twice INT64_MAX */
    uint8_t *content = realloc(set->content, (size_t)room);
    if (content == NULL) return UR_NO_MEMORY;
    set->content = content;
    set->content_room = room;
  }
  if (set->count + 1 < set->end_room) return UR_OK;
  uint64_t place_count = 2 * set->place_count, end_room = place_count / 2 + 1; /* exact: counts fit 32 bits */
  uint64_t *ends = realloc(set->ends, (size_t)end_room * sizeof *ends);
  if (ends == NULL) return UR_NO_MEMORY;
  set->ends = ends;
  place *places = calloc((size_t)place_count, sizeof *places);
  if (places == NULL) return UR_NO_MEMORY;
  set->end_room = end_room;
  *full = !move(set, places, place_count);
  return UR_OK;
}

/* Takes in a string that may be there already; *number = its number. UR_OK with *full as `ur_distinct_add` says. */
static ur_status enter(ur_distinct *set, const uint8_t *string, uint64_t size, uint32_t print, uint32_t *number,
                       int32_t *full) {
  place *at = place_of(set, string, size, print);
  if (at != NULL && at->next != 0) {
    *number = at->next - 1;
    return UR_OK;
  }
  uint64_t left = set->most_bytes - set->ends[set->count];
  *full = at == NULL || set->count == set->most_count || size > left;
  if (*full) return UR_OK;
  uint64_t places = set->place_count;
  ur_status status = make_room(set, size, full);
  if (status != UR_OK || *full) return status;
  if (set->place_count != places) at = place_of(set, string, size, print);
  *full = at == NULL;
  if (*full) return UR_OK;
  uint64_t start = set->ends[set->count];
  if (size != 0) memcpy(set->content + start, string, (size_t)size);
  *number = (uint32_t)set->count++;
  set->ends[set->count] = start + size; /* exact: make_room has added them */
  *at = (place){print, (uint32_t)set->count};
  return UR_OK;
}

ur_status ur_distinct_add(ur_distinct *set, const uint8_t *data, const uint64_t *ends, const uint8_t *valid,
                          uint64_t count, uint32_t *numbers, int32_t *full) {
  uint32_t prints[AT_ONCE];
  *full = 0;
  for (uint64_t first = 0; first < count; first += AT_ONCE) {
    uint64_t few = count - first < AT_ONCE ? count - first : AT_ONCE;
    for (uint64_t i = 0; i < few; i++) { /* memory is fetched for all of them at once: most places are in no cache */
      prints[i] = print_of(data, &ends[first + i]);
      __builtin_prefetch(place_at(set, prints[i]));
    }
    for (uint64_t i = 0; i < few; i++) {
      uint32_t next = place_at(set, prints[i])->next;
      if (next != 0) __builtin_prefetch(&set->ends[next - 1]);
    }
    for (uint64_t i = 0; i < few; i++) {
      numbers[first + i] = UINT32_MAX;
      if (valid != NULL && valid[first + i] == 0) continue;
      const uint64_t *end = &ends[first + i];
      ur_status status = enter(set, data + end[0], end[1] - end[0], prints[i], &numbers[first + i], full);
      if (status != UR_OK || *full) return status;
    }
  }
  return UR_OK;
}

uint64_t ur_distinct_count(const ur_distinct *set, uint64_t *bytes) {
  *bytes = set->ends[set->count];
  return set->count;
}

void ur_distinct_copy(const ur_distinct *set, uint8_t *content, uint64_t *ends) {
  memcpy(content, set->content, (size_t)set->ends[set->count]);
  memcpy(ends, set->ends, (size_t)(set->count + 1) * sizeof *ends);
}

void ur_distinct_find(const ur_distinct *set, const uint8_t *data, const uint64_t *ends, uint64_t count,
                      uint32_t *numbers) {
  for (uint64_t i = 0; i < count; i++) {
    uint64_t size = ends[i + 1] - ends[i];
    const place *at = place_of(set, data + ends[i], size, print_of(data, &ends[i]));
    numbers[i] = at == NULL || at->next == 0 ? UINT32_MAX : at->next - 1;
  }
}

static int compare(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size) {
  int order = memcmp(a, b, (size_t)(a_size < b_size ? a_size : b_size));
  return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

int32_t ur_strings_extremes(const uint8_t *data, const uint64_t *ends, const uint8_t *valid, uint64_t count,
                            uint64_t *least, uint64_t *greatest) {
  int32_t found = 0;
  for (uint64_t i = 0; i < count; i++) {
    if (valid != NULL && valid[i] == 0) continue;
    if (!found) *least = *greatest = i;
    found = 1;
    const uint8_t *string = data + ends[i];
    uint64_t size = ends[i + 1] - ends[i], low = *least, high = *greatest;
    if (compare(string, size, data + ends[low], ends[low + 1] - ends[low]) < 0) *least = i;
    if (compare(string, size, data + ends[high], ends[high + 1] - ends[high]) > 0) *greatest = i;
  }
  return found;
}
