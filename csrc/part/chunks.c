/* part/chunks.c - see part/chunks.h. What the index says of chunks is compared with the cell before it is used. */
#include "part/chunks.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/copy.h"
#include "base/hash.h"
#include "unirecord_internal.h"

static ur_status bad_grid(const ur_section_entry *entry, ur_error *error) {
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, entry->offset,
                    "the chunks of column %u do not fit its values, or their number", entry->column);
}

static const ur_section_entry *section_of(const ur_part *part, const ur_column *column, int kind) {
  return &part->sections[column->section[kind] - 1];
}

/* Whether there are as many chunks as the rows need. */
static bool fits_rows(const ur_part *part, const ur_column *column, const ur_grid *grid) {
  uint64_t wanted = 0;
  if (grid->chunks > 1 && !ur_multiply(part->header.rows, grid->chunks, &wanted)) return false;
  return section_of(part, column, UR_SECTION_CHUNK_DIGESTS)->count == wanted;
}

static ur_status read_grid(ur_part *part, const ur_column *column, ur_grid *grid, ur_error *error) {
  const ur_section_entry *entry = section_of(part, column, UR_SECTION_CHUNK_SHAPE);
  ur_status status = ur_index_check(part, entry->offset, entry->bytes, error);
  if (status != UR_OK) return status;
  const uint8_t *numbers = part->index + entry->offset; /* exact: ur_parse_section() has checked it */
  bool array = column->info.type == UR_TYPE_ARRAY, fixed = column->info.fixed_bytes > 0;
  uint64_t bytes = 0;
  grid->rank = array ? column->rank : 1;
  for (uint32_t d = 0; d < grid->rank; d++) { /* exact: the section was found to have two numbers for each dimension, or one */
    grid->shape[d] = array ? ur_load64(numbers + 8 * (uint64_t)d) : 0;
    grid->chunk[d] = ur_load64(numbers + 8 * ((array ? (uint64_t)grid->rank : 0) + d));
  }
  bool good = ur_grid_measure(grid, array ? ur_element_bytes(&column->info) : 1, &bytes) && fixed == (grid->free == 0);
  good = good && (!fixed || (bytes == (uint64_t)column->info.fixed_bytes && fits_rows(part, column, grid)));
  return good ? UR_OK : bad_grid(entry, error);
}

ur_status ur_column_grid(ur_part *part, ur_column *column, const ur_grid **grid, ur_error *error) {
  ur_grid *known = atomic_load_explicit(&column->grid, memory_order_acquire);
  if (known == NULL) {
    ur_grid *made = calloc(1, sizeof *made);
    if (made == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the chunks of a column");
    ur_status status = read_grid(part, column, made, error);
    if (status == UR_OK && atomic_compare_exchange_strong(&column->grid, &known, made))
      known = made;
    else
      free(made); /* it is wrong, or another thread was faster */
    if (status != UR_OK) return status;
  }
  *grid = known;
  return UR_OK;
}

ur_status ur_chunked_open(ur_part *part, uint64_t row, ur_column *column, uint64_t bytes, uint64_t raw, bool *table,
                          ur_chunked *cell, ur_error *error) {
  const ur_grid *grid = NULL;
  ur_status status = ur_column_grid(part, column, &grid, error);
  if (status != UR_OK) return status;
  cell->part = part;
  cell->column = column;
  cell->row = row;
  cell->bytes = bytes;
  if (!ur_grid_of_value(grid, raw, &cell->grid))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_NOWHERE, "a value of %" PRIu64 " bytes is no array of its column", raw);
  *table = cell->grid.chunks > 1;
  cell->first = 0;
  if (!*table) return UR_OK;
  if (column->info.fixed_bytes > 0) {
    cell->first = row * cell->grid.chunks; /* exact: so many chunks of all rows are in the section */
    return UR_OK;
  }
  ur_vector starts = ur_vector_of(part, column->section[UR_SECTION_CHUNK_STARTS]);
  status = ur_vector_check(part, &starts, row, error);
  if (status != UR_OK) return status;
  cell->first = ur_vector_load(&starts, row);
  if (ur_inside(cell->first, cell->grid.chunks, section_of(part, column, UR_SECTION_CHUNK_DIGESTS)->count)) return UR_OK;
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, starts.offset,
                    "chunks %" PRIu64 " and %" PRIu64 " more are not in the index", cell->first, cell->grid.chunks);
}

static ur_status load_end(const ur_chunked *cell, const ur_vector *ends, uint64_t number, uint64_t *end, ur_error *error) {
  uint64_t i = cell->first + number; /* exact: a chunk of the section */
  ur_status status = ur_vector_check(cell->part, ends, i, error);
  if (status == UR_OK) *end = ur_vector_load(ends, i);
  return status;
}

ur_status ur_chunk_locate(const ur_chunked *cell, uint64_t number, const uint64_t *at, const uint64_t *sizes, uint64_t raw,
                          ur_extent *place, ur_error *error) {
  if (cell->column->info.codec == UR_CODEC_PLAIN) {
    *place = (ur_extent){ur_grid_before(&cell->grid, at, sizes), raw};
    if (ur_inside(place->offset, raw, cell->bytes)) return UR_OK;
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_NOWHERE, "a chunk should end behind its cell of %" PRIu64 " bytes",
                      cell->bytes);
  }
  ur_vector ends = ur_vector_of(cell->part, cell->column->section[UR_SECTION_CHUNK_ENDS]);
  uint64_t start = 0, end = 0;
  ur_status status = number == 0 ? UR_OK : load_end(cell, &ends, number - 1, &start, error);
  if (status == UR_OK) status = load_end(cell, &ends, number, &end, error);
  if (status != UR_OK) return status;
  *place = (ur_extent){start, end - start};
  if (start <= end && end <= cell->bytes && ur_codec_sizes_fit(end - start, raw)) return UR_OK;
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, ends.offset,
                    "a chunk from %" PRIu64 " to %" PRIu64 " of a cell of %" PRIu64 " bytes cannot be %" PRIu64 " bytes of its value",
                    start, end, cell->bytes, raw);
}

