/* unirecord_internal.h - what the core does for the Python package alone, beyond reading: no part of the contract.
 *
 * The contracts at the head of unirecord.h hold here as well. Nothing of this is exported by the shared library, and any
 * of it may change from one version to the next.
 *
 * The text between "cdef begin" and "cdef end" is also read by the Python binding, behind that of unirecord.h.
 */
#ifndef UNIRECORD_INTERNAL_H
#define UNIRECORD_INTERNAL_H

#include "unirecord.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cdef begin */

/* ---- digests --------------------------------------------------------------------------------------------------- */

/* CRC-32C (Castagnoli) of `bytes` bytes at `data`: what TFRecord files are checked by. Pure. */
uint32_t ur_crc32c(const void *data, size_t bytes);

/* digests[i] = XXH3-64 of data[starts[i] .. starts[i] + lengths[i]) with seed first_seed + i * seed_step (mod 2^64), and,
 * unless `wide` is NULL, wide[2 * i] and wide[2 * i + 1] the low and the high half of XXH3-128 of the same.
 * The caller vouches that the ranges lie inside `data`; with `data` NULL, `starts` are addresses. */
void ur_digest_ranges(const void *data, const uint64_t *starts, const uint64_t *lengths, size_t count,
                      uint64_t first_seed, uint64_t seed_step, uint64_t *digests, uint64_t *wide);

typedef struct ur_digesting ur_digesting;

/* The same on a thread of its own. The data and the arrays are borrowed until ur_digesting_end. Where no thread can be
 * started, the digests are computed at once, and there is no handle (NULL). */
ur_digesting *ur_digesting_start(const void *data, const uint64_t *starts, const uint64_t *lengths, size_t count,
                                 uint64_t first_seed, uint64_t seed_step, uint64_t *digests, uint64_t *wide);
void ur_digesting_end(ur_digesting *job); /* waits for the digests, or in a forked child computes them; NULL is allowed */

/* ---- codecs: cells of blob columns, compressed one by one -------------------------------------------------------- */

typedef struct ur_encoder ur_encoder; /* what compresses the cells of one column; any number of threads may use it */
typedef struct ur_decoder ur_decoder; /* what decompresses them; likewise */

/* UR_OK when cells of this codec can be read and written here; else UR_COLUMN with what to do about it. libzstd is loaded at
 * the first call that needs it: the file that the environment variable UNIRECORD_LIBZSTD names, or else the system's. */
ur_status ur_codec_check(int32_t codec, ur_error *error);

/* UR_OK when values of this type, in cells of this codec, can be read and written here; else UR_COLUMN, likewise. */
ur_status ur_column_check(int32_t type, int32_t codec, ur_error *error);

/* Trains a dictionary on `count` cells for cells like them. *bytes: its size, at most `capacity`; 0 when the cells are too
 * few or too much alike to train on. element_bytes: of an element, for UR_CODEC_SHUFFLE_ZSTD. */
ur_status ur_codec_train(int32_t codec, uint32_t element_bytes, const void *const *cells, const uint64_t *lengths,
                         size_t count, uint8_t *dictionary, uint64_t capacity, uint64_t *bytes, ur_error *error);

/* level: 1 (fastest) to 22 (smallest). The dictionary is copied; NULL: none. */
ur_status ur_encoder_new(int32_t codec, uint32_t element_bytes, int32_t level, const uint8_t *dictionary,
                         uint64_t dictionary_bytes, ur_encoder **encoder, ur_error *error);
void ur_encoder_release(ur_encoder *encoder); /* NULL is allowed */

/* Compresses cells to `out`, one after the other without gaps; stored[i] = bytes that cell i takes there, never more than
 * lengths[i]: what would not become smaller is stored as it is. `capacity` must be the sum of the lengths at least. */
ur_status ur_encoder_encode(const ur_encoder *encoder, const void *const *cells, const uint64_t *lengths,
                            size_t count, uint8_t *out, uint64_t capacity, uint64_t *stored, ur_error *error);

ur_status ur_decoder_new(int32_t codec, uint32_t element_bytes, const uint8_t *dictionary,
                         uint64_t dictionary_bytes, ur_decoder **decoder, ur_error *error);
