/* set/options.c - what a set of parts is opened with: references and options, checked, and copied with all they point to. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "set/set.h"

/* Copies the references and what they point to. */
static bool copy_refs(ur_set *set, const ur_part_ref *refs) {
  size_t bytes = 1;
  for (int64_t i = 0; i < set->parts; i++) {
    bytes += strlen(refs[i].data_path) + 1; /* exact: all of these are in memory */
    /* exact: likewise */
    if (refs[i].index_path != NULL) bytes += strlen(refs[i].index_path) + 1;
    if (refs[i].id != NULL) bytes += UR_ID_BYTES;               /* exact: likewise */
    if (refs[i].content_digest != NULL) bytes += UR_WIDE_BYTES; /* exact: likewise */
    bytes += refs[i].patch_bytes;                               /* exact: likewise */
  }
  set->refs = calloc((size_t)set->parts + 1, sizeof *set->refs);
  char *at = set->names = malloc(bytes);
  if (set->refs == NULL || at == NULL) return false;
  for (int64_t i = 0; i < set->parts; i++) {
    size_t length = strlen(refs[i].data_path) + 1;
    set->refs[i].rows = refs[i].rows;
    set->refs[i].data_bytes = refs[i].data_bytes;
    set->refs[i].index_bytes = refs[i].index_bytes;
    set->refs[i].layout = refs[i].layout;
    set->refs[i].data_path = memcpy(at, refs[i].data_path, length);
    at += length; /* exact: inside the names */
    if (refs[i].index_path != NULL) {
      length = strlen(refs[i].index_path) + 1;
      set->refs[i].index_path = memcpy(at, refs[i].index_path, length);
      at += length; /* exact: inside the names */
    }
    if (refs[i].id != NULL) {
      set->refs[i].id = memcpy(at, refs[i].id, UR_ID_BYTES);
      at += UR_ID_BYTES; /* exact: likewise */
    }
    if (refs[i].patch_bytes > 0) {
      set->refs[i].patch = memcpy(at, refs[i].patch, refs[i].patch_bytes);
      set->refs[i].patch_bytes = refs[i].patch_bytes;
      set->refs[i].patch_file = refs[i].patch_file;
      at += refs[i].patch_bytes; /* exact: likewise */
    }
    if (refs[i].content_digest == NULL) continue;
    set->refs[i].content_digest = memcpy(at, refs[i].content_digest, UR_WIDE_BYTES);
    at += UR_WIDE_BYTES;
  }
  return true;
}

static bool copy_schema(ur_set *set) {
  if (set->options.schema == NULL) return true;
  size_t bytes = set->options.schema_bytes;
  uint8_t *schema = malloc(bytes + 1);
  if (schema != NULL) memcpy(schema, set->options.schema, bytes);
  set->options.schema = set->schema = schema;
  return schema != NULL;
}

static bool copy_layouts(ur_set *set) {
  if (set->options.layouts == NULL) return true;
  size_t bytes = (size_t)set->options.layout_count * set->options.columns * sizeof *set->layouts;
  set->layouts = malloc(bytes + 1);
  if (set->layouts != NULL) memcpy(set->layouts, set->options.layouts, bytes);
  set->options.layouts = set->layouts;
  return set->layouts != NULL;
}

ur_status ur_check_layouts(const ur_part_ref *refs, int64_t parts, const ur_set_options *options, ur_error *error) {
  int32_t count = options->layouts == NULL || options->table == NULL ? 0 : options->layout_count;
  for (int64_t i = 0; i < parts; i++)
    if (refs[i].layout < 0 || refs[i].layout > count)
      return ur_fail(error, UR_ARGUMENT, "layout %" PRId32 " of part %" PRId64 " is not in [0, %" PRId32 "]", refs[i].layout, i,
                     count);
  return UR_OK;
}

bool ur_set_copy(ur_set *set, const ur_part_ref *refs) {
  return copy_refs(set, refs) && copy_schema(set) && copy_layouts(set);
}
