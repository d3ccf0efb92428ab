/* codec/shuffle.h - the bytes of an array by their place in an element, which zstd makes smaller. Internal. */
#ifndef UR_CODEC_SHUFFLE_H
#define UR_CODEC_SHUFFLE_H

#include <stdint.h>

/* to = the first bytes of all elements of `width` bytes, then their second bytes, and so on; what is left over at the end
 * stays where it is. The two do not overlap. */
void ur_shuffle(const uint8_t *from, uint64_t bytes, uint32_t width, uint8_t *to);
void ur_unshuffle(const uint8_t *from, uint64_t bytes, uint32_t width, uint8_t *to);

#endif
