/* dataset/schema.c - the columns that a manifest says: see dataset/schema.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"
#include "base/layout.h"
#include "dataset/schema.h"

enum { MOST_NAME = 255, ANNOTATION_LEVELS = 16 };

/* ---- one column ------------------------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  uint8_t code;
  uint8_t bytes;   /* of an element; 0: they differ */
  bool arrays_only;
} element;

static const element TYPES[] = {
    {"bool", UR_TYPE_BOOL, 1, false}, {"int8", UR_TYPE_INT8, 1, false}, {"uint8", UR_TYPE_UINT8, 1, false},
    {"int16", UR_TYPE_INT16, 2, false}, {"uint16", UR_TYPE_UINT16, 2, false}, {"int32", UR_TYPE_INT32, 4, false},
    {"uint32", UR_TYPE_UINT32, 4, false}, {"int64", UR_TYPE_INT64, 8, false}, {"uint64", UR_TYPE_UINT64, 8, false},
    {"float16", UR_TYPE_FLOAT16, 2, false}, {"float32", UR_TYPE_FLOAT32, 4, false}, {"float64", UR_TYPE_FLOAT64, 8, false},
    {"bfloat16", UR_TYPE_BFLOAT16, 2, true}, {"complex64", UR_TYPE_COMPLEX64, 8, true}, {"complex128", UR_TYPE_COMPLEX128, 16, true},
    {"string", UR_TYPE_STRING, 0, false}, {"bytes", UR_TYPE_BYTES, 0, false}, {"text", UR_TYPE_TEXT, 0, false},
    {"object", UR_TYPE_OBJECT, 0, false},
};

static const element *type_named(ur_json_text text) {
  for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
    if (ur_json_is(text, TYPES[i].name)) return &TYPES[i];
  return NULL;
}

/* The name of a type of a later version says how its values lie: "type70:16" for scalars of 16 bytes, "type130" for blobs. */
static bool later_type(ur_json_text text, uint8_t *code, uint64_t *bytes) {
  char expected[32];
  unsigned numbers[2] = {0, 0}, count = 0; /* of the type, and of the bytes of a value */
  if (text.bytes < 6 || text.bytes > 10 || memcmp(text.at, "type", 4) != 0) return false;
  for (uint64_t i = 4; i < text.bytes; i++) {
    if (text.at[i] == ':') count++;
    if (count > 1 || (text.at[i] != ':' && (text.at[i] < '0' || text.at[i] > '9'))) return false;
    if (text.at[i] != ':') numbers[count] = 10 * numbers[count] + (unsigned)(text.at[i] - '0');
  }
  bool blob = numbers[0] >= UR_TYPE_LATER_BLOBS;
  if (numbers[0] < UR_TYPE_LATER_SCALARS || numbers[0] >= UR_TYPE_LATER_END) return false;
  if (!blob && (numbers[1] > UR_MAX_LATER_SCALAR || !ur_power_of_two(numbers[1]))) return false;
  if (blob)
    (void)snprintf(expected, sizeof expected, "type%u", numbers[0]);
  else
    (void)snprintf(expected, sizeof expected, "type%u:%u", numbers[0], numbers[1]);
  *code = (uint8_t)numbers[0];
  *bytes = blob ? 0 : numbers[1];
  return ur_json_is(text, expected); /* numbers have no zeros before them */
}

/* Names have no control characters: none that is escaped but quotation mark and backslash, none of U+007F to U+009F. */
static bool is_name(ur_json_text text) {
  uint64_t bytes = text.bytes;
  for (uint64_t i = 0; i < text.bytes; i++) {
    uint8_t byte = text.at[i];
    if (byte == 0x7F || (byte == 0xC2 && text.at[i + 1] < 0xA0)) return false; /* exact: UTF-8 has been checked */
    if (byte != '\\') continue;
    i++; /* exact: an escape is whole */
    if (text.at[i] != '"' && text.at[i] != '\\') return false;
    bytes--;
  }
  return bytes >= 1 && bytes <= MOST_NAME;
}