void ur_decoder_release(ur_decoder *decoder); /* NULL is allowed */

/* Decompresses cells, of which cell i is stored[i] bytes at data + starts[i] and becomes raw[i] bytes, to `out`, one after
 * the other without gaps. The caller vouches that they lie inside `data`, and that `out` has room for the sum of `raw`.
 * good[i] = 1, or 0 where a cell is not what it should be, whose raw[i] bytes at `out` are then zero. */
ur_status ur_decoder_decode(const ur_decoder *decoder, const uint8_t *data, const uint64_t *starts,
                            const uint64_t *stored, const uint64_t *raw, size_t count, uint8_t *out, uint8_t *good,
                            ur_error *error);

/* ---- chunks: arrays cut along all dimensions ---------------------------------------------------------------------- */

/* Writes `count` values, one after the other, to `out` chunk after chunk, as cells hold them: as many bytes. UR_ARGUMENT unless
 * 1 <= chunk <= shape along each of `rank` dimensions. */
ur_status ur_values_cut(int32_t rank, const uint64_t *shape, const uint64_t *chunk, uint64_t element_bytes,
                        const uint8_t *values, uint64_t count, uint8_t *out, ur_error *error);

/* The inverse: values of cells that hold them chunk after chunk. */
ur_status ur_values_join(int32_t rank, const uint64_t *shape, const uint64_t *chunk, uint64_t element_bytes,
                         const uint8_t *cells, uint64_t count, uint8_t *out, ur_error *error);

/* ---- writing ---------------------------------------------------------------------------------------------------- */

/* Writes the pieces, one after the other, where the file stands, in as many system calls as are best. *written: the bytes
 * that the file has taken, fewer when a call has taken fewer, or has failed. The errno of the first call when it has
 * failed, else 0: a later one will fail again. */
int32_t ur_append(int32_t fd, const void *const *pieces, const uint64_t *lengths, size_t count,
                  uint64_t *written);

/* Has the kernel begin to write these bytes of a file to the disk, where it can be asked to; waits for none of them, and
 * leaves errors to fsync. */
void ur_start_writeback(int32_t fd, uint64_t offset, uint64_t bytes);

/* ---- objects ---------------------------------------------------------------------------------------------------- */

/* UR_CORRUPT unless the bytes are one msgpack value by the rules of docs/spec/format.md: whole, at most 64 deep, timestamps
 * in a form of msgpack, keys of maps strings, integers or binary, and none twice in one map. That strings are UTF-8 is not looked at. */
ur_status ur_object_check(const uint8_t *bytes, uint64_t size, ur_error *error);

/* Whether an object that has been checked is in its one form: heads as short as they can be, floats of 64 bits. */
int32_t ur_object_is_canonical(const uint8_t *bytes, uint64_t size);

/* What stands at one place of many objects: the whole of them, the items of the lists at a place, or a key of the maps there. */
typedef enum {
  UR_SHAPE_NULL = 1,
  UR_SHAPE_BOOL = 2,
  UR_SHAPE_INTEGER = 4,
  UR_SHAPE_REAL = 8,
  UR_SHAPE_TEXT = 16,
  UR_SHAPE_BYTES = 32,
  UR_SHAPE_LIST = 64,
  UR_SHAPE_MAP = 128,
  UR_SHAPE_OTHER = 256 /* an extension, or a map whose keys are not all text */
} ur_shape_kind;

typedef struct {
  uint64_t most;                    /* the greatest integer; 0 without one that is more */
  int64_t least;                    /* the least one; 0 without one that is less */
  uint64_t least_size, most_size;   /* items of lists, and bytes of bytes; UINT64_MAX and 0 without any */
  double most_real;                 /* the greatest magnitude of finite reals */
  uint32_t kinds;                   /* ur_shape_kind, one bit each */
  uint32_t items, fields, next;     /* nodes: the items of lists, the first key of maps, the next key of the same maps; 0: none */
  uint32_t name, name_bytes;        /* of a key */
} ur_shape;

typedef struct ur_shapes ur_shapes;

ur_shapes *ur_shapes_new(void); /* NULL: no memory */
void ur_shapes_release(ur_shapes *shapes); /* NULL is allowed */

