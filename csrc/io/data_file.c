/* io/data_file.c - one open data file seen through one way of reading: which one, and whether it is still the file it was. */
#include <stdlib.h>

#include "base/fail.h"
#include "io/io.h"

void ur_data_file_close(ur_data_file *file) {
  if (file == NULL) return;
  file->ops->close(file);
  ur_file_close(file->fd);
  free(file);
}

bool ur_data_file_wants_advice(ur_data_file *file) {
  int calm = atomic_load_explicit(&file->calm, memory_order_relaxed);
  if (calm == 0) return true;
  atomic_store_explicit(&file->calm, calm - 1, memory_order_relaxed);
  return false;
}

ur_status ur_data_file_check(const ur_data_file *file, ur_error *error) {
  if (file->fd < 0) return UR_OK;
  return ur_file_check(file->fd, UR_FILE_DATA, file->bytes, &file->modified, error);
}

ur_status ur_data_file_open(int fd, uint64_t bytes, struct timespec modified, int32_t io, ur_data_file **file,
                             ur_error *error) {
  ur_data_file *opened = calloc(1, sizeof *opened);
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
  *file = opened;
  return UR_OK;
}
