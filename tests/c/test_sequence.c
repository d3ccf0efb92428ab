/* test_sequence.c - what stands at offsets from rows, against a plain search; batches of it, each row read once; wrong calls. */
#define _GNU_SOURCE
#include <unistd.h>

#include "folder.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 40, PARTS = 3, ALL = ROWS * PARTS, GROUPS = 5, FIRST = 3, SECOND = 2, BATCH = 32 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char paths[PARTS][64];
static const int32_t columns[] = {0, 1, 2, 3};
static const int64_t starts[GROUPS + 1] = {0, 1, 18, 60, 61, 90};
static const int64_t first[FIRST] = {-2, 0, 5}, second[SECOND] = {3, -40};
static int64_t chosen[90], times[90];

static ur_sequence sequence_of(const ur_steps *steps, int32_t count) {
  return (ur_sequence){.rows = chosen, .places = 90, .starts = starts, .groups = GROUPS, .times = times, .steps = steps,
                       .steps_count = count, .tolerance = 3};
}

static int64_t group_of(int64_t place) {
  int64_t group = 0;
  while (starts[group + 1] <= place) group++;
  return group;
}

static int64_t distance(int64_t a, int64_t b) { return a > b ? a - b : b - a; }

/* The place that is wanted, found by looking at all of its group. */
static int64_t search(int64_t place, int64_t offset, int timed, int before, uint8_t *missing) {
  int64_t begin = starts[group_of(place)], end = starts[group_of(place) + 1], best = begin;
  if (!timed) {
    int64_t wanted = place + offset;
    *missing = wanted < begin || wanted >= end;
    return wanted < begin ? begin : wanted >= end ? end - 1 : wanted;
  }
  int64_t wanted = times[place] + offset;
  for (int64_t i = begin; i < end; i++) {
    if (before ? times[i] <= wanted : distance(times[i], wanted) < distance(times[best], wanted)) best = i;
  }
  if (offset == 0) best = place;
  *missing = (before && times[best] > wanted) || distance(times[best], wanted) > 3;
  return best;
}

static void rows_are_those_of_a_plain_search(void) {
  for (int timed = 0; timed < 2; timed++)
    for (int before = 0; before < 2; before++)
      for (int64_t offset = -30; offset <= 30; offset++) {
        ur_steps steps = {.offsets = &offset, .count = 1, .outputs = 1, .timed = timed};
        ur_sequence sequence = sequence_of(&steps, 1);
        sequence.before = before;
        int64_t found[90];
        uint8_t missing[90], expected = 0;
        EXPECT_EQUAL(ur_sequence_find(&sequence, 0, chosen, 90, found, missing, NULL), UR_OK);
        for (int64_t place = 0; place < 90; place++) {
          EXPECT_EQUAL(found[place], chosen[search(place, offset, timed, before, &expected)]);
          EXPECT_EQUAL(missing[place], expected);
        }
      }
}

/* Sequences of the rows from FIRST_LATER on have offsets of their own; between the two lie rows of neither. */
static void later_rows_have_sequences_of_their_own(void) {
  enum { FIRST_LATER = 60 };
  const int64_t own[] = {0, 7, 20}, wide[] = {-2, 4}, near[] = {-1, 2};
  ur_steps steps = {.offsets = wide, .count = 2, .outputs = 1}, closer = {.offsets = near, .count = 2, .outputs = 1};
  ur_sequence later = {.places = 20, .starts = own, .groups = 2, .steps = &closer, .steps_count = 1, .first_row = FIRST_LATER};
  ur_sequence sequence = {.places = 20, .starts = own, .groups = 2, .steps = &steps, .steps_count = 1, .next = &later};
  for (int64_t row = 0; row < 2 * FIRST_LATER; row++) {
    int64_t place = row % FIRST_LATER, found[2];
    uint8_t missing[2];
    ur_status status = ur_sequence_find(&sequence, 0, &row, 1, found, missing, NULL);
    EXPECT_EQUAL(status, place < 20 ? UR_OK : UR_ARGUMENT);
    for (int k = 0; k < 2 && status == UR_OK; k++) {
      int64_t begin = place < 7 ? 0 : 7, end = place < 7 ? 7 : 20, wanted = place + (row < FIRST_LATER ? wide : near)[k];
      EXPECT_EQUAL(missing[k], wanted < begin || wanted >= end);
      if (wanted < begin) wanted = begin;
      if (wanted >= end) wanted = end - 1;
      EXPECT_EQUAL(found[k], row - place + wanted);
    }
  }
}

