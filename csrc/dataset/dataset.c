/* dataset/dataset.c - what a path names: a directory of parts with a manifest, or one part; its columns by name, its rows
 * without those that have been deleted, and its epochs. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/fork.h"
#include "base/object.h"
#include "dataset/deletions.h"
#include "dataset/layers.h"
#include "io/io.h"
#include "set/set.h"
#include "unirecord_internal.h"

#define MANIFEST "manifest.json"
#define MOST_BYTES (UINT64_C(1) << 30) /* of a manifest */
#define UNLOOKED_ROWS (INT64_C(1) << 27) /* so many have a bit each on the manifest's word; for more, parts are opened first */

enum { ATTEMPTS = 100 /* openings of what is replaced meanwhile */, THREADS = 2, PREFETCH = 4 };

typedef struct {
  const char *name;
  int32_t column;
} named;

struct ur_dataset {
  atomic_int references;
  ur_set *set;
  int32_t columns;
  char *names;          /* one after the other */
  const char **name;    /* of each column */
  named *by_name;
  int64_t rows;         /* that have not been deleted */
  uint64_t *live;       /* which these are; NULL: all */
  uint64_t *directory;
  ur_bitmap bitmap;
  bool has_facts;       /* by which sizes of blocks are chosen: rows of a row group, rows in all, bytes of their files */
  uint64_t group_rows, block_rows, block_bytes;
  int lease;            /* a lock on the manifest, by which a writer keeps what this version names; -1: none */
  uint64_t lease_owner; /* ur_forks() of the process that has it */
};

/* ---- columns ------------------------------------------------------------------------------------------------------ */

static int compare_named(const void *a, const void *b) {
  return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* Room for `count` names of `bytes` bytes in all. */
static ur_status make_names(ur_dataset *ds, uint64_t count, uint64_t bytes, ur_error *error) {
  ds->names = malloc((size_t)(bytes + count) + 1); /* exact: they are in memory */
  ds->name = calloc((size_t)count + 1, sizeof *ds->name);
  ds->by_name = calloc((size_t)count + 1, sizeof *ds->by_name);
  if (ds->names != NULL && ds->name != NULL && ds->by_name != NULL) return UR_OK;
  return ur_fail(error, UR_NO_MEMORY, "no memory for the names of columns");
}

static void sort_names(ur_dataset *ds) {
  for (int32_t i = 0; i < ds->columns; i++) ds->by_name[i] = (named){ds->name[i], i};
  qsort(ds->by_name, (size_t)ds->columns, sizeof *ds->by_name, compare_named);
}

static ur_status take_names(ur_dataset *ds, const ur_schema *schema, ur_error *error) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < schema->count; i++) bytes += schema->columns[i].name.bytes; /* exact: they are in memory */
  ur_status status = make_names(ds, schema->count, bytes, error);
  if (status != UR_OK) return status;
  char *at = ds->names;
  for (uint32_t i = 0; i < schema->count; i++) {
    ds->name[ds->columns++] = at;
    at += ur_json_decode(schema->columns[i].name, (uint8_t *)at);
    *at++ = 0;
  }
  sort_names(ds);
  return UR_OK;
}

