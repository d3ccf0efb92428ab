/* io/fetch.c - reading by a function of the caller, for files that lie on no file system: what no cache has of a batch in one call. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/timing.h"
#include "io/cache.h"
#include "io/io.h"
#include "unirecord_internal.h"

static _Thread_local ur_told told;

ur_told ur_source_tells(ur_told who) {
  ur_told before = told;
  told = who;
  return before;
}

ur_status ur_source_fetch(const ur_source *source, const ur_range *ranges, int64_t count, ur_error *error) {
  ur_error said = {.part = -1, .row = -1, .column = -1, .offset = UR_NOWHERE};
  if (told.tell != NULL) told.tell(told.context);
  ur_status status = source->fetch(source->context, ranges, count, &said);
  if (status == UR_OK) return UR_OK;
  bool known = false;
  for (int64_t i = 0; i < count; i++) known = known || ranges[i].part == said.part;
  if (said.file == UR_FILE_NONE) said.file = ranges[0].file;
  if (!known) said.part = ranges[0].part;
  said.what[sizeof said.what - 1] = 0;
  said.status = status;
  if (error != NULL) *error = said;
  return status;
}

ur_status ur_source_read(const ur_source *source, ur_file_kind file, uint64_t offset, uint64_t bytes, uint8_t *to,
                         ur_error *error) {
  if (bytes == 0 || ur_cache_read(source->cache, source->part, file, offset, bytes, to, false)) return UR_OK;
  ur_range range = {.part = source->part, .offset = offset, .bytes = bytes, .to = to, .file = file};
  return ur_source_fetch(source, &range, 1, error);
}

/* Whether a cache has the span, and it is right. */
static bool is_cached(const ur_span *span, const ur_landing *landing) {
  const ur_source *source = &span->file->source;
  uint64_t offset = span->offset, bytes = span->bytes;
  bool checks = landing->checks(landing->context, span->tag);
  if (!ur_cache_read(source->cache, source->part, UR_FILE_DATA, offset, bytes, span->to, checks)) return false;
  if (!checks) return true;
  ur_status status = landing->check(landing->context, span->tag);
  if (status == UR_CORRUPT) ur_cache_forget(source->cache, source->part, UR_FILE_DATA, offset, bytes);
  if (status == UR_OK) ur_cache_trust(source->cache, source->part, UR_FILE_DATA, offset, bytes);
  return status == UR_OK;
}

/* Moves the spans that no cache has to the front, and returns how many they are. */
static int64_t take_cached(ur_span *spans, int64_t count, const ur_landing *landing) {
  int64_t left = 0;
  for (int64_t i = 0; i < count; i++)
    if (!is_cached(&spans[i], landing)) spans[left++] = spans[i];
  return left;
}

static int by_coming(const void *left, const void *right) {
  const ur_span *a = left, *b = right;
  return (a->left > b->left) - (a->left < b->left);
}

/* Says of the spans that they are there: in the order in which they came, where it is known. */
static void land(ur_span *spans, int64_t count, ur_landing *landing) {
  if (landing->wants_times) {
    uint64_t now = ur_now_ns();
    qsort(spans, (size_t)count, sizeof *spans, by_coming);
    for (int64_t i = 0; i < count; i++)
      if (spans[i].left > now) spans[i].left = now;
  }
  for (int64_t i = 0; i < count; i++) {
    landing->came = spans[i].left;
    landing->call(landing->context, spans[i].tag);
  }
}

/* Spans of files that have these ops, which are of one set and so of one function and cache. */
static ur_status fetch_spans(ur_span *spans, int64_t count, ur_landing *landing, ur_error *error) {
  if (spans[0].file->source.cache != NULL) count = take_cached(spans, count, landing);
  if (count == 0) return UR_OK;
  ur_range *ranges = malloc((size_t)count * sizeof *ranges);
  ur_error said = {.part = -1};
  landing->failed = spans[0].tag;
  if (ranges == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory to fetch %" PRId64 " ranges", count);
  ur_spans_sort(spans, count);
  for (int64_t i = 0; i < count; i++) {
    spans[i].left = 0; /* when it came */
    ranges[i] = (ur_range){.part = spans[i].file->source.part,
                           .offset = spans[i].offset,
                           .bytes = spans[i].bytes,
                           .to = spans[i].to,
                           .file = UR_FILE_DATA,
                           .keep = 1,
                           .came = landing->wants_times ? &spans[i].left : NULL};
  }
  ur_status status = ur_source_fetch(&spans[0].file->source, ranges, count, &said);
  if (status == UR_OK) land(spans, count, landing);
  for (int64_t i = 0; i < count && status != UR_OK; i++)
    if (ranges[i].part == said.part) landing->failed = spans[i].tag;
  free(ranges);
  if (status != UR_OK && error != NULL) *error = said;
  return status;
}

bool ur_source_doubt(const ur_source *source) {
  if (source->fetch == NULL) return false;
  ur_range doubted = {.part = source->part, .file = UR_FILE_INDEX};
  ur_error ignored;
  return source->fetch(source->context, &doubted, 1, &ignored) == UR_OK;
}

static bool is_kept(const ur_source *source, const ur_span *span) {
  ur_cache_range wanted = {.file = 2 * source->part, .offset = span->offset, .bytes = span->bytes}, gap;
  uint64_t at = span->offset;
  return source->cache != NULL && ur_cache_gaps(source->cache, &wanted, &at, &gap, 1) == 0;
}

/* Says which spans will be read soon, but for those that a cache has. */
static void fetch_advise(ur_data_file *file, ur_span *spans, int64_t count) {
  ur_range *ranges = malloc((size_t)count * sizeof *ranges);
  int64_t wanted = 0;
  if (ranges == NULL) return;
  ur_spans_sort(spans, count);
  for (int64_t i = 0; i < count; i++)
    if (!is_kept(&file->source, &spans[i]))
      ranges[wanted++] = (ur_range){
          .part = file->source.part, .offset = spans[i].offset, .bytes = spans[i].bytes, .file = UR_FILE_DATA};
  ur_error ignored;
  if (wanted > 0) (void)file->source.fetch(file->source.context, ranges, wanted, &ignored);
  free(ranges);
}

static void fetch_close(ur_data_file *file) { (void)file; }

static const ur_data_file_ops fetch_ops = {.read = fetch_spans, .advise = fetch_advise, .close = fetch_close};

ur_status ur_fetch_open(const ur_source *source, uint64_t bytes, ur_data_file **file, ur_error *error) {
  ur_data_file *opened = calloc(1, sizeof *opened);
  if (opened == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for an open file");
  opened->ops = &fetch_ops;
  opened->bytes = bytes;
  opened->io = UR_IO_FETCH;
  opened->fd = opened->direct_fd = -1;
  opened->source = *source;
  *file = opened;
  return UR_OK;
}

/* ---- answers put where ranges want them ------------------------------------------------------------------------ */

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
