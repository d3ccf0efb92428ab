/* test_index.c - the directory of an index, made in memory: one change to a right one, and it is refused, or still right. */
#define _GNU_SOURCE
#include "expect.h"
#include "part/part.h"
#include "part_fixture.h"

enum { MOST_SECTIONS = 24, NONE = 0xFFFF, ROWS = 300, HEAD_BYTES = 1 << 14 };

typedef struct {
  uint16_t kind, column;
  uint32_t width;
  uint64_t count, extra;
  uint32_t bits;
} section;

static uint64_t bytes_of(const section *s) {
  return s->bits == 0 ? s->width * s->count : (s->count * s->bits + 63) / 64 * 8 + 8;
}

/* What a directory has to fit: the columns, and the numbers of the headers. */
typedef struct {
  uint8_t table[4 * UR_COLUMN_BYTES];
  uint32_t columns, unit_rows;
  uint64_t rows, groups, group_rows, row_bytes, data_bytes;
  section sections[MOST_SECTIONS];
  uint32_t count;
} directory;

static uint64_t opened, refused;

static void add(directory *made, int kind, int column, uint32_t width, uint64_t count, uint64_t extra) {
  made->sections[made->count++] = (section){(uint16_t)kind, (uint16_t)column, width, count, extra, 0};
}

/* Before the statistics, which come last. */
static void add_order(directory *made, int column, uint32_t width, uint64_t count) {
  made->sections[made->count] = made->sections[made->count - 1];
  made->sections[made->count++ - 1] = (section){UR_SECTION_ORDER, (uint16_t)column, width, count, 0, 0};
}

/* int32?, a string by codes, array uint8[24], bytes: a part with rows of all sizes. */
static directory variable_part(void) {
  directory d = {.columns = 4, .rows = ROWS, .groups = 2, .data_bytes = 1 << 20};
  put_column(d.table, 6, 0, 1, 0, 4);
  put_column(d.table + 32, UR_TYPE_STRING, 0, 0, 0, 0);
  put_column(d.table + 64, UR_TYPE_ARRAY, 3, 0, 1, 24);
  put_column(d.table + 96, UR_TYPE_BYTES, 0, 0, 0, 0);
  add(&d, UR_SECTION_GROUPS, NONE, 32, 2, 0);
  add(&d, UR_SECTION_ROW_STARTS, NONE, 8, ROWS, 0);
  add(&d, UR_SECTION_LENGTHS, 3, 4, ROWS, 0);
  add(&d, UR_SECTION_DIGESTS, NONE, 8, 2 * ROWS, 0);
  add(&d, UR_SECTION_VALUES, 0, 4, ROWS, 0);
  add(&d, UR_SECTION_VALIDITY, 0, 1, (ROWS + 7) / 8, 0);
  add(&d, UR_SECTION_CODES, 1, 1, ROWS, 0);
  add(&d, UR_SECTION_DICTIONARY_OFFSETS, 1, 8, 4, 0);
  add(&d, UR_SECTION_DICTIONARY_ENTRIES, 1, 1, 6, 0);
  add(&d, UR_SECTION_ZONES, 0, 8, 3, 128);
  add(&d, UR_SECTION_ZONES, 1, 2, 3, 128);
  add(&d, UR_SECTION_ZONE_FLAGS, 0, 1, 3, 128);
  add(&d, UR_SECTION_ZONE_FLAGS, 1, 1, 3, 128);
  add(&d, UR_SECTION_STATISTICS, NONE, 1, 40, 0);
  return d;
}

/* bytes?, array uint8[-1]?: blobs that may be null, in rows of all sizes that share digests and starts. */
static directory nullable_part(void) {
  directory d = {.columns = 2, .rows = ROWS, .groups = 2, .unit_rows = 4, .data_bytes = 1 << 20};
  put_column(d.table, UR_TYPE_BYTES, 0, 1, 0, 0);
  put_column(d.table + 32, UR_TYPE_ARRAY, 3, 1, 1, 0);
  add(&d, UR_SECTION_GROUPS, NONE, 32, 2, 0);
  add(&d, UR_SECTION_ROW_STARTS, NONE, 8, ROWS / 4, 0);
  add(&d, UR_SECTION_LENGTHS, 0, 1, ROWS, 0);
  add(&d, UR_SECTION_LENGTHS, 1, 2, ROWS, 0);
  add(&d, UR_SECTION_DIGESTS, NONE, 8, ROWS / 4, 0);
  add(&d, UR_SECTION_VALIDITY, 0, 1, (ROWS + 7) / 8, 0);
  add(&d, UR_SECTION_VALIDITY, 1, 1, (ROWS + 7) / 8, 0);
  add(&d, UR_SECTION_STATISTICS, NONE, 1, 40, 0);
  return d;
}

