/* codec/codec.h - stored cells of a compressed column <-> the values that they stand for. Internal. */
#ifndef UR_CODEC_H
#define UR_CODEC_H

#include <stdbool.h>

#include "base/layout.h"
#include "unirecord_internal.h"

/* Whether a cell of `stored` bytes can be a value of `raw` bytes: equal sizes say that it is stored as it is, and no frame is
 * as large as its value, or becomes more than 2^15 times as large. */
static inline bool ur_codec_sizes_fit(uint64_t stored, uint64_t raw) {
  return stored == raw || (stored < raw && raw >> UR_MAX_EXPANSION_BITS <= stored && stored > 0);
}

/* What decompressing takes, for one thread at a time; they are kept when they are given back. NULL without memory. */
typedef struct ur_codec_context ur_codec_context;
ur_codec_context *ur_codec_context_take(void);
void ur_codec_context_give(ur_codec_context *context);

/* Decompresses one cell to exactly `raw_bytes` bytes; UR_CORRUPT when it is no single frame of that content, of which a frame
 * whose header says another size is told before any of it is decompressed. */
ur_status ur_decode(const ur_decoder *decoder, ur_codec_context *context, const uint8_t *stored, uint64_t stored_bytes,
                    uint8_t *raw, uint64_t raw_bytes, ur_error *error);

#endif
