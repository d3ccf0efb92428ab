/* io/uring.c - reading spans with many reads in flight at once: through the page cache, or past it with O_DIRECT.
 *
 * Past the cache, a file is read in pieces that start and end at multiples of 4,096 into slots of the ring's memory, and
 * what was asked for is copied out of them. A disk is busy with a few megabytes in flight: more would be more memory to
 * touch, and longer to wait for the last ones of a batch. Where the kernel refuses a ring, the file becomes one that uses pread.
 *
 * A read that fails in the ring says little of the file: it was interrupted, no worker of the kernel could be had for it
 * (ECANCELED), or a file system took O_DIRECT and then refuses the read (EINVAL). It is made again by pread, whose errors count.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "io/io.h"
#include "io/ring.h"

#define READ_BYTES (UINT64_C(1) << 20)    /* one read through the cache */
#define SMALL_SLOT (UR_RING_BYTES / UR_RING_DEPTH) /* one read past it, of small rows: as many in flight as may be */
#define LARGE_SLOT (UINT64_C(256) << 10)           /* … and at most */
#define DIRECT_ALIGN UINT64_C(4096)

static ur_status ended(uint64_t offset, ur_error *error) {
  return ur_fail_at(error, UR_STALE, UR_FILE_DATA, offset, "the file ends at %" PRIu64 ": it has been cut", offset);
}

static void begin(ur_span *spans, int64_t count) {
  ur_spans_sort(spans, count);
  for (int64_t i = 0; i < count; i++) spans[i].left = spans[i].bytes;
}

/* `bytes` more of a span have come. */
static void landed(ur_span *span, uint64_t bytes, ur_landing *landing) {
  span->left -= bytes;
  if (span->left == 0) landing->call(landing->context, span->tag);
}

/* ---- through the page cache ------------------------------------------------------------------------------------- */

/* Hands out the reads of many spans one after the other. */
typedef struct {
  const ur_span *spans;
  int64_t count, span;
  uint64_t done; /* of the current span */
} cursor;

static bool next_read(cursor *at, ur_span *read) {
  while (at->span < at->count && at->spans[at->span].bytes == at->done) {
    at->span++;
    at->done = 0;
  }
  if (at->span == at->count) return false;
  const ur_span *span = &at->spans[at->span];
  uint64_t left = span->bytes - at->done, bytes = left < READ_BYTES ? left : READ_BYTES;
  *read = (ur_span){.file = span->file, .bytes = bytes, .tag = at->span,
                    /* exact: inside the span */
                    .offset = span->offset + at->done, .to = span->to + at->done};
  at->done += bytes; /* exact: what is left of the span */
  return true;
}

static void put(ur_ring *ring, const ur_span *read, uint64_t tag) {
  ur_ring_put(ring, read->file->fd, read->offset, read->to, (uint32_t)read->bytes, tag);
}

static ur_status cached_read(ur_span *spans, int64_t count, ur_landing *landing, ur_error *error) {
  ur_ring *ring = ur_ring_here();
  if (ring == NULL || count < 2) return ur_pread_spans(spans, count, landing, error);
  begin(spans, count);
  cursor at = {.spans = spans, .count = count};
  ur_span reads[UR_RING_DEPTH];
  uint64_t flying = 0;
  ur_status status = UR_OK;
  while (flying < UR_RING_DEPTH && next_read(&at, &reads[flying])) {
    put(ring, &reads[flying], flying);
    flying++;
  }
  while (flying > 0) {
    uint64_t tag = 0;
    int32_t result = ur_ring_take(ring, &tag);
    ur_span *read = &reads[tag];
    flying--;
    if (status != UR_OK) continue; /* only waiting for the others to land */
    if (result < 0) {
      status = ur_file_read(read->file->fd, UR_FILE_DATA, read->offset, read->bytes, read->to, error);
      result = (int32_t)read->bytes;
    }
    if (result == 0) status = ended(read->offset, error);
    if (status != UR_OK) landing->failed = spans[read->tag].tag;
    if (status != UR_OK) continue;
    uint64_t got = (uint64_t)result;
    read->offset += got; /* exact: what is left of the read */
    read->bytes -= got;
    read->to += got;
    landed(&spans[read->tag], got, landing);
    if (read->bytes == 0 && !next_read(&at, read)) continue;
    put(ring, read, tag);
    flying++;
  }
  return status;
}

/* ---- past the page cache ---------------------------------------------------------------------------------------- */

/* One slot's read: [offset, end) of a file, aligned, and the spans that begin before its end. */
typedef struct {
  const ur_data_file *file;
  uint64_t offset, end;
  int64_t first, last; /* spans [first, last) may lie in it */
} piece;

typedef struct {
  const ur_span *spans;
  int64_t count;
  uint64_t slot_bytes;     /* the largest piece */
  int64_t first;           /* the first span that is not wholly in pieces before */
  const ur_data_file *file; /* of the last piece */
  uint64_t offset;         /* where the next piece of that file may begin */
} direct_cursor;

/* A slot for the longest span, within bounds. */
static uint64_t slot_for(const ur_span *spans, int64_t count) {
  uint64_t longest = 0, slot = SMALL_SLOT;
  for (int64_t i = 0; i < count; i++)
    if (spans[i].bytes > longest) longest = spans[i].bytes;
  while (slot < longest + DIRECT_ALIGN && slot < LARGE_SLOT) slot *= 2;
  return slot;
}

