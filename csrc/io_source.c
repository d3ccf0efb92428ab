/* io_source.c - one open data file seen through one way of reading: which one, and whether it is still the file it was. */
#include <stdlib.h>

#include "fail.h"
#include "io.h"

void ur_source_close(ur_source *source) {
  if (source == NULL) return;
  source->ops->close(source);
  ur_file_close(source->fd);
  free(source);
}

bool ur_source_wants_advice(ur_source *source) {
  int calm = atomic_load_explicit(&source->calm, memory_order_relaxed);
  if (calm == 0) return true;
  atomic_store_explicit(&source->calm, calm - 1, memory_order_relaxed);
  return false;
}

ur_status ur_source_check(const ur_source *source, ur_error *error) {
  if (source->fd < 0) return UR_OK;
  return ur_file_check(source->fd, UR_FILE_DATA, source->bytes, &source->modified, error);
}

ur_status ur_source_open(int fd, uint64_t bytes, struct timespec modified, int32_t io, ur_source **source,
                         ur_error *error) {
  ur_source *opened = calloc(1, sizeof *opened);
  if (opened == NULL) {
    ur_file_close(fd);
    return ur_fail(error, UR_NO_MEMORY, "no memory for an open file");
  }
  opened->fd = fd;
  opened->direct_fd = -1;
  opened->bytes = bytes;
  opened->modified = modified;
  opened->io = io;
  ur_status status;
  switch (opened->io) {
    case UR_IO_MAP: status = ur_map_open(opened, error); break;
    case UR_IO_MEMORY: status = ur_memory_open(opened, error); break;
    case UR_IO_PREAD: status = ur_pread_open(opened, error); break;
    default: status = ur_uring_open(opened, error); break;
  }
  if (status != UR_OK) {
    ur_file_close(opened->fd);
    free(opened);
    return status;
  }
  *source = opened;
  return UR_OK;
}
