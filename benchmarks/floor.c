/* floor.c - the fastest plain way to gather the same rows: memcpy from a filled map, pread, io_uring with O_DIRECT.
 *
 * floor MODE DATA OFFSETS ROWS ROW_BYTES THREADS SECONDS BATCH DEPTH
 *   MODE       memcpy, pread, uring, or
 *              uring-copy: each row copied from where it was read to the end of the row before, the least that a reader
 *              does that hands out rows of any length side by side
 *              uring-keep: each row into memory of its own that nobody has touched before, the least that a reader does
 *              whose data is to be in memory afterwards
 *   OFFSETS    file of ROWS + 1 little-endian int64, or "-" when every row has ROW_BYTES bytes
 *   SECONDS    0: one epoch, whatever it takes (for a cold cache)
 *   DEPTH      reads in flight (uring alone)
 * Prints one line of JSON. No Python, no format, no digests: what the machine gives.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum { DIRECT_ALIGN = 512, HUGE_PAGE = 2 << 20 };

typedef struct {
  const char *mode, *path;
  const int64_t *offsets; /* NULL: fixed width */
  int64_t rows, row_bytes, batch, depth;
  int threads;
  double seconds;
  const uint8_t *map;
  int64_t *order;
  _Atomic int64_t next; /* the batch to be taken next, over all epochs */
} job;

typedef struct {
  job *job;
  pthread_t thread;
  int64_t samples, bytes;
  double began, ended; /* the timed part: buffers have been made before */
  double *latencies;
  int64_t latency_count, latency_room;
} worker;

static void die(const char *what) {
  fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double processor_time(void) {
  return (double)clock() / CLOCKS_PER_SEC;
}

static void place(const job *j, int64_t row, int64_t *start, int64_t *bytes) {
  if (j->offsets) {
    *start = j->offsets[row];
    *bytes = j->offsets[row + 1] - *start;
  } else {
    *start = row * j->row_bytes;
    *bytes = j->row_bytes;
  }
}

static int64_t largest_row(const job *j) {
  int64_t largest = 0, start, bytes;
  for (int64_t row = 0; row < j->rows; row++) {
    place(j, row, &start, &bytes);
    if (bytes > largest) largest = bytes;
  }
  return largest;
}

static int64_t mean_row(const job *j) { return j->offsets ? j->offsets[j->rows] / j->rows + 1 : j->row_bytes; }

static uint8_t *buffer_of(int64_t bytes) {
  size_t room = ((size_t)bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
  uint8_t *buffer = aligned_alloc(HUGE_PAGE, room);
  if (!buffer) die("memory");
  madvise(buffer, room, MADV_HUGEPAGE);
  memset(buffer, 0, room);
  return buffer;
}

/* Room for every row of an epoch; only what is written to takes memory. */
static uint8_t *untouched(int64_t bytes) {
  void *room = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) die("memory");
  return room;
}

/* The rows of the worker's next batch: 0 when an only epoch is over. */
static int64_t take_batch(job *j, const int64_t **rows) {
  int64_t batches = (j->rows + j->batch - 1) / j->batch;
  int64_t number = atomic_fetch_add(&j->next, 1);
  if (j->seconds <= 0 && number >= batches) return 0;
  int64_t first = number % batches * j->batch;
  *rows = j->order + first;
  return j->rows - first < j->batch ? j->rows - first : j->batch;
}

static void note_latency(worker *w, double seconds) {
  if (w->latency_count == w->latency_room) {
    w->latency_room = w->latency_room ? w->latency_room * 2 : 4096;
    w->latencies = realloc(w->latencies, (size_t)w->latency_room * sizeof *w->latencies);
    if (!w->latencies) die("memory");
  }
  w->latencies[w->latency_count++] = seconds;
}

static void gather(worker *w, int fd, uint8_t *buffer, const int64_t *rows, int64_t n) {
  const job *j = w->job;
  uint8_t *to = buffer;
  for (int64_t i = 0; i < n; i++) {
    int64_t start, bytes;
    place(j, rows[i], &start, &bytes);
    if (j->map) {
      memcpy(to, j->map + start, (size_t)bytes);
    } else if (pread(fd, to, (size_t)bytes, start) != bytes) {
      die("pread");
    }
    to += bytes;
  }
  w->samples += n;
  w->bytes += to - buffer;
}

static void run_copies(worker *w) {
  job *j = w->job;
  int fd = open(j->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) die(j->path);
  uint8_t *buffer = buffer_of((j->batch < j->rows ? j->batch : j->rows) * largest_row(j));
  double start = w->began = now(), before = start;
  const int64_t *rows;
  int64_t n;
  while ((n = take_batch(j, &rows)) > 0) {
    gather(w, fd, buffer, rows, n);
    double after = now();
    note_latency(w, after - before);
    before = after;
    if (j->seconds > 0 && after - start > j->seconds) break;
  }
  w->ended = now();
  free(buffer);
  close(fd);
}

/* ---- io_uring by raw system calls ---- */

typedef struct {
  int fd;
  unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
  struct io_uring_sqe *entries;
  struct io_uring_cqe *completions;
} ring;

static void *map_ring(int fd, size_t bytes, off_t what) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);
  if (at == MAP_FAILED) die("io_uring mmap");
  return at;
}

