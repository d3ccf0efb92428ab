/* foreign/csv.c - looks through CSV: how many records there are, and what the cells of each column can be read as.
 *
 * Taken are records as RFC 4180 has them, in UTF-8: whoever reads those differently errs. Anything else (a quote inside
 * a cell, a lone CR, NUL, another number of cells) is left to a reader that words what is wrong.
 */
#include <stdbool.h>
#include <string.h>

#include "unirecord_internal.h"

enum {
  BIG_DIGITS = 19,   /* whole numbers of fewer digits fit 64 bits */
  EXACT_DIGITS = 15, /* and of no more than these a double */
  MOST_FRACTION = 9, /* digits of a second, which nanoseconds hold */
  FIRST_YEAR = 1678, /* of those that 64 bits of nanoseconds since 1970 hold whole */
  LAST_YEAR = 2261,
};

typedef struct {
  const uint8_t *at, *end;
  const uint8_t *limit; /* of what may be read, at or after `end` */
  uint8_t delimiter;
} text;

/* Eight bytes are looked at together: in a word the first byte is the lowest, and a mark is the highest bit of a byte. Marks
 * above the first one may be wrong. */
static const uint64_t EACH = UINT64_C(0x0101010101010101), MARKS = UINT64_C(0x8080808080808080);

static uint64_t load(const uint8_t *at) {
  uint64_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

static uint64_t zeros(uint64_t word) { return (word - EACH) & ~word & MARKS; }

/* Bytes that end or continue a cell in another way: the delimiter, quotes, line breaks, NUL, what is not ASCII. */
static uint64_t specials(uint64_t word, uint8_t delimiter) {
  return (word & MARKS) | zeros(word) | zeros(word ^ (EACH * delimiter)) | zeros(word ^ (EACH * '"')) |
         zeros(word ^ (EACH * '\n')) | zeros(word ^ (EACH * '\r'));
}

static size_t first_mark(uint64_t marks) { return (size_t)__builtin_ctzll(marks) / 8; }

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }

/* Whether bytes from `at` on are `word`, in any case; then at goes behind it. */
static bool take_word(text *t, const char *word) {
  size_t size = strlen(word);
  if ((size_t)(t->end - t->at) < size) return false;
  for (size_t i = 0; i < size; i++)
    if (lower(t->at[i]) != (uint8_t)word[i]) return false;
  t->at += size; /* exact: so many bytes are left */
  return true;
}

static size_t take_digits(text *t) {
  const uint8_t *start = t->at;
  while (t->limit - t->at >= 8) {
    uint64_t word = load(t->at) ^ (EACH * '0'), others = (word | (word + EACH * (0x7f - 9))) & MARKS;
    size_t digits = others ? first_mark(others) : 8;
    if (digits >= (size_t)(t->end - t->at)) {
      t->at = t->end;
      return (size_t)(t->at - start);
    }
    t->at += digits;
    if (digits < 8) return (size_t)(t->at - start);
  }
  while (t->at < t->end && is_digit(*t->at)) t->at++;
  return (size_t)(t->at - start);
}

/* [eE][-+]?[0-9]+ or nothing. */
static bool take_exponent(text *t) {
  if (t->at == t->end || lower(*t->at) != 'e') return true;
  t->at++;
  if (t->at < t->end && (*t->at == '+' || *t->at == '-')) t->at++;
  return take_digits(t) > 0;
}

static void take_big(const uint8_t *digits, size_t count, bool negative, ur_csv_column *column) {
  uint64_t value = 0;
  bool beyond = false;
  for (size_t i = 0; i < count && !beyond; i++)
    beyond = __builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(digits[i] - '0'), &value);
  if (negative) {
    if (beyond || value > (uint64_t)INT64_MAX + 1) column->beyond_low = 1;
  } else if (beyond) {
    column->beyond_high = 1;
  } else if (value > column->high) {
    column->high = value;
  }
}

