/* io/pread.c - reading spans with pread and preadv into the caller's buffers: works on every file system. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fail.h"
#include "io/io.h"

#define VECTORS 64           /* spans and gaps of one preadv */
#define GAP_BYTES 4096       /* bytes between two spans that are cheaper to read than to skip */
#define JOIN_BYTES (1u << 20) /* what one preadv reads at most before the next begins */

static int by_place(const void *left, const void *right) {
  const ur_span *a = left, *b = right;
  if (a->file != b->file) return (uintptr_t)a->file < (uintptr_t)b->file ? -1 : 1;
  return (a->offset > b->offset) - (a->offset < b->offset);
}

void ur_spans_sort(ur_span *spans, int64_t count) {
  int64_t i = 1;
  while (i < count && by_place(&spans[i - 1], &spans[i]) <= 0) i++;
  if (i < count) qsort(spans, (size_t)count, sizeof *spans, by_place);
}

/* How many spans from the first on lie so close behind each other that one preadv reads them. */
static int64_t run_length(const ur_span *spans, int64_t count) {
  uint64_t end = ur_span_end(&spans[0]);
  int64_t used = 1;
  while (used < count && used < VECTORS / 2 && spans[used].file == spans[0].file && end <= spans[used].offset &&
         spans[used].offset - end <= GAP_BYTES &&
         ur_span_end(&spans[used]) - spans[0].offset <= JOIN_BYTES) {
    end = ur_span_end(&spans[used]);
    used++;
  }
  return used;
}

#ifdef __APPLE__ /* which has had preadv since version 11 only */

static bool read_run(const ur_span *spans, int64_t count, uint8_t *skipped) {
  (void)spans, (void)count, (void)skipped;
  return false;
}

#else

/* One preadv over spans that follow each other, the gaps read into `skipped`; true when it read everything. */
static bool read_run(const ur_span *spans, int64_t count, uint8_t *skipped) {
  struct iovec vectors[VECTORS];
  int used = 0;
  uint64_t end = spans[0].offset;
  for (int64_t i = 0; i < count; i++) {
    if (spans[i].offset > end) vectors[used++] = (struct iovec){skipped, (size_t)(spans[i].offset - end)};
    vectors[used++] = (struct iovec){spans[i].to, (size_t)spans[i].bytes};
    end = ur_span_end(&spans[i]);
  }
  ssize_t got = preadv(spans[0].file->fd, vectors, used, (off_t)spans[0].offset);
  return got >= 0 && (uint64_t)got == end - spans[0].offset;
}

#endif

ur_status ur_pread_spans(ur_span *spans, int64_t count, ur_landing *landing, ur_error *error) {
  uint8_t skipped[GAP_BYTES];
  ur_spans_sort(spans, count);
  for (int64_t i = 0; i < count;) {
    int64_t run = run_length(spans + i, count - i);
    bool together = run > 1 && read_run(spans + i, run, skipped);
    for (int64_t end = i + run; i < end; i++) {
      const ur_span *span = &spans[i];
      ur_status status = UR_OK;
      if (!together) /* one by one: exact errors, and short reads go on */
        status = ur_file_read(span->file->fd, UR_FILE_DATA, span->offset, span->bytes, span->to, error);
      if (status != UR_OK) {
        landing->failed = span->tag;
        return status;
      }
      landing->call(landing->context, span->tag);
    }
  }
  return UR_OK;
}

static void pread_advise(ur_data_file *file, ur_span *spans, int64_t count) {
#ifdef POSIX_FADV_WILLNEED
  ur_spans_sort(spans, count);
  for (int64_t i = 0; i < count; i++)
    (void)posix_fadvise(file->fd, (off_t)spans[i].offset, (off_t)spans[i].bytes, POSIX_FADV_WILLNEED);
#else
  (void)file, (void)spans, (void)count;
#endif
}

static void pread_close(ur_data_file *file) { (void)file; }

static const ur_data_file_ops pread_ops = {.read = ur_pread_spans, .advise = pread_advise, .close = pread_close};

ur_status ur_pread_open(ur_data_file *file, ur_error *error) {
  (void)error;
  file->ops = &pread_ops;
  file->io = UR_IO_PREAD;
  return UR_OK;
}
