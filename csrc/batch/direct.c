/* batch/direct.c - rows of fixed width of many parts, read by a table of where the columns of each part begin. */
#include "batch/direct.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/copy.h"
#include "batch/cells.h"

#define BLOCK 256                              /* rows whose places are worked out before the first is copied */
#define AHEAD 32                               /* rows between touching a value and copying it … */
#define AHEAD_BYTES (UINT64_C(128) << 10)      /* … as long as what is copied meanwhile does not push it out of the cache */
#define MOST_TABLE (UINT64_C(64) << 20)        /* bytes of a table: of 100,000 parts it has room for 26 columns */
#define MOST_VALUES (UINT64_C(4) << 20)        /* bytes of a column in an index that are digested at once */
#define MOST_GROUPS 65536                      /* of a part, which are all looked at */
#define FEW_PARTS 8            /* that a batch looks at each time; of a batch with rows of more … */
#define PART_TRUSTED_NS 32000  /* … each is looked at once in this time for every part of the set, */
#define TRUSTED_NS 1000000000  /* … at most once in this, */
                               /* … and once a tick at most, since ur_file_clock() stands still for one */

enum { UNKNOWN = 0, BEING_NOTED = -1 };

typedef enum { PLAIN, PACKED, CODED, PACKED_CODES } direct_form;

/* Where the values of a column begin. */
typedef struct {
  const uint8_t *data; /* the first row's value, or its code */
  union {
    uint64_t base;          /* of packed values */
    const uint8_t *entries; /* of the dictionary that codes are of, … */
  };
  uint32_t entry_count;     /* … which has so many */
  uint8_t bits;             /* of a value that is packed, or of a code */
  uint8_t form;             /* direct_form */
} direct_slot;

/* What is known of a part; the rest is written once, before `looked`. */
struct ur_direct_part {
  _Atomic(int64_t) looked; /* when its files were last found unchanged, by ur_file_clock(); or one of the two above */
  uint64_t row_bytes;      /* from a cell to the next row's … */
  uint64_t group_rows;     /* … after so many of which comes another row group: */
  uint64_t gap;            /* so many bytes more, which are the same after each */
  direct_slot slot[];      /* of each column that has one */
};

static struct ur_direct_part *part_at(const ur_direct *direct, int64_t number) {
  /* exact: inside the table, whose size was multiplied by checked functions */
  return (struct ur_direct_part *)(void *)(direct->parts + (size_t)number * direct->part_bytes);
}

/* ---- how long a look is trusted ---------------------------------------------------------------------------------- */

ur_trust ur_trust_in(const ur_set *set, int64_t touched) {
  if (touched <= FEW_PARTS) return (ur_trust){0, 0};
  int64_t trusted = set->parts < TRUSTED_NS / PART_TRUSTED_NS ? set->parts * PART_TRUSTED_NS : TRUSTED_NS;
  return (ur_trust){ur_file_clock(), trusted};
}

/* ---- what is noted ----------------------------------------------------------------------------------------------- */

static bool has_slot(const ur_column_info *info) { return info->fixed_bytes > 0 && !info->nullable; }

/* NULL without memory, or where there is nothing to note. */
static ur_direct *make(const ur_set *set, const ur_set_columns *columns) {
  ur_direct *direct = malloc(sizeof *direct + (size_t)columns->count * sizeof *direct->slot);
  if (direct == NULL) return NULL;
  direct->slots = 0;
  for (uint32_t i = 0; i < columns->count; i++) direct->slot[i] = has_slot(&columns->info[i]) ? direct->slots++ : -1;
  direct->part_bytes = sizeof(struct ur_direct_part) + (size_t)direct->slots * sizeof(direct_slot);
  direct->parts_of_row = (double)set->parts / (double)(ur_set_rows(set) > 0 ? ur_set_rows(set) : 1);
  uint64_t bytes = 0;
  bool fits = direct->slots > 0 && ur_multiply((uint64_t)set->parts, direct->part_bytes, &bytes) && bytes <= MOST_TABLE;
  direct->parts = fits ? calloc((size_t)set->parts, direct->part_bytes) : NULL;
  if (direct->parts != NULL) return direct;
  free(direct);
  return NULL;
}

