/* dataset/pieces.h - files that list many parts of a dataset: docs/spec/format.md, "Pieces". Internal. */
#ifndef UR_PIECES_H
#define UR_PIECES_H

#include "dataset/manifest.h"

/* A piece in memory, its head and its length checked. */
typedef struct {
  uint8_t *content;
  uint64_t bytes;
  uint32_t parts, files, laid_out, deletions, patches;
} ur_piece;

/* Reads the piece of this digest, in 32 hex digits, from the folder, whose path ends with a slash, and has it list so many
 * parts and rows of this dataset. To be released with free(piece->content), whatever comes of it. UR_NOT_FOUND, UR_CORRUPT,
 * UR_FORMAT, UR_NO_MEMORY. */
ur_status ur_piece_read(const char *folder, const char *digest, uint64_t parts, uint64_t rows, const uint8_t id[UR_ID_BYTES],
                        ur_piece *piece, ur_error *error);

/* Puts its parts behind those of the manifest, which has room for them and has its layouts. UR_FORMAT where they cannot be. */
ur_status ur_piece_take(const ur_piece *piece, const char *digest, uint64_t next_part, ur_manifest *manifest, ur_error *error);

#endif
