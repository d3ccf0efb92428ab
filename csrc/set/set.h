/* set/set.h - many parts as one row space: slots that open and close their part without locks. Internal. */
#ifndef UR_SET_H
#define UR_SET_H

#include <stdatomic.h>
#include <stdbool.h>

#include "part/part.h"
#include "unirecord_internal.h"

/* One part's place in a set. A reader pins the slot while it takes its reference, so whoever empties the slot knows
 * whether the part that was in it may still be about to be referenced. No lock: a fork() can happen at any moment. */
typedef struct {
  _Atomic(ur_part *) part;
  atomic_int pins;
  _Atomic(uint64_t) used; /* when the part was last asked for */
} ur_slot;

typedef struct ur_retired {
  struct ur_retired *next;
  ur_part *part;
} ur_retired;

/* The columns that all parts must have: their table's bytes, and what they say. */
typedef struct {
  uint32_t count;
  uint8_t *table;
  ur_column_info info[];
} ur_set_columns;

/* The sets that a joined set reads, and where each of its columns is. */
typedef struct {
  const struct ur_joined_reads *reads; /* how its rows are read (batch/read.h) */
  int32_t count;
  ur_set **sets;
  ur_joined_column columns[];
} ur_layers;

/* Where the columns of each part of a set begin: see batch/direct.h. */
typedef struct {
  double parts_of_row; /* how many parts a row is, on average: where to look for it first */
  size_t part_bytes;
  uint8_t *parts;
  int32_t slots;
  int32_t slot[]; /* of each column: which base it has, or -1 */
} ur_direct;

struct ur_set {
  atomic_int references;
  atomic_int calls;        /* in flight */
  atomic_bool closed;
  atomic_int io;
  ur_set_options options;
  int64_t parts;
  ur_part_ref *refs;
  char *names;             /* memory of the paths and ids that refs point to */
  bool table_given;        /* the columns are those of the options, else of the part opened first */
  uint8_t *schema;         /* and of the schema */
  int32_t *layouts;        /* and of the layouts */
  int64_t *starts;         /* parts + 1: number of each part's first row, and of all rows */
  ur_slot *slots;
  _Atomic(uint64_t) clock;
  atomic_llong open_parts;
  int64_t descriptors; /* that the process may hold through the core before parts of this set are closed for others */
  _Atomic(ur_retired *) retired;
  _Atomic(ur_set_columns *) columns;
  _Atomic(ur_direct *) direct;      /* where the columns of its parts begin (batch/direct.h); NULL until a batch has been read */
  _Atomic(uint64_t) direct_reads;   /* batches that read by it: of which process (ur_forks) above, how many below 32 bits */
  atomic_bool direct_ended;         /* no more batch reads by it */
  ur_layers *layers; /* of a joined set, which has no refs and no slots; else NULL */
};

/* ---- set/options.c ---------------------------------------------------------------------------------------------- */

/* UR_ARGUMENT unless the layout of each part is one of the options. */
ur_status ur_check_layouts(const ur_part_ref *refs, int64_t parts, const ur_set_options *options, ur_error *error);

/* Copies what the options point to, and the references; false without memory. */
bool ur_set_copy(ur_set *set, const ur_part_ref *refs);

/* ---- set/set.c ------------------------------------------------------------------------------------------------------ */

/* Every call on a set that reads stands between these two; ur_set_enter is false when the set is closed. */
bool ur_set_enter(ur_set *set, ur_error *error);
void ur_set_leave(ur_set *set);

/* Part number `part`, opened if need be, with a reference for the caller. */
ur_status ur_set_acquire(ur_set *set, int64_t part, ur_part **out, ur_error *error);

/* Starts loading what is known of part number `part`, if it is open. */
void ur_set_touch(const ur_set *set, int64_t part);

/* Closes a part of each layer but this one, the one asked for the longest ago, where descriptors or memory were what failed;
 * whether any was closed. */
bool ur_layers_make_room(const ur_layers *layers, int32_t number, const ur_error *error);

/* Counts a batch that reads by `direct`, which keeps the parts open, between these two; false when that has ended. */
bool ur_direct_enter(ur_set *set);
void ur_direct_leave(ur_set *set);

/* Ends that batches read by `direct`, and waits for those that do: before a part of a set is closed that stays open. */
void ur_direct_end(ur_set *set);
void ur_direct_free(ur_set *set);

/* The columns, opening the first part if none has been opened; borrowed until the set dies. */
ur_status ur_set_schema(ur_set *set, const ur_set_columns **columns, ur_error *error);

/* What the set knows of a column; opens the first part when no part has been opened yet. */
ur_status ur_set_column(ur_set *set, int32_t column, ur_column_info *info, ur_error *error);

/* The part that holds `row`, which must be in [0, rows). */
int64_t ur_set_part_of(const ur_set *set, int64_t row);

#endif
