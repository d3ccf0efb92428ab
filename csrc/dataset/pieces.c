/* dataset/pieces.c - files that list many parts of a dataset: see dataset/pieces.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"
#include "dataset/deletions.h"
#include "dataset/pieces.h"
#include "io/io.h"
#include "unirecord_internal.h"

enum { HEAD_BYTES = 64, AT_VERSION = 8, AT_PARTS = 12, AT_FILES = 16, AT_LAID_OUT = 20, AT_DELETIONS = 24, AT_PATCHES = 28,
       AT_ROWS = 32, AT_ID = 40, VERSION = 1, MOST_PARTS = 1 << 16, NAME_BYTES = 40 };
enum { FILE_BYTES = 56 /* of a column part, in all columns */, PART_BYTES = FILE_BYTES + 8, DELETION_BYTES = 44, LAID_OUT_BYTES = 12, PATCH_BYTES = 8 };

static const uint8_t MAGIC[8] = {0x89, 'U', 'R', 'P', 'L', 0x0D, 0x0A, 0x1A};

static ur_status wrong(const char *digest, const char *what, ur_error *error) {
  return ur_fail(error, UR_FORMAT, "parts-%s: %s", digest, what);
}

ur_status ur_piece_read(const char *folder, const char *digest, uint64_t parts, uint64_t rows, const uint8_t id[UR_ID_BYTES],
                        ur_piece *piece, ur_error *error) {
  char name[NAME_BYTES];
  *piece = (ur_piece){0};
  (void)snprintf(name, sizeof name, "parts-%s", digest);
  size_t room = strlen(folder) + sizeof name; /* exact: both are in memory */
  char *path = malloc(room);
  int fd = -1;
  if (path == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for a path");
  (void)snprintf(path, room, "%s%s", folder, name);
  ur_status status = ur_read_whole(path, name, UINT64_C(1) << 30, &piece->content, &piece->bytes, &fd, error);
  free(path);
  if (status != UR_OK) return status;
  ur_file_close(fd);
  const uint8_t *head = piece->content;
  uint8_t whole[UR_WIDE_BYTES];
  char found[UR_HEX_TEXT];
  ur_xxh3_128(head, (size_t)piece->bytes, 0, whole);
  ur_hex(whole, found);
  if (strcmp(found, digest) != 0)
    return ur_fail(error, UR_CORRUPT, "%s: its digest is %s, and not the one in its name: it was edited or damaged", name, found);
  if (piece->bytes < HEAD_BYTES || memcmp(head, MAGIC, sizeof MAGIC) != 0) return wrong(digest, "this is no list of parts", error);
  if (ur_load32(head + AT_VERSION) != VERSION)
    return ur_because(error, UR_REASON_NEWER, wrong(digest, "it is of another version than this reader knows", error));
  piece->parts = ur_load32(head + AT_PARTS);
  piece->files = ur_load32(head + AT_FILES);
  piece->laid_out = ur_load32(head + AT_LAID_OUT);
  piece->deletions = ur_load32(head + AT_DELETIONS);
  piece->patches = ur_load32(head + AT_PATCHES);
  uint64_t patch_bytes = 0;
  uint64_t bytes = HEAD_BYTES + (uint64_t)PART_BYTES * piece->parts + (uint64_t)FILE_BYTES * piece->files + /* exact: 32 bits */
                   (uint64_t)DELETION_BYTES * piece->deletions + (uint64_t)LAID_OUT_BYTES * piece->laid_out + /* exact: likewise */
                   (uint64_t)PATCH_BYTES * piece->patches; /* exact: likewise */
  for (uint64_t i = 0; i < piece->patches && bytes <= piece->bytes; i++)
    patch_bytes += ur_load32(head + bytes - 4 * (piece->patches - i)); /* exact: inside the file; 2^32 numbers of 32 bits */
  if (bytes > piece->bytes || patch_bytes != piece->bytes - bytes) return wrong(digest, "its length does not go with what it says", error);
  if (piece->parts != parts || parts < 1 || parts > MOST_PARTS || ur_load64(head + AT_ROWS) != rows || memcmp(head + AT_ID, id, UR_ID_BYTES) != 0)
    return wrong(digest, "it is of another dataset, or of other numbers of parts and rows, than the manifest says", error);
  return UR_OK;
}

/* ---- its columns ------------------------------------------------------------------------------------------------- */

/* What files are: columns of as many ids, numbers of names, rows (of parts alone), bytes, bytes of the index, contents. */
typedef struct {
  const uint8_t *ids, *numbers, *rows, *bytes, *index_bytes, *contents;
} file_columns;

/* Takes `count` values of `width` bytes from the front; there are as many. */
static const uint8_t *take(const uint8_t **at, uint64_t count, uint64_t width) {
  const uint8_t *found = *at;
  *at += count * width; /* exact: the length of the file has been checked */
  return found;
}

static file_columns take_columns(const uint8_t **at, uint64_t count, bool has_rows) {
  file_columns found;
  found.ids = take(at, count, UR_ID_BYTES);
  found.numbers = take(at, count, 8);
  found.rows = has_rows ? take(at, count, 8) : NULL;
  found.bytes = take(at, count, 8);
  found.index_bytes = take(at, count, 8);
  found.contents = take(at, count, UR_WIDE_BYTES);
  return found;
}

static const uint64_t NUMBERS_END = UINT64_C(1000000000000), VERSIONS_END = UINT64_C(1000000000000000000); /* in names */

static bool take_file(const file_columns *columns, uint64_t i, uint64_t next_part, ur_named_file *file) {
  uint64_t number = ur_load64(columns->numbers + 8 * i); /* exact: inside the file */
  if (number >= NUMBERS_END || number >= next_part) return false;
  memcpy(file->id, columns->ids + UR_ID_BYTES * i, UR_ID_BYTES); /* exact: inside the file */
  file->bytes = ur_load64(columns->bytes + 8 * i);               /* exact: likewise */
  file->index_bytes = ur_load64(columns->index_bytes + 8 * i);   /* exact: likewise */
  memcpy(file->content_digest, columns->contents + UR_WIDE_BYTES * i, UR_WIDE_BYTES); /* exact: likewise */
  char name[UR_FILE_NAME + 32];
  (void)snprintf(name, sizeof name, "part-%06" PRIu64 "-%02x%02x%02x%02x.urec", number, file->id[0], file->id[1], file->id[2],
                 file->id[3]);
  memcpy(file->name, name, UR_FILE_NAME); /* exact: at most 12 digits */
  return file->bytes <= INT64_MAX && file->index_bytes <= INT64_MAX;
}

static bool take_deletion(uint64_t rows, uint64_t bytes, const uint8_t *digest, uint64_t number, ur_listed_part *part,
                          ur_named_deletion *found) {
  uint64_t limit = 0;
  *found = (ur_named_deletion){.rows = rows, .bytes = bytes};
  memcpy(found->digest, digest, UR_WIDE_BYTES);
  if (rows < 1 || rows > part->rows || bytes > INT64_MAX || number >= VERSIONS_END) return false;
  if (ur_multiply(part->rows, 8, &limit) && ur_add(limit, 64, &limit) && bytes > limit) return false;
  char name[UR_DELETION_NAME + 32];
  (void)snprintf(name, sizeof name, "%s.del-%06" PRIu64, part->file.name, number);
  memcpy(found->name, name, UR_DELETION_NAME); /* exact: at most 18 digits */
  return true;
}

ur_status ur_piece_take(const ur_piece *piece, const char *digest, uint64_t next_part, ur_manifest *m, ur_error *error) {
  const uint8_t *at = piece->content + HEAD_BYTES;
  file_columns parts = take_columns(&at, piece->parts, true), files = take_columns(&at, piece->files, false);
  const uint8_t *rows = take(&at, piece->deletions, 8), *bytes = take(&at, piece->deletions, 8),
                *digests = take(&at, piece->deletions, UR_WIDE_BYTES), *numbers = take(&at, piece->deletions, 8),
                *deleted = take(&at, piece->deletions, 4), *laid_out = take(&at, piece->laid_out, 4),
                *layouts = take(&at, piece->laid_out, 4), *counts = take(&at, piece->laid_out, 4),
                *patched = take(&at, piece->patches, 4), *sizes = take(&at, piece->patches, 4);
  ur_listed_part *first = m->part + m->parts;
  uint64_t sum = 0, next = 0;
  for (uint64_t i = 0; i < piece->parts; i++, m->parts++) {
    ur_listed_part *part = &first[i];
    *part = (ur_listed_part){.deletion = -1, .rows = ur_load64(parts.rows + 8 * i)}; /* exact: inside the file */
    if (!take_file(&parts, i, next_part, &part->file) || part->rows > INT64_MAX || !ur_add(sum, part->rows, &sum))
      return wrong(digest, "a part has a number, or a name, that is not possible", error);
  }
  if (sum != ur_load64(piece->content + AT_ROWS)) return wrong(digest, "its parts do not have the rows that it says", error);
  for (uint64_t i = 0; i < piece->deletions; i++) {
    uint64_t of = ur_load32(deleted + 4 * i); /* exact: inside the file */
    if (of < next || of >= piece->parts ||
        !take_deletion(ur_load64(rows + 8 * i), ur_load64(bytes + 8 * i), digests + UR_WIDE_BYTES * i, /* exact: likewise */
                       ur_load64(numbers + 8 * i), &first[of], &m->deletion[m->deletions])) /* exact: likewise */
      return wrong(digest, "what it says of deleted rows is not possible", error);
    first[of].deletion = m->deletions++;
    next = of + 1;
  }
  int64_t begin = m->files;
  for (uint64_t i = 0; i < piece->files; i++, m->files++)
    if (!take_file(&files, i, next_part, &m->file[m->files])) return wrong(digest, "a column part has a name that is not possible", error);
  uint64_t left = piece->files;
  next = 0;
  for (uint64_t i = 0; i < piece->laid_out; i++) {
    uint64_t of = ur_load32(laid_out + 4 * i), layout = ur_load32(layouts + 4 * i), count = ur_load32(counts + 4 * i); /* exact */
    if (of < next || of >= piece->parts || layout >= m->layouts || count != m->layout[layout].files - 1 || count > left)
      return wrong(digest, "a part has a layout, or column parts, that are not there", error);
    first[of].layout = (uint32_t)layout + 1;
    first[of].files = begin;
    begin += (int64_t)count;
    left -= count;
    next = of + 1;
  }
  if (left != 0) return wrong(digest, "it has column parts of no part", error);
  next = 0;
  for (uint64_t i = 0; i < piece->patches; i++) {
    uint64_t of = ur_load32(patched + 4 * i), size = ur_load32(sizes + 4 * i); /* exact: inside the file */
    if (of < next || of >= piece->parts || first[of].layout == 0 || size < 1 || size > UR_MAX_PATCH)
      return wrong(digest, "what it says of patches is not possible", error);
    first[of].patch = malloc(size);
    if (first[of].patch == NULL) return ur_fail(error, UR_NO_MEMORY, "no memory for the patch of a part");
    memcpy(first[of].patch, take(&at, size, 1), size);
    first[of].patch_bytes = size;
    m->patches++;
    next = of + 1;
  }
  return UR_OK;
}
