/* unirecord.h - the whole public interface of the UniRecord C core: random access to parts, order, batches.
 *
 * Usable without Python. C11, libc and pthreads only. The format is specified in docs/format.md.
 *
 * Contracts that hold for every function here:
 *  - Status. A function that can fail returns ur_status; UR_OK is 0. Where it takes a `ur_error *error`, that may be
 *    NULL; on failure it is filled whole, on success it is left alone. There is no global error state.
 *  - Outputs come last and are untouched on failure, unless the function says otherwise.
 *  - Memory. The caller owns every buffer it passes in; the core keeps none of them after the call returns, except where
 *    a function says "borrowed until". Opaque handles are released by the matching ur_*_release.
 *  - Handles. A handle holds those that it needs by references of its own: a set its opened parts, a loader its set and pool, a
 *    batch its pool. They may be released in any order, and a part from ur_set_part stays good without its set. One alone is
 *    borrowed, since it never changes and has no count: the order of a loader, which must outlive it, as must the arrays and
 *    memory that a handle borrows.
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

#if defined(__GNUC__)
#define UR_API __attribute__((visibility("default")))
#else
#define UR_API
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
  UR_CODEC = 11       /* a compressed column cannot be used here: its codec is unknown, or a library is missing */
} ur_status;

/* Why, where a status alone does not say what to do about it. */
typedef enum {
  UR_REASON_NONE = 0,
  UR_REASON_ROW = 1,           /* UR_ARGUMENT: a row that is not there */
  UR_REASON_SCHEMA = 2,        /* UR_ARGUMENT: a part with other columns than the part opened first */
  UR_REASON_NEWER = 3,         /* UR_FORMAT: only a newer reader can read the file */
  UR_REASON_UNFINISHED = 4,    /* UR_FORMAT: the file was never finished; its whole row groups can be saved */
  UR_REASON_OTHER_PART = 5,    /* UR_STALE: the file, or its index, is another part's */
  UR_REASON_OTHER_CONTENT = 6  /* UR_STALE: the index is of this part with other rows */
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

/* ---- digests ---------------------------------------------------------------------------------------------------- */

/* XXH3-64 of `bytes` bytes at `data` with `seed`, as published in the xxHash specification. Pure. */
UR_API uint64_t ur_xxh3_64(const void *data, size_t bytes, uint64_t seed);

/* CRC-32C (Castagnoli) of `bytes` bytes at `data`: what TFRecord files are checked by. Pure. */
UR_API uint32_t ur_crc32c(const void *data, size_t bytes);

/* digests[i] = XXH3-64 of data[starts[i] .. starts[i] + lengths[i]) with seed first_seed + i * seed_step (mod 2^64).
 * The caller vouches that the ranges lie inside `data`; with `data` NULL, `starts` are addresses. */
UR_API void ur_digest_ranges(const void *data, const uint64_t *starts, const uint64_t *lengths, size_t count,
                             uint64_t first_seed, uint64_t seed_step, uint64_t *digests);

typedef struct ur_digesting ur_digesting;

/* The same on a thread of its own. The data and the arrays are borrowed until ur_digesting_end. Where no thread can be
 * started, the digests are computed at once, and there is no handle (NULL). */
UR_API ur_digesting *ur_digesting_start(const void *data, const uint64_t *starts, const uint64_t *lengths, size_t count,
                                        uint64_t first_seed, uint64_t seed_step, uint64_t *digests);
UR_API void ur_digesting_end(ur_digesting *job); /* waits for the digests, or in a forked child computes them; NULL is allowed */

/* ---- codecs: cells of blob columns, compressed one by one -------------------------------------------------------- */

typedef enum {
  UR_CODEC_PLAIN = 0,
  UR_CODEC_ZSTD = 1,        /* a frame of zstd */
  UR_CODEC_SHUFFLE_ZSTD = 2 /* the first bytes of all elements, then the second ones, and so on, in a frame of zstd */
} ur_codec;

typedef struct ur_encoder ur_encoder; /* what compresses the cells of one column; any number of threads may use it */
typedef struct ur_decoder ur_decoder; /* what decompresses them; likewise */

/* UR_OK when cells of this codec can be read and written here; else UR_CODEC with what to do about it. libzstd is loaded at
 * the first call that needs it: the file that the environment variable UNIRECORD_LIBZSTD names, or else the system's. */
UR_API ur_status ur_codec_check(int32_t codec, ur_error *error);

/* Trains a dictionary on `count` cells for cells like them. *bytes: its size, at most `capacity`; 0 when the cells are too
 * few or too much alike to train on. element_bytes: of an element, for UR_CODEC_SHUFFLE_ZSTD. */
UR_API ur_status ur_codec_train(int32_t codec, uint32_t element_bytes, const void *const *cells, const uint64_t *lengths,
                                size_t count, uint8_t *dictionary, uint64_t capacity, uint64_t *bytes, ur_error *error);

/* level: 1 (fastest) to 22 (smallest). The dictionary is copied; NULL: none. */
UR_API ur_status ur_encoder_new(int32_t codec, uint32_t element_bytes, int32_t level, const uint8_t *dictionary,
                                uint64_t dictionary_bytes, ur_encoder **encoder, ur_error *error);
UR_API void ur_encoder_release(ur_encoder *encoder); /* NULL is allowed */

/* Compresses cells to `out`, one after the other without gaps; stored[i] = bytes that cell i takes there, never more than
 * lengths[i]: what would not become smaller is stored as it is. `capacity` must be the sum of the lengths at least. */
UR_API ur_status ur_encoder_encode(const ur_encoder *encoder, const void *const *cells, const uint64_t *lengths,
                                   size_t count, uint8_t *out, uint64_t capacity, uint64_t *stored, ur_error *error);

UR_API ur_status ur_decoder_new(int32_t codec, uint32_t element_bytes, const uint8_t *dictionary,
                                uint64_t dictionary_bytes, ur_decoder **decoder, ur_error *error);
UR_API void ur_decoder_release(ur_decoder *decoder); /* NULL is allowed */

/* Decompresses cells, of which cell i is stored[i] bytes at data + starts[i] and becomes raw[i] bytes, to `out`, one after
 * the other without gaps. The caller vouches that they lie inside `data`, and that `out` has room for the sum of `raw`.
 * good[i] = 1, or 0 where a cell is not what it should be, whose raw[i] bytes at `out` are then zero. */
UR_API ur_status ur_decoder_decode(const ur_decoder *decoder, const uint8_t *data, const uint64_t *starts,
                                   const uint64_t *stored, const uint64_t *raw, size_t count, uint8_t *out, uint8_t *good,
                                   ur_error *error);

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* Writes the pieces, one after the other, where the file stands, in as many system calls as are best. *written: the bytes
 * that the file has taken, fewer when a call has taken fewer, or has failed. The errno of the first call when it has
 * failed, else 0: a later one will fail again. */
UR_API int32_t ur_append(int32_t fd, const void *const *pieces, const uint64_t *lengths, size_t count,
                         uint64_t *written);

/* Has the kernel begin to write these bytes of a file to the disk, where it can be asked to; waits for none of them, and
 * leaves errors to fsync. */
UR_API void ur_start_writeback(int32_t fd, uint64_t offset, uint64_t bytes);

/* ---- objects ---------------------------------------------------------------------------------------------------- */

/* UR_CORRUPT unless the bytes are one msgpack value by the rules of docs/format.md: whole, without extensions, at most 64
 * deep, keys of maps strings, integers or binary, and none twice in one map. That strings are UTF-8 is not looked at. */
UR_API ur_status ur_object_check(const uint8_t *bytes, uint64_t size, ur_error *error);

/* ---- strings of a column: string i is data[ends[i] .. ends[i + 1]) ------------------------------------------------ */

typedef struct ur_distinct ur_distinct; /* distinct strings, numbered from 0 in the order in which they were met */

/* most_count (below 2^32 - 1), most_bytes: how many strings, and bytes of all, it is to hold. */
UR_API ur_status ur_distinct_new(uint64_t most_count, uint64_t most_bytes, ur_distinct **set);
UR_API void ur_distinct_release(ur_distinct *set); /* NULL is allowed */

/* Takes strings in, but those with valid[i] == 0 (`valid` NULL: all). *full = 1 when they are more than it is to hold, or
 * were chosen to make it slow: then some of them are not in it. The caller vouches that `ends` do not fall, nor lead beyond
 * `data`, here and below. `numbers`: of each string, UINT32_MAX of one that is not taken in. UR_NO_MEMORY. */
UR_API ur_status ur_distinct_add(ur_distinct *set, const uint8_t *data, const uint64_t *ends, const uint8_t *valid,
                                 uint64_t count, uint32_t *numbers, int32_t *full);

/* How many there are, and their bytes; and the strings themselves: `count` + 1 ends, from 0 on. */
UR_API uint64_t ur_distinct_count(const ur_distinct *set, uint64_t *bytes);
UR_API void ur_distinct_copy(const ur_distinct *set, uint8_t *content, uint64_t *ends);

/* numbers[i] = the number of string i, UINT32_MAX where it is not in the set. */
UR_API void ur_distinct_find(const ur_distinct *set, const uint8_t *data, const uint64_t *ends, uint64_t count,
                             uint32_t *numbers);

/* Which of the strings with valid[i] != 0 is the least, and which the greatest, byte by byte; 0 where there is none. Pure. */
UR_API int32_t ur_strings_extremes(const uint8_t *data, const uint64_t *ends, const uint8_t *valid, uint64_t count,
                                   uint64_t *least, uint64_t *greatest);

/* ---- CSV, as it is looked through before it is converted ---------------------------------------------------------- */

typedef struct { /* what the cells of a column can all be read as */
  uint8_t whole, real, logical;     /* 1 so far: whole numbers, numbers, true or false; begin with 1. whole implies real */
  uint8_t empty, filled;            /* whether a cell is, and whether one is not */
  uint8_t negative;                 /* a whole number is below 0 */
  uint8_t beyond_low, beyond_high;  /* one is below int64, one above uint64 */
  uint8_t inexact;                  /* a whole number may be none that a double holds */
  uint64_t high;                    /* the greatest whole number of 19 digits or more that uint64 holds */
  uint64_t longest;                 /* characters */
} ur_csv_column;

/* Takes the cells of whole records into account, of `count` >= 1 columns. 1, and *rows = how many there are; 0, with
 * anything in `columns`, where the text is not RFC 4180 (lines end with LF or CRLF, quotes enclose cells and are doubled
 * in them) of UTF-8 without NUL, or a record has another number of cells. Lines without a byte are passed over. Pure. */
UR_API int32_t ur_csv_look(const uint8_t *data, uint64_t bytes, uint8_t delimiter, size_t count, ur_csv_column *columns,
                           uint64_t *rows);

/* ---- TFRecord ---------------------------------------------------------------------------------------------------- */

typedef enum {
  UR_TFRECORD_FULL = 0,        /* there was room for no more records */
  UR_TFRECORD_MORE = 1,        /* the next record is not whole in the data: it begins at *used, and has *wanted bytes at least */
  UR_TFRECORD_BAD_LENGTH = 2,  /* the checksum of the length of the one at *used differs */
  UR_TFRECORD_BAD_CONTENT = 3  /* that of its content does */
} ur_tfrecord_stop;

/* Finds at most `room` records from the beginning of `data` on: where the content of each starts, and how long it is; both
 * checksums are checked. Gives their number, the bytes that they take, and why it went no further. Pure. */
UR_API ur_tfrecord_stop ur_tfrecord_find(const uint8_t *data, uint64_t bytes, uint64_t room, uint64_t *starts,
                                         uint64_t *lengths, uint64_t *count, uint64_t *used, uint64_t *wanted);

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
UR_API ur_order *ur_order_retain(ur_order *order);
UR_API void ur_order_release(ur_order *order); /* NULL is allowed */

/* rows[i] = the row at position (start + i * stride) mod rows, for i in [0, count). start >= 0, stride >= 1, and no
 * position may exceed 2^62 + 2^32. UR_ARGUMENT if the order is empty and count is not 0. */
UR_API ur_status ur_order_range(const ur_order *order, int64_t start, int64_t stride, int64_t count, int64_t *rows);

/* rows[i] = the row at positions[i], each in [0, rows). `rows` may be `positions` itself. */
UR_API ur_status ur_order_at(const ur_order *order, const int64_t *positions, int64_t count, int64_t *rows);

/* The row at one position, or -1 when it is not in [0, rows). */
UR_API int64_t ur_order_one(const ur_order *order, int64_t position);

/* positions[i] = where rows[i] stands: the inverse of ur_order_at. */
UR_API ur_status ur_order_inverse(const ur_order *order, const int64_t *rows, int64_t count, int64_t *positions);

/* ---- bitmaps: selected rows, one bit each (pure, over the caller's buffers) ------------------------------------------ */

/* Row r is bit r mod 64 of word r / 64; there are (bits + 63) / 64 words, and bits beyond the last row are 0. */
typedef struct {
  const uint64_t *words;
  const uint64_t *directory; /* as ur_bitmap_index has filled it for these words */
  int64_t bits;
  int64_t ones;
} ur_bitmap;

/* Sets the bits of rows; several threads may at once. UR_ARGUMENT for a row that is not in [0, bits), with those before it
 * set. ur_bitmap_ones counts the bits that are set. */
UR_API ur_status ur_bitmap_add(uint64_t *words, int64_t bits, const int64_t *rows, int64_t count);
UR_API int64_t ur_bitmap_ones(const uint64_t *words, int64_t bits);

/* Words that the directory of a bitmap takes, less than 0.27 bits for each bit beyond the first thousands; -1 unless
 * 0 <= ones <= bits <= 2^62. ur_bitmap_index fills it: UR_ARGUMENT, with anything in it, when not `ones` bits are set,
 * or one beyond the last row is. */
UR_API int64_t ur_bitmap_directory(int64_t bits, int64_t ones);
UR_API ur_status ur_bitmap_index(const uint64_t *words, int64_t bits, int64_t ones, uint64_t *directory);

/* rows[i] = the row of one number ranks[i], each in [0, ones); `rows` may be `ranks` itself. ur_bitmap_one: of a single
 * one, or -1. ur_bitmap_range: of ones start .. start + count - 1. */
UR_API ur_status ur_bitmap_select(const ur_bitmap *bitmap, const int64_t *ranks, int64_t count, int64_t *rows);
UR_API int64_t ur_bitmap_one(const ur_bitmap *bitmap, int64_t rank);
UR_API ur_status ur_bitmap_range(const ur_bitmap *bitmap, int64_t start, int64_t count, int64_t *rows);

/* ranks[i] = ones before rows[i], each in [0, bits]. */
UR_API ur_status ur_bitmap_rank(const ur_bitmap *bitmap, const int64_t *rows, int64_t count, int64_t *ranks);

/* XXH3-64 with `seed` of the rows of ones start, start + step, ... (count of them) as int64, which are never all in memory. */
UR_API ur_status ur_bitmap_digest(const ur_bitmap *bitmap, int64_t start, int64_t step, int64_t count, uint64_t seed,
                                  uint64_t *digest);

/* ---- sets of parts ---------------------------------------------------------------------------------------------- */

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

typedef struct {
  const char *data_path;
  const char *index_path; /* NULL: data_path + ".idx", or + ".idx.new" if that is missing or of another part or content */
  const uint8_t *id;      /* the 16 bytes of the expected part id, or NULL: whatever is there */
  int64_t rows;           /* expected rows, or -1: not known, so the part is opened at once */
  uint64_t content_digest; /* expected content digest, or 0: not known */
  uint64_t data_bytes;     /* with ur_set_options.fetch: how long the two files are */
  uint64_t index_bytes;
  int32_t layout;          /* 0: the part's columns are those of the set; n: they are `layouts` number n - 1 of the options */
  int32_t reserved;        /* 0 */
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

/* Bytes that have come, in which several ranges may lie. */
typedef struct {
  const uint8_t *data;
  uint64_t bytes;
} ur_answer;

/* Range number `range` of a fetch lies at byte `place` of answer number `answer`. */
typedef struct {
  int64_t range;
  int64_t answer;
  uint64_t place;
} ur_put;

/* For a ur_fetch: copies ranges out of answers to where they are wanted, and says when they were there. Nothing is copied where
 * one of them is not inside its answer, which is UR_ARGUMENT. */
UR_API ur_status ur_ranges_put(const ur_range *ranges, int64_t count, const ur_answer *answers, int64_t answer_count,
                               const ur_put *puts, int64_t n, ur_error *error);

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
UR_API ur_set *ur_set_retain(ur_set *set);
UR_API void ur_set_close(ur_set *set);   /* later calls answer UR_CLOSED; calls in flight finish */
UR_API void ur_set_release(ur_set *set); /* NULL is allowed; implies ur_set_close when it is the last reference */
UR_API int64_t ur_set_rows(const ur_set *set);
UR_API int64_t ur_set_parts(const ur_set *set);
UR_API int32_t ur_set_io(const ur_set *set); /* the way of reading in use (by the parts opened so far; AUTO if none) */

/* One column of a joined set: column `column` of set number `layer` of those that are joined. */
typedef struct {
  int32_t layer;
  int32_t column;
} ur_joined_column;

/* Several sets, each with as many parts as the first and as many rows in each, as one set with the columns named: a row of it
 * has its values from its layers. Opens a part of each layer. The layers are retained; ur_set_close closes them as well.
 * ur_set_part gives parts of the first layer. A failure of a layer names one of its columns. Joined sets are not joined
 * again, and streams are cut from the set that has the column. */
UR_API ur_status ur_set_join(ur_set *const *layers, int32_t count, const ur_joined_column *columns, int32_t column_count,
                             ur_set **joined, ur_error *error);

/* The opened part number `part`, with a reference the caller must release. */
UR_API ur_status ur_set_part(ur_set *set, int64_t part, ur_part **out, ur_error *error);

/* Which part holds `row`, and its number inside it. */
UR_API ur_status ur_set_find(const ur_set *set, int64_t row, int64_t *part, int64_t *row_in_part);

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
} ur_output;

/* Reads rows[0..n) (each in [0, ur_set_rows)), in the order given, the chosen columns of each, into `outputs`. One call a
 * batch. UR_TOO_SMALL: some `capacity` is too small; every output's `used` then says what is needed, and the contents of
 * the buffers are undefined. On any other failure the contents are undefined too. Files are checked with an fstat of
 * data file and index per part that the call touches: a file that is not as long or as old as it was is UR_STALE. */
UR_API ur_status ur_set_read(ur_set *set, const int64_t *rows, int64_t n, ur_output *outputs, int32_t output_count,
                             ur_error *error);

/* The same for a single row. */
UR_API ur_status ur_set_read_row(ur_set *set, int64_t row, ur_output *outputs, int32_t output_count, ur_error *error);

/* Tells the kernel that these rows' blob columns will be read soon. Never fails; may do nothing. */
UR_API void ur_set_advise(ur_set *set, const int64_t *rows, int64_t n);

/* ---- streams: samples of one length, cut from the values of a column that lie one after the other ---------------------- */

typedef enum {
  UR_STREAM_WHOLE = 0, /* windows of the values of all documents, one behind the other */
  UR_STREAM_APART = 1, /* windows of each document, that of none reaches into the next */
  UR_STREAM_PACKED = 2 /* pieces of documents, as a table says */
} ur_stream_kind;

typedef enum { UR_STREAM_ELEMENTS = 0, UR_STREAM_DOCUMENTS = 1, UR_STREAM_POSITIONS = 2 } ur_stream_output;

typedef struct {
  int64_t document, first, count; /* `count` elements of a document from element `first` on */
} ur_stream_piece;

/* Documents are rows of a set, chosen as by ur_loader_options. A window begins every `stride` elements; with `padded`, what
 * is left at the end makes one more, which is filled up. */
typedef struct {
  int32_t kind;             /* ur_stream_kind */
  int32_t column;           /* of blobs */
  int32_t element_bytes;    /* 1, 2, 4 or 8: what a value is made of */
  int32_t padded;
  int64_t length;           /* elements of a sample */
  int64_t stride;
  int64_t samples;
  int64_t documents;
  const int64_t *before;    /* borrowed, like all that follows. WHOLE: elements before documents 0, every, 2 every, ..., and
                               with `every` 1 those of all documents behind. APART: windows, likewise. PACKED: pieces before
                               each sample, and all of them */
  int64_t every;
  const ur_stream_piece *pieces; /* of PACKED; no more elements in a sample than `length` */
  const int64_t *selection;
  const ur_bitmap *bitmap;
  int64_t selection_start;
  int64_t selection_step;
  uint8_t padding[8];       /* the element that samples are filled up with */
} ur_stream;

/* Reads samples[0..n) of the stream into outputs of fixed width, `length` elements for each sample. outputs[i].column is one
 * of ur_stream_output: the elements; as int64, the row of each one's document (-1 where filled up); as int64, its place in
 * its run of elements of one document. UR_STALE where documents have other lengths than the table says. */
UR_API ur_status ur_stream_read(ur_set *set, const ur_stream *stream, const int64_t *samples, int64_t n, ur_output *outputs,
                                int32_t output_count, ur_error *error);

/* Puts lengths of 1 to `size` (at most 2^40), one after the other, into bins of that size: each into the bin with the least
 * room that is enough, of several the one that came to that room last, else into a new bin. places[i] = the bin of length i,
 * *used = bins, numbered as they were opened. UR_ARGUMENT, UR_NO_MEMORY. */
UR_API ur_status ur_pack(const int64_t *lengths, int64_t count, int64_t size, int64_t *places, int64_t *used,
                         ur_error *error);

/* ---- one opened part -------------------------------------------------------------------------------------------- */

typedef struct {
  uint8_t id[16];
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
  uint64_t content_digest; /* stands for every value of the part */
  const uint8_t *metadata;  /* msgpack map, borrowed until the part is released */
  uint64_t metadata_bytes;
  const uint8_t *table;     /* column table, 32 bytes for each of `columns`; borrowed likewise */
} ur_part_info;

typedef struct {
  int32_t type;       /* docs/format.md, "Column types" */
  int32_t dtype;      /* element type of an array, else 0 */
  int32_t nullable;
  int32_t is_blob;
  int64_t fixed_bytes; /* bytes of a value, or 0 when they differ */
  int32_t codec;       /* ur_codec: how its cells are compressed in this part; values are handed out decompressed */
  int32_t reserved;
} ur_column_info;

typedef struct {
  const uint8_t *data; /* borrowed until the part is released; check ranges with ur_part_check before reading them */
  uint64_t offset;     /* in the index file */
  uint64_t bytes;
  int64_t count;
  int32_t width;       /* bytes an element */
  int64_t extra;
} ur_section;

UR_API void ur_part_release(ur_part *part); /* NULL is allowed */
UR_API void ur_part_describe(const ur_part *part, ur_part_info *info);
UR_API ur_status ur_part_column(const ur_part *part, int32_t column, ur_column_info *info);

/* UR_NOT_FOUND when the index has no such section. column: its ordinal in the schema, or -1. */
UR_API ur_status ur_part_section(const ur_part *part, int32_t kind, int32_t column, ur_section *section);

/* Checks that the files have not changed, and the digests of the index blocks under section bytes [first, first + bytes),
 * those not checked before. */
UR_API ur_status ur_part_check(ur_part *part, const ur_section *section, uint64_t first, uint64_t bytes, ur_error *error);

/* Where the blob of (row, column) lies in the data file. Bounds are checked, its digest is not. */
UR_API ur_status ur_part_locate(ur_part *part, int64_t row, int32_t column, uint64_t *offset, uint64_t *bytes,
                                ur_error *error);

/* ---- loader: batches read ahead by threads ---------------------------------------------------------------------- */

typedef struct ur_pool ur_pool;     /* memory of batches, kept for the batches that come after */
typedef struct ur_loader ur_loader;
typedef struct ur_batch ur_batch;   /* one batch in a piece of memory of its own, which goes back to the pool at the end */

/* Keeps at most `spare` pieces of memory that are not in use. */
UR_API ur_status ur_pool_new(int32_t spare, ur_pool **pool, ur_error *error);
UR_API void ur_pool_keep(ur_pool *pool, int32_t spare); /* from now on `spare`, if that is more */
UR_API void ur_pool_release(ur_pool *pool);          /* NULL is allowed; batches in use stay good */

/* Lets batches lie in `memory` too (pinned memory, say), a multiple of 64 bytes at such an address. It stays the caller's, who
 * frees it when the pool and every batch from it have been released. UR_ARGUMENT: it is too small or not aligned. */
UR_API ur_status ur_pool_lend(ur_pool *pool, void *memory, uint64_t bytes, ur_error *error);
UR_API int64_t ur_pool_allocations(const ur_pool *pool); /* pieces of memory taken from the system so far */

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
} ur_loader_options;

