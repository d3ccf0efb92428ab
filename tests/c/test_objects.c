/* test_objects.c - msgpack by the rules of the format: whole objects are good, and no bytes lead outside of their memory. */
#include <string.h>

#include "base/object.h"
#include "expect.h"
#include "unirecord_internal.h"

enum { CASES = 400000, MOST = 200 };

static uint64_t state = 1;

static uint32_t next_random(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(state >> 33);
}

/* In memory of exactly its size, so that the address sanitizer sees a byte too many. */
static ur_status check_copy(const uint8_t *bytes, size_t size, ur_error *error) {
  uint8_t *copy = malloc(size + (size == 0));
  EXPECT(copy != NULL);
  memcpy(copy, bytes, size);
  ur_status status = ur_object_check(copy, size, error);
  if (status == UR_OK) { /* what it says is read from its own bytes */
    const uint8_t *at = NULL, *name = NULL;
    uint64_t count = 0, length = 0;
    (void)ur_object_is_canonical(copy, size);
    (void)ur_object_is_text(copy, size);
    (void)ur_object_first(copy, "schema");
    if (ur_schema_entries(copy, &at, &count))
      for (uint64_t i = 0; i < count && ur_schema_next_name(&at, &name, &length); i++)
        EXPECT(at <= copy + size && name + length <= at);
  }
  free(copy);
  return status;
}

static void every_beginning_of_a_good_object_is_refused(void) {
  /* {"id": 1, "boxes": [[1, 2.5], b"\0"], -3: {"a": nil, 1: true}} */
  static const uint8_t good[] = {0x83, 0xa2, 'i', 'd', 0x01, 0xa5, 'b', 'o', 'x', 'e', 's', 0x92, 0x92, 0x01, 0xcb, 0x40, 0x04,
                                 0, 0, 0, 0, 0, 0, 0xc4, 0x01, 0x00, 0xfd, 0x82, 0xa1, 'a', 0xc0, 0x01, 0xc3};
  EXPECT_EQUAL(check_copy(good, sizeof good, NULL), UR_OK);
  for (size_t size = 0; size < sizeof good; size++) {
    ur_error error = {0};
    EXPECT_EQUAL(check_copy(good, size, &error), UR_CORRUPT);
    EXPECT(error.what[0] != '\0');
  }
  uint8_t longer[sizeof good + 1] = {0};
  memcpy(longer, good, sizeof good);
  EXPECT_EQUAL(check_copy(longer, sizeof longer, NULL), UR_CORRUPT);
}

/* Bytes of which most are heads, so that much of them makes sense. */
static void no_bytes_lead_outside(void) {
  uint8_t bytes[MOST];
  int64_t good = 0;
  for (int i = 0; i < CASES; i++) {
    size_t size = next_random() % MOST;
    for (size_t k = 0; k < size; k++) {
      uint32_t choice = next_random();
      bytes[k] = (uint8_t)(choice % 4 == 0 ? choice >> 8 : choice % 4 == 1 ? 0x80 | (choice >> 8 & 0x13) : choice >> 8 & 0x7f);
    }
    for (size_t end = size; end > 0; end = end > 8 ? end / 2 : end - 1) good += check_copy(bytes, end, NULL) == UR_OK;
  }
  EXPECT(good > CASES / 10);
  printf("%lld of random bytes were objects\n", (long long)good);
}

static void many_keys_are_compared_in_time_that_goes_with_their_number(void) {
  enum { KEYS = 200000, KEY = 9 };
  size_t size = 5 + KEYS * (KEY + 1);
  uint8_t *map = malloc(size), *at = map;
  EXPECT(map != NULL);
  *at++ = 0xdf;
  for (int shift = 24; shift >= 0; shift -= 8) *at++ = (uint8_t)(KEYS >> shift);
  for (uint64_t i = 0; i < KEYS; i++) {
    *at++ = 0xcf;
    for (int shift = 56; shift >= 0; shift -= 8) *at++ = (uint8_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> shift);
    *at++ = 0xc0;
  }
  EXPECT_EQUAL(ur_object_check(map, size, NULL), UR_OK);
  memcpy(map + 5, map + size - KEY - 1, KEY);
  EXPECT_EQUAL(ur_object_check(map, size, NULL), UR_CORRUPT);
  free(map);
}

