/* dataset/schema.h - the columns that a manifest says: names, types and shapes, as a column table, and as msgpack. Internal. */
#ifndef UR_SCHEMA_H
#define UR_SCHEMA_H

#include "dataset/json.h"
#include "unirecord.h"

typedef struct {
  ur_json_text name;
  ur_json_text type;  /* type and shape as they are written: equal where these are */
  uint8_t entry[32];  /* of the column table, without a codec */
  bool is_blob;
} ur_schema_column;

/* Borrows the text of the manifest. */
typedef struct {
  uint32_t count;
  ur_schema_column *columns;
  uint32_t *by_name; /* numbers of columns, by their names */
} ur_schema;

/* Reads the "schema" of a manifest; UR_FORMAT for what is none. To be released whatever comes of it. */
ur_status ur_schema_read(const uint8_t *value, ur_schema *schema, ur_error *error);
void ur_schema_release(ur_schema *schema);

/* The column of this name, as it is written; -1: there is none. */
int64_t ur_schema_find(const ur_schema *schema, ur_json_text name);

/* Bytes that begin anew with each message: msgpack as this package writes it, in the shortest encodings. */
typedef struct {
  uint8_t *data;
  uint64_t bytes, room;
  bool failed; /* there was no memory */
} ur_packed;

/* The schema in msgpack, as parts have it in their metadata; without `annotations` as its digest is of. */
void ur_schema_pack(const uint8_t *value, bool annotations, ur_packed *packed);

/* What a manifest says of a schema's types; false without memory. */
bool ur_schema_digest(const uint8_t *value, uint8_t digest[UR_WIDE_BYTES]);

#endif
