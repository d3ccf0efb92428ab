/* unirecord.h - reading datasets of UniRecord from C: open one, find its columns, read rows and shuffled batches.
 *
 * C11, libc and pthreads; no Python. docs/c-api.md has a whole loader in 50 lines and says how programs are built; the
 * format is specified in docs/spec/format.md. What only the Python package and the core itself use stands in
 * unirecord_internal.h, which may change at any time: a program needs this header alone.
 *
 * A dataset is opened by its path (ur_dataset_open): a directory of parts with its manifest, or one part. Columns are
 * found by name, rows are read by number (ur_dataset_read), and an epoch is read in batches by threads
 * (ur_dataset_loader, ur_loader_next), in the order that Python has for the same seed, epoch and shards. Below that are
 * sets of parts, orders and loaders one by one, for whoever keeps track of files and rows otherwise.
 *
 * What holds for every function:
 *  - Status. A function that can fail returns ur_status; UR_OK is 0. Where it takes a `ur_error *error`, that may be
 *    NULL; on failure it is filled whole, on success it is left alone. There is no global error state.
 *  - Outputs come last and are untouched on failure, unless the function says otherwise.
 *  - Memory. The caller owns every buffer it passes in; the core keeps none of them after the call returns, except where
 *    a function says "borrowed until". Opaque handles are released by the matching ur_*_release, which takes NULL too.
 *  - Handles. A handle holds those that it needs by references of its own: a dataset its sets, a set its opened parts, a
 *    loader its set, pool and order, a batch its pool. They may be released in any order, and a part from ur_set_part
 *    stays good without its set. Arrays and memory that a handle borrows must outlive it.
 *  - Threads. Every function may be called from any thread at any time on the same handle; ur_*_release gives up one
 *    reference, and a handle dies when the last reference, calls in flight included, is gone.
 *  - Fork. Handles opened before fork() may be used in the child, except ur_loader (which the child must not touch but
 *    by ur_loader_release, and that is safe there).
 *  - Files are hostile: no file content can cause an access outside the mapped or allocated memory. A mapped file that
 *    another process truncates between the check at the start of a call and the access can raise SIGBUS. Mapped are the
 *    data file with UR_IO_MAP, and an index of more than 64 KiB in every way but UR_IO_MEMORY; memory that a ur_section
 *    points to is mapped likewise, and ur_part_check looks before it is read. Files are never cut by this library.
 *
 * The text between "cdef begin" and "cdef end" is also read by the Python binding, so it holds declarations only.
 */
#ifndef UNIRECORD_H
#define UNIRECORD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before a function of this header: a shared library exports these, and nothing else. */
#ifndef UR_API
#if defined(__GNUC__)
#define UR_API __attribute__((visibility("default")))
#else
#define UR_API
#endif
#endif

/* cdef begin */

/* ---- status ----------------------------------------------------------------------------------------------------- */

typedef enum {
  UR_OK = 0,
  UR_END = 1,         /* a loader has delivered its last batch */
  UR_TOO_SMALL = 2,   /* a caller's buffer is too small; the needed size has been written */
  UR_ARGUMENT = 3,    /* the call is wrong (row out of range, unknown column, bad option) */
  UR_NOT_FOUND = 4,   /* a file does not exist */
  UR_FORMAT = 5,      /* not our file, or one that needs a newer reader */
  UR_CORRUPT = 6,     /* our file, but its bytes are not what was written */
  UR_STALE = 7,       /* the file is not the one that was opened or expected: replaced, truncated, another part */
  UR_IO = 8,          /* the operating system failed; os_errno says how */
  UR_NO_MEMORY = 9,
  UR_CLOSED = 10,     /* the handle has been closed */
  UR_COLUMN = 11       /* this column cannot be read here, and the others can: its type or codec is unknown, or a library
                         is missing */
} ur_status;

