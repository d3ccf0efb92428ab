/* order/order.c - which row stands at a position of an epoch: whole shuffles, blocks in windows, parts. O(1) memory in rows.
 *
 * Every mode turns positions into rows, or back, chunk by chunk and in place. What depends on where a position lies (the
 * window's or the part's permutation) is kept in a `place` for the length of one call: handles stay immutable, and
 * neighbours pay for it once.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "order/order.h"
#include "base/fail.h"
#include "base/starts.h"
#include "order/permute.h"
#include "unirecord_internal.h"

enum { POSITIONS = 256 };

/* What a permutation is for: a word of its key, so these numbers are frozen. */
enum { FOR_ROWS = 1, FOR_BLOCKS = 2, FOR_WINDOW = 3, FOR_PARTS = 4, FOR_PART = 5 };

#define MOST_ROWS (INT64_C(1) << 62)
#define LAST_POSITION ((INT64_C(1) << 62) + (INT64_C(1) << 32))

struct ur_order {
  atomic_llong references;
  int64_t rows;
  int32_t mode;
  uint64_t seed;
  uint64_t epoch;
  ur_permutation whole; /* of the rows, the blocks or the parts */

  /* UR_ORDER_BLOCK: slot s holds block whole(s). All blocks are full but the last, which stands in short_slot. */
  int64_t blocks;
  int64_t block_rows;
  int64_t window_blocks;
  int64_t short_slot;
  int64_t missing; /* block_rows less the rows of the last block */

  /* the two parts modes */
  int64_t parts;
  int64_t *part_start; /* [parts + 1] */
  int64_t *slot_start; /* [parts + 1]: the same in the order of the epoch */
  int64_t *part_in;    /* [parts]: the part in a slot */
  int64_t *slot_of;    /* [parts]: the slot of a part */
};

/* The run of positions, or rows, that share a window, slot or part. Empty until something has been looked up. */
typedef struct {
  int64_t first;
  int64_t end;
  int64_t number;
  ur_permutation inside; /* made for windows and UR_ORDER_WITHIN_PARTS alone */
} place;

/* ---- making --------------------------------------------------------------------------------------------------------- */

static void make_blocks(ur_order *o, int64_t block_rows, int64_t window_blocks) {
  o->block_rows = block_rows < o->rows ? block_rows : (o->rows > 0 ? o->rows : 1);
  o->blocks = o->rows / o->block_rows + (o->rows % o->block_rows != 0);
  o->window_blocks = window_blocks < o->blocks ? window_blocks : (o->blocks > 0 ? o->blocks : 1);
  o->missing = o->blocks * o->block_rows - o->rows;
  ur_permutation_make(&o->whole, (uint64_t)o->blocks, o->seed, o->epoch, FOR_BLOCKS, 0);
  if (o->blocks > 0) {
    o->short_slot = o->blocks - 1;
    ur_permutation_invert(&o->whole, &o->short_slot, 1);
  }
}

static ur_status make_parts(ur_order *o, const int64_t *part_rows, int64_t parts, ur_error *error) {
  int64_t *memory = NULL;
  if ((uint64_t)parts < SIZE_MAX / 64) {
    memory = calloc(4 * ((size_t)parts + 1), sizeof *memory);
  }
  if (memory == NULL) {
    return ur_fail(error, UR_NO_MEMORY, "no memory for the order of %lld parts", (long long)parts);
  }
  o->parts = parts;
  o->part_start = memory;
  o->slot_start = memory + (parts + 1);
  o->part_in = memory + 2 * (parts + 1);
  o->slot_of = memory + 3 * (parts + 1);
  for (int64_t i = 0; i < parts; i++) {
    const int64_t rows = part_rows[i];
    if (rows < 0 || rows > o->rows - o->part_start[i]) {
      return ur_fail(error, UR_ARGUMENT, "part %lld of the order has %lld rows, with %lld left of %lld", (long long)i,
                     (long long)rows, (long long)(o->rows - o->part_start[i]), (long long)o->rows);
    }
    o->part_start[i + 1] = o->part_start[i] + rows;
    o->part_in[i] = i;
  }
  if (o->part_start[parts] != o->rows) {
    return ur_fail(error, UR_ARGUMENT, "the parts of the order have %lld rows together, not %lld",
                   (long long)o->part_start[parts], (long long)o->rows);
  }
  if (o->mode == UR_ORDER_PARTS) {
    ur_permutation_make(&o->whole, (uint64_t)parts, o->seed, o->epoch, FOR_PARTS, 0);
    ur_permutation_apply(&o->whole, o->part_in, (size_t)parts);
  }
  for (int64_t slot = 0; slot < parts; slot++) {
    const int64_t part = o->part_in[slot]; /* of the copy: another thread may be changing the caller's numbers */
    o->slot_start[slot + 1] = o->slot_start[slot] + o->part_start[part + 1] - o->part_start[part];
    o->slot_of[o->part_in[slot]] = slot;
  }
  return UR_OK;
}