/* Takes objects into account, each `sizes[i]` bytes from `starts[i]` of `content`, which the caller vouches for. UR_CORRUPT for
 * what is no msgpack; UR_NO_MEMORY. */
ur_status ur_shapes_add(ur_shapes *shapes, const uint8_t *content, const uint64_t *starts, const uint64_t *sizes,
                        uint64_t count);

/* How many nodes there are, the first of which is the whole, valid until the next call; 0: the objects have too many different
 * keys, or keys that are no text, so that nothing is known. */
uint32_t ur_shapes_all(const ur_shapes *shapes, const ur_shape **nodes, const char **names);

/* ---- strings of a column: string i is data[ends[i] .. ends[i + 1]) ------------------------------------------------ */

typedef struct ur_distinct ur_distinct; /* distinct strings, numbered from 0 in the order in which they were met */

/* most_count (below 2^32 - 1), most_bytes: how many strings, and bytes of all, it is to hold. */
ur_status ur_distinct_new(uint64_t most_count, uint64_t most_bytes, ur_distinct **set);
void ur_distinct_release(ur_distinct *set); /* NULL is allowed */

/* Takes strings in, but those with valid[i] == 0 (`valid` NULL: all). *full = 1 when they are more than it is to hold, or
 * were chosen to make it slow: then some of them are not in it. The caller vouches that `ends` do not fall, nor lead beyond
 * `data`, here and below. `numbers`: of each string, UINT32_MAX of one that is not taken in. UR_NO_MEMORY. */
ur_status ur_distinct_add(ur_distinct *set, const uint8_t *data, const uint64_t *ends, const uint8_t *valid,
                          uint64_t count, uint32_t *numbers, int32_t *full);

/* How many there are, and their bytes; and the strings themselves: `count` + 1 ends, from 0 on. */
uint64_t ur_distinct_count(const ur_distinct *set, uint64_t *bytes);
void ur_distinct_copy(const ur_distinct *set, uint8_t *content, uint64_t *ends);

/* numbers[i] = the number of string i, UINT32_MAX where it is not in the set. */
void ur_distinct_find(const ur_distinct *set, const uint8_t *data, const uint64_t *ends, uint64_t count,
                      uint32_t *numbers);

/* Which of the strings with valid[i] != 0 is the least, and which the greatest, byte by byte; 0 where there is none. Pure. */
int32_t ur_strings_extremes(const uint8_t *data, const uint64_t *ends, const uint8_t *valid, uint64_t count,
                            uint64_t *least, uint64_t *greatest);

typedef struct { /* string i is data[starts[i] .. stops[i]) */
  const uint8_t *data;
  const uint64_t *starts, *stops;
  uint64_t count;
} ur_string_piece;

/* The strings of all pieces, numbered from 0 through all of them, byte by byte: their numbers in order, and of each its rank,
 * how many are less. Either may be NULL. 32 bytes of memory a string for a moment; UR_NO_MEMORY. */
ur_status ur_strings_order(const ur_string_piece *pieces, uint64_t piece_count, uint64_t *order, uint64_t *ranks);

/* The chosen ones of strings one after the other in `content`, for which the caller has made room, and `count` + 1 ends. */
void ur_strings_take(const uint8_t *data, const uint64_t *ends, const uint64_t *chosen, uint64_t count, uint8_t *content,
                     uint64_t *content_ends);

/* ---- CSV, as it is looked through before it is converted ---------------------------------------------------------- */

