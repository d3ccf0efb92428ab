/* part/part.h - one opened part: its data file, its mapped index, and what has been verified of both. Internal. */
#ifndef UR_PART_H
#define UR_PART_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/fail.h"
#include "base/layout.h"
#include "base/packed.h"
#include "io/io.h"
#include "part/grid.h"
#include "part/parse.h"
#include "unirecord_internal.h"

typedef struct {
  ur_column_info info;
  uint64_t stored_width;                /* bytes of its cell in every row, or 0 when they differ */
  uint64_t place;                       /* where the cell starts in a row of fixed width */
  int32_t blob;                         /* number among the blob columns, or -1 */
  uint32_t rank;                        /* dimensions of an array, else 0 */
  bool is_plain;                        /* its cells are its values, byte for byte */
  uint32_t section[UR_SECTION_KINDS];   /* number in the directory + 1, or 0 */
  uint32_t ancillary[UR_ANCILLARY_KINDS]; /* likewise, by kind less UR_ANCILLARY */
  _Atomic(ur_decoder *) decoder;        /* of a compressed column, made on first use */
  _Atomic(ur_grid *) grid;              /* of one that is cut into chunks, likewise */
  _Atomic(_Atomic(uint64_t) *) chunks_checked; /* a bit for each of its chunks, likewise */
} ur_column;

#define UR_PART_DESCRIPTORS 3 /* at most: its data file, that again for O_DIRECT, and its index */

struct ur_part {
  atomic_int references;
  int32_t verify;
  ur_data_file *file;

  ur_source source;                     /* of both files */
  uint8_t *head;                        /* the index's head */
  const uint8_t *index;                 /* the whole index file: mapped, or in memory; fetched, only its checked blocks are there; NULL: of its head alone */
  int index_fd;                         /* -1 when the content no longer depends on the file */
  _Atomic(int64_t) looked;              /* when both files were last found unchanged, by ur_file_clock() */
  struct timespec index_modified;
  ur_index_header header;
  ur_data_header data;
  uint64_t block_seed;
  uint64_t unit_seed;
  uint64_t chunk_seed;
  _Atomic(uint64_t) *blocks_checked;    /* a bit for each index block; NULL with UR_VERIFY_NEVER, unless it is fetched */
  _Atomic(uint64_t) *blocks_landing;    /* of an index that is fetched: a bit for each block that is being put in its place */
  _Atomic(uint64_t) blocks_left;        /* and how many have not come yet */
  uint64_t blocks;
  _Atomic(_Atomic(uint64_t) *) units_checked; /* a bit for each digest unit, made on first use */
  uint64_t units;
  _Atomic(uint64_t) units_left;         /* units not known to be right yet */
  _Atomic(uint64_t) units_ahead;        /* where ur_units_check_ahead goes on */

  int32_t blob_columns;
  int32_t *blobs;                       /* ordinals of the blob columns */
  uint32_t shown;                       /* columns that it shows: those of its set */
  const uint8_t *table;                 /* their entries of the column table */
  uint8_t *own_table;                   /* memory of it, where they are not all those that are stored, in their order */
  ur_column *columns;                   /* those that it shows; then, where it has a layout, all that are stored */
  ur_section_entry *sections;
  uint32_t groups_section, starts_section, digests_section, statistics_section; /* numbers in the directory + 1, or 0 */
};

/* ---- part/part.c --------------------------------------------------------------------------------------------------- */

/* Opens data file and index of part `number` of a set, checks that they belong together and are `ref`'s, and gives out the
 * one reference. */
ur_status ur_part_open(const ur_part_ref *ref, int64_t number, const ur_set_options *options, ur_part **out,
                       ur_error *error);
void ur_part_retain(ur_part *part);

/* Starts loading what the part points to: its file, columns and sections. */
void ur_part_touch(const ur_part *part);

/* UR_STALE when one of the two files is not the one that was opened any more: an fstat each, before its bytes are used. */
ur_status ur_part_is_unchanged(const ur_part *part, ur_error *error);

/* The same, unless it was looked at within `trusted` nanoseconds before `now`, which is 0 to look anyhow: for batches with a
 * few rows of each of many parts. */
ur_status ur_part_was_unchanged(ur_part *part, int64_t now, int64_t trusted, ur_error *error);

/* ---- part/index.c -------------------------------------------------------------------------------------------------- */

/* Parses columns and directory in the index's head: exactly the sections that the columns ask for, sorted,
 * without overlap, with the counts that rows and units give. */
ur_status ur_index_read(ur_part *part, ur_error *error);
void ur_index_free(ur_part *part);

/* ---- part/patch.c -------------------------------------------------------------------------------------------------- */

/* Puts the values that a patch of `bytes` bytes has for file number `file` of its part into the index, whose memory must be
 * this process's own. Once, before ur_part_show(). UR_CORRUPT where the patch is none for this index. */
