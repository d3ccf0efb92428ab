/* picture/jpeg/jpeg.h - the interface of an optional unit that decodes JPEG with libjpeg-turbo: no more of a picture than is shown.
 *
 * What unirecord.h promises holds here too. A unit of its own, because it needs libjpeg-turbo (1.5 or newer, with its headers); the
 * core does not. It is built from csrc/picture and csrc/base/fail.c.
 */
#ifndef UNIRECORD_PICTURE_JPEG_H
#define UNIRECORD_PICTURE_JPEG_H

#include "unirecord_internal.h"

/* cdef begin */

/* libjpeg's state and the memory for pixels, kept from one picture to the next; one call at a time, on any thread. */
typedef struct ur_jpeg ur_jpeg;

UR_API ur_status ur_jpeg_new(ur_jpeg **decoder, ur_error *error);
UR_API void ur_jpeg_release(ur_jpeg *decoder); /* NULL is allowed */

/* Decodes the rows and columns of `data` that its crop (ur_picture_crop with `key`) needs, and writes them to `out` as
 * ur_picture_place does. UR_CORRUPT, with a sentence, for what ur_jpeg_read_header or ur_picture_crop refuses, for a picture without its
 * end unless options->truncated, and for what libjpeg cannot decode; damage that libjpeg decodes around is no error. On failure
 * `out` holds anything. */
UR_API ur_status ur_jpeg_place(ur_jpeg *decoder, const uint8_t *data, uint64_t bytes, const ur_picture_options *options,
                               uint64_t key, uint8_t *out, ur_error *error);

/* One picture of several: what ur_jpeg_place is given, and the status that it gave. */
typedef struct {
  const uint8_t *data;
  uint64_t bytes, key;
  uint8_t *out;
  int32_t status;
} ur_jpeg_task;

/* ur_jpeg_place for each of `count` tasks, one behind the other; a failure leaves the others alone. How many have failed; what a
 * failure is about says ur_jpeg_place. */
UR_API int64_t ur_jpeg_place_each(ur_jpeg *decoder, ur_jpeg_task *tasks, int64_t count, const ur_picture_options *options);

/* cdef end */

#endif
