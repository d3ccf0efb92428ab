/* dataset/json.c - JSON, brought into one form: see dataset/json.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/utf8.h"
#include "dataset/json.h"

enum {
  DEPTH = 64,           /* levels of arrays and objects */
  MOST_NUMBER = 4300,   /* characters */
  MOST_EXPONENT = 100000 /* beyond it, every number is 0 or too large */
};

typedef struct {
  const uint8_t *at, *end;
  uint8_t *out;          /* where the text in the one form goes, which is never ahead of `at` */
  int depth;
  struct {
    bool named;
    bool begun;          /* it has an item */
    uint64_t first;      /* the number of its first key */
  } levels[DEPTH];
  ur_json_text *keys;    /* of the objects that have begun and not ended */
  uint64_t count, room;
  bool no_memory;
} reader;

/* ---- strings ---------------------------------------------------------------------------------------------------- */

static const char SHORT_FORM[] = "\"\"\\\\b\bt\tn\nf\fr\r"; /* what stands behind the backslash, and what it means */

/* The character that is escaped at `at`, in the one form; *bytes: of the escape. */
static uint8_t escaped(const uint8_t *at, int *bytes) {
  *bytes = 2;
  for (size_t i = 0; i < sizeof SHORT_FORM - 1; i += 2)
    if (at[1] == (uint8_t)SHORT_FORM[i]) return (uint8_t)SHORT_FORM[i + 1];
  *bytes = 6;
  return (uint8_t)((at[4] - '0') * 16 + (at[5] <= '9' ? at[5] - '0' : at[5] - 'a' + 10));
}

/* The number of four hex digits at `at`; -1 where there are none. */
static int32_t four_digits(const uint8_t *at, const uint8_t *end) {
  int32_t number = 0;
  if (end - at < 4) return -1;
  for (int i = 0; i < 4; i++) {
    int low = at[i] | 0x20; /* of a letter */
    bool digit = at[i] >= '0' && at[i] <= '9';
    if (!digit && (low < 'a' || low > 'f')) return -1;
    number = number * 16 + (digit ? at[i] - '0' : low - 'a' + 10);
  }
  return number;
}

/* Passes over an escape; gives its character, -1 for none. */
static int32_t pass_escape(reader *r) {
  if (r->end - r->at < 2) return -1;
  uint8_t kind = r->at[1];
  r->at += 2; /* exact: inside the text */
  if (kind == '/') return '/';
  for (size_t i = 0; i < sizeof SHORT_FORM - 1; i += 2)
    if (kind == (uint8_t)SHORT_FORM[i]) return SHORT_FORM[i + 1];
  int32_t found = kind == 'u' ? four_digits(r->at, r->end) : -1;
  if (found < 0 || (found >= 0xDC00 && found <= 0xDFFF)) return -1;
  r->at += 4; /* exact: they are there */
  if (found < 0xD800 || found > 0xDBFF) return found;
  if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u') return -1;
  int32_t low = four_digits(r->at + 2, r->end);
  if (low < 0xDC00 || low > 0xDFFF) return -1;
  r->at += 6; /* exact: they are there */
  return 0x10000 + ((found - 0xD800) << 10) + (low - 0xDC00);
}

/* A character in the one form, which takes no more bytes than any escape of it. */
static void put_character(reader *r, int32_t character) {
  for (size_t i = 0; i < sizeof SHORT_FORM - 1; i += 2)
    if (character == SHORT_FORM[i + 1]) {
      *r->out++ = '\\';
      *r->out++ = (uint8_t)SHORT_FORM[i];
      return;
    }
  if (character < 0x20) {
    char text[8];
    (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)character);
    memcpy(r->out, text, 6);
    r->out += 6; /* exact: as many as were read */
  } else if (character < 0x80) {
    *r->out++ = (uint8_t)character;
  } else if (character < 0x800) {
    *r->out++ = (uint8_t)(0xC0 | character >> 6);
    *r->out++ = (uint8_t)(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    *r->out++ = (uint8_t)(0xE0 | character >> 12);
    *r->out++ = (uint8_t)(0x80 | (character >> 6 & 0x3F));
    *r->out++ = (uint8_t)(0x80 | (character & 0x3F));
  } else {
    *r->out++ = (uint8_t)(0xF0 | character >> 18);
    *r->out++ = (uint8_t)(0x80 | (character >> 12 & 0x3F));
    *r->out++ = (uint8_t)(0x80 | (character >> 6 & 0x3F));
    *r->out++ = (uint8_t)(0x80 | (character & 0x3F));
  }
}

