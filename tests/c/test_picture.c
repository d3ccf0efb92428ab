/* test_picture.c - headers, crops and resizing of pictures: any bytes, any options, nothing beside the place is touched. */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "unirecord_internal.h"

enum { CASES = 20000, MOST_BYTES = 400 };

static uint64_t state = 1;

static uint32_t any(uint32_t count) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((state >> 33) % count);
}

/* Bytes in memory of their own length, so that one too far is seen. */
static void read_any_header(const uint8_t *bytes, size_t count) {
  uint8_t *own = malloc(count == 0 ? 1 : count);
  EXPECT(own != NULL);
  if (count > 0) memcpy(own, bytes, count);
  ur_jpeg_header header = {0};
  ur_error error;
  if (ur_jpeg_read_header(own, count, &header, &error) == UR_OK) {
    EXPECT(header.width >= 1 && header.height >= 1 && header.orientation >= 1 && header.orientation <= 8);
    EXPECT(!header.complete || (uint64_t)header.width * (uint64_t)header.height <= (uint64_t)count * 512);
  } else {
    EXPECT_EQUAL(error.status, UR_CORRUPT);
    EXPECT(error.what[0] != 0);
    EXPECT_EQUAL(header.width, 0);
  }
  free(own);
}

static void test_headers(void) {
  static const uint8_t seed[] = {
      0xFF, 0xD8, 0xFF, 0xE1, 0,    34,  'E', 'x', 'i', 'f', 0,   0,    'I', 'I', 42, 0, 8, 0, 0,    0,    1,
      0,    0x12, 1,    3,    0,    1,   0,   0,   0,   6,   0,   0,    0,   0,   0,  0, 0, 0xFF, 0xC2, 0,   17,
      8,    0,    20,   0,    30,   3,   1,   34,  0,   2,   17,  1,    3,   17,  1,  0xFF, 0xDA, 0,    8,    1,
      1,    0,    0,    63,   0,    1,   2,   3,   4,   0xFF, 0, 0xFF, 0xD9};
  ur_jpeg_header header;
  EXPECT_EQUAL(ur_jpeg_read_header(seed, sizeof seed, &header, NULL), UR_OK);
  EXPECT_EQUAL(header.width, 30);
  EXPECT_EQUAL(header.height, 20);
  EXPECT_EQUAL(header.orientation, 6);
  EXPECT(header.complete);
  for (size_t end = 0; end <= sizeof seed; end++) read_any_header(seed, end);
  for (int i = 0; i < CASES; i++) {
    uint8_t bytes[MOST_BYTES];
    size_t count = any(4) == 0 ? any(MOST_BYTES) : sizeof seed;
    for (size_t j = 0; j < count; j++) bytes[j] = j < sizeof seed ? seed[j] : (uint8_t)any(256);
    for (uint32_t change = any(6); change > 0 && count > 0; change--)
      bytes[any((uint32_t)count)] = any(2) == 0 ? 0xFF : (uint8_t)any(256);
    read_any_header(bytes, count);
  }
}

static ur_picture_options any_options(void) {
  ur_picture_options o = {.width = (int32_t)any(40) + 1, .height = (int32_t)any(40) + 1, .channels = any(2) == 0 ? 1 : 3,
                          .crop = (int32_t)any(3), .orient = (int32_t)any(2), .reduce = (int32_t)any(2), .value_bytes = 1, .filter = (int32_t)any(2),
                          .fraction = 0.5, .flip = 0.5, .least_area = 0.01, .most_area = 1, .least_ratio = 0.3, .most_ratio = 3,
                          .most_pixels = 1 << 20};
  if (any(2) == 0) {
    o.channel_step = o.value_bytes, o.pixel_step = o.channel_step * o.channels, o.row_step = o.pixel_step * o.width;
  } else {
    o.pixel_step = o.value_bytes, o.row_step = o.pixel_step * o.width, o.channel_step = o.row_step * o.height;
  }
  return o;
}

