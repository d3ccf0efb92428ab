/* dataset/manifest.h - which files make up a dataset, as its manifest says: docs/spec/format.md, "Directory". Internal. */
#ifndef UR_MANIFEST_H
#define UR_MANIFEST_H

#include "base/layout.h"
#include "dataset/schema.h"
#include "unirecord.h"

enum { UR_MAX_PATCH = 65536 /* bytes */, UR_FILE_NAME = 32 /* part-NUMBER-ID.urec */, UR_DELETION_NAME = 56 /* that, .del- and up to 18 digits */ };

/* A part, or a column part. */
typedef struct {
  char name[UR_FILE_NAME];
  uint8_t id[UR_ID_BYTES];
  uint64_t bytes, index_bytes;
  uint8_t content_digest[UR_WIDE_BYTES];
} ur_named_file;

/* Which rows of a part have been deleted. */
typedef struct {
  char name[UR_DELETION_NAME];
  uint64_t rows, bytes;
  uint8_t digest[UR_WIDE_BYTES];
} ur_named_deletion;

typedef struct {
  ur_named_file file;
  uint64_t rows;
  uint32_t layout;  /* 0: its file has the columns of the schema; n: they are where layout n - 1 says */
  int64_t files;    /* its first column part; one for each file of its layout but the first */
  int64_t deletion; /* -1: nothing has been deleted */
  uint8_t *patch;   /* values in place of stored ones, memory of the manifest's; NULL: none */
  uint64_t patch_bytes;
} ur_listed_part;

/* Where column i of the dataset is: column places[i].column of file places[i].file of a part. */
typedef struct {
  uint32_t file, column;
} ur_place;

typedef struct {
  uint32_t files;
  uint8_t first_digest[UR_WIDE_BYTES]; /* of the schema of the part's own file */
  ur_place *places;
} ur_column_layout;

typedef struct {
  uint8_t *text;
  uint64_t text_bytes; /* and those of its pieces, once these have been read */
  uint64_t digest;     /* of the file, the digits of its own as zeros */
  ur_schema schema;
  ur_packed packed;    /* the schema, with annotations */
  int64_t parts, files, deletions, patches;
  ur_listed_part *part;
  ur_named_file *file; /* column parts */
  ur_named_deletion *deletion;
  uint32_t layouts;
  ur_column_layout *layout;
  bool has_facts;      /* by which sizes of blocks are chosen: rows of a row group, rows in all, bytes of their files */
  uint64_t group_rows, block_rows, block_bytes;
} ur_manifest;

/* Reads a manifest, of which `name` is said in errors, and its pieces, which are in `folder`, a path that ends with a slash.
 * Takes `text` over, from malloc(), whatever it returns; to be
 * released whatever comes of it. UR_CORRUPT where the text is not what was written, UR_FORMAT where it is none, needs a
 * newer reader, or says what cannot be, UR_NOT_FOUND where a piece is missing; time and memory go with the length of the text
 * and of the pieces. */
ur_status ur_manifest_read(uint8_t *text, uint64_t bytes, const char *name, const char *folder, ur_manifest *manifest,
                           ur_error *error);
void ur_manifest_release(ur_manifest *manifest);

#endif