typedef struct { /* what the cells of a column can all be read as */
  uint8_t whole, real, logical;     /* 1 so far: whole numbers, numbers, true or false; begin with 1. whole implies real */
  uint8_t date, moment;             /* 1 so far: dates; dates with times of the day; begin with 1 */
  uint8_t zoned, unzoned;           /* a moment says how far it is from UTC; one does not */
  uint8_t digits;                   /* of the finest fraction of a second of a moment */
  uint8_t far;                      /* a moment's year is not one that 64 bits of nanoseconds hold whole */
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
int32_t ur_csv_look(const uint8_t *data, uint64_t bytes, uint8_t delimiter, size_t count, ur_csv_column *columns,
                    uint64_t *rows);

/* ---- JSON Lines --------------------------------------------------------------------------------------------------- */

typedef enum {
  UR_LINE_ABSENT = 0,
  UR_LINE_NULL = 1,
  UR_LINE_FALSE = 2,
  UR_LINE_TRUE = 3,
  UR_LINE_INTEGER = 4, /* int64 */
  UR_LINE_NATURAL = 5, /* uint64, beyond int64 */
  UR_LINE_REAL = 6,    /* double */
  UR_LINE_TEXT = 7,
  UR_LINE_NUMBERS = 8, /* an array of nothing but numbers, true, false and such arrays, as msgpack */
  UR_LINE_OBJECT = 9   /* any other array, and an object, as msgpack */
} ur_line_kind;

typedef struct { /* a value */
  uint64_t value; /* the bits of a number; of others where they begin in `out` */
  uint32_t bytes; /* which those others take */
  uint32_t kind;  /* ur_line_kind */
} ur_line_cell;

typedef struct {
  const uint8_t *name;
  uint64_t bytes;
  ur_line_cell *cells; /* one a row, most_rows of them */
  int32_t is_plain;    /* no character of its name is a quote, a backslash or below a blank */
} ur_line_key;

typedef struct {
  const uint8_t *data;
  uint64_t bytes, at; /* at: where the next row begins */
  uint8_t *out;
  uint64_t room, used;
  uint64_t rows, most_rows;
  uint32_t *numbers, number; /* which line each row is, of most_rows; and the next one, from 0 on */
  uint64_t name, name_bytes; /* of the key that stopped it, in `out` */
} ur_json_lines;

typedef enum {
  UR_LINE_ALL = 0,     /* all lines are read */
  UR_LINE_NEW_KEY = 1, /* the row at `at` has a key that is none of `keys` */
  UR_LINE_ODD = 2      /* it is no object, or one that Python may read otherwise, or there is no room */
} ur_line_stop;

/* Reads lines from `at` on, in UTF-8; goes on there, with more keys or the same, after it has stopped. Lines of blanks are no
 * rows. Room of 2.5 times the bytes and 64 more is always enough. Pure. */
ur_line_stop ur_json_lines_read(ur_json_lines *lines, const ur_line_key *keys, size_t count);

/* The texts of a key, one behind the other. Pure. */
void ur_line_texts(const ur_line_cell *cells, uint64_t rows, const uint8_t *out, uint8_t *to);

/* ---- TFRecord ---------------------------------------------------------------------------------------------------- */

typedef enum {
  UR_TFRECORD_FULL = 0,        /* there was room for no more records */
  UR_TFRECORD_MORE = 1,        /* the next record is not whole in the data: it begins at *used, and has *wanted bytes at least */
  UR_TFRECORD_BAD_LENGTH = 2,  /* the checksum of the length of the one at *used differs */
  UR_TFRECORD_BAD_CONTENT = 3  /* that of its content does */
} ur_tfrecord_stop;

/* Finds at most `room` records from the beginning of `data` on: where the content of each starts, and how long it is; both
 * checksums are checked. Gives their number, the bytes that they take, and why it went no further. Pure. */
ur_tfrecord_stop ur_tfrecord_find(const uint8_t *data, uint64_t bytes, uint64_t room, uint64_t *starts,
                                  uint64_t *lengths, uint64_t *count, uint64_t *used, uint64_t *wanted);

/* ---- order ----------------------------------------------------------------------------------------------------- */

ur_order *ur_order_retain(ur_order *order);

/* rows[i] = the row at positions[i], each in [0, rows). `rows` may be `positions` itself. */
ur_status ur_order_at(const ur_order *order, const int64_t *positions, int64_t count, int64_t *rows);

/* The row at one position, or -1 when it is not in [0, rows). */
int64_t ur_order_one(const ur_order *order, int64_t position);

/* positions[i] = where rows[i] stands: the inverse of ur_order_at. */
ur_status ur_order_inverse(const ur_order *order, const int64_t *rows, int64_t count, int64_t *positions);

/* ---- bitmaps: selected rows, one bit each (pure, over the caller's buffers) ------------------------------------------ */

/* Row r is bit r mod 64 of word r / 64; there are (bits + 63) / 64 words, and bits beyond the last row are 0. */
struct ur_bitmap {
  const uint64_t *words;
  const uint64_t *directory; /* as ur_bitmap_index has filled it for these words */
  int64_t bits;
  int64_t ones;
};

/* Sets the bits of rows; several threads may at once. UR_ARGUMENT for a row that is not in [0, bits), with those before it
 * set. ur_bitmap_ones counts the bits that are set. */
ur_status ur_bitmap_add(uint64_t *words, int64_t bits, const int64_t *rows, int64_t count);
int64_t ur_bitmap_ones(const uint64_t *words, int64_t bits);

/* Words that the directory of a bitmap takes, less than 0.27 bits for each bit beyond the first thousands; -1 unless
 * 0 <= ones <= bits <= 2^62. ur_bitmap_index fills it: UR_ARGUMENT, with anything in it, when not `ones` bits are set,
 * or one beyond the last row is. */
int64_t ur_bitmap_directory(int64_t bits, int64_t ones);
ur_status ur_bitmap_index(const uint64_t *words, int64_t bits, int64_t ones, uint64_t *directory);

/* rows[i] = the row of one number ranks[i], each in [0, ones); `rows` may be `ranks` itself. ur_bitmap_one: of a single
 * one, or -1. ur_bitmap_range: of ones start .. start + count - 1. */
ur_status ur_bitmap_select(const ur_bitmap *bitmap, const int64_t *ranks, int64_t count, int64_t *rows);
int64_t ur_bitmap_one(const ur_bitmap *bitmap, int64_t rank);
ur_status ur_bitmap_range(const ur_bitmap *bitmap, int64_t start, int64_t count, int64_t *rows);

/* ranks[i] = ones before rows[i], each in [0, bits]. */
ur_status ur_bitmap_rank(const ur_bitmap *bitmap, const int64_t *rows, int64_t count, int64_t *ranks);

/* XXH3-64 with `seed` of the rows of ones start, start + step, ... (count of them) as int64, which are never all in memory. */
ur_status ur_bitmap_digest(const ur_bitmap *bitmap, int64_t start, int64_t step, int64_t count, uint64_t seed,
                           uint64_t *digest);

/* ---- sets of parts --------------------------------------------------------------------------------------------- */

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
ur_status ur_ranges_put(const ur_range *ranges, int64_t count, const ur_answer *answers, int64_t answer_count,
                        const ur_put *puts, int64_t n, ur_error *error);

/* Which part holds `row`, and its number inside it. */
ur_status ur_set_find(const ur_set *set, int64_t row, int64_t *part, int64_t *row_in_part);

ur_set *ur_set_retain(ur_set *set);

int32_t ur_set_io(const ur_set *set); /* the way of reading in use (by the parts opened so far; AUTO if none) */

/* One column of a joined set: column `column` of set number `layer` of those that are joined. */
typedef struct {
  int32_t layer;
  int32_t column;
} ur_joined_column;

/* Several sets, each with as many parts as the first and as many rows in each, as one set with the columns named: a row of it
 * has its values from its layers. Opens a part of each layer. The layers are retained; ur_set_close closes them as well.
 * ur_set_part gives parts of the first layer. A failure of a layer names one of its columns. Joined sets are not joined
 * again, and streams are cut from the set that has the column. */
ur_status ur_set_join(ur_set *const *layers, int32_t count, const ur_joined_column *columns, int32_t column_count,
                      ur_set **joined, ur_error *error);

/* The same for a single row. */
ur_status ur_set_read_row(ur_set *set, int64_t row, ur_output *outputs, int32_t output_count, ur_error *error);

/* Tells the kernel that these rows' blob columns will be read soon. Never fails; may do nothing. */
void ur_set_advise(ur_set *set, const int64_t *rows, int64_t n);

/* ---- streams: samples of one length, cut from the values of a column that lie one after the other ---------------------- */

typedef enum {
  UR_STREAM_WHOLE = 0, /* windows of the values of all documents, one behind the other */
  UR_STREAM_APART = 1, /* windows of each document, that of none reaches into the next */
  UR_STREAM_PACKED = 2 /* pieces of documents, as a table says */
} ur_stream_kind;

typedef enum {
  UR_STREAM_ELEMENTS = 0,
  UR_STREAM_DOCUMENTS = 1, /* the row of each one's document, -1 where filled up */
  UR_STREAM_POSITIONS = 2, /* its place in its run of elements of one document */
  UR_STREAM_LABELS = 3,    /* itself; -100 where its place is 0, and where filled up */
  UR_STREAM_LENGTHS = 4,   /* of each run of elements of one document in a sample: how many they are, as int32 */
  UR_STREAM_RUNS = 5       /* of each run: the row of its document, as int64 */
} ur_stream_output;

typedef struct {
  int64_t document, first, count; /* `count` elements of a document from element `first` on */
} ur_stream_piece;

/* Documents are rows of a set, chosen as by ur_loader_options. A window begins every `stride` elements; with `padded`, what
 * is left at the end makes one more, which is filled up. */
struct ur_stream {
  int32_t kind;             /* ur_stream_kind */
  int32_t column;           /* of blobs */
  int32_t element_bytes;    /* 1, 2, 4 or 8: what a value is made of */
  int32_t is_signed;        /* of elements that are labels: whether they are signed whole numbers */
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
  const int64_t *numbers;   /* of PACKED: what each piece's document is called in place of its row; NULL: its row */
  const int64_t *selection;
  const ur_bitmap *bitmap;
  int64_t selection_start;
  int64_t selection_step;
  uint8_t padding[8];       /* the element that samples are filled up with */
};

/* Reads samples[0..n) of the stream. outputs[i].column is one of ur_stream_output: the elements or int64 for each of them, of fixed
 * width, or what is said of each run, of variable width, which a stream longer than 2^31 - 1 does not have. UR_STALE where
 * documents have other lengths than the table says. */
ur_status ur_stream_read(ur_set *set, const ur_stream *stream, const int64_t *samples, int64_t n, ur_output *outputs,
                         int32_t output_count, ur_error *error);

/* Puts lengths of 1 to `size` (at most 2^40), one after the other, into bins of that size: each into the bin with the least
 * room that is enough, of several the one that came to that room last, else into a new bin. places[i] = the bin of length i,
 * *used = bins, numbered as they were opened. UR_ARGUMENT, UR_NO_MEMORY. */
ur_status ur_pack(const int64_t *lengths, int64_t count, int64_t size, int64_t *places, int64_t *used,
                  ur_error *error);

/* ---- sequences: what stands at offsets from an anchor row, within its group ------------------------------------------- */

typedef struct {
  const int64_t *offsets; /* of rows, or of times; borrowed, like all arrays here */
  int64_t count;          /* of them, 1 .. 2^20 */
  int32_t outputs;        /* how many of a loader's outputs, in their order, have these steps */
  int32_t timed;          /* 1: what `times` differ by */
} ur_steps;

/* Rows that offsets step over stand at places, one after the other; a group is a run of places. */
struct ur_sequence {
  const int64_t *rows;    /* the row of the set at each place, ascending; NULL: its number, from `first_row` on */
  int64_t places;
  const int64_t *starts;  /* where each of `groups` groups begins, from 0 on, and `places` */
  int64_t groups;
  const int64_t *times;   /* NULL, or of each place, not falling within a group */
  int64_t tolerance;      /* how far a time may be from the one that is wanted */
  int32_t before;         /* 1: the last row that is not later; 0: the nearest, of two the earlier */
  int32_t blank;          /* 1: what is missing is not read, and becomes zero, empty and null; 0: the row at the edge, or nearest */
  const ur_steps *steps;
  int32_t steps_count;
  int64_t first_row;       /* of the set, with which these rows begin; 0 of the first */
  const ur_sequence *next; /* NULL, or the sequences of the rows behind, with as many offsets of as many steps, and as blank */
};

/* rows[i][k] = the row at offset k of steps `number` from anchors[i], missing[i][k] = 1 where there is none, and the row is the
 * one at the edge of the group, or nearest in time. UR_ARGUMENT for an anchor that stands at no place. */
ur_status ur_sequence_find(const ur_sequence *sequence, int32_t number, const int64_t *anchors, int64_t n, int64_t *rows,
                           uint8_t *missing, ur_error *error);

/* ---- whole numbers of a few bits each -------------------------------------------------------------------------------- */

/* Element i is the bits [i x bits, (i + 1) x bits) of little-endian words, and the base added to them. After the last word
 * with any comes another one, so that eight bytes can be loaded from where an element begins. */
typedef struct {
  const uint8_t *data;
  uint64_t bytes; /* all of them: ur_packed_bytes() */
  uint64_t base;
  uint32_t bits;  /* 1 .. 56 */
} ur_packed_numbers;

/* Bytes of `count` elements of `bits` bits; false, and *bytes untouched, on overflow. */
int32_t ur_packed_size(uint64_t count, uint32_t bits, uint64_t *bytes);

/* Elements [first, first + n), which are there, as numbers of `width` bytes: 1, 2, 4 or 8. */
void ur_packed_range(const ur_packed_numbers *packed, uint64_t first, int64_t n, uint32_t width, uint8_t *out);

/* Element i, which is there. */
uint64_t ur_packed_one(const ur_packed_numbers *packed, uint64_t i);

/* The elements at these places, likewise. */
void ur_packed_places(const ur_packed_numbers *packed, const int64_t *places, int64_t n, uint32_t width, uint8_t *out);

/* Packs n numbers of `width` bytes, each less `base`, to `out`: as many bytes as ur_packed_size() says, all of them. */
void ur_packed_make(const uint8_t *numbers, uint32_t width, int64_t n, uint64_t base, uint32_t bits, uint8_t *out);

/* ---- one opened part ------------------------------------------------------------------------------------------- */

typedef struct {
  const uint8_t *data; /* borrowed until the part is released; check ranges with ur_part_check before reading them */
  uint64_t offset;     /* in the index file */
  uint64_t bytes;
  int64_t count;
  int32_t width;       /* bytes an element, once it is unpacked */
  int32_t bits;        /* of a packed section: bits an element, to which `extra` is added; else 0 */
  int64_t extra;
} ur_section;

/* UR_NOT_FOUND when the index has no such section. column: its ordinal in the schema, or -1. */
ur_status ur_part_section(const ur_part *part, int32_t kind, int32_t column, ur_section *section);

/* Checks that the files have not changed, and the digests of the index blocks under section bytes [first, first + bytes),
 * those not checked before. */
ur_status ur_part_check(ur_part *part, const ur_section *section, uint64_t first, uint64_t bytes, ur_error *error);

/* The same of all blocks of the index; where it is fetched, they come in few requests. */
ur_status ur_part_bring(ur_part *part, ur_error *error);

/* Where the blob of (row, column) lies in the data file. Bounds are checked, its digest is not. */
ur_status ur_part_locate(ur_part *part, int64_t row, int32_t column, uint64_t *offset, uint64_t *bytes,
                         ur_error *error);

/* ---- loaders --------------------------------------------------------------------------------------------------- */

void ur_pool_keep(ur_pool *pool, int32_t spare); /* from now on `spare`, if that is more */

int64_t ur_pool_allocations(const ur_pool *pool); /* pieces of memory taken from the system so far */

/* Has the loader call let_go(owner) when it is freed: what lends it memory stays until then. Once a loader. */
void ur_loader_keep(ur_loader *loader, void *owner, void (*let_go)(void *owner));

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

/* The parts that have been timed, in no order: writes the first `room` of them, and returns how many there are. */
int64_t ur_loader_part_times(ur_loader *loader, ur_part_time *times, int64_t room);

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
  const ur_packed_numbers *packed; /* in its place, where the column is packed; else NULL */
  int64_t value;
} ur_scan_number;

