/* foreign/json_lines.c - takes JSON Lines apart, an object a line: scalars as they are, all else as msgpack.
 *
 * Taken is what Python's own parser reads to the same values (with NaN and Infinity, which it knows, and -0 for 0). What it
 * reads to others or not at all is odd, and left to a reader that words what is wrong: a key that is there twice, halves of
 * surrogate pairs, whole numbers beyond 64 bits, numbers beyond a double, more than 64 levels.
 *
 * Decimals of at most 53 bits with a power of ten that a double holds are one exact operation: Clinger, "How to Read Floating
 * Point Numbers Accurately", 1990. Others are left to strtod().
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "base/utf8.h"
#include "unirecord_internal.h"

enum {
  DEPTH = 64,
  SLACK = 16,       /* bytes beyond those that are left to read, for which there is always room */
  MOST_NUMBER = 800 /* characters of a number */
};

typedef struct {
  const uint8_t *at, *end;
  uint8_t *to, *room; /* where the next byte is put, and the end of what may be written */
} transcoder;

typedef struct {
  uint64_t head; /* where its first byte is, in bytes behind that of the outermost */
  uint64_t items;
  bool is_map;
} frame;

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Eight bytes are looked at together: in a word the first byte is the lowest, and a mark is the highest bit of a byte. Marks
 * above the first one may be wrong. */
static const uint64_t EACH = UINT64_C(0x0101010101010101), MARKS = UINT64_C(0x8080808080808080);

static uint64_t zeros(uint64_t word) { return (word - EACH) & ~word & MARKS; }

/* Bytes that are not copied as they are: quotes, backslashes, control characters, what is not ASCII. */
static uint64_t specials(uint64_t word) {
  return (word & MARKS) | ((word - EACH * 0x20) & ~word & MARKS) | zeros(word ^ (EACH * '"')) | zeros(word ^ (EACH * '\\'));
}

static uint8_t peek(const transcoder *t) { return t->at < t->end ? *t->at : 0; } /* 0 stands nowhere in JSON */

static uint8_t past_blanks(transcoder *t) {
  while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\r')) t->at++;
  return peek(t);
}

static bool take(transcoder *t, uint8_t c) {
  if (peek(t) != c || t->at == t->end) return false;
  t->at++;
  return true;
}

static bool take_word(transcoder *t, const char *word) {
  size_t size = strlen(word);
  if ((size_t)(t->end - t->at) < size || memcmp(t->at, word, size) != 0) return false;
  t->at += size; /* exact: so many bytes are left */
  return true;
}

/* Whether there is room for what the bytes that are left can become, when each token takes no more than it has. */
static bool has_room(const transcoder *t) { return t->room - t->to >= t->end - t->at + SLACK; }

static bool take_hex(transcoder *t, uint32_t *value) {
  if (t->end - t->at < 4) return false;
  *value = 0;
  for (int i = 0; i < 4; i++) {
    uint8_t c = *t->at++, low = (uint8_t)(c | 0x20);
    if (c >= '0' && c <= '9') {
      *value = *value << 4 | (uint32_t)(c - '0');
    } else if (low >= 'a' && low <= 'f') {
      *value = *value << 4 | (uint32_t)(low - 'a' + 10);
    } else {
      return false;
    }
  }
  return true;
}

static void put_character(transcoder *t, uint32_t character) {
  if (character < 0x80) {
    *t->to++ = (uint8_t)character;
    return;
  }
  int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  static const uint8_t first[4] = {0, 0xc0, 0xe0, 0xf0};
  *t->to++ = (uint8_t)(first[more] | character >> (6 * more));
  while (more-- > 0) *t->to++ = (uint8_t)(0x80 | (character >> (6 * more) & 0x3f));
}

