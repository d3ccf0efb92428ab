/* test_csv.c - CSV looked through in memory of exactly its size: types, lengths, and text that is left to others. */
#include <string.h>

#include "expect.h"
#include "unirecord_internal.h"

enum { COLUMNS = 2 };

typedef struct {
  ur_csv_column columns[COLUMNS];
  uint64_t rows;
  int32_t plain;
} look;

static look look_at(const char *text, size_t bytes) {
  look found = {.rows = 99};
  for (size_t i = 0; i < COLUMNS; i++) {
    ur_csv_column *column = &found.columns[i];
    column->whole = column->real = column->logical = column->date = column->moment = 1;
  }
  uint8_t *data = malloc(bytes + (bytes == 0));
  EXPECT(data != NULL);
  memcpy(data, text, bytes);
  found.plain = ur_csv_look(data, bytes, ',', COLUMNS, found.columns, &found.rows);
  free(data);
  return found;
}

static look look_at_text(const char *text) { return look_at(text, strlen(text)); }

static void types_are_those_that_all_cells_fit(void) {
  look found = look_at_text("1,1.5\n-20,nan\n\n 300 ,.5e-3\n,-inf\n");
  EXPECT_EQUAL(found.plain, 1);
  EXPECT_EQUAL(found.rows, 4);
  EXPECT(found.columns[0].whole && found.columns[0].real && !found.columns[0].logical);
  EXPECT(found.columns[0].empty && found.columns[0].filled && found.columns[0].negative);
  EXPECT(!found.columns[1].whole && found.columns[1].real && !found.columns[1].empty && !found.columns[1].negative);
  found = look_at_text("true,007\r\nFALSE,1x");
  EXPECT_EQUAL(found.rows, 2);
  EXPECT(found.columns[0].logical && !found.columns[0].real);
  EXPECT(!found.columns[1].logical && !found.columns[1].real && !found.columns[1].whole);
}

static void dates_and_moments_are_told(void) {
  look found = look_at_text("2024-02-29,2025-06-01T12:00\n0001-01-01,2025-06-01 23:59:59.123\n");
  EXPECT(found.columns[0].date && !found.columns[0].moment && !found.columns[0].real);
  EXPECT(!found.columns[1].date && found.columns[1].moment && found.columns[1].unzoned && !found.columns[1].zoned);
  EXPECT_EQUAL(found.columns[1].digits, 3);
  EXPECT(!found.columns[1].far);
  found = look_at_text("2025-06-01T12:00Z,2025-06-01T12:00:00.000000001+02:00\n,1677-01-01T00:00-23:59\n");
  EXPECT(found.columns[0].moment && found.columns[0].zoned && !found.columns[0].unzoned && !found.columns[0].far);
  EXPECT(found.columns[1].moment && found.columns[1].zoned && found.columns[1].far);
  EXPECT_EQUAL(found.columns[1].digits, 9);
  const char *neither[] = {"2025-02-29", "1900-02-29", "0000-01-01", "2025-13-01", "2025-00-01", "2025-1-01", "2025-06-31",
                           "2025-06-01T", "2025-06-01T24:00", "2025-06-01T12:60", "2025-06-01T12:00:60", "2025-06-01T12",
                           "2025-06-01T12:00:00.", "2025-06-01T12:00:00.0000000001", "2025-06-01T12:00+2:00", "2025-06-01x",
                           "2025-06-01T12:00 Z", "2025-06-01T12:00z", "2025-06-01T12:00+02:00x", "2025-06-0", "x", " "};
  for (size_t i = 0; i < sizeof neither / sizeof *neither; i++) {
    char line[64];
    snprintf(line, sizeof line, "%s,1\n", neither[i]);
    found = look_at_text(line);
    EXPECT(found.plain && !found.columns[0].date && !found.columns[0].moment);
  }
}

static void numbers_beyond_64_bits_are_told(void) {
  look found = look_at_text("9223372036854775808,-9223372036854775808\n5,0\n");
  EXPECT_EQUAL(found.columns[0].high, UINT64_C(1) << 63);
  EXPECT(!found.columns[0].beyond_high && !found.columns[1].beyond_low && found.columns[1].negative);
  found = look_at_text("18446744073709551616,-9223372036854775809\n");
  EXPECT(found.columns[0].whole && found.columns[0].beyond_high && found.columns[1].beyond_low);
}

static void whole_numbers_that_no_double_holds_are_told(void) {
  look found = look_at_text("9007199254740992,9007199254740993\n-9223372036854775808,1\n");
  EXPECT(!found.columns[0].inexact && found.columns[1].inexact);
  found = look_at_text("18446744073709551616,9007199254740993.5\n1000000000000000,nan\n");
  EXPECT(found.columns[0].inexact && !found.columns[1].inexact); /* beyond 64 bits it is left to whoever asks */
}

static void lengths_are_of_characters(void) {
  look found = look_at_text("\xe6\xbc\xa2\xf0\x9f\x98\x80,\"a\"\"b\n\"\n");
  EXPECT_EQUAL(found.plain, 1);
  EXPECT_EQUAL(found.columns[0].longest, 2);
  EXPECT_EQUAL(found.columns[1].longest, 4);
}

static void other_text_is_left_to_others(void) {
  static const char *const odd[] = {"a\n",          "a,b,c\n", "a\rb,c\n",     "a\"b,c\n",     "\"a\"b,c\n", "\"a,b\n", "a,\"",
                                    "\xff,b\n",     "\xc3",    "a,\xe6\xbc",   "\xc0\xaf,b\n", "a,b\r",
                                    "\xed\xa0\x80,b\n", "\xe0\x80\x80,b\n", "\xf4\x90\x80\x80,b\n"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) EXPECT_EQUAL(look_at_text(odd[i]).plain, 0);
  EXPECT_EQUAL(look_at("a\0,b\n", 5).plain, 0);
  EXPECT_EQUAL(look_at_text("a,").rows, 1);
  EXPECT_EQUAL(look_at_text("").rows, 0);
}

/* Every cut of a text ends at some byte that must not be read over. */
static void nothing_is_read_beyond_the_text(void) {
  static const char text[] = "12345678901234567890,\"x\"\"\xe6\xbc\xa2\"\r\ninfinity,-1.25e+10\ntrue,falsefalse\n";
  for (size_t bytes = 0; bytes < sizeof text; bytes++) (void)look_at(text, bytes);
}

int main(void) {
  types_are_those_that_all_cells_fit();
  dates_and_moments_are_told();
  numbers_beyond_64_bits_are_told();
  whole_numbers_that_no_double_holds_are_told();
  lengths_are_of_characters();
  other_text_is_left_to_others();
  nothing_is_read_beyond_the_text();
  return 0;
}
