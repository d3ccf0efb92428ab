/* dataset/manifest.c - which files make up a dataset, as its manifest says: every field checked before it is used. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"
#include "base/layout.h"
#include "base/object.h"
#include "dataset/manifest.h"
#include "dataset/pieces.h"
#include "unirecord_internal.h"

enum { VERSION = 1, HEX64 = 16, HEX128 = 32, MOST_FILES = 1000 /* of a part */, SHOWN = 60 /* bytes of a name in a message */ };

static ur_status wrong(ur_error *error, const char *what) { return ur_fail(error, UR_FORMAT, "%s", what); }

static ur_status no_memory(ur_error *error) { return ur_fail(error, UR_NO_MEMORY, "no memory for what it says"); }

/* ---- fields ----------------------------------------------------------------------------------------------------- */

/* The values of the keys that an object may have, in the order of `keys`; NULL for one that is not there. False for another
 * key, and for what is no object. */
static bool take_fields(const uint8_t *value, const char *const *keys, const uint8_t **values, size_t count) {
  memset(values, 0, count * sizeof *values); /* exact: a few */
  if (ur_json_kind_of(value) != UR_JSON_OBJECT) return false;
  ur_json_items items = ur_json_items_of(value);
  ur_json_text key;
  const uint8_t *item = NULL;
  while (ur_json_next(&items, &key, &item)) {
    size_t i = 0;
    while (i < count && !ur_json_is(key, keys[i])) i++;
    if (i == count) return false;
    values[i] = item;
  }
  return true;
}

static bool is_hex(ur_json_text text, uint64_t digits) {
  if (text.bytes != digits) return false;
  for (uint64_t i = 0; i < digits; i++)
    if ((text.at[i] < '0' || text.at[i] > '9') && (text.at[i] < 'a' || text.at[i] > 'f')) return false;
  return true;
}

