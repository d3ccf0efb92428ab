/* foreign/tfrecord.h - the checksum of TFRecord, CRC-32C, without the processor's instruction, for tests that compare both. Internal. */
#ifndef UR_TFRECORD_H
#define UR_TFRECORD_H

#include <stddef.h>
#include <stdint.h>

/* What ur_crc32c answers. */
uint32_t ur_crc32c_by_tables(const void *data, size_t bytes);

#endif
