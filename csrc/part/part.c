/* part/part.c - opening one part: data file and index, checked to belong together; what a part tells about itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "part/part.h"
#include "base/check.h"
#include "io/cache.h"
#include "unirecord_internal.h"

#define SMALL_INDEX UINT64_C(65536) /* bytes of an index that is read into memory and needs no descriptor */

typedef struct {
  const ur_source *source;
  int fd;
  uint64_t bytes;
  struct timespec modified;
} opened_file;

typedef struct {
  opened_file file;
  uint8_t *head;
  ur_end_page end;
  ur_error end_error; /* why `end` cannot be used; its status is UR_OK when it can */
  bool heads_only;    /* it is not read */
} opened_data;

static ur_status other_id(ur_file_kind file, const uint8_t *expected, const uint8_t *found, ur_error *error) {
  char wanted[UR_HEX_TEXT], there[UR_HEX_TEXT];
  ur_hex(expected, wanted);
  ur_hex(found, there);
  ur_status status = ur_fail_at(error, UR_STALE, file, UR_AT_ID,
                                "the id should be %s, the file's is %s: this is another part", wanted, there);
  return ur_because(error, UR_REASON_OTHER_PART, status);
}

static ur_status read_file(const opened_file *file, ur_file_kind kind, uint64_t offset, uint64_t bytes, uint8_t *to,
                           ur_error *error) {
  if (file->source->fetch != NULL) return ur_source_read(file->source, kind, offset, bytes, to, error);
  return ur_file_read(file->fd, kind, offset, bytes, to, error);
}

/* Of a file that is fetched, `file` has the length already. */
static ur_status open_file(const char *path, ur_file_kind kind, opened_file *file, uint8_t header[UR_INDEX_HEADER_BYTES],
                           uint64_t *header_bytes, ur_error *error) {
  ur_status status = UR_OK;
  if (file->source->fetch == NULL)
    status = ur_file_open(path, kind, &file->fd, &file->bytes, &file->modified, error);
  if (status != UR_OK) return status;
  uint64_t whole = kind == UR_FILE_DATA ? UR_FILE_HEADER_BYTES : UR_INDEX_HEADER_BYTES;
  *header_bytes = file->bytes < whole ? file->bytes : whole;
  status = read_file(file, kind, 0, *header_bytes, header, error);
  if (status != UR_OK) {
    ur_file_close(file->fd);
    file->fd = -1;
  }
  return status;
}