static ur_status check_options(int64_t rows, int32_t mode, int64_t block_rows, int64_t window_blocks,
                               const int64_t *part_rows, int64_t parts, ur_error *error) {
  if (rows < 0 || rows > MOST_ROWS) {
    return ur_fail(error, UR_ARGUMENT, "an order has 0 to 2^62 rows, not %lld", (long long)rows);
  }
  if (mode < UR_ORDER_SEQUENTIAL || mode > UR_ORDER_WITHIN_PARTS) {
    return ur_fail(error, UR_ARGUMENT, "there is no order mode %d", (int)mode);
  }
  if (mode == UR_ORDER_BLOCK && (block_rows < 1 || window_blocks < 1)) {
    return ur_fail(error, UR_ARGUMENT, "block_rows and window_blocks are at least 1, not %lld and %lld",
                   (long long)block_rows, (long long)window_blocks);
  }
  const int by_parts = mode == UR_ORDER_PARTS || mode == UR_ORDER_WITHIN_PARTS;
  if (by_parts && (parts < 0 || (parts > 0 && part_rows == NULL))) {
    return ur_fail(error, UR_ARGUMENT, "this order mode needs the rows of each part");
  }
  return UR_OK;
}

ur_status ur_order_new(int64_t rows, int32_t mode, uint64_t seed, uint64_t epoch, int64_t block_rows,
                       int64_t window_blocks, const int64_t *part_rows, int64_t parts, ur_order **order,
                       ur_error *error) {
  ur_status status = check_options(rows, mode, block_rows, window_blocks, part_rows, parts, error);
  if (status != UR_OK) {
    return status;
  }
  ur_order *o = calloc(1, sizeof *o);
  if (o == NULL) {
    return ur_fail(error, UR_NO_MEMORY, "no memory for an order");
  }
  atomic_init(&o->references, 1);
  o->rows = rows;
  o->mode = mode;
  o->seed = seed;
  o->epoch = epoch;
  if (mode == UR_ORDER_SHUFFLE) {
    ur_permutation_make(&o->whole, (uint64_t)rows, seed, epoch, FOR_ROWS, 0);
  } else if (mode == UR_ORDER_BLOCK) {
    make_blocks(o, block_rows, window_blocks);
  } else if (mode != UR_ORDER_SEQUENTIAL) {
    status = make_parts(o, part_rows, parts, error);
  }
  if (status != UR_OK) {
    ur_order_release(o);
    return status;
  }
  *order = o;
  return UR_OK;
}

bool ur_order_is_whole(const ur_order *order) { return order->mode == UR_ORDER_SHUFFLE; }

ur_order *ur_order_retain(ur_order *order) {
  atomic_fetch_add(&order->references, 1);
  return order;
}

void ur_order_release(ur_order *order) {
  if (order == NULL || atomic_fetch_sub(&order->references, 1) != 1) return;
  free(order->part_start); /* the other arrays of parts are in the same memory */
  free(order);
}

/* ---- blocks --------------------------------------------------------------------------------------------------------- */

/* The position where `slot` starts: each slot before it is full, but for the short one. */
static int64_t slot_start(const ur_order *o, int64_t slot) {
  return slot * o->block_rows - (slot > o->short_slot ? o->missing : 0);
}

