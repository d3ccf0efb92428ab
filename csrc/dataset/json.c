/* dataset/json.c - JSON in the one form that a manifest is written in: see dataset/json.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/utf8.h"
#include "dataset/json.h"

enum {
  DEPTH = 64,          /* levels of arrays and objects */
  INTEGER_DIGITS = 4300, /* Python reads no more */
  FLOAT_DIGITS = 17,   /* the most that a float 64 needs */
  FLOAT_TEXT = 32      /* -1.2345678901234567e-308 has 24 characters */
};

typedef struct {
  const uint8_t *at, *end;
  int depth;
  struct {
    bool named;
    bool begun;        /* it has an item */
    ur_json_text last; /* key; of an object that has begun */
  } levels[DEPTH];
} reader;

/* ---- strings ---------------------------------------------------------------------------------------------------- */

/* The character that is escaped at `at`, whose text is whole or ends with `end`; *bytes: of the escape, 0 for none that is
 * written so. */
static uint8_t escaped(const uint8_t *at, const uint8_t *end, int *bytes) {
  static const char short_form[] = "\"\"\\\\b\bt\tn\nf\fr\r";
  *bytes = 0;
  if (end - at < 2) return 0;
  for (size_t i = 0; i < sizeof short_form - 1; i += 2)
    if (at[1] == (uint8_t)short_form[i]) {
      *bytes = 2;
      return (uint8_t)short_form[i + 1];
    }
  if (end - at < 6 || memcmp(at, "\\u00", 4) != 0 || (at[4] != '0' && at[4] != '1')) return 0;
  bool digit = at[5] >= '0' && at[5] <= '9';
  if (!digit && (at[5] < 'a' || at[5] > 'f')) return 0;
  uint8_t found = (uint8_t)((at[4] - '0') * 16 + (digit ? at[5] - '0' : at[5] - 'a' + 10));
  if (found == 0 || memchr("\b\t\n\f\r", found, 5) == NULL) *bytes = 6; /* those have the short form */
  return found;
}

/* Passes over a string; false where it is not written as strings are. */
static bool pass_string(reader *r, ur_json_text *text) {
  if (r->at == r->end || *r->at != '"') return false;
  const uint8_t *at = r->at + 1;
  text->at = at;
  while (at < r->end && *at != '"') {
    int bytes = 0;
    if (*at == '\\')
      (void)escaped(at, r->end, &bytes);
    else if (*at >= 0x20)
      bytes = ur_utf8_bytes(at, r->end);
    if (bytes == 0) return false;
    at += bytes; /* exact: inside the text */
  }
  if (at >= r->end) return false;
  text->bytes = (uint64_t)(at - text->at);
  r->at = at + 1;
  return true;
}

uint64_t ur_json_decode(ur_json_text text, uint8_t *to) {
  const uint8_t *at = text.at, *end = text.at + text.bytes; /* exact: it lies in the text */
  uint8_t *out = to;
  while (at < end) {
    int bytes = 1;
    *out++ = *at == '\\' ? escaped(at, end, &bytes) : *at;
    at += bytes; /* exact: inside the text */
  }
  return (uint64_t)(out - to);
}

