/* read_dataset.c - a dataset as the C core reads it, for tests/core/test_c_dataset.py, which compares it with Python.
 *
 *   read_dataset rows PATH COLUMN...           the values of all rows, in their order
 *   read_dataset epoch PATH SHUFFLE REMAINDER SEED EPOCH SHARD SHARDS START BLOCK_ROWS WINDOW_BLOCKS COLUMN...
 *   read_dataset opens FOLDER                  the same texts, each put into the folder, which is opened and read
 *   read_dataset manifests                     texts on standard input, each with its length in 8 bytes: what comes of each
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/manifest.h"
#include "unirecord.h"

enum { MOST = 32, BATCH = 7 };

static int failed(const ur_dataset *ds, const ur_error *error) {
  const char *file = ds == NULL ? NULL : ur_dataset_file(ds, error);
  (void)printf("error %d %s%s%s\n", error->status, file == NULL ? "" : file, file == NULL ? "" : ": ", error->what);
  return 1;
}

static void show(const uint8_t *data, const int64_t *offsets, const uint8_t *valid, int64_t width, int64_t i) {
  if (valid != NULL && !valid[i]) {
    (void)printf(" null");
    return;
  }
  int64_t at = offsets == NULL ? i * width : offsets[i], bytes = offsets == NULL ? width : offsets[i + 1] - offsets[i];
  (void)printf(" %" PRIu64 ":%016" PRIx64, (uint64_t)bytes, ur_xxh3_64(data + at, (size_t)bytes, 0));
}

static int show_rows(ur_dataset *ds, const int32_t *columns, int32_t count) {
  ur_error error = {0};
  for (int64_t row = 0; row < ur_dataset_rows(ds); row++) {
    (void)printf("%" PRId64, row);
    for (int32_t c = 0; c < count; c++) {
      ur_column_info info;
      int64_t offsets[2];
      uint8_t valid = 1;
      if (ur_dataset_describe(ds, columns[c], NULL, &info) != UR_OK) return 1;
      ur_output output = {.column = columns[c], .offsets = info.fixed_bytes == 0 ? offsets : NULL, .valid = &valid};
      ur_status status = ur_dataset_read(ds, &row, 1, &output, 1, &error);
      if (status == UR_TOO_SMALL) {
        output.data = malloc(output.used);
        output.capacity = output.used;
        status = ur_dataset_read(ds, &row, 1, &output, 1, &error);
      }
      if (status != UR_OK) {
        free(output.data);
        return failed(ds, &error);
      }
      show(output.data, output.offsets, &valid, info.fixed_bytes, 0);
      free(output.data);
    }
    (void)printf("\n");
  }
  int64_t beyond = ur_dataset_rows(ds);
  return count > 0 && ur_dataset_read(ds, &beyond, 1, &(ur_output){.column = columns[0]}, 1, &error) != UR_ARGUMENT;
}

static int show_epoch(ur_dataset *ds, const ur_epoch *epoch) {
  ur_error error = {0};
  ur_loader *loader = NULL;
  ur_batch_info batch;
  ur_column_info infos[MOST];
  for (int32_t c = 0; c < epoch->column_count; c++)
    if (ur_dataset_describe(ds, epoch->columns[c], NULL, &infos[c]) != UR_OK) return 1;
  ur_status made = ur_dataset_loader(ds, NULL, epoch, &loader, &error);
  if (made != UR_OK) (void)failed(ds, &error);
  ur_dataset_release(ds); /* the loader holds what it needs */
  if (made != UR_OK) return 1;
  ur_status status;
  while ((status = ur_loader_next(loader, &batch, &error)) == UR_OK) {
    const uint8_t *memory = (const uint8_t *)batch.batch;
    for (int64_t i = 0; i < batch.rows; i++) {
      (void)printf("%" PRId64, ((const int64_t *)(memory + batch.row_ids_at))[i]);
      for (int32_t c = 0; c < epoch->column_count; c++) {
        const ur_column_view *view = &batch.columns[c];
        show(memory + view->data_at, view->offsets_at == UINT64_MAX ? NULL : (const int64_t *)(memory + view->offsets_at),
             view->valid_at == UINT64_MAX ? NULL : memory + view->valid_at, infos[c].fixed_bytes, i);
      }
      (void)printf("\n");
    }
    ur_batch_release(batch.batch);
  }
  ur_loader_release(loader);
  return status == UR_END ? 0 : failed(NULL, &error);
}

