/* codec/codec.c - stored cells of a compressed column <-> the values that they stand for. */
#include "codec/codec.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"
#include "base/layout.h"
#include "codec/shuffle.h"
#include "codec/zstd.h"
#include "unirecord_internal.h"

#define KEPT_CONTEXTS 64
#define DICTIONARY_TABLES (UINT64_C(64) << 10) /* what a dictionary takes beside its bytes: 27 KiB in libzstd 1.5 */

struct ur_decoder {
  const ur_zstd *zstd;
  void *dictionary; /* or NULL */
  uint32_t width;   /* bytes of an element where they are shuffled, else 1 */
};

struct ur_encoder {
  const ur_zstd *zstd;
  void *dictionary;
  int32_t level;
  uint32_t width;
};

struct ur_codec_context {
  const ur_zstd *zstd;
  void *decompression;
  uint8_t *room; /* for what is to be unshuffled */
  uint64_t room_bytes;
};

ur_status ur_codec_check(int32_t codec, ur_error *error) {
  if (codec == UR_CODEC_PLAIN) return UR_OK;
  if (codec == UR_CODEC_ZSTD || codec == UR_CODEC_SHUFFLE_ZSTD) return ur_zstd_library(error) != NULL ? UR_OK : UR_COLUMN;
  return ur_fail(error, UR_COLUMN, "the column has codec %" PRId32 ", which this version does not know: upgrade unirecord",
                 codec);
}

ur_status ur_column_check(int32_t type, int32_t codec, ur_error *error) {
  if (type < UR_TYPE_LATER_SCALARS) return ur_codec_check(codec, error);
  return ur_fail(error, UR_COLUMN, "the column has type %" PRId32 ", which this version does not know: upgrade unirecord",
                 type);
}

static uint32_t shuffled_width(int32_t codec, uint32_t element_bytes) {
  return codec == UR_CODEC_SHUFFLE_ZSTD && element_bytes > 1 ? element_bytes : 1;
}

/* ---- contexts, kept without a lock: a fork may come at any moment --------------------------------------------------- */

static _Atomic(ur_codec_context *) kept[KEPT_CONTEXTS];

static void free_context(ur_codec_context *context) {
  if (context->decompression != NULL) (void)context->zstd->free_decompression(context->decompression);
  free(context->room);
  free(context);
}

ur_codec_context *ur_codec_context_take(void) {
  for (int i = 0; i < KEPT_CONTEXTS; i++) {
    if (atomic_load_explicit(&kept[i], memory_order_relaxed) == NULL) continue;
    ur_codec_context *found = atomic_exchange(&kept[i], NULL);
    if (found != NULL) return found;
  }
  const ur_zstd *zstd = ur_zstd_library(NULL);
  ur_codec_context *made = zstd == NULL ? NULL : calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->zstd = zstd;
  made->decompression = zstd->new_decompression();
  if (made->decompression != NULL) return made;
  free_context(made);
  return NULL;
}

void ur_codec_context_give(ur_codec_context *context) {
  if (context == NULL) return;
  for (int i = 0; i < KEPT_CONTEXTS; i++) {
    ur_codec_context *none = NULL;
    if (atomic_compare_exchange_strong(&kept[i], &none, context)) return;
  }
  free_context(context);
}

/* Room for `bytes` bytes that are to be unshuffled; NULL without memory. */
static uint8_t *take_room(ur_codec_context *context, uint64_t bytes) {
  if (bytes <= context->room_bytes) return context->room;
  uint8_t *room = malloc(bytes);
  if (room == NULL) return NULL;
  free(context->room);
  context->room = room;
  context->room_bytes = bytes;
  return room;
}

/* ---- decompressing ---------------------------------------------------------------------------------------------- */

/* The library says no more than that it has none: without memory, or of bytes that are no dictionary. Rows are never called
 * corrupt for want of memory. */