static bool take_escape(transcoder *t) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (t->at == t->end) return false;
  uint8_t c = *t->at++;
  if (c != 'u') {
    const char *found = c == 0 ? NULL : strchr(from, c);
    if (found == NULL) return false;
    *t->to++ = (uint8_t)to[found - from];
    return true;
  }
  uint32_t character, low;
  if (!take_hex(t, &character)) return false;
  if (character >= 0xd800 && character < 0xe000) {
    if (character >= 0xdc00 || !take(t, '\\') || !take(t, 'u') || !take_hex(t, &low) || low < 0xdc00 || low > 0xdfff) return false;
    character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00); /* exact: 21 bits */
  }
  put_character(t, character);
  return true;
}

/* Copies text from behind its opening quote on, and passes over the closing one. There is room: a character takes no more bytes
 * than its escape. */
static bool take_text(transcoder *t) {
  for (;;) {
    while (t->end - t->at >= 8) {
      uint64_t word = ur_load64(t->at), marks = specials(word);
      memcpy(t->to, &word, sizeof word);
      size_t plain = marks != 0 ? (size_t)__builtin_ctzll(marks) / 8 : 8;
      t->at += plain; /* exact: no more than 8 */
      t->to += plain; /* exact: likewise */
      if (marks != 0) break;
    }
    if (t->at == t->end) return false;
    uint8_t c = *t->at;
    if (c == '"') {
      t->at++;
      return true;
    }
    if (c < 0x20) return false;
    if (c == '\\') {
      t->at++;
      if (!take_escape(t)) return false;
      continue;
    }
    int bytes = ur_utf8_bytes(t->at, t->end);
    if (bytes == 0) return false;
    memcpy(t->to, t->at, (size_t)bytes);
    t->at += bytes; /* exact: the character is whole */
    t->to += bytes; /* exact: likewise */
  }
}

/* ---- msgpack ----------------------------------------------------------------------------------------------------- */

static void put_big(uint8_t *to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * (bytes - 1 - i))); /* exact: at most 8 bytes */
}

static void put_sized(transcoder *t, uint8_t head, uint64_t value, int bytes) {
  *t->to++ = head;
  put_big(t->to, value, bytes);
  t->to += bytes; /* exact: there is room for 16 */
}

static void put_natural(transcoder *t, uint64_t value) {
  if (value < 0x80) {
    *t->to++ = (uint8_t)value;
  } else if (value <= UINT8_MAX) {
    put_sized(t, 0xcc, value, 1);
  } else if (value <= UINT16_MAX) {
    put_sized(t, 0xcd, value, 2);
  } else if (value <= UINT32_MAX) {
    put_sized(t, 0xce, value, 4);
  } else {
    put_sized(t, 0xcf, value, 8);
  }
}

static void put_integer(transcoder *t, int64_t value) {
  if (value >= 0) {
    put_natural(t, (uint64_t)value);
  } else if (value >= -32) {
    *t->to++ = (uint8_t)value;
  } else if (value >= INT8_MIN) {
    put_sized(t, 0xd0, (uint64_t)value, 1);
  } else if (value >= INT16_MIN) {
    put_sized(t, 0xd1, (uint64_t)value, 2);
  } else if (value >= INT32_MIN) {
    put_sized(t, 0xd2, (uint64_t)value, 4);
  } else {
    put_sized(t, 0xd3, (uint64_t)value, 8);
  }
}

/* Bytes of the head of a string of so many. */
static int text_head(uint64_t size) { return size < 32 ? 1 : size <= UINT8_MAX ? 2 : size <= UINT16_MAX ? 3 : 5; }

/* A text with its head, which is as long as that of a text up to the next quote would be; else the text is moved. */
static bool put_text(transcoder *t) {
  const uint8_t *quote = memchr(t->at, '"', (size_t)(t->end - t->at));
  if (quote == NULL || !has_room(t)) return false;
  int guess = text_head((uint64_t)(quote - t->at));
  uint8_t *head = t->to;
  t->to += guess; /* exact: there is room for 16 more than is read */
  if (!take_text(t)) return false;
  uint64_t size = (uint64_t)(t->to - head - guess);
  int bytes = text_head(size);
  if (bytes != guess) {
    memmove(head + bytes, head + guess, size); /* exact: the head of a text takes no more than 5 bytes */
    t->to = head + bytes + size;               /* exact: likewise */
  }
  static const uint8_t first[6] = {0, 0xa0, 0xd9, 0xda, 0, 0xdb};
  *head = bytes == 1 ? (uint8_t)(0xa0 | size) : first[bytes];
  put_big(head + 1, size, bytes - 1);
  return size <= UINT32_MAX;
}