/* Pixels in memory of their own, whose brightness stays: a picture of one grey is one grey at every size. */
static void place_one(void) {
  ur_picture_options o = any_options();
  int32_t width = (int32_t)any(200) + 1, height = (int32_t)any(200) + 1;
  ur_crop crop;
  EXPECT_EQUAL(ur_picture_crop(&o, width, height, (int32_t)any(10), any(UINT32_MAX), &crop, NULL), UR_OK);
  EXPECT(crop.left >= 0 && crop.top >= 0 && crop.width >= 1 && crop.height >= 1);
  EXPECT(crop.left + crop.width <= width && crop.top + crop.height <= height);
  int32_t scale = crop.reduction, channels = any(2) == 0 ? 1 : o.channels;
  ur_pixels pixels = {.channels = channels, .reduction = scale, .width = (width + scale - 1) / scale, .height = (height + scale - 1) / scale};
  pixels.row_step = (int64_t)pixels.width * channels;
  size_t in = (size_t)pixels.row_step * (size_t)pixels.height, out = (size_t)(o.width * o.height * o.channels);
  uint8_t *from = malloc(in), *to = malloc(out), value = (uint8_t)any(256);
  EXPECT(from != NULL && to != NULL);
  memset(from, value, in);
  memset(to, value + 1, out);
  pixels.data = from;
  EXPECT_EQUAL(ur_picture_place(&o, &crop, &pixels, to, NULL), UR_OK);
  for (size_t i = 0; i < out; i++) EXPECT_EQUAL(to[i], value);
  free(from);
  free(to);
}

/* Black and white drive sums as far as they go: a negative must give the negative. */
static void place_extremes(void) {
  ur_picture_options o = any_options();
  o.crop = UR_CROP_NONE, o.channels = 1, o.reduce = o.orient = 0, o.flip = 0, o.filter = UR_FILTER_CUBIC;
  o.row_step = o.width, o.pixel_step = o.channel_step = 1;
  int32_t width = o.width + (int32_t)any(60), height = o.height + (int32_t)any(60), period = (int32_t)any(4) + 1;
  uint8_t from[100 * 100], turned[100 * 100], to[40 * 40], back[40 * 40];
  for (int32_t y = 0; y < height; y++)
    for (int32_t x = 0; x < width; x++)
      from[y * width + x] = (period == 4 ? any(2) == 0 : (x / period + y / period) % 2 == 0) ? 255 : 0;
  for (int32_t i = 0; i < width * height; i++) turned[i] = (uint8_t)(255 - from[i]);
  ur_crop crop;
  EXPECT_EQUAL(ur_picture_crop(&o, width, height, 1, 0, &crop, NULL), UR_OK);
  ur_pixels pixels = {.data = from, .row_step = width, .channels = 1, .reduction = 1, .width = width, .height = height};
  EXPECT_EQUAL(ur_picture_place(&o, &crop, &pixels, to, NULL), UR_OK);
  pixels.data = turned;
  EXPECT_EQUAL(ur_picture_place(&o, &crop, &pixels, back, NULL), UR_OK);
  for (int32_t i = 0; i < o.width * o.height; i++) EXPECT(to[i] + back[i] >= 254 && to[i] + back[i] <= 256);
}

static void test_what_is_refused(void) {
  ur_picture_options o = any_options(), wrong = o;
  ur_crop crop;
  ur_error error;
  wrong.channels = 2;
  EXPECT_EQUAL(ur_picture_crop(&wrong, 9, 9, 1, 0, &crop, &error), UR_ARGUMENT);
  wrong = o, wrong.filter = 2;
  EXPECT_EQUAL(ur_picture_crop(&wrong, 9, 9, 1, 0, &crop, &error), UR_ARGUMENT);
  wrong = o, wrong.width = 0;
  EXPECT_EQUAL(ur_picture_crop(&wrong, 9, 9, 1, 0, &crop, &error), UR_ARGUMENT);
  wrong = o, wrong.value_bytes = 4;
  EXPECT_EQUAL(ur_picture_crop(&wrong, 9, 9, 1, 0, &crop, &error), UR_ARGUMENT);
  EXPECT_EQUAL(ur_picture_crop(&o, 0, 9, 1, 0, &crop, &error), UR_CORRUPT);
  EXPECT_EQUAL(ur_picture_crop(&o, INT32_MAX, INT32_MAX, 1, 0, &crop, &error), UR_CORRUPT);
  uint8_t bytes[27] = {0}, out[3 * 40 * 40];
  EXPECT_EQUAL(ur_picture_crop(&o, 9, 9, 1, 0, &crop, &error), UR_OK);
  crop.left = crop.top = 0, crop.width = 9, crop.height = 9;
  ur_pixels pixels = {.data = bytes, .row_step = 3, .channels = 1, .reduction = 1, .width = 3, .height = 9};
  EXPECT_EQUAL(ur_picture_place(&o, &crop, &pixels, out, &error), UR_ARGUMENT);
  pixels.reduction = 3;
  EXPECT_EQUAL(ur_picture_place(&o, &crop, &pixels, out, &error), UR_ARGUMENT);
}

int main(void) {
  test_headers();
  for (int i = 0; i < CASES / 4; i++) place_one();
  for (int i = 0; i < CASES / 4; i++) place_extremes();
  test_what_is_refused();
  return 0;
}
