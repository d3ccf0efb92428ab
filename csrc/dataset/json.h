/* dataset/json.h - JSON in the one form that a manifest is written in, walked where it lies. Internal.
 *
 * Nothing is copied and no tree is made: ur_json_check() looks at each byte once, and what has passed it is walked by
 * pointers to where values begin. */
#ifndef UR_JSON_H
#define UR_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "unirecord.h"

typedef enum {
  UR_JSON_OBJECT, UR_JSON_ARRAY, UR_JSON_STRING, UR_JSON_INTEGER, UR_JSON_FLOAT, UR_JSON_TRUE, UR_JSON_FALSE, UR_JSON_NULL
} ur_json_kind;

/* A string as it is written, between its quotation marks; equal strings are written alike. */
typedef struct {
  const uint8_t *at;
  uint64_t bytes;
} ur_json_text;

/* What is left of an array or object. */
typedef struct {
  const uint8_t *at;
  bool named; /* an object's: each has a key */
} ur_json_items;

/* UR_CORRUPT, with the place, unless the text is one object in the form of docs/format.md and a newline: keys ascend, no
 * spaces, numbers and strings as they are written there, UTF-8, at most 64 levels. One pass, no memory. */
ur_status ur_json_check(const uint8_t *text, uint64_t bytes, ur_error *error);

/* All below are of values in text that has been checked. */
ur_json_kind ur_json_kind_of(const uint8_t *value);
const uint8_t *ur_json_end(const uint8_t *value);

/* The items of an array or object; none of another value. ur_json_next() gives them one by one; `key` is NULL for arrays. */
ur_json_items ur_json_items_of(const uint8_t *value);
bool ur_json_next(ur_json_items *items, ur_json_text *key, const uint8_t **value);
uint64_t ur_json_count(const uint8_t *value);

/* Whether a string is `expected`, which has nothing that is escaped. */
bool ur_json_is(ur_json_text text, const char *expected);

/* The string of a value; false: it is none. */
bool ur_json_string(const uint8_t *value, ur_json_text *text);

/* A string's characters at `to`, which has room for text.bytes; gives how many bytes there are. */
uint64_t ur_json_decode(ur_json_text text, uint8_t *to);

/* A whole number: its size and sign; false: it is none, or needs more than 64 bits. */
bool ur_json_integer(const uint8_t *value, bool *negative, uint64_t *size);

/* A number that is 0 to 2^63 - 1; false: it is none. */
bool ur_json_number(const uint8_t *value, uint64_t *number);

double ur_json_float(const uint8_t *value);

#endif
