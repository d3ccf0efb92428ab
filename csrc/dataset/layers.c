/* dataset/layers.c - the files of a dataset, opened: see dataset/layers.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"
#include "dataset/layers.h"
#include "unirecord_internal.h"

enum { MOST_LAYERS = 1000 };

/* A column, to be sorted by which file of each layout it is in. */
typedef struct {
  const ur_manifest *manifest;
  uint32_t column;
} placed;

static uint32_t file_of(const ur_manifest *m, uint32_t layout, uint32_t column) {
  return layout == 0 ? 0 : m->layout[layout - 1].places[column].file;
}

static int compare_files(const void *a, const void *b) {
  const placed *one = a, *other = b;
  for (uint32_t i = 0; i < one->manifest->layouts; i++) {
    uint32_t left = one->manifest->layout[i].places[one->column].file;
    uint32_t right = other->manifest->layout[i].places[other->column].file;
    if (left != right) return left < right ? -1 : 1;
  }
  return 0;
}

static int compare_placed(const void *a, const void *b) {
  int found = compare_files(a, b);
  uint32_t left = ((const placed *)a)->column, right = ((const placed *)b)->column;
  return found != 0 ? found : left < right ? -1 : left > right;
}

/* For each column its layer, numbered by their first columns, and its number there. */
static ur_status place_columns(const ur_manifest *m, ur_joined_column *of, int32_t *layers, ur_error *error) {
  uint32_t count = m->schema.count;
  placed *sorted = malloc(count * sizeof *sorted);
  uint32_t *first = malloc(count * sizeof *first); /* of the columns in the same files, for each column */
  if (sorted == NULL || first == NULL) {
    free(sorted);
    free(first);
    return ur_fail(error, UR_NO_MEMORY, "no memory for the places of columns");
  }
  for (uint32_t i = 0; i < count; i++) sorted[i] = (placed){m, i};
  qsort(sorted, count, sizeof *sorted, compare_placed);
  for (uint32_t i = 0, begin = 0; i < count; i++) {
    if (compare_files(&sorted[begin], &sorted[i]) != 0) begin = i;
    first[sorted[i].column] = sorted[begin].column;
    of[sorted[i].column].column = (int32_t)(i - begin);
  }
  *layers = 0;
  for (uint32_t i = 0; i < count; i++) of[i].layer = first[i] == i ? (*layers)++ : of[first[i]].layer;
  free(sorted);
  free(first);
  return UR_OK;
}

/* What is read from one file of each part. */
typedef struct {
  uint32_t count;
  uint32_t *columns; /* of the dataset */
  uint8_t *table;
  int32_t *layouts;  /* which columns of the file of a part with layout n these are; last, of parts without a layout */
  ur_part_ref *refs;
  char *paths;
} layer;

static void free_layer(layer *l) {
  free(l->columns);
  free(l->table);
  free(l->layouts);
  free(l->refs);
  free(l->paths);
}

static const ur_named_file *file_in(const ur_manifest *m, const ur_listed_part *part, uint32_t column) {
  uint32_t file = file_of(m, part->layout, column);
  return file == 0 ? &part->file : &m->file[part->files + file - 1];
}