/* Of each value the one form, and then others that say the same. */
static void one_form_has_the_shortest_heads(void) {
  static const struct {
    uint8_t bytes[24];
    size_t size;
    bool canonical;
  } cases[] = {
      {{0x00}, 1, true}, {{0x7f}, 1, true}, {{0xcc, 0x7f}, 2, false}, {{0xd0, 0x05}, 2, false}, {{0xcc, 0x80}, 2, true},
      {{0xd1, 0, 0x80}, 3, false}, {{0xcd, 0, 0xff}, 3, false}, {{0xcd, 1, 0}, 3, true}, {{0xce, 0, 0, 0xff, 0xff}, 5, false},
      {{0xce, 0, 1, 0, 0}, 5, true}, {{0xcf, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 9, false}, {{0xcf, 0, 0, 0, 1}, 9, true},
      {{0xd3, 0, 0, 0, 1}, 9, false}, {{0xff}, 1, true}, {{0xe0}, 1, true}, {{0xd0, 0xe0}, 2, false}, {{0xd0, 0xdf}, 2, true},
      {{0xd0, 0x80}, 2, true}, {{0xd1, 0xff, 0x80}, 3, false}, {{0xd1, 0xff, 0x7f}, 3, true}, {{0xd1, 0x80, 0}, 3, true},
      {{0xd2, 0xff, 0xff, 0x80, 0}, 5, false}, {{0xd2, 0xff, 0xff, 0x7f, 0xff}, 5, true}, {{0xd2, 0x80, 0, 0, 0}, 5, true},
      {{0xd3, 0xff, 0xff, 0xff, 0xff, 0x80}, 9, false}, {{0xd3, 0xff, 0xff, 0xff, 0xff, 0x7f}, 9, true}, {{0xd3, 0x80}, 9, true},
      {{0xa1, 'a'}, 2, true}, {{0xd9, 1, 'a'}, 3, false}, {{0xda, 0, 1, 'a'}, 4, false}, {{0xdb, 0, 0, 0, 1, 'a'}, 6, false},
      {{0xc4, 1, 'a'}, 3, true}, {{0xc4, 0}, 2, true}, {{0xc5, 0, 1, 'a'}, 4, false}, {{0xc6, 0, 0, 0, 1, 'a'}, 6, false},
      {{0x91, 0xc0}, 2, true}, {{0xdc, 0, 1, 0xc0}, 4, false}, {{0xdd, 0, 0, 0, 1, 0xc0}, 6, false}, {{0xdc, 0, 16}, 19, true},
      {{0x80}, 1, true}, {{0xde, 0, 0}, 3, false}, {{0xdf, 0, 0, 0, 0}, 5, false}, {{0x91, 0x81, 0xa0, 0xd0, 1}, 5, false},
      {{0xca, 0, 0, 0, 0}, 5, false}, {{0xcb}, 9, true}, {{0xc0}, 1, true}, {{0xc2}, 1, true}, {{0xc3}, 1, true},
      {{0xd4, 5, 1}, 3, true}, {{0xc7, 1, 5, 1}, 4, false}, {{0xc7, 3, 5, 1}, 6, true}, {{0xc8, 0, 3, 5, 1}, 7, false},
      {{0xd6, 0xff, 1}, 6, true}, {{0xd7, 0xff, 0, 0, 0, 1}, 10, true}, {{0xd7, 0xff, 0, 0, 0, 0, 1}, 10, false},
      {{0xc7, 12, 0xff, 0, 0, 0, 0, 0, 0, 0, 4}, 15, true}, {{0xc7, 12, 0xff, 0, 0, 0, 1, 0, 0, 0, 3}, 15, false},
      {{0xc7, 12, 0xff, 0, 0, 0, 1, 0xff}, 15, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    EXPECT_EQUAL(check_copy(cases[i].bytes, cases[i].size, NULL), UR_OK);
    EXPECT_EQUAL(ur_object_is_canonical(cases[i].bytes, cases[i].size), cases[i].canonical);
  }
}

/* Of all heads and types; timestamps in the forms of msgpack alone. */
static void extensions_are_passed_over_whole(void) {
  static const struct {
    uint8_t bytes[20];
    size_t size;
    ur_status status;
  } cases[] = {
      {{0xd4, 5, 1}, 3, UR_OK},
      {{0xd5, 0x80, 1, 2}, 4, UR_OK},
      {{0xd8, 127, 0xc1, 0xc1}, 18, UR_OK},
      {{0xc7, 0, 9}, 3, UR_OK},
      {{0xc8, 0, 3, 9, 0xc1, 0xc1, 0xc1}, 7, UR_OK},
      {{0xc9, 0, 0, 0, 1, 0xfe, 0}, 7, UR_OK},
      {{0x91, 0x81, 0xa0, 0xd4, 5, 1}, 6, UR_OK},
      {{0xd4, 5}, 2, UR_CORRUPT},
      {{0xc9, 0xff, 0xff, 0xff, 0xff, 5, 1}, 7, UR_CORRUPT},
      {{0xd4, 5, 1, 1}, 4, UR_CORRUPT},
      {{0x81, 0xd4, 5, 1, 1}, 5, UR_CORRUPT}, /* no key */
      {{0xd6, 0xff, 1, 2, 3, 4}, 6, UR_OK},
      {{0xc8, 0, 4, 0xff, 1, 2, 3, 4}, 8, UR_OK},
      {{0xd7, 0xff, 0xee, 0x6b, 0x27, 0xff}, 10, UR_OK}, /* 999,999,999 nanoseconds */
      {{0xd7, 0xff, 0xee, 0x6b, 0x28, 0}, 10, UR_CORRUPT},
      {{0xc7, 12, 0xff, 0x3b, 0x9a, 0xc9, 0xff}, 15, UR_OK},
      {{0xc7, 12, 0xff, 0x3b, 0x9a, 0xca, 0}, 15, UR_CORRUPT},
      {{0xd5, 0xff, 1, 2}, 4, UR_CORRUPT},
      {{0xc7, 0, 0xff}, 3, UR_CORRUPT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    EXPECT_EQUAL(check_copy(cases[i].bytes, cases[i].size, NULL), cases[i].status);
}

int main(void) {
  one_form_has_the_shortest_heads();
  extensions_are_passed_over_whole();
  every_beginning_of_a_good_object_is_refused();
  no_bytes_lead_outside();
  many_keys_are_compared_in_time_that_goes_with_their_number();
  return 0;
}