/* Why, where a status alone does not say what to do about it. */
typedef enum {
  UR_REASON_NONE = 0,
  UR_REASON_ROW = 1,           /* UR_ARGUMENT: a row that is not there */
  UR_REASON_SCHEMA = 2,        /* UR_ARGUMENT: a part with other columns than the part opened first */
  UR_REASON_NEWER = 3,         /* UR_FORMAT: only a newer reader can read the file */
  UR_REASON_UNFINISHED = 4,    /* UR_FORMAT: the file was never finished; its whole row groups can be saved */
  UR_REASON_OTHER_PART = 5,    /* UR_STALE: the file, or its index, is another part's */
  UR_REASON_OTHER_CONTENT = 6, /* UR_STALE: the index is of this part with other rows */
  UR_REASON_PATCH = 7          /* UR_CORRUPT: the part's patch is none of it */
} ur_reason;

typedef enum { UR_FILE_NONE = 0, UR_FILE_DATA = 1, UR_FILE_INDEX = 2 } ur_file_kind;

typedef struct {
  int32_t status;     /* ur_status */
  int32_t os_errno;   /* 0 unless status is UR_IO or UR_NOT_FOUND */
  int32_t file;       /* ur_file_kind: which of the part's files */
  int32_t column;     /* its ordinal in the schema, or -1 */
  int32_t reason;     /* ur_reason */
  int32_t reserved;
  int64_t part;       /* number of the part in its set, or -1 */
  int64_t row;        /* row within the part, or -1 */
  uint64_t offset;    /* byte offset in the file, or UINT64_MAX */
  char what[160];     /* one sentence without file name, NUL-terminated: what was expected and what was found */
} ur_error;

UR_API const char *ur_status_text(int32_t status); /* a static string, never NULL */

UR_API const char *ur_version(void); /* of the package that this library is of, such as "0.1.0"; a static string */

/* ---- digests ---------------------------------------------------------------------------------------------------- */

/* XXH3-64 of `bytes` bytes at `data` with `seed`, as published in the xxHash specification. Pure. */
UR_API uint64_t ur_xxh3_64(const void *data, size_t bytes, uint64_t seed);

/* XXH3-128 of the same: 16 bytes, the low half first, little-endian. Pure. */
UR_API void ur_xxh3_128(const void *data, size_t bytes, uint64_t seed, uint8_t digest[16]);

/* ---- columns and values ---------------------------------------------------------------------------------------- */

/* How the cells of a column are compressed, one by one. */
typedef enum {
  UR_CODEC_PLAIN = 0,
  UR_CODEC_ZSTD = 1,        /* a frame of zstd */
  UR_CODEC_SHUFFLE_ZSTD = 2 /* the first bytes of all elements, then the second ones, and so on, in a frame of zstd */
} ur_codec;

typedef struct {
  int32_t type;       /* docs/spec/format.md, "Column types"; columns of a type that is not known there cannot be read */
  int32_t dtype;      /* element type of an array, else 0 */
  int32_t nullable;
  int32_t is_blob;
  int64_t fixed_bytes; /* bytes of a value, or 0 when they differ */
  int32_t codec;       /* ur_codec: how its cells are compressed in this part; values are handed out decompressed */
  int32_t chunked;     /* 1: its cells are cut into chunks in this part; values are handed out whole all the same */
} ur_column_info;

/* Boxes of values, one for each row, all of one size: of arrays of one shape, or runs of bytes of bytes and text. Of a column that
 * is cut into chunks, those chunks alone that a box touches are read and checked. */
typedef struct {
  int32_t rank;          /* dimensions of the arrays; 1 for bytes and text */
  int32_t reserved;      /* 0 */
  const int64_t *shape;  /* of the arrays, from the schema; NULL for bytes and text */
  const int64_t *sizes;  /* of a box along each dimension; those of bytes and text are counted in bytes */
  const int64_t *starts; /* `rank` numbers for each row: the element at which its box begins; it lies inside the value */
  int64_t *lengths;      /* NULL, or room for the bytes of each value of variable width, which measuring them says */
} ur_boxes;