/* float64, a plain string?, array uint8[24]?: rows of one size, digests over 4 of them, groups of 64. */
static directory fixed_part(void) {
  directory d = {.columns = 3, .rows = ROWS, .groups = 5, .group_rows = 64, .row_bytes = 24, .unit_rows = 4,
                 .data_bytes = 1 << 20};
  put_column(d.table, UR_TYPE_FLOAT64, 0, 0, 0, 8);
  put_column(d.table + 32, UR_TYPE_STRING, 0, 1, 0, 0);
  put_column(d.table + 64, UR_TYPE_ARRAY, 3, 1, 1, 24);
  add(&d, UR_SECTION_GROUPS, NONE, 32, 5, 0);
  add(&d, UR_SECTION_DIGESTS, NONE, 8, ROWS / 4, 0);
  add(&d, UR_SECTION_VALUES, 0, 8, ROWS, 0);
  add(&d, UR_SECTION_VALIDITY, 1, 1, (ROWS + 7) / 8, 0);
  add(&d, UR_SECTION_VALIDITY, 2, 1, (ROWS + 7) / 8, 0);
  add(&d, UR_SECTION_STRING_OFFSETS, 1, 8, ROWS + 1, 0);
  add(&d, UR_SECTION_STRING_BYTES, 1, 1, 1000, 0);
  add(&d, UR_SECTION_ZONES, 0, 16, 3, 128);
  add(&d, UR_SECTION_ZONE_FLAGS, 0, 1, 3, 128);
  add(&d, UR_SECTION_ZONE_FLAGS, 1, 1, 3, 128);
  add(&d, UR_SECTION_STATISTICS, NONE, 1, 40, 0);
  return d;
}

/* int64 alone: no blobs, so no digests. */
static directory scalar_part(void) {
  directory d = {.columns = 1, .rows = ROWS, .groups = 1, .group_rows = ROWS, .data_bytes = 1 << 20};
  put_column(d.table, 8, 0, 0, 0, 8);
  add(&d, UR_SECTION_GROUPS, NONE, 32, 1, 0);
  add(&d, UR_SECTION_VALUES, 0, 8, ROWS, 0);
  add(&d, UR_SECTION_ZONES, 0, 16, 3, 128);
  add(&d, UR_SECTION_ZONE_FLAGS, 0, 1, 3, 128);
  add(&d, UR_SECTION_STATISTICS, NONE, 1, 40, 0);
  return d;
}

/* int64 and float32?, both with dictionaries. */
static directory coded_part(void) {
  directory d = {.columns = 2, .rows = ROWS, .groups = 1, .group_rows = ROWS, .data_bytes = 1 << 20};
  put_column(d.table, UR_TYPE_INT64, 0, 0, 0, 8);
  put_column(d.table + 32, UR_TYPE_FLOAT32, 0, 1, 0, 4);
  add(&d, UR_SECTION_GROUPS, NONE, 32, 1, 0);
  add(&d, UR_SECTION_VALIDITY, 1, 1, (ROWS + 7) / 8, 0);
  add(&d, UR_SECTION_CODES, 0, 1, ROWS, 0);
  add(&d, UR_SECTION_CODES, 1, 2, ROWS, 0);
  add(&d, UR_SECTION_DICTIONARY_ENTRIES, 0, 8, 200, 0);
  add(&d, UR_SECTION_DICTIONARY_ENTRIES, 1, 4, 299, 0);
  add(&d, UR_SECTION_ZONES, 0, 16, 3, 128);
  add(&d, UR_SECTION_ZONES, 1, 8, 3, 128);
  add(&d, UR_SECTION_ZONE_FLAGS, 0, 1, 3, 128);
  add(&d, UR_SECTION_ZONE_FLAGS, 1, 1, 3, 128);
  add(&d, UR_SECTION_STATISTICS, NONE, 1, 40, 0);
  return d;
}

