/* test_changing_rows.c - row numbers that another thread changes during a call are right or refused, and never followed astray. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 40, TRIES = 1000000, EACH = 300, ASKED = 64 };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char path[64];
static volatile int64_t rows[ASKED];
static atomic_int done;

/* Row 1 of the array is right, and wrong, and right again. */
static void *change(void *argument) {
  (void)argument;
  while (!atomic_load(&done)) {
    rows[ASKED / 2] = INT64_MAX / 2;
    rows[ASKED / 2] = 3;
  }
  return NULL;
}

static int64_t right, refused;

/* Until the change has been met often enough: it needs a processor of its own. */
static int again(int64_t tries) { return tries < TRIES && (right < EACH || refused < EACH); }

static void expect_right_or_refused(ur_status status) {
  EXPECT(status == UR_OK || status == UR_ARGUMENT);
  right += status == UR_OK;
  refused += status == UR_ARGUMENT;
}

static void orders(void) {
  int64_t found[ASKED];
  const int64_t part_rows[2] = {ROWS / 2, ROWS / 2};
  for (int32_t mode = UR_ORDER_SEQUENTIAL; mode <= UR_ORDER_WITHIN_PARTS; mode++) {
    ur_order *order = NULL;
    EXPECT_EQUAL(ur_order_new(ROWS, mode, 1, 2, 4, 2, part_rows, 2, &order, NULL), UR_OK);
    right = refused = 0;
    for (int64_t i = 0; again(i); i++) {
      expect_right_or_refused(ur_order_at(order, (const int64_t *)rows, ASKED, found));
      expect_right_or_refused(ur_order_inverse(order, (const int64_t *)rows, ASKED, found));
    }
    ur_order_release(order);
  }
}

static void reads(void) {
  static contents found;
  ur_part_ref refs[2] = {{.data_path = path, .rows = ROWS}, {.data_path = path, .rows = ROWS}};
  for (int64_t parts = 1; parts <= 2; parts++)
    for (int32_t io = UR_IO_MAP; io <= UR_IO_PREAD; io++) {
      ur_set_options options = {.io = io, .verify = UR_VERIFY_FIRST};
      ur_set *set = NULL;
      EXPECT_EQUAL(ur_set_open(refs, parts, &options, &set, NULL), UR_OK);
      right = refused = 0;
      for (int64_t i = 0; again(i); i++) {
        expect_right_or_refused(read_columns(set, (const int64_t *)rows, ASKED, 4, &found, NULL));
        ur_set_advise(set, (const int64_t *)rows, ASKED);
      }
      ur_set_release(set);
    }
}

int main(void) {
  EXPECT(mkdtemp(folder) != NULL);
  (void)snprintf(path, sizeof path, "%s/a.urec", folder);
  fixture *part = make_part(ROWS, 0, 1);
  store_part(part, path);
  free(part);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, change, NULL) == 0);
  orders();
  reads();
  atomic_store(&done, 1);
  EXPECT(pthread_join(thread, NULL) == 0);
  return remove_folder(folder);
}