/* One condition. Its outcome, turned round if `negated`, goes into mask number `target` as `combine` says. */
typedef struct {
  int32_t op;       /* ur_scan_op */
  int32_t type;     /* type code of the values or codes (docs/spec/format.md), for RANGE and TABLE */
  int32_t negated;
  int32_t combine;  /* ur_scan_combine */
  int32_t target;   /* 0 .. UR_SCAN_MASKS - 1 */
  int32_t mask;   /* likewise */
  const void *data; /* flat little-endian array, no alignment needed */
  const ur_packed_numbers *packed; /* in its place, of RANGE and TABLE, where the column is packed; else NULL */
  int64_t first;    /* row that the first element of either belongs to */
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
ur_status ur_scan_mark(const ur_scan_step *steps, int32_t step_count, const ur_scan_run *runs, int64_t run_count,
                       int64_t *next, uint64_t *marks, int64_t *counts, int64_t *broken);

/* Writes the numbers of the rows that pass, `base` added: those of run i to rows[places[i]] .. rows[places[i + 1] - 1], as
 * many as ur_scan_mark counted, ascending, and nothing beyond. `places` has one more entry than there are runs. */
void ur_scan_take(const ur_scan_run *runs, int64_t run_count, int64_t *next, const uint64_t *marks,
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
ur_status ur_scan_text(const uint64_t *offsets, const uint8_t *bytes, uint64_t size, int64_t count,
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
ur_status ur_jpeg_read_header(const uint8_t *data, uint64_t bytes, ur_jpeg_header *header, ur_error *error);

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
ur_status ur_picture_crop(const ur_picture_options *options, int32_t width, int32_t height, int32_t orientation,
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
ur_status ur_picture_place(const ur_picture_options *options, const ur_crop *crop, const ur_pixels *pixels,
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
ur_cache *ur_cache_new(int64_t files, int64_t segments);
void ur_cache_set_segment(ur_cache *cache, int64_t segment, int32_t fd, uint64_t seed);
ur_status ur_cache_set_file(ur_cache *cache, int64_t file, int64_t segment, uint64_t bytes);
void ur_cache_release(ur_cache *cache); /* NULL is allowed */

/* Takes ranges in, but for those of unknown files, and those that are impossible or overlap what is there. */
ur_status ur_cache_add(ur_cache *cache, const ur_cache_range *ranges, int64_t count);
void ur_cache_remove(ur_cache *cache, const ur_cache_range *ranges, int64_t count);

/* What is not there of a range, which is inside its file, from *at on: up to `room` pieces, each one of a kept range. *at
 * becomes where the next call goes on, or the range's end. */
int64_t ur_cache_gaps(ur_cache *cache, const ur_cache_range *wanted, uint64_t *at, ur_cache_range *gaps,
                      int64_t room);

/* 1 and the bytes of a range at `to`, checked, if it is there as a whole; else 0. */
int32_t ur_cache_has(ur_cache *cache, int64_t file, uint64_t offset, uint64_t bytes, uint8_t *to);

/* Up to `room` ranges that were found damaged and are gone, each given out once. */
int64_t ur_cache_take_dropped(ur_cache *cache, ur_cache_range *dropped, int64_t room);

/* Ranges that were read, their bytes, and ranges that were damaged. */
void ur_cache_counts(ur_cache *cache, uint64_t counts[3]);

/* ---- forks ----------------------------------------------------------------------------------------------------------- */

/* A number that changes with each fork() since it was first asked for, in the process that forks and in its child alike:
 * while it stays the same, no other process has come to share memory with this one. */
uint64_t ur_all_forks(void);

/* Has every child that is forked from now on close this descriptor, or not any more (`closes` 0: before it is closed here). A
 * lock belongs to the open file: with a copy of its descriptor, a child would hold its parent's locks. */
void ur_fork_closes(int32_t fd, int32_t closes);

/* For an interpreter, whose own hooks run before and after fork(): from ur_signals_keep to ur_signals_give, which each thread
 * that forks calls before and after, signals that have the handler which signal `number` had in ur_signals_like are kept, and
 * then raised. A child is given none of its parent's. */
void ur_signals_like(int32_t number);
void ur_signals_keep(void);
void ur_signals_give(void);

/* Ends this process, with exit code 1, when process `parent`, which has started it, has ended or had ended before: soon, by a
 * thread of its own, whatever the others are at. 0, or the errno of why there is no such thread. */
int32_t ur_end_with_parent(int64_t parent);

/* cdef end */

#ifdef __cplusplus
}
#endif

#endif
