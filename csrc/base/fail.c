/* base/fail.c - filling in a ur_error: one sentence, and the place it speaks of. */
#include "base/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static void fill(ur_error *error, ur_status status, ur_file_kind file, uint64_t offset, const char *format,
                 va_list arguments) {
  *error = (ur_error){.status = (int32_t)status, .file = (int32_t)file, .column = -1, .part = -1, .row = -1,
                      .offset = offset};
  (void)vsnprintf(error->what, sizeof error->what, format, arguments);
}

ur_status ur_fail(ur_error *error, ur_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (error != NULL) fill(error, status, UR_FILE_NONE, UR_NOWHERE, format, arguments);
  va_end(arguments);
  return status;
}

ur_status ur_fail_at(ur_error *error, ur_status status, ur_file_kind file, uint64_t offset, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (error != NULL) fill(error, status, file, offset, format, arguments);
  va_end(arguments);
  return status;
}

ur_status ur_because(ur_error *error, ur_reason reason, ur_status status) {
  if (error != NULL) error->reason = (int32_t)reason;
  return status;
}

ur_status ur_fail_os(ur_error *error, ur_file_kind file, int os_errno, const char *action) {
  ur_status status = UR_IO;
  if (os_errno == ENOENT || os_errno == ENOTDIR) status = UR_NOT_FOUND;
  if (os_errno == ENOMEM) status = UR_NO_MEMORY;
  (void)ur_fail_at(error, status, file, UR_NOWHERE, "%s", action);
  if (error != NULL && status != UR_NO_MEMORY) error->os_errno = os_errno;
  return status;
}
