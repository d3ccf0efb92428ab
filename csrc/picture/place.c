/* picture/place.c - resizes a rectangle of decoded pixels into its place in a batch.
 *
 * The filters are as wide as the scale, at least one pixel, on centres of pixels: the triangle, which Pillow calls BILINEAR and
 * torchvision bilinear with antialias, and the cubic one that both call bicubic (Keys 1981, a = -1/2). Columns first, row by row of
 * the result, then that row. Weights are whole numbers that sum to 2^16 and 2^13, of the cubic filter to half of these: some are
 * negative there, and all of them without their signs sum to at most 1.27 times as much. Sums stay below 2^24, and so 32-bit floats
 * hold them exactly: in whatever order and with whatever fused operations a machine adds, the result is the same.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "picture/real.h"
#include "unirecord_internal.h"

/* One body for several instruction sets, chosen when the module is loaded; not under sanitizers, which run before the choice
 * can. Named by a feature, since GCC takes "arch=haswell" for that very processor. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((optimize("O3"), target_clones("avx2", "default")))
#else
#define WIDE
#endif
#define INLINED static inline __attribute__((always_inline))

enum { COLUMN_BITS = 16, KEPT_BITS = 3, ROW_BITS = 13, GROUP = 4 };
_Static_assert(8 + COLUMN_BITS <= 24 && 8 + KEPT_BITS + ROW_BITS <= 24, "sums are whole numbers that floats hold");
_Static_assert(-1 >> 1 == -1, "a negative sum is shifted as any other");

/* What each place of the result takes: `taps` pixels from first[i] on, weighted with weights[i * taps ...], which sum to 2^bits. */
typedef struct {
  int32_t count, taps;
  int bits;
  int32_t *first;
  float *weights;
} filter;

/* One axis of the crop in the pixels at hand: [begin, begin + length), which are whole from `low` to `high`. */
typedef struct {
  double begin, length;
  int32_t low, high;
} span;

static span span_of(int32_t crop_begin, int32_t crop_length, int32_t reduction, int32_t begin) {
  int32_t end = crop_begin + crop_length; /* exact: looked at in is_crop */
  return (span){(double)crop_begin / reduction - begin, (double)crop_length / reduction, crop_begin / reduction - begin,
                (end + reduction - 1) / reduction - begin};
}

static double weight_of(bool cubic, double x) {
  if (!cubic) return ur_real_most(0, 1 - x);
  return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/* Whole numbers that sum to 2^bits: each the difference of rounded sums, so that nothing adds up to a shift of brightness. */
static void weigh(const span *s, double center, double reach, bool cubic, int bits, int32_t first, int32_t taps, float *weights) {
  double total = 0, sum = 0, before = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int32_t k = 0; k < taps; k++) {
      double away = first + k + 0.5 - center;
      double weight = first + k < s->high ? weight_of(cubic, (away < 0 ? -away : away) / reach) : 0;
      if (pass == 0) {
        total += weight;
        continue;
      }
      sum += weight;
      double here = ur_real_round(sum / total * (1 << bits));
      weights[k] = (float)(here - before);
      before = here;
    }
  }
}

static bool make_filter(const span *s, int32_t count, bool flipped, bool cubic, int bits, filter *f) {
  double scale = s->length / count, reach = ur_real_most(scale, 1), support = cubic ? 2 * reach : reach;
  int32_t whole = s->high - s->low, taps = ur_real_floor(ur_real_least(2 * support, whole));
  if (taps < whole && 2 * support > taps) taps++; /* pixels whose centres lie less than `support` from any place */
  *f = (filter){count, taps, bits, malloc((size_t)count * sizeof *f->first), malloc((size_t)count * (size_t)taps * sizeof *f->weights)};
  if (f->first == NULL || f->weights == NULL) return false;
  for (int32_t i = 0; i < count; i++) {
    double center = s->begin + (i + 0.5) * scale;
    int32_t first = ur_real_floor(center - support + 0.5);
    if (first > s->high - taps) first = s->high - taps;
    if (first < s->low) first = s->low;
    int32_t place = flipped ? count - 1 - i : i;
    f->first[place] = first;
    weigh(s, center, reach, cubic, bits, first, taps, f->weights + (size_t)place * (size_t)taps); /* exact: inside the array */
  }
  return true;
}

static void drop_filter(filter *f) {
  free(f->first);
  free(f->weights);
}

/* Half up, and without the lowest bits. */
static inline int32_t without(float sum, int dropped) { return ((int32_t)sum + (1 << (dropped - 1))) >> dropped; }

/* sums[i] (+)= weighted bytes of `count` rows, 2 to 4: constants of each place that this is expanded at. `dropped`: the bits that the
 * second pass does without. */