static ur_direct *table_of(ur_set *set, const ur_set_columns *columns) {
  ur_direct *direct = atomic_load(&set->direct);
  if (direct != NULL || atomic_load(&set->direct_ended)) return direct;
  ur_direct *made = make(set, columns);
  if (made == NULL) {
    atomic_store(&set->direct_ended, true); /* there is nothing to wait for */
    return NULL;
  }
  if (atomic_compare_exchange_strong(&set->direct, &direct, made)) return made;
  free(made->parts);
  free(made);
  return direct;
}

/* Whether everything that was written of the part's cells has been found right, or is not to be looked at. */
static bool is_settled(const ur_part *part) {
  return part->verify == UR_VERIFY_NEVER || part->blob_columns == 0 ||
         atomic_load_explicit(&part->units_left, memory_order_acquire) == 0;
}

/* Whether all of a section is right; not when it has too much to say so at once. */
static bool is_right(ur_part *part, uint32_t section) {
  const ur_section_entry *entry = &part->sections[section - 1];
  return entry->bytes <= MOST_VALUES && ur_index_check(part, entry->offset, entry->bytes, NULL) == UR_OK;
}

/* Where the codes of a column begin that has a dictionary. */
static direct_slot codes_of(ur_part *part, const ur_column *column) {
  uint32_t number = column->section[UR_SECTION_CODES], of_entries = column->section[UR_SECTION_DICTIONARY_ENTRIES];
  ur_vector codes = ur_vector_of(part, number), entries = ur_vector_of(part, of_entries);
  direct_slot none = {0};
  if (codes.count != part->header.rows || entries.count > UINT32_MAX) return none;
  if (!is_right(part, number) || !is_right(part, of_entries)) return none;
  for (uint64_t row = 0; row < codes.count; row++)
    if (ur_vector_load(&codes, row) >= entries.count) return none;
  return (direct_slot){.data = codes.data,
                       .entries = entries.data,
                       .entry_count = (uint32_t)entries.count,
                       .bits = (uint8_t)(codes.bits != 0 ? codes.bits : 8 * codes.width), /* exact: 56 at most */
                       .form = codes.bits != 0 ? PACKED_CODES : CODED};
}

/* Where the values of a scalar column begin; nowhere when they are wrong, or too many to say so at once. */
static direct_slot values_of(ur_part *part, const ur_column *column) {
  uint32_t number = column->section[UR_SECTION_VALUES];
  if (number == 0) return codes_of(part, column);
  ur_vector values = ur_vector_of(part, number);
  direct_slot none = {0};
  if (values.count != part->header.rows || values.width != (uint64_t)column->info.fixed_bytes) return none;
  if (!is_right(part, number)) return none;
  return (direct_slot){.data = values.data,
                       .base = values.base,
                       .bits = (uint8_t)values.bits, /* exact: 56 at most */
                       .form = values.bits != 0 ? PACKED : PLAIN};
}

/* Finds where the rows begin, and the gap between groups; false unless all groups follow each other evenly. */
static bool are_even(ur_part *part, uint64_t *start, uint64_t *gap) {
  uint64_t rows = part->header.rows, each = part->data.group_rows, groups = part->header.groups, bytes = 0, last = 0;
  ur_extent row = {0, 0};
  *gap = 0;
  if (part->data.row_bytes == 0 || rows == 0 || groups > MOST_GROUPS) return false;
  for (uint64_t g = 0; g < groups; g++) {
    if (ur_locate_cells(part, g * each, 0, NULL, &row, NULL) != UR_OK) return false; /* exact: a row of the part */
    uint64_t next = 0;
    if (g == 0) *start = row.offset;
    /* exact: a full group's bytes are at most the file's */
    if (g > 0 && (!ur_add(last, each * part->data.row_bytes, &next) || row.offset < next)) return false;
    if (g == 1) *gap = row.offset - next;
    if (g > 1 && row.offset - next != *gap) return false;
    last = row.offset;
  }
  uint64_t left = rows - (groups - 1) * each; /* exact: as many groups as the rows need, which was checked at opening */
  return ur_multiply(part->data.row_bytes, left, &bytes) && ur_inside(last, bytes, part->header.data_bytes);
}