static int try_manifests(void) {
  uint64_t bytes = 0;
  while (fread(&bytes, sizeof bytes, 1, stdin) == 1) {
    ur_manifest manifest;
    ur_error error = {0};
    uint8_t *text = malloc(bytes); /* of just this size, so that a byte beyond is seen */
    if (bytes > 0 && fread(text, bytes, 1, stdin) != 1) return 1;
    ur_status status = ur_manifest_read(text, bytes, "manifest.json", "", &manifest, &error);
    (void)printf("%d %" PRId64 " %" PRId64 " %s\n", status, manifest.parts, manifest.deletions, status == UR_OK ? "" : error.what);
    ur_manifest_release(&manifest);
  }
  return 0;
}

/* Rows of all columns: what comes of them. */
static ur_status read_some(ur_dataset *ds, ur_error *error) {
  int64_t rows[BATCH], count = 0, all = ur_dataset_rows(ds);
  for (; count < BATCH && count < all; count++) rows[count] = count % 2 ? all - 1 - count : count;
  ur_status status = UR_OK;
  for (int32_t c = 0; c < ur_dataset_columns(ds) && status == UR_OK; c++) {
    int64_t offsets[BATCH + 1];
    uint8_t valid[BATCH];
    ur_column_info info;
    if (ur_dataset_describe(ds, c, NULL, &info) != UR_OK) return UR_ARGUMENT;
    ur_output output = {.column = c, .offsets = info.fixed_bytes == 0 ? offsets : NULL, .valid = valid};
    status = ur_dataset_read(ds, rows, count, &output, 1, error);
    if (status == UR_TOO_SMALL && (output.data = malloc(output.used)) != NULL) {
      output.capacity = output.used;
      status = ur_dataset_read(ds, rows, count, &output, 1, error);
    }
    free(output.data);
  }
  return status;
}

static int open_manifests(const char *folder) {
  char path[4096];
  uint64_t bytes = 0;
  (void)snprintf(path, sizeof path, "%s/manifest.json", folder);
  while (fread(&bytes, sizeof bytes, 1, stdin) == 1) {
    uint8_t *text = malloc(bytes);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fread(text, bytes, 1, stdin) != 1 || fwrite(text, bytes, 1, file) != 1 || fclose(file) != 0) return 1;
    free(text);
    ur_dataset *ds = NULL;
    ur_error error = {0};
    ur_status status = ur_dataset_open(folder, NULL, &ds, &error);
    if (status == UR_OK) status = read_some(ds, &error);
    if (status != UR_OK && error.what[0] == 0) return 1;
    ur_dataset_release(ds);
    (void)printf("%d\n", status);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  if (argc == 3 && strcmp(argv[1], "opens") == 0) return open_manifests(argv[2]);
  if (strcmp(argv[1], "manifests") == 0) return try_manifests();
  bool rows = strcmp(argv[1], "rows") == 0;
  int first = rows ? 3 : 12;
  if (argc < first || argc - first > MOST) return 2;
  ur_dataset *ds = NULL;
  ur_error error = {0};
  int32_t columns[MOST], count = 0;
  if (ur_dataset_open(argv[2], NULL, &ds, &error) != UR_OK) return failed(ds, &error);
  (void)printf("%" PRId64 " rows", ur_dataset_rows(ds));
  for (int32_t i = 0; i < ur_dataset_columns(ds); i++) {
    const char *name = NULL;
    if (ur_dataset_describe(ds, i, &name, NULL) != UR_OK || ur_dataset_column(ds, name) != i) return 1;
    (void)printf("\t%s", name);
  }
  (void)printf("\n");
  for (; first < argc; first++) {
    columns[count] = ur_dataset_column(ds, argv[first]);
    if (columns[count++] < 0) return printf("error: there is no column %s\n", argv[first]);
  }
  if (rows) {
    int result = show_rows(ds, columns, count);
    ur_dataset_close(ds);
    int64_t row = 0;
    if (ur_dataset_read(ds, &row, 1, NULL, 0, NULL) != UR_CLOSED && ur_dataset_rows(ds) > 0) result = 1;
    ur_dataset_release(ds);
    return result;
  }
  ur_epoch epoch = {.shuffle = atoi(argv[3]), .remainder = atoi(argv[4]), .seed = strtoull(argv[5], NULL, 10),
                    .epoch = strtoull(argv[6], NULL, 10), .shard = atoll(argv[7]), .shards = atoll(argv[8]), .start = atoll(argv[9]),
                    .block_rows = atoll(argv[10]), .window_blocks = atoll(argv[11]), .batch_size = BATCH, .columns = columns,
                    .column_count = count};
  return show_epoch(ds, &epoch);
}
