/* io/append.c - many pieces of memory to the end of a file, and asking the kernel to begin writing them to the disk. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include "unirecord_internal.h"

/* Of a system call: with a megabyte at a time, ext4 took up to three times as long (docs/performance.md). */
enum { CALL_BYTES = 128 << 10, CALL_PIECES = 1024 /* IOV_MAX of Linux */ };

int32_t ur_append(int32_t fd, const void *const *pieces, const uint64_t *lengths, size_t count, uint64_t *written) {
  struct iovec call[CALL_PIECES];
  size_t piece = 0;
  uint64_t done = 0; /* of this piece */
  *written = 0;
  while (piece < count) {
    int n = 0;
    uint64_t room = CALL_BYTES;
    while (piece < count && room > 0 && n < CALL_PIECES) {
      uint64_t bytes = lengths[piece] - done < room ? lengths[piece] - done : room;
      /* writev only reads what it is given */
      if (bytes > 0) call[n++] = (struct iovec){(void *)((uintptr_t)pieces[piece] + (uintptr_t)done), (size_t)bytes};
      room -= bytes;
      done += bytes; /* exact: what is left of this piece */
      if (done == lengths[piece]) {
        piece++;
        done = 0;
      }
    }
    if (n == 0) break;
    ssize_t took = writev(fd, call, n);
    if (took < 0) return *written > 0 ? 0 : errno;
    *written += (uint64_t)took;
    if ((uint64_t)took < CALL_BYTES - room) break;
  }
  return 0;
}

/* ---- what the disk is told ------------------------------------------------------------------------------------- */

void ur_start_writeback(int32_t fd, uint64_t offset, uint64_t bytes) {
#ifdef SYNC_FILE_RANGE_WRITE
  (void)sync_file_range(fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
#else
  (void)fd, (void)offset, (void)bytes;
#endif
}
