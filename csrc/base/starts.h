/* base/starts.h - which of several ranges, one after the other, holds a value. Internal. */
#ifndef UR_STARTS_H
#define UR_STARTS_H

#include <stdint.h>

/* The last of `count` ranges that starts at or before `value`, which is in one of them: of empty ones it is never it. No
 * branch depends on the value. */
static inline int64_t ur_find_start(const int64_t *starts, int64_t count, int64_t value) {
  int64_t found = 0;
  for (int64_t left = count; left > 1;) {
    int64_t half = left / 2;
    found = starts[found + half] <= value ? found + half : found;
    left -= half;
  }
  return found;
}

#endif
