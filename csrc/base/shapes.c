/* base/shapes.c - what objects are made of: which values stand at each place of them, many objects taken together.
 *
 * A place is a node: the whole, the items of the lists at a place, a key of the maps there. Keys of maps come in the same order
 * most often, so that the key that comes next is tried first.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/item.h"
#include "base/layout.h"
#include "unirecord_internal.h"

enum {
  DEPTH = 64,
  FIRST_NODES = 16,
  FIRST_NAMES = 256,
  MOST_NODES = 4096,
  MOST_FIELDS = 256,     /* of the maps at one place */
  MOST_NAMES = 64 * 1024 /* bytes of the keys of all */
};

struct ur_shapes {
  ur_shape *nodes; /* the first is the whole, so that 0 is none elsewhere */
  uint32_t count, room;
  char *names;
  uint32_t name_bytes, name_room;
  bool is_full, no_memory;
};

typedef struct {
  const uint8_t *at, *end;
} reader;

typedef struct {
  uint64_t left;
  uint32_t place, likely; /* of a map: the key that comes next most often */
  bool is_map;
} frame;

ur_shapes *ur_shapes_new(void) {
  ur_shapes *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  made->nodes = calloc(FIRST_NODES, sizeof *made->nodes); /* exact: small numbers */
  made->names = malloc(FIRST_NAMES);
  if (made->nodes == NULL || made->names == NULL) {
    ur_shapes_release(made);
    return NULL;
  }
  made->nodes[0].least_size = UINT64_MAX;
  made->count = 1;
  made->room = FIRST_NODES;
  made->name_room = FIRST_NAMES;
  return made;
}

void ur_shapes_release(ur_shapes *shapes) {
  if (shapes == NULL) return;
  free(shapes->nodes);
  free(shapes->names);
  free(shapes);
}