static int64_t slot_at(const ur_order *o, int64_t position) {
  const int64_t short_end = (o->short_slot + 1) * o->block_rows - o->missing;
  return (position < short_end ? position : position + o->missing) / o->block_rows;
}

static void enter_window(const ur_order *o, int64_t slot, place *at) {
  const int64_t window = slot / o->window_blocks;
  const int64_t first_slot = window * o->window_blocks;
  const int64_t slots = o->blocks - first_slot < o->window_blocks ? o->blocks - first_slot : o->window_blocks;
  at->number = window;
  at->first = slot_start(o, first_slot);
  at->end = slot_start(o, first_slot + slots);
  ur_permutation_make(&at->inside, (uint64_t)(at->end - at->first), o->seed, o->epoch, FOR_WINDOW, (uint64_t)window);
}

/* How many of values[0..count) lie in the place, as it stands, from the first on; each is made relative to it. */
static size_t take_run(const place *at, int64_t *values, size_t count) {
  size_t run = 0;
  while (run < count && values[run] >= at->first && values[run] < at->end) {
    values[run++] -= at->first;
  }
  return run;
}

static void blocks_forward(const ur_order *o, place *at, int64_t *values, size_t count) {
  int64_t offset[POSITIONS];
  for (size_t i = 0; i < count;) {
    if (values[i] < at->first || values[i] >= at->end) {
      enter_window(o, slot_at(o, values[i]), at);
    }
    const size_t run = take_run(at, values + i, count - i);
    ur_permutation_apply(&at->inside, values + i, run);
    for (const size_t end = i + run; i < end; i++) {
      const int64_t position = at->first + values[i];
      values[i] = slot_at(o, position);
      offset[i] = position - slot_start(o, values[i]);
    }
  }
  ur_permutation_apply(&o->whole, values, count);
  for (size_t i = 0; i < count; i++) {
    values[i] = values[i] * o->block_rows + offset[i];
  }
}

static void blocks_backward(const ur_order *o, place *at, int64_t *values, size_t count) {
  int64_t offset[POSITIONS];
  for (size_t i = 0; i < count; i++) {
    offset[i] = values[i] % o->block_rows;
    values[i] /= o->block_rows;
  }
  ur_permutation_invert(&o->whole, values, count);
  for (size_t i = 0; i < count; i++) {
    values[i] = slot_start(o, values[i]) + offset[i];
  }
  for (size_t i = 0; i < count;) {
    if (values[i] < at->first || values[i] >= at->end) {
      enter_window(o, slot_at(o, values[i]), at);
    }
    const size_t run = take_run(at, values + i, count - i);
    ur_permutation_invert(&at->inside, values + i, run);
    for (const size_t end = i + run; i < end; i++) {
      values[i] += at->first;
    }
  }
}

/* ---- parts ---------------------------------------------------------------------------------------------------------- */

/* Values move from the ranges in `from` to the ranges in `to`; number_to says which range goes where. */
static void move_parts(const ur_order *o, const int64_t *from, const int64_t *to, const int64_t *number_to, place *at,
                       int64_t *values, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (values[i] < at->first || values[i] >= at->end) {
      at->number = ur_find_start(from, o->parts, values[i]);
      at->first = from[at->number];
      at->end = from[at->number + 1];
    }
    values[i] += to[number_to[at->number]] - at->first;
  }
}

static void within_parts(const ur_order *o, int backward, place *at, int64_t *values, size_t count) {
  for (size_t i = 0; i < count;) {
    if (values[i] < at->first || values[i] >= at->end) {
      at->number = ur_find_start(o->part_start, o->parts, values[i]);
      at->first = o->part_start[at->number];
      at->end = o->part_start[at->number + 1];
      ur_permutation_make(&at->inside, (uint64_t)(at->end - at->first), o->seed, o->epoch, FOR_PART,
                          (uint64_t)at->number);
    }
    const size_t run = take_run(at, values + i, count - i);
    if (backward) {
      ur_permutation_invert(&at->inside, values + i, run);
    } else {
      ur_permutation_apply(&at->inside, values + i, run);
    }
    for (const size_t end = i + run; i < end; i++) {
      values[i] += at->first;
    }
  }
}