/* Reads a file's whole head, of which the caller has checked that the file holds it; *head is freed by the caller. */
static ur_status read_head(const opened_file *file, ur_file_kind kind, uint32_t head_bytes, uint8_t **head,
                           ur_error *error) {
  *head = malloc(head_bytes);
  if (*head == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a head of %" PRIu32 " bytes", head_bytes);
  return read_file(file, kind, 0, head_bytes, *head, error);
}

/* What is wrong with the end page waits in data->end_error: with an index there is more to say about it. */
static ur_status read_end_page(const ur_part *part, opened_data *data, ur_error *error) {
  uint8_t page[UR_PAGE_HEADER_BYTES];
  uint64_t at = data->file.bytes - sizeof page; /* the file holds at least its head of 192 bytes */
  ur_status status = read_file(&data->file, UR_FILE_DATA, at, sizeof page, page, error);
  if (status == UR_OK)
    data->end_error.status = ur_parse_end_page(page, &part->data, data->file.bytes, &data->end, &data->end_error);
  return status;
}

static ur_status open_data(const ur_part_ref *ref, ur_part *part, opened_data *data, ur_error *error) {
  uint8_t header[UR_INDEX_HEADER_BYTES] = {0};
  uint64_t bytes = 0;
  ur_status status = open_file(ref->data_path, UR_FILE_DATA, &data->file, header, &bytes, error);
  if (status != UR_OK) return status;
  status = ur_parse_data_header(header, bytes, data->file.bytes, &part->data, error);
  if (status == UR_OK && ref->id != NULL && memcmp(ref->id, part->data.id, UR_ID_BYTES) != 0)
    status = other_id(UR_FILE_DATA, ref->id, part->data.id, error);
  if (status == UR_OK) status = read_head(&data->file, UR_FILE_DATA, part->data.header_bytes, &data->head, error);
  if (status == UR_OK) status = ur_check_data_head(data->head, &part->data, error);
  if (status == UR_OK && !data->heads_only) status = read_end_page(part, data, error);
  return status;
}

static ur_status other_content(const ur_index_header *index, const ur_end_page *end, ur_error *error) {
  char here[UR_HEX_TEXT], there[UR_HEX_TEXT];
  ur_hex(index->content_digest, here);
  ur_hex(end->content_digest, there);
  ur_status status = ur_fail_at(error, UR_STALE, UR_FILE_INDEX, UR_AT_CONTENT_DIGEST,
                                "the index belongs to other content of this part: the content digest is %s here, and %s in "
                                "the end page of the data file", here, there);
  return ur_because(error, UR_REASON_OTHER_CONTENT, status);
}

/* Opens one candidate for the index; *other says that it is there and well, but of another part or other content. */
static ur_status try_index(const char *path, ur_part *part, const opened_data *data, opened_file *file, bool *other,
                           ur_error *error) {
  uint8_t header[UR_INDEX_HEADER_BYTES] = {0};
  uint64_t bytes = 0;
  *other = false;
  ur_status status = open_file(path, UR_FILE_INDEX, file, header, &bytes, error);
  if (status != UR_OK) return status;
  status = ur_parse_index_header(header, bytes, file->bytes, &part->header, error);
  if (status == UR_OK && memcmp(part->header.id, part->data.id, UR_ID_BYTES) != 0) {
    *other = true;
    status = other_id(UR_FILE_INDEX, part->data.id, part->header.id, error);
  } else if (status == UR_OK && !data->heads_only && data->end_error.status == UR_OK &&
             memcmp(part->header.content_digest, data->end.content_digest, UR_WIDE_BYTES) != 0) {
    *other = true;
    status = other_content(&part->header, &data->end, error);
  }
  if (status != UR_OK) {
    ur_file_close(file->fd);
    file->fd = -1;
  }
  return status;
}

static ur_status open_index(const ur_part_ref *ref, ur_part *part, const opened_data *data, opened_file *file,
                            ur_error *error) {
  bool other = false;
  if (ref->index_path != NULL || file->source->fetch != NULL)
    return try_index(ref->index_path, part, data, file, &other, error);
  size_t length = strlen(ref->data_path);
  char *path = malloc(length + sizeof ".idx.new");
  if (path == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the path of the index");
  memcpy(path, ref->data_path, length);
  memcpy(path + length, ".idx", sizeof ".idx"); /* exact: there is room for it */
  ur_status status = try_index(path, part, data, file, &other, error);
  if (status == UR_NOT_FOUND || other) { /* a crash between the two renames leaves the index under its second name */
    /* exact: there is room for it */
    memcpy(path + length, ".idx.new", sizeof ".idx.new");
    bool new_other = false;
    ur_error new_error = {0};
    ur_status again = try_index(path, part, data, file, &new_other, &new_error);
    if (again != UR_NOT_FOUND && !new_other) {
      status = again;
      if (again != UR_OK && error != NULL) *error = new_error;
    }
  }
  free(path);
  if (status != UR_NOT_FOUND || data->end_error.status == UR_OK) return status;
  status = ur_fail_at(error, UR_FORMAT, UR_FILE_DATA, data->file.bytes,
                      "the file is unfinished: it has no end page (and no index)");
  return ur_because(error, UR_REASON_UNFINISHED, status);
}

static ur_status check_end_page(const opened_data *data, const ur_index_header *index, ur_error *error) {
  if (data->end_error.status != UR_OK) {
    if (error != NULL) *error = data->end_error;
    return (ur_status)data->end_error.status;
  }
  if (data->end.rows == index->rows && data->end.groups == index->groups) return UR_OK;
  return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, data->file.bytes - UR_PAGE_HEADER_BYTES,
                    "the end page counts %" PRIu64 " rows in %" PRIu64 " groups, the index %" PRIu64 " in %" PRIu64,
                    data->end.rows, data->end.groups, index->rows, index->groups);
}

/* Whether the index repeats what the data file's head says: with it, a lost head can be made again. */
static bool repeats_head(const ur_index_header *index, const uint8_t *index_head, const ur_data_header *data,
                         const uint8_t *data_head) {
  uint64_t table = (uint64_t)UR_COLUMN_BYTES * data->columns, directory = (uint64_t)UR_SECTION_BYTES * index->sections;
  const uint8_t *mine = index_head + UR_INDEX_HEADER_BYTES, *theirs = data_head + UR_FILE_HEADER_BYTES;
  return index->columns == data->columns && index->metadata_bytes == data->metadata_bytes &&
         index->writer_version == data->writer_version && index->optional_features == data->optional_features &&
         index->blob_align == data->blob_align && index->unit_rows == data->unit_rows &&
         index->group_rows == data->group_rows && index->row_bytes == data->row_bytes &&
         memcmp(mine, theirs, table) == 0 &&
         memcmp(mine + table + directory, theirs + table, data->metadata_bytes) == 0;
}

static ur_status check_pair(const ur_part *part, const opened_data *data, ur_error *error) {
  const ur_index_header *index = &part->header;
  uint64_t bytes = data->file.bytes;
  if (index->data_bytes != bytes)
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_DATA, bytes < index->data_bytes ? bytes : index->data_bytes,
                      "the data file has %" PRIu64 " bytes, its index says %" PRIu64 ": it %s", bytes,
                      index->data_bytes, bytes < index->data_bytes ? "is cut off" : "has grown");
  if (index->data_header_digest != part->data.header_digest) {
    ur_status status = ur_fail_at(error, UR_STALE, UR_FILE_INDEX, UR_AT_DATA_DIGEST,
                                  "the index was not made for this data file: the headers' digests differ (%016" PRIx64
                                  ", %016" PRIx64 ")", index->data_header_digest, part->data.header_digest);
    return ur_because(error, UR_REASON_OTHER_PART, status);
  }
  if (!repeats_head(index, part->head, &part->data, data->head))
    return ur_fail_at(error, UR_CORRUPT, UR_FILE_INDEX, UR_INDEX_HEADER_BYTES,
                      "layout, column table or metadata are not those of the data file");
  return data->heads_only ? UR_OK : check_end_page(data, index, error);
}