/* The first cell of a blob column, of which each row has its own; NULL when they are compressed. */
static const uint8_t *cells_of(const ur_part *part, const ur_column *column, uint64_t start) {
  if (!column->is_plain || column->stored_width != (uint64_t)column->info.fixed_bytes) return NULL;
  return part->file->view + start + column->place; /* exact: the cell is in its row, and the rows are in the file */
}

/* Fills what is known of a part; false when it cannot be read so, and none of its like. */
static bool note(const ur_direct *direct, ur_part *part, struct ur_direct_part *noted) {
  uint64_t start = 0;
  noted->row_bytes = part->data.row_bytes;
  noted->group_rows = part->data.group_rows;
  if (part->blob_columns > 0 && !are_even(part, &start, &noted->gap)) return false;
  for (uint32_t i = 0; i < part->shown; i++) {
    const ur_column *column = &part->columns[i];
    if (direct->slot[i] < 0) continue;
    direct_slot slot = {0};
    if (column->info.is_blob) slot.data = cells_of(part, column, start);
    else slot = values_of(part, column);
    if (slot.data == NULL) return false;
    noted->slot[direct->slot[i]] = slot;
  }
  return true;
}

/* Whether all outputs are of columns that have a slot; those that are wrong are told of elsewhere. */
static bool can_be_direct(const ur_direct *direct, const ur_set_columns *columns, const ur_output *outputs, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    if (outputs[i].column < 0 || (uint32_t)outputs[i].column >= columns->count) return false;
    if (outputs[i].offsets != NULL || outputs[i].boxes != NULL) return false;
    if (direct->slot[outputs[i].column] < 0) return false;
  }
  return count > 0;
}

