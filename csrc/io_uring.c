/* io_uring.c - reading through io_uring, where the kernel allows it. */
#include "io.h"

ur_status ur_uring_open(ur_source *source, const char *path, ur_error *error) {
  (void)path;
  return ur_pread_open(source, error);
}