static void far_offsets_are_missing(void) {
  const int64_t far[] = {INT64_MIN, INT64_MAX};
  for (int32_t timed = 0; timed < 2; timed++) {
    ur_steps steps = {.offsets = far, .count = 2, .outputs = 1, .timed = timed};
    ur_sequence sequence = sequence_of(&steps, 1);
    int64_t found[2];
    uint8_t missing[2];
    EXPECT_EQUAL(ur_sequence_find(&sequence, 0, chosen + 30, 1, found, missing, NULL), UR_OK);
    EXPECT_EQUAL(missing[0] + missing[1], 2);
    EXPECT_EQUAL(found[0], chosen[18]);
    EXPECT_EQUAL(found[1], chosen[59]);
    const int64_t strangers[] = {-1, 3, ALL, INT64_MIN};
    for (int i = 0; i < 4; i++)
      EXPECT_EQUAL(ur_sequence_find(&sequence, 0, strangers + i, 1, found, missing, NULL), UR_ARGUMENT);
  }
}

static ur_set *open_set(int io) {
  ur_part_ref refs[PARTS];
  for (int i = 0; i < PARTS; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = ROWS};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  EXPECT_EQUAL(ur_set_open(refs, PARTS, &options, &set, NULL), UR_OK);
  return set;
}

/* One value of a batch: what the fixture wrote to row r of a part, or nothing. */
static void expect_value(const ur_batch_info *info, int column, int64_t i, int64_t r, int blank) {
  const uint8_t *memory = (const uint8_t *)info->batch;
  const ur_column_view *view = &info->columns[column];
  const uint8_t *data = memory + view->data_at;
  int64_t sizes[] = {4, 2, 24, r % 7}, size = blank && column % 2 == 1 ? 0 : sizes[column], at = i * size;
  if (view->valid_at != UINT64_MAX) EXPECT_EQUAL(memory[view->valid_at + (uint64_t)i], !blank && (column != 0 || r % 5 != 4));
  if (view->offsets_at != UINT64_MAX) {
    const int64_t *offsets = (const int64_t *)(const void *)(memory + view->offsets_at);
    EXPECT_EQUAL(offsets[i + 1] - offsets[i], size);
    at = offsets[i];
  }
  for (int64_t b = at; b < at + size && blank; b++) EXPECT_EQUAL(data[b], 0);
  if (blank) return;
  if (column == 0) EXPECT_EQUAL(ur_load32(data + at), r % 5 == 4 ? 0 : r * 3);
  if (column == 1) EXPECT_EQUAL(data[at + 1], '0' + r % 3);
  for (int64_t b = at; b < at + size && column >= 2; b++) EXPECT_EQUAL(data[b], column == 2 ? r : r + 1);
}

static void expect_sequences(const ur_batch_info *info, const ur_sequence *sequence) {
  const uint8_t *memory = (const uint8_t *)info->batch;
  const int64_t *anchors = (const int64_t *)(const void *)(memory + info->row_ids_at);
  for (int column = 0; column < 4; column++) {
    const ur_steps *steps = &sequence->steps[column / 2];
    for (int64_t i = 0; i < info->rows * steps->count; i++) {
      int64_t place = 0;
      uint8_t missing = 0;
      while (chosen[place] != anchors[i / steps->count]) place++;
      int64_t row = chosen[search(place, steps->offsets[i % steps->count], steps->timed, 0, &missing)];
      EXPECT_EQUAL(memory[info->columns[column].missing_at + (uint64_t)i], missing);
      expect_value(info, column, i, row % ROWS, missing && sequence->blank);
    }
  }
}

