/* picture/jpeg/jpeg.c - decodes no more of a JPEG than is shown: at a lower scale, without the rows and columns outside of the crop.
 *
 * libjpeg reports an error by a function that must not return; it jumps back into ur_jpeg_place. What it jumps over holds nothing but
 * numbers on the stack: all memory belongs to the ur_jpeg, or to libjpeg, which frees it in jpeg_abort_decompress.
 */
#include "picture/jpeg/jpeg.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/fail.h"
#include "unirecord_internal.h"

/* Chroma is interpolated from the pixels beside; libjpeg takes the edge of what it decodes for that of the picture. */
enum { MARGIN = 2, ROWS_AT_ONCE = 4, KEPT_BYTES = 16 << 20 };

struct ur_jpeg {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  jmp_buf failed;
  char message[JMSG_LENGTH_MAX];
  uint8_t *pixels;
  size_t room;
};

/* What is decoded: a rectangle at the scale of the reduction. */
typedef struct {
  JDIMENSION left, top, width, height;
} region;

static void fail(j_common_ptr info) {
  ur_jpeg *decoder = info->client_data;
  (*info->err->format_message)(info, decoder->message);
  longjmp(decoder->failed, 1);
}

static void say_nothing(j_common_ptr info) { (void)info; }

static void count_warning(j_common_ptr info, int level) {
  if (level < 0) info->err->num_warnings++;
}

