/* batch/scalars.c - scalar columns of a batch, and which values of any column are null: gathered from the vectors of the index. */
#include <inttypes.h>

#include "batch/batch.h"

#define AHEAD 16 /* rows between touching a value and using it */

static const ur_column *column_of(const ur_group *group, int32_t column) { return &group->part->columns[column]; }

/* Checks the blocks under the values of all rows. */
static ur_status check_rows(const ur_group *group, const ur_vector *vector, int32_t column, ur_error *error) {
  if (ur_vector_is_checked(group->part, vector, (uint64_t)group->count)) return UR_OK;
  for (int64_t i = 0; i < group->count; i++) {
    ur_status status = ur_vector_check(group->part, vector, (uint64_t)group->rows[i], error);
    if (status != UR_OK) return ur_blame(error, status, group, i, column);
  }
  return UR_OK;
}

/* memcpy of a constant size compiles to one load and one store. */
#define GATHER(width)                                                                                     \
  for (int64_t i = 0; i < n; i++) { /* exact: rows of the section, and places of the output, which was measured */ \
    if (i + AHEAD < n) __builtin_prefetch(from + (uint64_t)rows[i + AHEAD] * (width));                    \
    /* exact: likewise */                                                                                 \
    memcpy(to + (uint64_t)ur_place(group, i) * (width), from + (uint64_t)rows[i] * (width), width);        \
  }

/* Starts loading the eight bytes in which an element lies, of which some may be in the next line. */
#define TOUCH(from)                       \
  {                                       \
    const uint8_t *ahead = (from);        \
    __builtin_prefetch(ahead);            \
    __builtin_prefetch(ahead + 7);        \
  }

/* The same of packed values, of a type of as many bytes. */
#define GATHER_PACKED(T)                                                                                        \
  for (int64_t i = 0; i < n; i++) { /* exact: as in GATHER */                                                   \
    if (i + AHEAD < n) TOUCH(from + ur_packed_place(bits, (uint64_t)rows[i + AHEAD]))                           \
    T value = (T)(base + ur_packed_bits(from, bits, (uint64_t)rows[i]));                                        \
    memcpy(to + (uint64_t)ur_place(group, i) * sizeof value, &value, sizeof value); /* exact: likewise */       \
  }

static void gather_packed(const ur_group *group, const ur_vector *values, uint8_t *to) {
  const uint8_t *from = values->data;
  const int64_t *rows = group->rows;
  const uint32_t bits = values->bits;
  const uint64_t base = values->base;
  int64_t n = group->count;
  switch (values->width) {
    case 1: GATHER_PACKED(uint8_t) break;
    case 2: GATHER_PACKED(uint16_t) break;
    case 4: GATHER_PACKED(uint32_t) break;
    default: GATHER_PACKED(uint64_t) break;
  }
}

#define CODES 256                  /* codes that are worked out before the first entry is copied */
#define NEAR_ENTRIES (1u << 18)    /* bytes of a dictionary that stays in cache, whose entries need not be touched ahead */

/* Codes of some rows, each so many bits behind the one before. */
#define LOAD_CODES(code)                                                                                   \
  for (int64_t i = 0; i < n; i++) { /* exact: rows of the section */                                       \
    if (i + AHEAD < left) TOUCH(from + ur_packed_place(bits, (uint64_t)rows[i + AHEAD]))                   \
    found[i] = (uint32_t)(code);                                                                           \
    most = found[i] > most ? found[i] : most;                                                              \
  }

/* The codes of rows [first, first + n) of the group; returns the greatest. */
static uint32_t load_codes(const ur_group *group, const ur_vector *codes, int64_t first, int64_t n, uint32_t *found) {
  const uint8_t *from = codes->data;
  const int64_t *rows = group->rows + first;
  const uint32_t bits = codes->bits != 0 ? codes->bits : 8 * codes->width; /* exact: 56 at most */
  int64_t left = group->count - first;
  uint32_t most = 0;
  if (codes->bits != 0) LOAD_CODES(ur_packed_bits(from, bits, (uint64_t)rows[i]))
  else if (bits == 8) LOAD_CODES(from[rows[i]])
  else if (bits == 16) LOAD_CODES(ur_load16(from + 2 * (uint64_t)rows[i]))
  else LOAD_CODES(ur_load32(from + 4 * (uint64_t)rows[i]))
  return most;
}

static ur_status no_entry(const ur_group *group, const ur_vector *codes, const ur_vector *entries, int64_t first,
                          int32_t column, ur_error *error) {
  uint64_t code = ur_vector_load(codes, (uint64_t)group->rows[first]);
  while (code < entries->count && first + 1 < group->count) code = ur_vector_load(codes, (uint64_t)group->rows[++first]);
  ur_status status = ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, entries->offset,
                                "the value's code %" PRIu64 " has no entry in a dictionary of %" PRIu64, code, entries->count);
  return ur_blame(error, status, group, first, column);
}

/* Copies the entries of some codes, of rows [first, first + n) of the group. */
#define COPY_ENTRIES(width)                                                                                      \
  for (int64_t i = 0; i < n; i++) /* exact: codes of entries, and places of the output, which was measured */ \
    memcpy(to + (uint64_t)ur_place(group, first + i) * (width), from + (uint64_t)codes[i] * (width), width);

