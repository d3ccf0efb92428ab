/* io/put.c - bytes of answers, put where the ranges of a fetch want them: all those of some answers by one call. */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/fail.h"
#include "base/timing.h"
#include "unirecord.h"

static bool fits(const ur_range *ranges, int64_t count, const ur_answer *answers, int64_t answer_count, const ur_put *put) {
  if (put->range < 0 || put->range >= count || put->answer < 0 || put->answer >= answer_count) return false;
  const ur_answer *answer = &answers[put->answer];
  const ur_range *range = &ranges[put->range];
  if (range->bytes == 0) return true;
  return range->to != NULL && put->place <= answer->bytes && range->bytes <= answer->bytes - put->place;
}

ur_status ur_ranges_put(const ur_range *ranges, int64_t count, const ur_answer *answers, int64_t answer_count,
                        const ur_put *puts, int64_t n, ur_error *error) {
  for (int64_t i = 0; i < n; i++)
    if (!fits(ranges, count, answers, answer_count, &puts[i]))
      return ur_fail(error, UR_ARGUMENT, "range %" PRId64 " is not inside the bytes that came", puts[i].range);
  bool timed = false;
  for (int64_t i = 0; i < n; i++) {
    const ur_range *range = &ranges[puts[i].range];
    timed = timed || range->came != NULL;
    /* exact: the range is inside its answer */
    if (range->bytes > 0) memcpy(range->to, answers[puts[i].answer].data + puts[i].place, range->bytes);
  }
  uint64_t now = timed ? ur_now_ns() : 0;
  for (int64_t i = 0; timed && i < n; i++)
    if (ranges[puts[i].range].came != NULL) *ranges[puts[i].range].came = now;
  return UR_OK;
}