/* Bytes of an array of this shape, 0 where a dimension is free; false: it is no shape. */
static bool read_shape(const uint8_t *value, uint64_t element_bytes, uint8_t *rank, uint64_t *bytes) {
  if (ur_json_kind_of(value) != UR_JSON_ARRAY) return false;
  ur_json_items dimensions = ur_json_items_of(value);
  const uint8_t *dimension = NULL;
  uint64_t known = element_bytes;
  bool is_free = false;
  for (*rank = 0; ur_json_next(&dimensions, NULL, &dimension); (*rank)++) {
    bool negative = false;
    uint64_t size = 0;
    if (*rank == UR_MAX_RANK || !ur_json_integer(dimension, &negative, &size)) return false;
    if (negative && size != 1) return false;
    if (negative) is_free = true;
    else if (size == 0 || !ur_multiply(known, size, &known)) return false;
  }
  *bytes = is_free ? 0 : known;
  return *rank > 0 && known < UINT64_C(1) << 62;
}

/* Whether annotations can stand in msgpack as well: numbers of 64 bits, 16 levels, keys in the order of their code points. */
static bool are_annotations(const uint8_t *value, int level) {
  ur_json_kind kind = ur_json_kind_of(value);
  if (kind == UR_JSON_INTEGER) {
    bool negative = false;
    uint64_t size = 0;
    return ur_json_integer(value, &negative, &size) && (!negative || size <= UINT64_C(1) << 63);
  }
  if (kind != UR_JSON_OBJECT && kind != UR_JSON_ARRAY) return true;
  if (level > ANNOTATION_LEVELS) return false;
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *item = NULL;
  ur_json_text key = {0}, before = {0};
  for (bool first = true; ur_json_next(&items, &key, &item); first = false, before = key) {
    if (kind == UR_JSON_OBJECT && !first && ur_json_compare(before, key) >= 0) return false;
    if (!are_annotations(item, level + 1)) return false;
  }
  return true;
}

