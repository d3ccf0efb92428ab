/* test_distinct.c - distinct strings against a slow search, their bounds, and strings chosen to be slow. */
#include <string.h>

#include "expect.h"
#include "unirecord_internal.h"

enum { COUNT = 20000, MOST_SIZE = 12 };

static uint64_t state = 1;

static uint32_t next_random(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(state >> 33);
}

typedef struct {
  uint8_t *data;
  uint64_t *ends;
  uint8_t *valid;
} strings;

/* Random strings of few letters in memory of exactly their size, some of them passed over. */
static strings some_strings(uint64_t count) {
  strings made = {NULL, malloc((count + 1) * sizeof(uint64_t)), malloc(count)};
  uint8_t *room = malloc(count * MOST_SIZE);
  EXPECT(made.ends != NULL && made.valid != NULL && room != NULL);
  made.ends[0] = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint32_t size = next_random() % MOST_SIZE;
    for (uint32_t k = 0; k < size; k++) room[made.ends[i] + k] = (uint8_t)(next_random() % 3);
    made.ends[i + 1] = made.ends[i] + size;
    made.valid[i] = next_random() % 8 != 0;
  }
  uint64_t total = made.ends[count];
  made.data = malloc(total + (total == 0));
  EXPECT(made.data != NULL);
  memcpy(made.data, room, total);
  free(room);
  return made;
}

static void give_back(strings some) {
  free(some.data);
  free(some.ends);
  free(some.valid);
}

static int same(const uint8_t *a, uint64_t a_size, const uint8_t *b, uint64_t b_size) {
  return a_size == b_size && memcmp(a, b, a_size) == 0;
}

static void each_string_has_the_number_under_which_it_is_kept(void) {
  strings some = some_strings(COUNT);
  ur_distinct *set = NULL;
  EXPECT_EQUAL(ur_distinct_new(COUNT, UINT64_C(1) << 20, &set), UR_OK);
  int32_t full = 1;
  uint32_t *taken = malloc(COUNT * sizeof *taken);
  EXPECT(taken != NULL);
  EXPECT_EQUAL(ur_distinct_add(set, some.data, some.ends, some.valid, COUNT / 2, taken, &full), UR_OK);
  EXPECT_EQUAL(full, 0);
  EXPECT_EQUAL(ur_distinct_add(set, some.data, some.ends + COUNT / 2, some.valid + COUNT / 2, COUNT / 2,
                               taken + COUNT / 2, &full), UR_OK);
  EXPECT_EQUAL(full, 0);
  uint64_t bytes, count = ur_distinct_count(set, &bytes);
  uint8_t *content = malloc(bytes);
  uint64_t *ends = malloc((count + 1) * sizeof *ends);
  uint32_t *numbers = malloc(COUNT * sizeof *numbers);
  EXPECT(content != NULL && ends != NULL && numbers != NULL);
  ur_distinct_copy(set, content, ends);
  EXPECT_EQUAL(ends[count], bytes);
  ur_distinct_find(set, some.data, some.ends, COUNT, numbers);
  uint64_t met = 0;
  for (uint64_t i = 0; i < COUNT; i++) {
    EXPECT_EQUAL(taken[i], some.valid[i] ? numbers[i] : UINT32_MAX);
    if (numbers[i] == UINT32_MAX) {
      EXPECT_EQUAL(some.valid[i], 0);
      continue;
    }
    EXPECT(numbers[i] < count);
    EXPECT(same(some.data + some.ends[i], some.ends[i + 1] - some.ends[i], content + ends[numbers[i]],
                ends[numbers[i] + 1] - ends[numbers[i]]));
    if (some.valid[i] && numbers[i] >= met) {
      EXPECT_EQUAL(numbers[i], met); /* in the order in which they are met */
      met++;
    }
  }
  EXPECT_EQUAL(met, count);
  EXPECT(count > 1000);
  free(content);
  free(ends);
  free(numbers);
  free(taken);
  ur_distinct_release(set);
  give_back(some);
}

