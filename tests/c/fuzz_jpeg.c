/* fuzz_jpeg.c - mutated JPEGs through the optional unit, without end or for a number of cases: `fuzz_jpeg CASES FILE...`.
 *
 * Each case is one of the files with bytes changed, cut out, doubled or taken from another; it must decode, or be refused with a
 * sentence, into exactly its place. What has gone wrong is found by the sanitizers that this is built with.
 */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "picture/jpeg/jpeg.h"
#include "unirecord_internal.h"

enum { MOST_FILES = 64, MOST_BYTES = 1 << 17, SIDE = 40 };

typedef struct {
  uint8_t *bytes;
  size_t count;
} file;

static uint64_t state = 1;

static size_t any(size_t count) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (size_t)(state >> 33) % count;
}

static file load(const char *path) {
  static uint8_t room[MOST_BYTES];
  FILE *stream = fopen(path, "rb");
  EXPECT(stream != NULL);
  file found = {.count = fread(room, 1, sizeof room, stream)};
  EXPECT(fclose(stream) == 0);
  EXPECT(found.count > 16);
  found.bytes = malloc(found.count);
  EXPECT(found.bytes != NULL);
  memcpy(found.bytes, room, found.count);
  return found;
}

/* One change; half of them in the first kilobyte, where headers and tables are. */
static size_t change(uint8_t *bytes, size_t count, const file *other) {
  static const uint8_t odd[] = {0x00, 0xFF, 0xD9, 0xDA, 0xC4, 0xDB, 0x7F, 0x80, 0x01, 0x22, 0x44};
  size_t at = any(any(2) == 0 && count > 1024 ? 1024 : count);
  switch (any(6)) {
    case 0: bytes[at] ^= (uint8_t)(1u << any(8)); return count;
    case 1: bytes[at] = (uint8_t)any(256); return count;
    case 2: bytes[at] = odd[any(sizeof odd)]; return count;
    case 3: return any(8) == 0 ? at + 1 : count;
    case 4: {
      size_t gone = any(32) + 1;
      if (gone > count - at) gone = count - at;
      memmove(bytes + at, bytes + at + gone, count - at - gone);
      return count - gone > 0 ? count - gone : 1;
    }
    default: {
      size_t taken = any(64) + 1, from = any(other->count);
      if (taken > count - at) taken = count - at;
      if (taken > other->count - from) taken = other->count - from;
      memcpy(bytes + at, other->bytes + from, taken);
      return count;
    }
  }
}

static ur_picture_options any_options(void) {
  int32_t channels = any(4) == 0 ? 1 : 3;
  return (ur_picture_options){.width = (int32_t)any(SIDE) + 1, .height = (int32_t)any(SIDE) + 1, .channels = channels,
                              .crop = (int32_t)any(3), .orient = (int32_t)any(2), .reduce = (int32_t)any(2), .filter = (int32_t)any(2),
                              .truncated = (int32_t)any(2), .value_bytes = 1, .fraction = 0.6, .flip = 0.5, .least_area = 0.01,
                              .most_area = 1, .least_ratio = 0.3, .most_ratio = 3, .most_pixels = 1 << 18, .pixel_step = channels,
                              .row_step = (int64_t)channels * SIDE, .channel_step = 1};
}

static int place_one(ur_jpeg *decoder, const file *files, size_t count) {
  const file *seed = &files[any(count)];
  static uint8_t bytes[MOST_BYTES];
  size_t length = seed->count;
  memcpy(bytes, seed->bytes, length);
  for (size_t changes = any(8); changes > 0; changes--) length = change(bytes, length, &files[any(count)]);
  uint8_t *own = malloc(length), *out = calloc(SIDE * SIDE * 3, 1);
  EXPECT(own != NULL && out != NULL);
  memcpy(own, bytes, length);
  ur_picture_options options = any_options();
  ur_error error = {.status = UR_OK};
  ur_status status = ur_jpeg_place(decoder, own, length, &options, any(SIZE_MAX), out, &error);
  EXPECT(status == UR_OK || (status == UR_CORRUPT && error.what[0] != 0));
  for (int32_t y = 0; y < SIDE; y++)
    for (int32_t x = 0; x < SIDE * options.channels; x++)
      EXPECT((y < options.height && x < options.width * options.channels) || out[y * options.row_step + x] == 0);
  free(own);
  free(out);
  return status == UR_OK;
}

int main(int count, char **words) {
  EXPECT(count > 2 && count - 2 <= MOST_FILES);
  file files[MOST_FILES];
  for (int i = 2; i < count; i++) files[i - 2] = load(words[i]);
  long cases = atol(words[1]), decoded = 0;
  ur_jpeg *decoder;
  EXPECT(ur_jpeg_new(&decoder, NULL) == UR_OK);
  for (long i = 0; i < cases; i++) decoded += place_one(decoder, files, (size_t)(count - 2));
  ur_jpeg_release(decoder);
  for (int i = 2; i < count; i++) free(files[i - 2].bytes);
  printf("%ld mutated JPEGs: %ld decoded, %ld refused\n", cases, decoded, cases - decoded);
  EXPECT(decoded > 0 && decoded < cases);
  return 0;
}