static void copy_entries(const ur_group *group, int64_t first, int64_t n, const uint32_t *codes, const ur_vector *entries,
                         uint8_t *to) {
  const uint8_t *from = entries->data;
  switch (entries->width) {
    case 1: COPY_ENTRIES(1) break;
    case 2: COPY_ENTRIES(2) break;
    case 4: COPY_ENTRIES(4) break;
    default: COPY_ENTRIES(8) break;
  }
}

/* Values that a dictionary has, by the codes of the rows, each of which is checked to have an entry. */
static ur_status gather_coded(const ur_group *group, const ur_column *column, const ur_output *output, ur_error *error) {
  ur_vector codes = ur_vector_of(group->part, column->section[UR_SECTION_CODES]);
  ur_vector entries = ur_vector_of(group->part, column->section[UR_SECTION_DICTIONARY_ENTRIES]);
  bool at_once = entries.bytes / UR_BLOCK_BYTES <= (uint64_t)group->count; /* as many blocks as rows, or fewer */
  bool near = entries.bytes <= NEAR_ENTRIES;
  ur_status status = check_rows(group, &codes, output->column, error);
  if (status == UR_OK && at_once && group->count > 0)
    status = ur_index_check(group->part, entries.offset, entries.bytes, error);
  for (int64_t first = 0; first < group->count && status == UR_OK; first += CODES) { /* exact: rows of the group */
    uint32_t found[CODES];
    int64_t n = group->count - first < CODES ? group->count - first : CODES;
    if (load_codes(group, &codes, first, n, found) >= entries.count)
      return no_entry(group, &codes, &entries, first, output->column, error);
    for (int64_t i = 0; i < n && !near; i++) {
      /* exact: an entry of the section */
      __builtin_prefetch(entries.data + (uint64_t)found[i] * entries.width);
      if (!at_once) status = ur_vector_check(group->part, &entries, found[i], error);
      if (status != UR_OK) return ur_blame(error, status, group, first + i, output->column);
    }
    if (near && !at_once) status = ur_index_check(group->part, entries.offset, entries.bytes, error);
    if (status == UR_OK) copy_entries(group, first, n, found, &entries, output->data);
  }
  return status;
}

/* Zeros where the value is null, which elements of a few bits or codes do not have. */
static ur_status clear_nulls(const ur_group *group, const ur_column *column, const ur_output *output, ur_error *error) {
  ur_vector bits = ur_vector_of(group->part, column->section[UR_SECTION_VALIDITY]);
  size_t width = (size_t)column->info.fixed_bytes;
  for (int64_t i = 0; i < group->count; i++) {
    uint64_t row = (uint64_t)group->rows[i];
    ur_status status = ur_vector_check(group->part, &bits, row / 8, error);
    if (status != UR_OK) return ur_blame(error, status, group, i, output->column);
    /* exact: as in GATHER */
    if (((bits.data[row / 8] >> (row % 8)) & 1) == 0) memset(output->data + (size_t)ur_place(group, i) * width, 0, width);
  }
  return UR_OK;
}

/* Values as they lie, or packed. */
static ur_status gather_values(const ur_group *group, const ur_vector *values, const ur_output *output, ur_error *error) {
  ur_status status = check_rows(group, values, output->column, error);
  if (status != UR_OK) return status;
  const uint8_t *from = values->data;
  const int64_t *rows = group->rows;
  uint8_t *to = output->data;
  int64_t n = group->count;
  if (values->bits != 0) {
    gather_packed(group, values, to);
    return UR_OK;
  }
  switch (values->width) {
    case 1: GATHER(1) break;
    case 2: GATHER(2) break;
    case 4: GATHER(4) break;
    default: GATHER(8) break;
  }
  return UR_OK;
}

ur_status ur_gather_values(const ur_group *group, const ur_output *output, ur_error *error) {
  const ur_column *column = column_of(group, output->column);
  uint32_t number = column->section[UR_SECTION_VALUES];
  ur_vector values = number == 0 ? (ur_vector){.bits = 1} : ur_vector_of(group->part, number);
  ur_status status = number == 0 ? gather_coded(group, column, output, error) : gather_values(group, &values, output, error);
  return status == UR_OK && column->info.nullable && values.bits != 0 ? clear_nulls(group, column, output, error) : status;
}

static ur_status null_with_bytes(ur_error *error) {
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_NOWHERE, "the value is null, and its length is not 0");
}

ur_status ur_gather_valid(const ur_group *group, const ur_output *output, ur_error *error) {
  const ur_column *column = column_of(group, output->column);
  if (!column->info.nullable) {
    for (int64_t i = 0; i < group->count; i++) output->valid[ur_place(group, i)] = 1;
    return UR_OK;
  }
  ur_vector bits = ur_vector_of(group->part, column->section[UR_SECTION_VALIDITY]);
  for (int64_t i = 0; i < group->count; i++) {
    uint64_t row = (uint64_t)group->rows[i];
    ur_status status = ur_vector_check(group->part, &bits, row / 8, error);
    if (status != UR_OK) return ur_blame(error, status, group, i, output->column);
    int64_t place = ur_place(group, i);
    output->valid[place] = (bits.data[row / 8] >> (row % 8)) & 1;
    if (output->valid[place] == 0 && output->offsets != NULL && output->offsets[place + 1] != output->offsets[place])
      return ur_blame(error, null_with_bytes(error), group, i, output->column);
  }
  return UR_OK;
}