/* Whether the characters of one key stand before those of another: by code points, as bytes of UTF-8 do. */
static bool stands_before(ur_json_text one, ur_json_text other) {
  const uint8_t *a = one.at, *b = other.at;
  const uint8_t *a_end = a + one.bytes, *b_end = b + other.bytes; /* exact: they lie in the text */
  while (a < a_end && b < b_end) {
    int a_bytes = 1, b_bytes = 1;
    uint8_t left = *a == '\\' ? escaped(a, a_end, &a_bytes) : *a, right = *b == '\\' ? escaped(b, b_end, &b_bytes) : *b;
    if (left != right) return left < right;
    a += a_bytes; /* exact: inside the text */
    b += b_bytes; /* exact: inside the text */
  }
  return a == a_end && b < b_end;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

/* The float 64 nearest to digits * 10^exponent, whatever the locale: text without a point is the same in all. */
static double value_of(const char *digits, int exponent) {
  char text[FLOAT_TEXT + 16];
  (void)snprintf(text, sizeof text, "%se%d", digits, exponent);
  return strtod(text, NULL);
}

/* A float as it is written: its digits without zeros at the ends, of which the first counts 10^exponent. */
typedef struct {
  bool negative;
  char digits[FLOAT_TEXT + 1];
  int count;
  int exponent;
} decimal;

/* The `count` digits nearest to a value above 0. */
static decimal nearest_digits(double value, int count) {
  char text[FLOAT_TEXT + 16];
  decimal found = {.count = count};
  (void)snprintf(text, sizeof text, "%.*e", count - 1, value);
  char *exponent = strchr(text, 'e');
  int n = 0;
  for (char *at = text; at < exponent; at++)
    if (*at >= '0' && *at <= '9') found.digits[n++] = *at; /* the locale says what stands for the point */
  found.exponent = (int)strtol(exponent + 1, NULL, 10);
  return found;
}

static double value_of_decimal(const decimal *d) { return value_of(d->digits, d->exponent - d->count + 1); }

/* The next larger number of as many digits. */
static decimal next_digits(decimal d) {
  int i = d.count - 1;
  while (i >= 0 && d.digits[i] == '9') d.digits[i--] = '0';
  if (i >= 0) {
    d.digits[i]++;
  } else {
    d.digits[0] = '1';
    d.exponent++;
  }
  return d;
}

/* Whether some number of `count` digits is read as this value, and which is the nearest such. */
static bool reads_as(double value, int count, decimal *found) {
  *found = nearest_digits(value, count);
  if (value_of_decimal(found) == value) return true;
  *found = next_digits(*found); /* where the distance to the float below is half that to the one above */
  return value_of_decimal(found) == value;
}

/* Takes a float apart; false where its form is none of those of docs/format.md. */
static bool take_decimal(ur_json_text text, decimal *d) {
  const uint8_t *at = text.at, *end = text.at + text.bytes; /* exact: it lies in the text */
  int before = 0, behind = 0, zeros = 0;
  bool point = false;
  *d = (decimal){.negative = at < end && *at == '-'};
  if (d->negative) at++;
  for (; at < end && *at != 'e'; at++) {
    if (*at == '.') {
      if (point) return false;
      point = true;
      continue;
    }
    if (point) behind++;
    else before++;
    if (d->count == 0 && *at == '0') {
      zeros++;
      continue;
    }
    if (d->count >= FLOAT_TEXT) return false;
    d->digits[d->count++] = (char)*at;
  }
  int exponent = 0;
  bool has_exponent = at < end;
  if (has_exponent) {
    if (end - at < 4 || end - at > 5 || (at[1] != '+' && at[1] != '-') || (end - at == 5 && at[2] == '0')) return false;
    for (const uint8_t *digit = at + 2; digit < end; digit++) exponent = exponent * 10 + (*digit - '0');
    if (at[1] == '-') exponent = -exponent;
  }
  d->exponent = before - 1 - zeros + exponent;
  int written = d->count;
  while (d->count > 0 && d->digits[d->count - 1] == '0') d->digits[--d->count] = 0;
  if (d->count == 0) return !has_exponent && before == 1 && behind == 1; /* 0.0 */
  if (has_exponent) /* one digit before the point, no zeros at the end */
    return before == 1 && zeros == 0 && written == d->count && (point ? behind > 0 : true) &&
           (d->exponent < -4 || d->exponent >= 16);
  if (!point || behind == 0 || d->exponent < -4 || d->exponent >= 16) return false;
  if (before > 1 && zeros > 0) return false;
  int least = d->count - 1 - d->exponent; /* digits behind the point */
  return behind == (least > 1 ? least : 1);
}

/* Whether a float is written as the fewest digits that give it again. */
static bool is_shortest(ur_json_text text) {
  decimal d, found;
  if (!take_decimal(text, &d)) return false;
  if (d.count == 0) return true;
  if (d.count > FLOAT_DIGITS) return false;
  double value = value_of_decimal(&d);
  if (!(value > 0) || isinf(value)) return false;
  if (d.count > 1 && reads_as(value, d.count - 1, &found)) return false;
  return reads_as(value, d.count, &found) && found.exponent == d.exponent &&
         memcmp(found.digits, d.digits, (size_t)d.count) == 0;
}

/* Passes over a number; false where it is not written as numbers are. */
static bool pass_number(reader *r) {
  const uint8_t *at = r->at, *begin = at;
  bool whole = true;
  if (at < r->end && *at == '-') at++;
  const uint8_t *first = at;
  for (; at < r->end; at++) {
    if (*at >= '0' && *at <= '9') continue;
    if (*at != '.' && *at != 'e' && *at != '+' && *at != '-') break;
    if (*at == '+' || *at == '-') {
      if (at[-1] != 'e') return false;
    } else if (*at == 'e' && memchr(first, 'e', (size_t)(at - first)) != NULL) {
      return false;
    }
    whole = false;
  }
  r->at = at;
  if (at == first || *first < '0' || *first > '9') return false;
  if (!whole) return at - begin <= FLOAT_TEXT && is_shortest((ur_json_text){begin, (uint64_t)(at - begin)});
  if (*first == '0') return at - first == 1 && first == begin; /* neither 00 nor -0 */
  return at - first <= INTEGER_DIGITS;
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

double ur_json_float(const uint8_t *value) {
  decimal d;
  double size = 0;
  if (take_decimal((ur_json_text){value, (uint64_t)(ur_json_end(value) - value)}, &d) && d.count > 0) size = value_of_decimal(&d);
  return *value == '-' ? -size : size;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static bool pass_word(reader *r, const char *word) {
  size_t bytes = strlen(word);
  if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, word, bytes) != 0) return false;
  r->at += bytes; /* exact: no more than is left */
  return true;
}

static bool open_level(reader *r, bool named) {
  if (r->depth == DEPTH) return false;
  r->at++;
  r->levels[r->depth].named = named;
  r->levels[r->depth++].begun = false;
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
  bool named = r->levels[r->depth - 1].named, begun = r->levels[r->depth - 1].begun;
  if (r->at == r->end) return false;
  if (*r->at == (named ? '}' : ']')) {
    r->at++;
    r->depth--;
    return true;
  }
  if (begun && *r->at++ != ',') return false;
  if (named) {
    ur_json_text key;
    if (!pass_string(r, &key) || r->at == r->end || *r->at++ != ':') return false;
    if (begun && !stands_before(r->levels[r->depth - 1].last, key)) return false;
    r->levels[r->depth - 1].last = key;
  }
  r->levels[r->depth - 1].begun = true;
  return pass_value(r);
}

ur_status ur_json_check(const uint8_t *text, uint64_t bytes, ur_error *error) {
  reader r;
  r.at = text;
  r.end = text + bytes; /* exact: the caller's memory */
  r.depth = 0;
  bool good = bytes > 0 && *text == '{' && open_level(&r, true);
  while (good && r.depth > 0) good = pass_item(&r);
  if (good && r.end - r.at == 1 && *r.at == '\n') return UR_OK;
  return ur_fail(error, UR_CORRUPT, "its text is not as a manifest is written, from byte %" PRIu64 " on: it was edited or damaged",
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