/* A scalar of 16 bytes and a blob?, both of types of later versions: there is no order in either, so no zones. */
static directory later_part(void) {
  directory d = {.columns = 2, .rows = ROWS, .groups = 2, .data_bytes = 1 << 20};
  put_column(d.table, UR_TYPE_LATER_SCALARS, 0, 0, 0, 16);
  put_column(d.table + 32, UR_TYPE_LATER_BLOBS, 0, 1, 0, 0);
  add(&d, UR_SECTION_GROUPS, NONE, 32, 2, 0);
  add(&d, UR_SECTION_ROW_STARTS, NONE, 8, ROWS, 0);
  add(&d, UR_SECTION_LENGTHS, 1, 2, ROWS, 0);
  add(&d, UR_SECTION_DIGESTS, NONE, 8, ROWS, 0);
  add(&d, UR_SECTION_VALUES, 0, 16, ROWS, 0);
  add(&d, UR_SECTION_VALIDITY, 1, 1, (ROWS + 7) / 8, 0);
  add(&d, UR_SECTION_STATISTICS, NONE, 1, 40, 0);
  return d;
}

/* text and float32[6], both compressed, the text with a dictionary. */
static directory compressed_part(void) {
  directory d = {.columns = 2, .rows = ROWS, .groups = 2, .data_bytes = 1 << 20};
  put_column(d.table, UR_TYPE_TEXT, 0, 0, 0, 0);
  put_column(d.table + 32, UR_TYPE_ARRAY, UR_TYPE_FLOAT32, 0, 1, 0);
  d.table[UR_AT_COLUMN_CODEC] = UR_CODEC_ZSTD;
  d.table[32 + UR_AT_COLUMN_CODEC] = UR_CODEC_SHUFFLE_ZSTD;
  put(d.table + 32 + UR_AT_COLUMN_VALUE, 24, 8);
  add(&d, UR_SECTION_GROUPS, NONE, 32, 2, 0);
  add(&d, UR_SECTION_ROW_STARTS, NONE, 8, ROWS, 0);
  add(&d, UR_SECTION_LENGTHS, 0, 4, ROWS, 0);
  add(&d, UR_SECTION_LENGTHS, 1, 4, ROWS, 0);
  add(&d, UR_SECTION_DIGESTS, NONE, 8, 2 * ROWS, 0);
  add(&d, UR_SECTION_RAW_LENGTHS, 0, 4, ROWS, 0);
  add(&d, UR_SECTION_CODEC_DICTIONARY, 0, 1, 40, 0);
  add(&d, UR_SECTION_STATISTICS, NONE, 1, 40, 0);
  return d;
}

/* bytes and float32[6], both cut into chunks, the bytes compressed. */
static directory chunked_part(void) {
  directory d = {.columns = 2, .rows = ROWS, .groups = 2, .data_bytes = 1 << 20};
  put_column(d.table, UR_TYPE_BYTES, 0, 0, 0, 0);
  put_column(d.table + 32, UR_TYPE_ARRAY, UR_TYPE_FLOAT32, 0, 1, 24);
  d.table[UR_AT_COLUMN_CODEC] = UR_CODEC_CHUNKED + UR_CODEC_ZSTD;
  d.table[32 + UR_AT_COLUMN_CODEC] = UR_CODEC_CHUNKED;
  add(&d, UR_SECTION_GROUPS, NONE, 32, 2, 0);
  add(&d, UR_SECTION_ROW_STARTS, NONE, 8, ROWS, 0);
  add(&d, UR_SECTION_LENGTHS, 0, 4, ROWS, 0);
  add(&d, UR_SECTION_DIGESTS, NONE, 8, 2 * ROWS, 0);
  add(&d, UR_SECTION_RAW_LENGTHS, 0, 4, ROWS, 0);
  add(&d, UR_SECTION_STATISTICS, NONE, 1, 40, 0);
  add(&d, UR_SECTION_CHUNK_SHAPE, 0, 8, 1, 0);
  add(&d, UR_SECTION_CHUNK_SHAPE, 1, 8, 2, 0);
  add(&d, UR_SECTION_CHUNK_STARTS, 0, 8, ROWS, 0);
  add(&d, UR_SECTION_CHUNK_ENDS, 0, 4, 7, 0);
  add(&d, UR_SECTION_CHUNK_DIGESTS, 0, 8, 7, 0);
  add(&d, UR_SECTION_CHUNK_DIGESTS, 1, 8, 2 * ROWS, 0);
  return d;
}