ur_status ur_jpeg_new(ur_jpeg **decoder, ur_error *error) {
  ur_jpeg *made = calloc(1, sizeof *made);
  if (made == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a decoder of JPEG");
  made->info.err = jpeg_std_error(&made->errors);
  made->errors.error_exit = fail;
  made->errors.output_message = say_nothing;
  made->errors.emit_message = count_warning;
  made->info.client_data = made;
  if (setjmp(made->failed)) {
    ur_status status = ur_fail(error, UR_NO_MEMORY, "libjpeg cannot be used: %.100s", made->message);
    free(made);
    return status;
  }
  jpeg_create_decompress(&made->info);
  *decoder = made;
  return UR_OK;
}

void ur_jpeg_release(ur_jpeg *decoder) {
  if (decoder == NULL) return;
  jpeg_destroy_decompress(&decoder->info);
  free(decoder->pixels);
  free(decoder);
}

static bool have_room(ur_jpeg *decoder, size_t bytes) {
  if (bytes <= decoder->room) return true;
  free(decoder->pixels);
  decoder->pixels = malloc(bytes);
  decoder->room = decoder->pixels == NULL ? 0 : bytes;
  return decoder->pixels != NULL;
}

/* libjpeg's colours for the options': grey pictures stay grey, and inks are mixed here. */
static void choose_colours(struct jpeg_decompress_struct *info, int32_t channels) {
  if (info->num_components == 4)
    info->out_color_space = JCS_CMYK;
  else if (info->num_components == 1 || channels == 1)
    info->out_color_space = JCS_GRAYSCALE;
  else
    info->out_color_space = JCS_RGB;
}

static uint8_t times(uint32_t a, uint32_t b) {
  uint32_t product = a * b + 128;
  return (uint8_t)((product + (product >> 8)) >> 8);
}

/* Inks as Adobe stores them, 255 for none, to light: what Pillow makes of them, and of light if grey is asked for. */
static void mix_inks(const uint8_t *inks, JDIMENSION n, int32_t channels, uint8_t *pixels) {
  for (JDIMENSION i = 0; i < n; i++, inks += 4, pixels += channels) {
    uint32_t light[3];
    for (int c = 0; c < 3; c++) light[c] = (uint32_t)inks[3] - times(255u - inks[c], inks[3]);
    if (channels == 1)
      pixels[0] = (uint8_t)((light[0] * 19595 + light[1] * 38470 + light[2] * 7471 + 0x8000) >> 16);
    else
      for (int c = 0; c < 3; c++) pixels[c] = (uint8_t)light[c];
  }
}

static JDIMENSION least(JDIMENSION a, JDIMENSION b) { return a < b ? a : b; }

static region region_of(const ur_crop *crop, const struct jpeg_decompress_struct *info) {
  JDIMENSION scale = (JDIMENSION)crop->reduction, left = (JDIMENSION)crop->left / scale, top = (JDIMENSION)crop->top / scale;
  /* exact: a crop lies in a picture of 65,500 pixels a side */
  JDIMENSION right = ((JDIMENSION)(crop->left + crop->width) + scale - 1) / scale;
  JDIMENSION bottom = ((JDIMENSION)(crop->top + crop->height) + scale - 1) / scale;
  left = left > MARGIN ? left - MARGIN : 0;
  right = least(right + MARGIN, info->output_width);
  return (region){left, top, right - left, least(bottom, info->output_height) - top};
}

static ur_status begin(ur_jpeg *decoder, const ur_picture_options *options, const ur_crop *crop, region *r, ur_error *error) {
  struct jpeg_decompress_struct *info = &decoder->info;
  choose_colours(info, options->channels);
  info->scale_num = 1;
  info->scale_denom = (unsigned)crop->reduction;
  (void)jpeg_start_decompress(info);
  *r = region_of(crop, info);
  if (r->width < info->output_width) jpeg_crop_scanline(info, &r->left, &r->width);
  /* exact: two of 16 bits times 4 */
  if (have_room(decoder, (size_t)r->width * (size_t)info->output_components * (size_t)r->height)) return UR_OK;
  return ur_fail(error, UR_NO_MEMORY, "no memory for %u x %u pixels", r->width, r->height);
}

static bool read_rows(ur_jpeg *decoder, const region *r, size_t stride) {
  struct jpeg_decompress_struct *info = &decoder->info;
  if (r->top > 0 && jpeg_skip_scanlines(info, r->top) != r->top) return false;
  for (JDIMENSION done = 0; done < r->height;) {
    JSAMPROW rows[ROWS_AT_ONCE];
    JDIMENSION asked = least(ROWS_AT_ONCE, r->height - done);
    for (JDIMENSION i = 0; i < asked; i++) rows[i] = decoder->pixels + stride * (done + i); /* exact: in the room */
    JDIMENSION got = jpeg_read_scanlines(info, rows, asked);
    if (got == 0) return false;
    done += got;
  }
  return true;
}

static ur_status decode(ur_jpeg *decoder, const ur_jpeg_header *header, const ur_picture_options *options, uint64_t key, uint8_t *out,
                        ur_error *error) {
  struct jpeg_decompress_struct *info = &decoder->info;
  (void)jpeg_read_header(info, TRUE);
  if (info->image_width != (JDIMENSION)header->width || info->image_height != (JDIMENSION)header->height ||
      info->num_components != header->components)
    return ur_fail(error, UR_CORRUPT, "the JPEG's segments contradict each other");
  ur_crop crop;
  region r;
  ur_status status = ur_picture_crop(options, header->width, header->height, header->orientation, key, &crop, error);
  if (status == UR_OK) status = begin(decoder, options, &crop, &r, error);
  if (status != UR_OK) return status;
  size_t stride = (size_t)r.width * (size_t)info->output_components; /* exact: 16 bits times 4 */
  if (!read_rows(decoder, &r, stride)) return ur_fail(error, UR_CORRUPT, "libjpeg gives fewer rows than the JPEG's header says");
  int32_t channels = info->output_components;
  if (channels == 4) {
    channels = options->channels;
    mix_inks(decoder->pixels, r.width * r.height, channels, decoder->pixels); /* exact: two of 16 bits */
    stride = (size_t)r.width * (size_t)channels; /* exact: fewer than before */
  }
  ur_pixels pixels = {decoder->pixels, (int64_t)stride, channels, crop.reduction, (int32_t)r.left, (int32_t)r.top,
                      (int32_t)r.width, (int32_t)r.height};
  return ur_picture_place(options, &crop, &pixels, out, error);
}

ur_status ur_jpeg_place(ur_jpeg *decoder, const uint8_t *data, uint64_t bytes, const ur_picture_options *options, uint64_t key,
                        uint8_t *out, ur_error *error) {
  ur_jpeg_header header;
  ur_status status = ur_jpeg_read_header(data, bytes, &header, error);
  if (status != UR_OK) return status;
  if (!header.complete && !options->truncated)
    return ur_fail(error, UR_CORRUPT, "the JPEG of %d x %d pixels is cut off", header.width, header.height);
  if (setjmp(decoder->failed)) {
    status = ur_fail(error, UR_CORRUPT, "libjpeg: %.140s", decoder->message);
  } else {
    jpeg_mem_src(&decoder->info, data, (unsigned long)bytes);
    status = decode(decoder, &header, options, key, out, error);
  }
  jpeg_abort_decompress(&decoder->info);
  if (decoder->room > KEPT_BYTES) {
    free(decoder->pixels);
    decoder->pixels = NULL;
    decoder->room = 0;
  }
  return status;
}

int64_t ur_jpeg_place_each(ur_jpeg *decoder, ur_jpeg_task *tasks, int64_t count, const ur_picture_options *options) {
  int64_t failed = 0;
  for (int64_t i = 0; i < count; i++) {
    ur_jpeg_task *task = &tasks[i];
    task->status = ur_jpeg_place(decoder, task->data, task->bytes, options, task->key, task->out, NULL);
    failed += task->status != UR_OK;
  }
  return failed;
}