ur_status ur_part_patch(ur_part *part, const uint8_t *patch, uint64_t bytes, uint32_t file, ur_error *error);

/* Shows `count` of its columns, by their numbers in the file, in place of all. Once, before anything is read. */
ur_status ur_part_show(ur_part *part, const int32_t *columns, uint32_t count, ur_error *error);

/* ---- part/blocks.c: the blocks of the index, and how they come where it is fetched ------------------------------------ */

/* Checks the digest of index block `block` and remembers it; brings it first, where the index is fetched. */
ur_status ur_index_check_block(ur_part *part, uint64_t block, ur_error *error);

/* Memory for an index of which each block comes when it is first checked. */
ur_status ur_index_prepare(ur_part *part, uint64_t bytes, ur_error *error);
void ur_index_discard(ur_part *part);

/* Brings, and checks, the blocks [first, last] that are not there yet, in one call of the set's function. */
ur_status ur_index_bring(ur_part *part, uint64_t first, uint64_t last, ur_error *error);

#define UR_ARRIVALS 256 /* blocks brought by one call: 16 MiB of them */

typedef struct {
  ur_part *part;
  uint64_t number;
} ur_arrival;

/* Blocks that are to come together, of parts of one set; {0} before. */
typedef struct {
  ur_arrival blocks[UR_ARRIVALS];
  int64_t count;
  uint8_t *landed; /* UR_ARRIVALS blocks */
} ur_arrivals;

/* Adds the blocks that reading these columns of these rows will most likely need, and brings what has gathered when it is
 * full: those that it has not guessed are brought one by one when they are touched. */
ur_status ur_index_prefetch(ur_arrivals *wanted, ur_part *part, const int64_t *rows, int64_t n, const ur_output *outputs,
                           int32_t count, ur_error *error);

/* Adds the blocks of elements [first, last] of a section, which is none of packed ones, as ur_index_prefetch does. */
ur_status ur_index_want(ur_arrivals *wanted, ur_part *part, uint32_t section, uint64_t first, uint64_t last, ur_error *error);

/* Brings what has gathered, in one call of the set's function, unless `status` is an error already; frees. A block that is
 * not right is UR_CORRUPT, and those that are right are in their places all the same. */
ur_status ur_arrivals_finish(ur_arrivals *wanted, ur_status status, ur_error *error);

static inline bool ur_index_is_checked(const ur_part *part, uint64_t block) {
  if (part->blocks_checked == NULL) return true;
  uint64_t word = atomic_load_explicit(&part->blocks_checked[block / 64], memory_order_acquire);
  return (word >> (block % 64)) & 1;
}

/* Checks the blocks under [offset, offset + bytes) of the index file; the caller vouches that they lie in the body. */
static inline ur_status ur_index_check(ur_part *part, uint64_t offset, uint64_t bytes, ur_error *error) {
  if (bytes == 0) return UR_OK;
  uint64_t block = (offset - part->header.header_bytes) / UR_BLOCK_BYTES;
  /* exact: the caller vouches that it lies in the body */
  uint64_t last = (offset + bytes - 1 - part->header.header_bytes) / UR_BLOCK_BYTES;
  if (part->source.fetch != NULL) return ur_index_bring(part, block, last, error);
  for (; block <= last; block++) {
    if (__builtin_expect(ur_index_is_checked(part, block), 1)) continue;
    ur_status status = ur_index_check_block(part, block, error);
    if (status != UR_OK) return status;
  }
  return UR_OK;
}

/* A vector of the index: a section with its elements' checked loads. */
typedef struct {
  const uint8_t *data;
  uint64_t offset;
  uint64_t bytes;
  uint64_t count;
  uint32_t width;
  uint32_t bits; /* of a packed one, to whose elements `base` is added; else 0 */
  uint64_t base;
} ur_vector;

static inline ur_vector ur_vector_of(const ur_part *part, uint32_t section) {
  const ur_section_entry *entry = &part->sections[section - 1];
  /* exact: ur_parse_section() has checked it */
  return (ur_vector){.data = part->index + entry->offset,
                     .offset = entry->offset,
                     .bytes = entry->bytes,
                     .count = entry->count,
                     .width = entry->width,
                     .bits = entry->bits,
                     .base = entry->extra};
}

/* Whether all blocks under a vector have been checked, which is asked where it has at most `most` of them. */
static inline bool ur_vector_is_checked(const ur_part *part, const ur_vector *vector, uint64_t most) {
  if (vector->bytes == 0) return true;
  /* exact: in the body, which ur_parse_section() has checked */
  uint64_t block = (vector->offset - part->header.header_bytes) / UR_BLOCK_BYTES;
  /* exact: likewise, and it has bytes */
  uint64_t last = (vector->offset + vector->bytes - 1 - part->header.header_bytes) / UR_BLOCK_BYTES;
  if (last - block >= most) return false;
  for (; block <= last; block++)
    if (!ur_index_is_checked(part, block)) return false;
  return true;
}

