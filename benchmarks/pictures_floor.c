/* pictures_floor.c - the bare loop for pictures: JPEG in memory -> whole picture -> random crop -> 224 x 224 in a batch, on threads.
 *
 * pictures_floor DATA OFFSETS ROWS THREADS SECONDS: whole pictures are decoded by libjpeg-turbo, then cut and resized by the same
 * functions as UniRecord's. Prints pictures a second. With 0 threads, each picture is decoded so and then by UniRecord's unit, and the
 * processor time of both is added up: a ratio that other work on the machine disturbs little.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>

#include "picture/jpeg/jpeg.h"
#include "unirecord_internal.h"

enum { SIDE = 224, BATCH = 256, BATCHES = 4, MOST_THREADS = 64 };

static const uint8_t *data;
static const int64_t *offsets;
static int64_t rows;
static atomic_llong next_sample;
static atomic_int stopped;
static uint8_t *batches;
static ur_picture_options options = {.width = SIDE, .height = SIDE, .channels = 3, .crop = UR_CROP_RANDOM, .value_bytes = 1, .flip = 0.5,
                                     .fraction = 1, .least_area = 0.08, .most_area = 1, .least_ratio = 0.75, .most_ratio = 4.0 / 3,
                                     .most_pixels = 1 << 28, .row_step = 3 * SIDE, .pixel_step = 3, .channel_step = 1};

static double now(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static const void *map(const char *path) {
  int file = open(path, O_RDONLY);
  off_t bytes = file < 0 ? 0 : lseek(file, 0, SEEK_END);
  void *found = bytes > 0 ? mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0) : MAP_FAILED;
  if (found == MAP_FAILED) exit((perror(path), 1));
  return found;
}

/* A new order, without a table. */
static int64_t row_of(long long sample) { return (int64_t)(((uint64_t)sample * 0x9E3779B1u) % (uint64_t)rows); }

/* What a thread of the floor keeps from picture to picture. */
typedef struct bare {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  uint8_t *pixels;
  size_t room;
} bare;

static void begin(bare *loop) {
  loop->info.err = jpeg_std_error(&loop->errors);
  jpeg_create_decompress(&loop->info);
  loop->pixels = NULL;
  loop->room = 0;
}

static void end(bare *loop) {
  jpeg_destroy_decompress(&loop->info);
  free(loop->pixels);
}

static void place(bare *loop, long long sample) {
  struct jpeg_decompress_struct *info = &loop->info;
  int64_t row = row_of(sample);
  jpeg_mem_src(info, data + offsets[row], (unsigned long)(offsets[row + 1] - offsets[row]));
  jpeg_read_header(info, TRUE);
  info->out_color_space = JCS_RGB;
  jpeg_start_decompress(info);
  size_t stride = (size_t)info->output_width * 3, needed = stride * info->output_height;
  if (needed > loop->room) {
    loop->room = needed;
    loop->pixels = realloc(loop->pixels, needed);
  }
  while (info->output_scanline < info->output_height) {
    JSAMPROW line = loop->pixels + stride * info->output_scanline;
    jpeg_read_scanlines(info, &line, 1);
  }
  jpeg_finish_decompress(info);
  ur_crop crop;
  ur_pixels whole = {loop->pixels, (int64_t)stride, 3, 1, 0, 0, (int32_t)info->output_width, (int32_t)info->output_height};
  uint8_t *out = batches + (size_t)(sample % (BATCH * BATCHES)) * SIDE * SIDE * 3;
  if (ur_picture_crop(&options, whole.width, whole.height, 1, (uint64_t)sample, &crop, NULL) != UR_OK ||
      ur_picture_place(&options, &crop, &whole, out, NULL) != UR_OK)
    exit(2);
}

/* Processor time of the floor to that of UniRecord's unit, picture by picture. */
static double beside(double seconds) {
  bare loop;
  begin(&loop);
  ur_jpeg *decoder;
  if (ur_jpeg_new(&decoder, NULL) != UR_OK) exit(2);
  ur_picture_options ours = options;
  ours.reduce = 1;
  double spent[2] = {0, 0}; /* the floor, ours */
  for (long long turn = 0; spent[0] + spent[1] < seconds; turn++) {
    long long sample = turn / 2;
    int is_ours = (turn + sample) % 2 != 0; /* either is first, and warms the caches, every other time */
    int64_t row = row_of(sample);
    double start = now(CLOCK_THREAD_CPUTIME_ID);
    if (!is_ours) place(&loop, sample);
    else if (ur_jpeg_place(decoder, data + offsets[row], (uint64_t)(offsets[row + 1] - offsets[row]), &ours, (uint64_t)sample,
                           batches, NULL) != UR_OK) exit(2);
    spent[is_ours] += now(CLOCK_THREAD_CPUTIME_ID) - start;
  }
  ur_jpeg_release(decoder);
  end(&loop);
  return spent[0] / spent[1];
}

static void *work(void *unused) {
  bare loop;
  begin(&loop);
  while (!stopped) place(&loop, next_sample++);
  end(&loop);
  return unused;
}

int main(int count, char **words) {
  if (count != 6) return 2;
  data = map(words[1]), offsets = map(words[2]), rows = atoll(words[3]);
  int threads = atoi(words[4]);
  double seconds = atof(words[5]);
  batches = calloc(BATCH * BATCHES, SIDE * SIDE * 3);
  if (threads == 0) {
    printf("{\"value\": %.3f, \"unit\": \"x floor\"}\n", beside(seconds));
    return 0;
  }
  pthread_t started[MOST_THREADS];
  for (int i = 0; i < threads; i++) pthread_create(&started[i], NULL, work, NULL);
  usleep(300000); /* warm */
  long long before = next_sample;
  double start = now(CLOCK_MONOTONIC), work = now(CLOCK_PROCESS_CPUTIME_ID);
  usleep((useconds_t)(1e6 * seconds));
  long long after = next_sample;
  double rate = (double)(after - before) / (now(CLOCK_MONOTONIC) - start);
  double cost = (now(CLOCK_PROCESS_CPUTIME_ID) - work) / (double)(after - before);
  stopped = 1;
  for (int i = 0; i < threads; i++) pthread_join(started[i], NULL);
  printf("{\"samples_per_s\": %.1f, \"processor_us\": %.0f}\n", rate, 1e6 * cost);
  return 0;
}
