/* codec/zstd.h - the few functions of libzstd's stable API (1.4.0 and later) that are used, found at run time. Internal. */
#ifndef UR_CODEC_ZSTD_H
#define UR_CODEC_ZSTD_H

#include <stdbool.h>

#include "unirecord.h"

enum { UR_ZSTD_LEVEL = 100, UR_ZSTD_DICTIONARY_ID = 202 }; /* ZSTD_c_compressionLevel, ZSTD_c_dictIDFlag */

/* Contexts and dictionaries are opaque; sizes that are errors are told by is_error. */
typedef struct {
  unsigned (*version_number)(void);
  unsigned (*is_error)(size_t code);
  const char *(*error_name)(size_t code);

  void *(*new_decompression)(void);
  size_t (*free_decompression)(void *context);
  void *(*new_decompression_dictionary)(const void *dictionary, size_t bytes);
  size_t (*free_decompression_dictionary)(void *dictionary);
  unsigned long long (*frame_content_size)(const void *frame, size_t bytes);
  size_t (*frame_compressed_size)(const void *frame, size_t bytes);
  size_t (*decompress)(void *context, void *to, size_t room, const void *from, size_t bytes);
  size_t (*decompress_with)(void *context, void *to, size_t room, const void *from, size_t bytes, const void *dictionary);

  void *(*new_compression)(void);
  size_t (*free_compression)(void *context);
  void *(*new_compression_dictionary)(const void *dictionary, size_t bytes, int level);
  size_t (*free_compression_dictionary)(void *dictionary);
  size_t (*set_parameter)(void *context, int parameter, int value);
  size_t (*use_dictionary)(void *context, const void *dictionary);
  size_t (*compress)(void *context, void *to, size_t room, const void *from, size_t bytes);

  size_t (*train)(void *dictionary, size_t room, const void *samples, const size_t *sizes, unsigned count);
  unsigned (*is_train_error)(size_t code);
} ur_zstd;

/* Whether a size is the error of an allocation that failed: ZSTD_error_memory_allocation of zstd_errors.h. */
static inline bool ur_zstd_no_memory(size_t code) { return code == (size_t)-64; }

/* The library, loaded by the first call; NULL with UR_COLUMN in `error` when there is none, which is not tried again. */
const ur_zstd *ur_zstd_library(ur_error *error);

#endif