INLINED void add_rows(const uint8_t *const rows[GROUP], const float weights[GROUP], int count, bool begin, bool end, int dropped,
                      size_t n, float *restrict sums) {
  const uint8_t *restrict a = rows[0], *restrict b = rows[1], *restrict c = rows[2], *restrict d = rows[3];
  const float wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
  for (size_t i = 0; i < n; i++) {
    float sum = wa * (float)a[i] + wb * (float)b[i];
    if (count > 2) sum += wc * (float)c[i];
    if (count > 3) sum += wd * (float)d[i];
    if (!begin) sum += sums[i];
    sums[i] = end ? (float)without(sum, dropped) : sum;
  }
}

WIDE static void mix_rows(const uint8_t *const rows[GROUP], const float weights[GROUP], int count, bool begin, bool end, int dropped,
                          size_t n, float *restrict sums) {
  if (begin && end && count <= 2) add_rows(rows, weights, 2, true, true, dropped, n, sums);
  else if (begin && end && count == 3) add_rows(rows, weights, 3, true, true, dropped, n, sums);
  else if (begin && end) add_rows(rows, weights, 4, true, true, dropped, n, sums);
  else if (begin) add_rows(rows, weights, 4, true, false, dropped, n, sums);
  else if (end) add_rows(rows, weights, 4, false, true, dropped, n, sums);
  else add_rows(rows, weights, 4, false, false, dropped, n, sums);
}

static void mix_columns(const ur_pixels *p, const filter *f, int32_t y, size_t offset, size_t n, float *sums) {
  for (int32_t k = 0; k < f->taps; k += GROUP) {
    const uint8_t *rows[GROUP];
    float weights[GROUP];
    int32_t count = f->taps - k < GROUP ? f->taps - k : GROUP;
    for (int32_t j = 0; j < GROUP; j++) {
      int32_t tap = j < count ? k + j : k;
      rows[j] = p->data + (int64_t)(f->first[y] + tap) * p->row_step + offset; /* exact: inside the pixels */
      weights[j] = j < count ? f->weights[(size_t)y * (size_t)f->taps + (size_t)tap] : 0;
    }
    mix_rows(rows, weights, count, k == 0, k + GROUP >= f->taps, f->bits - KEPT_BITS, n, sums);
  }
}

INLINED void mix_grey(const filter *f, const float *sums, int32_t from, int32_t taps, float *restrict row) {
  for (int32_t x = 0; x < f->count; x++) {
    const float *at = sums + (f->first[x] - from), *weights = f->weights + (size_t)x * (size_t)taps;
    float sum = 0;
    for (int32_t k = 0; k < taps; k++) sum += weights[k] * at[k];
    row[x] = sum;
  }
}

/* Four lanes, of which the last is the next pixel's and is written over: `sums` and `row` have room for one value more. */
INLINED void mix_colour(const filter *f, const float *sums, int32_t from, int32_t taps, float *restrict row) {
  typedef float lanes __attribute__((vector_size(16)));
  for (int32_t x = 0; x < f->count; x++) {
    const float *at = sums + (size_t)(f->first[x] - from) * 3, *weights = f->weights + (size_t)x * (size_t)taps;
    lanes sum = {0};
    for (int32_t k = 0; k < taps; k++) {
      lanes pixel;
      memcpy(&pixel, at + 3 * k, sizeof pixel);
      sum += weights[k] * pixel;
    }
    memcpy(row + (size_t)x * 3, &sum, sizeof sum);
  }
}

WIDE static void mix_row(const filter *f, const float *sums, int32_t from, int32_t channels, float *restrict row) {
  if (channels == 1) mix_grey(f, sums, from, f->taps, row);
  else if (f->taps == 2) mix_colour(f, sums, from, 2, row);
  else if (f->taps == 3) mix_colour(f, sums, from, 3, row);
  else if (f->taps == 4) mix_colour(f, sums, from, 4, row);
  else if (f->taps == 6) mix_colour(f, sums, from, 6, row);
  else mix_colour(f, sums, from, f->taps, row);
}

/* The cubic filter overshoots beside an edge. */
WIDE static void round_row(const float *restrict row, int dropped, size_t n, uint8_t *restrict bytes) {
  for (size_t i = 0; i < n; i++) {
    int32_t value = without(row[i], dropped);
    value = value < 0 ? 0 : value;
    bytes[i] = (uint8_t)(value > 255 ? 255 : value);
  }
}

