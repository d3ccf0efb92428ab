/* loader/readahead.c - see loader/readahead.h. Plain reads into a small buffer: they leave large pages in the cache, at the pace of the disk.
 *
 * madvise(MADV_WILLNEED) and MADV_POPULATE_READ bring the same bytes in single pages, for two to three times the processor's
 * time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "loader/readahead.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/io.h"
#include "order/order.h"
#include "set/set.h"
#include "unirecord_internal.h"

#define READ_BYTES (UINT64_C(256) << 10) /* one read: the copy stays in the processor's cache */
#define LEAST_BYTES (UINT64_C(4) << 20)  /* files so short that a few faults bring them */
#define ROW_MOST (UINT64_C(16) << 10)    /* longer rows come as fast one by one */
#define PAGE_BYTES 4096.0
#define MOST_NS UINT64_C(1000000000)     /* then batches are worth more than what is still missing */

enum { PLACES = 32, PLACES_LEAST = 2 }; /* of a file that are looked at: of all files together, and of each at least */

typedef struct {
  const ur_filler *filler;
  const _Atomic int *stopped;
  uint64_t until; /* by ur_now_ns() */
  uint8_t *buffer;
} readahead;

/* ---- whether it is worth it ------------------------------------------------------------------------------------- */

static bool reads_blobs(const ur_filler *filler) {
  for (int32_t c = 0; c < filler->options.output_count; c++)
    if (filler->infos[c].is_blob) return true;
  return false;
}

/* Whether the pass reads files from all over, as far as that can be told without looking at one. */
static bool is_scattered(const ur_filler *filler) {
  const ur_loader_options *o = &filler->options;
  return filler->set->layers == NULL && filler->set->options.fetch == NULL && o->stream == NULL && reads_blobs(filler) &&
         ur_order_is_whole(o->order);
}

/* Whether the rows of the pass lie on half as many pages as a file has, with rows of `row_bytes`. Of rows that were chosen
 * nobody knows how close they lie: there it must be half of all rows. */
static bool touches_half(const ur_filler *filler, double row_bytes) {
  const ur_loader_options *o = &filler->options;
  double share = (double)o->samples / (double)ur_set_rows(filler->set);
  bool chosen = o->selection != NULL || o->bitmap != NULL || o->selection_start != 0 || o->selection_step != 1;
  return (chosen ? share : share * (PAGE_BYTES + row_bytes) / row_bytes) >= 0.5; /* exact: real numbers */
}

static bool is_worth_it(const ur_filler *filler, const ur_part *part) {
  const ur_data_file *file = part->file;
  if (file->io != UR_IO_MAP || file->bytes < LEAST_BYTES || part->header.rows == 0) return false;
  uint64_t row_bytes = file->bytes / part->header.rows + 1;
  return row_bytes <= ROW_MOST && touches_half(filler, (double)row_bytes);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool goes_on(const readahead *b) {
  return !atomic_load(b->stopped) && !atomic_load(&b->filler->set->closed) && ur_now_ns() < b->until;
}

/* Reads the file and drops it, until it is over, or the file cannot be read, which the batches will say. */
static void read_past(const readahead *b, const ur_data_file *file) {
  for (uint64_t at = 0; at < file->bytes && goes_on(b);) {
    ssize_t got = pread(file->fd, b->buffer, READ_BYTES, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    at += (uint64_t)got; /* exact: inside the file */
  }
}

/* Whether half of some places all over the file are not in memory. What is, is read past: to skip it would end the readahead. */
static bool is_cold(const ur_data_file *file, int64_t places) {
  int64_t cold = 0;
  for (int64_t i = 0; i < places; i++) {
    uint64_t at = file->bytes / (uint64_t)places * (uint64_t)i; /* exact: inside the file */
    if (!ur_page_is_cached(file->fd, file->mincore_lies, file->view + at, at)) cold++;
  }
  return 2 * cold >= places;
}

static void readahead_file(const readahead *b, const ur_data_file *file) {
  uint64_t all = b->filler->set->options.bytes;
  int64_t places = PLACES / ur_set_parts(b->filler->set);
  if (!is_cold(file, places < PLACES_LEAST ? PLACES_LEAST : places)) return;
  if (ur_io_choose(file->fd, all > file->bytes ? all : file->bytes) != UR_IO_MAP) return; /* it will not stay in memory */
  read_past(b, file);
}

/* Opens the parts of the first batch, and brings those that are open: others may never be needed. */
static void readahead_parts(const readahead *b, const int64_t *rows, int64_t count) {
  ur_set *set = b->filler->set;
  int64_t number = 0, row = 0;
  ur_part *part = NULL;
  for (int64_t i = 0; i < count && goes_on(b); i++)
    if (ur_set_find(set, rows[i], &number, &row) == UR_OK && atomic_load(&set->slots[number].part) == NULL &&
        ur_set_part(set, number, &part, NULL) == UR_OK)
      ur_part_release(part);
  for (int64_t i = 0; i < set->parts && goes_on(b); i++) {
    if (atomic_load(&set->slots[i].part) == NULL || ur_set_part(set, i, &part, NULL) != UR_OK) continue;
    if (is_worth_it(b->filler, part)) readahead_file(b, part->file);
    ur_part_release(part);
  }
}

void ur_read_ahead(const ur_filler *filler, ur_scratch *s, const _Atomic int *stopped) {
  int64_t rows = is_scattered(filler) ? ur_filler_glance(filler, s) : 0;
  if (rows == 0) return;
  readahead b = {filler, stopped, ur_now_ns() + MOST_NS, malloc(READ_BYTES)}; /* exact: centuries */
  if (b.buffer != NULL) readahead_parts(&b, s->ahead, rows);
  free(b.buffer);
}