/* Whether a whole number is known to be one that a double holds. */
static bool fits_double(const uint8_t *digits, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; i++)
    if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (uint64_t)(digits[i] - '0'), &value))
      return false;
  while (value > (UINT64_C(1) << 53) && value % 2 == 0) value /= 2;
  return value <= (UINT64_C(1) << 53);
}

/* Goes over two digits that say a number from `least` to `most`; -1 where there are none. */
static int take_two(text *t, int least, int most) {
  if (t->end - t->at < 2 || !is_digit(t->at[0]) || !is_digit(t->at[1])) return -1;
  int value = 10 * (t->at[0] - '0') + (t->at[1] - '0');
  if (value < least || value > most) return -1;
  t->at += 2;
  return value;
}

static bool take_byte(text *t, uint8_t byte) {
  if (t->at == t->end || *t->at != byte) return false;
  t->at++;
  return true;
}

/* Goes over a date as 2025-06-01, of the years 1 to 9999. */
static bool take_date(text *t, int *year) {
  static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int century = take_two(t, 0, 99), of_century = century < 0 ? -1 : take_two(t, 0, 99);
  if (of_century < 0 || century + of_century == 0 || !take_byte(t, '-')) return false;
  *year = 100 * century + of_century;
  int month = take_two(t, 1, 12);
  if (month < 0 || !take_byte(t, '-')) return false;
  bool leap = *year % 4 == 0 && (*year % 100 != 0 || *year % 400 == 0);
  /* exact: at most 31 */
  return take_two(t, 1, lengths[month - 1] + (month == 2 && leap)) > 0;
}

/* Goes over 12:00, 12:00:05 or 12:00:05.25 with up to nine digits, and Z or +02:00 behind it. */
static bool take_clock(text *t, ur_csv_column *column) {
  if (take_two(t, 0, 23) < 0 || !take_byte(t, ':') || take_two(t, 0, 59) < 0) return false;
  if (take_byte(t, ':')) {
    if (take_two(t, 0, 59) < 0) return false;
    if (take_byte(t, '.')) {
      size_t digits = take_digits(t);
      if (digits < 1 || digits > MOST_FRACTION) return false;
      if (digits > column->digits) column->digits = (uint8_t)digits;
    }
  }
  if (t->at == t->end) {
    column->unzoned = 1;
    return true;
  }
  column->zoned = 1;
  if (take_byte(t, 'Z')) return true;
  return (take_byte(t, '+') || take_byte(t, '-')) && take_two(t, 0, 23) >= 0 && take_byte(t, ':') && take_two(t, 0, 59) >= 0;
}

static void look_at_time(text t, ur_csv_column *column) {
  int year = 0;
  bool is_date = take_date(&t, &year);
  column->date = column->date && is_date && t.at == t.end;
  if (!column->moment) return;
  column->moment = is_date && (take_byte(&t, 'T') || take_byte(&t, ' ')) && take_clock(&t, column) && t.at == t.end;
  if (year < FIRST_YEAR || year > LAST_YEAR) column->far = 1;
}

/* Takes off what cannot be true of the column any more, since this cell (not empty) is in it. */
static void look_at_cell(text t, ur_csv_column *column) {
  if (column->date || column->moment) look_at_time(t, column);
  if (column->logical) {
    text word = t;
    column->logical = (take_word(&word, "true") || take_word(&word, "false")) && word.at == word.end;
  }
  if (!column->real) return;
  while (t.at < t.end && *t.at == ' ') t.at++;
  while (t.at < t.end && t.end[-1] == ' ') t.end--;
  bool negative = t.at < t.end && *t.at == '-', has_sign = negative || (t.at < t.end && *t.at == '+');
  t.at += has_sign;
  const uint8_t *digits = t.at;
  size_t count = take_digits(&t);
  bool padded = count > 1 && *digits == '0'; /* 007 is a name */
  if (count > 0 && !padded && t.at == t.end) {
    if (negative && *digits != '0') column->negative = 1;
    if (count > EXACT_DIGITS && !fits_double(digits, count)) column->inexact = 1;
    if (count >= BIG_DIGITS) take_big(digits, count, negative, column);
    return;
  }
  column->whole = 0;
  if (count == 0 && t.at < t.end && *t.at != '.') {
    bool word = !has_sign && take_word(&t, "nan");
    if (!word && take_word(&t, "inf")) {
      word = true;
      if (t.at < t.end) word = take_word(&t, "inity");
    }
    column->real = word && t.at == t.end;
    return;
  }
  if (t.at < t.end && *t.at == '.') {
    t.at++;
    count += take_digits(&t);
  }
  column->real = count > 0 && !padded && take_exponent(&t) && t.at == t.end;
}

