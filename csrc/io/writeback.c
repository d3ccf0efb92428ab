/* io/writeback.c - asking the kernel to begin writing a part of a file to the disk, without waiting for it. */
#define _GNU_SOURCE
#include <fcntl.h>

#include "unirecord.h"

void ur_start_writeback(int32_t fd, uint64_t offset, uint64_t bytes) {
#ifdef SYNC_FILE_RANGE_WRITE
  (void)sync_file_range(fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
#else
  (void)fd, (void)offset, (void)bytes;
#endif
}
