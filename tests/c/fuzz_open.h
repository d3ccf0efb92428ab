/* fuzz_open.h - hostile parts: make files agree, put right digests over them, and open and read them. */
#ifndef UR_FUZZ_OPEN_H
#define UR_FUZZ_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Little-endian store of 1 to 8 bytes. */
void fuzz_store(uint8_t *at, uint64_t value, int bytes);

/* Copies id, sizes, counts and column table where two places must hold the same. */
void fuzz_agree(uint8_t *data, uint64_t data_bytes, uint8_t *index, uint64_t index_bytes);

/* Puts the digests that belong there over heads, index blocks and end page. */
void fuzz_seal(uint8_t *data, uint64_t data_bytes, uint8_t *index, uint64_t index_bytes);

/* Opens the part and reads all that can be read; whether it could be opened. Ends the program when a rule is broken. */
bool fuzz_try(const uint8_t *data, uint64_t data_bytes, const uint8_t *index, uint64_t index_bytes, int32_t io, int32_t verify);

#endif