/* Checks the block under element i (elements never lie across blocks: widths are powers of two, starts multiples of 64), or,
 * of a packed one, those under the eight bytes that are loaded for it. */
static inline ur_status ur_vector_check(ur_part *part, const ur_vector *vector, uint64_t i, ur_error *error) {
  if (vector->bits != 0) {
    /* exact: inside the section, which a word ends that no element needs */
    uint64_t at = vector->offset + ur_packed_place(vector->bits, i), in_body = at - part->header.header_bytes;
    bool one = in_body % UR_BLOCK_BYTES <= UR_BLOCK_BYTES - 8;
    if (__builtin_expect(one && ur_index_is_checked(part, in_body / UR_BLOCK_BYTES), 1)) return UR_OK;
    return ur_index_check(part, at, 8, error);
  }
  /* exact: i < count, and width x count was checked */
  uint64_t block = (vector->offset + i * vector->width - part->header.header_bytes) / UR_BLOCK_BYTES;
  if (__builtin_expect(ur_index_is_checked(part, block), 1)) return UR_OK;
  return ur_index_check_block(part, block, error);
}

/* Element i as a number; the caller has checked i < count and the block. */
static inline uint64_t ur_vector_load(const ur_vector *vector, uint64_t i) {
  if (vector->bits != 0) return vector->base + ur_packed_bits(vector->data, vector->bits, i);
  const uint8_t *at = vector->data + i * vector->width; /* exact: i < count, and width x count was checked */
  switch (vector->width) {
    case 1: return at[0];
    case 2: return ur_load16(at);
    case 4: return ur_load32(at);
    default: return ur_load64(at);
  }
}

/* ---- part/rows.c ----------------------------------------------------------------------------------------------------- */

/* Bytes of an element of an array; 1 of other columns. */
uint32_t ur_element_bytes(const ur_column_info *info);

/* What decompresses the cells of a compressed column, made when it is first asked for; the part's own. */
ur_status ur_column_decoder(ur_part *part, ur_column *column, const ur_decoder **decoder, ur_error *error);

/* ---- part/rows.c: where rows and cells lie, and whether their bytes are right ----------------------------------------- */

/* The bytes [offset, offset + bytes) of the data file that hold a row or a cell: always inside the file. */
typedef struct {
  uint64_t offset;
  uint64_t bytes;
} ur_extent;

/* Stored length of the cell of `row` in blob column `column`. */
ur_status ur_cell_length(ur_part *part, uint64_t row, const ur_column *column, uint64_t *bytes, ur_error *error);

/* Length of the value of that cell, which is not the stored one's where the column is compressed. */
ur_status ur_value_length(ur_part *part, uint64_t row, const ur_column *column, uint64_t *bytes, ur_error *error);

/* The cells of the first `count` blob columns of `row`; the row as stored (padding included) in `whole`, unless NULL. */
ur_status ur_locate_cells(ur_part *part, uint64_t row, int32_t count, ur_extent *cells, ur_extent *whole,
                          ur_error *error);

/* The number of the digest unit of (row, blob). */
static inline uint64_t ur_unit_of(const ur_part *part, uint64_t row, int32_t blob) {
  uint64_t k = part->data.unit_rows;
  return k > 0 ? row / k : row * (uint64_t)part->blob_columns + (uint64_t)blob;
}

/* The digest unit of (row, blob), and the bytes under it. */
ur_status ur_locate_unit(ur_part *part, uint64_t row, int32_t blob, const ur_extent *cell, uint64_t *unit,
                         ur_extent *extent, ur_error *error);

/* Whether the unit need not be checked: verified before, or verification is off. Never of what is fetched. */
bool ur_unit_is_checked(const ur_part *part, uint64_t unit);

/* Of a part that is fetched: whether the unit was right when a cache had it, and that it was. */
bool ur_unit_is_settled(const ur_part *part, uint64_t unit);
void ur_unit_settle(ur_part *part, uint64_t unit);

/* Whether none of these rows' units need be checked, where units are of k >= 1 rows: after the first epoch, all there is
 * to verifying. */
bool ur_rows_are_checked(const ur_part *part, const int64_t *rows, int64_t n);

/* Compares the digest of the unit's bytes, which the caller has read, with the index; remembers a match. With `to`, the
 * bytes are copied there on the way, right or wrong. */
ur_status ur_unit_check(ur_part *part, uint64_t unit, const uint8_t *bytes, const ur_extent *extent, uint8_t *to,
                        ur_error *error);

/* Checks the next `count` units in the order of the file, of a part with a view and rows of fixed width: as far as they
 * are in memory, from which they come twice as fast in that order as one here and one there. A unit that is not right
 * stays unchecked, for whoever wants it. */
void ur_units_check_ahead(ur_part *part, uint64_t count);

#endif