typedef struct {
  int32_t column;    /* in: its ordinal in the schema */
  int32_t reserved;  /* in: 0 */
  uint8_t *data;     /* in: values, row after row without gaps */
  uint64_t capacity; /* in: bytes at data */
  int64_t *offsets;  /* in: room for n + 1 for columns of variable width (strings, blobs): where each value starts in
                        data, the end of the last one last; NULL for columns of fixed width */
  uint8_t *valid;    /* in: room for n bytes, 1 = a value, 0 = null; may be NULL. A null has no bytes, or bytes that mean
                        nothing where values have fixed width */
  uint64_t used;     /* out: bytes of data written; with UR_TOO_SMALL, bytes of data needed */
  const ur_boxes *boxes; /* in: NULL, or the boxes that are wanted in place of whole values; then `offsets` is NULL. Of a null,
                            which `valid` tells, the box is zero */
} ur_output;

/* ---- ways of reading files ------------------------------------------------------------------------------------- */

typedef enum {
  UR_IO_AUTO = 0,
  UR_IO_MAP = 1,        /* the data file mapped; truncation by another process can raise SIGBUS between checks */
  UR_IO_PREAD = 2,      /* pread into the caller's buffers */
  UR_IO_URING = 3,      /* io_uring through the page cache; UR_IO_PREAD where the kernel refuses it */
  UR_IO_URING_DIRECT = 4, /* io_uring with O_DIRECT; falls back likewise */
  UR_IO_MEMORY = 5,     /* data file and index loaded once into memory, the data file's shared by forks */
  UR_IO_FETCH = 6       /* by a function of the caller: what ur_set_io answers of a set with ur_set_options.fetch */
} ur_io;

typedef enum {
  UR_VERIFY_FIRST = 0,  /* each digest is checked when its bytes are first read through this set; of what is fetched, each time,
                           and when a cache first has it */
  UR_VERIFY_ALWAYS = 1, /* row digests are checked at every read */
  UR_VERIFY_NEVER = 2   /* no digest of rows or of index blocks is checked (bounds always are) */
} ur_verify;

/* ---- datasets: what a path names, as Python reads it -------------------------------------------------------------- */

typedef struct ur_dataset ur_dataset;

typedef struct {
  int32_t io;     /* ur_io, of files: UR_IO_AUTO suits nearly always */
  int32_t verify; /* ur_verify */
} ur_dataset_options;

/* Opens the dataset at `path`: a directory with a manifest.json, or one part. Its rows and columns are those that Python
 * sees: rows that have been deleted are left out, columns that have been added are read from where they are, those that
 * have been dropped or renamed are gone or have their new name. options: NULL for all 0. While it is open, a writer keeps
 * the files of this version.
 *
 * The manifest and what it names are checked as any file is; a feature that this library does not have is refused by its
 * name. In errors, `what` begins with the name of the file, where that is not one of a part's own. Files of parts are
 * opened when a row of theirs is first read. UR_NOT_FOUND names what is missing. */
UR_API ur_status ur_dataset_open(const char *path, const ur_dataset_options *options, ur_dataset **dataset,
                                 ur_error *error);
UR_API void ur_dataset_close(ur_dataset *dataset);   /* later calls answer UR_CLOSED; calls in flight finish */
UR_API void ur_dataset_release(ur_dataset *dataset); /* NULL is allowed; its loaders stay good */

UR_API int64_t ur_dataset_rows(const ur_dataset *dataset);    /* that have not been deleted */
UR_API int32_t ur_dataset_columns(const ur_dataset *dataset); /* how many there are */

/* The column of this name, from 0 in the order of the schema; -1 when there is none. */
UR_API int32_t ur_dataset_column(const ur_dataset *dataset, const char *name);

/* Name and type of a column; the name is borrowed until the dataset is released, NULL is allowed for either. UR_ARGUMENT. */
UR_API ur_status ur_dataset_describe(const ur_dataset *dataset, int32_t column, const char **name, ur_column_info *info);

/* Reads rows[0..n), each in [0, ur_dataset_rows): row i is Python's dataset[i], unshuffled. As ur_set_read does. */
UR_API ur_status ur_dataset_read(ur_dataset *dataset, const int64_t *rows, int64_t n, ur_output *outputs,
                                 int32_t output_count, ur_error *error);

/* The path of the data file of the part that an error of this dataset, or of its loaders, speaks of; NULL when it speaks of
 * none. Borrowed until the dataset is released. */
UR_API const char *ur_dataset_file(const ur_dataset *dataset, const ur_error *error);