/* Puts the whole index into memory that no one can cut. */
static ur_status load_index(ur_part *part, const opened_file *file, ur_error *error) {
  uint8_t *memory = malloc(file->bytes);
  part->index = memory;
  if (memory == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for an index of %" PRIu64 " bytes", file->bytes);
  return ur_file_read(file->fd, UR_FILE_INDEX, 0, file->bytes, memory, error);
}

/* Takes over the index's descriptor where the index is mapped, for the checks at every use. `own`: what is written into its
 * memory, no other process sees. */
static ur_status read_index(ur_part *part, opened_file *file, int32_t io, const opened_data *data, bool own,
                            ur_error *error) {
  ur_status status = read_head(file, UR_FILE_INDEX, part->header.header_bytes, &part->head, error);
  if (status == UR_OK) status = ur_check_index_head(part->head, &part->header, error);
  if (status == UR_OK) status = check_pair(part, data, error);
  if (status == UR_OK) status = ur_index_read(part, error);
  if (status != UR_OK || data->heads_only) return status;
  if (file->source->fetch != NULL) return ur_index_prepare(part, file->bytes, error);
  if (file->bytes <= SMALL_INDEX || io == UR_IO_MEMORY) return load_index(part, file, error);
  status = ur_file_map(file->fd, UR_FILE_INDEX, file->bytes, own, &part->index, error);
  part->index_fd = file->fd;
  part->index_modified = file->modified;
  file->fd = -1;
  return status;
}

static void free_part(ur_part *part) {
  if (part->source.fetch != NULL)
    ur_index_discard(part);
  else if (part->index_fd < 0)
    free((void *)(uintptr_t)part->index);
  else
    ur_file_unmap(part->index, part->header.index_bytes);
  ur_file_close(part->index_fd);
  free(part->head);
  ur_data_file_close(part->file);
  ur_pages_free((void *)atomic_load(&part->units_checked), (part->units / 64 + 1) * 8);
  ur_index_free(part);
  free(part);
}

static int32_t way_of_reading(const opened_file *data, const ur_set_options *options) {
  if (options->io != UR_IO_AUTO) return options->io;
  return ur_io_choose(data->fd, options->bytes > data->bytes ? options->bytes : data->bytes);
}

static ur_status check_expected(const ur_part *part, const ur_part_ref *ref, ur_error *error) {
  const ur_index_header *index = &part->header;
  if (ref->rows >= 0 && index->rows != (uint64_t)ref->rows)
    return ur_fail_at(error, UR_STALE, UR_FILE_INDEX, UR_AT_ROWS,
                      "the part should have %" PRId64 " rows, it has %" PRIu64, ref->rows, index->rows);
  if (ref->content_digest == NULL || memcmp(index->content_digest, ref->content_digest, UR_WIDE_BYTES) == 0) return UR_OK;
  char wanted[UR_HEX_TEXT], there[UR_HEX_TEXT];
  ur_hex(ref->content_digest, wanted);
  ur_hex(index->content_digest, there);
  ur_status status = ur_fail_at(error, UR_STALE, UR_FILE_DATA, part->header.data_bytes - UR_PAGE_HEADER_BYTES,
                                "the part's content digest should be %s, it is %s", wanted, there);
  return ur_because(error, UR_REASON_OTHER_PART, status);
}

static ur_status open_data_file(opened_file *file, const ur_set_options *options, ur_data_file **out, ur_error *error) {
  if (file->source->fetch != NULL) return ur_fetch_open(file->source, file->bytes, out, error);
  ur_status status = ur_data_file_open(file->fd, file->bytes, file->modified, way_of_reading(file, options), out, error);
  file->fd = -1; /* the way of reading owns it, also when it could not be opened */
  return status;
}

static ur_status open_once(const ur_part_ref *ref, int64_t number, const ur_set_options *options, ur_part **out,
                           ur_error *error) {
  if (options->heads_only && options->fetch == NULL)
    return ur_fail(error, UR_ARGUMENT, "heads alone are read of what is fetched, and this part is a file");
  ur_part *part = calloc(1, sizeof *part);
  if (part == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a part");
  part->source = (ur_source){options->fetch, options->context, number, options->cache};
  opened_data data = {.file = {.source = &part->source, .fd = -1, .bytes = ref->data_bytes},
                      .heads_only = options->heads_only != 0};
  opened_file index = {.source = &part->source, .fd = -1, .bytes = ref->index_bytes};
  atomic_init(&part->references, 1);
  part->index_fd = -1;
  part->verify = options->verify;
  ur_status status = open_data(ref, part, &data, error);
  if (status == UR_OK) status = open_index(ref, part, &data, &index, error);
  if (status == UR_OK) status = read_index(part, &index, options->io, &data, ref->patch_bytes > 0, error);
  if (status == UR_OK) status = check_expected(part, ref, error);
  if (status == UR_OK && part->index != NULL) status = ur_part_patch(part, ref->patch, ref->patch_bytes, ref->patch_file, error);
  if (status == UR_OK && ref->layout > 0) {
    const int32_t *layout = options->layouts + (size_t)(ref->layout - 1) * options->columns;
    status = ur_part_show(part, layout, options->columns, error);
  }
  if (status == UR_OK) status = open_data_file(&data.file, options, &part->file, error);
  free(data.head);
  ur_file_close(index.fd);
  ur_file_close(data.file.fd);
  if (status != UR_OK) {
    free_part(part);
    return status;
  }
  *out = part;
  return UR_OK;
}

/* Forgets what a cache has of the bytes by which a part is opened. */
static void forget_heads(const ur_part_ref *ref, int64_t number, ur_cache *cache) {
  uint64_t head = ref->data_bytes < UR_HEAD_LIMIT ? ref->data_bytes : UR_HEAD_LIMIT;
  uint64_t end = ref->data_bytes < UR_PAGE_HEADER_BYTES ? ref->data_bytes : UR_PAGE_HEADER_BYTES;
  (void)ur_cache_forget(cache, number, UR_FILE_DATA, 0, head);
  (void)ur_cache_forget(cache, number, UR_FILE_DATA, ref->data_bytes - end, end); /* exact: end <= data_bytes */
  (void)ur_cache_forget(cache, number, UR_FILE_INDEX, 0, ref->index_bytes);
}

ur_status ur_part_open(const ur_part_ref *ref, int64_t number, const ur_set_options *options, ur_part **out,
                       ur_error *error) {
  ur_status status = open_once(ref, number, options, out, error);
  if (options->fetch == NULL) return status;
  ur_source source = {options->fetch, options->context, number, options->cache};
  for (int more = UR_BROUGHT_AGAIN; more > 0; more--) {
    if (status != UR_CORRUPT && status != UR_STALE && status != UR_FORMAT) break;
    forget_heads(ref, number, options->cache);
    if (!ur_source_doubt(&source)) break;
    status = open_once(ref, number, options, out, error);
  }
  return status;
}

void ur_part_retain(ur_part *part) { atomic_fetch_add_explicit(&part->references, 1, memory_order_relaxed); }

void ur_part_touch(const ur_part *part) {
  __builtin_prefetch(part->file);
  __builtin_prefetch(part->columns);
  __builtin_prefetch(part->blobs);
  __builtin_prefetch(part->sections);
}

void ur_part_release(ur_part *part) {
  if (part != NULL && atomic_fetch_sub_explicit(&part->references, 1, memory_order_acq_rel) == 1) free_part(part);
}

ur_status ur_part_is_unchanged(const ur_part *part, ur_error *error) {
  ur_status status = ur_data_file_check(part->file, error);
  if (status != UR_OK || part->index_fd < 0) return status;
  return ur_file_check(part->index_fd, UR_FILE_INDEX, part->header.index_bytes, &part->index_modified, error);
}

ur_status ur_part_was_unchanged(ur_part *part, int64_t now, int64_t trusted, ur_error *error) {
  int64_t looked = atomic_load_explicit(&part->looked, memory_order_relaxed);
  if (now != 0 && looked != 0 && now - looked <= trusted) return UR_OK; /* another thread may have looked after `now` */
  ur_status status = ur_part_is_unchanged(part, error);
  if (status == UR_OK) atomic_store_explicit(&part->looked, now, memory_order_relaxed);
  return status;
}

void ur_part_describe(const ur_part *part, ur_part_info *info) {
  const ur_index_header *header = &part->header;
  uint64_t before = UR_INDEX_HEADER_BYTES + (uint64_t)UR_COLUMN_BYTES * header->columns +
                    (uint64_t)UR_SECTION_BYTES * header->sections;
  *info = (ur_part_info){
      .rows = (int64_t)header->rows,
      .groups = (int64_t)header->groups,
      .columns = (int32_t)header->columns,
      .blob_columns = part->blob_columns,
      .writer_version = part->data.writer_version,
      .blob_align = (int32_t)part->data.blob_align,
      .unit_rows = (int64_t)part->data.unit_rows,
      .group_rows = (int64_t)part->data.group_rows,
      .row_bytes = (int64_t)part->data.row_bytes,
      .data_bytes = header->data_bytes,
      .index_bytes = header->index_bytes,
      .metadata = part->head + before,
      .metadata_bytes = header->metadata_bytes,
      .table = part->head + UR_INDEX_HEADER_BYTES,
  };
  memcpy(info->id, header->id, UR_ID_BYTES);
  memcpy(info->content_digest, header->content_digest, UR_WIDE_BYTES);
}

ur_status ur_part_column(const ur_part *part, int32_t column, ur_column_info *info) {
  if (column < 0 || (uint32_t)column >= part->shown) return UR_ARGUMENT;
  *info = part->columns[column].info;
  return UR_OK;
}

ur_status ur_part_section(const ur_part *part, int32_t kind, int32_t column, ur_section *section) {
  bool ancillary = kind >= (int32_t)UR_ANCILLARY && kind < (int32_t)(UR_ANCILLARY + UR_ANCILLARY_KINDS) && column >= 0;
  if (kind <= 0 || (kind >= UR_SECTION_KINDS && !ancillary) || column < -1 || column >= (int32_t)part->shown)
    return UR_ARGUMENT;
  uint32_t number = 0;
  if (ancillary) number = part->columns[column].ancillary[kind - (int32_t)UR_ANCILLARY];
  else if (column >= 0) number = part->columns[column].section[kind];
  else if (kind == UR_SECTION_GROUPS) number = part->groups_section;
  else if (kind == UR_SECTION_ROW_STARTS) number = part->starts_section;
  else if (kind == UR_SECTION_DIGESTS) number = part->digests_section;
  else if (kind == UR_SECTION_STATISTICS) number = part->statistics_section;
  if (number == 0 || part->index == NULL) return UR_NOT_FOUND;
  const ur_section_entry *entry = &part->sections[number - 1];
  *section = (ur_section){.data = part->index + entry->offset, /* exact: ur_parse_section() has checked it */
                          .offset = entry->offset,
                          .bytes = entry->bytes,
                          .count = (int64_t)entry->count,
                          .width = (int32_t)entry->width,
                          .bits = entry->bits,
                          .extra = (int64_t)entry->extra};
  return UR_OK;
}

ur_status ur_part_check(ur_part *part, const ur_section *section, uint64_t first, uint64_t bytes, ur_error *error) {
  uint64_t offset = 0;
  if (!ur_inside(first, bytes, section->bytes) || !ur_add(section->offset, first, &offset) ||
      offset < part->header.header_bytes || !ur_inside(offset, bytes, part->header.digests_offset))
    return ur_fail(error, UR_ARGUMENT, "bytes [%" PRIu64 ", +%" PRIu64 ") are not in the section", first, bytes);
  ur_status status = ur_part_is_unchanged(part, error);
  return status == UR_OK ? ur_index_check(part, offset, bytes, error) : status;
}

ur_status ur_part_bring(ur_part *part, ur_error *error) {
  uint64_t start = part->header.header_bytes;
  ur_status status = ur_part_is_unchanged(part, error);
  /* exact: the body begins behind the head */
  return status == UR_OK ? ur_index_check(part, start, part->header.digests_offset - start, error) : status;
}

ur_status ur_part_locate(ur_part *part, int64_t row, int32_t column, uint64_t *offset, uint64_t *bytes,
                         ur_error *error) {
  if (row < 0 || (uint64_t)row >= part->header.rows || column < 0 || (uint32_t)column >= part->shown ||
      part->columns[column].blob < 0)
    return ur_fail(error, UR_ARGUMENT, "row %" PRId64 " of column %" PRId32 " is no blob of this part", row, column);
  int32_t blob = part->columns[column].blob;
  ur_extent *cells = malloc(((size_t)blob + 1) * sizeof *cells);
  if (cells == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the places of %" PRId32 " blobs", blob + 1);
  ur_status status = ur_part_is_unchanged(part, error);
  if (status == UR_OK) status = ur_locate_cells(part, (uint64_t)row, blob + 1, cells, NULL, error);
  if (status == UR_OK) {
    *offset = cells[blob].offset;
    *bytes = cells[blob].bytes;
  } else if (error != NULL) {
    error->row = row;
    error->column = column;
  }
  free(cells);
  return status;
}
