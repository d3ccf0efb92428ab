/* loader/sequence.c - see loader/sequence.h. Rows are places, of which a group has a run; times are searched within it. */
#include "loader/sequence.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/fail.h"

static bool numbers_make_sense(const ur_sequence *s, const ur_set *set, int32_t outputs) {
  bool good = s->places >= 0 && s->groups >= 0 && s->steps_count >= 0 && s->tolerance >= 0 && s->first_row >= 0;
  if (good && s->rows == NULL) good = s->first_row <= ur_set_rows(set) && s->places <= ur_set_rows(set) - s->first_row;
  int64_t left = outputs;
  for (int32_t i = 0; good && i < s->steps_count; i++) {
    const ur_steps *steps = &s->steps[i];
    good = steps->count >= 1 && steps->count <= UR_MAX_STEPS && steps->outputs >= 1 && steps->outputs <= left &&
           (!steps->timed || s->times != NULL);
    left -= steps->outputs;
  }
  return good && left == 0;
}

/* Whether the sequences of later rows have as many offsets for the same outputs. */
static bool is_alike(const ur_sequence *one, const ur_sequence *later) {
  bool alike = one->steps_count == later->steps_count && one->blank == later->blank && later->first_row >= one->first_row;
  for (int32_t i = 0; alike && i < one->steps_count; i++)
    alike = one->steps[i].count == later->steps[i].count && one->steps[i].outputs == later->steps[i].outputs;
  return alike;
}

ur_status ur_sequence_check(const ur_sequence *sequence, const ur_set *set, int32_t outputs, ur_error *error) {
  bool good = true;
  for (const ur_sequence *s = sequence; good && s != NULL; s = s->next)
    good = numbers_make_sense(s, set, outputs) && (s->next == NULL || is_alike(s, s->next));
  return good ? UR_OK : ur_fail(error, UR_ARGUMENT, "the steps of a sequence do not fit its loader");
}

int64_t ur_sequence_offsets(const ur_sequence *sequence) {
  int64_t offsets = 0;
  for (int32_t i = 0; i < sequence->steps_count; i++) offsets += sequence->steps[i].count; /* exact: each is at most UR_MAX_STEPS */
  return offsets;
}

/* How many of `count` ascending numbers are less than `value`; with `or_equal`, or equal to it. */
static int64_t count_below(const int64_t *numbers, int64_t count, int64_t value, bool or_equal) {
  int64_t first = 0;
  while (count > 0) {
    int64_t half = count / 2;
    int64_t found = numbers[first + half]; /* exact: inside the numbers */
    bool below = or_equal ? found <= value : found < value;
    first = below ? first + half + 1 : first;
    count = below ? count - half - 1 : half;
  }
  return first;
}

/* The place of a row, or -1. */
static int64_t place_of(const ur_sequence *s, int64_t row) {
  if (s->rows == NULL) return row >= s->first_row && row - s->first_row < s->places ? row - s->first_row : -1;
  int64_t place = count_below(s->rows, s->places, row, false);
  return place < s->places && s->rows[place] == row ? place : -1;
}

static uint64_t apart(int64_t a, int64_t b) { return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a; }

/* The place in [first, end) whose time is the one wanted, or comes next to it; *missing = 1 where it is too far away. */
static int64_t place_at(const ur_sequence *s, int64_t first, int64_t end, int64_t place, int64_t offset, uint8_t *missing) {
  const int64_t *times = s->times;
  int64_t wanted = 0, found = place;
  if (__builtin_add_overflow(times[place], offset, &wanted)) wanted = offset < 0 ? INT64_MIN : INT64_MAX;
  if (offset != 0) {
    int64_t next = first + count_below(times + first, end - first, wanted, s->before != 0);
    found = next - 1;
    if (found < first || (!s->before && next < end && apart(times[next], wanted) < apart(wanted, times[found]))) found = next;
    if (found >= end) found = end - 1; /* only of an empty group, which has no anchor */
    if (!s->before && found > first && times[found - 1] == times[found]) /* of rows of one time the first */
      found = first + count_below(times + first, found - first, times[found], false);
  }
  bool later = s->before && times[found] > wanted;
  *missing = later || apart(times[found], wanted) > (uint64_t)s->tolerance;
  return found;
}

/* The place `offset` rows from another, or the one at the edge of its group. */
static int64_t place_beside(int64_t first, int64_t end, int64_t place, int64_t offset, uint8_t *missing) {
  int64_t wanted = 0;
  if (__builtin_add_overflow(place, offset, &wanted)) wanted = offset < 0 ? -1 : INT64_MAX;
  *missing = wanted < first || wanted >= end;
  return wanted < first ? first : wanted >= end ? end - 1 : wanted;
}

/* The sequences that an anchor is of. */
static const ur_sequence *sequence_of(const ur_sequence *s, int64_t anchor) {
  while (s->next != NULL && anchor >= s->next->first_row) s = s->next;
  return s;
}

ur_status ur_sequence_find(const ur_sequence *sequence, int32_t number, const int64_t *anchors, int64_t n, int64_t *rows,
                           uint8_t *missing, ur_error *error) {
  for (int64_t i = 0; i < n; i++) {
    const ur_sequence *s = sequence_of(sequence, anchors[i]);
    const ur_steps *steps = &s->steps[number];
    int64_t place = place_of(s, anchors[i]);
    if (place < 0) return ur_fail(error, UR_ARGUMENT, "row %" PRId64 " is none that sequences are made of", anchors[i]);
    int64_t group = count_below(s->starts, s->groups, place, true); /* the groups that begin up to it */
    int64_t first = s->starts[group - 1], end = s->starts[group];
    for (int64_t k = 0; k < steps->count; k++, rows++, missing++) {
      int64_t found = steps->timed ? place_at(s, first, end, place, steps->offsets[k], missing)
                                   : place_beside(first, end, place, steps->offsets[k], missing);
      *rows = s->rows == NULL ? s->first_row + found : s->rows[found]; /* exact: checked to lie in the set */
    }
  }
  return UR_OK;
}
