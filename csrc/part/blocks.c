/* part/blocks.c - the blocks of an index, checked when they are first used; where the files are fetched, brought before that. */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/hash.h"
#include "io/cache.h"
#include "part/part.h"

#define RUN 64      /* neighbours in one range: a longer one does not come faster */
#define YIELDS 4096 /* that a block which is being put in its place is waited for */

static uint64_t start_of(const ur_part *part, uint64_t block) {
  return part->header.header_bytes + block * UR_BLOCK_BYTES; /* exact: `block` is one of the part's, inside the index */
}

static uint64_t bytes_of(const ur_part *part, uint64_t block) {
  uint64_t left = part->header.digests_offset - start_of(part, block);
  return left < UR_BLOCK_BYTES ? left : UR_BLOCK_BYTES;
}

static uint64_t bit_of(uint64_t block) { return UINT64_C(1) << (block % 64); }

/* Where the digest of a block lies in the index. */
static uint64_t digest_of(const ur_part *part, uint64_t block) {
  return part->header.digests_offset + block * 8; /* exact: a digest for each block was checked to be inside the index */
}

/* UR_CORRUPT unless these are the bytes of index block `block`, whose digest is `expected`. */
static ur_status compare_to(const ur_part *part, uint64_t block, uint64_t expected, const uint8_t *bytes, ur_error *error) {
  uint64_t start = start_of(part, block), size = bytes_of(part, block);
  uint64_t found = ur_xxh3_64(bytes, size, part->block_seed + block * UR_PHI);
  if (expected == found) return UR_OK;
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, start,
                    "the digest of index block %" PRIu64 " should be %016" PRIx64 ", its %" PRIu64
                    " bytes give %016" PRIx64, block, expected, size, found);
}

static ur_status compare(const ur_part *part, uint64_t block, const uint8_t *bytes, ur_error *error) {
  return compare_to(part, block, ur_load64(part->index + digest_of(part, block)), bytes, error);
}

ur_status ur_index_check_block(ur_part *part, uint64_t block, ur_error *error) {
  if (part->source.fetch != NULL) return ur_index_bring(part, block, block, error);
  const uint8_t *bytes = part->index + start_of(part, block); /* exact: inside the index */
  ur_status status = compare(part, block, bytes, error);
  if (status != UR_OK) return status;
  atomic_fetch_or_explicit(&part->blocks_checked[block / 64], bit_of(block), memory_order_release);
  return UR_OK;
}

/* ---- of files that are fetched --------------------------------------------------------------------------------------- */

ur_status ur_index_prepare(ur_part *part, uint64_t bytes, ur_error *error) {
  uint8_t *memory = ur_pages_new(bytes);
  part->index = memory;
  part->blocks_landing = calloc(part->blocks / 64 + 1, sizeof *part->blocks_landing);
  if (memory == NULL || part->blocks_landing == NULL)
    return ur_fail(error, UR_NO_MEMORY, "no memory for an index of %" PRIu64 " bytes", bytes);
  atomic_init(&part->blocks_left, part->blocks);
  memcpy(memory, part->head, part->header.header_bytes);
  uint64_t at = part->header.digests_offset;
  return ur_source_read(&part->source, UR_FILE_INDEX, at, part->blocks * 8, memory + at, error);
}

void ur_index_discard(ur_part *part) {
  ur_pages_free((void *)(uintptr_t)part->index, part->header.index_bytes);
  free((void *)part->blocks_landing);
}

/* Puts a block that is right in its place. Of threads that bring the same one, the first to say so does it; one that does
 * not come to its end (its process was a fork's parent) has the bytes of both, which are the same. */
