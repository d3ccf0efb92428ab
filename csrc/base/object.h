/* base/object.h - what msgpack says, whatever bytes say it: of values that ur_object_check() has found right. */
#ifndef UR_OBJECT_H
#define UR_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

/* A number that goes with what the value at *at says: the same however it is encoded, and in whatever order maps have their
 * keys. Of an array at the top the first `most` items alone. *at becomes the end of the value. At most 64 calls deep. */
uint64_t ur_object_meaning(const uint8_t **at, uint64_t most);

/* The same of the "schema" of a part's metadata, of which further elements of an entry say nothing; false: it is none. */
bool ur_schema_meaning(const uint8_t *schema, uint64_t *meaning);

/* The value of the first key of a map, if that is called `name`; else NULL. */
const uint8_t *ur_object_first(const uint8_t *map, const char *name);

#endif
