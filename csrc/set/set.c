/* set/set.c - the rows of several parts as one row space; parts are opened when first needed, and bounded in number. */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>

#include "set/set.h"
#include "base/fork.h"
#include "base/starts.h"
#include "unirecord_internal.h"

#define LEAST_OPEN 8 /* parts that a set may keep open however many descriptors the process holds */

/* ---- parts in slots ------------------------------------------------------------------------------------------- */

/* Empties a slot; the part lives on while anyone holds a reference. */
static bool empty_slot(ur_set *set, ur_slot *slot) {
  ur_part *part = atomic_exchange(&slot->part, NULL);
  if (part == NULL) return false;
  atomic_fetch_sub(&set->open_parts, 1);
  if (atomic_load(&slot->pins) == 0) {
    ur_part_release(part);
    return true;
  }
  /* someone may have read the pointer and not yet taken a reference: keep ours until the set dies */
  ur_retired *retired = malloc(sizeof *retired);
  if (retired == NULL) return true; /* one part stays open for ever, which is all that can be done */
  retired->part = part;
  retired->next = atomic_load(&set->retired);
  while (!atomic_compare_exchange_weak(&set->retired, &retired->next, retired)) continue;
  return true;
}

/* Closes the part that has not been asked for the longest; false when there is none but `keep`. */
static bool evict_one(ur_set *set, int64_t keep) {
  int64_t oldest = -1;
  uint64_t least = UINT64_MAX;
  ur_direct_end(set);
  for (int64_t i = 0; i < set->parts; i++) {
    uint64_t used = atomic_load_explicit(&set->slots[i].used, memory_order_relaxed);
    if (i == keep || used >= least || atomic_load(&set->slots[i].part) == NULL) continue;
    if (atomic_load(&set->slots[i].pins) != 0) continue;
    least = used;
    oldest = i;
  }
  return oldest >= 0 && empty_slot(set, &set->slots[oldest]);
}

static void empty_all(ur_set *set) {
  for (int32_t i = 0; set->layers != NULL && i < set->layers->count; i++) ur_set_close(set->layers->sets[i]);
  for (int64_t i = 0; set->slots != NULL && i < set->parts; i++) (void)empty_slot(set, &set->slots[i]);
}

/* The columns that a table says, unless they are known already. */
static ur_status know_columns(ur_set *set, const uint8_t *table, uint32_t count, ur_error *error) {
  size_t entries = (size_t)count * UR_COLUMN_BYTES, infos = (size_t)count * sizeof(ur_column_info);
  ur_set_columns *columns = malloc(sizeof *columns + infos + entries), *none = NULL;
  if (columns == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the columns");
  columns->count = count;
  columns->table = (uint8_t *)columns + sizeof *columns + infos;
  memcpy(columns->table, table, entries);
  ur_status status = UR_OK;
  for (uint32_t i = 0; i < count && status == UR_OK; i++) {
    status = ur_parse_column(table + (size_t)i * UR_COLUMN_BYTES, &columns->info[i], error);
    columns->info[i].codec = UR_CODEC_PLAIN; /* what each part stores is its own; values are handed out as they are */
    columns->info[i].chunked = 0;
  }
  if (status != UR_OK || !atomic_compare_exchange_strong(&set->columns, &none, columns)) free(columns);
  return status;
}

/* Whether two entries of column tables, which have been checked, say the same of the values; how these are compressed is
 * each part's own. */
static bool same_values(const uint8_t *a, const uint8_t *b) {
  uint64_t width = ur_load64(a + UR_AT_COLUMN_FIXED) | ur_load64(a + UR_AT_COLUMN_VALUE); /* one of them is zero */
  return memcmp(a, b, UR_AT_COLUMN_CODEC) == 0 &&
         width == (ur_load64(b + UR_AT_COLUMN_FIXED) | ur_load64(b + UR_AT_COLUMN_VALUE));
}

static bool has_table(const ur_part *part, const uint8_t *table, uint32_t columns) {
  if (part->shown != columns) return false;
  for (size_t i = 0; i < columns; i++)
    if (!same_values(table + i * UR_COLUMN_BYTES, part->table + i * UR_COLUMN_BYTES)) return false;
  return true;
}

/* Whether the metadata of a part begins with the schema that the options give, which has one form. */
static bool has_schema(const ur_set *set, const ur_part *part) {
  static const uint8_t key[] = {0xA6, 's', 'c', 'h', 'e', 'm', 'a'};
  uint64_t bytes = set->options.schema_bytes;
  ur_part_info info;
  ur_part_describe(part, &info);
  uint64_t head = info.metadata_bytes > 0 && info.metadata[0] == 0xDE ? 3 : 1; /* of a map of 16 keys and more, or of fewer */
  return info.metadata_bytes >= head + sizeof key + bytes && /* exact: 32 bits and 8 */
         memcmp(info.metadata + head, key, sizeof key) == 0 &&
         memcmp(info.metadata + head + sizeof key, set->options.schema, bytes) == 0; /* exact: inside of it */
}

/* All parts have the schema and the column table that the caller expects, and that of the first one opened. */
static ur_status check_columns(ur_set *set, int64_t number, const ur_part *part, ur_error *error) {
  ur_status status = atomic_load(&set->columns) == NULL ? know_columns(set, part->table, part->shown, error) : UR_OK;
  if (status != UR_OK) return status;
  const ur_set_columns *columns = atomic_load(&set->columns);
  bool same = has_table(part, columns->table, columns->count);
  if (!same && set->table_given)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_FILE_HEADER_BYTES,
                      "the column table is not that of the dataset's schema");
  if (set->options.schema != NULL && set->refs[number].content_digest != NULL && set->refs[number].layout == 0 &&
      !has_schema(set, part))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, UR_FILE_HEADER_BYTES,
                      "the schema in its metadata is not the dataset's: names of columns differ");
  if (same) return UR_OK;
  status = ur_fail_at(error, UR_ARGUMENT, UR_FILE_DATA, UR_FILE_HEADER_BYTES,
                      "the part's columns are not those of the part opened first: their schemas differ");
  return ur_because(error, UR_REASON_SCHEMA, status);
}