static uint64_t bits_bytes(const ur_part *part, const ur_column *column) {
  return (section_of(part, column, UR_SECTION_CHUNK_DIGESTS)->count / 64 + 1) * 8;
}

static _Atomic(uint64_t) *checked_chunks(const ur_part *part, ur_column *column) {
  _Atomic(uint64_t) *bits = atomic_load_explicit(&column->chunks_checked, memory_order_acquire);
  if (bits != NULL) return bits;
  _Atomic(uint64_t) *made = ur_pages_new(bits_bytes(part, column));
  if (made == NULL) return NULL; /* then every read verifies */
  if (atomic_compare_exchange_strong(&column->chunks_checked, &bits, made)) return made;
  ur_pages_free((void *)made, bits_bytes(part, column));
  return bits;
}

bool ur_chunk_is_checked(const ur_chunked *cell, uint64_t number) {
  const ur_part *part = cell->part;
  if (part->verify != UR_VERIFY_FIRST || part->source.fetch != NULL) return part->verify == UR_VERIFY_NEVER;
  _Atomic(uint64_t) *bits = atomic_load_explicit(&cell->column->chunks_checked, memory_order_acquire);
  if (bits == NULL) return false;
  uint64_t i = cell->first + number; /* exact: a chunk of the section */
  return (atomic_load_explicit(&bits[i / 64], memory_order_relaxed) >> (i % 64)) & 1;
}

ur_status ur_chunk_check(const ur_chunked *cell, uint64_t number, const uint8_t *bytes, uint64_t size, uint64_t offset,
                         ur_error *error) {
  ur_part *part = cell->part;
  ur_vector digests = ur_vector_of(part, cell->column->section[UR_SECTION_CHUNK_DIGESTS]);
  uint64_t i = cell->first + number; /* exact: a chunk of the section */
  ur_status status = ur_vector_check(part, &digests, i, error);
  if (status != UR_OK) return status;
  uint64_t expected = ur_vector_load(&digests, i);
  /* exact: modulo 2^64 is meant, here and below */
  uint64_t place = ((cell->row * (uint64_t)part->blob_columns + (uint64_t)cell->column->blob) << 32) + number;
  /* exact: likewise */
  uint64_t found = ur_xxh3_64(bytes, size, part->chunk_seed + place * UR_PHI);
  if (expected != found)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, offset,
                      "the digest of these %" PRIu64 " bytes (chunk %" PRIu64 " of a cell) should be %016" PRIx64
                      ", they give %016" PRIx64, size, number, expected, found);
  if (part->verify != UR_VERIFY_FIRST || part->source.fetch != NULL) return UR_OK;
  _Atomic(uint64_t) *bits = checked_chunks(part, cell->column);
  if (bits != NULL) atomic_fetch_or_explicit(&bits[i / 64], UINT64_C(1) << (i % 64), memory_order_relaxed);
  return UR_OK;
}

/* Room for the largest chunk where chunks are decompressed before they are put in their place. */
static ur_status take_room(const ur_grid *grid, uint8_t **room, ur_error *error) {
  uint64_t bytes = grid->element;
  /* exact: a chunk of an array is part of its value */
  for (uint32_t d = 0; d < grid->rank; d++) bytes *= grid->chunk[d] < grid->shape[d] ? grid->chunk[d] : grid->shape[d];
  *room = malloc(bytes);
  return *room != NULL ? UR_OK : ur_fail(error, UR_NO_MEMORY, "no memory for a chunk of %" PRIu64 " bytes", bytes);
}

ur_status ur_chunks_join(const ur_chunked *cell, const ur_decoder *decoder, ur_codec_context *context, bool streams,
                         const uint8_t *stored, uint8_t *value, ur_error *error) {
  const ur_grid *grid = &cell->grid;
  uint8_t *room = NULL;
  ur_status status = decoder != NULL && grid->rank > 1 ? take_room(grid, &room, error) : UR_OK;
  for (uint64_t number = 0; number < grid->chunks && status == UR_OK; number++) {
    uint64_t at[UR_MAX_RANK], first[UR_MAX_RANK], sizes[UR_MAX_RANK];
    uint64_t raw = ur_grid_chunk(grid, number, at, first, sizes);
    ur_extent place;
    status = ur_chunk_locate(cell, number, at, sizes, raw, &place, error);
    if (status != UR_OK) break;
    const uint8_t *bytes = stored + place.offset; /* exact: inside the cell */
    uint8_t *to = room != NULL ? room : value + first[0] * grid->element; /* exact: inside the value */
    if (decoder != NULL) status = ur_decode(decoder, context, bytes, place.bytes, to, raw, error);
    if (status == UR_OK && (decoder == NULL || room != NULL))
      ur_grid_put(grid, number, value, room != NULL ? room : bytes, streams);
  }
  if (streams) ur_copy_settle();
  free(room);
  return status;
}

void ur_chunks_free(ur_part *part, ur_column *column) {
  _Atomic(uint64_t) *bits = atomic_load(&column->chunks_checked);
  if (bits != NULL) ur_pages_free((void *)bits, bits_bytes(part, column));
  free(atomic_load(&column->grid));
}
