/* test_hostile.c - the parts in tests/data/hostile, and frozen ones, with hostile fields, digests put right: no access goes astray.
 *
 * `test_hostile [CASES [SEED]]`: first every field of every structure gets each edge value, then CASES random cases.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <inttypes.h>
#include <string.h>

#include "fuzz_open.c"

enum { MOST_FILE = 1 << 16 };

typedef struct {
  uint8_t data[MOST_FILE], index[MOST_FILE];
  uint64_t data_bytes, index_bytes;
} part;

static uint64_t state = 88172645463325252u;
static uint64_t tried, opened;

static uint64_t draw(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return below == 0 ? state : state % below;
}

static uint64_t read_file(const char *path, uint8_t *bytes) {
  FILE *file = fopen(path, "rb");
  EXPECT(file != NULL);
  size_t count = fread(bytes, 1, MOST_FILE, file);
  EXPECT(count < MOST_FILE);
  (void)fclose(file);
  return count;
}

static const uint64_t edges[] = {
    0, 1, 2, 3, 7, 8, 16, 31, 32, 63, 64, 65, 127, 128, 255, 256, 4096, 65534, 65535, 65536, UINT64_C(1) << 31,
    UINT32_MAX - 1, UINT32_MAX, UINT64_C(1) << 32, UINT64_C(1) << 60, (UINT64_C(1) << 62) - 1, UINT64_C(1) << 62,
    (UINT64_C(1) << 63) - 1, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, UINT64_MAX - 64, UINT64_MAX - 63,
    UINT64_MAX - 1, UINT64_MAX};
enum { EDGES = sizeof edges / sizeof *edges };

/* As many of its bytes as there are. */
static void copy_part(part *to, const part *from) {
  to->data_bytes = from->data_bytes;
  to->index_bytes = from->index_bytes;
  memcpy(to->data, from->data, from->data_bytes);
  memcpy(to->index, from->index, from->index_bytes);
}

static void try_part(part *p, bool agree, int32_t io) {
  if (agree) fuzz_agree(p->data, p->data_bytes, p->index, p->index_bytes);
  fuzz_seal(p->data, p->data_bytes, p->index, p->index_bytes);
  tried++;
  opened += fuzz_try(p->data, p->data_bytes, p->index, p->index_bytes, io, UR_VERIFY_FIRST);
}

/* One field of `width` bytes at `at`: every edge value, and every value near the right one. */
static void try_field(const part *good, bool in_index, uint64_t at, int width) {
  static part p;
  uint64_t right = 0;
  memcpy(&right, (in_index ? good->index : good->data) + at, (size_t)width);
  for (uint64_t i = 0; i < EDGES + 8; i++) {
    uint64_t value = i < EDGES ? edges[i] : i % 2 ? right + (UINT64_C(1) << (i - EDGES)) : right - (UINT64_C(1) << (i - EDGES));
    for (int agree = 0; agree < 2; agree++) {
      copy_part(&p, good);
      fuzz_store((in_index ? p.index : p.data) + at, value, width);
      try_part(&p, agree, i % 2 ? UR_IO_MAP : UR_IO_PREAD);
    }
  }
}

/* `least`: of the kinds of the sections whose numbers are tried. */
static void try_fields(const part *good, int least) {
  static const struct { uint8_t at, width; } data[] = {{8, 2}, {10, 2}, {12, 4}, {16, 4}, {20, 4}, {40, 4}, {44, 4}, {48, 4},
                                                       {52, 4}, {56, 8}, {64, 8}, {72, 8}, {104, 8}},
      index[] = {{8, 2}, {10, 2}, {12, 4}, {16, 4}, {20, 4}, {40, 8}, {48, 8}, {56, 8}, {64, 4}, {68, 4}, {72, 4}, {76, 4},
                 {80, 8}, {88, 8}, {96, 8}, {104, 8}, {112, 8}, {120, 4}, {124, 4}, {128, 8}, {136, 8}, {144, 8}, {168, 8}},
      entry[] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 4}, {8, 8}, {16, 8}, {24, 8}},
      section[] = {{0, 2}, {2, 2}, {4, 4}, {8, 8}, {16, 8}, {24, 8}, {32, 8}, {40, 8}};
  for (size_t i = 0; i < sizeof data / sizeof *data; i++) try_field(good, false, data[i].at, data[i].width);
  for (size_t i = 0; i < sizeof index / sizeof *index; i++) try_field(good, true, index[i].at, index[i].width);
  uint64_t columns = load32(good->data + 40), sections = load32(good->index + 68), directory = 192 + 32 * columns;
  for (uint64_t c = 0; c < columns; c++)
    for (size_t i = 0; i < sizeof entry / sizeof *entry; i++) try_field(good, false, 128 + 32 * c + entry[i].at, entry[i].width);
  for (uint64_t s = 0; s < sections; s++)
    for (size_t i = 0; i < sizeof section / sizeof *section; i++)
      try_field(good, true, directory + 48 * s + section[i].at, section[i].width);
  for (uint64_t at = load32(good->index + 20); least == 0 && at < good->index_bytes; at += 8) try_field(good, true, at, 8);
  for (uint64_t s = 0; s < sections && least > 0; s++) {
    const uint8_t *one = good->index + directory + 48 * s;
    for (uint64_t at = 0; (one[0] | one[1] << 8) >= least && at + 8 <= load64(one + 16); at += 8)
      try_field(good, true, load64(one + 8) + at, 8);
  }
  for (uint64_t at = good->data_bytes - 64; at < good->data_bytes; at += 8) try_field(good, false, at, 8);
}