static bool read_column(const uint8_t *value, ur_schema_column *column) {
  if (ur_json_kind_of(value) != UR_JSON_ARRAY) return false;
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *name = NULL, *type = NULL, *shape = NULL, *annotations = NULL;
  ur_json_text text;
  if (!ur_json_next(&items, NULL, &name) || !ur_json_next(&items, NULL, &type) || !ur_json_next(&items, NULL, &shape))
    return false;
  if (!ur_json_string(name, &column->name) || !is_name(column->name) || !ur_json_string(type, &text)) return false;
  if (ur_json_next(&items, NULL, &annotations) &&
      (ur_json_kind_of(annotations) != UR_JSON_OBJECT || ur_json_count(annotations) == 0 || !are_annotations(annotations, 1)))
    return false;
  if (ur_json_next(&items, NULL, &annotations)) return false; /* there is nothing else */
  column->type = (ur_json_text){type, (uint64_t)(ur_json_end(shape) - type)};
  bool nullable = text.bytes > 0 && text.at[text.bytes - 1] == '?';
  if (nullable) text.bytes--;
  const element *kind = type_named(text);
  uint8_t *entry = column->entry, rank = 0, code = 0;
  uint64_t bytes = 0;
  bool is_array = ur_json_kind_of(shape) != UR_JSON_NULL;
  if (kind != NULL) {
    code = kind->code;
    bytes = kind->bytes;
    if (is_array ? kind->bytes == 0 || !read_shape(shape, kind->bytes, &rank, &bytes) : kind->arrays_only) return false;
  } else if (is_array || !later_type(text, &code, &bytes)) {
    return false;
  }
  memset(entry, 0, sizeof column->entry);
  entry[0] = is_array ? UR_TYPE_ARRAY : code;
  entry[1] = is_array ? code : 0;
  entry[2] = nullable;
  entry[3] = rank;
  memcpy(entry + UR_AT_COLUMN_FIXED, &bytes, sizeof bytes);
  column->is_blob = is_array || (code > UR_TYPE_STRING && code < UR_TYPE_LATER_SCALARS) || code >= UR_TYPE_LATER_BLOBS;
  return true;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

typedef struct {
  ur_json_text name;
  uint32_t number;
} named_column;

static int compare_names(const void *a, const void *b) {
  return ur_json_compare(((const named_column *)a)->name, ((const named_column *)b)->name);
}

static ur_status sort_names(ur_schema *schema, ur_error *error) {
  named_column *names = calloc((size_t)schema->count + 1, sizeof *names);
  schema->by_name = calloc((size_t)schema->count + 1, sizeof *schema->by_name);
  ur_status status = UR_OK;
  if (names == NULL || schema->by_name == NULL) status = ur_fail(error, UR_NO_MEMORY, "no memory for the names of columns");
  for (uint32_t i = 0; i < schema->count && status == UR_OK; i++)
    names[i] = (named_column){schema->columns[i].name, i};
  if (status == UR_OK) qsort(names, schema->count, sizeof *names, compare_names);
  for (uint32_t i = 0; i < schema->count && status == UR_OK; i++) {
    schema->by_name[i] = names[i].number;
    if (i > 0 && compare_names(&names[i - 1], &names[i]) == 0)
      status = ur_fail(error, UR_FORMAT, "a schema names a column twice");
  }
  free(names);
  return status;
}

ur_status ur_schema_read(const uint8_t *value, ur_schema *schema, ur_error *error) {
  *schema = (ur_schema){0};
  uint64_t count = ur_json_kind_of(value) == UR_JSON_ARRAY ? ur_json_count(value) : 0;
  if (count < 1 || count > UR_MAX_COLUMNS)
    return ur_fail(error, UR_FORMAT, "a schema is not a list of 1 to %u columns", UR_MAX_COLUMNS);
  schema->columns = calloc(count, sizeof *schema->columns);
  if (schema->columns == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for %" PRIu64 " columns", count);
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *item = NULL;
  while (ur_json_next(&items, NULL, &item))
    if (!read_column(item, &schema->columns[schema->count++]))
      return ur_fail(error, UR_FORMAT, "column %" PRIu32 " of a schema has a name, type, shape or annotations that are not "
                     "possible, or of a newer version", schema->count - 1);
  return sort_names(schema, error);
}

void ur_schema_release(ur_schema *schema) {
  free(schema->columns);
  free(schema->by_name);
  *schema = (ur_schema){0};
}

int64_t ur_schema_find(const ur_schema *schema, ur_json_text name) {
  uint32_t first = 0, end = schema->count;
  while (first < end) {
    uint32_t middle = first + (end - first) / 2;
    int found = ur_json_compare(schema->columns[schema->by_name[middle]].name, name);
    if (found == 0) return schema->by_name[middle];
    if (found < 0) first = middle + 1;
    else end = middle;
  }
  return -1;
}

/* ---- msgpack ---------------------------------------------------------------------------------------------------- */

static uint8_t *grow(ur_packed *packed, uint64_t more) {
  if (packed->failed) return NULL;
  uint64_t needed = packed->bytes + more; /* exact: no more than a few times the manifest, which is in memory */
  if (needed > packed->room) {
    uint64_t room = 2 * needed + 256; /* exact: likewise */
    uint8_t *data = realloc(packed->data, room);
    packed->failed = data == NULL;
    if (data == NULL) return NULL;
    packed->data = data;
    packed->room = room;
  }
  uint8_t *at = packed->data + packed->bytes; /* exact: inside it */
  packed->bytes = needed;
  return at;
}

/* A byte, and a number behind it in `bytes` bytes, the highest first. */
static void put(ur_packed *packed, uint8_t first, uint64_t number, int bytes) {
  uint8_t *at = grow(packed, 1 + (uint64_t)bytes); /* exact: at most 9 */
  if (at == NULL) return;
  *at = first;
  for (int i = 0; i < bytes; i++) at[1 + i] = (uint8_t)(number >> (8 * (bytes - 1 - i))); /* exact: at most 8 bytes */
}

static void put_integer(ur_packed *packed, bool negative, uint64_t size) {
  uint64_t number = negative ? 0 - size : size;
  if (!negative && size < 0x80) put(packed, (uint8_t)size, 0, 0);
  else if (negative && size <= 32) put(packed, (uint8_t)number, 0, 0);
  else if (negative && size <= 1u << 7) put(packed, 0xd0, number & 0xFF, 1);
  else if (negative && size <= 1u << 15) put(packed, 0xd1, number & 0xFFFF, 2);
  else if (negative && size <= 1u << 31) put(packed, 0xd2, number & UINT32_MAX, 4);
  else if (negative) put(packed, 0xd3, number, 8);
  else if (size <= UINT8_MAX) put(packed, 0xcc, size, 1);
  else if (size <= UINT16_MAX) put(packed, 0xcd, size, 2);
  else if (size <= UINT32_MAX) put(packed, 0xce, size, 4);
  else put(packed, 0xcf, size, 8);
}

static void put_string(ur_packed *packed, ur_json_text text) {
  uint64_t at = packed->bytes;
  uint8_t *raw = grow(packed, text.bytes);
  if (raw == NULL) return;
  uint64_t bytes = ur_json_decode(text, raw);
  packed->bytes = at;
  if (bytes < 32) put(packed, (uint8_t)(0xa0 | bytes), 0, 0);
  else if (bytes <= UINT8_MAX) put(packed, 0xd9, bytes, 1);
  else if (bytes <= UINT16_MAX) put(packed, 0xda, bytes, 2);
  else put(packed, 0xdb, bytes, 4);
  raw = grow(packed, bytes);
  if (raw != NULL) (void)ur_json_decode(text, raw);
}

/* How many items follow: `few` is the byte for fewer than 16 of them. */
static void put_count(ur_packed *packed, uint8_t few, uint8_t many, uint64_t count) {
  if (count < 16) put(packed, (uint8_t)(few | count), 0, 0);
  else if (count <= UINT16_MAX) put(packed, many, count, 2);
  else put(packed, (uint8_t)(many + 1), count, 4);
}

static void put_value(ur_packed *packed, const uint8_t *value) {
  ur_json_text text;
  bool negative = false;
  uint64_t number = 0;
  double real = 0;
  ur_json_kind kind = ur_json_kind_of(value);
  if (kind == UR_JSON_STRING && ur_json_string(value, &text)) {
    put_string(packed, text);
  } else if (kind == UR_JSON_INTEGER && ur_json_integer(value, &negative, &number)) {
    put_integer(packed, negative, number);
  } else if (kind == UR_JSON_FLOAT) {
    real = ur_json_float(value);
    memcpy(&number, &real, sizeof number);
    put(packed, 0xcb, number, 8);
  } else if (kind == UR_JSON_OBJECT || kind == UR_JSON_ARRAY) {
    bool named = kind == UR_JSON_OBJECT;
    put_count(packed, named ? 0x80 : 0x90, named ? 0xde : 0xdc, ur_json_count(value));
    ur_json_items items = ur_json_items_of(value);
    const uint8_t *item = NULL;
    while (ur_json_next(&items, &text, &item)) {
      if (named) put_string(packed, text);
      put_value(packed, item);
    }
  } else {
    put(packed, kind == UR_JSON_TRUE ? 0xc3 : kind == UR_JSON_FALSE ? 0xc2 : 0xc0, 0, 0);
  }
}

void ur_schema_pack(const uint8_t *value, bool annotations, ur_packed *packed) {
  ur_json_items columns = ur_json_items_of(value);
  const uint8_t *column = NULL, *item = NULL;
  packed->bytes = 0;
  put_count(packed, 0x90, 0xdc, ur_json_count(value));
  while (ur_json_next(&columns, NULL, &column)) {
    ur_json_items items = ur_json_items_of(column);
    const uint8_t *said[4];
    int count = 0;
    while (count < 4 && ur_json_next(&items, NULL, &item)) said[count++] = item;
    if (count == 4 && !annotations) count = 3;
    put_count(packed, 0x90, 0xdc, (uint64_t)count);
    for (int i = 0; i < count; i++) put_value(packed, said[i]);
  }
}

bool ur_schema_digest(const uint8_t *value, uint8_t digest[UR_WIDE_BYTES]) {
  ur_packed packed = {0};
  ur_schema_pack(value, false, &packed);
  if (!packed.failed) ur_xxh3_128(packed.data, packed.bytes, 0, digest);
  free(packed.data);
  return !packed.failed;
}