static bool out_of_descriptors(const ur_error *error) {
  return (error->status == UR_IO && (error->os_errno == EMFILE || error->os_errno == ENFILE)) ||
         error->status == UR_NO_MEMORY;
}

bool ur_layers_make_room(const ur_layers *layers, int32_t number, const ur_error *error) {
  bool made = false;
  for (int32_t i = 0; i < layers->count && out_of_descriptors(error); i++)
    made = (i != number && evict_one(layers->sets[i], -1)) || made;
  return made;
}

/* Whether another part should rather take the place of one of this set's. */
static bool is_crowded(const ur_set *set) {
  return atomic_load(&set->open_parts) >= LEAST_OPEN && ur_descriptors_held() + UR_PART_DESCRIPTORS > set->descriptors;
}

/* Opens a part; others are closed when the process holds many descriptors, and when it gets no more of them. */
static ur_status open_with_room(ur_set *set, int64_t number, ur_part **part, ur_error *error) {
  for (;;) {
    while (is_crowded(set) && evict_one(set, number)) continue;
    ur_status status = ur_part_open(&set->refs[number], number, &set->options, part, error);
    if (status == UR_OK || !out_of_descriptors(error) || !evict_one(set, number)) return status;
  }
}

static ur_status open_slot(ur_set *set, int64_t number, ur_part **out, ur_error *error) {
  ur_error local = {0};
  ur_part *part = NULL;
  ur_status status = open_with_room(set, number, &part, &local);
  if (status == UR_OK) {
    status = check_columns(set, number, part, &local);
    if (status != UR_OK) ur_part_release(part);
  }
  if (status != UR_OK) {
    local.part = number;
    if (error != NULL) *error = local;
    return status;
  }
  atomic_store(&set->io, part->file->io);
  ur_part_retain(part); /* one reference for the slot, one for the caller */
  ur_part *other = NULL;
  if (atomic_compare_exchange_strong(&set->slots[number].part, &other, part))
    atomic_fetch_add(&set->open_parts, 1);
  else
    ur_part_release(part); /* another thread was faster: this one is used for one call and goes */
  *out = part;
  return UR_OK;
}

/* Part number `part` of the first layer. */
static ur_status acquire_first(const ur_layers *layers, int64_t part, ur_part **out, ur_error *error) {
  ur_error local = {0};
  ur_status status = ur_set_acquire(layers->sets[0], part, out, &local);
  while (status != UR_OK && ur_layers_make_room(layers, 0, &local))
    status = ur_set_acquire(layers->sets[0], part, out, &local);
  if (status != UR_OK && error != NULL) *error = local;
  return status;
}

ur_status ur_set_acquire(ur_set *set, int64_t number, ur_part **out, ur_error *error) {
  if (set->layers != NULL) return acquire_first(set->layers, number, out, error);
  ur_slot *slot = &set->slots[number];
  atomic_fetch_add(&slot->pins, 1);
  ur_part *part = atomic_load(&slot->part);
  if (part != NULL) ur_part_retain(part);
  atomic_fetch_sub(&slot->pins, 1);
  if (set->parts > 1) {
    uint64_t now = atomic_fetch_add_explicit(&set->clock, 1, memory_order_relaxed);
    atomic_store_explicit(&slot->used, now, memory_order_relaxed);
  }
  if (part == NULL) return open_slot(set, number, out, error);
  *out = part;
  return UR_OK;
}