static void it_says_when_it_is_full(void) {
  static const uint8_t data[] = {'a', 'b', 'c', 'd'};
  static const uint64_t ends[] = {0, 1, 2, 4, 4};
  uint32_t numbers[4];
  for (uint64_t most = 0; most <= 4; most++) {
    ur_distinct *set = NULL;
    int32_t full = 1;
    EXPECT_EQUAL(ur_distinct_new(most, 100, &set), UR_OK);
    EXPECT_EQUAL(ur_distinct_add(set, data, ends, NULL, 4, numbers, &full), UR_OK);
    EXPECT_EQUAL(full, most < 4);
    ur_distinct_release(set);
    EXPECT_EQUAL(ur_distinct_new(100, most, &set), UR_OK);
    EXPECT_EQUAL(ur_distinct_add(set, data, ends, NULL, 4, numbers, &full), UR_OK);
    EXPECT_EQUAL(full, most < 4);
    ur_distinct_release(set);
  }
  ur_distinct *set = NULL;
  EXPECT_EQUAL(ur_distinct_new(UINT32_MAX, 1, &set), UR_ARGUMENT);
  EXPECT(set == NULL);
  ur_distinct_release(NULL);
}

/* Strings whose hashes all begin a run at one of a few places, as whoever knows the hash can choose them. */
static void strings_chosen_to_be_slow_make_it_full(void) {
  enum { CHOSEN = 3000, SIZE = 8 };
  uint8_t *data = malloc(CHOSEN * SIZE);
  uint64_t *ends = malloc((CHOSEN + 1) * sizeof *ends);
  uint32_t *numbers = malloc(CHOSEN * sizeof *numbers);
  EXPECT(data != NULL && ends != NULL && numbers != NULL);
  uint64_t found = 0;
  for (uint64_t number = 0; found < CHOSEN; number++) {
    if ((ur_xxh3_64(&number, SIZE, 0) & 0x1fff) > 1) continue;
    memcpy(data + found * SIZE, &number, SIZE);
    ends[found] = found * SIZE;
    found++;
  }
  ends[CHOSEN] = CHOSEN * SIZE;
  ur_distinct *set = NULL;
  int32_t full = 0;
  EXPECT_EQUAL(ur_distinct_new(CHOSEN, CHOSEN * SIZE, &set), UR_OK);
  EXPECT_EQUAL(ur_distinct_add(set, data, ends, NULL, CHOSEN, numbers, &full), UR_OK);
  EXPECT_EQUAL(full, 1);
  ur_distinct_release(set);
  free(numbers);
  free(data);
  free(ends);
}

static void extremes_are_those_of_the_valid_strings(void) {
  static const uint8_t data[] = {'b', 'a', 'b', 'a', 0xff, 'a'};
  static const uint64_t ends[] = {0, 1, 3, 4, 5, 5, 6};
  static const uint8_t valid[] = {1, 1, 1, 0, 0, 1}, none[6] = {0};
  uint64_t least = 9, greatest = 9;
  EXPECT_EQUAL(ur_strings_extremes(data, ends, valid, 6, &least, &greatest), 1);
  EXPECT_EQUAL(least, 2);
  EXPECT_EQUAL(greatest, 0);
  EXPECT_EQUAL(ur_strings_extremes(data, ends, NULL, 6, &least, &greatest), 1);
  EXPECT_EQUAL(least, 4);
  EXPECT_EQUAL(greatest, 3);
  EXPECT_EQUAL(ur_strings_extremes(data, ends, none, 6, &least, &greatest), 0);
}

int main(void) {
  each_string_has_the_number_under_which_it_is_kept();
  it_says_when_it_is_full();
  strings_chosen_to_be_slow_make_it_full();
  extremes_are_those_of_the_valid_strings();
  return 0;
}