/* ---- order: which row stands at a position of an epoch (pure, no I/O, immutable, O(1) memory in rows) -------------- */

typedef enum {
  UR_ORDER_SEQUENTIAL = 0,
  UR_ORDER_SHUFFLE = 1,      /* an exact keyed permutation of [0, rows) */
  UR_ORDER_BLOCK = 2,        /* blocks of block_rows permuted, then rows within windows of window_blocks blocks */
  UR_ORDER_PARTS = 3,        /* parts permuted, rows inside each part in order */
  UR_ORDER_WITHIN_PARTS = 4  /* parts in order, rows inside each part permuted */
} ur_order_mode;

typedef struct ur_order ur_order;

/* rows: 0 .. 2^62. block_rows, window_blocks: >= 1, read for UR_ORDER_BLOCK alone. part_rows[parts]: each >= 0, summing
 * to rows, read (and copied) for the two parts modes alone. UR_ARGUMENT otherwise. */
UR_API ur_status ur_order_new(int64_t rows, int32_t mode, uint64_t seed, uint64_t epoch, int64_t block_rows,
                              int64_t window_blocks, const int64_t *part_rows, int64_t parts, ur_order **order,
                              ur_error *error);
UR_API void ur_order_release(ur_order *order); /* NULL is allowed */

/* rows[i] = the row at position (start + i * stride) mod rows, for i in [0, count). start >= 0, stride >= 1, and no
 * position may exceed 2^62 + 2^32. UR_ARGUMENT if the order is empty and count is not 0. */
UR_API ur_status ur_order_range(const ur_order *order, int64_t start, int64_t stride, int64_t count, int64_t *rows);

/* ---- sets of parts ---------------------------------------------------------------------------------------------- */

typedef struct {
  const char *data_path;
  const char *index_path; /* NULL: data_path + ".idx", or + ".idx.new" if that is missing or of another part or content */
  const uint8_t *id;      /* the 16 bytes of the expected part id, or NULL: whatever is there */
  int64_t rows;           /* expected rows, or -1: not known, so the part is opened at once */
  const uint8_t *content_digest; /* the 16 bytes of the expected one, or NULL: not known */
  uint64_t data_bytes;     /* with ur_set_options.fetch: how long the two files are */
  uint64_t index_bytes;
  int32_t layout;          /* 0: the part's columns are those of the set; n: they are `layouts` number n - 1 of the options */
  uint32_t patch_file;     /* which file of its part this is, 0: its data file, as the patch numbers them */
  const uint8_t *patch;    /* values of some rows in place of those that are stored (docs/spec/format.md, "Patches"), put into this
                              process's memory of the index when the part is opened */
  uint64_t patch_bytes;    /* 0: there is none */
} ur_part_ref;

/* Bytes [offset, offset + bytes) of a file of part number `part`, wanted at `to`. */
typedef struct {
  int64_t part;
  uint64_t offset;
  uint64_t bytes; /* inside the file; 0 of all ranges of a call that brings nothing, and says of their parts: they will be opened
                     next (UR_FILE_DATA), or what came of them was wrong, and is to come anew (UR_FILE_INDEX) */
  uint8_t *to;    /* NULL of all ranges of a call that only says that they will be read soon */
  int32_t file;   /* ur_file_kind */
  int32_t keep;   /* 1: cells, or blocks of an index: a cache may keep them, since their digests are checked whoever brings them */
  uint64_t *came; /* NULL, or where to say when the bytes were there, in nanoseconds of CLOCK_MONOTONIC: for ur_part_time. Whoever
                     does not know leaves it alone */
} ur_range;

/* Brings ranges from wherever the files are: all of them, or it fills *error with a part of the ranges, a status and a
 * sentence, and returns that status. Sorted by part, file and offset. Called from any thread, several at once. What it
 * brings is checked as what is read from a file is. */
typedef ur_status (*ur_fetch)(void *context, const ur_range *ranges, int64_t count, ur_error *error);

typedef struct ur_cache ur_cache;