static ur_status read_directory(const directory *d, int verify, ur_error *error) {
  static uint8_t head[HEAD_BYTES];
  uint64_t entry = UR_INDEX_HEADER_BYTES + (uint64_t)d->columns * UR_COLUMN_BYTES, at = HEAD_BYTES;
  memset(head, 0, sizeof head);
  memcpy(head + UR_INDEX_HEADER_BYTES, d->table, (size_t)d->columns * UR_COLUMN_BYTES);
  for (uint32_t i = 0; i < d->count; i++, entry += UR_SECTION_BYTES) {
    const section *s = &d->sections[i];
    put(head + entry, s->kind, 2);
    put(head + entry + 2, s->column, 2);
    put(head + entry + 4, s->width, 4);
    put(head + entry + 8, at, 8);
    put(head + entry + 16, bytes_of(s), 8);
    put(head + entry + 24, s->count, 8);
    put(head + entry + 32, s->extra, 8);
    put(head + entry + UR_AT_SECTION_BITS, s->bits, 2);
    at = up(at + bytes_of(s), 64);
  }
  ur_part part = {.verify = verify, .head = head, .index_fd = -1};
  part.header = (ur_index_header){.header_bytes = HEAD_BYTES, .data_bytes = d->data_bytes, .rows = d->rows,
                                  .groups = d->groups, .columns = d->columns, .sections = d->count,
                                  .digests_offset = at, .index_bytes = at + 4096};
  part.data = (ur_data_header){.columns = d->columns, .blob_align = 8, .unit_rows = d->unit_rows,
                               .group_rows = d->group_rows, .row_bytes = d->row_bytes};
  ur_status status = ur_index_read(&part, error);
  ur_index_free(&part);
  opened += status == UR_OK;
  refused += status != UR_OK;
  return status;
}

static void expect(const directory *d, ur_status expected) {
  ur_error error = {0};
  EXPECT_EQUAL(read_directory(d, UR_VERIFY_FIRST, &error), expected);
  EXPECT_EQUAL(read_directory(d, UR_VERIFY_NEVER, NULL), expected);
  if (expected == UR_OK) return;
  EXPECT_EQUAL(error.file, UR_FILE_INDEX);
  EXPECT(error.what[0] != '\0');
}

/* What may differ from the directories above without being wrong. */
static int is_legal_change(const directory *d, uint32_t i, const section *is) {
  const section *was = &d->sections[i];
  if (was->kind == UR_SECTION_CODEC_DICTIONARY && is->kind == UR_SECTION_CODEC_DICTIONARY)
    return is->column < 2 && is->width == 1 && is->extra == 0 && is->count > 0; /* of the other column */
  if (was->kind != is->kind || was->column != is->column) return 0;
  if (is->kind == UR_SECTION_LENGTHS || is->kind == UR_SECTION_RAW_LENGTHS)
    return is->count == was->count && is->extra == 0 && (is->width == 1 || is->width == 2 || is->width == 4 || is->width == 8);
  int string = is->column != NONE && d->table[32 * is->column] == UR_TYPE_STRING;
  if (is->kind == UR_SECTION_CODES && !string) /* of numbers: no zones go with their width */
    return is->count == was->count && is->extra == 0 && (is->width == 1 || is->width == 2 || is->width == 4);
  if (is->kind == UR_SECTION_DICTIONARY_ENTRIES && !string) return is->width == was->width && is->extra == 0 && is->count >= 1;
  if (is->kind == UR_SECTION_STRING_BYTES || is->kind == UR_SECTION_DICTIONARY_ENTRIES || is->kind == UR_SECTION_STATISTICS)
    return is->width == 1 && is->extra == 0;
  if (is->kind == UR_SECTION_DICTIONARY_OFFSETS) return is->width == 8 && is->extra == 0 && is->count >= 1;
  if (is->kind == UR_SECTION_ZONES || is->kind == UR_SECTION_ZONE_FLAGS)
    return is->width == was->width && is->extra > 0 && is->count == (ROWS + is->extra - 1) / is->extra;
  return 0;
}