/* The names that a part's metadata gives its columns, which have been read from its table. */
static ur_status take_part_names(ur_dataset *ds, const ur_part_info *info, ur_error *error) {
  const uint8_t *at = NULL, *name = NULL;
  uint64_t count = 0, bytes = 0;
  if (ur_object_check(info->metadata, info->metadata_bytes, NULL) != UR_OK || !ur_object_is_text(info->metadata, info->metadata_bytes))
    return ur_fail(error, UR_FORMAT, "its metadata cannot be read");
  if (!ur_object_is_canonical(info->metadata, info->metadata_bytes))
    return ur_fail(error, UR_FORMAT, "its metadata are not in the one form that they have");
  const uint8_t *schema = ur_object_first(info->metadata, "schema");
  if (schema == NULL || !ur_schema_entries(schema, &at, &count) || count != (uint64_t)info->columns)
    return ur_fail(error, UR_FORMAT, "its metadata does not name its columns");
  ur_status status = make_names(ds, count, info->metadata_bytes, error);
  if (status != UR_OK) return status;
  char *to = ds->names;
  for (uint64_t i = 0; i < count; i++) {
    if (!ur_schema_next_name(&at, &name, &bytes) || bytes == 0 || memchr(name, 0, bytes) != NULL)
      return ur_fail(error, UR_FORMAT, "its metadata gives column %" PRIu64 " no name", i);
    ds->name[ds->columns++] = to;
    memcpy(to, name, bytes);
    to += bytes; /* exact: inside the names */
    *to++ = 0;
  }
  sort_names(ds);
  for (int32_t i = 1; i < ds->columns; i++)
    if (compare_named(&ds->by_name[i - 1], &ds->by_name[i]) == 0) return ur_fail(error, UR_FORMAT, "its metadata names a column twice");
  return UR_OK;
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static char *path_of(const char *folder, const char *name, const char *ending) {
  size_t bytes = strlen(folder) + strlen(name) + strlen(ending) + 1; /* exact: they are in memory */
  char *path = malloc(bytes);
  if (path != NULL) (void)snprintf(path, bytes, "%s%s%s", folder, name, ending);
  return path;
}

/* Whether there is such a file; -1 without memory. */
static int is_there(const char *folder, const char *name, const char *ending) {
  char *path = path_of(folder, name, ending);
  struct stat facts;
  int found = path == NULL ? -1 : stat(path, &facts) == 0;
  free(path);
  return found;
}

/* UR_NOT_FOUND for a file that is named and is not there. */
static ur_status look_for(const char *folder, const char *name, bool has_index, ur_error *error) {
  int found = is_there(folder, name, ""), index = 1;
  if (found == 1 && has_index) index = is_there(folder, name, ".idx");
  if (index == 0) index = is_there(folder, name, ".idx.new");
  if (found < 0 || index < 0) return ur_fail(error, UR_NO_MEMORY, "no memory for a path");
  if (found == 1 && index == 1) return UR_OK;
  return ur_fail(error, UR_NOT_FOUND, "%s%s: this file is missing, " MANIFEST " names it", name, found == 1 ? ".idx" : "");
}

static ur_status look_for_all(const ur_manifest *m, const char *folder, ur_error *error) {
  ur_status status = UR_OK;
  for (int64_t i = 0; i < m->deletions && status == UR_OK; i++) status = look_for(folder, m->deletion[i].name, false, error);
  for (int64_t i = 0; i < m->parts && status == UR_OK; i++) status = look_for(folder, m->part[i].file.name, true, error);
  for (int64_t i = 0; i < m->files && status == UR_OK; i++) status = look_for(folder, m->file[i].name, true, error);
  return status;
}

/* ---- rows --------------------------------------------------------------------------------------------------------- */

/* Bits for all rows, set; only rows that files really have are given memory on a large scale. */
static ur_status make_live(ur_dataset *ds, ur_error *error) {
  int64_t rows = ur_set_rows(ds->set);
  for (int64_t i = 0; rows > UNLOOKED_ROWS && i < ur_set_parts(ds->set); i++) {
    ur_part *part = NULL;
    ur_status status = ur_set_part(ds->set, i, &part, error);
    if (status != UR_OK) return status;
    ur_part_release(part);
  }
  size_t words = (size_t)((rows + 63) / 64); /* exact: rows are at most 2^62 */
  ds->live = malloc(words * sizeof *ds->live + 8);
  if (ds->live == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a bit of each of %" PRId64 " rows", rows);
  memset(ds->live, 0xFF, words * sizeof *ds->live);
  if (rows % 64 != 0) ds->live[words - 1] = (UINT64_C(1) << rows % 64) - 1;
  return UR_OK;
}

static ur_status leave_out_deleted(ur_dataset *ds, const ur_manifest *m, const char *folder, ur_error *error) {
  ds->rows = ur_set_rows(ds->set);
  if (m->deletions == 0) return UR_OK;
  ur_status status = make_live(ds, error);
  int64_t rows = ur_set_rows(ds->set), first = 0;
  for (int64_t i = 0; i < m->parts && status == UR_OK; first += (int64_t)m->part[i++].rows) {
    if (m->part[i].deletion < 0) continue;
    const ur_named_deletion *deletion = &m->deletion[m->part[i].deletion];
    char *path = path_of(folder, deletion->name, "");
    if (path == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a path");
    status = ur_deletions_apply(path, deletion, &m->part[i], first, ds->live, error);
    free(path);
  }
  if (status != UR_OK) return status;
  ds->rows = ur_bitmap_ones(ds->live, rows);
  int64_t words = ur_bitmap_directory(rows, ds->rows);
  ds->directory = words < 0 ? NULL : malloc((size_t)words * sizeof *ds->directory + 8);
  if (ds->directory == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the numbers of %" PRId64 " rows", rows);
  ds->bitmap = (ur_bitmap){.words = ds->live, .directory = ds->directory, .bits = rows, .ones = ds->rows};
  return ur_bitmap_index(ds->live, rows, ds->rows, ds->directory);
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

/* Takes a shared lock on the manifest, so that no writer removes what this version names. Whether it was still there. */
static bool take_lease(ur_dataset *ds, int fd) {
  struct stat facts;
  while (flock(fd, LOCK_SH | LOCK_NB) != 0)
    if (errno != EINTR) { /* a writer removes it now, or the file system has no locks */
      bool gone = errno == EWOULDBLOCK;
      ur_file_close(fd);
      return !gone;
    }
  if (fstat(fd, &facts) == 0 && facts.st_nlink == 0) {
    ur_file_close(fd);
    return false;
  }
  ur_fork_closes(fd, 1);
  ds->lease = fd;
  ds->lease_owner = ur_forks();
  return true;
}

static void end_lease(ur_dataset *ds) {
  if (ds->lease >= 0 && ds->lease_owner == ur_forks()) { /* in a child, it has been closed */
    ur_fork_closes(ds->lease, 0);
    ur_file_close(ds->lease);
  }
  ds->lease = -1;
}

/* One reading of the manifest and of what it names; *again: it was replaced meanwhile. */
static ur_status open_folder(ur_dataset *ds, const char *folder, const ur_dataset_options *options, uint64_t *known, bool *again,
                             ur_error *error) {
  char *path = path_of(folder, MANIFEST, "");
  uint8_t *text = NULL;
  uint64_t bytes = 0;
  int fd = -1;
  if (path == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a path");
  ur_status status = ur_read_whole(path, MANIFEST, MOST_BYTES, &text, &bytes, &fd, error);
  free(path);
  if (status != UR_OK) return status;
  uint64_t found = ur_xxh3_64(text, (size_t)bytes, 0);
  ur_manifest m;
  *again = !take_lease(ds, fd);
  status = ur_manifest_read(text, bytes, MANIFEST, folder, &m, error);
  if (status == UR_OK) status = look_for_all(&m, folder, error);
  if (status == UR_NOT_FOUND) *again = *again || *known != found;
  *known = found;
  if (status == UR_OK) status = ur_layers_open(&m, folder, options->io, options->verify, &ds->set, error);
  if (status == UR_OK) status = leave_out_deleted(ds, &m, folder, error);
  if (status == UR_OK) status = take_names(ds, &m.schema, error);
  ds->has_facts = m.has_facts;
  ds->group_rows = m.group_rows;
  ds->block_rows = m.block_rows;
  ds->block_bytes = m.block_bytes;
  if (!m.has_facts) {
    ds->block_rows = ds->block_bytes = 0;
    for (int64_t i = 0; i < m.parts; i++) {
      ds->block_rows += m.part[i].rows;        /* exact: their sum is at most 2^62 */
      ds->block_bytes += m.part[i].file.bytes; /* exact: their sum is below 2^63 */
    }
  }
  ur_manifest_release(&m);
  return status;
}

static ur_status open_part(ur_dataset *ds, const char *path, const ur_dataset_options *options, ur_error *error) {
  ur_part_ref ref = {.data_path = path, .rows = -1};
  ur_set_options set = {.io = options->io, .verify = options->verify};
  ur_part *part = NULL;
  ur_part_info info;
  ur_status status = ur_set_open(&ref, 1, &set, &ds->set, error);
  if (status == UR_OK) status = ur_set_part(ds->set, 0, &part, error);
  if (status != UR_OK) return status;
  ur_part_describe(part, &info);
  ds->rows = info.rows;
  ds->block_rows = (uint64_t)info.rows;
  ds->block_bytes = info.data_bytes;
  status = take_part_names(ds, &info, error);
  ur_part_release(part);
  return status;
}

static ur_dataset *new_dataset(void) {
  ur_dataset *ds = calloc(1, sizeof *ds);
  if (ds == NULL) return NULL;
  atomic_init(&ds->references, 1);
  ds->lease = -1;
  return ds;
}

static ur_status open_directory(const char *path, const ur_dataset_options *options, ur_dataset **out, ur_error *error) {
  size_t bytes = strlen(path);
  char *folder = path_of(path, bytes > 0 && path[bytes - 1] == '/' ? "" : "/", "");
  if (folder == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a path");
  ur_status status = UR_OK;
  uint64_t known = 0;
  bool again = true;
  for (int attempt = 0; attempt < ATTEMPTS && again; attempt++) {
    again = false;
    ur_dataset *ds = new_dataset();
    status = ds == NULL ? ur_fail(error, UR_NO_MEMORY, "no memory for a dataset") : open_folder(ds, folder, options, &known, &again, error);
    if (status == UR_OK && !again) {
      *out = ds;
      break;
    }
    ur_dataset_release(ds);
    if (status == UR_OK) status = ur_fail(error, UR_STALE, MANIFEST ": it was replaced %d times while it was opened", ATTEMPTS);
  }
  free(folder);
  return status;
}

ur_status ur_dataset_open(const char *path, const ur_dataset_options *given, ur_dataset **out, ur_error *error) {
  static const ur_dataset_options usual = {.io = UR_IO_AUTO, .verify = UR_VERIFY_FIRST};
  const ur_dataset_options *options = given == NULL ? &usual : given;
  struct stat facts;
  if (stat(path, &facts) != 0) return ur_fail_os(error, UR_FILE_NONE, errno, "there is no such dataset");
  if (S_ISDIR(facts.st_mode)) return open_directory(path, options, out, error);
  ur_dataset *ds = new_dataset();
  if (ds == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a dataset");
  ur_status status = open_part(ds, path, options, error);
  if (status == UR_OK)
    *out = ds;
  else
    ur_dataset_release(ds);
  return status;
}

void ur_dataset_close(ur_dataset *ds) { ur_set_close(ds->set); }

void ur_dataset_release(ur_dataset *ds) {
  if (ds == NULL || atomic_fetch_sub(&ds->references, 1) != 1) return;
  ur_set_release(ds->set);
  end_lease(ds);
  free(ds->names);
  free(ds->name);
  free(ds->by_name);
  free(ds->live);
  free(ds->directory);
  free(ds);
}

/* ---- questions ---------------------------------------------------------------------------------------------------- */

int64_t ur_dataset_rows(const ur_dataset *ds) { return ds->rows; }

int32_t ur_dataset_columns(const ur_dataset *ds) { return ds->columns; }

int32_t ur_dataset_column(const ur_dataset *ds, const char *name) {
  named key = {name, 0};
  const named *found = bsearch(&key, ds->by_name, (size_t)ds->columns, sizeof key, compare_named);
  return found == NULL ? -1 : found->column;
}

ur_status ur_dataset_describe(const ur_dataset *ds, int32_t column, const char **name, ur_column_info *info) {
  if (column < 0 || column >= ds->columns) return UR_ARGUMENT;
  ur_status status = info == NULL ? UR_OK : ur_set_column(ds->set, column, info, NULL);
  if (status == UR_OK && name != NULL) *name = ds->name[column];
  return status;
}

const char *ur_dataset_file(const ur_dataset *ds, const ur_error *error) {
  const ur_set *set = ds->set;
  if (error->part < 0 || error->part >= set->parts) return NULL;
  if (set->layers != NULL) {
    bool known = error->column >= 0 && error->column < ds->columns;
    set = set->layers->sets[known ? set->layers->columns[error->column].layer : 0];
  }
  return set->refs[error->part].data_path;
}

ur_status ur_dataset_read(ur_dataset *ds, const int64_t *rows, int64_t n, ur_output *outputs, int32_t output_count, ur_error *error) {
  if (ds->live == NULL) return ur_set_read(ds->set, rows, n, outputs, output_count, error);
  if (n < 0) return ur_fail(error, UR_ARGUMENT, "%" PRId64 " rows are not possible", n);
  int64_t *stored = malloc((size_t)n * sizeof *stored + 8);
  if (stored == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the numbers of %" PRId64 " rows", n);
  ur_status status = ur_bitmap_select(&ds->bitmap, rows, n, stored);
  if (status == UR_OK)
    status = ur_set_read(ds->set, stored, n, outputs, output_count, error);
  else
    status = ur_because(error, UR_REASON_ROW, ur_fail(error, status, "a row is not in [0, %" PRId64 ")", ds->rows));
  free(stored);
  return status;
}

/* ---- epochs ------------------------------------------------------------------------------------------------------- */

static int64_t quotient(uint64_t bytes, uint64_t rows) {
  return rows == 0 ? 0 : (int64_t)((double)bytes / (double)rows);
}

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* Rows of a row group of the first part that has any; 1 without rows. */
static ur_status rows_of_a_group(ur_dataset *ds, int64_t *rows, ur_error *error) {
  *rows = 1;
  for (int64_t i = 0; i < ds->set->parts; i++) {
    if (ds->set->starts[i + 1] == ds->set->starts[i]) continue;
    ur_part *part = NULL;
    ur_part_info info;
    ur_status status = ur_set_part(ds->set, i, &part, error);
    if (status != UR_OK) return status;
    ur_part_describe(part, &info);
    *rows = info.group_rows != 0 ? info.group_rows : info.groups <= 1 ? info.rows : (info.rows - 1) / info.groups + 1;
    ur_part_release(part);
    return UR_OK;
  }
  return UR_OK;
}

/* Sizes of blocks by docs/spec/order.md, rule O-6. */
static ur_status choose_blocks(ur_dataset *ds, int64_t *block_rows, int64_t *window_blocks, ur_error *error) {
  int64_t group = (int64_t)ds->group_rows, row = most_of(quotient(ds->block_bytes, ds->block_rows), 1);
  ur_status status = ds->has_facts ? UR_OK : rows_of_a_group(ds, &group, error);
  int64_t least = most_of((INT64_C(1) << 20) / row, 1), most = most_of((INT64_C(8) << 20) / row, 1);
  *block_rows = most_of(least_of(least_of(most_of(group, least), most), most_of(ds->rows, 1)), 1);
  *window_blocks = most_of(16, (4096 + *block_rows - 1) / *block_rows);
  return status;
}

/* Rows of each part that are there. */
static ur_status count_parts(const ur_dataset *ds, int64_t *rows, ur_error *error) {
  const int64_t *starts = ds->set->starts;
  int64_t parts = ds->set->parts;
  ur_status status = UR_OK;
  if (ds->live != NULL)
    status = ur_bitmap_rank(&ds->bitmap, starts, parts + 1, rows);
  else
    memcpy(rows, starts, (size_t)(parts + 1) * sizeof *rows); /* exact: as many starts as there are */
  if (status != UR_OK) return ur_fail(error, status, "the rows of parts cannot be counted");
  for (int64_t i = 0; i < parts; i++) rows[i] = rows[i + 1] - rows[i];
  return UR_OK;
}

static ur_status make_order(ur_dataset *ds, const ur_epoch *epoch, ur_order **order, ur_error *error) {
  bool blocks = epoch->shuffle == UR_ORDER_BLOCK, by_parts = epoch->shuffle == UR_ORDER_PARTS || epoch->shuffle == UR_ORDER_WITHIN_PARTS;
  int64_t block_rows = 1, window_blocks = 1, *rows = NULL;
  if (epoch->block_rows < 0 || epoch->window_blocks < 0 || (!blocks && (epoch->block_rows != 0 || epoch->window_blocks != 0)))
    return ur_fail(error, UR_ARGUMENT, "block_rows and window_blocks are sizes, for UR_ORDER_BLOCK alone");
  ur_status status = UR_OK;
  if (blocks && (epoch->block_rows == 0 || epoch->window_blocks == 0)) status = choose_blocks(ds, &block_rows, &window_blocks, error);
  if (epoch->block_rows > 0) block_rows = epoch->block_rows;
  if (epoch->window_blocks > 0) window_blocks = epoch->window_blocks;
  if (status == UR_OK && by_parts) {
    rows = malloc(((size_t)ds->set->parts + 1) * sizeof *rows);
    status = rows == NULL ? ur_fail(error, UR_NO_MEMORY, "no memory for the rows of parts") : count_parts(ds, rows, error);
  }
  if (status == UR_OK)
    status = ur_order_new(ds->rows, epoch->shuffle, epoch->seed, epoch->epoch, block_rows, window_blocks, rows,
                          by_parts ? ds->set->parts : 0, order, error);
  free(rows);
  return status;
}

static ur_status check_epoch(const ur_dataset *ds, const ur_epoch *epoch, int64_t shards, ur_error *error) {
  if (shards < 1 || shards > INT64_C(1) << 31 || epoch->shard < 0 || epoch->shard >= shards)
    return ur_fail(error, UR_ARGUMENT, "shard %" PRId64 " of %" PRId64 " is not possible", epoch->shard, epoch->shards);
  if (shards > most_of(ds->rows, 1))
    return ur_fail(error, UR_ARGUMENT, "%" PRId64 " shards are more than the %" PRId64 " rows", shards, ds->rows);
  if (epoch->remainder < UR_REMAINDER_PAD || epoch->remainder > UR_REMAINDER_UNEVEN)
    return ur_fail(error, UR_ARGUMENT, "remainder %" PRId32 " is none of ur_remainder", epoch->remainder);
  if (epoch->start < 0 || epoch->start > INT64_C(1) << 62)
    return ur_fail(error, UR_ARGUMENT, "start %" PRId64 " is no position", epoch->start);
  if (epoch->prefetch < 0 || epoch->threads < 0) return ur_fail(error, UR_ARGUMENT, "prefetch and threads are at least 0");
  return UR_OK;
}

/* Samples of a shard from `start` on: docs/spec/order.md, rule O-10. */
static int64_t samples_of(const ur_dataset *ds, const ur_epoch *epoch, int64_t shards) {
  int64_t left = most_of(ds->rows - epoch->start, 0), whole = left / shards, rest = left % shards;
  if (epoch->remainder == UR_REMAINDER_DROP || rest == 0) return whole;
  return whole + (epoch->remainder == UR_REMAINDER_PAD || epoch->shard < rest);
}

static void let_go(void *dataset) { ur_dataset_release(dataset); }

ur_status ur_dataset_loader(ur_dataset *ds, ur_pool *pool, const ur_epoch *epoch, ur_loader **out, ur_error *error) {
  int64_t shards = epoch->shards == 0 ? 1 : epoch->shards;
  int32_t threads = epoch->threads == 0 ? THREADS : epoch->threads, prefetch = epoch->prefetch == 0 ? PREFETCH : epoch->prefetch;
  ur_order *order = NULL;
  ur_pool *own = NULL;
  ur_loader *loader = NULL;
  ur_status status = check_epoch(ds, epoch, shards, error);
  if (status == UR_OK) status = make_order(ds, epoch, &order, error);
  if (status == UR_OK && pool == NULL) status = ur_pool_new(prefetch, &own, error);
  if (status == UR_OK) {
    ur_loader_options options = {.order = order, .bitmap = ds->live == NULL ? NULL : &ds->bitmap, .selection_step = 1,
                                 .first = epoch->start + epoch->shard, .stride = shards, .samples = samples_of(ds, epoch, shards),
                                 .batch_size = epoch->batch_size, .drop_last = epoch->drop_last, .prefetch = prefetch,
                                 .threads = threads, .output_count = epoch->column_count, .columns = epoch->columns,
                                 .on_corrupt = epoch->skip_corrupt};
    status = ur_loader_new(ds->set, pool == NULL ? own : pool, &options, &loader, error);
  }
  ur_order_release(order);
  ur_pool_release(own);
  if (status != UR_OK) return status;
  atomic_fetch_add(&ds->references, 1);
  ur_loader_keep(loader, ds, let_go);
  *out = loader;
  return UR_OK;
}
