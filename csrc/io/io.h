/* io/io.h - the one seam through which the reader touches the operating system for files. Internal.
 *
 * A ur_data_file is one open data file seen through one way of reading. But for a hint it is immutable after opening, so it
 * may be used from any thread and after fork().
 */
#ifndef UR_IO_SEAM_H
#define UR_IO_SEAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "unirecord.h"

typedef struct ur_data_file ur_data_file;

/* Where the files of a part come from: `fetch` NULL stands for the file system. */
typedef struct {
  ur_fetch fetch;
  void *context;
  int64_t part;
  ur_cache *cache; /* or NULL */
} ur_source;

typedef struct {
  const ur_data_file *file;
  uint64_t offset; /* in the file */
  uint64_t bytes;
  uint8_t *to;
  int64_t tag;   /* the caller's, for ur_landing */
  uint64_t left; /* of the span, while it is read: the way of reading's own */
} ur_span;

/* Called for each span as soon as it is filled, on the reading thread and in any order: its bytes are still in the
 * processor's cache, and other reads are in flight. */
typedef struct {
  void (*call)(void *context, int64_t tag);
  bool (*checks)(void *context, int64_t tag);     /* whether `call` looks at the bytes of this span */
  ur_status (*check)(void *context, int64_t tag); /* what it would find, of a span that can be had elsewhere */
  void *context;
  int64_t failed; /* out: the tag of the span that could not be read */
  bool wants_times; /* where the way of reading learns when each span was there, it calls in that order … */
  uint64_t came;    /* … and says here when that was, by ur_now_ns(); else 0 */
} ur_landing;

/* Where a span ends. */
static inline uint64_t ur_span_end(const ur_span *span) {
  return span->offset + span->bytes; /* exact: spans are inside the file, and files end below 2^63 */
}

typedef struct {
  /* Fills every span, of which none is empty; the caller has checked that each lies inside its file, and that all the
   * files have these ops: reads of many files are in flight together. UR_STALE when a file ends early. May sort
   * `spans`. NULL when the file has a view. */
  ur_status (*read)(ur_span *spans, int64_t count, ur_landing *landing, ur_error *error);
  /* Says that these spans will be read soon. May sort `spans`. NULL: nothing to say. */
  void (*advise)(ur_data_file *file, ur_span *spans, int64_t count);
  /* Whether these bytes of the view can be read without waiting for the disk. NULL: all can, always. */
  bool (*resident)(const ur_data_file *file, uint64_t offset, uint64_t bytes);
  void (*close)(ur_data_file *file);
} ur_data_file_ops;

#define UR_RESIDENT_MOST (UINT64_C(2) << 20) /* bytes that `resident` can be asked for at once */

struct ur_data_file {
  const ur_data_file_ops *ops;
  const uint8_t *view;  /* the whole file in memory, or NULL */
  uint64_t bytes;       /* length of the file when it was opened */
  struct timespec modified;
  int32_t io;           /* ur_io: the way of reading in use */
  int fd;               /* -1 when the content no longer depends on the file */
  int direct_fd;        /* for O_DIRECT, or -1 */
  bool mincore_lies;    /* it calls all bytes of the file resident to this user */
  ur_source source;     /* with UR_IO_FETCH */
  atomic_int calm;      /* calls of advise that may be skipped, because the last one found everything in memory */
};

/* ---- files (io/file.c) ---------------------------------------------------------------------------------------- */

/* Opens a regular file for reading. */
ur_status ur_file_open(const char *path, ur_file_kind file, int *fd, uint64_t *bytes, struct timespec *modified,
                       ur_error *error);

/* Reads bytes [offset, offset + bytes): interrupted and short reads go on; the end of the file is UR_STALE. */
ur_status ur_file_read(int fd, ur_file_kind file, uint64_t offset, uint64_t bytes, uint8_t *to, ur_error *error);

/* Maps a whole file for reading, shared; `own`: what is written into it only this process sees, and no file. */
ur_status ur_file_map(int fd, ur_file_kind file, uint64_t bytes, bool own, const uint8_t **view, ur_error *error);
void ur_file_unmap(const uint8_t *view, uint64_t bytes);
void ur_file_close(int fd);

