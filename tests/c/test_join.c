/* test_join.c - joined sets: each column from its layer, one by one and by a loader; failures that name the joined column. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/resource.h>

#include "batch/read.h"
#include "part_contents.h"
#include "unirecord_internal.h"

enum { ROWS = 20, PARTS = 2, ALL = PARTS * ROWS };

static char folder[] = "/tmp/unirecord-test-XXXXXX";
static char base_paths[PARTS][64], added_paths[PARTS][64];

static ur_set *open_set(char (*paths)[64], int parts, int io) {
  ur_part_ref refs[PARTS] = {{0}};
  ur_set_options options = {.io = io, .verify = UR_VERIFY_ALWAYS};
  ur_set *set = NULL;
  for (int i = 0; i < parts; i++) refs[i] = (ur_part_ref){.data_path = paths[i], .rows = ROWS};
  EXPECT_EQUAL(ur_set_open(refs, parts, &options, &set, NULL), UR_OK);
  return set;
}

/* Both layers hold the fixture's columns; columns 0 and 3 are the first's, 1 and 2 the second's. */
static ur_set *open_joined(int io) {
  static const ur_joined_column columns[] = {{0, 0}, {1, 1}, {1, 2}, {0, 3}};
  ur_set *layers[] = {open_set(base_paths, PARTS, io), open_set(added_paths, PARTS, io)}, *joined = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(ur_set_join(layers, 2, columns, 4, &joined, &error), UR_OK);
  ur_set_release(layers[0]);
  ur_set_release(layers[1]);
  return joined;
}

static void every_column_comes_from_its_layer(void) {
  static contents found;
  int64_t rows[2 * ALL];
  for (int64_t i = 0; i < 2 * ALL; i++) rows[i] = i * 7 % ALL;
  for (int io = UR_IO_AUTO; io <= UR_IO_MEMORY; io++) {
    ur_set *set = open_joined(io);
    ur_error error = {0};
    EXPECT_EQUAL(ur_set_rows(set), ALL);
    EXPECT_EQUAL(ur_set_parts(set), PARTS);
    ur_set_advise(set, rows, 2 * ALL);
    EXPECT_EQUAL(read_columns(set, rows, 2 * ALL, 4, &found, &error), UR_OK);
    for (int64_t i = 0; i < 2 * ALL; i++) expect_row(&found, i, rows[i] % ROWS, 0);
    EXPECT_EQUAL(read_columns(set, rows, 3, 1, &found, &error), UR_OK); /* of the first layer alone */
    EXPECT_EQUAL(ur_load32(found.bytes[0] + 4), 21);
    rows[1] = ALL;
    EXPECT_EQUAL(read_columns(set, rows, 2, 4, &found, &error), UR_ARGUMENT);
    EXPECT_EQUAL(error.reason, UR_REASON_ROW);
    rows[1] = 7;
    ur_set_release(set);
  }
}

static void columns_may_be_left_out_and_come_in_any_order(void) {
  static const ur_joined_column columns[] = {{1, 3}, {0, 0}};
  ur_set *layers[] = {open_set(base_paths, PARTS, UR_IO_PREAD), open_set(added_paths, PARTS, UR_IO_PREAD)}, *joined = NULL;
  uint8_t blobs[64], numbers[8];
  int64_t offsets[3], rows[] = {25, 3};
  EXPECT_EQUAL(ur_set_join(layers, 2, columns, 2, &joined, NULL), UR_OK);
  ur_output outputs[] = {{.column = 1, .data = numbers, .capacity = sizeof numbers},
                         {.column = 0, .data = blobs, .capacity = sizeof blobs, .offsets = offsets}};
  EXPECT_EQUAL(ur_set_read(joined, rows, 2, outputs, 2, NULL), UR_OK);
  EXPECT_EQUAL(ur_load32(numbers), 15);
  EXPECT_EQUAL(ur_load32(numbers + 4), 9);
  EXPECT_EQUAL(offsets[2], 5 + 3);
  EXPECT_EQUAL(blobs[0], 6);
  EXPECT_EQUAL(blobs[5], 4);
  outputs[1].capacity = 7;
  EXPECT_EQUAL(ur_set_read(joined, rows, 2, outputs, 2, NULL), UR_TOO_SMALL);
  EXPECT_EQUAL(outputs[1].used, 8);
  outputs[0].column = 2;
  EXPECT_EQUAL(ur_set_read(joined, rows, 2, outputs, 1, NULL), UR_ARGUMENT);
  ur_set_release(joined);
  ur_set_release(layers[0]);
  ur_set_release(layers[1]);
}

