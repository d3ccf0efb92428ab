/* picture/crop.c - which rectangle of a picture is shown, and which way round: a function of its size, the options and a key. */
#include <stdbool.h>

#include "base/fail.h"
#include "picture/real.h"
#include "unirecord_internal.h"

enum { TRIES = 10, MOST_SIDE = 65535 };

static uint64_t next_number(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15); /* SplitMix64: Steele, Lea, Flood 2014 */
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

static double uniform(uint64_t *state, double low, double high) {
  return low + (high - low) * ((double)(next_number(state) >> 11) * 0x1p-53);
}

/* One of 0 .. most. */
static int32_t any_of(uint64_t *state, int32_t most) {
  return (int32_t)(((next_number(state) >> 32) * ((uint64_t)most + 1)) >> 32);
}

static bool in_range(double low, double high, double most) { return low > 0 && low <= high && high <= most; }

static ur_status check(const ur_picture_options *o, ur_error *error) {
  bool sides = o->width >= 1 && o->width <= MOST_SIDE && o->height >= 1 && o->height <= MOST_SIDE;
  bool crops = (o->crop == UR_CROP_NONE) || (o->crop == UR_CROP_CENTER && in_range(o->fraction, o->fraction, 1)) ||
               (o->crop == UR_CROP_RANDOM && in_range(o->least_area, o->most_area, 1) &&
                in_range(o->least_ratio, o->most_ratio, 1e6));
  bool values = o->values == NULL ? o->value_bytes == 1 : o->value_bytes == 1 || o->value_bytes == 2 || o->value_bytes == 4;
  bool steps = o->row_step >= o->value_bytes && o->pixel_step >= o->value_bytes && o->channel_step >= o->value_bytes;
  bool filters = o->filter == UR_FILTER_TRIANGLE || o->filter == UR_FILTER_CUBIC;
  bool rest = filters && (o->channels == 1 || o->channels == 3) && o->flip >= 0 && o->flip <= 1 && o->most_pixels >= 1;
  if (sides && crops && values && steps && rest) return UR_OK;
  return ur_fail(error, UR_ARGUMENT, "these options of a picture are out of range");
}

static int32_t rounded(double value) { return (int32_t)ur_real_round(value); }

static void center(ur_crop *crop, int32_t width, int32_t height, double crop_width, double crop_height) {
  crop->width = rounded(ur_real_least(ur_real_most(crop_width, 1), width));
  crop->height = rounded(ur_real_least(ur_real_most(crop_height, 1), height));
  crop->left = (width - crop->width) / 2;
  crop->top = (height - crop->height) / 2;
}

/* RandomResizedCrop.get_params of torchvision 0.20, with other random numbers. */
static void random_crop(const ur_picture_options *o, int32_t width, int32_t height, uint64_t *state, ur_crop *crop) {
  double area = (double)width * height; /* exact: two of 31 bits */
  double low = ur_real_log(o->least_ratio), high = ur_real_log(o->most_ratio);
  for (int i = 0; i < TRIES; i++) {
    double target = area * uniform(state, o->least_area, o->most_area);
    double ratio = ur_real_exp(uniform(state, low, high));
    double w = ur_real_round(ur_real_sqrt(target * ratio)), h = ur_real_round(ur_real_sqrt(target / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    crop->width = (int32_t)w;
    crop->height = (int32_t)h;
    crop->top = any_of(state, height - crop->height);
    crop->left = any_of(state, width - crop->width);
    return;
  }
  double ratio = (double)width / height;
  if (ratio < o->least_ratio)
    center(crop, width, height, width, width / o->least_ratio);
  else if (ratio > o->most_ratio)
    center(crop, width, height, height * o->most_ratio, height);
  else
    center(crop, width, height, width, height);
}

/* From the picture as it is shown to the picture as it is stored. */
static void turn(ur_crop *crop, int32_t width, int32_t height, int32_t orientation, bool mirrored) {
  crop->transposed = orientation >= 5;
  crop->flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  crop->flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  if (crop->transposed) {
    ur_crop shown = *crop;
    crop->left = shown.top, crop->top = shown.left;
    crop->width = shown.height, crop->height = shown.width;
  }
  if (crop->flip_x) crop->left = width - crop->left - crop->width;
  if (crop->flip_y) crop->top = height - crop->top - crop->height;
  if (mirrored && crop->transposed) crop->flip_y ^= 1;
  if (mirrored && !crop->transposed) crop->flip_x ^= 1;
}

/* The most that leaves at least as many pixels as the result has. */
static int32_t reduction(const ur_picture_options *o, const ur_crop *crop) {
  int32_t wide = crop->transposed ? o->height : o->width, high = crop->transposed ? o->width : o->height;
  int32_t most = 1;
  while (o->reduce && most < 8 && crop->width / (2 * most) >= wide && crop->height / (2 * most) >= high) most *= 2;
  return most;
}

ur_status ur_picture_crop(const ur_picture_options *o, int32_t width, int32_t height, int32_t orientation, uint64_t key,
                          ur_crop *crop, ur_error *error) {
  ur_status status = check(o, error);
  if (status != UR_OK) return status;
  if (width < 1 || height < 1) return ur_fail(error, UR_CORRUPT, "the picture has %d x %d pixels", width, height);
  if ((int64_t)width * height > o->most_pixels) /* exact: two of 31 bits */
    return ur_fail(error, UR_CORRUPT, "the picture has %d x %d pixels, more than the %lld that are allowed", width, height,
                   (long long)o->most_pixels);
  int32_t shown_as = o->orient && orientation >= 2 && orientation <= 8 ? orientation : 1;
  int32_t wide = shown_as >= 5 ? height : width, high = shown_as >= 5 ? width : height;
  uint64_t state = key;
  bool mirrored = uniform(&state, 0, 1) < o->flip;
  ur_crop found = {.width = wide, .height = high};
  if (o->crop == UR_CROP_RANDOM) random_crop(o, wide, high, &state, &found);
  if (o->crop == UR_CROP_CENTER) {
    double ratio = (double)o->width / o->height;
    center(&found, wide, high, o->fraction * ur_real_least(wide, high * ratio), o->fraction * ur_real_least(high, wide / ratio));
  }
  turn(&found, width, height, shown_as, mirrored);
  found.reduction = reduction(o, &found);
  *crop = found;
  return UR_OK;
}