static void put(ur_part *part, uint64_t block, const uint8_t *bytes) {
  _Atomic(uint64_t) *landing = &part->blocks_landing[block / 64];
  if (atomic_fetch_or(landing, bit_of(block)) & bit_of(block))
    for (int i = 0; i < YIELDS && !ur_index_is_checked(part, block); i++) (void)sched_yield();
  if (ur_index_is_checked(part, block)) return;
  memcpy((uint8_t *)(uintptr_t)part->index + start_of(part, block), bytes, bytes_of(part, block));
  uint64_t before = atomic_fetch_or_explicit(&part->blocks_checked[block / 64], bit_of(block), memory_order_release);
  if ((before & bit_of(block)) == 0) atomic_fetch_sub(&part->blocks_left, 1);
}

/* Whether a cache has the block, and it is right; then it is in its place. */
static bool is_cached(ur_part *part, uint64_t block, uint8_t *landed) {
  uint64_t offset = start_of(part, block), bytes = bytes_of(part, block);
  if (!ur_cache_read(part->source.cache, part->source.part, UR_FILE_INDEX, offset, bytes, landed, true)) return false;
  if (compare(part, block, landed, NULL) == UR_OK) {
    put(part, block, landed);
    ur_cache_trust(part->source.cache, part->source.part, UR_FILE_INDEX, offset, bytes);
    return true;
  }
  (void)ur_cache_forget(part->source.cache, part->source.part, UR_FILE_INDEX, offset, bytes);
  return false;
}

/* Leaves what no cache has. */
static void take_cached(ur_arrivals *wanted) {
  int64_t left = 0;
  for (int64_t i = 0; i < wanted->count; i++)
    if (!is_cached(wanted->blocks[i].part, wanted->blocks[i].number, wanted->landed)) wanted->blocks[left++] = wanted->blocks[i];
  wanted->count = left;
}

/* Ranges of what is wanted, neighbours as one; returns how many. */
static int64_t ranges_of(const ur_arrivals *wanted, ur_range ranges[UR_ARRIVALS]) {
  int64_t count = 0, run = 0;
  for (int64_t i = 0; i < wanted->count; i++) {
    const ur_part *part = wanted->blocks[i].part;
    uint64_t block = wanted->blocks[i].number;
    bool follows = i > 0 && part == wanted->blocks[i - 1].part && block == wanted->blocks[i - 1].number + 1; /* exact: a number of a block */
    if (follows && run < RUN) {
      ranges[count - 1].bytes += bytes_of(part, block); /* exact: RUN blocks at most */
      run++;
      continue;
    }
    ranges[count++] = (ur_range){.part = part->source.part,
                                 .offset = start_of(part, block),
                                 .bytes = bytes_of(part, block),
                                 .to = wanted->landed + (uint64_t)i * UR_BLOCK_BYTES, /* exact: i < UR_ARRIVALS */
                                 .file = UR_FILE_INDEX,
                                 .keep = 1};
    run = 1;
  }
  return count;
}

/* The same with the digest, too, brought anew. */
static ur_status compare_anew(const ur_part *part, uint64_t block, const uint8_t *bytes, ur_error *error) {
  uint8_t digest[8];
  (void)ur_cache_forget(part->source.cache, part->source.part, UR_FILE_INDEX, digest_of(part, block), sizeof digest);
  ur_status status = ur_source_read(&part->source, UR_FILE_INDEX, digest_of(part, block), sizeof digest, digest, error);
  return status == UR_OK ? compare_to(part, block, ur_load64(digest), bytes, error) : status;
}

static int by_place(const void *left, const void *right) {
  const ur_arrival *a = left, *b = right;
  int64_t p = a->part->source.part, q = b->part->source.part;
  return p != q ? (p > q) - (p < q) : (a->number > b->number) - (a->number < b->number);
}

