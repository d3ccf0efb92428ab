/* base/copy.h - copies of large cells into batches that will not fit a cache. Internal. */
#ifndef UR_COPY_H
#define UR_COPY_H

#include <stddef.h>
#include <stdint.h>

/* From here on a cell of a large batch is worth streaming past the caches. */
#define UR_STREAM_CELL (16u << 10)
#define UR_STREAM_BATCH (8u << 20)

/* Bytes between asking for a line of the source and copying it, into the second cache. Measured: asked for into the first
 * cache alone (_MM_HINT_NTA), random rows of 150 KB were copied at 0.9 of memcpy's rate on an Intel Xeon of 2024, this way
 * at 1.7; half the distance cost a tenth. */
#define UR_STREAM_AHEAD 2048u

/* memcpy whose stores go past the caches where the processor can: without them, each line of the destination is read
 * before it is overwritten, and pushes out what is still needed. The ranges must not overlap. */
void ur_copy_streaming(void *to, const void *from, size_t bytes);

/* The same piece by piece: with each line, the one that lies `ahead` bytes behind it in the source begins to be loaded
 * (0: none). After the last piece, ur_copy_settle makes all of them seen by threads that hear of them afterwards. */
void ur_copy_piece(void *to, const void *from, size_t bytes, size_t ahead);
void ur_copy_settle(void);

#if defined(__x86_64__) && defined(__GNUC__)
/* The ways that ur_copy_piece chooses between, for its test: `to` stands at a multiple of 64, and `bytes` is one. */
void ur_stream_sse2(uint8_t *to, const uint8_t *from, size_t bytes, size_t ahead);
void ur_stream_avx512(uint8_t *to, const uint8_t *from, size_t bytes, size_t ahead);
#endif

#endif