static ur_status no_dictionary(uint64_t bytes, ur_error *error) {
  uint64_t needed = 0;
  void *room = ur_add(bytes, DICTIONARY_TABLES, &needed) ? malloc(needed) : NULL;
  free(room);
  if (room == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a dictionary of %" PRIu64 " bytes", bytes);
  return ur_fail(error, UR_CORRUPT, "the dictionary of %" PRIu64 " bytes is none of zstd", bytes);
}

ur_status ur_decoder_new(int32_t codec, uint32_t element_bytes, const uint8_t *dictionary, uint64_t dictionary_bytes,
                         ur_decoder **out, ur_error *error) {
  ur_status status = ur_codec_check(codec, error);
  if (status != UR_OK) return status;
  if (codec == UR_CODEC_PLAIN) return ur_fail(error, UR_ARGUMENT, "plain cells need no decoder");
  ur_decoder *decoder = calloc(1, sizeof *decoder);
  if (decoder == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a decoder");
  decoder->zstd = ur_zstd_library(NULL);
  decoder->width = shuffled_width(codec, element_bytes);
  if (dictionary != NULL) {
    decoder->dictionary = decoder->zstd->new_decompression_dictionary(dictionary, dictionary_bytes);
    if (decoder->dictionary == NULL) {
      free(decoder);
      return no_dictionary(dictionary_bytes, error);
    }
  }
  *out = decoder;
  return UR_OK;
}

void ur_decoder_release(ur_decoder *decoder) {
  if (decoder == NULL) return;
  if (decoder->dictionary != NULL) (void)decoder->zstd->free_decompression_dictionary(decoder->dictionary);
  free(decoder);
}

static ur_status not_a_frame(const ur_decoder *decoder, uint64_t stored_bytes, uint64_t raw_bytes, size_t found,
                             ur_error *error) {
  if (ur_zstd_no_memory(found)) return ur_fail(error, UR_NO_MEMORY, "no memory to decompress %" PRIu64 " bytes", raw_bytes);
  return ur_fail(error, UR_CORRUPT,
                 "the %" PRIu64 " bytes should be a zstd frame of a value of %" PRIu64 " bytes, and are not (%.40s)",
                 stored_bytes, raw_bytes,
                 decoder->zstd->is_error(found) ? decoder->zstd->error_name(found) : "another size");
}

ur_status ur_decode(const ur_decoder *decoder, ur_codec_context *context, const uint8_t *stored, uint64_t stored_bytes,
                    uint8_t *raw, uint64_t raw_bytes, ur_error *error) {
  const ur_zstd *zstd = decoder->zstd;
  if (!ur_codec_sizes_fit(stored_bytes, raw_bytes))
    return ur_fail(error, UR_CORRUPT, "a cell of %" PRIu64 " bytes cannot be a value of %" PRIu64 " bytes", stored_bytes,
                   raw_bytes);
  if (raw_bytes == 0) return UR_OK;
  if (stored_bytes == raw_bytes) {
    memcpy(raw, stored, raw_bytes);
    return UR_OK;
  }
  if (zstd->frame_content_size(stored, stored_bytes) != raw_bytes ||
      zstd->frame_compressed_size(stored, stored_bytes) != stored_bytes)
    return not_a_frame(decoder, stored_bytes, raw_bytes, 0, error);
  uint8_t *to = decoder->width == 1 ? raw : take_room(context, raw_bytes);
  if (to == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to unshuffle %" PRIu64 " bytes", raw_bytes);
  size_t made = decoder->dictionary == NULL
                    ? zstd->decompress(context->decompression, to, raw_bytes, stored, stored_bytes)
                    : zstd->decompress_with(context->decompression, to, raw_bytes, stored, stored_bytes,
                                            decoder->dictionary);
  if (made != raw_bytes) return not_a_frame(decoder, stored_bytes, raw_bytes, made, error);
  if (to != raw) ur_unshuffle(to, raw_bytes, decoder->width, raw);
  return UR_OK;
}

ur_status ur_decoder_decode(const ur_decoder *decoder, const uint8_t *data, const uint64_t *starts,
                            const uint64_t *stored, const uint64_t *raw, size_t count, uint8_t *out, uint8_t *good,
                            ur_error *error) {
  ur_codec_context *context = ur_codec_context_take();
  if (context == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to decompress");
  ur_status status = UR_OK;
  for (size_t i = 0; i < count && (status == UR_OK || status == UR_CORRUPT); i++) {
    /* exact: the caller vouches for the place */
    status = ur_decode(decoder, context, data + starts[i], stored[i], out, raw[i], error);
    good[i] = status == UR_OK;
    if (status == UR_CORRUPT) memset(out, 0, raw[i]);
    out += raw[i]; /* exact: the caller vouches for the room */
  }
  ur_codec_context_give(context);
  return status == UR_NO_MEMORY ? status : UR_OK;
}

/* ---- compressing ------------------------------------------------------------------------------------------------ */

ur_status ur_encoder_new(int32_t codec, uint32_t element_bytes, int32_t level, const uint8_t *dictionary,
                         uint64_t dictionary_bytes, ur_encoder **out, ur_error *error) {
  ur_status status = ur_codec_check(codec, error);
  if (status != UR_OK) return status;
  if (codec == UR_CODEC_PLAIN || level < 1 || level > 22)
    return ur_fail(error, UR_ARGUMENT, "codec %" PRId32 " at level %" PRId32 " is not possible", codec, level);
  ur_encoder *encoder = calloc(1, sizeof *encoder);
  if (encoder == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for an encoder");
  encoder->zstd = ur_zstd_library(NULL);
  encoder->level = level;
  encoder->width = shuffled_width(codec, element_bytes);
  if (dictionary != NULL) {
    encoder->dictionary = encoder->zstd->new_compression_dictionary(dictionary, dictionary_bytes, level);
    if (encoder->dictionary == NULL) {
      free(encoder);
      return ur_fail(error, UR_NO_MEMORY, "no memory for a dictionary of %" PRIu64 " bytes", dictionary_bytes);
    }
  }
  *out = encoder;
  return UR_OK;
}

void ur_encoder_release(ur_encoder *encoder) {
  if (encoder == NULL) return;
  if (encoder->dictionary != NULL) (void)encoder->zstd->free_compression_dictionary(encoder->dictionary);
  free(encoder);
}

/* The longest of the cells, and the sum of all in *total; false on overflow. */
static bool measure(const uint64_t *lengths, size_t count, uint64_t *longest, uint64_t *total) {
  *longest = *total = 0;
  for (size_t i = 0; i < count; i++) {
    if (lengths[i] > *longest) *longest = lengths[i];
    if (!ur_add(*total, lengths[i], total)) return false;
  }
  return true;
}

/* Compresses one cell to `to`, which has room for it as it is; *stored: the bytes that it takes. False without memory. */
static bool encode(const ur_encoder *encoder, void *context, const uint8_t *cell, uint64_t bytes, uint8_t *room,
                   uint8_t *to, uint64_t *stored) {
  *stored = bytes;
  if (bytes == 0) return true;
  const uint8_t *from = cell;
  if (encoder->width > 1) {
    ur_shuffle(cell, bytes, encoder->width, room);
    from = room;
  }
  size_t made = encoder->zstd->compress(context, to, bytes - 1, from, bytes);
  if (ur_zstd_no_memory(made)) return false;
  if (encoder->zstd->is_error(made)) /* it does not become smaller */
    memcpy(to, cell, bytes);
  else
    *stored = made;
  return true;
}

static void *new_compression(const ur_encoder *encoder) {
  const ur_zstd *zstd = encoder->zstd;
  void *context = zstd->new_compression();
  if (context == NULL) return NULL;
  size_t set = zstd->set_parameter(context, UR_ZSTD_DICTIONARY_ID, 0);
  if (!zstd->is_error(set))
    set = encoder->dictionary != NULL ? zstd->use_dictionary(context, encoder->dictionary)
                                      : zstd->set_parameter(context, UR_ZSTD_LEVEL, encoder->level);
  if (!zstd->is_error(set)) return context;
  (void)zstd->free_compression(context);
  return NULL;
}

ur_status ur_encoder_encode(const ur_encoder *encoder, const void *const *cells, const uint64_t *lengths, size_t count,
                            uint8_t *out, uint64_t capacity, uint64_t *stored, ur_error *error) {
  uint64_t longest, total;
  if (!measure(lengths, count, &longest, &total) || capacity < total)
    return ur_fail(error, UR_ARGUMENT, "%" PRIu64 " bytes of room are not enough for the cells", capacity);
  void *context = new_compression(encoder);
  uint8_t *room = encoder->width > 1 ? malloc(longest + 1) : NULL; /* exact: the cells are in memory */
  bool done = context != NULL && (encoder->width == 1 || room != NULL);
  for (size_t i = 0; i < count && done; i++) {
    done = encode(encoder, context, cells[i], lengths[i], room, out, &stored[i]);
    out += stored[i]; /* exact: no more than the cell has */
  }
  free(room);
  if (context != NULL) (void)encoder->zstd->free_compression(context);
  return done ? UR_OK : ur_fail(error, UR_NO_MEMORY, "no memory to compress cells of %" PRIu64 " bytes", longest);
}

ur_status ur_codec_train(int32_t codec, uint32_t element_bytes, const void *const *cells, const uint64_t *lengths,
                         size_t count, uint8_t *dictionary, uint64_t capacity, uint64_t *bytes, ur_error *error) {
  ur_status status = ur_codec_check(codec, error);
  if (status != UR_OK) return status;
  uint32_t width = shuffled_width(codec, element_bytes);
  uint64_t longest, total;
  if (!measure(lengths, count, &longest, &total) || count > UINT32_MAX)
    return ur_fail(error, UR_ARGUMENT, "%zu cells are too many to train on", count);
  uint8_t *samples = malloc(total + 1); /* exact: the cells are in memory */
  if (samples == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for samples of %" PRIu64 " bytes", total);
  uint8_t *at = samples;
  for (size_t i = 0; i < count; i++) {
    ur_shuffle(cells[i], lengths[i], width, at);
    at += lengths[i]; /* exact: inside the samples */
  }
  const ur_zstd *zstd = ur_zstd_library(NULL);
  size_t made = zstd->train(dictionary, capacity, samples, (const size_t *)(const void *)lengths, (unsigned)count);
  *bytes = zstd->is_train_error(made) ? 0 : made;
  free(samples);
  return ur_zstd_no_memory(made) ? ur_fail(error, UR_NO_MEMORY, "no memory to train a dictionary") : UR_OK;
}
