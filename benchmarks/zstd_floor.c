/* zstd_floor.c - what libzstd alone gives: compressed cells one after the other, in random order, into one batch's memory.
 *
 * zstd_floor CELLS PLACES DICTIONARY ROWS THREADS SECONDS
 *   CELLS       the stored cells, one after the other
 *   PLACES      ROWS times three little-endian uint64: where a cell begins, its bytes, and those of its value
 *   DICTIONARY  or "-"
 * Prints one line of JSON. No format, no digests, no lengths to look up, no shuffle to undo.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { BATCH = 256, MOST_THREADS = 64 };

typedef struct {
  uint64_t start, stored, raw;
} cell;

typedef size_t decompress_call(void *, void *, size_t, const void *, size_t, const void *);

static uint8_t *cells;
static cell *places;
static uint64_t rows, *order;
static double seconds;
static void *dictionary;
static void *(*new_context)(void);
static decompress_call *decompress;
static uint64_t done[MOST_THREADS];

static void die(const char *what) {
  fprintf(stderr, "zstd_floor: %s\n", what);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *load(const char *path, uint64_t *bytes) {
  struct stat facts;
  FILE *file = fopen(path, "rb");
  if (file == NULL || fstat(fileno(file), &facts) != 0) die(path);
  void *content = malloc((size_t)facts.st_size + 1);
  if (content == NULL || fread(content, 1, (size_t)facts.st_size, file) != (size_t)facts.st_size) die(path);
  fclose(file);
  if (bytes != NULL) *bytes = (uint64_t)facts.st_size;
  return content;
}

static void *work(void *argument) {
  uint64_t number = (uint64_t)(uintptr_t)argument, longest = 0, at = number * (rows / MOST_THREADS);
  for (uint64_t i = 0; i < rows; i++) longest = places[i].raw > longest ? places[i].raw : longest;
  uint8_t *batch = malloc(BATCH * longest + 1);
  void *context = new_context();
  if (batch == NULL || context == NULL) die("no memory");
  memset(batch, 1, BATCH * longest);
  for (double end = now() + seconds; now() < end;) {
    uint8_t *to = batch;
    for (int i = 0; i < BATCH; i++, at = (at + 1) % rows) {
      const cell *one = &places[order[at]];
      if (one->stored == one->raw)
        memcpy(to, cells + one->start, one->raw);
      else if (decompress(context, to, one->raw, cells + one->start, one->stored, dictionary) != one->raw)
        die("a cell is no frame");
      to += one->raw;
    }
    done[number] += BATCH;
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 7) die("CELLS PLACES DICTIONARY ROWS THREADS SECONDS");
  void *library = dlopen("libzstd.so.1", RTLD_NOW);
  if (library == NULL) die(dlerror());
  new_context = (void *(*)(void))dlsym(library, "ZSTD_createDCtx");
  decompress = (decompress_call *)dlsym(library, "ZSTD_decompress_usingDDict");
  void *(*new_dictionary)(const void *, size_t) = (void *(*)(const void *, size_t))dlsym(library, "ZSTD_createDDict");
  cells = load(argv[1], NULL);
  places = load(argv[2], NULL);
  rows = strtoull(argv[4], NULL, 10);
  int threads = atoi(argv[5]);
  seconds = atof(argv[6]);
  if (rows == 0 || threads < 1 || threads > MOST_THREADS) die("ROWS or THREADS");
  if (strcmp(argv[3], "-") != 0) {
    uint64_t bytes = 0;
    const void *content = load(argv[3], &bytes);
    dictionary = new_dictionary(content, bytes);
  }
  order = malloc(rows * sizeof *order);
  if (order == NULL) die("no memory");
  for (uint64_t i = 0; i < rows; i++) order[i] = i;
  for (uint64_t i = rows - 1, state = 88172645463325252u; i > 0; i--) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    uint64_t other = state % (i + 1), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
  pthread_t started[MOST_THREADS];
  double begun = now();
  for (int i = 0; i < threads; i++) pthread_create(&started[i], NULL, work, (void *)(uintptr_t)i);
  for (int i = 0; i < threads; i++) pthread_join(started[i], NULL);
  uint64_t sum = 0;
  for (int i = 0; i < threads; i++) sum += done[i];
  printf("{\"samples_per_s\": %.1f}\n", (double)sum / (now() - begun));
  return 0;
}
