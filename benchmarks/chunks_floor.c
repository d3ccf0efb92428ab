/* The floor of crops: preads of listed stretches of a file, again and again. Prints how many times a second all were read.
 *
 * chunks_floor FILE LIST SECONDS; LIST: pairs of u64, place and bytes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

int main(int count, char **words) {
  if (count != 4) return 2;
  int file = open(words[1], O_RDONLY), list = open(words[2], O_RDONLY);
  struct stat facts;
  if (file < 0 || list < 0 || fstat(list, &facts) != 0) return 1;
  size_t bytes = (size_t)facts.st_size, pairs = bytes / 16, most = 0;
  uint64_t *where = malloc(bytes);
  if (where == NULL || read(list, where, bytes) != (ssize_t)bytes) return 1;
  for (size_t i = 0; i < pairs; i++) most = where[2 * i + 1] > most ? (size_t)where[2 * i + 1] : most;
  char *to = malloc(most);
  if (to == NULL) return 1;
  double begun = 0, seconds = atof(words[3]);
  uint64_t done = 0;
  for (int timed = 0; timed < 2; timed++) {
    begun = now();
    done = 0;
    do {
      for (size_t i = 0; i < pairs; i++)
        if (pread(file, to, where[2 * i + 1], (off_t)where[2 * i]) != (ssize_t)where[2 * i + 1]) return 1;
      done++;
    } while (timed && now() - begun < seconds);
  }
  printf("%.6f\n", (double)done / (now() - begun));
  return 0;
}