/* Where the stored picture's row y lies in the result, and the step from one of its pixels to the next. */
static uint8_t *place_of(const ur_picture_options *o, const ur_crop *crop, int32_t rows, int32_t y, uint8_t *out, int64_t *step) {
  *step = crop->transposed ? o->row_step : o->pixel_step;
  return out + (crop->flip_y ? rows - 1 - y : y) * (crop->transposed ? o->pixel_step : o->row_step);
}

/* Whether a row of the result is the bytes of a row, one after the other. */
static bool is_packed(const ur_picture_options *o, int32_t channels, int64_t step) {
  return o->values == NULL && channels == o->channels && step == channels && (channels == 1 || o->channel_step == 1);
}

static void write_values(const ur_picture_options *o, const uint8_t *row, int32_t channels, int32_t n, int64_t step, uint8_t *out) {
  size_t width = (size_t)o->value_bytes;
  for (int32_t c = 0; c < o->channels; c++) {
    const uint8_t *from = row + (channels == 1 ? 0 : c);
    uint8_t *to = out + c * o->channel_step;
    const uint8_t *values = o->values == NULL ? NULL : o->values + (size_t)c * 256 * width; /* exact: 2 * 256 * 4 at most */
    if (values == NULL)
      for (int32_t x = 0; x < n; x++) to[x * step] = from[x * channels];
    else if (width == 4)
      for (int32_t x = 0; x < n; x++) memcpy(to + x * step, values + (size_t)from[x * channels] * 4, 4);
    else if (width == 2)
      for (int32_t x = 0; x < n; x++) memcpy(to + x * step, values + (size_t)from[x * channels] * 2, 2);
    else
      for (int32_t x = 0; x < n; x++) to[x * step] = values[from[x * channels]];
  }
}

static bool is_crop(const ur_crop *c) {
  return c->left >= 0 && c->top >= 0 && c->width >= 1 && c->height >= 1 && c->left <= INT32_MAX - 8 - c->width &&
         c->top <= INT32_MAX - 8 - c->height;
}

static bool holds(const ur_picture_options *o, const ur_pixels *p, const span *x, const span *y) {
  bool channels = p->channels == o->channels || p->channels == 1;
  return channels && x->low >= 0 && y->low >= 0 && x->high > x->low && y->high > y->low && x->high <= p->width &&
         y->high <= p->height && p->row_step >= (int64_t)p->width * p->channels; /* exact: 31 bits times 3 */
}

ur_status ur_picture_place(const ur_picture_options *o, const ur_crop *crop, const ur_pixels *p, uint8_t *out, ur_error *error) {
  if (p->reduction != 1 && p->reduction != 2 && p->reduction != 4 && p->reduction != 8)
    return ur_fail(error, UR_ARGUMENT, "pixels at one %dth of their size", p->reduction);
  if (!is_crop(crop)) return ur_fail(error, UR_ARGUMENT, "a crop of %d x %d pixels", crop->width, crop->height);
  span x = span_of(crop->left, crop->width, p->reduction, p->left), y = span_of(crop->top, crop->height, p->reduction, p->top);
  if (!holds(o, p, &x, &y)) return ur_fail(error, UR_ARGUMENT, "the pixels do not hold the crop, or have other channels");
  int32_t width = crop->transposed ? o->height : o->width, height = crop->transposed ? o->width : o->height;
  size_t n = (size_t)(x.high - x.low) * (size_t)p->channels;
  filter across = {0}, down = {0};
  size_t values = (size_t)width * (size_t)p->channels; /* exact: 16 bits times 3 */
  float *sums = malloc((n + 1) * sizeof *sums), *row = malloc((values + 1) * sizeof *row);
  uint8_t *bytes = malloc(values);
  bool cubic = o->filter == UR_FILTER_CUBIC, ready = sums != NULL && row != NULL && bytes != NULL;
  ready = ready && make_filter(&x, width, crop->flip_x != 0, cubic, ROW_BITS - cubic, &across) &&
          make_filter(&y, height, false, cubic, COLUMN_BITS - cubic, &down);
  if (ready) sums[n] = 0;
  for (int32_t i = 0; ready && i < height; i++) {
    int64_t step;
    uint8_t *place = place_of(o, crop, height, i, out, &step);
    mix_columns(p, &down, i, (size_t)x.low * (size_t)p->channels, n, sums);
    mix_row(&across, sums, x.low, p->channels, row);
    bool direct = is_packed(o, p->channels, step);
    round_row(row, across.bits + KEPT_BITS, values, direct ? place : bytes);
    if (!direct) write_values(o, bytes, p->channels, width, step, place);
  }
  drop_filter(&across);
  drop_filter(&down);
  free(sums);
  free(row);
  free(bytes);
  return ready ? UR_OK : ur_fail(error, UR_NO_MEMORY, "no memory to resize a picture");
}