typedef struct {
  int32_t io;      /* ur_io */
  int32_t verify;  /* ur_verify */
  uint64_t bytes;  /* of the data files of all parts, for UR_IO_AUTO to compare with memory; 0: each part for itself */
  const uint8_t *table; /* the column table that every part must have (copied), or NULL: that of the part opened first */
  uint32_t columns;     /* entries of it, of 32 bytes each */
  uint32_t schema_bytes;
  const uint8_t *schema; /* msgpack of the "schema" in the metadata (copied) of parts whose content digest is given and which
                            have no layout, or NULL: any */
  const int32_t *layouts; /* layout_count times `columns` numbers (copied): which column of a part each of the set is, all
                             different; with a table. Calls on such a part number its columns as the set does */
  int32_t layout_count;
  ur_fetch fetch;        /* NULL: the paths are files. Else they are names, all bytes come by this, those of the index when they are
                            first needed and for good, and `io` must be UR_IO_AUTO */
  void *context;         /* of `fetch`; borrowed until the set is released */
  ur_cache *cache;       /* of what `fetch` brought before, looked at first; NULL: none. Borrowed likewise */
  int32_t heads_only;    /* 1, with `fetch` alone: the heads of both files are read and compared, neither the end page nor the
                            digests of the index; the parts can be described, no row can be read */
} ur_set_options;

typedef struct ur_set ur_set;   /* the rows of several parts, one after the other, as one row space */
typedef struct ur_part ur_part; /* one opened part */

/* Parts whose rows are given are opened when a row of theirs is first read; `refs` is copied. All parts must have the
 * column table of the options, and the same one as the first part opened. With no parts at all the set has no rows and no columns. */
UR_API ur_status ur_set_open(const ur_part_ref *refs, int64_t parts, const ur_set_options *options, ur_set **set,
                             ur_error *error);
UR_API void ur_set_close(ur_set *set);   /* later calls answer UR_CLOSED; calls in flight finish */
UR_API void ur_set_release(ur_set *set); /* NULL is allowed; implies ur_set_close when it is the last reference */
UR_API int64_t ur_set_rows(const ur_set *set);
UR_API int64_t ur_set_parts(const ur_set *set);

/* The opened part number `part`, with a reference the caller must release. */
UR_API ur_status ur_set_part(ur_set *set, int64_t part, ur_part **out, ur_error *error);

/* Reads rows[0..n) (each in [0, ur_set_rows)), in the order given, the chosen columns of each, into `outputs`. One call a
 * batch. UR_TOO_SMALL: some `capacity` is too small; every output's `used` then says what is needed, and the contents of
 * the buffers are undefined. On any other failure the contents are undefined too. Files are checked with an fstat of
 * data file and index per part that the call touches: a file that is not as long or as old as it was is UR_STALE. */
UR_API ur_status ur_set_read(ur_set *set, const int64_t *rows, int64_t n, ur_output *outputs, int32_t output_count,
                             ur_error *error);

/* ---- one opened part -------------------------------------------------------------------------------------------- */

typedef struct {
  uint8_t id[16];
  uint8_t content_digest[16]; /* stands for every value of the part */
  int64_t rows;
  int64_t groups;
  int32_t columns;
  int32_t blob_columns;
  int32_t writer_version;
  int32_t blob_align;
  int64_t unit_rows;    /* rows that share a digest; 0: every blob has its own */
  int64_t group_rows;   /* rows of every row group but the last; 0: they differ */
  int64_t row_bytes;    /* bytes of a row in a blob page; 0: they differ */
  uint64_t data_bytes;
  uint64_t index_bytes;
  const uint8_t *metadata;  /* msgpack map, borrowed until the part is released */
  uint64_t metadata_bytes;
  const uint8_t *table;     /* column table, 32 bytes for each of `columns`; borrowed likewise */
} ur_part_info;

UR_API void ur_part_release(ur_part *part); /* NULL is allowed */
UR_API void ur_part_describe(const ur_part *part, ur_part_info *info);
UR_API ur_status ur_part_column(const ur_part *part, int32_t column, ur_column_info *info);

/* ---- loader: batches read ahead by threads ---------------------------------------------------------------------- */

typedef struct ur_pool ur_pool;     /* memory of batches, kept for the batches that come after */
typedef struct ur_loader ur_loader;
typedef struct ur_batch ur_batch;   /* one batch in a piece of memory of its own, which goes back to the pool at the end */

