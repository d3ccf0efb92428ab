/* loader/stream.h - samples cut from documents that lie one after the other: which elements make one. Internal. */
#ifndef UR_STREAM_H
#define UR_STREAM_H

#include "base/timing.h"
#include "unirecord_internal.h"

/* `count` elements of a document, from element `first` on, that go to element `to` of the batch; what its document is called. */
typedef struct {
  int64_t first, count, to, name;
} ur_stretch;

/* The stretches of some samples, in order; starts as zeros. rows[i] is the row of the set that stretch i is of. */
typedef struct {
  int64_t *rows;
  ur_stretch *stretches;
  int64_t count, room;
} ur_stretches;

/* UR_ARGUMENT for numbers that make no sense, or a column that holds no elements of this size. */
ur_status ur_stream_check(const ur_stream *stream, ur_set *set, ur_error *error);

/* Fills `found` with the stretches of samples[0..n). */
ur_status ur_stream_cut(const ur_stream *stream, ur_set *set, const int64_t *samples, int64_t n, ur_stretches *found,
                        ur_error *error);

/* Bytes of a sample in an output (ur_stream_output) of fixed width, in one of variable width 0. UR_ARGUMENT where there is none. */
ur_status ur_stream_width(const ur_stream *stream, int32_t output, uint64_t *bytes, ur_error *error);

/* How much the outputs have of n samples, and of those of variable width where each begins. */
ur_status ur_stream_measure(const ur_stream *stream, const ur_stretches *found, int64_t n, ur_output *outputs,
                            int32_t output_count, ur_error *error);

/* Fills the outputs, which have been measured, from the stretches of n samples. */
ur_status ur_stream_fill(const ur_stream *stream, ur_set *set, const ur_stretches *found, int64_t n,
                         const ur_output *outputs, int32_t output_count, ur_timing *timing, ur_error *error);
void ur_stretches_free(ur_stretches *stretches);

#endif