static void a_loader_reads_joined_rows(void) {
  static const int32_t columns[] = {0, 1, 2, 3};
  ur_set *set = open_joined(UR_IO_PREAD);
  ur_pool *pool = NULL;
  ur_order *order = NULL;
  ur_loader *loader = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(ur_pool_new(2, &pool, &error), UR_OK);
  EXPECT_EQUAL(ur_order_new(ALL, UR_ORDER_SEQUENTIAL, 0, 0, 0, 0, NULL, 0, &order, &error), UR_OK);
  ur_loader_options options = {.order = order, .selection_step = 1, .stride = 1, .samples = ALL, .batch_size = 16,
                               .prefetch = 2, .threads = 2, .output_count = 4, .columns = columns};
  EXPECT_EQUAL(ur_loader_new(set, pool, &options, &loader, &error), UR_OK);
  ur_batch_info info;
  int64_t seen = 0;
  while (ur_loader_next(loader, &info, &error) == UR_OK) {
    expect_batch(&info, ROWS);
    seen += info.rows;
    ur_batch_release(info.batch);
  }
  EXPECT_EQUAL(seen, ALL);
  ur_loader_release(loader);
  ur_order_release(order);
  ur_pool_release(pool);
  ur_set_release(set);
}

static void a_bad_cell_is_named_by_the_joined_column(void) {
  fixture *part = make_part(ROWS, 0, 1);
  ur_set *added = open_set(added_paths, PARTS, UR_IO_PREAD), *joined = NULL, *base = open_set(base_paths, PARTS, UR_IO_PREAD);
  ur_set *layers[] = {base, added};
  static const ur_joined_column columns[] = {{0, 2}, {1, 2}};
  ur_part *opened = NULL;
  ur_error error = {0};
  uint64_t offset = 0, bytes = 0;
  uint8_t data[48];
  int64_t rows[] = {3, ROWS + 11};
  EXPECT_EQUAL(ur_set_part(added, 1, &opened, NULL), UR_OK);
  EXPECT_EQUAL(ur_part_locate(opened, 11, 2, &offset, &bytes, NULL), UR_OK);
  ur_part_release(opened);
  ur_set_release(added);
  part->data[offset] ^= 1;
  store_part(part, added_paths[1]);
  layers[1] = added = open_set(added_paths, PARTS, UR_IO_PREAD);
  EXPECT_EQUAL(ur_set_join(layers, 2, columns, 2, &joined, &error), UR_OK);
  ur_output output = {.column = 0, .data = data, .capacity = sizeof data};
  EXPECT_EQUAL(ur_set_read(joined, rows, 2, &output, 1, &error), UR_OK);
  output.column = 1;
  EXPECT_EQUAL(ur_set_read(joined, rows, 2, &output, 1, &error), UR_CORRUPT);
  EXPECT_EQUAL(error.column, 1);
  EXPECT_EQUAL(error.part, 1);
  EXPECT_EQUAL(error.row, 11);
  ur_set_release(joined);
  ur_set_release(base);
  ur_set_release(added);
  part->data[offset] ^= 1;
  store_part(part, added_paths[1]);
  free(part);
}

static void closing_closes_the_layers(void) {
  static contents found;
  ur_set *base = open_set(base_paths, PARTS, UR_IO_PREAD), *joined = NULL;
  static const ur_joined_column columns[] = {{0, 0}, {0, 1}, {0, 2}, {0, 3}};
  int64_t row = 1;
  EXPECT_EQUAL(ur_set_join(&base, 1, columns, 4, &joined, NULL), UR_OK);
  ur_set_close(joined);
  EXPECT_EQUAL(read_columns(joined, &row, 1, 4, &found, NULL), UR_CLOSED);
  EXPECT_EQUAL(read_columns(base, &row, 1, 4, &found, NULL), UR_CLOSED);
  ur_set_release(joined);
  ur_set_release(base);
}

/* No more descriptors than are held now. */
static void forbid_descriptors(struct rlimit *before) {
  int next = dup(0);
  EXPECT(next > 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, before) == 0);
  struct rlimit held = {(rlim_t)next, before->rlim_max};
  EXPECT(setrlimit(RLIMIT_NOFILE, &held) == 0);
}

