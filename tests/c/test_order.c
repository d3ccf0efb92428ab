/* test_order.c - orders through the C interface: exact permutations at every size and in every mode, wrong calls refused. */
#include "expect.h"
#include "unirecord_internal.h"

#include <string.h>

enum { MOST = 1 << 18 };

static int64_t found[MOST + 2], back[MOST + 2];
static uint8_t seen[MOST + 2];

static ur_order *make(int64_t rows, int32_t mode, uint64_t seed, int64_t block, int64_t window, const int64_t *parts,
                      int64_t count) {
  ur_order *order = NULL;
  ur_error error;
  EXPECT_EQUAL(ur_order_new(rows, mode, seed, 3, block, window, parts, count, &order, &error), UR_OK);
  EXPECT(order != NULL);
  return order;
}

static void expect_permutation(const ur_order *order, int64_t rows) {
  EXPECT_EQUAL(ur_order_range(order, 0, 1, rows, found), UR_OK);
  memset(seen, 0, (size_t)rows);
  for (int64_t i = 0; i < rows; i++) {
    EXPECT(found[i] >= 0 && found[i] < rows);
    EXPECT(seen[found[i]] == 0);
    seen[found[i]] = 1;
  }
  EXPECT_EQUAL(ur_order_inverse(order, found, rows, back), UR_OK);
  for (int64_t i = 0; i < rows; i++) {
    EXPECT_EQUAL(back[i], i);
  }
  EXPECT_EQUAL(ur_order_at(order, back, rows, back), UR_OK); /* in place */
  EXPECT(rows == 0 || memcmp(back, found, (size_t)rows * sizeof *found) == 0);
}

static void shuffles_are_permutations(void) {
  for (int64_t rows = 0; rows <= 4096; rows++) {
    ur_order *order = make(rows, UR_ORDER_SHUFFLE, (uint64_t)rows * 77, 0, 0, NULL, 0);
    expect_permutation(order, rows);
    ur_order_release(order);
  }
  for (int64_t power = 8192; power <= MOST; power *= 2) {
    for (int64_t rows = power - 1; rows <= power + 1; rows++) {
      ur_order *order = make(rows, UR_ORDER_SHUFFLE, UINT64_MAX, 0, 0, NULL, 0);
      expect_permutation(order, rows);
      ur_order_release(order);
    }
  }
}

static void blocks_are_permutations(void) {
  static const int64_t blocks[] = {1, 2, 7, 64, 1000, INT64_MAX};
  static const int64_t windows[] = {1, 3, 16, INT64_MAX};
  for (int64_t rows = 0; rows <= 9000; rows = rows < 70 ? rows + 1 : rows * 2 - 3) {
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
      for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        ur_order *order = make(rows, UR_ORDER_BLOCK, 5, blocks[b], windows[w], NULL, 0);
        expect_permutation(order, rows);
        ur_order_release(order);
      }
    }
  }
}

static void parts_are_permutations(void) {
  static const int64_t parts[] = {0, 5, 0, 0, 3000, 1, 2049, 0};
  for (int64_t count = 0; count <= 8; count++) {
    int64_t rows = 0;
    for (int64_t i = 0; i < count; i++) {
      rows += parts[i];
    }
    for (int32_t mode = UR_ORDER_PARTS; mode <= UR_ORDER_WITHIN_PARTS; mode++) {
      ur_order *order = make(rows, mode, 9, 0, 0, parts, count);
      expect_permutation(order, rows);
      ur_order_release(order);
    }
  }
}

static void huge_orders_have_inverses(void) {
  static const int64_t sizes[] = {(INT64_C(1) << 40) + 1, (INT64_C(1) << 62) - 1, INT64_C(1) << 62};
  for (size_t s = 0; s < 3; s++) {
    for (int32_t mode = UR_ORDER_SEQUENTIAL; mode <= UR_ORDER_BLOCK; mode++) {
      ur_order *order = make(sizes[s], mode, 1, INT64_C(1) << 31, 20, NULL, 0);
      int64_t start = sizes[s] - 500; /* runs over the end */
      EXPECT_EQUAL(ur_order_range(order, start, 1, 1000, found), UR_OK);
      EXPECT_EQUAL(ur_order_inverse(order, found, 1000, back), UR_OK);
      for (int64_t i = 0; i < 1000; i++) {
        EXPECT(found[i] >= 0 && found[i] < sizes[s]);
        EXPECT_EQUAL(back[i], (start + i) % sizes[s]);
      }
      ur_order_release(order);
    }
  }
}

