/* fail.c - filling in a ur_error: one sentence, and the place it speaks of. */
#include "fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static void set(ur_error *error, ur_status status, ur_file_kind file, uint64_t offset) {
  error->status = (int32_t)status;
  error->os_errno = 0;
  error->file = (int32_t)file;
  error->column = -1;
  error->part = -1;
  error->row = -1;
  error->offset = offset;
  error->what[0] = '\0';
}

ur_status ur_fail(ur_error *error, ur_status status, const char *format, ...) {
  if (error == NULL) return status;
  set(error, status, UR_FILE_NONE, UR_NOWHERE);
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(error->what, sizeof error->what, format, arguments);
  va_end(arguments);
  return status;
}

ur_status ur_fail_at(ur_error *error, ur_status status, ur_file_kind file, uint64_t offset, const char *format, ...) {
  if (error == NULL) return status;
  set(error, status, file, offset);
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(error->what, sizeof error->what, format, arguments);
  va_end(arguments);
  return status;
}

ur_status ur_fail_os(ur_error *error, ur_file_kind file, int os_errno, const char *action) {
  ur_status status = UR_IO;
  if (os_errno == ENOENT || os_errno == ENOTDIR) status = UR_NOT_FOUND;
  if (os_errno == ENOMEM) status = UR_NO_MEMORY;
  if (error == NULL) return status;
  set(error, status, file, UR_NOWHERE);
  error->os_errno = status == UR_NO_MEMORY ? 0 : os_errno;
  (void)snprintf(error->what, sizeof error->what, "%s", action);
  return status;
}