/* ---- strings -------------------------------------------------------------------------------------------------- */

/* What a string column's values are found with; `codes` has width 0 for plain strings. */
typedef struct {
  ur_vector codes, offsets, bytes, validity;
} string_column;

static string_column strings_of(const ur_group *group, int32_t number) {
  const ur_column *column = column_of(group, number);
  string_column strings = {{0}, {0}, {0}, {0}};
  bool coded = column->section[UR_SECTION_CODES] != 0;
  if (coded) strings.codes = ur_vector_of(group->part, column->section[UR_SECTION_CODES]);
  strings.offsets = ur_vector_of(
      group->part, column->section[coded ? UR_SECTION_DICTIONARY_OFFSETS : UR_SECTION_STRING_OFFSETS]);
  strings.bytes =
      ur_vector_of(group->part, column->section[coded ? UR_SECTION_DICTIONARY_ENTRIES : UR_SECTION_STRING_BYTES]);
  if (column->info.nullable) strings.validity = ur_vector_of(group->part, column->section[UR_SECTION_VALIDITY]);
  return strings;
}

static ur_status is_null(ur_part *part, const string_column *strings, uint64_t row, bool *null, ur_error *error) {
  *null = false;
  if (strings->validity.data == NULL) return UR_OK;
  ur_status status = ur_vector_check(part, &strings->validity, row / 8, error);
  if (status == UR_OK) *null = ((strings->validity.data[row / 8] >> (row % 8)) & 1) == 0;
  return status;
}

static ur_status bad_string(const string_column *strings, const char *what, uint64_t value, uint64_t limit,
                            ur_error *error) {
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, strings->offsets.offset, "%s %" PRIu64 " exceeds %" PRIu64, what,
                    value, limit);
}

/* Where the string of a row lies in the column's bytes: [start, start + length), checked to be in them. */
static ur_status find_string(ur_part *part, const string_column *strings, uint64_t row, uint64_t *start,
                             uint64_t *length, ur_error *error) {
  bool null = false;
  ur_status status = is_null(part, strings, row, &null, error);
  if (status != UR_OK) return status;
  *start = *length = 0;
  if (null) return UR_OK;
  uint64_t entry = row;
  if (strings->codes.width != 0) {
    status = ur_vector_check(part, &strings->codes, row, error);
    if (status != UR_OK) return status;
    entry = ur_vector_load(&strings->codes, row);
    if (entry + 1 >= strings->offsets.count)
      return bad_string(strings, "the string's code", entry + 1, strings->offsets.count - 1, error);
  }
  status = ur_vector_check(part, &strings->offsets, entry, error);
  if (status == UR_OK) status = ur_vector_check(part, &strings->offsets, entry + 1, error);
  if (status != UR_OK) return status;
  uint64_t first = ur_vector_load(&strings->offsets, entry), end = ur_vector_load(&strings->offsets, entry + 1);
  if (end < first) return bad_string(strings, "the string's start", first, end, error);
  if (strings->bytes.count < end) return bad_string(strings, "the string's end", end, strings->bytes.count, error);
  *start = first;
  *length = end - first;
  return UR_OK;
}

ur_status ur_measure_strings(const ur_group *group, int32_t column, int64_t *lengths, ur_error *error) {
  string_column strings = strings_of(group, column);
  for (int64_t i = 0; i < group->count; i++) {
    uint64_t start = 0, length = 0;
    ur_status status = find_string(group->part, &strings, (uint64_t)group->rows[i], &start, &length, error);
    if (status != UR_OK) return ur_blame(error, status, group, i, column);
    lengths[ur_place(group, i)] = (int64_t)length;
  }
  return UR_OK;
}

ur_status ur_gather_strings(const ur_group *group, const ur_output *output, ur_error *error) {
  string_column strings = strings_of(group, output->column);
  for (int64_t i = 0; i < group->count; i++) {
    uint64_t start = 0, length = 0;
    ur_status status = find_string(group->part, &strings, (uint64_t)group->rows[i], &start, &length, error);
    /* exact: find_string() has checked the start */
    if (status == UR_OK) status = ur_index_check(group->part, strings.bytes.offset + start, length, error);
    if (status != UR_OK) return ur_blame(error, status, group, i, output->column);
    int64_t place = ur_place(group, i);
    uint64_t room = (uint64_t)(output->offsets[place + 1] - output->offsets[place]);
    if (room != length) { /* the mapped index changed between measuring and copying */
      status = bad_string(&strings, "the string's length", length, room, error);
      return ur_blame(error, status, group, i, output->column);
    }
    if (length > 0) memcpy(output->data + output->offsets[place], strings.bytes.data + start, length);
  }
  return UR_OK;
}
