/* base/fail.c - filling in a ur_error: one sentence, and the place it speaks of; texts of the status codes, and the version. */
#include "base/fail.h"
#include "unirecord.h"

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

/* ---- texts of the status codes --------------------------------------------------------------------------------- */

const char *ur_status_text(int32_t status) {
  switch (status) {
    case UR_OK: return "success";
    case UR_END: return "no more batches";
    case UR_TOO_SMALL: return "a buffer is too small";
    case UR_ARGUMENT: return "the call is wrong";
    case UR_NOT_FOUND: return "a file does not exist";
    case UR_FORMAT: return "not a UniRecord file, or one that needs a newer reader";
    case UR_CORRUPT: return "the bytes of the file are not those that were written";
    case UR_STALE: return "the file is not the one that was opened or expected";
    case UR_IO: return "the operating system reported an error";
    case UR_NO_MEMORY: return "out of memory";
    case UR_CLOSED: return "the handle has been closed";
    case UR_COLUMN: return "a column cannot be read here: its type or codec is unknown, or a library is missing";
    default: return "unknown status";
  }
}

/* That of unirecord/__init__.py: a test compares them. */
const char *ur_version(void) { return "0.1.0"; }