/* Brings what is wanted, and puts all that is right in its place; what is not stays wanted, and the first of it is the error. */
static ur_status readahead_once(ur_arrivals *wanted, bool anew, ur_error *error) {
  ur_range ranges[UR_ARRIVALS];
  if (wanted->count > 0 && wanted->blocks[0].part->source.cache != NULL) take_cached(wanted);
  qsort(wanted->blocks, (size_t)wanted->count, sizeof *wanted->blocks, by_place); /* as ranges are asked for */
  int64_t count = ranges_of(wanted, ranges);
  ur_status status = count == 0 ? UR_OK : ur_source_fetch(&wanted->blocks[0].part->source, ranges, count, error);
  bool came = status == UR_OK;
  int64_t left = 0;
  for (int64_t i = 0; i < wanted->count && came; i++) {
    ur_part *part = wanted->blocks[i].part;
    uint64_t block = wanted->blocks[i].number;
    const uint8_t *bytes = wanted->landed + (uint64_t)i * UR_BLOCK_BYTES; /* exact: i < UR_ARRIVALS */
    ur_status found = (anew ? compare_anew : compare)(part, block, bytes, status == UR_OK ? error : NULL);
    if (found == UR_OK) {
      put(part, block, bytes);
      continue;
    }
    if (status == UR_OK && error != NULL) error->part = part->source.part;
    status = found; /* or the cache would have it from now on */
    (void)ur_cache_forget(part->source.cache, part->source.part, UR_FILE_INDEX, start_of(part, block),
                          bytes_of(part, block));
    wanted->blocks[left++] = wanted->blocks[i];
  }
  wanted->count = came ? left : 0;
  return status;
}

/* The same; a block that came with a wrong byte is brought anew, as it may have been changed on its way. */
static ur_status readahead_wanted(ur_arrivals *wanted, ur_error *error) {
  ur_status status = readahead_once(wanted, false, error);
  for (int more = UR_BROUGHT_AGAIN; status == UR_CORRUPT && wanted->count > 0 && more > 0; more--) {
    for (int64_t i = 0; i < wanted->count; i++) (void)ur_source_doubt(&wanted->blocks[i].part->source);
    status = readahead_once(wanted, true, error);
  }
  wanted->count = 0;
  return status;
}

static bool is_wanted(const ur_arrivals *wanted, const ur_part *part, uint64_t block) {
  for (int64_t i = wanted->count; i-- > 0;)
    if (wanted->blocks[i].part == part && wanted->blocks[i].number == block) return true;
  return false;
}