void ur_set_touch(const ur_set *set, int64_t number) {
  const ur_part *part = atomic_load_explicit(&set->slots[number].part, memory_order_relaxed); /* an address: it may be gone */
  if (part == NULL) return;
  for (size_t at = 0; at < sizeof *part; at += 64) __builtin_prefetch((const char *)part + at);
}

/* ---- opening and closing -------------------------------------------------------------------------------------- */

static ur_status number_rows(ur_set *set, ur_error *error) {
  uint64_t rows = 0;
  for (int64_t i = 0; i < set->parts; i++) {
    if (set->refs[i].rows < 0) {
      ur_part *part = NULL;
      ur_status status = ur_set_acquire(set, i, &part, error);
      if (status != UR_OK) return status;
      set->refs[i].rows = (int64_t)part->header.rows;
      ur_part_release(part);
    }
    rows += (uint64_t)set->refs[i].rows; /* each below 2^63, and the sum before it at most 2^62 */
    if (rows > UR_MAX_ROWS) return ur_fail(error, UR_ARGUMENT, "the parts have more than 2^62 rows");
    set->starts[i + 1] = (int64_t)rows;
  }
  return UR_OK;
}

static void free_set(ur_set *set) {
  if (set->slots != NULL) empty_all(set);
  for (ur_retired *retired = atomic_load(&set->retired); retired != NULL;) {
    ur_retired *next = retired->next;
    ur_part_release(retired->part);
    free(retired);
    retired = next;
  }
  for (int32_t i = 0; set->layers != NULL && i < set->layers->count; i++) ur_set_release(set->layers->sets[i]);
  if (set->layers != NULL) free(set->layers->sets);
  free(set->layers);
  free(atomic_load(&set->columns));
  ur_direct_free(set);
  free(set->refs);
  free(set->names);
  free(set->schema);
  free(set->layouts);
  free(set->starts);
  free(set->slots);
  free(set);
}