static ur_status load(ur_set *set, const ur_sequence *sequence, int32_t outputs) {
  ur_order *order = NULL;
  ur_pool *pool = NULL;
  ur_loader *loader = NULL;
  EXPECT_EQUAL(ur_order_new(90, UR_ORDER_SHUFFLE, 7, 0, 0, 0, NULL, 0, &order, NULL), UR_OK);
  EXPECT_EQUAL(ur_pool_new(2, &pool, NULL), UR_OK);
  ur_loader_options options = {.order = order, .selection = chosen, .stride = 1, .samples = 90, .batch_size = BATCH, .prefetch = 3,
                               .threads = 2, .output_count = outputs, .columns = columns, .sequence = sequence};
  ur_status status = ur_loader_new(set, pool, &options, &loader, NULL);
  int64_t seen = 0;
  while (status == UR_OK) {
    ur_batch_info info;
    status = ur_loader_next(loader, &info, NULL);
    if (status != UR_OK) break;
    expect_sequences(&info, sequence);
    seen += info.rows;
    ur_batch_release(info.batch);
  }
  if (status == UR_END) EXPECT_EQUAL(seen, 90);
  ur_loader_release(loader);
  ur_order_release(order);
  ur_pool_release(pool);
  return status;
}

static void batches_have_the_values_of_these_rows(ur_set *set) {
  for (int32_t blank = 0; blank < 2; blank++)
    for (int32_t timed = 0; timed < 2; timed++) {
      const ur_steps steps[] = {{.offsets = first, .count = FIRST, .outputs = 2, .timed = timed},
                                {.offsets = second, .count = SECOND, .outputs = 2}};
      ur_sequence sequence = sequence_of(steps, 2);
      sequence.blank = blank;
      EXPECT_EQUAL(load(set, &sequence, 4), UR_END);
    }
}

static void wrong_steps_are_refused(ur_set *set) {
  ur_steps good[] = {{.offsets = first, .count = FIRST, .outputs = 2}, {.offsets = second, .count = SECOND, .outputs = 2}};
  ur_sequence sequence = sequence_of(good, 2);
  EXPECT_EQUAL(load(set, &sequence, 3), UR_ARGUMENT);
  sequence.steps_count = 1;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_ARGUMENT);
  sequence = sequence_of(good, 2);
  sequence.tolerance = -1;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_ARGUMENT);
  sequence = sequence_of(good, 2);
  good[1].timed = 1;
  sequence.times = NULL;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_ARGUMENT);
  sequence = sequence_of(good, 2);
  good[0].count = INT64_MAX;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_ARGUMENT);
}

static void later_sequences_of_another_shape_are_refused(ur_set *set) {
  const ur_steps steps[] = {{.offsets = first, .count = FIRST, .outputs = 2}, {.offsets = second, .count = SECOND, .outputs = 2}};
  const ur_steps others[] = {{.offsets = first, .count = SECOND, .outputs = 2}, {.offsets = second, .count = SECOND, .outputs = 2}};
  ur_sequence sequence = sequence_of(steps, 2), later = sequence_of(steps, 2);
  sequence.next = &later;
  later.first_row = ALL;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_END);
  later.steps = others;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_ARGUMENT);
  later = sequence_of(steps, 2);
  later.blank = 1;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_ARGUMENT);
  later = sequence_of(steps, 2);
  sequence.first_row = 1;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_ARGUMENT);
  sequence.first_row = 0;
  later.rows = NULL;
  later.first_row = ALL - 89;
  EXPECT_EQUAL(load(set, &sequence, 4), UR_ARGUMENT);
  later.first_row = ALL - 90;
  EXPECT_EQUAL(load(set, &sequence, 1), UR_ARGUMENT);
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  store_parts(folder, paths, PARTS, ROWS);
  for (int64_t i = 0; i < 90; i++) {
    chosen[i] = i + i / 3;                                              /* every fourth row is none of them */
    times[i] = (i == starts[group_of(i)] ? 0 : times[i - 1]) + 3 * i % 4; /* some are equal, and far from the next */
  }
  rows_are_those_of_a_plain_search();
  far_offsets_are_missing();
  later_rows_have_sequences_of_their_own();
  for (int io = UR_IO_MAP; io <= UR_IO_MEMORY; io++) {
    ur_set *set = open_set(io);
    batches_have_the_values_of_these_rows(set);
    batches_have_the_values_of_these_rows(set); /* of fixed width they are found without a plan now */
    wrong_steps_are_refused(set);
    later_sequences_of_another_shape_are_refused(set);
    ur_set_release(set);
  }
  return remove_folder(folder);
}