static uint8_t hex_digit(uint8_t digit) { return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

static bool take_hex64(const uint8_t *value, uint64_t *number) {
  ur_json_text text;
  if (!ur_json_string(value, &text) || !is_hex(text, HEX64)) return false;
  *number = 0;
  for (int i = 0; i < HEX64; i++) *number = *number << 4 | hex_digit(text.at[i]);
  return true;
}

/* An id, or a digest of as many bits. */
static bool take_hex128(const uint8_t *value, uint8_t bytes[UR_WIDE_BYTES]) {
  ur_json_text text;
  if (!ur_json_string(value, &text) || !is_hex(text, HEX128)) return false;
  for (size_t i = 0; i < UR_WIDE_BYTES; i++)
    bytes[i] = (uint8_t)(hex_digit(text.at[2 * i]) << 4 | hex_digit(text.at[2 * i + 1]));
  return true;
}

/* How many decimal digits a name has from `at` on, and their number, which has at most 18 of them; 0 unless it is written as
 * names have it: with six digits, or as many as it needs. */
static uint64_t take_digits(ur_json_text text, uint64_t at, uint64_t *number) {
  uint64_t count = 0;
  *number = 0;
  for (; at + count < text.bytes && count < 19; count++) { /* exact: in the text */
    uint8_t digit = text.at[at + count];                   /* exact: likewise */
    if (digit < '0' || digit > '9') break;
    *number = *number * 10 + (uint64_t)(digit - '0');
  }
  return count > 6 && text.at[at] == '0' ? 0 : count;
}

/* A file name part-NUMBER-ID.urec that goes with the id, and whose number has been given out. */
static bool take_name(const uint8_t *value, const uint8_t id[UR_ID_BYTES], uint64_t next_part, char name[UR_FILE_NAME]) {
  ur_json_text text;
  uint64_t number = 0;
  if (!ur_json_string(value, &text) || text.bytes >= UR_FILE_NAME || text.bytes < 11 || memcmp(text.at, "part-", 5) != 0)
    return false;
  uint64_t digits = take_digits(text, 5, &number);
  if (digits < 6 || digits > 12 || number >= next_part) return false;
  char expected[UR_FILE_NAME + 8];
  (void)snprintf(expected, sizeof expected, "part-%.*s-%02x%02x%02x%02x.urec", (int)digits, (const char *)text.at + 5, id[0],
                 id[1], id[2], id[3]);
  if (!ur_json_is(text, expected)) return false;
  memcpy(name, expected, (size_t)text.bytes + 1);
  return true;
}

/* ---- what stands around the parts -------------------------------------------------------------------------------- */

enum { CREATED_BY, DIGEST, FORMAT, GENERATION, GIVEN_UP, ID, INDEX, LAYOUTS, METADATA, NEXT_PART, OPTIONAL, PARTS, PIECES,
       PUBLICATION, REQUIRED, ROWS_DROPPED, SAME_ROWS, SCHEMA, VERSION_KEY, KEYS };
static const char *const TOP[KEYS] = {"created_by", "digest", "format", "generation", "given_up", "id", "index", "layouts",
                                      "metadata", "next_part", "optional", "parts", "pieces", "publication", "required", "rows_dropped",
                                      "same_rows", "schema", "version"};
/* Those that may be left out, and what they are. */
static const struct { int key; ur_json_kind kind; } MAY_BE[] = {
    {GIVEN_UP, UR_JSON_OBJECT}, {LAYOUTS, UR_JSON_ARRAY}, {OPTIONAL, UR_JSON_OBJECT}, {PIECES, UR_JSON_ARRAY},
    {PUBLICATION, UR_JSON_OBJECT},
    {REQUIRED, UR_JSON_ARRAY}, {ROWS_DROPPED, UR_JSON_ARRAY}, {SAME_ROWS, UR_JSON_OBJECT}};

static const uint8_t *field(const uint8_t *object, const char *name) {
  ur_json_items items = ur_json_items_of(object);
  ur_json_text key;
  const uint8_t *value = NULL;
  while (ur_json_next(&items, &key, &value))
    if (items.named && ur_json_is(key, name)) return value;
  return NULL;
}

static ur_status check_version(const uint8_t *text, ur_error *error) {
  ur_json_text kind;
  uint64_t version = 0;
  const uint8_t *format = field(text, "format"), *value = field(text, "version");
  if (format == NULL || !ur_json_string(format, &kind) || !ur_json_is(kind, "unirecord"))
    return wrong(error, "this JSON file is not the manifest of a UniRecord dataset");
  if (value == NULL || !ur_json_number(value, &version) || version < 1) return wrong(error, "its version is no number from 1");
  if (version == VERSION) return UR_OK;
  ur_status status = ur_fail(error, UR_FORMAT, "it needs a reader of version %" PRIu64 "; this one is version %d", version, VERSION);
  return ur_because(error, UR_REASON_NEWER, status);
}

/* What a reader must know: whether there are columns elsewhere, rows that have been deleted, and values in place of others. */
typedef struct {
  bool columns, deletions, patches;
} required_facts;

static ur_status check_required(const uint8_t *required, required_facts *needed, ur_error *error) {
  *needed = (required_facts){false, false, false};
  if (required == NULL) return UR_OK;
  if (ur_json_kind_of(required) != UR_JSON_ARRAY || ur_json_count(required) == 0)
    return wrong(error, "\"required\" is not a list of one or more strings");
  ur_json_items items = ur_json_items_of(required);
  const uint8_t *item = NULL;
  while (ur_json_next(&items, NULL, &item)) {
    ur_json_text text;
    if (!ur_json_string(item, &text)) return wrong(error, "\"required\" is not a list of one or more strings");
    if (ur_json_is(text, "columns")) {
      needed->columns = true;
    } else if (ur_json_is(text, "deletions")) {
      needed->deletions = true;
    } else if (ur_json_is(text, "patches")) {
      needed->patches = true;
    } else {
      ur_status status = ur_fail(error, UR_FORMAT, "it needs \"%.*s\", which this version does not have",
                                 text.bytes < SHOWN ? (int)text.bytes : SHOWN, (const char *)text.at);
      return ur_because(error, UR_REASON_NEWER, status);
    }
  }
  return UR_OK;
}

static const char BEGINNING[] = "{\"digest\":\"";

/* The digest of the file with the digits of its own as zeros: of the bytes as they lie, before anything is changed in them. */
static ur_status take_digest(ur_manifest *m, ur_error *error) {
  const size_t begin = sizeof BEGINNING - 1;
  ur_json_text digits = {m->text + begin, HEX64};
  if (m->text_bytes <= begin + HEX64 || memcmp(m->text, BEGINNING, begin) != 0 || !is_hex(digits, HEX64) || m->text[begin + HEX64] != '"')
    return wrong(error, "this is not the manifest of a UniRecord dataset: it does not begin with its digest");
  uint8_t stored[HEX64];
  memcpy(stored, m->text + begin, HEX64); /* exact: there are as many */
  memset(m->text + begin, '0', HEX64);    /* exact: likewise */
  m->digest = ur_xxh3_64(m->text, (size_t)m->text_bytes, 0);
  memcpy(m->text + begin, stored, HEX64); /* exact: likewise */
  return UR_OK;
}

static ur_status check_digest(const ur_manifest *m, const uint8_t *value, ur_error *error) {
  uint64_t stored = 0;
  if (take_hex64(value, &stored) && stored == m->digest) return UR_OK;
  return ur_fail(error, UR_CORRUPT, "it has the digest %016" PRIx64 ", but %016" PRIx64 " is stored in it: it was edited or damaged",
                 m->digest, stored);
}

static ur_status check_index(const ur_schema *schema, const uint8_t *value, ur_error *error) {
  uint8_t *named = calloc((size_t)schema->count, 1);
  if (named == NULL) return no_memory(error);
  bool good = ur_json_kind_of(value) == UR_JSON_ARRAY;
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *item = NULL;
  while (good && ur_json_next(&items, NULL, &item)) {
    ur_json_text text;
    int64_t column = ur_json_string(item, &text) ? ur_schema_find(schema, text) : -1;
    good = column >= 0 && !schema->columns[column].is_blob && schema->columns[column].entry[0] < UR_TYPE_LATER_SCALARS &&
           !named[column];
    if (good) named[column] = 1;
  }
  free(named);
  return good ? UR_OK : wrong(error, "its index does not name scalar columns of the schema, each once");
}

static int base64_value(uint8_t byte) {
  if (byte >= 'A' && byte <= 'Z') return byte - 'A';
  if (byte >= 'a' && byte <= 'z') return byte - 'a' + 26;
  if (byte >= '0' && byte <= '9') return byte - '0' + 52;
  return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

/* The bytes that a text of base64 stands for, at `to`; false where it is none. */
static bool decode_base64(ur_json_text text, uint8_t *to, uint64_t *bytes) {
  uint64_t padding = 0;
  *bytes = 0;
  if (text.bytes % 4 != 0) return false;
  while (padding < 2 && padding < text.bytes && text.at[text.bytes - 1 - padding] == '=') padding++;
  uint32_t held = 0;
  for (uint64_t i = 0; i < text.bytes; i++) {
    int value = i < text.bytes - padding ? base64_value(text.at[i]) : 0;
    if (value < 0) return false;
    held = held << 6 | (uint32_t)value;
    for (int part = 2; i % 4 == 3 && part >= 0; part--) to[(*bytes)++] = (uint8_t)(held >> (8 * part));
  }
  *bytes -= padding;
  return true;
}

static ur_status check_metadata(const uint8_t *value, ur_error *error) {
  ur_json_text text;
  uint64_t bytes = 0;
  if (ur_json_kind_of(value) == UR_JSON_NULL) return UR_OK;
  if (!ur_json_string(value, &text)) return wrong(error, "its metadata is not base64");
  uint8_t *packed = malloc((size_t)text.bytes + 1);
  if (packed == NULL) return no_memory(error);
  ur_status status = UR_OK;
  if (!decode_base64(text, packed, &bytes))
    status = wrong(error, "its metadata is not base64");
  else if (ur_object_check(packed, bytes, NULL) != UR_OK || !ur_object_is_text(packed, bytes) || !ur_object_is_canonical(packed, bytes))
    status = wrong(error, "its metadata is not one msgpack value by the rules of the format");
  free(packed);
  return status;
}

/* ---- layouts ----------------------------------------------------------------------------------------------------- */

static bool take_place(const uint8_t *value, ur_place *place, uint64_t files, const ur_schema *schemas) {
  const uint8_t *item[2];
  uint64_t file = 0, column = 0;
  if (ur_json_kind_of(value) != UR_JSON_ARRAY || ur_json_count(value) != 2) return false;
  ur_json_items items = ur_json_items_of(value);
  for (int i = 0; i < 2; i++) (void)ur_json_next(&items, NULL, &item[i]);
  if (!ur_json_number(item[0], &file) || !ur_json_number(item[1], &column)) return false;
  if (file >= files || column >= schemas[file].count) return false;
  *place = (ur_place){(uint32_t)file, (uint32_t)column};
  return true;
}

static int compare_places(const void *a, const void *b) {
  const ur_place *one = a, *other = b;
  if (one->file != other->file) return one->file < other->file ? -1 : 1;
  return one->column < other->column ? -1 : one->column > other->column;
}

static ur_status take_places(const ur_manifest *m, const uint8_t *value, ur_column_layout *layout, const ur_schema *schemas,
                             ur_error *error) {
  uint32_t count = m->schema.count, i = 0;
  if (ur_json_kind_of(value) != UR_JSON_ARRAY || ur_json_count(value) != count)
    return wrong(error, "a layout does not have the columns of the schema");
  ur_place *sorted = malloc(count * sizeof *sorted);
  layout->places = malloc(count * sizeof *layout->places);
  ur_status status = sorted == NULL || layout->places == NULL ? no_memory(error) : UR_OK;
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *item = NULL;
  for (; status == UR_OK && ur_json_next(&items, NULL, &item); i++) {
    ur_place *place = &layout->places[i];
    if (!take_place(item, place, layout->files, schemas)) {
      status = wrong(error, "a layout names a file or a column that is not there");
      break;
    }
    ur_json_text wanted = m->schema.columns[i].type, stored = schemas[place->file].columns[place->column].type;
    if (wanted.bytes != stored.bytes || memcmp(wanted.at, stored.at, wanted.bytes) != 0)
      status = wrong(error, "a layout has a column where one of another type is");
  }
  if (status == UR_OK) {
    memcpy(sorted, layout->places, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_places);
    for (i = 1; i < count && status == UR_OK; i++)
      if (compare_places(&sorted[i - 1], &sorted[i]) == 0) status = wrong(error, "a layout has two columns in one place");
  }
  free(sorted);
  return status;
}

static ur_status take_layout(ur_manifest *m, const uint8_t *value, ur_column_layout *layout, ur_error *error) {
  static const char *const keys[] = {"columns", "files"};
  const uint8_t *values[2];
  if (!take_fields(value, keys, values, 2) || values[0] == NULL || values[1] == NULL)
    return wrong(error, "a layout needs the keys columns and files");
  uint64_t files = ur_json_kind_of(values[1]) == UR_JSON_ARRAY ? ur_json_count(values[1]) : 0;
  if (files < 1 || files > MOST_FILES) return ur_fail(error, UR_FORMAT, "a layout does not have 1 to %d files", MOST_FILES);
  layout->files = (uint32_t)files;
  ur_schema *schemas = calloc((size_t)files, sizeof *schemas);
  ur_status status = schemas == NULL ? no_memory(error) : UR_OK;
  ur_json_items items = ur_json_items_of(values[1]);
  const uint8_t *item = NULL;
  for (uint64_t i = 0; status == UR_OK && ur_json_next(&items, NULL, &item); i++) {
    status = ur_schema_read(item, &schemas[i], error);
    if (status == UR_OK && i == 0 && !ur_schema_digest(item, layout->first_digest)) status = no_memory(error);
  }
  if (status == UR_OK) status = take_places(m, values[0], layout, schemas, error);
  for (uint64_t i = 0; schemas != NULL && i < files; i++) ur_schema_release(&schemas[i]);
  free(schemas);
  return status;
}

static ur_status take_layouts(ur_manifest *m, const uint8_t *value, ur_error *error) {
  if (value == NULL) return UR_OK;
  uint64_t count = ur_json_kind_of(value) == UR_JSON_ARRAY ? ur_json_count(value) : 0;
  if (count < 1 || count > UINT32_MAX - 1) return wrong(error, "layouts is not a list of one or more");
  m->layout = calloc((size_t)count, sizeof *m->layout);
  if (m->layout == NULL) return no_memory(error);
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *item = NULL;
  ur_status status = UR_OK;
  while (status == UR_OK && ur_json_next(&items, NULL, &item)) status = take_layout(m, item, &m->layout[m->layouts++], error);
  return status;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

enum { PART_BYTES, PART_FILES, PART_CONTENT, PART_DELETIONS, PART_ID, PART_INDEX_BYTES, PART_LAYOUT, PART_NAME, PART_PATCH,
       PART_ROWS, PART_SCHEMA, PART_KEYS };
static const char *const PART[PART_KEYS] = {"bytes", "column_files", "content", "deletions", "id", "index_bytes", "layout",
                                            "name", "patch", "rows", "schema"};

static bool take_file(const uint8_t *const *values, uint64_t next_part, ur_named_file *file) {
  const uint8_t *needed[] = {values[PART_BYTES], values[PART_CONTENT], values[PART_ID], values[PART_INDEX_BYTES], values[PART_NAME]};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (needed[i] == NULL) return false;
  return ur_json_number(values[PART_BYTES], &file->bytes) && ur_json_number(values[PART_INDEX_BYTES], &file->index_bytes) &&
         take_hex128(values[PART_CONTENT], file->content_digest) && take_hex128(values[PART_ID], file->id) &&
         take_name(values[PART_NAME], file->id, next_part, file->name);
}

static ur_status take_deletion(ur_manifest *m, const uint8_t *value, ur_listed_part *part, ur_error *error) {
  static const char *const keys[] = {"bytes", "digest", "name", "rows"};
  const uint8_t *values[4];
  ur_named_deletion *found = &m->deletion[m->deletions];
  ur_json_text name;
  uint64_t number = 0, limit = 0;
  bool good = take_fields(value, keys, values, 4);
  for (int i = 0; i < 4; i++) good = good && values[i] != NULL;
  good = good && ur_json_number(values[0], &found->bytes) && take_hex128(values[1], found->digest) &&
         ur_json_string(values[2], &name) && ur_json_number(values[3], &found->rows) && found->rows >= 1;
  if (!good) return wrong(error, "what has been deleted of a part is not said by name, rows, bytes and digest");
  if (found->rows > part->rows || (ur_multiply(part->rows, 8, &limit) && ur_add(limit, 64, &limit) && found->bytes > limit))
    return wrong(error, "more rows have been deleted of a part than it has, or their file is larger than it can be");
  size_t stem = strlen(part->file.name);
  good = name.bytes > stem + 5 && memcmp(name.at, part->file.name, stem) == 0 && memcmp(name.at + stem, ".del-", 5) == 0;
  uint64_t digits = good ? take_digits(name, stem + 5, &number) : 0;
  if (digits < 6 || digits > 18 || stem + 5 + digits != name.bytes) /* exact: a short name */
    return wrong(error, "a file of deleted rows has no such name (PART.del-VERSION)");
  memcpy(found->name, name.at, (size_t)name.bytes);
  part->deletion = m->deletions++;
  return UR_OK;
}

static ur_status take_column_files(ur_manifest *m, const uint8_t *const *values, uint64_t next_part, ur_listed_part *part,
                                   const uint8_t *schema, ur_error *error) {
  uint64_t layout = 0;
  if (values[PART_LAYOUT] == NULL || !ur_json_number(values[PART_LAYOUT], &layout) || layout >= m->layouts)
    return wrong(error, "a part has a layout that is not there");
  const ur_column_layout *of = &m->layout[layout];
  const uint8_t *files = values[PART_FILES], *item = NULL;
  if (files == NULL || ur_json_kind_of(files) != UR_JSON_ARRAY || ur_json_count(files) != of->files - 1)
    return wrong(error, "a part does not have the column parts of its layout");
  if (memcmp(schema, of->first_digest, UR_WIDE_BYTES) != 0) return wrong(error, "a part has another schema than its layout");
  part->layout = (uint32_t)layout + 1;
  part->files = m->files;
  ur_json_items items = ur_json_items_of(files);
  while (ur_json_next(&items, NULL, &item)) {
    const uint8_t *named[PART_KEYS];
    bool good = take_fields(item, PART, named, PART_KEYS);
    for (int i = 0; i < PART_KEYS; i++)
      good = good && (named[i] != NULL) == (i == PART_BYTES || i == PART_CONTENT || i == PART_ID || i == PART_INDEX_BYTES || i == PART_NAME);
    if (!good || !take_file(named, next_part, &m->file[m->files]))
      return wrong(error, "a column part has a field that is missing or not possible, or a name that does not go with its id");
    m->files++;
  }
  return UR_OK;
}

static ur_status take_patch(ur_manifest *m, const uint8_t *value, ur_listed_part *part, ur_error *error) {
  ur_json_text text;
  if (!ur_json_string(value, &text) || text.bytes < 4 || text.bytes > UR_MAX_PATCH / 3 * 4 + 4 || part->layout == 0)
    return wrong(error, "the patch of a part is not some base64 beside a layout");
  part->patch = malloc((size_t)text.bytes);
  if (part->patch == NULL) return no_memory(error);
  m->patches++;
  if (decode_base64(text, part->patch, &part->patch_bytes) && part->patch_bytes <= UR_MAX_PATCH) return UR_OK;
  return wrong(error, "the patch of a part is not base64 of at most 65536 bytes");
}

static ur_status take_part(ur_manifest *m, const uint8_t *value, uint64_t next_part, const uint8_t *digest, ur_error *error) {
  const uint8_t *values[PART_KEYS];
  ur_listed_part *part = &m->part[m->parts];
  uint8_t schema[UR_WIDE_BYTES];
  *part = (ur_listed_part){.deletion = -1};
  if (!take_fields(value, PART, values, PART_KEYS) || !take_file(values, next_part, &part->file) || values[PART_ROWS] == NULL ||
      values[PART_SCHEMA] == NULL || !ur_json_number(values[PART_ROWS], &part->rows) || !take_hex128(values[PART_SCHEMA], schema))
    return wrong(error, "a part has a field that is missing, unknown or not possible, or a name that does not go with its id");
  ur_status status = UR_OK;
  if (values[PART_DELETIONS] != NULL) status = take_deletion(m, values[PART_DELETIONS], part, error);
  if (status == UR_OK && (values[PART_LAYOUT] != NULL || values[PART_FILES] != NULL))
    status = take_column_files(m, values, next_part, part, schema, error);
  else if (status == UR_OK && memcmp(schema, digest, UR_WIDE_BYTES) != 0)
    status = wrong(error, "a part has another schema than the dataset");
  if (status == UR_OK && values[PART_PATCH] != NULL) status = take_patch(m, values[PART_PATCH], part, error);
  m->parts++;
  return status;
}

/* The pieces that a manifest names, in memory. */
typedef struct {
  uint64_t count;
  ur_piece *piece;
  char (*digest)[UR_HEX_TEXT];
} read_pieces;

static void free_pieces(read_pieces *pieces) {
  for (uint64_t i = 0; pieces->piece != NULL && i < pieces->count; i++) free(pieces->piece[i].content);
  free(pieces->piece);
  free(pieces->digest);
}

/* Reads them; `id` is the dataset's. */
static ur_status read_all_pieces(ur_manifest *m, const uint8_t *value, const uint8_t *id, const char *folder, read_pieces *pieces,
                                 ur_error *error) {
  static const char *const keys[] = {"digest", "parts", "rows"};
  uint64_t count = value == NULL ? 0 : ur_json_count(value);
  if (value == NULL) return UR_OK;
  if (count == 0) return wrong(error, "pieces is not a list of one or more");
  pieces->piece = calloc((size_t)count, sizeof *pieces->piece);
  pieces->digest = calloc((size_t)count, sizeof *pieces->digest);
  if (pieces->piece == NULL || pieces->digest == NULL) return no_memory(error);
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *item = NULL;
  while (ur_json_next(&items, NULL, &item)) {
    const uint8_t *values[3];
    ur_json_text digest;
    uint64_t parts = 0, rows = 0;
    bool good = take_fields(item, keys, values, 3) && values[0] != NULL && values[1] != NULL && values[2] != NULL;
    if (!good || !ur_json_string(values[0], &digest) || !is_hex(digest, HEX128) || !ur_json_number(values[1], &parts) ||
        !ur_json_number(values[2], &rows))
      return wrong(error, "a piece is not said by digest, parts and rows");
    memcpy(pieces->digest[pieces->count], digest.at, HEX128); /* exact: it has as many */
    ur_piece *piece = &pieces->piece[pieces->count];
    ur_status status = ur_piece_read(folder, pieces->digest[pieces->count++], parts, rows, id, piece, error);
    if (status != UR_OK) return status;
    m->text_bytes += piece->bytes; /* exact: both are in memory */
  }
  return UR_OK;
}

static ur_status take_parts(ur_manifest *m, const uint8_t *value, const read_pieces *pieces, uint64_t next_part,
                            const uint8_t *digest, ur_error *error) {
  if (ur_json_kind_of(value) != UR_JSON_ARRAY) return wrong(error, "parts is not a list");
  uint64_t parts = 0, files = 0, deletions = 0;
  for (uint64_t i = 0; i < pieces->count; i++) {
    parts += pieces->piece[i].parts;         /* exact: they are in memory */
    files += pieces->piece[i].files;         /* exact: likewise */
    deletions += pieces->piece[i].deletions; /* exact: likewise */
  }
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *item = NULL, *more = NULL;
  for (; ur_json_next(&items, NULL, &item); parts++) {
    if (ur_json_kind_of(item) != UR_JSON_OBJECT) return wrong(error, "a part is not an object");
    ur_json_items fields = ur_json_items_of(item);
    ur_json_text key;
    while (ur_json_next(&fields, &key, &more)) {
      if (ur_json_is(key, "column_files") && ur_json_kind_of(more) == UR_JSON_ARRAY) files += ur_json_count(more); /* exact: in memory */
      deletions += ur_json_is(key, "deletions");
    }
  }
  if (parts > INT32_MAX) return wrong(error, "it has more parts than 2^31");
  m->part = calloc((size_t)parts + 1, sizeof *m->part);
  m->file = calloc((size_t)files + 1, sizeof *m->file);
  m->deletion = calloc((size_t)deletions + 1, sizeof *m->deletion);
  if (m->part == NULL || m->file == NULL || m->deletion == NULL) return no_memory(error);
  ur_status status = UR_OK;
  for (uint64_t i = 0; i < pieces->count && status == UR_OK; i++)
    status = ur_piece_take(&pieces->piece[i], pieces->digest[i], next_part, m, error);
  items = ur_json_items_of(value);
  while (status == UR_OK && ur_json_next(&items, NULL, &item)) status = take_part(m, item, next_part, digest, error);
  return status;
}

/* ---- all parts together ------------------------------------------------------------------------------------------ */

static int compare_ids(const void *a, const void *b) {
  return memcmp((*(const ur_named_file *const *)a)->id, (*(const ur_named_file *const *)b)->id, UR_ID_BYTES);
}

static int compare_file_names(const void *a, const void *b) {
  return strcmp((*(const ur_named_file *const *)a)->name, (*(const ur_named_file *const *)b)->name);
}

static ur_status check_distinct(const ur_manifest *m, ur_error *error) {
  size_t count = (size_t)(m->parts + m->files), n = 0;
  const ur_named_file **files = malloc((count + 1) * sizeof *files);
  if (files == NULL) return no_memory(error);
  for (int64_t i = 0; i < m->parts; i++) files[n++] = &m->part[i].file;
  for (int64_t i = 0; i < m->files; i++) files[n++] = &m->file[i];
  bool twice = false;
  qsort(files, n, sizeof *files, compare_ids);
  for (size_t i = 1; i < n; i++) twice = twice || compare_ids(&files[i - 1], &files[i]) == 0;
  qsort(files, n, sizeof *files, compare_file_names);
  for (size_t i = 1; i < n; i++) twice = twice || compare_file_names(&files[i - 1], &files[i]) == 0;
  free(files);
  return twice ? wrong(error, "two parts have the same name or id") : UR_OK;
}

static ur_status check_together(const ur_manifest *m, const required_facts *needed, ur_error *error) {
  uint64_t rows = 0, bytes = 0;
  for (int64_t i = 0; i < m->parts; i++) {
    if (!ur_add(rows, m->part[i].rows, &rows) || rows > UR_MAX_ROWS) return wrong(error, "its parts have more than 2^62 rows");
    if (!ur_add(bytes, m->part[i].file.bytes, &bytes) || bytes > INT64_MAX) return wrong(error, "its parts have 2^63 bytes or more");
  }
  for (int64_t i = 0; i < m->files; i++)
    if (!ur_add(bytes, m->file[i].bytes, &bytes) || bytes > INT64_MAX) return wrong(error, "its parts have 2^63 bytes or more");
  if (needed->deletions != (m->deletions > 0)) return wrong(error, "\"required\" and the parts do not agree whether rows have been deleted");
  if (needed->patches != (m->patches > 0)) return wrong(error, "\"required\" and the parts do not agree whether they have patches");
  if (needed->columns != (m->layouts > 0)) return wrong(error, "\"required\" and \"layouts\" do not agree whether columns are elsewhere");
  uint8_t *used = calloc((size_t)m->layouts + 1, 1);
  if (used == NULL) return no_memory(error);
  bool all = true;
  for (int64_t i = 0; i < m->parts; i++) used[m->part[i].layout] = 1;
  for (uint32_t i = 1; i <= m->layouts; i++) all = all && used[i];
  free(used);
  if (!all) return wrong(error, "it has a layout that no part has");
  return check_distinct(m, error);
}

/* Whether the parts at hand are those that rows were laid out anew in: 32 hex digits of their ids and of what is deleted. */
static ur_status is_layout_of(const ur_manifest *m, const uint8_t *id, ur_json_text said, bool *same, ur_error *error) {
  size_t bytes = UR_ID_BYTES + (size_t)m->parts * UR_ID_BYTES + (size_t)m->deletions * HEX128; /* exact: in memory */
  uint8_t *all = malloc(bytes + 1), *at = all;                                                /* exact: likewise */
  if (all == NULL) return no_memory(error);
  memcpy(at, id, UR_ID_BYTES);
  at += UR_ID_BYTES;
  for (int64_t i = 0; i < m->parts; i++, at += UR_ID_BYTES) memcpy(at, m->part[i].file.id, UR_ID_BYTES);
  for (int64_t i = 0; i < m->parts; i++) {
    if (m->part[i].deletion < 0) continue;
    char text[UR_HEX_TEXT];
    ur_hex(m->deletion[m->part[i].deletion].digest, text);
    memcpy(at, text, HEX128);
    at += HEX128;
  }
  char found[HEX128 + 1];
  (void)snprintf(found, sizeof found, "%016" PRIx64 "%016" PRIx64, ur_xxh3_64(all, bytes, 0), ur_xxh3_64(all, bytes, 1));
  free(all);
  *same = ur_json_is(said, found);
  return UR_OK;
}

/* By which sizes of blocks are chosen, where rows have only been laid out anew since. */
static ur_status take_facts(ur_manifest *m, const uint8_t *said, const uint8_t *id, ur_error *error) {
  if (said == NULL) return UR_OK;
  const uint8_t *identity = field(said, "identity"), *layout = field(said, "layout"), *group_rows = field(said, "group_rows"),
                *rows = field(said, "rows"), *bytes = field(said, "bytes");
  ur_json_text one, other;
  if (identity == NULL || layout == NULL || group_rows == NULL || rows == NULL || bytes == NULL ||
      !ur_json_string(identity, &one) || !is_hex(one, HEX128) || !ur_json_string(layout, &other) || !is_hex(other, HEX128) ||
      !ur_json_number(group_rows, &m->group_rows) || !ur_json_number(rows, &m->block_rows) || !ur_json_number(bytes, &m->block_bytes))
    return wrong(error, "what it says of the rows before they were laid out anew makes no sense");
  return is_layout_of(m, id, other, &m->has_facts, error);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static ur_status take_all(ur_manifest *m, const char *folder, ur_error *error) {
  const uint8_t *values[KEYS];
  uint8_t id[UR_ID_BYTES];
  uint64_t next_part = 0, generation = 0;
  required_facts needed;
  ur_json_text text;
  ur_status status = check_version(m->text, error);
  if (status == UR_OK) status = check_required(field(m->text, "required"), &needed, error);
  if (status != UR_OK) return status;
  bool whole = take_fields(m->text, TOP, values, KEYS);
  int missing = 0, left_out = 0;
  for (int i = 0; i < KEYS; i++) missing += values[i] == NULL;
  for (size_t i = 0; whole && i < sizeof MAY_BE / sizeof *MAY_BE; i++) left_out += values[MAY_BE[i].key] == NULL;
  if (!whole || missing != left_out) return wrong(error, "its keys are not those of a manifest");
  status = check_digest(m, values[DIGEST], error);
  if (status == UR_OK) status = ur_schema_read(values[SCHEMA], &m->schema, error);
  if (status == UR_OK) status = check_index(&m->schema, values[INDEX], error);
  if (status != UR_OK) return status;
  if (!ur_json_number(values[NEXT_PART], &next_part)) return wrong(error, "next_part is no number from 0");
  if (!ur_json_number(values[GENERATION], &generation) || generation < 1) return wrong(error, "generation is no number from 1");
  if (!take_hex128(values[ID], id)) return wrong(error, "its id is not 32 lower-case hex digits");
  if (!ur_json_string(values[CREATED_BY], &text)) return wrong(error, "created_by is not a string");
  for (size_t i = 0; i < sizeof MAY_BE / sizeof *MAY_BE; i++) {
    const uint8_t *value = values[MAY_BE[i].key];
    if (value != NULL && ur_json_kind_of(value) != MAY_BE[i].kind)
      return ur_fail(error, UR_FORMAT, "%s is not %s", TOP[MAY_BE[i].key], MAY_BE[i].kind == UR_JSON_ARRAY ? "a list" : "an object");
  }
  if (values[OPTIONAL] != NULL && ur_json_count(values[OPTIONAL]) == 0) return wrong(error, "optional is not an object with a key");
  status = check_metadata(values[METADATA], error);
  if (status == UR_OK) status = take_layouts(m, values[LAYOUTS], error);
  uint8_t digest[UR_WIDE_BYTES];
  if (status == UR_OK && !ur_schema_digest(values[SCHEMA], digest)) status = no_memory(error);
  read_pieces pieces = {0};
  if (status == UR_OK) status = read_all_pieces(m, values[PIECES], id, folder, &pieces, error);
  if (status == UR_OK) status = take_parts(m, values[PARTS], &pieces, next_part, digest, error);
  free_pieces(&pieces);
  if (status == UR_OK) status = check_together(m, &needed, error);
  if (status == UR_OK) status = take_facts(m, values[SAME_ROWS], id, error);
  if (status == UR_OK) ur_schema_pack(values[SCHEMA], true, &m->packed);
  return m->packed.failed ? no_memory(error) : status;
}

ur_status ur_manifest_read(uint8_t *text, uint64_t bytes, const char *name, const char *folder, ur_manifest *manifest,
                           ur_error *error) {
  ur_error local = {.what = ""};
  *manifest = (ur_manifest){.text = text, .text_bytes = bytes};
  ur_status status = take_digest(manifest, &local);
  if (status == UR_OK) status = ur_json_normalize(text, &manifest->text_bytes, &local);
  if (status == UR_OK) status = take_all(manifest, folder, &local);
  if (status == UR_OK) return UR_OK;
  (void)ur_fail(error, status, "%s: %s", name, local.what);
  return ur_because(error, (ur_reason)local.reason, status);
}

void ur_manifest_release(ur_manifest *m) {
  for (uint32_t i = 0; i < m->layouts; i++) free(m->layout[i].places);
  free(m->layout);
  for (int64_t i = 0; i < m->parts; i++) free(m->part[i].patch);
  free(m->part);
  free(m->file);
  free(m->deletion);
  free(m->packed.data);
  ur_schema_release(&m->schema);
  free(m->text);
  *m = (ur_manifest){0};
}
