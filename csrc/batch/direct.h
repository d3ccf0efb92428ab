/* batch/direct.h - rows of fixed width, read past what a part's batches look up: for sets of many parts. Internal.
 *
 * Of many parts a batch has a row or two each, and what finding them costs is mostly the memory that is touched on the way: the
 * part, its file, its columns, its sections, its groups. The set notes of each part where its fixed columns begin, next to each
 * other, as soon as the part has been read and everything in it found right. Nothing is counted part by part: whoever is about to
 * close a part of a set that stays open ends this way of reading for good, and waits for the batches that are under way.
 */
#ifndef UR_BATCH_DIRECT_H
#define UR_BATCH_DIRECT_H

#include "batch/read.h"

/* How long a look at a part's files is trusted: see ur_part_was_unchanged(). */
typedef struct {
  int64_t now, trusted;
} ur_trust;

/* For a batch with rows of so many parts. */
ur_trust ur_trust_in(const ur_set *set, int64_t touched);

/* A row that has been found: where the columns of its part begin, and its number there. */
struct ur_direct_row {
  const struct ur_direct_part *part;
  uint64_t row;
};

/* Finds the rows when all outputs can be read so, of parts that are known and were looked at lately: then `read` needs no groups.
 * False, with nothing changed, when they are to be read as ever, which also tells what is wrong with them. */
bool ur_direct_open(ur_read *read, const int64_t *rows, const ur_output *outputs, int32_t count);
void ur_direct_gather(const ur_read *read, const ur_output *outputs, int32_t count);
void ur_direct_close(ur_read *read);

/* Notes the parts of a batch that has been read, for the next ones. */
void ur_direct_learn(const ur_read *read, const ur_output *outputs, int32_t count);

#endif