/* Keeps at most `spare` pieces of memory that are not in use. */
UR_API ur_status ur_pool_new(int32_t spare, ur_pool **pool, ur_error *error);
UR_API void ur_pool_release(ur_pool *pool);          /* NULL is allowed; batches in use stay good */

/* Lets batches lie in `memory` too (pinned memory, say), a multiple of 64 bytes at such an address. It stays the caller's, who
 * frees it when the pool and every batch from it have been released. UR_ARGUMENT: it is too small or not aligned. */
UR_API ur_status ur_pool_lend(ur_pool *pool, void *memory, uint64_t bytes, ur_error *error);

typedef struct ur_bitmap ur_bitmap; /* unirecord_internal.h has these three */
typedef struct ur_stream ur_stream;
typedef struct ur_sequence ur_sequence;

/* A crop of each value of a column: a box of one size, whose place is drawn for each sample as docs/spec/order.md says, "Crops". */
typedef struct {
  int32_t rank;         /* dimensions of its values, 1 for bytes and text; 0: whole values */
  int32_t reserved;     /* 0 */
  const int64_t *shape; /* as that of ur_boxes, and 0 for bytes and text; borrowed until the loader is released, like `sizes` */
  const int64_t *sizes; /* of the crop along each dimension, no larger than the values */
  uint64_t name;        /* XXH3-64 of the column's name */
} ur_drawn_box;

typedef struct {
  ur_order *order;          /* the loader holds a reference of its own */
  const int64_t *selection; /* NULL, or row of the set for each row of the order; borrowed until the loader is released */
  const ur_bitmap *bitmap;  /* NULL, or with `selection` NULL the rows of the set, in their order; borrowed likewise, the
                               struct itself copied */
  int64_t selection_start;  /* without `selection`: row of the set, or number of the bitmap's one = selection_start + row *
                               selection_step */
  int64_t selection_step;
  int64_t first;            /* position in the order of this shard's first sample */
  int64_t stride;           /* positions between its samples: the number of shards */
  int64_t samples;          /* how many samples to deliver */
  int64_t batch_size;
  int32_t drop_last;
  int32_t prefetch;         /* batches that may be ready or in work beyond the one handed out, >= 1 */
  int32_t threads;          /* >= 1 */
  int32_t output_count;
  const int32_t *columns;   /* output_count ordinals of columns; copied */
  const int64_t *batch_ends; /* NULL, or for each of `batches` batches the sample before which it ends: batches of different
                              * sizes, `batch_size` at most, up to `samples`; copied */
  int64_t batches;
  int32_t on_corrupt;       /* 0: a corrupt row fails its batch; 1: corrupt rows are left out, and counted */
  int32_t prefetch_near;    /* 0, or in 1..prefetch: batches, and threads in 1..threads, while nothing comes by way of */
  int32_t threads_near;     /* ur_set_options.fetch: what a cache has is not spread over more memory than it needs */
  const ur_stream *stream;  /* NULL, or samples of it in place of rows of the set: `columns` are ur_stream_output, rows of the
                               order (or of `bitmap` or `selection`) are samples; borrowed until the loader is released */
  const ur_drawn_box *crops;     /* NULL, or one for each output; borrowed likewise */
  uint64_t crop_base;       /* what the keys of samples are made of beside row and draw: f(g + (f(g + seed) xor epoch)) */
  const int64_t *crop_draws; /* NULL, or for each of `samples` the draw that its key is made of, -1 for none; borrowed likewise */
  const ur_sequence *sequence; /* NULL, or each sample is what stands at its steps from a row: outputs have [rows][steps] values.
                               Without stream and crops; borrowed likewise */
  int64_t crop_period;      /* without `crop_draws`: 0 for no draws, else the draw is the position modulo this */
} ur_loader_options;

/* Places are byte offsets from the start of the batch's memory, multiples of 64; UINT64_MAX: there is no such array. */
typedef struct {
  uint64_t data_at;
  uint64_t data_bytes;
  uint64_t offsets_at;     /* int64[rows + 1], for columns of variable width */
  uint64_t valid_at;       /* uint8[rows], for nullable columns */
  uint64_t starts_at;      /* int64[rows][rank], for columns of which crops are taken: where each begins */
  uint64_t missing_at;     /* uint8[rows][steps], of a sequence: 1 where there is no such row */
} ur_column_view;