/* How many bytes the character at `at` takes, which is not ASCII; 0 where it is no UTF-8 (RFC 3629). */
static size_t character(const uint8_t *at, const uint8_t *end) {
  uint8_t first = *at, low = 0x80, high = 0xbf;
  size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || (size_t)(end - at) < size) return 0;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  if (at[1] < low || at[1] > high) return 0;
  for (size_t i = 2; i < size; i++)
    if ((at[i] & 0xc0) != 0x80) return 0;
  return size;
}

/* Goes over a cell that starts at t->at, to the delimiter or line break behind it. *cell: what it says, with doubled quotes
 * as they stand. *length: its characters. False where the record is odd. */
static bool take_cell(text *t, text *cell, uint64_t *length) {
  const uint8_t *at = t->at, *end = t->end;
  uint64_t less = 0; /* bytes that are no characters of their own */
  bool quoted = at < end && *at == '"';
  at += quoted;
  cell->at = at;
  for (;;) {
    while (end - at >= 8) {
      uint64_t marks = specials(load(at), t->delimiter);
      at += marks ? first_mark(marks) : 8;
      if (marks) break;
    }
    if (at == end) {
      if (quoted) return false;
      break;
    }
    uint8_t c = *at;
    if (c == '"') {
      if (!quoted) return false;
      if (at + 1 == end || at[1] != '"') break;
      at += 2;
      less++;
    } else if (c >= 0x80) {
      size_t size = character(at, end);
      if (size == 0) return false;
      at += size; /* exact: character() has looked at them */
      less += size - 1; /* exact: fewer than the bytes so far */
    } else if (c == 0) {
      return false;
    } else if (!quoted && (c == t->delimiter || c == '\n' || c == '\r')) {
      break;
    } else {
      at++;
    }
  }
  cell->end = at;
  *length = (uint64_t)(at - cell->at) - less;
  t->at = at + quoted;
  return true;
}

/* Goes over a line break, if one is there: LF, or CR and LF. */
static bool take_break(text *t) {
  if (t->at < t->end && *t->at == '\n') {
    t->at++;
    return true;
  }
  if (t->end - t->at < 2 || t->at[0] != '\r' || t->at[1] != '\n') return false;
  t->at += 2;
  return true;
}

int32_t ur_csv_look(const uint8_t *data, uint64_t bytes, uint8_t delimiter, size_t count, ur_csv_column *columns,
                    uint64_t *rows) {
  text t = {data, data + bytes, data + bytes, delimiter}; /* exact: the end of the caller's memory */
  uint64_t found = 0;
  while (t.at < t.end) {
    if (take_break(&t)) continue; /* an empty line is no record */
    for (size_t i = 0; i < count; i++) {
      text cell = t;
      uint64_t length = 0;
      if (!take_cell(&t, &cell, &length)) return 0;
      ur_csv_column *column = &columns[i];
      if (length > column->longest) column->longest = length;
      if (length == 0) {
        column->empty = 1;
      } else {
        column->filled = 1;
        if (column->real || column->logical || column->date || column->moment) look_at_cell(cell, column);
      }
      if (i + 1 == count) break;
      if (t.at == t.end || *t.at != delimiter) return 0;
      t.at++;
    }
    if (t.at < t.end && !take_break(&t)) return 0;
    found++;
  }
  *rows = found;
  return 1;
}
