/* loader/fill.h - one batch of a loader, filled: which rows, how its memory is laid out, what is left out. Internal. */
#ifndef UR_LOADER_FILL_H
#define UR_LOADER_FILL_H

#include "base/timing.h"
#include "batch/pool.h"
#include "batch/read.h"
#include "loader/sequence.h"
#include "loader/stream.h"
#include "unirecord_internal.h"

struct ur_batch {
  ur_piece piece;
  int64_t number, rows, skipped;
  uint64_t row_ids_at, skipped_at;
  ur_column_view columns[];
};

/* What all threads of a loader share; does not change. */
typedef struct {
  ur_set *set;
  ur_pool *pool;
  ur_order *order;
  ur_bitmap bitmap;
  ur_loader_options options;
  int32_t *columns;
  ur_column_info *infos;
  int64_t *steps;      /* of each output: values of a sample, 1 but of a sequence */
  int64_t offsets;     /* of all steps of a sequence together */
  int64_t *batch_ends; /* NULL: all batches but the last are of one size */
  int64_t batches;
  ur_times *times;     /* of all parts; the one thing here that changes, by atomic operations */
} ur_filler;

/* What one thread needs to fill batches. */
typedef struct {
  int64_t *rows;     /* the batch's row ids, in order */
  int64_t *skipped;
  int64_t *ahead;    /* row ids of a batch to come */
  int64_t *draws;    /* of the batch's samples, where crops are taken */
  ur_boxes *boxes;   /* of each output, likewise */
  int64_t batch_rows; /* samples of the batch that are not left out so far */
  int64_t *offsets;  /* of all outputs of variable width, as measured */
  ur_output *outputs;
  ur_column_view *views;
  ur_timing timing;           /* how long reading took of each part of its batch */
  ur_stretches stretches; /* of a stream's samples */
  int64_t *step_rows;     /* of a sequence: what stands at the steps of the batch's samples, one of its steps after the other */
  uint8_t *missing;       /* likewise */
  ur_read *reads;         /* likewise, of each of its steps */
  int64_t looked;    /* batches since this thread's page faults were last counted */
  long major_faults;
  int64_t advise_until;
} ur_scratch;

/* Checks the options and takes references; to be freed whatever it returns. */
ur_status ur_filler_make(ur_filler *filler, ur_set *set, ur_pool *pool, const ur_loader_options *options,
                         ur_error *error);
void ur_filler_free(ur_filler *filler);

int ur_scratch_make(const ur_filler *filler, ur_scratch *s);
void ur_scratch_free(ur_scratch *s);

/* Samples of batch `number`. */
int64_t ur_filler_rows(const ur_filler *filler, int64_t number);

/* Fills batch `number` into memory from the pool; rows that are corrupt are left out if the options say so. */
ur_status ur_filler_fill(const ur_filler *filler, ur_scratch *s, int64_t number, ur_batch **batch, ur_error *error);

/* While this thread's batches meet cold pages, tells the kernel of the batch `prefetch` ahead of `number`; the first
 * batches of all are told of together. Warm threads look at their page faults now and then: the call costs as much as a
 * few rows. */
void ur_filler_advise(const ur_filler *filler, ur_scratch *s, int64_t number);

/* The rows of the first batch, in s->ahead; returns how many. */
int64_t ur_filler_glance(const ur_filler *filler, ur_scratch *s);

#endif
