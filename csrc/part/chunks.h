/* part/chunks.h - cells that are cut into chunks: where the chunks of one lie, and whether their bytes are right. Internal. */
#ifndef UR_CHUNKS_H
#define UR_CHUNKS_H

#include "codec/codec.h"
#include "part/grid.h"
#include "part/part.h"

/* A cell of such a column, of which the index has a table: one of more than one chunk. */
typedef struct {
  ur_part *part;
  ur_column *column;
  uint64_t row;
  ur_grid grid;     /* of its value */
  uint64_t bytes;   /* of the cell */
  uint64_t first;   /* number of its first chunk in the sections of the column */
} ur_chunked;

/* How the values of a column are cut, read when it is first asked for; the part's own. */
ur_status ur_column_grid(ur_part *part, ur_column *column, const ur_grid **grid, ur_error *error);

/* The cell of `bytes` bytes of `row`, a value of `raw` bytes. *table: whether there is a table; else the cell is its only chunk. */
ur_status ur_chunked_open(ur_part *part, uint64_t row, ur_column *column, uint64_t bytes, uint64_t raw, bool *table,
                          ur_chunked *cell, ur_error *error);

/* Where a chunk lies: `place` from the beginning of the cell on, and inside it. at, sizes: as ur_grid_chunk has them. */
ur_status ur_chunk_locate(const ur_chunked *cell, uint64_t number, const uint64_t *at, const uint64_t *sizes, uint64_t raw,
                          ur_extent *place, ur_error *error);

/* Whether the digest of a chunk need not be compared; and comparing it, of a chunk at `offset` of the data file. */
bool ur_chunk_is_checked(const ur_chunked *cell, uint64_t number);
ur_status ur_chunk_check(const ur_chunked *cell, uint64_t number, const uint8_t *bytes, uint64_t size, uint64_t offset,
                         ur_error *error);

/* Puts the chunks of a whole cell together to its value. decoder, context: NULL where they are not compressed. `streams`:
 * whether the stores go past the caches (base/copy.h). */
ur_status ur_chunks_join(const ur_chunked *cell, const ur_decoder *decoder, ur_codec_context *context, bool streams,
                         const uint8_t *stored, uint8_t *value, ur_error *error);

/* What a column has noted of its chunks. */
void ur_chunks_free(ur_part *part, ur_column *column);

#endif