/* ---- positions -> rows, rows -> positions --------------------------------------------------------------------------- */

static void forward(const ur_order *o, place *at, int64_t *values, size_t count) {
  switch (o->mode) {
    case UR_ORDER_SHUFFLE: ur_permutation_apply(&o->whole, values, count); break;
    case UR_ORDER_BLOCK: blocks_forward(o, at, values, count); break;
    case UR_ORDER_PARTS: move_parts(o, o->slot_start, o->part_start, o->part_in, at, values, count); break;
    case UR_ORDER_WITHIN_PARTS: within_parts(o, 0, at, values, count); break;
    default: break;
  }
}

static void backward(const ur_order *o, place *at, int64_t *values, size_t count) {
  switch (o->mode) {
    case UR_ORDER_SHUFFLE: ur_permutation_invert(&o->whole, values, count); break;
    case UR_ORDER_BLOCK: blocks_backward(o, at, values, count); break;
    case UR_ORDER_PARTS: move_parts(o, o->part_start, o->slot_start, o->slot_of, at, values, count); break;
    case UR_ORDER_WITHIN_PARTS: within_parts(o, 1, at, values, count); break;
    default: break;
  }
}

ur_status ur_order_range(const ur_order *order, int64_t start, int64_t stride, int64_t count, int64_t *rows) {
  if (count < 0 || start < 0 || stride < 1 || (count > 0 && order->rows == 0)) {
    return UR_ARGUMENT;
  }
  if (count > 0 && (start > LAST_POSITION || count - 1 > (LAST_POSITION - start) / stride)) {
    return UR_ARGUMENT;
  }
  place at;
  at.first = at.end = 0;
  int64_t position = count > 0 ? start % order->rows : 0;
  const int64_t step = count > 0 ? stride % order->rows : 0;
  const int64_t back = step - order->rows; /* added instead of step where the order starts over */
  for (int64_t done = 0; done < count;) {
    const size_t chunk = (size_t)(count - done < POSITIONS ? count - done : POSITIONS);
    int64_t values[POSITIONS];
    for (size_t i = 0; i < chunk; i++) {
      values[i] = position;
      position += position + back >= 0 ? back : step;
    }
    forward(order, &at, values, chunk);
    memcpy(rows + done, values, chunk * sizeof *values);
    done += (int64_t)chunk;
  }
  return UR_OK;
}

static int all_inside(const ur_order *order, const int64_t *values, size_t count) {
  int good = 1;
  for (size_t i = 0; i < count; i++) good &= (uint64_t)values[i] < (uint64_t)order->rows;
  return good;
}

/* Works on a copy of each chunk, looked at once more: what another thread writes to `from` or `to` meanwhile is no row. */
static ur_status map_values(const ur_order *order, const int64_t *from, int64_t count, int64_t *to,
                            void (*direction)(const ur_order *, place *, int64_t *, size_t)) {
  if (count < 0 || !all_inside(order, from, (size_t)count)) return UR_ARGUMENT;
  place at;
  at.first = at.end = 0;
  for (int64_t done = 0; done < count;) {
    const size_t chunk = (size_t)(count - done < POSITIONS ? count - done : POSITIONS);
    int64_t values[POSITIONS];
    memcpy(values, from + done, chunk * sizeof *values);
    if (!all_inside(order, values, chunk)) return UR_ARGUMENT;
    direction(order, &at, values, chunk);
    memcpy(to + done, values, chunk * sizeof *values);
    done += (int64_t)chunk;
  }
  return UR_OK;
}

ur_status ur_order_at(const ur_order *order, const int64_t *positions, int64_t count, int64_t *rows) {
  return map_values(order, positions, count, rows, forward);
}

int64_t ur_order_one(const ur_order *order, int64_t position) {
  int64_t row = position;
  return ur_order_at(order, &row, 1, &row) == UR_OK ? row : -1;
}

ur_status ur_order_inverse(const ur_order *order, const int64_t *rows, int64_t count, int64_t *positions) {
  return map_values(order, rows, count, positions, backward);
}
