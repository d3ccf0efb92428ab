/* dataset/json.h - JSON, brought into one form and walked where it lies. Internal.
 *
 * Nothing is copied and no tree is made: ur_json_normalize() looks at each byte once, and what has passed it is walked by
 * pointers to where values begin. In the one form there are no spaces, and each string is written in one way: as it is, but
 * for quotation mark, backslash and what is below U+0020. */
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

/* Brings text into the one form, in its place, and *bytes to what is left of it. UR_CORRUPT, with the place, unless it is one
 * object by the rules of docs/spec/format.md: UTF-8, no key twice in an object, numbers that are finite, at most 64 levels.
 * One pass; memory for the keys of objects that are open. */
ur_status ur_json_normalize(uint8_t *text, uint64_t *bytes, ur_error *error);

/* All below are of values in text that has been checked. */
ur_json_kind ur_json_kind_of(const uint8_t *value);
const uint8_t *ur_json_end(const uint8_t *value);

/* The items of an array or object; none of another value. ur_json_next() gives them one by one; `key` is NULL for arrays. */
ur_json_items ur_json_items_of(const uint8_t *value);
bool ur_json_next(ur_json_items *items, ur_json_text *key, const uint8_t **value);
uint64_t ur_json_count(const uint8_t *value);

/* The order of strings in the one form; 0: they are equal. */
int ur_json_compare(ur_json_text one, ur_json_text other);

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