ur_status ur_set_open(const ur_part_ref *refs, int64_t parts, const ur_set_options *options, ur_set **out,
                      ur_error *error) {
  if (parts < 0 || parts > INT32_MAX || options->io < UR_IO_AUTO || options->io > UR_IO_MEMORY ||
      options->verify < UR_VERIFY_FIRST || options->verify > UR_VERIFY_NEVER)
    return ur_fail(error, UR_ARGUMENT, "io %" PRId32 ", verify %" PRId32 " or %" PRId64 " parts are not possible",
                   options->io, options->verify, parts);
  if (options->fetch != NULL && options->io != UR_IO_AUTO)
    return ur_fail(error, UR_ARGUMENT, "io %" PRId32 " is for files, and these are fetched", options->io);
  ur_status status = ur_check_layouts(refs, parts, options, error);
  if (status != UR_OK) return status;
  ur_set *set = calloc(1, sizeof *set);
  if (set == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a set of parts");
  atomic_init(&set->references, 1);
  set->options = *options;
  set->parts = parts;
  set->starts = calloc((size_t)parts + 1, sizeof *set->starts);
  set->slots = calloc((size_t)parts + 1, sizeof *set->slots);
  set->descriptors = ur_file_limit() / 4 * 3; /* the rest of the process needs some too */
  if (set->starts == NULL || set->slots == NULL || !ur_set_copy(set, refs))
    status = ur_fail(error, UR_NO_MEMORY, "no memory for %" PRId64 " parts", parts);
  set->table_given = options->table != NULL;
  set->options.table = NULL; /* the columns have a copy */
  if (status == UR_OK && set->table_given) status = know_columns(set, options->table, options->columns, error);
  if (status == UR_OK) status = number_rows(set, error);
  if (status != UR_OK) {
    free_set(set);
    return status;
  }
  *out = set;
  return UR_OK;
}

ur_set *ur_set_retain(ur_set *set) {
  atomic_fetch_add(&set->references, 1);
  return set;
}

bool ur_set_enter(ur_set *set, ur_error *error) {
  atomic_fetch_add(&set->references, 1);
  atomic_fetch_add(&set->calls, 1);
  if (!atomic_load(&set->closed)) return true;
  ur_set_leave(set);
  (void)ur_fail(error, UR_CLOSED, "the set of parts has been closed");
  return false;
}

void ur_set_leave(ur_set *set) {
  /* whoever ends the last call of a closed set gives its parts back */
  if (atomic_fetch_sub(&set->calls, 1) == 1 && atomic_load(&set->closed)) empty_all(set);
  ur_set_release(set);
}

void ur_set_close(ur_set *set) {
  atomic_store(&set->closed, true);
  if (atomic_load(&set->calls) == 0) empty_all(set);
}

void ur_set_release(ur_set *set) {
  if (set != NULL && atomic_fetch_sub(&set->references, 1) == 1) free_set(set);
}

/* ---- questions ------------------------------------------------------------------------------------------------ */

int64_t ur_set_rows(const ur_set *set) { return set->starts[set->parts]; }

int64_t ur_set_parts(const ur_set *set) { return set->parts; }

int32_t ur_set_io(const ur_set *set) { return atomic_load(set->layers == NULL ? &set->io : &set->layers->sets[0]->io); }

int64_t ur_set_part_of(const ur_set *set, int64_t row) { return ur_find_start(set->starts, set->parts, row); }

ur_status ur_set_part(ur_set *set, int64_t part, ur_part **out, ur_error *error) {
  if (!ur_set_enter(set, error)) return UR_CLOSED;
  ur_status status;
  if (part < 0 || part >= set->parts)
    status = ur_fail(error, UR_ARGUMENT, "part %" PRId64 " is not in [0, %" PRId64 ")", part, set->parts);
  else
    status = ur_set_acquire(set, part, out, error);
  ur_set_leave(set);
  return status;
}

ur_status ur_set_find(const ur_set *set, int64_t row, int64_t *part, int64_t *row_in_part) {
  if (row < 0 || row >= ur_set_rows(set)) return UR_ARGUMENT;
  int64_t number = ur_set_part_of(set, row);
  *part = number;
  *row_in_part = row - set->starts[number];
  return UR_OK;
}

ur_status ur_set_schema(ur_set *set, const ur_set_columns **columns, ur_error *error) {
  ur_set_columns *known = atomic_load_explicit(&set->columns, memory_order_acquire);
  if (known == NULL) {
    if (set->parts == 0) return ur_fail(error, UR_ARGUMENT, "a set without parts has no columns");
    ur_part *part = NULL;
    ur_status status = ur_set_acquire(set, 0, &part, error);
    if (status != UR_OK) return status;
    ur_part_release(part);
    known = atomic_load(&set->columns);
  }
  *columns = known;
  return UR_OK;
}

ur_status ur_set_column(ur_set *set, int32_t column, ur_column_info *info, ur_error *error) {
  if (!ur_set_enter(set, error)) return UR_CLOSED;
  const ur_set_columns *columns = NULL;
  ur_status status = ur_set_schema(set, &columns, error);
  if (status == UR_OK && (column < 0 || (uint32_t)column >= columns->count))
    status = ur_fail(error, UR_ARGUMENT, "column %" PRId32 " is not in [0, %" PRIu32 ")", column, columns->count);
  if (status == UR_OK) *info = columns->info[column];
  ur_set_leave(set);
  return status;
}

/* ---- batches that hold no references to the parts they read: counted, so that no part is closed under them ----- */

bool ur_direct_enter(ur_set *set) {
  /* the count belongs to one process: a child of fork() has none of the threads whose batches it finds, and begins anew */
  uint64_t process = ur_forks() << 32, reads = atomic_load(&set->direct_reads);
  uint64_t next;
  do {
    next = (reads >> 32 << 32) == process ? reads + 1 : process + 1; /* exact: far fewer than 2^32 threads */
  } while (!atomic_compare_exchange_weak(&set->direct_reads, &reads, next));
  if (!atomic_load(&set->direct_ended)) return true;
  atomic_fetch_sub(&set->direct_reads, 1);
  return false;
}

void ur_direct_leave(ur_set *set) { atomic_fetch_sub(&set->direct_reads, 1); }

void ur_direct_end(ur_set *set) {
  if (atomic_exchange(&set->direct_ended, true) && atomic_load(&set->direct) == NULL) return;
  for (;;) { /* batches that see it too late are under way already, and wait for no other thread */
    uint64_t reads = atomic_load(&set->direct_reads);
    if (reads >> 32 != (ur_forks() & UINT32_MAX) || (reads & UINT32_MAX) == 0) return;
    (void)sched_yield();
  }
}

void ur_direct_free(ur_set *set) {
  ur_direct *direct = atomic_load(&set->direct);
  if (direct == NULL) return;
  free(direct->parts);
  free(direct);
}