static ur_status fill_layer(const ur_manifest *m, const char *folder, const ur_joined_column *of, int32_t number, layer *l,
                            ur_error *error) {
  size_t stem = strlen(folder), path_bytes = stem + UR_FILE_NAME; /* exact: both are in memory */
  for (uint32_t i = 0; i < m->schema.count; i++) l->count += of[i].layer == number;
  l->columns = malloc(l->count * sizeof *l->columns);
  l->table = malloc((size_t)l->count * UR_COLUMN_BYTES);
  l->layouts = malloc(((size_t)m->layouts + 1) * l->count * sizeof *l->layouts);
  l->refs = calloc((size_t)m->parts + 1, sizeof *l->refs);
  l->paths = malloc((size_t)m->parts * path_bytes + 1); /* exact: the parts are in memory */
  if (l->columns == NULL || l->table == NULL || l->layouts == NULL || l->refs == NULL || l->paths == NULL)
    return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRId64 " parts", m->parts);
  for (uint32_t i = 0; i < m->schema.count; i++) {
    if (of[i].layer != number) continue;
    uint32_t at = (uint32_t)of[i].column;
    l->columns[at] = i;
    memcpy(l->table + (size_t)at * UR_COLUMN_BYTES, m->schema.columns[i].entry, UR_COLUMN_BYTES);
    for (uint32_t j = 0; j < m->layouts; j++)
      l->layouts[(size_t)j * l->count + at] = (int32_t)m->layout[j].places[i].column;
    l->layouts[(size_t)m->layouts * l->count + at] = (int32_t)i;
  }
  bool all = l->count == m->schema.count;
  for (int64_t i = 0; i < m->parts; i++) {
    const ur_listed_part *part = &m->part[i];
    const ur_named_file *file = file_in(m, part, l->columns[0]);
    char *path = l->paths + (size_t)i * path_bytes; /* exact: inside the paths */
    memcpy(path, folder, stem);
    memcpy(path + stem, file->name, UR_FILE_NAME);
    l->refs[i] = (ur_part_ref){.data_path = path, .id = file->id, .rows = (int64_t)part->rows, .content_digest = file->content_digest,
                               .layout = (int32_t)(part->layout != 0 ? part->layout : all ? 0 : m->layouts + 1),
                               .patch = part->patch, .patch_bytes = part->patch_bytes,
                               .patch_file = file_of(m, part->layout, l->columns[0])};
  }
  return UR_OK;
}

static ur_status open_layer(const ur_manifest *m, const char *folder, const ur_joined_column *of, int32_t number,
                            ur_set_options options, ur_set **set, ur_error *error) {
  layer l = {0};
  ur_status status = fill_layer(m, folder, of, number, &l, error);
  bool all = l.count == m->schema.count;
  options.table = l.table;
  options.columns = l.count;
  options.schema = all ? m->packed.data : NULL;
  options.schema_bytes = all ? (uint32_t)m->packed.bytes : 0;
  options.layouts = m->layouts > 0 ? l.layouts : NULL;
  options.layout_count = m->layouts > 0 ? (int32_t)m->layouts + 1 : 0;
  if (status == UR_OK) status = ur_set_open(l.refs, m->parts, &options, set, error);
  free_layer(&l);
  return status;
}

ur_status ur_layers_open(const ur_manifest *m, const char *folder, int32_t io, int32_t verify, ur_set **set, ur_error *error) {
  ur_set_options options = {.io = io, .verify = verify};
  for (int64_t i = 0; i < m->parts; i++) options.bytes += m->part[i].file.bytes; /* exact: their sum is below 2^63 */
  for (int64_t i = 0; i < m->files; i++) options.bytes += m->file[i].bytes;      /* exact: likewise */
  if (m->packed.bytes > UINT32_MAX || m->layouts >= INT32_MAX)
    return ur_fail(error, UR_FORMAT, "manifest.json: its schema is larger than any part can hold");
  ur_joined_column *of = calloc((size_t)m->schema.count, sizeof *of);
  int32_t layers = 0, opened = 0;
  if (of == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the places of columns");
  ur_status status = place_columns(m, of, &layers, error);
  uint64_t files = 0;
  /* a set takes a few times the memory of the text that names a part: more sets than that text accounts for are an attack */
  if (status == UR_OK && layers > 1 && (layers > MOST_LAYERS || !ur_multiply((uint64_t)layers, (uint64_t)m->parts, &files) || files > m->text_bytes))
    status = ur_fail(error, UR_FORMAT, "manifest.json: its columns lie in %" PRId32 " ways in the files of %" PRId64
                     " parts, which is more than this library opens", layers, m->parts);
  ur_set **sets = status == UR_OK ? calloc((size_t)layers, sizeof *sets) : NULL;
  if (status == UR_OK && sets == NULL) status = ur_fail(error, UR_NO_MEMORY, "no memory for the files of columns");
  for (; status == UR_OK && opened < layers; opened++) {
    status = open_layer(m, folder, of, opened, options, &sets[opened], error);
    if (status != UR_OK) break;
  }
  if (status == UR_OK && layers == 1) {
    *set = sets[0];
    opened = 0;
  } else if (status == UR_OK) {
    status = ur_set_join(sets, layers, of, (int32_t)m->schema.count, set, error);
  }
  for (int32_t i = 0; i < opened; i++) ur_set_release(sets[i]);
  free(sets);
  free(of);
  return status;
}
