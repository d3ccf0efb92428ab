/* base/object.h - what msgpack says, whatever bytes say it: of values that ur_object_check() has found right. */
#ifndef UR_OBJECT_H
#define UR_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

/* Whether all strings of an object that has been checked are UTF-8. */
bool ur_object_is_text(const uint8_t *bytes, uint64_t size);

/* The name of a column in the "schema" of a part's metadata, of whose first entry *at is the place, and then of the next;
 * false: that is none. ur_schema_entries() gives the place, and their number. */
bool ur_schema_entries(const uint8_t *schema, const uint8_t **at, uint64_t *count);
bool ur_schema_next_name(const uint8_t **at, const uint8_t **name, uint64_t *bytes);

/* The value of the first key of a map, if that is called `name`; else NULL. */
const uint8_t *ur_object_first(const uint8_t *map, const char *name);

#endif