uint32_t ur_shapes_all(const ur_shapes *shapes, const ur_shape **nodes, const char **names) {
  *nodes = shapes->nodes;
  *names = shapes->names;
  return shapes->is_full ? 0 : shapes->count;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static bool grow(ur_shapes *s, uint64_t more_names) {
  if (s->count == s->room) {
    if (s->room == MOST_NODES) return !(s->is_full = true);
    ur_shape *more = realloc(s->nodes, 2 * (size_t)s->room * sizeof *more); /* exact: no more than MOST_NODES */
    if (more == NULL) return !(s->no_memory = true);
    s->nodes = more;
    s->room *= 2; /* exact: so much was given */
  }
  if (more_names > MOST_NAMES - s->name_bytes) return !(s->is_full = true);
  uint32_t room = s->name_room;
  while (room - s->name_bytes < more_names) room *= 2; /* exact: no more than MOST_NAMES */
  if (room == s->name_room) return true;
  char *more = realloc(s->names, room);
  if (more == NULL) return !(s->no_memory = true);
  s->names = more;
  s->name_room = room;
  return true;
}

/* A new node, of a key where there is one; 0: there is no room for it. */
static uint32_t add_node(ur_shapes *s, const item *key) {
  if (!grow(s, key == NULL ? 0 : key->size)) return 0;
  ur_shape *made = &s->nodes[s->count];
  *made = (ur_shape){.least_size = UINT64_MAX};
  if (key != NULL) {
    made->name = s->name_bytes;
    made->name_bytes = (uint32_t)key->size;
    memcpy(s->names + s->name_bytes, key->content, key->size); /* exact: there is room */
    s->name_bytes += (uint32_t)key->size;                      /* exact: likewise */
  }
  return s->count++;
}

static bool is_called(const ur_shapes *s, uint32_t node, const item *key) {
  const ur_shape *one = &s->nodes[node];
  return one->name_bytes == key->size && memcmp(s->names + one->name, key->content, key->size) == 0; /* exact: a name */
}

static uint32_t field_of(ur_shapes *s, frame *map, const item *key) {
  uint32_t found = map->likely;
  if (found == 0 || !is_called(s, found, key)) {
    uint32_t last = 0, fields = 0;
    for (found = s->nodes[map->place].fields; found != 0 && !is_called(s, found, key); found = s->nodes[found].next) {
      last = found;
      fields++;
    }
    if (found == 0) {
      s->is_full |= fields == MOST_FIELDS;
      if (s->is_full || (found = add_node(s, key)) == 0) return 0;
      *(last == 0 ? &s->nodes[map->place].fields : &s->nodes[last].next) = found;
    }
  }
  map->likely = s->nodes[found].next;
  return found;
}

static uint32_t items_of(ur_shapes *s, uint32_t list) {
  if (s->nodes[list].items == 0) {
    uint32_t made = add_node(s, NULL);
    s->nodes[list].items = made;
  }
  return s->nodes[list].items;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Reads the item that comes next, and passes over its head and the bytes of a string. */
static bool next_item(reader *r, item *one) {
  if (r->at == r->end) return false;
  int head = head_bytes(*r->at);
  if (head == 0 || r->end - r->at < head) return false;
  *one = item_at(r->at);
  r->at = one->content;
  if (!has_bytes(one->kind)) return true;
  if (one->size > (uint64_t)(r->end - r->at)) return false;
  r->at += one->size; /* exact: no more than is left */
  return true;
}

static void note_size(ur_shape *node, uint64_t size) {
  if (size < node->least_size) node->least_size = size;
  if (size > node->most_size) node->most_size = size;
}

static void note_real(ur_shape *node, const uint8_t *at) {
  double value;
  if (*at == 0xca) {
    uint32_t bits = (uint32_t)load_big(at + 1, 4);
    float small;
    memcpy(&small, &bits, sizeof small);
    value = small;
  } else {
    uint64_t bits = load_big(at + 1, 8);
    memcpy(&value, &bits, sizeof value);
  }
  value = fabs(value);
  node->kinds |= UR_SHAPE_REAL;
  if (isfinite(value) && value > node->most_real) node->most_real = value;
}

static void note(ur_shape *node, const uint8_t *at, const item *one) {
  switch (one->kind) {
    case NATURAL:
      node->kinds |= UR_SHAPE_INTEGER;
      if (one->size > node->most) node->most = one->size;
      return;
    case NEGATIVE:
      node->kinds |= UR_SHAPE_INTEGER;
      if ((int64_t)one->size < node->least) node->least = (int64_t)one->size;
      return;
    case STRING: node->kinds |= UR_SHAPE_TEXT; return;
    case BINARY:
      node->kinds |= UR_SHAPE_BYTES;
      note_size(node, one->size);
      return;
    case ARRAY:
      node->kinds |= UR_SHAPE_LIST;
      note_size(node, one->size);
      return;
    case MAP: node->kinds |= UR_SHAPE_MAP; return;
    case EXTENSION: node->kinds |= UR_SHAPE_OTHER; return;
    case OTHER: break;
  }
  if (*at == 0xca || *at == 0xcb) {
    note_real(node, at);
  } else {
    node->kinds |= *at == 0xc0 ? UR_SHAPE_NULL : UR_SHAPE_BOOL;
  }
}

/* One object; false where it is no msgpack, or there is no room for what it has at new places. */
static bool add_object(ur_shapes *s, reader *r) {
  frame frames[DEPTH];
  uint32_t place = 0;
  for (int depth = 0;;) {
    const uint8_t *at = r->at;
    item one;
    if (!next_item(r, &one)) return false;
    note(&s->nodes[place], at, &one);
    if (one.kind == ARRAY || one.kind == MAP) {
      if (depth == DEPTH) return false;
      frames[depth++] = (frame){one.size, place, s->nodes[place].fields, one.kind == MAP};
    }
    while (depth > 0 && frames[depth - 1].left == 0) depth--;
    if (depth == 0) return r->at == r->end;
    frame *inside = &frames[depth - 1];
    inside->left--;
    if (inside->is_map) {
      if (!next_item(r, &one)) return false;
      if (one.kind != STRING) {
        s->nodes[inside->place].kinds |= UR_SHAPE_OTHER;
        s->is_full = true;
        return false;
      }
      place = field_of(s, inside, &one);
    } else {
      place = items_of(s, inside->place);
    }
    if (place == 0) return false;
  }
}

ur_status ur_shapes_add(ur_shapes *shapes, const uint8_t *content, const uint64_t *starts, const uint64_t *sizes,
                        uint64_t count) {
  for (uint64_t i = 0; i < count && !shapes->is_full; i++) {
    reader one = {content + starts[i], content + starts[i] + sizes[i]}; /* exact: the caller's memory */
    if (add_object(shapes, &one) || shapes->is_full) continue;
    return shapes->no_memory ? UR_NO_MEMORY : UR_CORRUPT;
  }
  return UR_OK;
}
