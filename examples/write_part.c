/* write_part.c - writes a part of fixed-size rows, as docs/spec/format.md says it: a picture of 28 x 28 bytes and a label.
 *
 * Pictures and labels are made up in `sample`: put your own there. The index is the last file to appear, so what is
 * found without one is unfinished. A part that is there already is not touched.
 */
// cc -std=c11 -O3 -pthread -Icsrc examples/write_part.c csrc/[a-z]*/*.c -o write_part && ./write_part train.urec 1000
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unirecord.h"

enum { PIXELS = 28 * 28, ROW = PIXELS, ALIGN = 16, GROUP = 1024, ZONE = 8192, BLOCK = 65536, MOST = 1 << 24 };

/* [image, label], as msgpack: schema, no column to search by, no words of the user. */
static const char METADATA[] = "\x84\xa6schema\x92\x93\xa5image\xa5uint8\x92\x1c\x1c\x93\xa5label\xa5int32\xc0"
                               "\xa5index\x90\xa4user\xc0\xaa" "created_by\xac" "write_part.c";
enum { META = sizeof METADATA - 1, COLUMNS = 2, SECTIONS = 6 };
enum { AT_SCHEMA = 8, SCHEMA = 31, WIDE = 16 }; /* where the schema stands in it, and its bytes; those of a wide digest */

static uint8_t id[16];
static uint64_t place; /* bytes written to the file in hand */

static void sample(int64_t row, uint8_t *image, int32_t *label) {
  for (int i = 0; i < PIXELS; i++) image[i] = (uint8_t)(row * 7 + i);
  *label = (int32_t)(row % 10) - 1;
}

