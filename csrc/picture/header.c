/* picture/header.c - what the segments of a JPEG file say before its pixels: size, orientation, and whether it is whole. */
#include <stdbool.h>
#include <string.h>

#include "base/fail.h"
#include "unirecord_internal.h"

enum { MOST_SCANS = 100, BITS_OF_A_BLOCK = 1, BLOCK_PIXELS = 64 };

/* A piece of the file that is read from its front. */
typedef struct {
  const uint8_t *at, *end;
} piece;

static uint64_t left(const piece *p) { return (uint64_t)(p->end - p->at); }

static uint32_t big16(const uint8_t *at) { return (uint32_t)at[0] << 8 | at[1]; }

static uint32_t number(const uint8_t *at, int bytes, bool little) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint32_t)at[i] << 8 * (little ? i : bytes - 1 - i);
  return value;
}

/* The orientation in a TIFF block (EXIF 2.32, 4.6), 0 if there is none. */
static int32_t tiff_orientation(const uint8_t *tiff, uint64_t bytes) {
  if (bytes < 8) return 0;
  bool little = memcmp(tiff, "II*\0", 4) == 0;
  if (!little && memcmp(tiff, "MM\0*", 4) != 0) return 0;
  uint64_t at = number(tiff + 4, 4, little);
  if (at > bytes || bytes - at < 2) return 0;
  uint32_t entries = number(tiff + at, 2, little);
  at += 2;
  for (uint32_t i = 0; i < entries && bytes - at >= 12; i++, at += 12) {
    if (number(tiff + at, 2, little) != 274) continue;
    uint32_t value = number(tiff + at + 8, 2, little);
    bool sound = number(tiff + at + 2, 2, little) == 3 && number(tiff + at + 4, 4, little) == 1;
    return sound && value >= 1 && value <= 8 ? (int32_t)value : 0;
  }
  return 0;
}

/* The next marker and what belongs to it. False where there is none, or it is cut off. */
static bool next_segment(piece *p, uint8_t *marker, piece *body) {
  for (;;) {
    /* Decoders pass over whatever stands before a marker. */
    const uint8_t *found = left(p) == 0 ? NULL : memchr(p->at, 0xFF, left(p));
    if (found == NULL) return false;
    while (found < p->end && *found == 0xFF) found++;
    if (found == p->end) return false;
    p->at = found + 1;
    if (*found == 0 || *found == 0x01 || (*found >= 0xD0 && *found <= 0xD8)) continue; /* without a body */
    *marker = *found;
    break;
  }
  *body = (piece){p->at, p->at};
  if (*marker == 0xD9) return true;
  if (left(p) < 2 || big16(p->at) < 2 || big16(p->at) > left(p)) return false;
  *body = (piece){p->at + 2, p->at + big16(p->at)};
  p->at = body->end;
  return true;
}

static bool is_frame(uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

static ur_status read_frame(const piece *body, uint8_t marker, ur_jpeg_header *header, ur_error *error) {
  if (marker > 0xC2)
    return ur_fail(error, UR_CORRUPT, "a JPEG of a kind that is not decoded (frame %u): only Huffman-coded ones are", marker - 0xC0u);
  if (left(body) < 6) return ur_fail(error, UR_CORRUPT, "the JPEG's frame header is cut off");
  if (body->at[0] != 8) return ur_fail(error, UR_CORRUPT, "a JPEG of %u bits a value: only those of 8 are decoded", body->at[0]);
  header->height = (int32_t)big16(body->at + 1);
  header->width = (int32_t)big16(body->at + 3);
  header->components = body->at[5];
  if (header->width == 0 || header->height == 0)
    return ur_fail(error, UR_CORRUPT, "the JPEG's header says %d x %d pixels", header->width, header->height);
  if (header->components != 1 && header->components != 3 && header->components != 4)
    return ur_fail(error, UR_CORRUPT, "a JPEG of %d components: only those of 1, 3 and 4 are decoded", header->components);
  return UR_OK;
}

/* What stands behind the first scan's header: an end of image, and other scans. */
static ur_status look_at_pixels(const piece *p, ur_jpeg_header *header, ur_error *error) {
  int scans = 1;
  bool complete = left(p) >= 2 && big16(p->end - 2) == 0xFFD9;
  for (piece rest = *p; left(&rest) >= 2; rest.at++) {
    rest.at = memchr(rest.at, 0xFF, left(&rest) - 1);
    if (rest.at == NULL) break;
    if (rest.at[1] == 0xD9) complete = true;
    if (rest.at[1] == 0xDA && ++scans > MOST_SCANS)
      return ur_fail(error, UR_CORRUPT, "the JPEG has more than %d scans", MOST_SCANS);
  }
  header->complete = complete;
  uint64_t pixels = (uint64_t)header->width * (uint64_t)header->height; /* exact: two of 16 bits */
  if (complete && left(p) * 8 / BITS_OF_A_BLOCK * BLOCK_PIXELS < pixels)
    return ur_fail(error, UR_CORRUPT, "the JPEG's header says %d x %d pixels, more than its %llu bytes can hold", header->width,
                   header->height, (unsigned long long)left(p));
  return UR_OK;
}

ur_status ur_jpeg_read_header(const uint8_t *data, uint64_t bytes, ur_jpeg_header *header, ur_error *error) {
  static const char exif[6] = "Exif\0";
  if (bytes < 4 || data[0] != 0xFF || data[1] != 0xD8) return ur_fail(error, UR_CORRUPT, "these bytes are no JPEG");
  ur_jpeg_header found = {.orientation = 0};
  piece p = {data + 2, data + bytes}, body; /* exact: the end of what the caller has */
  uint8_t marker;
  while (next_segment(&p, &marker, &body)) {
    if (marker == 0xD9) break;
    if (marker == 0xE1 && found.orientation == 0 && left(&body) >= 6 && memcmp(body.at, exif, 6) == 0)
      found.orientation = tiff_orientation(body.at + 6, left(&body) - 6);
    if (is_frame(marker)) {
      ur_status status = found.width != 0 ? ur_fail(error, UR_CORRUPT, "the JPEG has two frame headers")
                                          : read_frame(&body, marker, &found, error);
      if (status != UR_OK) return status;
    }
    if (marker != 0xDA) continue;
    if (found.width == 0) break;
    ur_status status = look_at_pixels(&p, &found, error);
    if (status != UR_OK) return status;
    if (found.orientation == 0) found.orientation = 1;
    *header = found;
    return UR_OK;
  }
  return ur_fail(error, UR_CORRUPT, found.width == 0 ? "the JPEG ends before its frame header" : "the JPEG ends before its pixels");
}
