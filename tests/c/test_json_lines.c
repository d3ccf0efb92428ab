/* test_json_lines.c - JSON Lines taken apart in memory of exactly its size: values, odd lines, cuts and changes of every byte. */
#include <math.h>
#include <string.h>

#include "expect.h"
#include "unirecord_internal.h"

enum { KEYS = 4, ROWS = 8, ROOM = 4096 };

typedef struct {
  ur_line_cell cells[KEYS][ROWS];
  uint32_t numbers[ROWS];
  uint8_t out[ROOM];
  ur_json_lines lines;
  size_t keys;
  ur_line_stop stop;
} found;

/* Reads `text`, with keys as they are found, in room of `room` bytes. */
static found *read_bytes(const char *text, size_t bytes, uint64_t room, uint64_t rows) {
  found *at = calloc(1, sizeof *at);
  uint8_t *data = malloc(bytes + (bytes == 0)), *out = malloc(room + (room == 0));
  EXPECT(at != NULL && data != NULL && out != NULL);
  memcpy(data, text, bytes);
  at->lines = (ur_json_lines){.data = data, .bytes = bytes, .out = out, .room = room, .most_rows = rows, .numbers = at->numbers};
  ur_line_key keys[KEYS];
  uint8_t names[KEYS][64];
  while ((at->stop = ur_json_lines_read(&at->lines, keys, at->keys)) == UR_LINE_NEW_KEY && at->keys < KEYS) {
    EXPECT(at->lines.name_bytes <= sizeof names[0] && at->lines.name + at->lines.name_bytes <= room);
    memcpy(names[at->keys], out + at->lines.name, at->lines.name_bytes);
    keys[at->keys] = (ur_line_key){names[at->keys], at->lines.name_bytes, at->cells[at->keys], 1};
    at->keys++;
  }
  EXPECT(at->lines.used <= room && at->lines.rows <= rows);
  memcpy(at->out, out, room < ROOM ? room : ROOM);
  free(data);
  free(out);
  return at;
}

static found *read_text(const char *text) { return read_bytes(text, strlen(text), ROOM, ROWS); }

static double real_of(const ur_line_cell *cell) {
  double value;
  memcpy(&value, &cell->value, sizeof value);
  return value;
}

static void expect_packed(const char *json, const char *packed, size_t bytes, ur_line_kind kind) {
  char line[512];
  EXPECT(snprintf(line, sizeof line, "{\"a\":%s}", json) < (int)sizeof line);
  found *at = read_text(line);
  EXPECT_EQUAL(at->stop, UR_LINE_ALL);
  const ur_line_cell *cell = &at->cells[0][0];
  EXPECT_EQUAL(cell->kind, kind);
  EXPECT_EQUAL(cell->bytes, bytes);
  EXPECT(memcmp(at->out + cell->value, packed, bytes) == 0);
  free(at);
}

static void scalars_are_as_they_are(void) {
  found *at = read_text("{\"a\": -5, \"b\":\"x\\u00e9\\ud83d\\ude00\"}\n \t\r\n{\"b\" :null,\"a\":1.5}\r\n{}\n"
                        "{\"a\":18446744073709551615,\"b\":true}\n{\"a\":-0,\"b\":NaN}\n{\"a\":-9223372036854775808,\"b\":-Infinity}");
  EXPECT_EQUAL(at->stop, UR_LINE_ALL);
  EXPECT_EQUAL(at->keys, 2);
  EXPECT_EQUAL(at->lines.rows, 6);
  EXPECT_EQUAL(at->numbers[0], 0);
  EXPECT_EQUAL(at->numbers[1], 2);
  EXPECT(at->cells[0][0].kind == UR_LINE_INTEGER && (int64_t)at->cells[0][0].value == -5);
  EXPECT(at->cells[1][0].kind == UR_LINE_TEXT && at->cells[1][0].bytes == 7);
  EXPECT(memcmp(at->out + at->cells[1][0].value, "x\xc3\xa9\xf0\x9f\x98\x80", 7) == 0);
  EXPECT(at->cells[0][1].kind == UR_LINE_REAL && real_of(&at->cells[0][1]) == 1.5);
  EXPECT(at->cells[1][1].kind == UR_LINE_NULL && at->cells[0][2].kind == UR_LINE_ABSENT);
  EXPECT(at->cells[0][3].kind == UR_LINE_NATURAL && at->cells[0][3].value == UINT64_MAX);
  EXPECT(at->cells[0][4].kind == UR_LINE_INTEGER && at->cells[0][4].value == 0);
  EXPECT(at->cells[1][4].kind == UR_LINE_REAL && isnan(real_of(&at->cells[1][4])));
  EXPECT((int64_t)at->cells[0][5].value == INT64_MIN && isinf(real_of(&at->cells[1][5])));
  free(at);
}