/* Passes over a string; false where it is none. `text`: as it stands in the one form. */
static bool pass_string(reader *r, ur_json_text *text) {
  if (r->at == r->end || *r->at != '"') return false;
  r->at++;
  *r->out++ = '"';
  text->at = r->out;
  while (r->at < r->end && *r->at != '"') {
    if (*r->at == '\\') {
      int32_t character = pass_escape(r);
      if (character < 0) return false;
      put_character(r, character);
      continue;
    }
    int bytes = *r->at < 0x20 ? 0 : ur_utf8_bytes(r->at, r->end);
    if (bytes == 0) return false;
    memmove(r->out, r->at, (size_t)bytes);
    r->at += bytes;  /* exact: inside the text */
    r->out += bytes; /* exact: not ahead of it */
  }
  if (r->at >= r->end) return false;
  text->bytes = (uint64_t)(r->out - text->at);
  r->at++;
  *r->out++ = '"';
  return true;
}

uint64_t ur_json_decode(ur_json_text text, uint8_t *to) {
  const uint8_t *at = text.at, *end = text.at + text.bytes; /* exact: it lies in the text */
  uint8_t *out = to;
  while (at < end) {
    int bytes = 1;
    *out++ = *at == '\\' ? escaped(at, &bytes) : *at;
    at += bytes; /* exact: inside the text */
  }
  return (uint64_t)(out - to);
}

int ur_json_compare(ur_json_text one, ur_json_text other) {
  uint64_t some = one.bytes < other.bytes ? one.bytes : other.bytes;
  int found = memcmp(one.at, other.at, some);
  return found != 0 ? found : one.bytes < other.bytes ? -1 : one.bytes > other.bytes;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* The float 64 nearest to a number that is written as JSON has them, whatever the locale: without a point, text is the same
 * in all. */
static double value_of(const uint8_t *at, const uint8_t *end) {
  char text[MOST_NUMBER + 32];
  size_t count = 0;
  int64_t exponent = 0, behind = 0;
  bool point = false;
  for (; at < end && *at != 'e'; at++) {
    if (*at == '.') {
      point = true;
      continue;
    }
    text[count++] = (char)*at;
    behind += point;
  }
  bool negative = false;
  for (at += at < end; at < end; at++) {
    if (*at == '-' || *at == '+') negative = *at == '-';
    else if (exponent < MOST_EXPONENT) exponent = exponent * 10 + (*at - '0');
  }
  (void)snprintf(text + count, 32, "e%" PRId64, (negative ? -exponent : exponent) - behind);
  return strtod(text, NULL);
}

static const uint8_t *digits_end(const uint8_t *at, const uint8_t *end) {
  while (at < end && *at >= '0' && *at <= '9') at++;
  return at;
}

/* Passes over a number; false where it is none. */
static bool pass_number(reader *r) {
  const uint8_t *begin = r->at, *at = begin, *from = NULL;
  bool whole = true;
  if (at < r->end && *at == '-') at++;
  from = at;
  at = digits_end(at, r->end);
  if (at == from || (*from == '0' && at - from > 1)) return false;
  if (at < r->end && *at == '.') {
    whole = false;
    from = ++at;
    at = digits_end(at, r->end);
    if (at == from) return false;
  }
  if (at < r->end && (*at == 'e' || *at == 'E')) {
    whole = false;
    at++;
    if (at < r->end && (*at == '+' || *at == '-')) at++;
    from = at;
    at = digits_end(at, r->end);
    if (at == from) return false;
  }
  if (at - begin > MOST_NUMBER) return false;
  uint8_t *out = r->out;
  for (; r->at < at; r->at++) *r->out++ = *r->at == 'E' ? 'e' : *r->at;
  return whole || isfinite(value_of(out, r->out));
}

bool ur_json_integer(const uint8_t *value, bool *negative, uint64_t *size) {
  if (ur_json_kind_of(value) != UR_JSON_INTEGER) return false;
  *negative = *value == '-';
  const uint8_t *at = value + *negative, *end = ur_json_end(value);
  uint64_t found = 0;
  for (; at < end; at++) {
    uint64_t digit = (uint64_t)(*at - '0');
    if (found > (UINT64_MAX - digit) / 10) return false;
    found = found * 10 + digit;
  }
  *size = found;
  return true;
}

bool ur_json_number(const uint8_t *value, uint64_t *number) {
  bool negative = false;
  uint64_t size = 0;
  if (!ur_json_integer(value, &negative, &size) || negative || size > INT64_MAX) return false;
  *number = size;
  return true;
}

double ur_json_float(const uint8_t *value) { return value_of(value, ur_json_end(value)); }

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void pass_space(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static bool pass_byte(reader *r, uint8_t byte) {
  if (r->at == r->end || *r->at != byte) return false;
  *r->out++ = *r->at++;
  return true;
}

static bool pass_word(reader *r, const char *word) {
  size_t bytes = strlen(word);
  if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, word, bytes) != 0) return false;
  memmove(r->out, r->at, bytes);
  r->at += bytes;  /* exact: no more than is left */
  r->out += bytes; /* exact: not ahead of it */
  return true;
}