static void layers_make_room_for_each_other(void) {
  static const int64_t rows[] = {3, ROWS + 3};
  uint8_t numbers[8], blobs[48];
  struct rlimit before;
  ur_part *parts[2] = {NULL, NULL};
  ur_set *set = open_joined(UR_IO_PREAD);
  ur_output first = {.column = 0, .data = numbers, .capacity = sizeof numbers};
  ur_output second = {.column = 2, .data = blobs, .capacity = sizeof blobs};
  EXPECT_EQUAL(ur_set_read(set, rows, 2, &first, 1, NULL), UR_OK); /* the first layer has both parts open, the second one */
  forbid_descriptors(&before);
  EXPECT_EQUAL(ur_set_read(set, rows, 2, &second, 1, NULL), UR_OK); /* which takes both at once */
  EXPECT_EQUAL(blobs[24], 3);
  EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
  ur_set_release(set);
  set = open_joined(UR_IO_PREAD);
  EXPECT_EQUAL(ur_set_part(set, 0, &parts[0], NULL), UR_OK);
  EXPECT_EQUAL(ur_set_read(set, rows, 2, &second, 1, NULL), UR_OK); /* now the second layer has both */
  ur_error other = {.status = UR_IO, .os_errno = EIO};
  EXPECT(!ur_layers_make_room(set->layers, 0, &other));
  forbid_descriptors(&before);
  EXPECT_EQUAL(ur_set_part(set, 1, &parts[1], NULL), UR_OK);
  EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
  for (int i = 0; i < 2; i++) ur_part_release(parts[i]);
  ur_set_release(set);
}

static void what_does_not_fit_is_refused(void) {
  static const ur_joined_column good[] = {{0, 0}, {1, 1}}, no_layer[] = {{2, 0}}, no_column[] = {{1, 4}};
  fixture *longer = make_part(ROWS + 1, 0, 0);
  char other[64];
  (void)snprintf(other, sizeof other, "%.40s/other.urec", folder);
  store_part(longer, other);
  ur_part_ref ref = {.data_path = other, .rows = -1};
  ur_set_options options = {.io = UR_IO_PREAD};
  ur_set *base = open_set(base_paths, 1, UR_IO_PREAD), *few = open_set(added_paths, PARTS, UR_IO_PREAD);
  ur_set *rows = NULL, *same = open_set(added_paths, 1, UR_IO_PREAD), *joined = NULL, *again = NULL;
  ur_error error = {0};
  EXPECT_EQUAL(ur_set_open(&ref, 1, &options, &rows, NULL), UR_OK);
  ur_set *pairs[][2] = {{base, few}, {base, rows}};
  for (int i = 0; i < 2; i++) EXPECT_EQUAL(ur_set_join(pairs[i], 2, good, 2, &joined, &error), UR_ARGUMENT);
  EXPECT_EQUAL(error.part, 0);
  ur_set *layers[] = {base, same};
  EXPECT_EQUAL(ur_set_join(layers, 2, no_layer, 1, &joined, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_join(layers, 2, no_column, 1, &joined, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_join(layers, 0, good, 2, &joined, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_join(layers, 2, good, 0, &joined, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_set_join(layers, 2, good, 2, &joined, &error), UR_OK);
  EXPECT_EQUAL(ur_set_join(&joined, 1, good, 1, &again, &error), UR_ARGUMENT);
  ur_set *all[] = {base, few, rows, same, joined};
  for (int i = 0; i < 5; i++) ur_set_release(all[i]);
  free(longer);
}

int main(void) {
  if (mkdtemp(folder) == NULL) return 1;
  fixture *base = make_part(ROWS, 0, 0), *added = make_part(ROWS, 0, 1);
  for (int i = 0; i < PARTS; i++) {
    (void)snprintf(base_paths[i], sizeof base_paths[i], "%.40s/base%d.urec", folder, i);
    (void)snprintf(added_paths[i], sizeof added_paths[i], "%.40s/added%d.urec", folder, i);
    store_part(base, base_paths[i]);
    store_part(added, added_paths[i]);
  }
  free(base);
  free(added);
  every_column_comes_from_its_layer();
  columns_may_be_left_out_and_come_in_any_order();
  a_loader_reads_joined_rows();
  a_bad_cell_is_named_by_the_joined_column();
  closing_closes_the_layers();
  layers_make_room_for_each_other();
  what_does_not_fit_is_refused();
  return remove_folder(folder);
}
