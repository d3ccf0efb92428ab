/* dataset/deletions.h - which rows of a part have been deleted, as the file says that a manifest names. Internal. */
#ifndef UR_DELETIONS_H
#define UR_DELETIONS_H

#include "dataset/manifest.h"

/* Reads the file of deleted rows at `path`, and clears the bits of these rows in `live`, of which bit `first` is row 0 of the
 * part. UR_CORRUPT where the file is not what the manifest says. */
ur_status ur_deletions_apply(const char *path, const ur_named_deletion *deletion, const ur_listed_part *part, int64_t first,
                             uint64_t *live, ur_error *error);

/* Reads a whole file of at most `most` bytes into memory from malloc(); its descriptor stays open at *fd. Errors say `name`. */
ur_status ur_read_whole(const char *path, const char *name, uint64_t most, uint8_t **content, uint64_t *bytes, int *fd,
                        ur_error *error);

#endif