/* Ends an array or map that began with a head of one byte. */
static bool put_count(transcoder *t, uint8_t *head, const frame *done) {
  if (done->items < 16) {
    *head = (uint8_t)((done->is_map ? 0x80 : 0x90) | done->items);
    return true;
  }
  bool wide = done->items > UINT16_MAX;
  int more = wide ? 4 : 2;
  if (done->items > UINT32_MAX || !has_room(t)) return false;
  memmove(head + 1 + more, head + 1, (size_t)(t->to - head - 1)); /* exact: there is room for 16 more */
  *head = (uint8_t)((done->is_map ? 0xde : 0xdc) + wide);
  put_big(head + 1, done->items, more);
  t->to += more; /* exact: likewise */
  return true;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

typedef struct {
  uint64_t digits; /* as a whole number, as long as that is exact */
  int64_t power;   /* of ten, by which it is multiplied */
  bool exact;
} decimal;

static bool take_digits(transcoder *t, decimal *d, bool behind_point) {
  const uint8_t *start = t->at;
  for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
    d->exact = d->exact && !__builtin_mul_overflow(d->digits, 10u, &d->digits) &&
               !__builtin_add_overflow(d->digits, (uint64_t)(*t->at - '0'), &d->digits);
    d->power -= behind_point;
  }
  return t->at > start;
}

static bool take_power(transcoder *t, int64_t *power) {
  bool below = peek(t) == '-';
  t->at += below || peek(t) == '+';
  const uint8_t *start = t->at;
  int64_t value = 0;
  for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
    if (value < 100000) value = 10 * value + (*t->at - '0'); /* exact: far beyond any double */
  *power += below ? -value : value; /* exact: both are far from 64 bits */
  return t->at > start;
}

static bool read_double(const uint8_t *at, const uint8_t *end, double *value) {
  char text[MOST_NUMBER + 1], *behind;
  size_t size = (size_t)(end - at);
  if (size > MOST_NUMBER) return false;
  memcpy(text, at, size);
  text[size] = '\0';
  *value = strtod(text, &behind);
  /* exact: within the array */
  return behind == text + size && *value <= 1.7976931348623157e308 && *value >= -1.7976931348623157e308;
}

/* The double that is nearest to the number at [at, end), which `d` says exactly, or not; false where it is beyond all. */
static bool to_double(const decimal *d, bool negative, const uint8_t *at, const uint8_t *end, double *value) {
  static const double tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (!d->exact || d->digits > UINT64_C(1) << 53 || d->power < -22 || d->power > 22) return read_double(at, end, value);
  double digits = (double)d->digits;
  *value = d->power < 0 ? digits / tens[-d->power] : digits * tens[d->power];
  if (negative) *value = -*value;
  return true;
}

static void set_double(ur_line_cell *cell, double value) {
  cell->kind = UR_LINE_REAL;
  memcpy(&cell->value, &value, sizeof value);
}