static bool open_level(reader *r, bool named) {
  if (r->depth == DEPTH) return false;
  *r->out++ = *r->at++;
  r->levels[r->depth].named = named;
  r->levels[r->depth].first = r->count;
  r->levels[r->depth++].begun = false;
  return true;
}

static int compare_keys(const void *a, const void *b) {
  return ur_json_compare(*(const ur_json_text *)a, *(const ur_json_text *)b);
}

/* Ends the innermost level; false where two of its keys are the same. */
static bool close_level(reader *r) {
  uint64_t first = r->levels[--r->depth].first, count = r->count - first;
  *r->out++ = *r->at++;
  r->count = first;
  if (count > 1) qsort(r->keys + first, (size_t)count, sizeof *r->keys, compare_keys);
  for (uint64_t i = 1; i < count; i++)
    if (compare_keys(&r->keys[first + i - 1], &r->keys[first + i]) == 0) return false; /* exact: in memory */
  return true;
}

static bool pass_key(reader *r) {
  ur_json_text key;
  if (!pass_string(r, &key)) return false;
  if (r->count == r->room) {
    uint64_t room = 2 * r->room + 64; /* exact: as the text, which is in memory */
    ur_json_text *keys = realloc(r->keys, room * sizeof *keys);
    r->no_memory = keys == NULL;
    if (keys == NULL) return false;
    r->keys = keys;
    r->room = room;
  }
  r->keys[r->count++] = key;
  pass_space(r);
  if (!pass_byte(r, ':')) return false;
  pass_space(r);
  return true;
}

/* Passes over the beginning of a value: all of one that is no array or object. */
static bool pass_value(reader *r) {
  ur_json_text text;
  if (r->at == r->end) return false;
  switch (*r->at) {
    case '{': return open_level(r, true);
    case '[': return open_level(r, false);
    case '"': return pass_string(r, &text);
    case 't': return pass_word(r, "true");
    case 'f': return pass_word(r, "false");
    case 'n': return pass_word(r, "null");
    default: return pass_number(r);
  }
}

/* Passes over the end of the innermost level, or what stands before its next item, and that one's beginning. */
static bool pass_item(reader *r) {
  bool named = r->levels[r->depth - 1].named;
  pass_space(r);
  if (r->at == r->end) return false;
  if (*r->at == (named ? '}' : ']')) return close_level(r);
  if (r->levels[r->depth - 1].begun) {
    if (!pass_byte(r, ',')) return false;
    pass_space(r);
  }
  r->levels[r->depth - 1].begun = true;
  return (!named || pass_key(r)) && pass_value(r);
}