static void every_changed_field_is_refused(const directory *right) {
  static const uint32_t widths[] = {0, 1, 2, 3, 4, 8, 16, 32, 64};
  static const uint64_t extras[] = {0, 1, 100, 128, 150, ROWS};
  const uint64_t counts[] = {0, 1, 2, 3, 4, 38, 75, right->rows - 1, right->rows, right->rows + 1, 2 * right->rows};
  for (uint32_t i = 0; i < right->count; i++)
    for (uint32_t kind = 0; kind <= UR_SECTION_KINDS; kind++)
      for (uint32_t column = 0; column <= right->columns + 1; column++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
          for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (size_t e = 0; e < sizeof extras / sizeof *extras; e++) {
              directory changed = *right;
              section *s = &changed.sections[i];
              *s = (section){(uint16_t)kind, (uint16_t)(column > right->columns ? NONE : column), widths[w], counts[c],
                             extras[e], 0};
              ur_error error = {0};
              ur_status status = read_directory(&changed, UR_VERIFY_NEVER, &error);
              int same = memcmp(s, &right->sections[i], sizeof *s) == 0 || is_legal_change(right, i, s);
      EXPECT_EQUAL(status, same ? UR_OK : UR_CORRUPT);
            }
}

static void every_missing_repeated_or_moved_section_is_refused(const directory *right) {
  expect(right, UR_OK);
  for (uint32_t i = 0; i < right->count; i++) {
    directory changed = *right;
    memmove(changed.sections + i, changed.sections + i + 1, (changed.count - i - 1) * sizeof(section));
    changed.count--;
    expect(&changed, right->sections[i].kind == UR_SECTION_CODEC_DICTIONARY ? UR_OK : UR_CORRUPT);
    changed = *right;
    memmove(changed.sections + i + 1, changed.sections + i, (changed.count - i) * sizeof(section));
    changed.count++;
    expect(&changed, UR_CORRUPT);
    if (i == 0) continue;
    changed = *right;
    section moved = changed.sections[i];
    changed.sections[i] = changed.sections[i - 1];
    changed.sections[i - 1] = moved;
    expect(&changed, UR_CORRUPT);
  }
}

static void an_order_of_a_scalar_column_may_be_there(const directory *right) {
  for (uint16_t column = 0; column < right->columns; column++)
    for (uint32_t width = 2; width <= 8; width *= 2)
      for (uint64_t count = right->rows - 1; count <= right->rows; count++) {
        directory changed = *right;
        add_order(&changed, column, width, count);
        int scalar = changed.table[32 * column] < UR_TYPE_BYTES;
        expect(&changed, scalar && width == 4 && count == right->rows ? UR_OK : UR_CORRUPT);
      }
}

static void an_order_of_more_than_2_to_the_32_rows_needs_8_bytes_each(void) {
  directory d = scalar_part();
  d.rows = d.group_rows = (UINT64_C(1) << 32) + 1;
  d.sections[1].count = d.rows;
  for (int i = 2; i < 4; i++) d.sections[i].extra = d.rows;
  for (int i = 2; i < 4; i++) d.sections[i].count = 1;
  add_order(&d, 0, 4, d.rows);
  expect(&d, UR_CORRUPT);
  d.sections[4].width = 8;
  expect(&d, UR_OK);
}

static void codes_and_their_zones_go_together(void) {
  for (uint32_t width = 1; width <= 8; width *= 2)
    for (uint32_t zones = 1; zones <= 16; zones *= 2) {
      directory changed = variable_part();
      changed.sections[6].width = width;
      changed.sections[10].width = zones;
      expect(&changed, width < 8 && zones == 2 * width ? UR_OK : UR_CORRUPT);
    }
}

static void a_string_column_is_coded_or_plain(void) {
  directory both = variable_part();
  directory d = both;
  d.count = 9; /* up to the dictionary's bytes, then plain strings too */
  add(&d, UR_SECTION_STRING_OFFSETS, 1, 8, ROWS + 1, 0);
  add(&d, UR_SECTION_STRING_BYTES, 1, 1, 10, 0);
  for (uint32_t i = 9; i < both.count; i++) d.sections[d.count++] = both.sections[i];
  expect(&d, UR_CORRUPT);
  d.count = 10; /* the offsets alone */
  for (uint32_t i = 9; i < both.count; i++) d.sections[d.count++] = both.sections[i];
  expect(&d, UR_CORRUPT);
}

static void a_number_column_has_values_or_a_dictionary(void) {
  static const struct {
    int type;
    uint32_t width;
    ur_status status;
  } types[] = {{UR_TYPE_BOOL, 1, UR_CORRUPT}, {UR_TYPE_INT8, 1, UR_OK}, {UR_TYPE_UINT16, 2, UR_OK},
               {UR_TYPE_FLOAT16, 2, UR_OK}, {UR_TYPE_UINT32, 4, UR_OK}, {UR_TYPE_UINT64, 8, UR_OK},
               {UR_TYPE_FLOAT64, 8, UR_OK}, {UR_TYPE_LATER_SCALARS, 8, UR_CORRUPT}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    directory d = coded_part();
    put_column(d.table, types[i].type, 0, 0, 0, types[i].width);
    d.sections[4].width = types[i].width;
    d.sections[6].width = 2 * types[i].width;
    expect(&d, types[i].status);
  }
  directory both = coded_part();
  both.count = 1;
  add(&both, UR_SECTION_VALUES, 0, 8, ROWS, 0);
  directory coded = coded_part();
  for (uint32_t i = 1; i < coded.count; i++) both.sections[both.count++] = coded.sections[i];
  expect(&both, UR_CORRUPT);
  directory offsets = coded_part();
  offsets.count = 4;
  add(&offsets, UR_SECTION_DICTIONARY_OFFSETS, 0, 8, 201, 0);
  for (uint32_t i = 4; i < coded.count; i++) offsets.sections[offsets.count++] = coded.sections[i];
  expect(&offsets, UR_CORRUPT);
}

/* What a later version may add for those who know it: any number of any width for any column, or for none. */
static void an_ancillary_section_is_ignored(const directory *right) {
  directory changed = *right;
  add(&changed, UR_ANCILLARY, 0, 3, 5, 77);
  add(&changed, UR_ANCILLARY, 60000, 1, 0, 0);
  add(&changed, UR_ANCILLARY, NONE, 1, 9, 1);
  add(&changed, 0xFFFF, 1, 4, 2, 0);
  expect(&changed, UR_OK);
  changed.sections[changed.count - 1] = changed.sections[changed.count - 2]; /* twice the same */
  expect(&changed, UR_CORRUPT);
  for (uint32_t kind = UR_SECTION_KINDS; kind < UR_ANCILLARY; kind += 97) {
    changed = *right;
    add(&changed, (int)kind, NONE, 1, 9, 0);
    expect(&changed, UR_CORRUPT);
  }
}

/* int64 has the type's number in its table, and its zones have twice its width. */
static directory scalar_of(int type, uint32_t width) {
  directory d = scalar_part();
  put_column(d.table, type, 0, 0, 0, width);
  d.sections[1].width = width;
  d.sections[2].width = 2 * width;
  return d;
}

/* Elements of so many bits from a base on, none of which may be a number that the type does not have. */
static void packed_values_stay_in_their_type(void) {
  static const struct {
    int type;
    uint32_t width, bits;
    uint64_t base;
    ur_status status;
  } packings[] = {
      {UR_TYPE_INT64, 8, 1, 0, UR_OK}, {UR_TYPE_INT64, 8, 56, 0, UR_OK}, {UR_TYPE_INT64, 8, 57, 0, UR_CORRUPT},
      {UR_TYPE_INT64, 8, 64, 0, UR_CORRUPT}, {UR_TYPE_INT64, 8, 65, 0, UR_CORRUPT}, {UR_TYPE_INT64, 8, 65535, 0, UR_CORRUPT},
      {UR_TYPE_INT64, 8, 10, (uint64_t)INT64_MIN, UR_OK}, {UR_TYPE_INT64, 8, 10, INT64_MAX - 1023, UR_OK},
      {UR_TYPE_INT64, 8, 10, INT64_MAX - 1022, UR_CORRUPT}, {UR_TYPE_INT64, 8, 10, (uint64_t)-1, UR_OK},
      {UR_TYPE_UINT64, 8, 10, UINT64_MAX - 1023, UR_OK}, {UR_TYPE_UINT64, 8, 10, UINT64_MAX - 1022, UR_CORRUPT},
      {UR_TYPE_INT32, 4, 10, (uint64_t)INT64_C(-1) << 31, UR_OK}, {UR_TYPE_INT32, 4, 10, ((uint64_t)INT64_C(-1) << 31) - 1, UR_CORRUPT},
      {UR_TYPE_INT32, 4, 31, 0, UR_OK}, {UR_TYPE_INT32, 4, 31, 1, UR_CORRUPT}, {UR_TYPE_INT32, 4, 32, 0, UR_CORRUPT},
      {UR_TYPE_UINT32, 4, 10, UINT32_MAX - 1023, UR_OK}, {UR_TYPE_UINT32, 4, 10, UINT32_MAX - 1022, UR_CORRUPT},
      {UR_TYPE_INT16, 2, 10, 31744, UR_OK}, {UR_TYPE_INT16, 2, 10, 31745, UR_CORRUPT}, {UR_TYPE_UINT16, 2, 15, 32768, UR_OK},
      {UR_TYPE_UINT16, 2, 16, 0, UR_CORRUPT}, {UR_TYPE_INT8, 1, 5, (uint64_t)-128, UR_OK}, {UR_TYPE_INT8, 1, 5, 97, UR_CORRUPT},
      {UR_TYPE_UINT8, 1, 5, 224, UR_OK}, {UR_TYPE_UINT8, 1, 5, 225, UR_CORRUPT}, {UR_TYPE_UINT8, 1, 8, 0, UR_CORRUPT},
      {UR_TYPE_BOOL, 1, 1, 0, UR_OK}, {UR_TYPE_BOOL, 1, 1, 1, UR_CORRUPT}, {UR_TYPE_BOOL, 1, 2, 0, UR_CORRUPT},
      {UR_TYPE_FLOAT32, 4, 10, 0, UR_CORRUPT}, {UR_TYPE_FLOAT64, 8, 10, 0, UR_CORRUPT}};
  for (size_t i = 0; i < sizeof packings / sizeof *packings; i++) {
    directory d = scalar_of(packings[i].type, packings[i].width);
    expect(&d, UR_OK);
    d.sections[1].bits = packings[i].bits;
    d.sections[1].extra = packings[i].base;
    expect(&d, packings[i].status);
    if (packings[i].status != UR_OK) continue;
    d.sections[1].count--;
    expect(&d, UR_CORRUPT);
  }
}

static void packed_codes_have_no_base_and_nothing_else_is_packed(const directory *right) {
  for (uint32_t i = 0; i < right->count; i++)
    for (uint32_t bits = 1; bits < 9; bits += 4) {
      directory changed = *right;
      section *s = &changed.sections[i];
      int type = s->column == NONE ? 0 : changed.table[32 * s->column];
      int packs = s->kind == UR_SECTION_CODES || (s->kind == UR_SECTION_VALUES && type <= UR_TYPE_UINT64);
      s->bits = bits;
      expect(&changed, packs ? UR_OK : UR_CORRUPT);
      s->extra += s->kind == UR_SECTION_CODES;
      expect(&changed, packs && s->kind != UR_SECTION_CODES ? UR_OK : UR_CORRUPT);
    }
}

static void impossible_numbers_are_refused(void) {
  directory d = variable_part();
  d.rows = UINT64_MAX / 2 + 2; /* times two blob columns */
  expect(&d, UR_CORRUPT);
  d = fixed_part();
  d.rows = UINT64_MAX / 8; /* times 24 bytes */
  d.groups = d.rows / 64 + (d.rows % 64 != 0);
  expect(&d, UR_CORRUPT);
  d = fixed_part();
  d.data_bytes = ROWS * 24 - 1;
  expect(&d, UR_CORRUPT);
  d = fixed_part();
  d.groups = 4;
  expect(&d, UR_CORRUPT);
  d = fixed_part();
  d.table[0] = 60;
  expect(&d, UR_CORRUPT);
}

/* A data file's head whose columns are arrays of so many bytes. */
static ur_status head_of_arrays(const uint64_t *bytes, int columns, uint64_t align, ur_error *error) {
  fixture *part = make_part(1, 1, 1);
  ur_data_header header;
  for (int i = 0; i < 3; i++) {
    if (i < columns) put_column(part->data + 128 + 32 * i, UR_TYPE_ARRAY, 3, 0, 1, bytes[i]);
    if (i >= columns) put_column(part->data + 128 + 32 * i, UR_TYPE_FLOAT64, 0, 0, 0, 8);
  }
  put(part->data + UR_AT_BLOB_ALIGN, align, 4);
  seal_data(part);
  ur_status status = ur_parse_data_header(part->data, 128, part->data_bytes, &header, error);
  if (status == UR_OK) status = ur_check_data_head(part->data, &header, error);
  free(part);
  return status;
}

/* A value of fixed width takes a cell that is not too small for it in every row. */
static void compressed_rows_that_do_not_fit_the_file_are_refused(void) {
  directory d = compressed_part();
  for (uint64_t value = 24; value <= UINT64_C(1) << 40; value *= 4) {
    put(d.table + 32 + UR_AT_COLUMN_VALUE, value, 8);
    uint64_t least = value >> UR_MAX_EXPANSION_BITS > 0 ? value >> UR_MAX_EXPANSION_BITS : 1;
    d.data_bytes = ROWS * ((least + 7) / 8 * 8);
    expect(&d, UR_OK);
    d.data_bytes--;
    expect(&d, UR_CORRUPT);
  }
  d = compressed_part();
  d.sections[6].count = UR_MAX_DICTIONARY;
  expect(&d, UR_OK);
  d.sections[6].count++;
  expect(&d, UR_CORRUPT);
}

static void rows_beyond_2_to_the_63_are_refused(void) {
  static const uint64_t most = INT64_MAX;
  static const uint64_t rows[][3] = {{most, most, 24}, {most, most, most}, {24, most, most}, {most, 24, 24}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (uint64_t align = 1; align <= 64; align *= 2) {
      ur_error error = {0};
      EXPECT_EQUAL(head_of_arrays(rows[i], 3, align, &error), UR_CORRUPT);
      EXPECT_EQUAL(error.file, UR_FILE_DATA);
      EXPECT_EQUAL(head_of_arrays(rows[i], 3, align, NULL), UR_CORRUPT);
      if (rows[i][1] == most) EXPECT_EQUAL(head_of_arrays(rows[i], 2, align, &error), UR_CORRUPT);
    }
  fixture *part = make_part(1, 1, 1); /* an entry that is not legal, with no one to tell */
  ur_data_header header;
  part->data[128] = 60;
  seal_data(part);
  EXPECT_EQUAL(ur_parse_data_header(part->data, 128, part->data_bytes, &header, NULL), UR_OK);
  EXPECT_EQUAL(ur_check_data_head(part->data, &header, NULL), UR_CORRUPT);
  put(part->data + UR_AT_DATA_METADATA, 1 << 24, 4); /* a head of more than 2^24 bytes */
  put(part->data + UR_AT_HEADER_BYTES, up(128 + 32 * 3 + (1 << 24), 64), 4);
  seal_data(part);
  EXPECT_EQUAL(ur_parse_data_header(part->data, 128, UINT64_MAX, &header, NULL), UR_CORRUPT);
  free(part);
}

int main(void) {
  directory parts[] = {variable_part(), nullable_part(), fixed_part(), scalar_part(), compressed_part(), later_part(),
                       coded_part()};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    every_changed_field_is_refused(&parts[i]);
    every_missing_repeated_or_moved_section_is_refused(&parts[i]);
    an_order_of_a_scalar_column_may_be_there(&parts[i]);
    an_ancillary_section_is_ignored(&parts[i]);
    packed_codes_have_no_base_and_nothing_else_is_packed(&parts[i]);
  }
  packed_values_stay_in_their_type();
  directory chunked = chunked_part(); /* whose numbers of chunks are compared when they are used */
  every_missing_repeated_or_moved_section_is_refused(&chunked);
  an_ancillary_section_is_ignored(&chunked);
  an_order_of_more_than_2_to_the_32_rows_needs_8_bytes_each();
  codes_and_their_zones_go_together();
  a_string_column_is_coded_or_plain();
  a_number_column_has_values_or_a_dictionary();
  impossible_numbers_are_refused();
  compressed_rows_that_do_not_fit_the_file_are_refused();
  rows_beyond_2_to_the_63_are_refused();
  printf("%llu directories were right, %llu were refused\n", (unsigned long long)opened, (unsigned long long)refused);
  return 0;
}