static ring ring_of(unsigned depth) {
  struct io_uring_params p;
  memset(&p, 0, sizeof p);
  ring r;
  r.fd = (int)syscall(SYS_io_uring_setup, depth, &p);
  if (r.fd < 0) die("io_uring_setup");
  uint8_t *sq = map_ring(r.fd, p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
  uint8_t *cq = map_ring(r.fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
  r.entries = map_ring(r.fd, p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
  r.sq_tail = (unsigned *)(void *)(sq + p.sq_off.tail);
  r.sq_mask = (unsigned *)(void *)(sq + p.sq_off.ring_mask);
  r.sq_array = (unsigned *)(void *)(sq + p.sq_off.array);
  r.cq_head = (unsigned *)(void *)(cq + p.cq_off.head);
  r.cq_tail = (unsigned *)(void *)(cq + p.cq_off.tail);
  r.cq_mask = (unsigned *)(void *)(cq + p.cq_off.ring_mask);
  r.completions = (struct io_uring_cqe *)(void *)(cq + p.cq_off.cqes);
  return r;
}

static void push_read(ring *r, int file, uint8_t *to, int64_t offset, int64_t bytes, uint64_t slot) {
  unsigned tail = *r->sq_tail, at = tail & *r->sq_mask;
  struct io_uring_sqe *entry = &r->entries[at];
  memset(entry, 0, sizeof *entry);
  entry->opcode = IORING_OP_READ;
  entry->fd = file;
  entry->addr = (uint64_t)(uintptr_t)to;
  entry->len = (unsigned)bytes;
  entry->off = (uint64_t)offset;
  entry->user_data = slot;
  r->sq_array[at] = at;
  __atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
}

typedef struct {
  int64_t left, at; /* rows not yet asked for of the batch in hand */
  const int64_t *rows;
  uint8_t *slots, *fresh; /* `fresh`: where the next row goes that is to be kept, or NULL */
  int64_t slot_bytes;
  uint8_t *copies; /* two batches, over and over, or NULL */
  int64_t copied, copies_bytes;
  struct { int64_t skip, bytes; } *row_in; /* the row that each slot holds */
} cursor;

static uint8_t *destination(cursor *c, uint64_t slot, int64_t bytes) {
  if (!c->fresh) return c->slots + (int64_t)slot * c->slot_bytes;
  uint8_t *to = c->fresh;
  c->fresh += bytes; /* a multiple of DIRECT_ALIGN */
  return to;
}

static void copy_row(cursor *c, uint64_t slot) {
  int64_t bytes = c->row_in[slot].bytes;
  if (!c->copies) return;
  if (c->copied + bytes > c->copies_bytes) c->copied = 0;
  memcpy(c->copies + c->copied, c->slots + (int64_t)slot * c->slot_bytes + c->row_in[slot].skip, (size_t)bytes);
  c->copied += bytes;
}

/* Asks for the next row into `slot`; 0 when the work is over. */
static int submit_next(worker *w, cursor *c, ring *r, int file, uint64_t slot, double deadline) {
  if (c->left == 0) {
    if (w->job->seconds > 0 && now() > deadline) return 0;
    c->left = take_batch(w->job, &c->rows);
    c->at = 0;
    if (c->left == 0) return 0;
  }
  int64_t start, bytes;
  place(w->job, c->rows[c->at], &start, &bytes);
  c->at++;
  c->left--;
  int64_t first = start / DIRECT_ALIGN * DIRECT_ALIGN;
  int64_t last = (start + bytes + DIRECT_ALIGN - 1) / DIRECT_ALIGN * DIRECT_ALIGN;
  push_read(r, file, destination(c, slot, last - first), first, last - first, slot);
  c->row_in[slot].skip = start - first;
  c->row_in[slot].bytes = bytes;
  w->samples++;
  w->bytes += bytes;
  return 1;
}

static void run_uring(worker *w) {
  job *j = w->job;
  int file = open(j->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (file < 0) die(j->path);
  ring r = ring_of((unsigned)j->depth);
  cursor c = {.slot_bytes = (largest_row(j) + 2 * 4096) / 4096 * 4096};
  c.slots = buffer_of(j->depth * c.slot_bytes);
  c.row_in = calloc((size_t)j->depth, sizeof *c.row_in);
  if (!c.row_in) die("memory");
  if (strcmp(j->mode, "uring-keep") == 0) c.fresh = untouched(j->rows * c.slot_bytes);
  if (strcmp(j->mode, "uring-copy") == 0) {
    c.copies_bytes = 2 * j->batch * mean_row(j) + largest_row(j);
    c.copies = buffer_of(c.copies_bytes);
  }
  w->began = now();
  double deadline = w->began + j->seconds;
  unsigned ready = 0, flying = 0;
  for (uint64_t slot = 0; slot < (uint64_t)j->depth; slot++) {
    ready += (unsigned)submit_next(w, &c, &r, file, slot, deadline);
  }
  while (ready + flying > 0) {
    if (syscall(SYS_io_uring_enter, r.fd, ready, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0) die("io_uring_enter");
    flying += ready;
    ready = 0;
    unsigned head = *r.cq_head, tail = __atomic_load_n(r.cq_tail, __ATOMIC_ACQUIRE);
    if (c.copies && head != tail) tail = head + 1; /* one at a time: the disk does not wait for many copies */
    for (; head != tail; head++, flying--) {
      struct io_uring_cqe done = r.completions[head & *r.cq_mask];
      if (done.res <= 0) die("read");
      copy_row(&c, done.user_data);
      ready += (unsigned)submit_next(w, &c, &r, file, done.user_data, deadline);
    }
    __atomic_store_n(r.cq_head, head, __ATOMIC_RELEASE);
  }
  w->ended = now();
  free(c.slots);
  free(c.copies);
  free(c.row_in);
  close(file);
}

static void *work(void *argument) {
  worker *w = argument;
  if (strncmp(w->job->mode, "uring", 5) == 0) {
    run_uring(w);
  } else {
    run_copies(w);
  }
  return NULL;
}

/* ---- set-up and report ---- */

static void shuffle(job *j) {
  uint64_t state = 0x9E3779B97F4A7C15u;
  j->order = malloc((size_t)j->rows * sizeof *j->order);
  if (!j->order) die("memory");
  for (int64_t i = 0; i < j->rows; i++) j->order[i] = i;
  for (int64_t i = j->rows - 1; i > 0; i--) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    int64_t other = (int64_t)(state % (uint64_t)(i + 1)), kept = j->order[i];
    j->order[i] = j->order[other];
    j->order[other] = kept;
  }
}

static const void *map_file(const char *path, int fill) {
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &s) < 0) die(path);
  void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) die(path);
  if (fill && madvise(map, (size_t)s.st_size, MADV_POPULATE_READ) < 0) die("MADV_POPULATE_READ");
  close(fd);
  return map;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_latencies(worker *workers, int threads) {
  int64_t count = 0;
  for (int i = 0; i < threads; i++) count += workers[i].latency_count;
  if (count == 0) return;
  double *all = malloc((size_t)count * sizeof *all);
  if (!all) die("memory");
  int64_t at = 0;
  for (int i = 0; i < threads; i++) {
    memcpy(all + at, workers[i].latencies, (size_t)workers[i].latency_count * sizeof *all);
    at += workers[i].latency_count;
  }
  qsort(all, (size_t)count, sizeof *all, ascending);
  printf(", \"p50_ms\": %.4f, \"p99_ms\": %.4f", 1e3 * all[count / 2], 1e3 * all[count * 99 / 100]);
  free(all);
}

static void run(job *j) {
  worker *workers = calloc((size_t)j->threads, sizeof *workers);
  if (!workers) die("memory");
  double began = 0, ended = 0, processor = processor_time();
  for (int i = 0; i < j->threads; i++) {
    workers[i].job = j;
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) die("thread");
  }
  int64_t samples = 0, bytes = 0;
  for (int i = 0; i < j->threads; i++) {
    pthread_join(workers[i].thread, NULL);
    if (i == 0 || workers[i].began < began) began = workers[i].began;
    if (workers[i].ended > ended) ended = workers[i].ended;
    samples += workers[i].samples;
    bytes += workers[i].bytes;
  }
  double seconds = ended - began;
  printf("{\"samples\": %lld, \"seconds\": %.6f, \"samples_per_s\": %.1f, \"bytes_per_s\": %.0f, \"processor_s\": %.4f",
         (long long)samples, seconds, (double)samples / seconds, (double)bytes / seconds,
         processor_time() - processor);
  print_latencies(workers, j->threads);
  printf("}\n");
}

int main(int argc, char **argv) {
  if (argc != 10) {
    fprintf(stderr, "floor MODE DATA OFFSETS ROWS ROW_BYTES THREADS SECONDS BATCH DEPTH\n");
    return 2;
  }
  job j = {.mode = argv[1], .path = argv[2], .rows = atoll(argv[4]), .row_bytes = atoll(argv[5]),
           .threads = atoi(argv[6]), .seconds = atof(argv[7]), .batch = atoll(argv[8]), .depth = atoll(argv[9])};
  if (strcmp(argv[3], "-") != 0) j.offsets = map_file(argv[3], 1);
  if (strcmp(j.mode, "memcpy") == 0) j.map = map_file(j.path, 1);
  shuffle(&j);
  run(&j);
  return 0;
}