static ur_status want(ur_arrivals *wanted, ur_part *part, uint64_t block, ur_error *error) {
  if (ur_index_is_checked(part, block)) return UR_OK;
  if (wanted->landed == NULL) wanted->landed = malloc((size_t)UR_ARRIVALS * UR_BLOCK_BYTES);
  if (wanted->landed == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for blocks of the index");
  wanted->blocks[wanted->count++] = (ur_arrival){part, block};
  return wanted->count < UR_ARRIVALS ? UR_OK : readahead_wanted(wanted, error);
}

ur_status ur_index_want(ur_arrivals *wanted, ur_part *part, uint32_t section, uint64_t first, uint64_t last, ur_error *error) {
  ur_vector elements = ur_vector_of(part, section);
  uint64_t base = elements.offset - part->header.header_bytes; /* exact: sections lie behind the head */
  /* exact: elements of the section */
  uint64_t from = (base + first * elements.width) / UR_BLOCK_BYTES;
  /* exact: likewise */
  uint64_t until = (base + (last + 1) * elements.width - 1) / UR_BLOCK_BYTES;
  ur_status status = UR_OK;
  for (uint64_t block = from; block <= until && status == UR_OK; block++)
    if (!is_wanted(wanted, part, block)) status = want(wanted, part, block, error);
  return status;
}

ur_status ur_arrivals_finish(ur_arrivals *wanted, ur_status status, ur_error *error) {
  if (status == UR_OK) status = readahead_wanted(wanted, error);
  free(wanted->landed);
  return status;
}

ur_status ur_index_bring(ur_part *part, uint64_t first, uint64_t last, ur_error *error) {
  ur_arrivals wanted = {.count = 0};
  ur_status status = UR_OK;
  if (part->index == NULL) return ur_fail(error, UR_ARGUMENT, "only the heads of this part have been read");
  if (atomic_load(&part->blocks_left) == 0) return UR_OK;
  for (uint64_t block = first; block <= last && status == UR_OK; block++) status = want(&wanted, part, block, error);
  return ur_arrivals_finish(&wanted, status, error);
}

/* ---- what rows will need ------------------------------------------------------------------------------------------- */

typedef struct {
  ur_part *part;
  uint64_t *needed; /* a bit for each block */
} forecast;

/* The blocks where the elements of these rows lie in a section, if they are spread over it as the rows are over the part. */
static void prefetch_section(const forecast *blocks, uint32_t number, const int64_t *rows, int64_t n) {
  const ur_part *part = blocks->part;
  const ur_section_entry *entry = number == 0 ? NULL : &part->sections[number - 1];
  if (entry == NULL || entry->bytes == 0) return;
  uint64_t base = entry->offset - part->header.header_bytes;
  double scale = (double)(entry->bytes - 1) / (double)part->header.rows;
  for (int64_t i = 0; i < n; i++) {
    uint64_t at = (uint64_t)((double)rows[i] * scale);
    uint64_t block = (base + (at < entry->bytes ? at : entry->bytes - 1)) / UR_BLOCK_BYTES; /* exact: inside the section */
    blocks->needed[block / 64] |= bit_of(block);
  }
}

static bool is_small(const ur_part *part, uint32_t number) {
  return number != 0 && part->sections[number - 1].bytes <= UR_BLOCK_BYTES;
}

static void prefetch_column(const forecast *blocks, const ur_column *column, const int64_t *rows, int64_t n) {
  static const int by_row[] = {UR_SECTION_LENGTHS,        UR_SECTION_VALUES,         UR_SECTION_VALIDITY,
                               UR_SECTION_CODES,          UR_SECTION_STRING_OFFSETS, UR_SECTION_STRING_BYTES,
                               UR_SECTION_RAW_LENGTHS,    UR_SECTION_CHUNK_STARTS};
  static const int whole[] = {UR_SECTION_DICTIONARY_OFFSETS, UR_SECTION_DICTIONARY_ENTRIES, UR_SECTION_CODEC_DICTIONARY,
                              UR_SECTION_CHUNK_SHAPE};
  for (size_t i = 0; i < sizeof by_row / sizeof *by_row; i++) prefetch_section(blocks, column->section[by_row[i]], rows, n);
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    if (is_small(blocks->part, column->section[whole[i]])) prefetch_section(blocks, column->section[whole[i]], rows, 1);
}

ur_status ur_index_prefetch(ur_arrivals *wanted, ur_part *part, const int64_t *rows, int64_t n, const ur_output *outputs,
                           int32_t count, ur_error *error) {
  if (part->source.fetch == NULL || n == 0 || atomic_load(&part->blocks_left) == 0) return UR_OK;
  forecast blocks = {part, calloc(part->blocks / 64 + 1, sizeof *blocks.needed)};
  if (blocks.needed == NULL) return UR_OK;
  bool blobs = false;
  for (int32_t i = 0; i < count; i++) {
    const ur_column *column = &part->columns[outputs[i].column];
    blobs = blobs || column->blob >= 0;
    prefetch_column(&blocks, column, rows, n);
  }
  if (blobs) {
    for (int32_t i = 0; i < part->blob_columns; i++) /* cells are found by the lengths of those before them */
      prefetch_section(&blocks, part->columns[part->blobs[i]].section[UR_SECTION_LENGTHS], rows, n);
    prefetch_section(&blocks, part->groups_section, rows, n);
    prefetch_section(&blocks, part->starts_section, rows, n);
    prefetch_section(&blocks, part->digests_section, rows, n);
  }
  ur_status status = UR_OK;
  for (uint64_t block = 0; block < part->blocks && status == UR_OK; block++)
    if (blocks.needed[block / 64] & bit_of(block)) status = want(wanted, part, block, error);
  free(blocks.needed);
  return status;
}