static bool take_number(transcoder *t, ur_line_cell *cell) {
  const uint8_t *start = t->at;
  bool negative = take(t, '-');
  if (take_word(t, "Infinity")) {
    set_double(cell, negative ? -__builtin_inf() : __builtin_inf());
    return true;
  }
  decimal d = {0, 0, true};
  const uint8_t *first = t->at;
  if (!take_digits(t, &d, false) || (*first == '0' && t->at - first > 1)) return false;
  bool whole = true;
  if (take(t, '.')) {
    whole = false;
    if (!take_digits(t, &d, true)) return false;
  }
  if ((peek(t) | 0x20) == 'e') {
    t->at++;
    whole = false;
    if (!take_power(t, &d.power)) return false;
  }
  if (!whole) {
    double value;
    if (!to_double(&d, negative, start, t->at, &value)) return false;
    set_double(cell, value);
    return true;
  }
  if (!d.exact || (negative && d.digits > UINT64_C(1) << 63)) return false;
  cell->value = negative ? 0 - d.digits : d.digits;
  cell->kind = !negative && d.digits >> 63 ? UR_LINE_NATURAL : UR_LINE_INTEGER;
  return true;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Anything but text, arrays and objects. */
static bool take_plain(transcoder *t, ur_line_cell *cell) {
  switch (peek(t)) {
    case 't': cell->kind = UR_LINE_TRUE; return take_word(t, "true");
    case 'f': cell->kind = UR_LINE_FALSE; return take_word(t, "false");
    case 'n': cell->kind = UR_LINE_NULL; return take_word(t, "null");
    case 'N': set_double(cell, __builtin_nan("")); return take_word(t, "NaN");
    default: return take_number(t, cell);
  }
}

static bool put_plain(transcoder *t, bool *numbers) {
  ur_line_cell cell = {0, 0, UR_LINE_ABSENT};
  if (!has_room(t) || !take_plain(t, &cell)) return false;
  switch (cell.kind) {
    case UR_LINE_TRUE: *t->to++ = 0xc3; return true;
    case UR_LINE_FALSE: *t->to++ = 0xc2; return true;
    case UR_LINE_INTEGER: put_integer(t, (int64_t)cell.value); return true;
    case UR_LINE_NATURAL: put_natural(t, cell.value); return true;
    case UR_LINE_REAL: put_sized(t, 0xcb, cell.value, 8); return true;
    default: *numbers = false; *t->to++ = 0xc0; return true; /* null */
  }
}

static bool put_key(transcoder *t) {
  if (past_blanks(t) != '"') return false;
  t->at++;
  if (!put_text(t) || past_blanks(t) != ':') return false;
  t->at++;
  return true;
}

/* An array or object as msgpack. No recursion: each round of the outer loop takes what begins a value, of the inner one what
 * comes behind one. */
static bool put_nested(transcoder *t, bool *numbers, bool *has_keys) {
  uint8_t *start = t->to;
  frame frames[DEPTH];
  int depth = 0;
  for (;;) {
    uint8_t c = past_blanks(t);
    bool is_map = c == '{', ended = false;
    if (is_map || c == '[') {
      if (depth == DEPTH || !has_room(t)) return false;
      frames[depth++] = (frame){(uint64_t)(t->to - start), 0, is_map};
      t->to++;
      t->at++;
      ended = past_blanks(t) == (is_map ? '}' : ']');
      if (is_map) *numbers = false;
      if (is_map && !ended && !put_key(t)) return false;
      if (!ended) continue;
    } else if (c == '"') {
      *numbers = false;
      t->at++;
      if (!put_text(t)) return false;
    } else if (!put_plain(t, numbers)) {
      return false;
    }
    for (;;) {
      frame *inside = &frames[depth - 1];
      if (!ended) {
        inside->items++;
        if (past_blanks(t) == ',') {
          t->at++;
          if (inside->is_map && !put_key(t)) return false;
          break;
        }
        if (peek(t) != (inside->is_map ? '}' : ']')) return false;
      }
      t->at++;
      if (inside->is_map && inside->items > 1) *has_keys = true;
      if (!put_count(t, start + inside->head, inside)) return false;
      ended = false;
      if (--depth == 0) return true;
    }
  }
}

static bool take_value(transcoder *t, const uint8_t *out, ur_line_cell *cell) {
  uint8_t c = past_blanks(t), *start = t->to;
  if (!has_room(t)) return false;
  if (c == '"') {
    t->at++;
    if (!take_text(t)) return false;
    cell->kind = UR_LINE_TEXT;
  } else if (c == '[' || c == '{') {
    bool numbers = true, has_keys = false;
    if (!put_nested(t, &numbers, &has_keys)) return false;
    if (has_keys && ur_object_check(start, (uint64_t)(t->to - start), NULL) != UR_OK) return false; /* a key twice */
    cell->kind = numbers ? UR_LINE_NUMBERS : UR_LINE_OBJECT;
  } else {
    return take_plain(t, cell);
  }
  cell->value = (uint64_t)(start - out);
  cell->bytes = (uint32_t)(t->to - start);
  return t->to - start <= UINT32_MAX;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* The number of the key whose name, with the closing quote, comes next, and which is most often `next`; `count`: of none, and
 * then its name is at t->to, and ends at *end. */
static bool take_name(transcoder *t, const ur_line_key *keys, size_t count, size_t *next, uint8_t **end) {
  if (*next < count) {
    const ur_line_key *likely = &keys[*next];
    if (likely->is_plain && (uint64_t)(t->end - t->at) > likely->bytes && t->at[likely->bytes] == '"' &&
        memcmp(t->at, likely->name, likely->bytes) == 0) {
      t->at += likely->bytes + 1; /* exact: so many bytes are left */
      return true;
    }
  }
  uint8_t *name = t->to;
  if (!has_room(t) || !take_text(t)) return false;
  *end = t->to;
  t->to = name;
  uint64_t bytes = (uint64_t)(*end - name);
  for (*next = 0; *next < count; ++*next)
    if (keys[*next].bytes == bytes && memcmp(keys[*next].name, name, bytes) == 0) break;
  return true;
}

/* A line from its opening brace on, and the line break behind it. */
static ur_line_stop take_line(transcoder *t, ur_json_lines *lines, const ur_line_key *keys, size_t count) {
  size_t key = 0;
  uint8_t *name_end = t->to;
  for (size_t i = 0; i < count; i++) keys[i].cells[lines->rows] = (ur_line_cell){0, 0, UR_LINE_ABSENT};
  t->at++;
  bool empty = past_blanks(t) == '}';
  while (!empty) {
    if (past_blanks(t) != '"') return UR_LINE_ODD;
    t->at++;
    if (!take_name(t, keys, count, &key, &name_end)) return UR_LINE_ODD;
    if (key == count) {
      lines->name = (uint64_t)(t->to - lines->out);
      lines->name_bytes = (uint64_t)(name_end - t->to);
      return UR_LINE_NEW_KEY;
    }
    if (past_blanks(t) != ':') return UR_LINE_ODD;
    t->at++;
    ur_line_cell *cell = &keys[key++].cells[lines->rows];
    if (cell->kind != UR_LINE_ABSENT || !take_value(t, lines->out, cell)) return UR_LINE_ODD;
    if (past_blanks(t) == '}') break;
    if (!take(t, ',')) return UR_LINE_ODD;
  }
  t->at++;
  past_blanks(t);
  return t->at == t->end || take(t, '\n') ? UR_LINE_ALL : UR_LINE_ODD;
}

ur_line_stop ur_json_lines_read(ur_json_lines *lines, const ur_line_key *keys, size_t count) {
  transcoder t = {lines->data + lines->at, lines->data + lines->bytes, /* exact: the caller's memory */
                  lines->out + lines->used, lines->out + lines->room}; /* exact: likewise */
  while (t.at < t.end) {
    uint8_t c = past_blanks(&t);
    if (t.at == t.end) break;
    if (take(&t, '\n')) {
      lines->number++;
      continue;
    }
    if (c != '{' || lines->rows == lines->most_rows) return UR_LINE_ODD;
    lines->at = (uint64_t)(t.at - lines->data);
    ur_line_stop stop = take_line(&t, lines, keys, count);
    if (stop != UR_LINE_ALL) return stop;
    lines->used = (uint64_t)(t.to - lines->out);
    lines->numbers[lines->rows++] = lines->number++;
  }
  return UR_LINE_ALL;
}

void ur_line_texts(const ur_line_cell *cells, uint64_t rows, const uint8_t *out, uint8_t *to) {
  for (uint64_t i = 0; i < rows; i++) {
    if (cells[i].kind != UR_LINE_TEXT) continue;
    memcpy(to, out + cells[i].value, cells[i].bytes);
    to += cells[i].bytes; /* exact: the caller has room for all */
  }
}
