/* loader/pack.c - lengths put into bins of one size, each into the fullest bin that has room for it. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/fail.h"
#include "unirecord_internal.h"

/* Open bins by the room they have left: of each room a stack, and a bit for those that have any. */
typedef struct {
  int64_t *heads;   /* the bin that came to this room last, or -1 */
  int64_t *next;    /* the bin below it */
  uint64_t *present;
  int64_t size;
} open_bins;

/* The least room of at least `wanted` that a bin has; -1: none has. */
static int64_t least_room(const open_bins *bins, int64_t wanted) {
  int64_t word = wanted / 64, last = bins->size / 64;
  uint64_t left = bins->present[word] & (UINT64_MAX << (wanted % 64));
  while (left == 0) {
    if (++word > last) return -1;
    left = bins->present[word];
  }
  return word * 64 + __builtin_ctzll(left);
}

static void push(open_bins *bins, int64_t room, int64_t bin) {
  bins->next[bin] = bins->heads[room];
  bins->heads[room] = bin;
  bins->present[room / 64] |= UINT64_C(1) << (room % 64);
}

static int64_t pop(open_bins *bins, int64_t room) {
  int64_t bin = bins->heads[room];
  bins->heads[room] = bins->next[bin];
  if (bins->heads[room] < 0) bins->present[room / 64] &= ~(UINT64_C(1) << (room % 64));
  return bin;
}

ur_status ur_pack(const int64_t *lengths, int64_t count, int64_t size, int64_t *places, int64_t *used, ur_error *error) {
  if (count < 0 || size < 1 || size > (INT64_C(1) << 40)) return ur_fail(error, UR_ARGUMENT, "a bin has 1 to 2^40 places");
  for (int64_t i = 0; i < count; i++)
    if (lengths[i] < 1 || lengths[i] > size)
      return ur_fail(error, UR_ARGUMENT, "length %" PRId64 " does not fit a bin of %" PRId64, lengths[i], size);
  open_bins bins = {.size = size};
  /* exact: at most 2^40 places */
  bins.heads = malloc(((size_t)size + 1) * sizeof *bins.heads);
  bins.present = calloc((size_t)size / 64 + 1, sizeof *bins.present);
  bins.next = calloc((size_t)count + 1, sizeof *bins.next);
  ur_status status = UR_OK;
  int64_t made = 0;
  if (bins.heads == NULL || bins.present == NULL || bins.next == NULL) {
    status = ur_fail(error, UR_NO_MEMORY, "no memory to pack %" PRId64 " lengths", count);
  } else {
    for (int64_t room = 0; room <= size; room++) bins.heads[room] = -1;
    for (int64_t i = 0; i < count; i++) {
      int64_t room = least_room(&bins, lengths[i]), bin = room < 0 ? made++ : pop(&bins, room);
      places[i] = bin;
      push(&bins, (room < 0 ? size : room) - lengths[i], bin);
    }
    *used = made;
  }
  free(bins.heads);
  free(bins.present);
  free(bins.next);
  return status;
}
