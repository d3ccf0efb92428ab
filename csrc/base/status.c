/* base/status.c - texts of the status codes. */
#include "unirecord.h"

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
    case UR_CODEC: return "the codec of a compressed column is not available here";
    default: return "unknown status";
  }
}