ur_status ur_json_normalize(uint8_t *text, uint64_t *bytes, ur_error *error) {
  reader r = {.at = text, .end = text + *bytes, .out = text}; /* exact: the caller's memory */
  bool good = *bytes > 0 && *text == '{' && open_level(&r, true);
  while (good && r.depth > 0) good = pass_item(&r);
  if (good) pass_space(&r);
  free(r.keys);
  if (r.no_memory) return ur_fail(error, UR_NO_MEMORY, "no memory for its keys");
  *bytes = (uint64_t)(r.out - text);
  if (good && r.at == r.end) return UR_OK;
  return ur_fail(error, UR_CORRUPT, "it is not JSON by the rules for manifests, from byte %" PRIu64 " on: it was edited or damaged",
                 (uint64_t)(r.at - text));
}

/* ---- walking ---------------------------------------------------------------------------------------------------- */

ur_json_kind ur_json_kind_of(const uint8_t *value) {
  switch (*value) {
    case '{': return UR_JSON_OBJECT;
    case '[': return UR_JSON_ARRAY;
    case '"': return UR_JSON_STRING;
    case 't': return UR_JSON_TRUE;
    case 'f': return UR_JSON_FALSE;
    case 'n': return UR_JSON_NULL;
    default: break;
  }
  for (const uint8_t *at = value;; at++) {
    if (*at == '.' || *at == 'e') return UR_JSON_FLOAT;
    if (*at != '-' && (*at < '0' || *at > '9')) return UR_JSON_INTEGER;
  }
}

static const uint8_t *string_end(const uint8_t *value) {
  const uint8_t *at = value + 1;
  for (; *at != '"'; at++)
    if (*at == '\\') at++;
  return at + 1;
}

const uint8_t *ur_json_end(const uint8_t *value) {
  const uint8_t *at = value;
  int depth = 0;
  do {
    switch (*at) {
      case '{': case '[': depth++; at++; break;
      case '}': case ']': depth--; at++; break;
      case '"': at = string_end(at); break;
      case ',': case ':': at++; break;
      default: /* a number or a word */
        while (*at != ',' && *at != '}' && *at != ']') at++;
    }
  } while (depth > 0);
  return at;
}

ur_json_items ur_json_items_of(const uint8_t *value) {
  static const uint8_t nothing[] = "]";
  ur_json_kind kind = ur_json_kind_of(value);
  if (kind != UR_JSON_OBJECT && kind != UR_JSON_ARRAY) return (ur_json_items){nothing, false};
  return (ur_json_items){value + 1, kind == UR_JSON_OBJECT};
}

bool ur_json_next(ur_json_items *items, ur_json_text *key, const uint8_t **value) {
  if (*items->at == '}' || *items->at == ']') return false;
  if (*items->at == ',') items->at++;
  if (items->named) {
    const uint8_t *end = string_end(items->at);
    if (key != NULL) *key = (ur_json_text){items->at + 1, (uint64_t)(end - items->at - 2)};
    items->at = end + 1;
  }
  *value = items->at;
  items->at = ur_json_end(items->at);
  return true;
}

uint64_t ur_json_count(const uint8_t *value) {
  ur_json_items items = ur_json_items_of(value);
  const uint8_t *item = NULL;
  uint64_t count = 0;
  while (ur_json_next(&items, NULL, &item)) count++;
  return count;
}

bool ur_json_string(const uint8_t *value, ur_json_text *text) {
  if (*value != '"') return false;
  *text = (ur_json_text){value + 1, (uint64_t)(string_end(value) - value - 2)};
  return true;
}

bool ur_json_is(ur_json_text text, const char *expected) {
  return text.bytes == strlen(expected) && memcmp(text.at, expected, text.bytes) == 0;
}