/* Counts a descriptor that was opened elsewhere, and is closed by ur_file_close; returns it. */
int ur_descriptor_keep(int fd);

/* Descriptors that this process holds through the core, all sets and threads together. */
int64_t ur_descriptors_held(void);

/* UR_STALE when the file is not as long, or not as old, as it was: one fstat. */
ur_status ur_file_check(int fd, ur_file_kind file, uint64_t bytes, const struct timespec *modified, ur_error *error);

/* Nanoseconds of the clock that file systems take their times from, which stands still for a tick of some milliseconds: two
 * changes within one cannot be told apart by time. 0 where the system has none. */
int64_t ur_file_clock(void);

/* Zeroed memory of which only what is touched exists; NULL when there is none. */
void *ur_pages_new(uint64_t bytes);
void ur_pages_free(void *pages, uint64_t bytes);

/* How many files this process may have open. */
int64_t ur_file_limit(void);

/* ---- bytes that a function of the caller brings (io/fetch.c) ------------------------------------------------------ */

/* The source's function, whose failures are kept to what can be told; and for bytes [offset, offset + bytes) of one file. */
ur_status ur_source_fetch(const ur_source *source, const ur_range *ranges, int64_t count, ur_error *error);
ur_status ur_source_read(const ur_source *source, ur_file_kind file, uint64_t offset, uint64_t bytes, uint8_t *to,
                         ur_error *error);

/* Whom a thread tells that it is about to wait for a source's function; `tell` may be NULL. */
typedef struct {
  void (*tell)(void *context);
  void *context;
} ur_told;

/* From now on of the calling thread; returns what was before. */
ur_told ur_source_tells(ur_told who);

#define UR_BROUGHT_AGAIN 2 /* times that bytes which are wrong are brought anew, before they are an error */

/* Says that what came of part source->part was wrong, so that nothing which is kept of it is given again; false where
 * there is no function. */
bool ur_source_doubt(const ur_source *source);

/* What a data file without a descriptor is read by. */
ur_status ur_fetch_open(const ur_source *source, uint64_t bytes, ur_data_file **file, ur_error *error);

/* ---- ways of reading (io/data_file.c) ---------------------------------------------------------------------------- */

/* Opens a file over `fd`, which it then owns (on failure it is closed). `io` is not UR_IO_AUTO. */
ur_status ur_data_file_open(int fd, uint64_t bytes, struct timespec modified, int32_t io, ur_data_file **file,
                             ur_error *error);
void ur_data_file_close(ur_data_file *file);

/* ur_file_check for the data file, while its content depends on it. */
ur_status ur_data_file_check(const ur_data_file *file, ur_error *error);

/* Whether advise is worth calling now: after it has found everything in memory, it rests for some calls. */
bool ur_data_file_wants_advice(ur_data_file *file);

/* Which way suits the file (io/auto.c), never UR_IO_AUTO; `bytes` is all the data of which it is a part. */
int32_t ur_io_choose(int fd, uint64_t bytes);

/* Whether mincore calls all pages of a file resident to this user; and whether the page of byte `offset`, mapped at `mapped`, is. */
bool ur_mincore_lies(int fd);
bool ur_page_is_cached(int fd, bool mincore_lies, const uint8_t *mapped, uint64_t offset);

/* What each way adds to a file that has fd, bytes and io set. They may fall back to another way and set `io` to it. */
ur_status ur_map_open(ur_data_file *file, ur_error *error);
ur_status ur_pread_open(ur_data_file *file, ur_error *error);
ur_status ur_memory_open(ur_data_file *file, ur_error *error);
ur_status ur_uring_open(ur_data_file *file, ur_error *error);

/* Sorts spans by file, and by offset in each. */
void ur_spans_sort(ur_span *spans, int64_t count);

/* Fills spans with pread and preadv, neighbours in one call: what every way without a view can fall back to. */
ur_status ur_pread_spans(ur_span *spans, int64_t count, ur_landing *landing, ur_error *error);

#endif
