/* dataset/deletions.c - which rows of a part have been deleted: docs/spec/format.md, "Deletions". */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/fail.h"
#include "dataset/deletions.h"
#include "io/io.h"

enum { HEAD_BYTES = 64, AT_VERSION = 8, AT_FORM = 12, AT_ROWS = 16, AT_DELETED = 24, AT_ID = 32, AT_ZERO = 48, VERSION = 1 };
enum { BITMAP = 0, NUMBERS_32 = 4, NUMBERS_64 = 8 };

static const uint8_t MAGIC[8] = {0x89, 'U', 'R', 'D', 'L', 0x0D, 0x0A, 0x1A};

ur_status ur_read_whole(const char *path, const char *name, uint64_t most, uint8_t **content, uint64_t *bytes, int *fd,
                        ur_error *error) {
  ur_error local = {.what = ""};
  struct timespec modified;
  *fd = -1;
  *content = NULL;
  ur_status status = ur_file_open(path, UR_FILE_NONE, fd, bytes, &modified, &local);
  if (status == UR_OK && *bytes > most)
    status = ur_fail(&local, UR_FORMAT, "it has %" PRIu64 " bytes; at most %" PRIu64 " are expected", *bytes, most);
  if (status == UR_OK) {
    *content = malloc((size_t)*bytes + 1);
    if (*content == NULL) status = ur_fail(&local, UR_NO_MEMORY, "no memory for its %" PRIu64 " bytes", *bytes);
  }
  if (status == UR_OK) status = ur_file_read(*fd, UR_FILE_NONE, 0, *bytes, *content, &local);
  if (status == UR_OK) return UR_OK;
  ur_file_close(*fd);
  *fd = -1;
  free(*content);
  *content = NULL;
  (void)ur_fail(error, status, "%s: %s", name, local.what);
  if (error != NULL) error->os_errno = local.os_errno;
  return status;
}

static void clear(uint64_t *live, uint64_t row) { live[row / 64] &= ~(UINT64_C(1) << row % 64); }

/* Each of these rows, ascending and of the part. */
static const char *clear_numbers(const uint8_t *body, uint64_t count, size_t width, uint64_t rows, uint64_t first, uint64_t *live) {
  uint64_t least = 0;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t row = width == NUMBERS_32 ? ur_load32(body + i * width) : ur_load64(body + i * width); /* exact: inside the file */
    if (row < least || row >= rows) return "its rows do not ascend, or are not all rows of the part";
    least = row + 1;
    clear(live, first + row);
  }
  return NULL;
}

static const char *clear_bits(const uint8_t *body, uint64_t count, uint64_t rows, uint64_t first, uint64_t *live) {
  uint64_t seen = 0;
  for (uint64_t word = 0; word < (rows + 63) / 64; word++) {
    for (uint64_t bits = ur_load64(body + 8 * word); bits != 0; bits &= bits - 1, seen++) { /* exact: inside the file */
      uint64_t row = 64 * word + (uint64_t)__builtin_ctzll(bits);
      if (row >= rows) return "it names rows that the part does not have";
      clear(live, first + row);
    }
  }
  return seen == count ? NULL : "it names another number of rows than it says";
}

static const char *apply(const uint8_t *content, uint64_t bytes, const ur_named_deletion *deletion, const ur_listed_part *part,
                         uint64_t first, uint64_t *live) {
  uint8_t digest[UR_WIDE_BYTES];
  ur_xxh3_128(content, (size_t)bytes, 0, digest);
  if (bytes != deletion->bytes || memcmp(digest, deletion->digest, sizeof digest) != 0)
    return "it has another length or digest than the manifest says";
  static const uint8_t zeros[16];
  if (bytes < HEAD_BYTES) return "it is shorter than its head";
  if (memcmp(content, MAGIC, sizeof MAGIC) != 0 || ur_load32(content + AT_VERSION) != VERSION ||
      memcmp(content + AT_ZERO, zeros, sizeof zeros) != 0)
    return "it is no deletion file of this version";
  uint64_t form = ur_load32(content + AT_FORM), expected = 0;
  if (memcmp(content + AT_ID, part->file.id, UR_ID_BYTES) != 0 || ur_load64(content + AT_ROWS) != part->rows ||
      ur_load64(content + AT_DELETED) != deletion->rows)
    return "it is of another part, or of another number of rows";
  uint64_t width = part->rows <= UINT64_C(1) << 32 ? NUMBERS_32 : NUMBERS_64, bitmap = 0;
  if (!ur_multiply((part->rows + 63) / 64, 8, &bitmap) || !ur_multiply(deletion->rows, width, &expected)) /* exact: below 2^63 */
    return "it has more rows than can be";
  bool is_bitmap = expected >= bitmap;
  if (form != (is_bitmap ? BITMAP : width)) return "it has another form than that for so many rows";
  if ((is_bitmap ? bitmap : expected) != bytes - HEAD_BYTES) return "its length does not go with what it says";
  const uint8_t *body = content + HEAD_BYTES;
  return form == BITMAP ? clear_bits(body, deletion->rows, part->rows, first, live)
                        : clear_numbers(body, deletion->rows, (size_t)form, part->rows, first, live);
}

ur_status ur_deletions_apply(const char *path, const ur_named_deletion *deletion, const ur_listed_part *part, int64_t first,
                             uint64_t *live, ur_error *error) {
  uint8_t *content = NULL;
  uint64_t bytes = 0;
  int fd = -1;
  ur_status status = ur_read_whole(path, deletion->name, deletion->bytes, &content, &bytes, &fd, error);
  if (status == UR_FORMAT) return ur_fail(error, UR_CORRUPT, "%s: it has another length than the manifest says", deletion->name);
  if (status != UR_OK) return status;
  const char *why = apply(content, bytes, deletion, part, (uint64_t)first, live);
  ur_file_close(fd);
  free(content);
  return why == NULL ? UR_OK : ur_fail(error, UR_CORRUPT, "%s: %s", deletion->name, why);
}