static void all_else_is_msgpack(void) {
  expect_packed("[]", "\x90", 1, UR_LINE_NUMBERS);
  expect_packed("{}", "\x80", 1, UR_LINE_OBJECT);
  expect_packed("[1,[true,-1]]", "\x92\x01\x92\xc3\xff", 5, UR_LINE_NUMBERS);
  expect_packed("[128,-33,65536]", "\x93\xcc\x80\xd0\xdf\xce\x00\x01\x00\x00", 10, UR_LINE_NUMBERS);
  expect_packed("{\"k\":[null,\"\\n\"]}", "\x81\xa1k\x92\xc0\xa1\n", 7, UR_LINE_OBJECT);
  expect_packed("[0.5]", "\x91\xcb\x3f\xe0\x00\x00\x00\x00\x00\x00", 10, UR_LINE_NUMBERS);
  expect_packed("[0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5]", "\xdc\x00\x10\0\1\2\3\4\5\6\7\10\11\0\1\2\3\4\5", 19, UR_LINE_NUMBERS);
  /* By the next quote the text would be short, and by its escapes long: heads of other sizes than were thought. */
  expect_packed("[\"\\\"0123456789012345678901234567890123456789\"]", "\x91\xd9\x29\"0123456789012345678901234567890123456789", 44,
                UR_LINE_OBJECT);
  expect_packed("[\"\\u0041\\u0041\\u0041\\u0041\\u0041\\u0041\"]", "\x91\xa6""AAAAAA", 8, UR_LINE_OBJECT);
}

static void odd_lines_stop_it(void) {
  static const char *const odd[] = {"{\"a\":1,\"a\":2}", "{\"a\":{\"b\":1,\"b\":1}}", "{\"a\":[{\"b\":1,\"\\u0062\":1}]}", "[1]", "{\"a\":01}",
                                    "{\"a\":18446744073709551616}", "{\"a\":-9223372036854775809}", "{\"a\":1e400}", "{\"a\":\"\\ud800\"}",
                                    "{\"a\":\"\xff\"}", "{\"a\":\"\x01\"}", "{\"a\":1}x", "{\"a\":[1}", "{\"a\":", "{\"a", "{", "{\"a\":1,}"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    found *at = read_text(odd[i]);
    EXPECT_EQUAL(at->stop, UR_LINE_ODD);
    free(at);
  }
  found *at = read_bytes("{}\n{}\n", 6, ROOM, 1);
  EXPECT_EQUAL(at->stop, UR_LINE_ODD);
  free(at);
}

static void nesting_is_bounded(void) {
  for (int depth = 64; depth <= 65; depth++) {
    char line[256] = "{\"a\":";
    memset(line + 5, '[', (size_t)depth);
    memset(line + 5 + depth, ']', (size_t)depth);
    line[5 + 2 * depth] = '}';
    found *at = read_bytes(line, 6 + 2 * (size_t)depth, ROOM, ROWS);
    EXPECT_EQUAL(at->stop, depth == 64 ? UR_LINE_ALL : UR_LINE_ODD);
    free(at);
  }
}

static const char SOME[] = "{\"a\":[{\"k\\n\":\"\\u00e9\xe6\xbc\xa2\",\"l\":[0.1,-1e-7,1234567890123456789.5,true]}],\"b\":\"long enough for words\"}\n"
                           "{\"b\":[0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,NaN,NaN],\"a\":-Infinity}\n";

/* Every cut ends at some byte that must not be read over, and every room at one that must not be written over. */
static void nothing_is_touched_beyond_what_is_given(void) {
  for (size_t bytes = 0; bytes < sizeof SOME; bytes++) free(read_bytes(SOME, bytes, 5 * bytes / 2 + 64, ROWS));
  for (size_t room = 0; room < sizeof SOME + 64; room++) free(read_bytes(SOME, sizeof SOME - 1, room, ROWS));
}

static void any_byte_may_be_another(void) {
  static const char others[] = "\"\\{}[],:\n\x00\xff 0e-N";
  char text[sizeof SOME];
  for (size_t place = 0; place + 1 < sizeof SOME; place++)
    for (size_t i = 0; i + 1 < sizeof others; i++) {
      memcpy(text, SOME, sizeof SOME);
      text[place] = others[i];
      free(read_bytes(text, sizeof SOME - 1, 5 * sizeof SOME / 2 + 64, ROWS));
    }
}

int main(void) {
  scalars_are_as_they_are();
  all_else_is_msgpack();
  odd_lines_stop_it();
  nesting_is_bounded();
  nothing_is_touched_beyond_what_is_given();
  any_byte_may_be_another();
  return 0;
}
