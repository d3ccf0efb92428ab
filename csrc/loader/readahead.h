/* loader/readahead.h - reads the data files of a pass into the page cache front to back, before its first batch. Internal.
 *
 * Small rows in random order bring a file in page by page, at a fraction of the rate at which a disk gives it in its own
 * order. Beside each other, the two are in each other's way: so what a pass is going to need is read first, for a while.
 */
#ifndef UR_READAHEAD_H
#define UR_READAHEAD_H

#include <stdatomic.h>

#include "loader/fill.h"

/* Where rows are small, out of memory and from all over files that fit in memory: reads these until all is there, a second
 * has passed, or *stopped is not 0. Failures are left to the batches. */
void ur_read_ahead(const ur_filler *filler, ur_scratch *s, const _Atomic int *stopped);

#endif
