/* batch/read.h - the seam between reading batches (batch/read.c) and what stands on it (the loader). Internal. */
#ifndef UR_READER_H
#define UR_READER_H

#include "batch/batch.h"
#include "batch/repeats.h"

/* Rows of a set about to be read: grouped by part, each part open and found to be the file that it was. */
typedef struct ur_layer_read ur_layer_read;

typedef struct {
  ur_set *set; /* NULL: closed before it was entered */
  const ur_set_columns *columns;
  int64_t rows;
  ur_plan plan;
  ur_group *groups;
  ur_group one;
  int64_t opened;
  struct ur_direct_row *direct; /* the rows, when they need no groups (batch/direct.h); else NULL */
  ur_timing *timing; /* where its time is counted part by part, or NULL */
  ur_layer_read *layers; /* of a joined set: the read of each of its layers; else NULL */
  ur_repeats repeats;    /* of rows that are asked for several times, or not at all; else without `first` */
} ur_read;

/* Opens, timed by `timing` unless that is NULL; the row ids are borrowed until ur_read_close, which must follow whatever this returns. Of the outputs, which may be
 * none, only the columns matter: those that will be measured and gathered, or no groups would be needed. */
ur_status ur_read_open(ur_read *read, ur_set *set, const int64_t *rows, int64_t n, const ur_output *outputs, int32_t count,
                       ur_timing *timing, ur_error *error);

/* Likewise where rows may come several times, of which each is read once, and where none is asked for at places with a 1 in
 * `missing`, unless that is NULL: these become zero, empty and null. */
ur_status ur_read_open_once(ur_read *read, ur_set *set, const int64_t *rows, const uint8_t *missing, int64_t n,
                            const ur_output *outputs, int32_t count, ur_timing *timing, ur_error *error);

/* Likewise with rows that have been planned already, for a set whose parts have the same rows; the plan is borrowed, and `timing` has begun. */
ur_status ur_read_open_planned(ur_read *read, ur_set *set, const ur_plan *plan, int64_t n, ur_timing *timing,
                               ur_error *error);

/* What the functions of this file do where the set is a joined one; what they open is in `layers`. */
typedef struct ur_joined_reads {
  ur_status (*open)(ur_read *read, ur_error *error);
  ur_status (*measure)(const ur_read *read, ur_output *outputs, int32_t output_count, ur_error *error);
  ur_status (*gather)(const ur_read *read, const ur_output *outputs, int32_t output_count, ur_error *error);
  void (*close)(ur_read *read);
} ur_joined_reads;

extern const ur_joined_reads ur_joined; /* batch/joined.c */

/* Fills the offsets of the outputs, and `used` with the bytes of data that each needs: never more than the files hold. */
ur_status ur_read_measure(const ur_read *read, ur_output *outputs, int32_t output_count, ur_error *error);

/* Fills data and validity of outputs that have been measured, and whose data has room for that. */
ur_status ur_read_gather(const ur_read *read, const ur_output *outputs, int32_t output_count, ur_error *error);
void ur_read_close(ur_read *read);

/* ur_set_advise (unirecord.h) tells the kernel about rows to come; it asks for nothing when the rows are in memory. */

#endif