/* The next piece: from the first byte still needed to as far as spans go on without a gap of a block. */
static bool next_piece(direct_cursor *at, piece *out) {
  const ur_span *span = &at->spans[at->first];
  for (; at->first < at->count && span->file == at->file && ur_span_end(span) <= at->offset; span++) at->first++;
  if (at->first == at->count) return false;
  if (span->file != at->file) at->offset = 0;
  uint64_t start = span->offset < at->offset ? at->offset : span->offset & ~(DIRECT_ALIGN - 1);
  uint64_t most = start + at->slot_bytes, end = start; /* exact: in a file, below 2^63, and a slot more */
  int64_t last = at->first;
  for (; last < at->count && at->spans[last].file == span->file && at->spans[last].offset < most; last++) {
    if (last > at->first && at->spans[last].offset > end) break;
    uint64_t aligned = (ur_span_end(&at->spans[last]) + DIRECT_ALIGN - 1) & ~(DIRECT_ALIGN - 1);
    if (aligned > end) end = aligned;
  }
  *out = (piece){span->file, start, end < most ? end : most, at->first, last};
  at->file = span->file;
  at->offset = out->end;
  return true;
}

/* Copies what the piece holds of its spans; what a short read left out is read again, which says if the file ended. */
static ur_status copy_out(const piece *from, ur_span *spans, const uint8_t *slot, uint64_t got, ur_landing *landing,
                          ur_error *error) {
  for (int64_t i = from->first; i < from->last; i++) {
    uint64_t start = spans[i].offset > from->offset ? spans[i].offset : from->offset;
    uint64_t end = ur_span_end(&spans[i]) < from->end ? ur_span_end(&spans[i]) : from->end;
    if (start >= end) continue;
    uint8_t *to = spans[i].to + (start - spans[i].offset);
    ur_status status = UR_OK;
    if (end <= from->offset + got) /* exact: the piece begins in the file */
      memcpy(to, slot + (start - from->offset), end - start);
    else
      status = ur_file_read(from->file->fd, UR_FILE_DATA, start, end - start, to, error);
    if (status != UR_OK) return status;
    landed(&spans[i], end - start, landing);
  }
  return UR_OK;
}

static void put_piece(ur_ring *ring, const piece *read, uint8_t *slot, uint64_t tag) {
  ur_ring_put(ring, read->file->direct_fd, read->offset, slot, (uint32_t)(read->end - read->offset), tag);
}

static ur_status direct_read(ur_span *spans, int64_t count, ur_landing *landing, ur_error *error) {
  ur_ring *ring = ur_ring_here();
  uint8_t *slots = ring == NULL ? NULL : ur_ring_memory(ring);
  if (slots == NULL) return ur_pread_spans(spans, count, landing, error);
  begin(spans, count);
  direct_cursor at = {.spans = spans, .count = count, .slot_bytes = slot_for(spans, count)};
  uint64_t depth = UR_RING_BYTES / at.slot_bytes;
  piece pieces[UR_RING_DEPTH];
  uint64_t flying = 0;
  ur_status status = UR_OK;
  while (flying < depth && next_piece(&at, &pieces[flying])) {
    put_piece(ring, &pieces[flying], slots + flying * at.slot_bytes, flying); /* exact: one of the ring's slots */
    flying++;
  }
  while (flying > 0) {
    uint64_t tag = 0;
    int32_t result = ur_ring_take(ring, &tag);
    piece *read = &pieces[tag];
    uint8_t *slot = slots + tag * at.slot_bytes; /* exact: one of the ring's slots */
    flying--;
    if (status != UR_OK) continue;
    status = copy_out(read, spans, slot, result < 0 ? 0 : (uint64_t)result, landing, error);
    if (status != UR_OK) landing->failed = spans[read->first].tag;
    if (status != UR_OK || !next_piece(&at, read)) continue;
    put_piece(ring, read, slot, tag);
    flying++;
  }
  return status;
}

static void uring_close(ur_data_file *file) { ur_file_close(file->direct_fd); }

static const ur_data_file_ops cached_ops = {.read = cached_read, .advise = NULL, .close = uring_close};
static const ur_data_file_ops direct_ops = {.read = direct_read, .advise = NULL, .close = uring_close};

/* A second descriptor of the same file, for O_DIRECT; -1 where the file system has none. */
static int open_direct(int fd) {
#if defined(__linux__) && defined(O_DIRECT)
  char path[32];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return ur_descriptor_keep(open(path, O_RDONLY | O_CLOEXEC | O_DIRECT));
#else
  (void)fd;
  return -1;
#endif
}

ur_status ur_uring_open(ur_data_file *file, ur_error *error) {
  file->direct_fd = -1;
  if (ur_ring_here() == NULL) return ur_pread_open(file, error);
  file->ops = &cached_ops;
  if (file->io != UR_IO_URING_DIRECT) return UR_OK;
  file->direct_fd = open_direct(file->fd);
  if (file->direct_fd >= 0)
    file->ops = &direct_ops;
  else
    file->io = UR_IO_URING;
  return UR_OK;
}