static void mutate(part *p) {
  bool in_index = draw(3) > 0;
  uint8_t *file = in_index ? p->index : p->data;
  uint64_t bytes = in_index ? p->index_bytes : p->data_bytes;
  int width = 1 << draw(4);
  uint64_t head = load32(file + 20), limit = draw(2) && head > 128 && head < bytes ? head : bytes;
  uint64_t at = draw(limit - 8) / (uint64_t)width * (uint64_t)width;
  switch (draw(6)) {
    case 0: fuzz_store(file + at, draw(0), width); return;
    case 1: file[at] ^= (uint8_t)(1u << draw(8)); return;
    case 2: { /* a piece of the same file in another place */
      uint64_t from = draw(bytes - 64) / 8 * 8, size = 8 + draw(56), to = draw(bytes - 64) / 8 * 8;
      memmove(file + to, file + from, size);
      return;
    }
    case 3: { /* shorter or longer */
      uint64_t left = 192 + (bytes > 192 ? draw(bytes - 192) / 8 * 8 : 0);
      if (draw(4) == 0) *(in_index ? &p->index_bytes : &p->data_bytes) = left;
      return;
    }
    default: fuzz_store(file + at, edges[draw(EDGES)], width); return;
  }
}

static void try_random(const part *good, uint64_t cases) {
  static part p;
  for (uint64_t n = 0; n < cases; n++) {
    copy_part(&p, good);
    for (uint64_t times = 1 + draw(4); times > 0; times--) mutate(&p);
    if (p.data_bytes < 192 || p.index_bytes < 192) continue;
    try_part(&p, draw(4) > 0, (int32_t)(draw(3) == 0 ? UR_IO_MEMORY : draw(2) ? UR_IO_MAP : UR_IO_PREAD));
  }
}

static void try_path(const char *path, int least, uint64_t cases) {
  static part good;
  char index[600];
  good.data_bytes = read_file(path, good.data);
  (void)snprintf(index, sizeof index, "%.500s.idx", path);
  good.index_bytes = read_file(index, good.index);
  EXPECT(fuzz_try(good.data, good.data_bytes, good.index, good.index_bytes, UR_IO_MAP, UR_VERIFY_ALWAYS));
  if (cases <= 1000000) try_fields(&good, least);
  try_random(&good, cases);
}

int main(int argc, char **argv) {
  uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 4000;
  if (argc > 2) state ^= strtoull(argv[2], NULL, 10) * UINT64_C(0x9E3779B97F4A7C15);
  const char *folder = "tests/data/hostile";
  DIR *directory = opendir(folder);
  EXPECT(directory != NULL);
  int parts = 2;
  try_path("tests/data/version1/chunked.urec", CHUNK_SHAPE, cases);
  try_path("tests/data/version1/packed.urec", CHUNK_SHAPE, cases);
  for (struct dirent *found = readdir(directory); found != NULL; found = readdir(directory)) {
    if (strstr(found->d_name, ".urec") == NULL || strstr(found->d_name, ".idx") != NULL) continue;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%.200s", folder, found->d_name);
    try_path(path, 0, cases);
    parts++;
  }
  (void)closedir(directory);
  EXPECT(parts > 2);
  printf("%d parts, %" PRIu64 " hostile cases, %" PRIu64 " of them could be opened\n", parts, tried, opened);
  return 0;
}