void ur_direct_learn(const ur_read *read, const ur_output *outputs, int32_t count) {
  ur_set *set = read->set;
  /* one part, of which groups are as fast unless they are told apart first, or a plan that is a joined set's */
  if (read->plan.memory == NULL && read->repeats.first == NULL) return;
  if (atomic_load_explicit(&set->direct_ended, memory_order_relaxed)) return;
  const ur_direct *direct = table_of(set, read->columns);
  if (direct == NULL || !can_be_direct(direct, read->columns, outputs, count) || !ur_direct_enter(set)) return;
  int64_t now = ur_file_clock();
  bool good = now > 0;
  for (int64_t g = 0; g < read->opened && good; g++) {
    ur_part *part = read->groups[g].part;
    struct ur_direct_part *noted = part_at(direct, read->groups[g].number);
    int64_t unknown = UNKNOWN;
    if (atomic_load_explicit(&noted->looked, memory_order_relaxed) != UNKNOWN) continue;
    if (part->file->view == NULL || part->verify == UR_VERIFY_ALWAYS || part->source.fetch != NULL) good = false;
    /* the slot's own: one that another thread has opened for a single call goes when that ends */
    if (!good || !is_settled(part) || atomic_load(&set->slots[read->groups[g].number].part) != part) continue;
    if (!atomic_compare_exchange_strong(&noted->looked, &unknown, BEING_NOTED)) continue;
    good = note(direct, part, noted);
    int64_t looked = atomic_load_explicit(&part->looked, memory_order_relaxed);
    if (good) atomic_store_explicit(&noted->looked, looked > 0 ? looked : 1, memory_order_release);
  }
  ur_direct_leave(set);
  if (!good) atomic_store(&set->direct_ended, true);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The part that holds `row`: by a guess, which is right where the parts are alike. */
static int64_t find_part(const ur_set *set, const ur_direct *direct, int64_t row) {
  int64_t guess = (int64_t)((double)row * direct->parts_of_row);
  if (guess >= set->parts) guess = set->parts - 1;
  if (set->starts[guess] <= row && row < set->starts[guess + 1]) return guess;
  return ur_set_part_of(set, row);
}

/* Looks at the files of a part again when that is due; false when they have changed. */
static bool look(const ur_set *set, const ur_direct *direct, int64_t number, ur_trust trust) {
  struct ur_direct_part *noted = part_at(direct, number);
  ur_part *part = atomic_load(&set->slots[number].part); /* it stays while batches are under way */
  if (part == NULL || ur_part_was_unchanged(part, trust.now, trust.trusted, NULL) != UR_OK) return false;
  if (trust.now > 0) atomic_store_explicit(&noted->looked, trust.now, memory_order_release);
  return true;
}

/* Finds the rows' parts; false when one is not known, or may have changed. */
static bool find(const ur_set *set, const ur_direct *direct, const int64_t *rows, int64_t n, struct ur_direct_row *found) {
  int64_t all = ur_set_rows(set), turns = 0, last = -1;
  for (int64_t i = 0; i < n; i++) {
    if ((uint64_t)rows[i] >= (uint64_t)all) return false;
    int64_t number = find_part(set, direct, rows[i]);
    found[i] = (struct ur_direct_row){part_at(direct, number), (uint64_t)(rows[i] - set->starts[number])};
    turns += number != last;
    last = number;
  }
  ur_trust trust = ur_trust_in(set, turns);
  const struct ur_direct_part *before = NULL;
  for (int64_t i = 0; i < n; i++) {
    int64_t looked = atomic_load_explicit(&found[i].part->looked, memory_order_acquire);
    if (looked <= UNKNOWN) return false;
    bool due = trust.now == 0 ? found[i].part != before : trust.now - looked > trust.trusted;
    if (due && !look(set, direct, find_part(set, direct, rows[i]), trust)) return false;
    before = found[i].part;
  }
  return true;
}

bool ur_direct_open(ur_read *read, const int64_t *rows, const ur_output *outputs, int32_t count) {
  ur_set *set = read->set;
  const ur_direct *direct = atomic_load_explicit(&set->direct, memory_order_acquire);
  if (direct == NULL || read->rows == 0 || (uint64_t)read->rows > SIZE_MAX / sizeof *read->direct) return false;
  if (!can_be_direct(direct, read->columns, outputs, count) || !ur_direct_enter(set)) return false;
  struct ur_direct_row *found = malloc((size_t)read->rows * sizeof *found);
  if (found != NULL && find(set, direct, rows, read->rows, found)) {
    read->direct = found;
    return true;
  }
  free(found);
  ur_direct_leave(set);
  return false;
}

/* A copy of few bytes is one load and one store. */
static inline void copy_value(const ur_output *output, uint8_t *to, const uint8_t *from, uint64_t bytes) {
  switch (bytes) {
    case 1: memcpy(to, from, 1); break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default:
      if (ur_cell_streams(output, bytes)) ur_copy_streaming(to, from, bytes);
      else memcpy(to, from, bytes);
  }
}

/* Where the values of some rows lie, or what they are made of, and of how many of these it is that; exact, since the rows of a
 * part were found inside its files when it was noted. */
static int64_t place_values(const struct ur_direct_row *found, int64_t n, int32_t slot, uint64_t bytes, const uint8_t **from) {
  int64_t made = 0;
  for (int64_t i = 0; i < n; i++) {
    const direct_slot *of = &found[i].part->slot[slot];
    uint64_t bits = of->form != PLAIN ? of->bits : 8 * bytes; /* exact: a scalar has 64 bytes at most */
    from[i] = of->data + found[i].row * bits / 8; /* exact: see above */
    made += of->form != PLAIN;
  }
  return made;
}

static uint32_t load_code(const uint8_t *from, uint32_t bits) {
  return bits == 8 ? from[0] : bits == 16 ? ur_load16(from) : ur_load32(from);
}

/* Where the value of a code lies. Each code had an entry when the part was noted; one that has changed since is no read
 * outside. */
static const uint8_t *entry_of(const direct_slot *of, uint64_t code, uint64_t bytes) {
  return of->entries + (code < of->entry_count ? code : 0) * bytes; /* exact: an entry, of which there is one at least */
}

/* Copies values of which some are packed, or in a dictionary. */
static void gather_made(const struct ur_direct_row *found, int64_t n, int32_t slot, uint64_t bytes, const uint8_t **from,
                        uint8_t *to) {
  for (int64_t i = 0; i < n && i < AHEAD; i++) __builtin_prefetch(from[i]);
  for (int64_t i = 0; i < n; i++, to += bytes) { /* exact: the output was measured */
    const direct_slot *of = &found[i].part->slot[slot];
    if (i + AHEAD < n) __builtin_prefetch(from[i + AHEAD]);
    switch (of->form) {
      case PLAIN: memcpy(to, from[i], bytes); break;
      case PACKED: ur_store_low(to, (uint32_t)bytes, of->base + ur_packed_bits(of->data, of->bits, found[i].row)); break;
      case CODED: memcpy(to, entry_of(of, load_code(from[i], of->bits), bytes), bytes); break;
      default: memcpy(to, entry_of(of, ur_packed_bits(of->data, of->bits, found[i].row), bytes), bytes); break;
    }
  }
}

static void place_cells(const struct ur_direct_row *found, int64_t n, int32_t slot, const uint8_t **from) {
  for (int64_t i = 0; i < n; i++) {
    const struct ur_direct_part *part = found[i].part;
    from[i] = part->slot[slot].data + found[i].row * part->row_bytes; /* exact: see above */
    if (found[i].row >= part->group_rows) from[i] += found[i].row / part->group_rows * part->gap; /* exact: likewise */
  }
}

static void gather_block(const struct ur_direct_row *found, int64_t n, int32_t slot, bool is_blob, const ur_output *output,
                         uint8_t *to, uint64_t bytes) {
  const uint8_t *from[BLOCK];
  int64_t lead = bytes >= AHEAD_BYTES ? 1 : (int64_t)(AHEAD_BYTES / bytes);
  if (lead > AHEAD) lead = AHEAD;
  if (is_blob) {
    place_cells(found, n, slot, from);
  } else if (place_values(found, n, slot, bytes, from) > 0) {
    gather_made(found, n, slot, bytes, from, to);
    return;
  }
  for (int64_t i = 0; i < n && i < lead; i++) ur_touch_cell(from[i], bytes);
  for (int64_t i = 0; i < n; i++) {
    if (i + lead < n) ur_touch_cell(from[i + lead], bytes);
    copy_value(output, to + (uint64_t)i * bytes, from[i], bytes); /* exact: the output was measured */
  }
}

void ur_direct_gather(const ur_read *read, const ur_output *outputs, int32_t count) {
  const ur_direct *direct = atomic_load_explicit(&read->set->direct, memory_order_acquire);
  for (int32_t j = 0; j < count; j++) {
    const ur_column_info *info = &read->columns->info[outputs[j].column];
    uint64_t bytes = (uint64_t)info->fixed_bytes;
    if (outputs[j].valid != NULL) memset(outputs[j].valid, 1, (size_t)read->rows);
    for (int64_t first = 0; first < read->rows; first += BLOCK) {
      int64_t left = read->rows - first;
      gather_block(read->direct + first, left < BLOCK ? left : BLOCK, direct->slot[outputs[j].column],
                   info->is_blob, &outputs[j], outputs[j].data + (uint64_t)first * bytes, /* exact: likewise */
                   bytes);
    }
  }
}

void ur_direct_close(ur_read *read) {
  free(read->direct);
  ur_direct_leave(read->set);
}