typedef struct {
  ur_batch *batch;         /* the caller's reference; its address is the start of the memory */
  uint64_t memory_bytes;
  uint64_t data_bytes;     /* of the values alone */
  int64_t number;          /* of the batch, from 0 */
  int64_t rows;
  int64_t skipped;         /* corrupt rows left out */
  uint64_t row_ids_at;     /* int64[rows]: row of the set for each sample */
  uint64_t skipped_at;     /* int64[skipped] */
  const ur_column_view *columns; /* output_count views, inside the batch */
} ur_batch_info;

typedef struct {
  int64_t batches, samples, skipped;
  uint64_t bytes;          /* of the batches delivered */
  uint64_t read_ns;        /* sum over threads and consumers of time spent filling batches */
  uint64_t wait_ns;        /* time consumers have waited in ur_loader_next */
  uint64_t idle_ns;        /* sum over threads of time without a free place to fill */
} ur_loader_stats;

/* Threads start at the first ur_loader_next. The loader keeps a reference to the set and the pool. */
UR_API ur_status ur_loader_new(ur_set *set, ur_pool *pool, const ur_loader_options *options, ur_loader **loader,
                               ur_error *error);

/* The next batch in order; waits for it, or fills it if no thread has begun it. UR_END after the last. After a failure the
 * loader goes on with the batch after; the failed batch's number and row count are in `info`, its `batch` is NULL. */
UR_API ur_status ur_loader_next(ur_loader *loader, ur_batch_info *info, ur_error *error);
UR_API void ur_loader_statistics(ur_loader *loader, ur_loader_stats *stats);
UR_API void ur_loader_stop(ur_loader *loader);    /* ends the threads; ur_loader_next answers UR_CLOSED from then on */
UR_API void ur_loader_release(ur_loader *loader); /* NULL is allowed; implies ur_loader_stop; batches stay good */
UR_API void ur_batch_release(ur_batch *batch);    /* NULL is allowed */

/* ---- epochs of a dataset -------------------------------------------------------------------------------------------- */

/* What becomes of the last round of an epoch, where the shards do not divide the rows. */
typedef enum {
  UR_REMAINDER_PAD = 0,   /* it is filled from the front of the epoch: some rows come twice */
  UR_REMAINDER_DROP = 1,  /* it is left out */
  UR_REMAINDER_UNEVEN = 2 /* the first shards have one row more */
} ur_remainder;

/* An epoch of a dataset, as one shard of a job reads it; docs/spec/order.md says which rows that are. */
typedef struct {
  int32_t shuffle;        /* ur_order_mode */
  int32_t remainder;      /* ur_remainder */
  uint64_t seed, epoch;
  int64_t shard, shards;  /* 0 <= shard < shards, no more than there are rows; shards 0: 1 */
  int64_t start;          /* samples that all shards together have had before, of a job that goes on; 0 from the front */
  int64_t block_rows;     /* of UR_ORDER_BLOCK, and 0 for others; 0: chosen from the files, as in Python */
  int64_t window_blocks;
  int64_t batch_size;     /* >= 1 */
  const int32_t *columns; /* column_count of them, in the order wanted; copied */
  int32_t column_count;
  int32_t drop_last;      /* 1: the last batch is left out when it is not full */
  int32_t skip_corrupt;   /* 1: corrupt rows are left out and counted, 0: they fail their batch */
  int32_t prefetch;       /* batches read ahead; 0: 4 */
  int32_t threads;        /* 0: 2 */
} ur_epoch;

/* A loader of these batches, in this order: that of Python for the same dataset, shuffle, seed, epoch and shards.
 * pool: NULL for one of its own. The rows of ur_batch_info.row_ids_at count deleted rows too: numbers as they are stored. */
UR_API ur_status ur_dataset_loader(ur_dataset *dataset, ur_pool *pool, const ur_epoch *epoch, ur_loader **loader,
                                   ur_error *error);

/* cdef end */

#ifdef __cplusplus
}
#endif

#endif