/* Places are byte offsets from the start of the batch's memory, multiples of 64; UINT64_MAX: there is no such array. */
typedef struct {
  uint64_t data_at;
  uint64_t data_bytes;
  uint64_t offsets_at;     /* int64[rows + 1], for columns of variable width */
  uint64_t valid_at;       /* uint8[rows], for nullable columns */
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

/* How long reading rows of a part took, of those batches that were timed: those slow enough for it to cost nothing, which
 * the time of the batch before tells. Threads' times add up. */
typedef struct {
  int64_t part;            /* its number in the set */
  int64_t batches;         /* timed, with rows of it */
  uint64_t bytes;          /* of its values in these */
  uint64_t ns;             /* from the bytes before until its own were there: opening it, reading, verifying, copying. Reads under
                              way together share the time until the first of them is there, by their sizes; where a function
                              brings the bytes and does not say when, all of it */
} ur_part_time;

/* Threads start at the first ur_loader_next. The loader keeps a reference to the set and the pool. */
UR_API ur_status ur_loader_new(ur_set *set, ur_pool *pool, const ur_loader_options *options, ur_loader **loader,
                               ur_error *error);

/* The next batch in order; waits for it, or fills it if no thread has begun it. UR_END after the last. After a failure the
 * loader goes on with the batch after; the failed batch's number and row count are in `info`, its `batch` is NULL. */
UR_API ur_status ur_loader_next(ur_loader *loader, ur_batch_info *info, ur_error *error);
UR_API void ur_loader_statistics(ur_loader *loader, ur_loader_stats *stats);

/* The parts that have been timed, in no order: writes the first `room` of them, and returns how many there are. */
UR_API int64_t ur_loader_part_times(ur_loader *loader, ur_part_time *times, int64_t room);
UR_API void ur_loader_stop(ur_loader *loader);    /* ends the threads; ur_loader_next answers UR_CLOSED from then on */
UR_API void ur_loader_release(ur_loader *loader); /* NULL is allowed; implies ur_loader_stop; batches stay good */
UR_API void ur_batch_release(ur_batch *batch);    /* NULL is allowed */

/* ---- scan: conditions on flat columns, tried row after row (pure, over the caller's buffers) ------------------------ */

typedef enum {
  UR_SCAN_RANGE = 0, /* low <= the row's value <= high; never true for NaN */
  UR_SCAN_TABLE = 1, /* table[the row's code] is not 0 */
  UR_SCAN_BITS = 2,  /* bit r mod 8 of byte r / 8 is 1, r counted from the byte's row `first`, a multiple of 8 */
  UR_SCAN_BYTES = 3, /* the row's byte is not 0 */
  UR_SCAN_ROWS = 4,  /* low <= the row's number <= high, as int64 */
  UR_SCAN_MASK = 5,  /* what mask number `mask` says */
  UR_SCAN_NUMBERS = 6 /* the last of `numbers`, a test of whole numbers, worked out as `type`: int32 or int64 */
} ur_scan_op;

enum { UR_SCAN_MASKS = 16 }; /* the masks of one scan */

typedef enum { UR_SCAN_SET = 0, UR_SCAN_AND = 1, UR_SCAN_OR = 2 } ur_scan_combine;

typedef enum {
  UR_NUMBER_LOAD = 0,     /* pushes the row's value */
  UR_NUMBER_CONSTANT = 1, /* pushes `value` */
  UR_NUMBER_MINUS = 2,    /* turns the sign of the top one */
  UR_NUMBER_ADD = 3,      /* this and the next two join the two on top: a + b, a - b, a * b, b the topmost */
  UR_NUMBER_SUBTRACT = 4,
  UR_NUMBER_MULTIPLY = 5,
  UR_NUMBER_WITHIN = 6,   /* low <= a <= high, of the step, as int64; a is the only one left */
  UR_NUMBER_EQUAL = 7,    /* this and the next two compare the only two: a == b, a < b, a <= b */
  UR_NUMBER_LESS = 8,
  UR_NUMBER_AT_MOST = 9
} ur_number_op;

enum { UR_NUMBER_DEPTH = 8 }; /* numbers on the stack */

/* One operation on a stack of numbers, row by row; what is too large for the type wraps. */
typedef struct {
  int32_t op;       /* ur_number_op */
  int32_t type;     /* of LOAD: type code of the values, whole numbers */
  const void *data; /* of LOAD: flat little-endian array from row 0 on, no alignment needed */
  int64_t value;
} ur_scan_number;

/* One condition. Its outcome, turned round if `negated`, goes into mask number `target` as `combine` says. */
typedef struct {
  int32_t op;       /* ur_scan_op */
  int32_t type;     /* type code of the values or codes (docs/format.md), for RANGE and TABLE */
  int32_t negated;
  int32_t combine;  /* ur_scan_combine */
  int32_t target;   /* 0 .. UR_SCAN_MASKS - 1 */
  int32_t mask;   /* likewise */
  const void *data; /* flat little-endian array, no alignment needed */
  int64_t first;    /* row that the first element of `data` belongs to */
  uint64_t low;     /* bounds as the bits of a value of `type`: integers as int64 or uint64 */
  uint64_t high;
  const uint8_t *table;
  uint64_t table_entries;
  const ur_scan_number *numbers; /* of NUMBERS: the last is one of WITHIN to AT_MOST, and no other is */
  int32_t number_count;
} ur_scan_step;

/* Rows [start, stop), which all pass if `whole`; else the marks of its rows, one bit each, begin with word `marks`. */
typedef struct {
  int64_t start;
  int64_t stop;
  int64_t whole;
  int64_t marks;
} ur_scan_run;

/* Tries the steps on the rows of runs[*next], of the run after it, and so on; threads that share `next`, which starts as
 * 0, share the runs. A row passes for which mask 0 is true in the end. counts[i] is how many of run i pass; their bits are
 * set in `marks`, unless it is NULL, the others' cleared, as are those behind the last row in its word. Each step's data must
 * reach over all runs that are tried. UR_CORRUPT when a code has no entry in its table: *broken is then the row. */
UR_API ur_status ur_scan_mark(const ur_scan_step *steps, int32_t step_count, const ur_scan_run *runs, int64_t run_count,
                              int64_t *next, uint64_t *marks, int64_t *counts, int64_t *broken);

/* Writes the numbers of the rows that pass, `base` added: those of run i to rows[places[i]] .. rows[places[i + 1] - 1], as
 * many as ur_scan_mark counted, ascending, and nothing beyond. `places` has one more entry than there are runs. */
UR_API void ur_scan_take(const ur_scan_run *runs, int64_t run_count, int64_t *next, const uint64_t *marks,
                         const int64_t *places, int64_t base, int64_t *rows);

typedef enum { UR_TEXT_BETWEEN = 0, UR_TEXT_LIKE = 1 } ur_text_op;

/* A test of strings. BETWEEN: low <= string < high by bytes, without an upper bound if `open`. LIKE: a pattern of
 * low_bytes elements; element i is the byte low[i] if high[i] is 0, any one character if 1, any characters if 2. */
typedef struct {
  int32_t op; /* ur_text_op */
  int32_t open;
  const uint8_t *low;
  uint64_t low_bytes;
  const uint8_t *high;
  uint64_t high_bytes;
} ur_text_test;

/* mask[i] = 1 if bytes[offsets[i] .. offsets[i + 1]) passes, else 0, for i in [0, count). UR_CORRUPT when offsets
 * descend or leave [0, size]. */
UR_API ur_status ur_scan_text(const uint64_t *offsets, const uint8_t *bytes, uint64_t size, int64_t count,
                              const ur_text_test *test, uint8_t *mask);

/* ---- pictures: which piece of one is shown, and how it comes to its place in a batch ----------------------------------- */

/* What the segments of a JPEG file say before its pixels. */
typedef struct {
  int32_t width, height; /* as stored, before any turning */
  int32_t components;    /* 1, 3 or 4 */
  int32_t orientation;   /* EXIF tag 274, 1 .. 8; 1 where there is none that makes sense */
  int32_t complete;      /* whether an end of image stands behind the beginning of the pixels */
  int32_t reserved;
} ur_jpeg_header;

/* UR_CORRUPT, with a sentence, when `data` is no JPEG that can be decoded to 8-bit pixels: no frame or no pixels in it; a way of
 * coding other than Huffman's, sequential or progressive; more than 100 scans; other numbers of components; or, complete,
 * fewer bytes than any picture of that size takes (one bit for 8 x 8 pixels). */
UR_API ur_status ur_jpeg_read_header(const uint8_t *data, uint64_t bytes, ur_jpeg_header *header, ur_error *error);

typedef enum {
  UR_CROP_NONE = 0,   /* the whole picture */
  UR_CROP_CENTER = 1, /* `fraction` of the largest rectangle in the middle that has the shape of the result */
  UR_CROP_RANDOM = 2  /* a random area and shape at a random place, as torchvision's RandomResizedCrop takes it */
} ur_crop_kind;

typedef enum {
  UR_FILTER_TRIANGLE = 0, /* bilinear */
  UR_FILTER_CUBIC = 1     /* bicubic, a = -1/2: keeps more of what is fine */
} ur_filter_kind;

/* What becomes of a picture. */
typedef struct {
  int32_t width, height;          /* of the result in pixels: 1 .. 65,535 */
  int32_t channels;               /* of the result: 1 = grey, 3 = red, green, blue */
  int32_t crop;                   /* ur_crop_kind */
  int32_t orient;                 /* whether the picture is turned as its EXIF orientation says */
  int32_t reduce;                 /* whether a JPEG may be decoded at 1/2, 1/4 or 1/8 where the result needs no more */
  int32_t truncated;              /* whether a JPEG without its end is decoded, grey where it is missing */
  int32_t value_bytes;            /* 1; with `values` the size of their entries: 1, 2 or 4 */
  int32_t filter;                 /* ur_filter_kind */
  int32_t reserved;
  double fraction;                /* of UR_CROP_CENTER: of its sides, 0 < fraction <= 1 */
  double flip;                    /* probability of mirroring left to right, 0 .. 1 */
  double least_area, most_area;   /* of UR_CROP_RANDOM: of the picture's, 0 < least <= most */
  double least_ratio, most_ratio; /* of UR_CROP_RANDOM: width to height, likewise */
  int64_t most_pixels;            /* pictures with more are refused */
  int64_t row_step, pixel_step, channel_step; /* of the result: bytes from one to the next, each >= value_bytes */
  const uint8_t *values;          /* NULL, or what to write for each 8-bit value: [channels][256] entries */
} ur_picture_options;

/* A rectangle of the stored picture, and how it is shown: pixel (x, y) of the result is taken at (y, x) if `transposed`, and then
 * from the other end of a row, or of a column, if that is flipped. */
typedef struct {
  int32_t left, top, width, height;
  int32_t transposed, flip_x, flip_y;
  int32_t reduction; /* a JPEG may be decoded at one `reduction`th for it: 1, 2, 4 or 8 */
} ur_crop;

/* The crop of a picture of width x height stored pixels. Random numbers are those of SplitMix64 from `key` on: the first one for the
 * flip, then two for each try and two for its place. UR_ARGUMENT for options that are not as said above, UR_CORRUPT for a
 * picture of more than most_pixels. */
UR_API ur_status ur_picture_crop(const ur_picture_options *options, int32_t width, int32_t height, int32_t orientation,
                                 uint64_t key, ur_crop *crop, ur_error *error);

/* Decoded pixels, rows from the top, channels of 8 bits interleaved. */
typedef struct {
  const uint8_t *data;
  int64_t row_step;
  int32_t channels;              /* 1 = grey, 3 = red, green, blue */
  int32_t reduction;             /* the scale they were decoded at */
  int32_t left, top;             /* where the first of them lies in the whole picture at that scale */
  int32_t width, height;
} ur_pixels;

/* Resizes the crop with the filter of the options, wider where it shrinks (antialiased), in integers that come out the same on every
 * machine, and writes it to `out`. The pixels must hold the crop. UR_ARGUMENT, or UR_NO_MEMORY. */
UR_API ur_status ur_picture_place(const ur_picture_options *options, const ur_crop *crop, const ur_pixels *pixels,
                                  uint8_t *out, ur_error *error);

/* ---- caches of what is fetched ------------------------------------------------------------------------------------ */

#define UR_CACHE_STRETCH 1048576 /* bytes of a file, from a multiple of them on, in which a kept range lies as a whole */

/* Bytes [offset, offset + bytes) of a file (2 x part, + 1 for the index), at `place` of its segment. */
typedef struct {
  int64_t file;
  uint64_t offset;
  uint64_t bytes;
  uint64_t place;
  uint64_t digest; /* XXH3-64 with the segment's seed */
} ur_cache_range;

/* What a cache on the disk holds of files of a set; thread-safe once its segments and files have been set. In a forked child
 * it holds nothing. NULL: no memory. A segment is a file of bytes that never change; its descriptor is closed at release. */
UR_API ur_cache *ur_cache_new(int64_t files, int64_t segments);
UR_API void ur_cache_set_segment(ur_cache *cache, int64_t segment, int32_t fd, uint64_t seed);
UR_API ur_status ur_cache_set_file(ur_cache *cache, int64_t file, int64_t segment, uint64_t bytes);
UR_API void ur_cache_release(ur_cache *cache); /* NULL is allowed */

/* Takes ranges in, but for those of unknown files, and those that are impossible or overlap what is there. */
UR_API ur_status ur_cache_add(ur_cache *cache, const ur_cache_range *ranges, int64_t count);
UR_API void ur_cache_remove(ur_cache *cache, const ur_cache_range *ranges, int64_t count);

/* What is not there of a range, which is inside its file, from *at on: up to `room` pieces, each one of a kept range. *at
 * becomes where the next call goes on, or the range's end. */
UR_API int64_t ur_cache_gaps(ur_cache *cache, const ur_cache_range *wanted, uint64_t *at, ur_cache_range *gaps,
                             int64_t room);

/* 1 and the bytes of a range at `to`, checked, if it is there as a whole; else 0. */
UR_API int32_t ur_cache_has(ur_cache *cache, int64_t file, uint64_t offset, uint64_t bytes, uint8_t *to);

/* Up to `room` ranges that were found damaged and are gone, each given out once. */
UR_API int64_t ur_cache_take_dropped(ur_cache *cache, ur_cache_range *dropped, int64_t room);

/* Ranges that were read, their bytes, and ranges that were damaged. */
UR_API void ur_cache_counts(ur_cache *cache, uint64_t counts[3]);

/* ---- forks ----------------------------------------------------------------------------------------------------------- */

/* A number that changes with each fork() since it was first asked for, in the process that forks and in its child alike:
 * while it stays the same, no other process has come to share memory with this one. */
UR_API uint64_t ur_all_forks(void);

/* Has every child that is forked from now on close this descriptor, or not any more (`closes` 0: before it is closed here). A
 * lock belongs to the open file: with a copy of its descriptor, a child would hold its parent's locks. */
UR_API void ur_fork_closes(int32_t fd, int32_t closes);

/* For an interpreter, whose own hooks run before and after fork(): from ur_signals_keep to ur_signals_give, which each thread
 * that forks calls before and after, signals that have the handler which signal `number` had in ur_signals_like are kept, and
 * then raised. A child is given none of its parent's. */
UR_API void ur_signals_like(int32_t number);
UR_API void ur_signals_keep(void);
UR_API void ur_signals_give(void);

/* Ends this process, with exit code 1, when process `parent`, which has started it, has ended or had ended before: soon, by a
 * thread of its own, whatever the others are at. 0, or the errno of why there is no such thread. */
UR_API int32_t ur_end_with_parent(int64_t parent);

/* cdef end */

#ifdef __cplusplus
}
#endif

#endif
