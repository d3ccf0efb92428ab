/* base/object.c - whether bytes are an object by the rules of docs/spec/format.md, so that an unpacker can be given them.
 *
 * One pass and no recursion: time and memory go with the length of the bytes, whatever counts they claim. That strings are
 * UTF-8 is left to whoever decodes them.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/item.h"
#include "base/object.h"
#include "base/utf8.h"
#include "base/check.h"
#include "base/fail.h"
#include "unirecord_internal.h"

enum { DEPTH = 64, FEW_KEYS = 16, NEAR_KEYS = 64 };

/* A key of a map, and what keys that are the same have the same; others may, too. */
typedef struct {
  uint64_t print;
  const uint8_t *at;
} key;

typedef struct {
  uint64_t left; /* items of an array; keys and values of a map together */
  size_t first_key;
  bool is_map;
} frame;

typedef struct {
  const uint8_t *at, *end;
  frame frames[DEPTH];
  int depth;
  key near[NEAR_KEYS];
  key *keys; /* of all maps that have begun and not ended, the innermost last */
  size_t key_count, key_room;
} scanner;

/* Whether an extension, whose bytes are there, may stand in an object: any but a timestamp in a form that msgpack does not
 * have, which counts a billion nanoseconds or more. */
static bool is_extension(const item *one) {
  enum { TIMESTAMP = 0xff, SECOND = 1000000000 };
  if (one->content[-1] != TIMESTAMP) return true;
  if (one->size == 8) return load_big(one->content, 4) >> 2 < SECOND;
  return one->size == 4 || (one->size == 12 && load_big(one->content, 4) < SECOND);
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static uint64_t print_of(const item *one) {
  uint64_t first = one->size;
  if (has_bytes(one->kind)) {
    uint64_t last = 0;
    size_t some = one->size < sizeof first ? (size_t)one->size : sizeof first;
    first = 0;
    memcpy(&first, one->content, some);
    memcpy(&last, one->content + one->size - some, some); /* exact: the string is there whole */
    first ^= (last << 23 | last >> 41) ^ one->size << 40;
  }
  return first ^ (uint64_t)one->kind << 61;
}

static int compare_keys(const void *a, const void *b) {
  const key *left = a, *right = b;
  if (left->print != right->print) return left->print < right->print ? -1 : 1;
  item one = item_at(left->at), other = item_at(right->at);
  if (one.kind != other.kind) return one.kind < other.kind ? -1 : 1;
  if (one.size != other.size) return one.size < other.size ? -1 : 1;
  return has_bytes(one.kind) ? memcmp(one.content, other.content, one.size) : 0;
}

static bool is_one_twice(key *keys, size_t count) {
  if (count <= FEW_KEYS) {
    for (size_t i = 1; i < count; i++)
      for (size_t j = 0; j < i; j++)
        if (keys[i].print == keys[j].print && compare_keys(&keys[i], &keys[j]) == 0) return true;
    return false;
  }
  qsort(keys, count, sizeof *keys, compare_keys);
  for (size_t i = 1; i < count; i++)
    if (compare_keys(&keys[i - 1], &keys[i]) == 0) return true;
  return false;
}

static bool keep_key(scanner *s, key one) {
  if (s->key_count == s->key_room) {
    key *more = malloc(2 * s->key_room * sizeof *more); /* exact: no more keys than bytes */
    if (more == NULL) return false;
    memcpy(more, s->keys, s->key_count * sizeof *more); /* exact: half of what was given */
    if (s->keys != s->near) free(s->keys);
    s->keys = more;
    s->key_room *= 2; /* exact: so much was given */
  }
  s->keys[s->key_count++] = one;
  return true;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static ur_status malformed(const scanner *s, ur_error *error) {
  return ur_fail(error, UR_CORRUPT, "the object is not well-formed msgpack: it ends early, or has more after its end (%" PRIu64
                 " bytes were left)", (uint64_t)(s->end - s->at));
}

/* Reads the item that comes next, and passes over its head and the bytes of a string. */
static ur_status next_item(scanner *s, item *one, ur_error *error) {
  if (s->at == s->end) return malformed(s, error);
  int head = head_bytes(*s->at);
  if (head == 0) return ur_fail(error, UR_CORRUPT, "the object is not well-formed msgpack: no value begins with the byte c1");
  if (s->end - s->at < head) return malformed(s, error);
  *one = item_at(s->at);
  s->at = one->content;
  uint64_t left = (uint64_t)(s->end - s->at);
  if (one->kind == ARRAY || one->kind == MAP) return one->size <= left ? UR_OK : malformed(s, error);
  if (!has_bytes(one->kind)) return UR_OK;
  if (one->size > left) return malformed(s, error);
  if (one->kind == EXTENSION && !is_extension(one))
    return ur_fail(error, UR_CORRUPT, "the object holds a time that is no timestamp of msgpack");
  s->at += one->size; /* exact: no more than is left */
  return UR_OK;
}

static ur_status take_key(scanner *s, const uint8_t *at, const item *one, ur_error *error) {
  if (one->kind != STRING && one->kind != BINARY && one->kind != NATURAL && one->kind != NEGATIVE)
    return ur_fail(error, UR_CORRUPT, "the object holds a map whose keys are not all strings, integers or bytes");
  if (!keep_key(s, (key){print_of(one), at})) return ur_fail(error, UR_NO_MEMORY, "no memory for the keys of an object");
  return UR_OK;
}

static ur_status enter(scanner *s, const item *one, ur_error *error) {
  if (s->depth == DEPTH) return ur_fail(error, UR_CORRUPT, "the object is nested more than %d deep", DEPTH);
  uint64_t items = one->kind == MAP ? 2 * one->size : one->size; /* exact: 32 bits */
  s->frames[s->depth++] = (frame){items, s->key_count, one->kind == MAP};
  return UR_OK;
}

/* Leaves the arrays and maps that have all their items. */
static ur_status leave(scanner *s, ur_error *error) {
  for (; s->depth > 0 && s->frames[s->depth - 1].left == 0; s->depth--) {
    const frame *done = &s->frames[s->depth - 1];
    if (!done->is_map) continue;
    if (is_one_twice(s->keys + done->first_key, s->key_count - done->first_key))
      return ur_fail(error, UR_CORRUPT, "the object holds a map with the same key twice");
    s->key_count = done->first_key;
  }
  return UR_OK;
}

static ur_status scan_object(scanner *s, ur_error *error) {
  do {
    const uint8_t *at = s->at;
    item one = {OTHER, 0, NULL};
    ur_status status = next_item(s, &one, error);
    if (status != UR_OK) return status;
    if (s->depth > 0) {
      frame *inside = &s->frames[s->depth - 1];
      if (inside->is_map && inside->left % 2 == 0) status = take_key(s, at, &one, error);
      inside->left--;
    }
    if (status == UR_OK && (one.kind == ARRAY || one.kind == MAP)) status = enter(s, &one, error);
    if (status == UR_OK) status = leave(s, error);
    if (status != UR_OK) return status;
  } while (s->depth > 0);
  return s->at == s->end ? UR_OK : malformed(s, error);
}

ur_status ur_object_check(const uint8_t *bytes, uint64_t size, ur_error *error) {
  scanner s;
  s.at = bytes;
  s.end = bytes + size; /* exact: the caller's memory */
  s.depth = 0;
  s.keys = s.near;
  s.key_count = 0;
  s.key_room = NEAR_KEYS;
  ur_status status = scan_object(&s, error);
  if (s.keys != s.near) free(s.keys);
  return status;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static bool is_utf8(const uint8_t *at, const uint8_t *end) {
  while (at < end) {
    int bytes = ur_utf8_bytes(at, end);
    if (bytes == 0) return false;
    at += bytes; /* exact: the character is whole */
  }
  return true;
}

bool ur_object_is_text(const uint8_t *bytes, uint64_t size) {
  const uint8_t *at = bytes, *end = bytes + size; /* exact: the caller's memory */
  while (at < end) { /* what is inside of an array or map follows its head */
    item one = item_at(at);
    at = one.content;
    if (!has_bytes(one.kind)) continue;
    at += one.size; /* exact: ur_object_check() has looked */
    if (one.kind == STRING && !is_utf8(one.content, at)) return false;
  }
  return true;
}

/* ---- the one form of what is compared ---------------------------------------------------------------------------- */

/* The byte that begins a string, binary, extension, array or map of this size where its head is the shortest: the first of the
 * heads that say the size in 1, 2 or 4 bytes is `sized`; 0: there is none for 1 byte. */
static uint8_t sized_head(uint64_t size, uint8_t sized, uint8_t double_sized) {
  if (size <= UINT8_MAX && sized != 0) return sized;
  return size <= UINT16_MAX ? double_sized : (uint8_t)(double_sized + 1);
}

static uint8_t shortest_head(const item *one, uint8_t first) {
  uint64_t value = one->size;
  switch (one->kind) {
    case NATURAL:
      if (value < 0x80) return (uint8_t)value;
      return value <= UINT8_MAX ? 0xcc : value <= UINT16_MAX ? 0xcd : value <= UINT32_MAX ? 0xce : 0xcf;
    case NEGATIVE:
      value = ~value; /* one less than its size */
      if (value < 32) return (uint8_t)one->size;
      return value <= INT8_MAX ? 0xd0 : value <= INT16_MAX ? 0xd1 : value <= INT32_MAX ? 0xd2 : 0xd3;
    case STRING: return value < 32 ? (uint8_t)(0xa0 | value) : sized_head(value, 0xd9, 0xda);
    case BINARY: return sized_head(value, 0xc4, 0xc5);
    case ARRAY: return value < 16 ? (uint8_t)(0x90 | value) : sized_head(value, 0, 0xdc);
    case MAP: return value < 16 ? (uint8_t)(0x80 | value) : sized_head(value, 0, 0xde);
    case EXTENSION:
      for (uint8_t power = 0; power <= 4; power++)
        if (value == UINT64_C(1) << power) return (uint8_t)(0xd4 + power);
      return sized_head(value, 0xc7, 0xc8);
    default: return first == 0xca ? 0xcb : first; /* floats have 64 bits */
  }
}

/* Whether a timestamp takes the form that is the shortest for it; any other extension has one form. */
static bool has_shortest_time(const item *one) {
  if (one->content[-1] != 0xff) return true;
  if (one->size == 8) return load_big(one->content, 4) != 0; /* nanoseconds, or more seconds than 32 bits hold */
  return one->size == 4 || load_big(one->content + 4, 8) >> 34 != 0;
}

int32_t ur_object_is_canonical(const uint8_t *bytes, uint64_t size) {
  const uint8_t *at = bytes, *end = bytes + size; /* exact: the caller's memory */
  while (at < end) { /* what is inside of an array or map follows its head */
    item one = item_at(at);
    if (shortest_head(&one, *at) != *at || (one.kind == EXTENSION && !has_shortest_time(&one))) return false;
    at = one.content;
    if (has_bytes(one.kind)) at += one.size; /* exact: ur_object_check() has looked */
  }
  return true;
}

/* ---- schemas ----------------------------------------------------------------------------------------------------- */

static const uint8_t *end_of(const uint8_t *at) {
  for (uint64_t left = 1; left > 0; left--) {
    item one = item_at(at);
    at = one.content;
    if (has_bytes(one.kind)) at += one.size;           /* exact: ur_object_check() has looked */
    if (one.kind == ARRAY) left += one.size;           /* exact: no more than there are bytes */
    if (one.kind == MAP) left += 2 * one.size;         /* exact: likewise */
  }
  return at;
}

bool ur_schema_entries(const uint8_t *schema, const uint8_t **at, uint64_t *count) {
  item columns = item_at(schema);
  *at = columns.content;
  *count = columns.size;
  return columns.kind == ARRAY;
}

bool ur_schema_next_name(const uint8_t **at, const uint8_t **name, uint64_t *bytes) {
  item entry = item_at(*at);
  if (entry.kind != ARRAY || entry.size == 0) return false;
  item first = item_at(entry.content);
  *name = first.content;
  *bytes = first.size;
  *at = end_of(*at);
  return first.kind == STRING;
}

const uint8_t *ur_object_first(const uint8_t *map, const char *name) {
  item whole = item_at(map);
  if (whole.kind != MAP || whole.size == 0) return NULL;
  item first = item_at(whole.content);
  bool same = first.kind == STRING && first.size == strlen(name) && memcmp(first.content, name, first.size) == 0;
  return same ? first.content + first.size : NULL; /* exact: ur_object_check() has looked */
}