static void ranks_share_an_epoch(void) {
  ur_order *order = make(1000, UR_ORDER_SHUFFLE, 4, 0, 0, NULL, 0);
  EXPECT_EQUAL(ur_order_range(order, 0, 1, 1000, found), UR_OK);
  for (int64_t rank = 0; rank < 7; rank++) {
    EXPECT_EQUAL(ur_order_range(order, rank, 7, 143, back), UR_OK);
    for (int64_t i = 0; i < 143; i++) {
      EXPECT_EQUAL(back[i], found[(rank + 7 * i) % 1000]);
    }
  }
  ur_order_release(order);
}

static void refused(int64_t rows, int32_t mode, int64_t block, int64_t window, const int64_t *parts, int64_t count,
                    const char *text) {
  ur_order *order = NULL;
  ur_error error;
  EXPECT_EQUAL(ur_order_new(rows, mode, 0, 0, block, window, parts, count, &order, &error), UR_ARGUMENT);
  EXPECT_EQUAL(error.status, UR_ARGUMENT);
  EXPECT(strstr(error.what, text) != NULL);
  EXPECT(order == NULL);
  EXPECT_EQUAL(ur_order_new(rows, mode, 0, 0, block, window, parts, count, &order, NULL), UR_ARGUMENT);
}

static void wrong_calls_are_refused(void) {
  static const int64_t parts[] = {4, 7};
  static const int64_t negative[] = {-1, 11};
  static const int64_t overflowing[] = {INT64_MAX, INT64_MAX};
  refused(-1, UR_ORDER_SHUFFLE, 1, 1, NULL, 0, "-1");
  refused((INT64_C(1) << 62) + 1, UR_ORDER_SHUFFLE, 1, 1, NULL, 0, "2^62");
  refused(10, 5, 1, 1, NULL, 0, "mode 5");
  refused(10, -1, 1, 1, NULL, 0, "mode -1");
  refused(10, UR_ORDER_BLOCK, 0, 1, NULL, 0, "block_rows");
  refused(10, UR_ORDER_BLOCK, 1, 0, NULL, 0, "window_blocks");
  refused(10, UR_ORDER_PARTS, 1, 1, parts, 2, "part 1");
  refused(12, UR_ORDER_WITHIN_PARTS, 1, 1, parts, 2, "11 rows together");
  refused(10, UR_ORDER_PARTS, 1, 1, negative, 2, "part 0");
  refused(10, UR_ORDER_PARTS, 1, 1, overflowing, 2, "part 0");
  refused(10, UR_ORDER_PARTS, 1, 1, NULL, 2, "rows of each part");
  refused(10, UR_ORDER_PARTS, 1, 1, parts, -1, "rows of each part");

  ur_order *order = make(10, UR_ORDER_SHUFFLE, 0, 0, 0, NULL, 0);
  int64_t one = 10;
  int64_t untouched = 42;
  EXPECT_EQUAL(ur_order_at(order, &one, 1, &untouched), UR_ARGUMENT);
  EXPECT_EQUAL(ur_order_inverse(order, &one, 1, &untouched), UR_ARGUMENT);
  EXPECT_EQUAL(ur_order_range(order, -1, 1, 1, &untouched), UR_ARGUMENT);
  EXPECT_EQUAL(ur_order_range(order, 0, 0, 1, &untouched), UR_ARGUMENT);
  EXPECT_EQUAL(ur_order_range(order, 0, 1, -1, &untouched), UR_ARGUMENT);
  EXPECT_EQUAL(ur_order_range(order, 0, INT64_MAX, 2, &untouched), UR_ARGUMENT);
  EXPECT_EQUAL(ur_order_range(order, INT64_MAX, 1, 1, &untouched), UR_ARGUMENT);
  EXPECT_EQUAL(untouched, 42);
  ur_order_release(order);
  order = make(0, UR_ORDER_SHUFFLE, 0, 0, 0, NULL, 0);
  EXPECT_EQUAL(ur_order_range(order, 0, 1, 1, &untouched), UR_ARGUMENT);
  EXPECT_EQUAL(ur_order_range(order, 0, 1, 0, &untouched), UR_OK);
  ur_order_release(order);
  ur_order_release(NULL);
}

int main(void) {
  shuffles_are_permutations();
  blocks_are_permutations();
  parts_are_permutations();
  huge_orders_have_inverses();
  ranks_share_an_epoch();
  wrong_calls_are_refused();
  return 0;
}
