/* base/fail.h - filling in a ur_error. Internal. */
#ifndef UR_FAIL_H
#define UR_FAIL_H

#include "unirecord.h"

#define UR_NOWHERE UINT64_MAX

/* Fills `error` (NULL is allowed) with a status and a sentence, no place, and returns the status. */
ur_status ur_fail(ur_error *error, ur_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for a place in one of the part's files. */
ur_status ur_fail_at(ur_error *error, ur_status status, ur_file_kind file, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Adds why to an error that has just been filled; returns the status. */
ur_status ur_because(ur_error *error, ur_reason reason, ur_status status);

/* A failed system call: status UR_IO, or UR_NOT_FOUND / UR_NO_MEMORY where errno says so. */
ur_status ur_fail_os(ur_error *error, ur_file_kind file, int os_errno, const char *action);

#endif