static void put(uint8_t *to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t align(uint64_t x, uint64_t a) { return (x + a - 1) / a * a; }

static uint64_t seed(uint64_t domain, uint64_t where) {
  uint8_t bound[24];
  memcpy(bound, id, 16);
  put(bound + 16, domain, 8);
  return ur_xxh3_64(bound, 24, 0) + where * 0x9E3779B97F4A7C15u;
}

static uint64_t digest(const void *data, size_t bytes, uint64_t domain, uint64_t where) {
  return ur_xxh3_64(data, bytes, seed(domain, where));
}

static void die(const char *path, const char *what) {
  (void)fprintf(stderr, "%s: %s\n", path, what);
  exit(1);
}

static void *room(size_t bytes) {
  void *memory = calloc(1, bytes);
  if (memory == NULL) die("write_part", "no memory");
  return memory;
}

static void out(FILE *file, const char *path, const void *data, size_t bytes) {
  if (bytes > 0 && fwrite(data, 1, bytes, file) != bytes) die(path, "cannot be written");
  place += bytes;
}

static void column_table(uint8_t *to) {
  to[0] = 32, to[1] = 3, to[3] = 2; /* an array of uint8, of two dimensions */
  put(to + 8, PIXELS, 8);
  to[32] = 6; /* int32 */
  put(to + 40, 4, 8);
}

/* The head of the data file; answers its header_digest. */
static uint64_t head(uint8_t *to, uint64_t bytes) {
  memcpy(to, "\x89UREC\r\n\x1a", 8);
  put(to + 8, 1, 2), put(to + 10, 1, 2), put(to + 20, bytes, 4);
  memcpy(to + 24, id, 16);
  put(to + 40, COLUMNS, 4), put(to + 44, META, 4), put(to + 48, ALIGN, 4); /* unit_rows 0: a digest for each cell */
  put(to + 56, GROUP, 8), put(to + 64, ROW, 8);
  column_table(to + 128);
  memcpy(to + 128 + 32 * COLUMNS, METADATA, META);
  put(to + 112, digest(to + 128, bytes - 128, 2, 0), 8);
  uint64_t own = digest(to, 120, 1, 0);
  put(to + 120, own, 8);
  return own;
}

static void page(uint8_t *to, int kind, uint64_t group, uint64_t first, uint64_t rows, uint64_t payload, uint64_t gap,
                 uint64_t payload_digest) {
  memset(to, 0, 64);
  memcpy(to, "URPG", 4);
  put(to + 4, (uint64_t)kind, 2);
  put(to + 8, group, 8), put(to + 16, first, 8), put(to + 24, rows, 8), put(to + 32, payload, 8), put(to + 40, gap, 8);
  put(to + 48, payload_digest, 8);
  put(to + 56, digest(to, 56, 3, place), 8);
}

static void zeros_to(FILE *file, const char *path, uint64_t a) {
  static const uint8_t zeros[4096];
  out(file, path, zeros, (size_t)(align(place, a) - place));
}

/* What the index says of the rows: sections 1, 4 and 5 as they lie in it. */
typedef struct {
  uint64_t rows, groups, data_bytes, header_digest;
  uint8_t *places, *digests, *labels, *scalar_digests, content_digest[WIDE];
  uint8_t *content; /* what the content digest is of: layout, columns and schema, and of each page what it says and holds */
  size_t content_bytes;
} contents;

static void page_of_content(contents *made, const uint8_t *header, const void *payload, size_t bytes, uint64_t domain) {
  memcpy(made->content + made->content_bytes, header, 40);
  ur_xxh3_128(payload, bytes, seed(domain, place), made->content + made->content_bytes + 40);
  made->content_bytes += 40 + WIDE;
}

static void write_data(const char *path, contents *made) {
  FILE *file = fopen(path, "wbx"); /* x: a part that is there stays */
  if (file == NULL) die(path, "cannot be made, or is there already");
  place = 0;
  uint64_t bytes = align(128 + 32 * COLUMNS + META, 64);
  uint8_t *buffer = room(bytes > 64 ? bytes : 64), *images = room((size_t)GROUP * ROW), *scalars = room(12 * GROUP + 8);
  uint8_t *wide = room((size_t)WIDE * GROUP);
  made->header_digest = head(buffer, bytes);
  memcpy(made->content, buffer + 48, 24);
  memcpy(made->content + 24, buffer + 128, 32 * COLUMNS);
  memcpy(made->content + 24 + 32 * COLUMNS, METADATA + AT_SCHEMA, SCHEMA);
  made->content_bytes = 24 + 32 * COLUMNS + SCHEMA;
  out(file, path, buffer, bytes);
  for (uint64_t group = 0; group < made->groups; group++) {
    uint64_t first = group * GROUP, rows = made->rows - first < GROUP ? made->rows - first : GROUP;
    uint64_t scalar_bytes = align(4 * rows, 8) + 8 * rows, payload = rows * ROW;
    memset(scalars, 0, 12 * GROUP + 8);
    for (uint64_t i = 0; i < rows; i++) {
      int32_t label;
      sample((int64_t)(first + i), images + i * ROW, &label);
      put(scalars + 4 * i, (uint32_t)label, 4);
      put(scalars + align(4 * rows, 8) + 8 * i, digest(images + i * ROW, ROW, 5, first + i), 8);
      ur_xxh3_128(images + i * ROW, ROW, seed(5, first + i), wide + i * WIDE);
    }
    memcpy(made->labels + 4 * first, scalars, 4 * rows);
    memcpy(made->digests + 8 * first, scalars + align(4 * rows, 8), 8 * rows);
    uint8_t *places = made->places + 32 * group;
    put(places, first, 8), put(places + 8, place, 8);
    uint64_t scalar_digest = digest(scalars, scalar_bytes, 4, place);
    put(made->scalar_digests + 8 * group, scalar_digest, 8);
    page(buffer, 1, group, first, rows, scalar_bytes, 0, scalar_digest);
    page_of_content(made, buffer, scalars, scalar_bytes, 4);
    out(file, path, buffer, 64);
    out(file, path, scalars, scalar_bytes);
    zeros_to(file, path, 64);
    uint64_t gap = payload < 65536 ? 0 : align(place + 64, 4096) - (place + 64);
    put(places + 16, place, 8), put(places + 24, place + 64 + gap, 8);
    page(buffer, 2, group, first, rows, payload, gap, 0);
    page_of_content(made, buffer, wide, rows * WIDE, 13);
    out(file, path, buffer, 64);
    if (gap > 0) zeros_to(file, path, 4096);
    out(file, path, images, payload);
    zeros_to(file, path, 64);
  }
  ur_xxh3_128(made->content, made->content_bytes, seed(13, 0), made->content_digest);
  page(buffer, 3, made->groups, digest(made->scalar_digests, 8 * made->groups, 9, 0), made->rows, 0, 0, 0);
  memcpy(buffer + 40, made->content_digest, WIDE);
  put(buffer + 56, digest(buffer, 56, 3, place), 8);
  out(file, path, buffer, 64);
  made->data_bytes = place;
  if (fclose(file) != 0) die(path, "cannot be written");
  free(buffer), free(images), free(scalars), free(wide);
}

typedef struct {
  int kind, column, width;
  uint64_t count, extra, bits; /* bits of an element that is packed, else 0 */
  const uint8_t *bytes;
} section;

static uint64_t packed_bytes(uint64_t count, uint64_t bits) { return ((count * bits + 63) / 64 + 1) * 8; }

static uint64_t size_of(const section *one) {
  return one->bits ? packed_bytes(one->count, one->bits) : one->count * (uint64_t)one->width;
}

/* Labels as sections hold them: so many bits each of what a label is above the least one, if that saves a third. */
static section labels_of(const contents *made, int32_t least, int32_t most, uint8_t *packed) {
  uint64_t range = (uint64_t)((int64_t)most - least), bits = 1;
  while (range >> bits) bits++;
  section plain = {5, 1, 4, made->rows, 0, 0, made->labels};
  if (bits > 31 || 3 * packed_bytes(made->rows, bits) > 2 * 4 * made->rows) return plain;
  int64_t highest_base = INT32_MAX - (int64_t)((UINT64_C(1) << bits) - 1), base = least < highest_base ? least : highest_base;
  for (uint64_t row = 0; row < made->rows; row++) {
    const uint8_t *at = made->labels + 4 * row;
    int32_t label = (int32_t)((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
    for (uint64_t bit = 0; bit < bits; bit++)
      if ((uint64_t)(label - base) >> bit & 1)
        packed[(row * bits + bit) / 8] |= (uint8_t)(1u << ((row * bits + bit) % 8));
  }
  return (section){5, 1, 4, made->rows, (uint64_t)base, bits, packed};
}

/* A label as msgpack, in the shortest form that it has; returns its bytes. */
static uint64_t number(uint8_t *to, int32_t value) {
  static const uint8_t heads[2][5] = {{0, 0xcc, 0xcd, 0, 0xce}, {0, 0xd0, 0xd1, 0, 0xd2}}; /* by sign, and bytes behind */
  int negative = value < 0, bytes = 4;
  if (value >= -32 && value < 128) {
    to[0] = (uint8_t)value;
    return 1;
  }
  if (negative ? value >= -128 : value < 256) bytes = 1;
  else if (negative ? value >= -32768 : value < 65536) bytes = 2;
  to[0] = heads[negative][bytes];
  for (int i = 0; i < bytes; i++) to[1 + i] = (uint8_t)((uint32_t)value >> (8 * (bytes - 1 - i))); /* it is big-endian */
  return 1 + (uint64_t)bytes;
}

static void write_index(const char *path, const contents *made) {
  uint64_t zones = (made->rows + ZONE - 1) / ZONE;
  uint8_t *bounds = room(8 * zones), *flags = room(zones);
  int32_t least = INT32_MAX, most = INT32_MIN;
  for (uint64_t zone = 0; zone < zones; zone++) {
    int32_t low = INT32_MAX, high = INT32_MIN;
    for (uint64_t row = zone * ZONE; row < made->rows && row < (zone + 1) * ZONE; row++) {
      const uint8_t *at = made->labels + 4 * row;
      int32_t label = (int32_t)((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
      low = label < low ? label : low, high = label > high ? label : high;
    }
    put(bounds + 8 * zone, (uint32_t)low, 4), put(bounds + 8 * zone + 4, (uint32_t)high, 4);
    flags[zone] = 4;
    least = low < least ? low : least, most = high > most ? high : most;
  }
  uint8_t said[64] = "\x92\xc0\x84\xa5nulls\x00\xa8" "distinct\xc0\xa3min";
  uint64_t said_bytes = 24;
  said_bytes += number(said + said_bytes, least);
  memcpy(said + said_bytes, "\xa3max", 4);
  said_bytes += 4;
  said_bytes += number(said + said_bytes, most);
  uint8_t *packed = room(4 * made->rows + 16);
  const section sections[SECTIONS] = {
      {1, 65535, 32, made->groups, 0, 0, made->places}, {4, 65535, 8, made->rows, 0, 0, made->digests},
      labels_of(made, least, most, packed),             {12, 1, 8, zones, ZONE, 0, bounds},
      {13, 1, 1, zones, ZONE, 0, flags},                {17, 65535, 1, said_bytes, 0, 0, said}};

  uint64_t head_bytes = align(192 + 32 * COLUMNS + 48 * SECTIONS + META, 64), end = head_bytes;
  for (int i = 0; i < SECTIONS; i++) end = align(end + size_of(&sections[i]), 64);
  uint64_t blocks = (end - head_bytes + BLOCK - 1) / BLOCK, bytes = end + 8 * blocks, at = head_bytes;
  uint8_t *index = room(bytes), *entry = index + 192 + 32 * COLUMNS;
  for (int i = 0; i < SECTIONS; i++, entry += 48) {
    uint64_t size = size_of(&sections[i]);
    put(entry, (uint64_t)sections[i].kind, 2), put(entry + 2, (uint64_t)sections[i].column, 2);
    put(entry + 4, (uint64_t)sections[i].width, 4), put(entry + 8, at, 8), put(entry + 16, size, 8);
    put(entry + 24, sections[i].count, 8), put(entry + 32, sections[i].extra, 8), put(entry + 40, sections[i].bits, 2);
    memcpy(index + at, sections[i].bytes, size);
    at = align(at + size, 64);
  }
  column_table(index + 192);
  memcpy(entry, METADATA, META);
  memcpy(index, "\x89URIX\r\n\x1a", 8);
  put(index + 8, 1, 2), put(index + 10, 1, 2), put(index + 20, head_bytes, 4);
  memcpy(index + 24, id, 16);
  put(index + 40, made->data_bytes, 8), put(index + 48, made->rows, 8), put(index + 56, made->groups, 8);
  put(index + 64, COLUMNS, 4), put(index + 68, SECTIONS, 4), put(index + 72, META, 4), put(index + 76, BLOCK, 4);
  put(index + 80, bytes, 8), put(index + 88, end, 8);
  put(index + 96, made->header_digest, 8);
  memcpy(index + 104, made->content_digest, WIDE);
  put(index + 120, ALIGN, 4), put(index + 128, GROUP, 8), put(index + 136, ROW, 8);
  put(index + 176, digest(index + 192, head_bytes - 192, 7, 0), 8);
  put(index + 184, digest(index, 184, 6, 0), 8);
  for (uint64_t i = 0; i < blocks; i++) {
    uint64_t from = head_bytes + i * BLOCK, size = end - from < BLOCK ? end - from : BLOCK;
    put(index + end + 8 * i, digest(index + from, size, 8, i), 8);
  }
  FILE *file = fopen(path, "wbx");
  if (file == NULL) die(path, "cannot be made, or is there already");
  out(file, path, index, bytes);
  if (fclose(file) != 0) die(path, "cannot be written");
  free(index), free(bounds), free(flags), free(packed);
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "train.urec";
  int64_t rows = argc > 2 ? strtoll(argv[2], NULL, 10) : 1000;
  if (rows < 1 || rows > MOST) die(path, "an example of 1 to 16777216 rows");
  FILE *random = fopen("/dev/urandom", "rb");
  if (random == NULL || fread(id, 1, sizeof id, random) != sizeof id) die("/dev/urandom", "cannot be read");
  (void)fclose(random);

  contents made = {.rows = (uint64_t)rows, .groups = ((uint64_t)rows + GROUP - 1) / GROUP};
  made.places = room(32 * made.groups), made.scalar_digests = room(8 * made.groups);
  made.digests = room(8 * made.rows), made.labels = room(4 * made.rows);
  made.content = room(24 + 32 * COLUMNS + SCHEMA + 2 * (40 + WIDE) * made.groups);
  char *index_path = room(strlen(path) + 5);
  (void)sprintf(index_path, "%s.idx", path);
  write_data(path, &made);
  write_index(index_path, &made);
  (void)printf("%s: %" PRId64 " rows\n", path, rows);
  free(made.places), free(made.scalar_digests), free(made.digests), free(made.labels), free(made.content);
  free(index_path);
  return 0;
}
