/* test_parse.c - file heads, directory entries and page headers from bytes alone: what is refused, and what is read. */
#define _GNU_SOURCE
#include <string.h>

#include "expect.h"
#include "part_fixture.h"
#include "unirecord_internal.h"

static void good_heads_are_read(void) {
  fixture *part = make_part(10, 1, 4);
  ur_data_header data;
  ur_index_header index;
  EXPECT_EQUAL(ur_parse_data_header(part->data, 128, part->data_bytes, &data, NULL), UR_OK);
  EXPECT_EQUAL(ur_check_data_head(part->data, &data, NULL), UR_OK);
  EXPECT_EQUAL(data.unit_rows, 4);
  EXPECT_EQUAL(data.row_bytes, 24);
  EXPECT_EQUAL(ur_parse_index_header(part->index, 192, part->index_bytes, &index, NULL), UR_OK);
  EXPECT_EQUAL(ur_check_index_head(part->index, &index, NULL), UR_OK);
  EXPECT_EQUAL(index.rows, 10);
  EXPECT_EQUAL(index.data_bytes, part->data_bytes);
  free(part);
}

static void short_and_foreign_files_are_no_files_of_ours(void) {
  fixture *part = make_part(10, 0, 0);
  ur_data_header data;
  ur_index_header index;
  for (uint64_t bytes = 0; bytes < 192; bytes++) {
    if (bytes < 128) EXPECT_EQUAL(ur_parse_data_header(part->data, bytes, bytes, &data, NULL), UR_FORMAT);
    EXPECT_EQUAL(ur_parse_index_header(part->index, bytes, bytes, &index, NULL), UR_FORMAT);
  }
  EXPECT_EQUAL(ur_parse_data_header(part->index, 128, part->index_bytes, &data, NULL), UR_FORMAT);
  EXPECT_EQUAL(ur_parse_index_header(part->data, 192, part->data_bytes, &index, NULL), UR_FORMAT);
  free(part);
}

/* A head that claims more than the file has is refused before anything is read or allocated. */
static void claims_beyond_the_file_are_refused(void) {
  static const struct {
    int at, bytes;
    uint64_t value;
  } claims[] = {{UR_AT_DATA_COLUMNS, 4, 65535},   {UR_AT_DATA_COLUMNS, 4, 0},      {UR_AT_DATA_COLUMNS, 4, 65534},
                {UR_AT_DATA_METADATA, 4, 1 << 23}, {UR_AT_HEADER_BYTES, 4, 1 << 24}, {UR_AT_BLOB_ALIGN, 4, 3},
                {UR_AT_BLOB_ALIGN, 4, 128},        {UR_AT_DATA_RESERVED, 1, 1}};
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    fixture *part = make_part(10, 0, 0);
    ur_data_header data;
    ur_error error = {0};
    put(part->data + claims[i].at, claims[i].value, claims[i].bytes);
    seal_data(part);
    EXPECT_EQUAL(ur_parse_data_header(part->data, 128, part->data_bytes, &data, &error), UR_CORRUPT);
    EXPECT_EQUAL(error.file, UR_FILE_DATA);
    free(part);
  }
}

/* It comes before the digest of the header, which could not be checked. */
static void digests_of_an_unknown_algorithm_are_refused(void) {
  for (uint32_t number = 1; number != 0; number <<= 1) {
    fixture *part = make_part(10, 0, 0);
    ur_data_header data;
    ur_index_header index;
    ur_error error = {0};
    put(part->data + UR_AT_DATA_DIGESTS, number, 4);
    put(part->index + UR_AT_INDEX_DIGESTS, number, 4);
    EXPECT_EQUAL(ur_parse_data_header(part->data, 128, part->data_bytes, &data, &error), UR_FORMAT);
    EXPECT_EQUAL(error.reason, UR_REASON_NEWER);
    EXPECT_EQUAL(error.offset, UR_AT_DATA_DIGESTS);
    EXPECT_EQUAL(ur_parse_index_header(part->index, 192, part->index_bytes, &index, &error), UR_FORMAT);
    EXPECT_EQUAL(error.reason, UR_REASON_NEWER);
    EXPECT_EQUAL(error.offset, UR_AT_INDEX_DIGESTS);
    free(part);
  }
}

static void impossible_columns_are_refused(void) {
  static const uint8_t entries[][32] = {
      {0},                                        /* no type */
      {6, 0, 0, 0, 0, 0, 0, 0, 8},                /* int32 of 8 bytes */
      {6, 1, 0, 0, 0, 0, 0, 0, 4},                /* a scalar with an element type */
      {6, 0, 2, 0, 0, 0, 0, 0, 4},                /* an unknown flag */
      {6, 0, 0, 0, 1, 0, 0, 0, 4},                /* a scalar with a codec */
      {6, 0, 0, 0, 1, 0, 0, 0, 0, [16] = 4},      /* likewise */
      {6, 0, 0, 0, 0, 1, 0, 0, 4},                /* reserved bytes */
      {6, 0, 0, 0, 0, 0, 0, 0, 4, [16] = 4},      /* the bytes of a value that is not compressed, twice */
      {30, 0, 0, 0, 1, 1},                        /* reserved bytes of a compressed column */
      {30, 0, 0, 0, 1, [8] = 1},                  /* compressed cells of fixed width */
      {30, 0, 0, 0, 1, [24] = 1},                 /* reserved bytes of a compressed column */
      {30, 0, 0, 0, 2},                           /* shuffled bytes */
      {32, 6, 0, 1, 1, [8] = 4, [16] = 4},        /* both widths */
      {32, 6, 0, 1, 2, [16] = 5},                 /* no whole number of elements */
      {13, 0, 0, 0, 0, 0, 0, 0, 2},               /* bfloat16 is for arrays */
      {20, 0, 0, 0, 0, 0, 0, 0, 4},               /* a string of fixed width */
      {30, 0, 2, 0},                              /* an unknown flag of a blob */
      {32, 6, 0, 0, 0, 0, 0, 0, 4},               /* an array without dimensions */
      {32, 6, 0, 33, 0, 0, 0, 0, 4},              /* and with too many */
      {32, 6, 0, 1, 0, 0, 0, 0, 5},               /* no whole number of elements */
      {32, 20, 0, 1},                             /* an array of strings */
      {32, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80},
      {34},                                       /* no type, and of no reserved range */
      {63, [8] = 8},                              /* likewise */
      {192},                                      /* likewise */
      {255, [8] = 8},                             /* likewise */
      {64},                                       /* a scalar of a later version that does not state its width */
      {64, [8] = 3},                              /* and one of a width that blocks would cut */
      {127, [8] = 128},                           /* likewise */
      {127, [8] = 1, [9] = 1},                    /* likewise */
      {64, 6, [8] = 8},                           /* a scalar with an element type */
      {64, 0, 0, 1, [8] = 8},                     /* a scalar with dimensions */
      {64, 0, 0, 0, 1, [16] = 8},                 /* a scalar with a codec */
      {64, 0, 2, 0, 0, [8] = 8},                  /* an unknown flag */
      {128, [8] = 8},                             /* a blob of a later version of fixed width */
      {128, 0, 0, 0, 1, [16] = 8},                /* likewise, compressed */
      {128, 6},                                   /* a blob with an element type */
      {191, 0, 0, 1},                             /* a blob with dimensions */
      {191, 0, 0, 0, 2},                          /* shuffled, without elements */
  };
  ur_column_info column;
  for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
    EXPECT_EQUAL(ur_parse_column(entries[i], &column, NULL), UR_CORRUPT);
  uint8_t good[32] = {6, 0, 1, 0, 0, 0, 0, 0, 4};
  EXPECT_EQUAL(ur_parse_column(good, &column, NULL), UR_OK);
  EXPECT_EQUAL(column.nullable, 1);
  uint8_t unknown[32] = {32, 6, 0, 1, 255, [16] = 8}; /* a codec of a later version */
  EXPECT_EQUAL(ur_parse_column(unknown, &column, NULL), UR_OK);
  EXPECT_EQUAL(column.codec, 255);
  EXPECT_EQUAL(column.fixed_bytes, 8);
  EXPECT_EQUAL(ur_stored_width(&column), 0);
  good[31] = 1;
  EXPECT_EQUAL(ur_parse_column(good, &column, NULL), UR_CORRUPT);
  static const uint8_t blobs[][32] = {{30, 0, 1, 0}, {31, 0, 1, 0}, {33, 0, 1, 0}, {32, 6, 1, 1}, {32, 6, 1, 1, 0, 0, 0, 0, 8}};
  for (size_t i = 0; i < sizeof blobs / sizeof *blobs; i++) {
    EXPECT_EQUAL(ur_parse_column(blobs[i], &column, NULL), UR_OK);
    EXPECT_EQUAL(column.nullable, 1);
    EXPECT_EQUAL(column.is_blob, 1);
  }
}

/* Types of later versions: their values cannot be read, and where these lie is known. */
static void columns_of_later_types_are_taken(void) {
  static const struct {
    uint8_t entry[32];
    int64_t width;
    int32_t is_blob;
  } later[] = {{{64, [8] = 1}, 1, 0},         {{70, 0, 1, 0, 0, [8] = 16}, 16, 0}, {{127, [8] = 64}, 64, 0},
               {{128}, 0, 1},                 {{191, 0, 1}, 0, 1},                 {{130, 0, 0, 0, 1}, 0, 1},
               {{130, 0, 0, 0, 200}, 0, 1}};
  for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
    ur_column_info column;
    ur_error error = {0};
    EXPECT_EQUAL(ur_parse_column(later[i].entry, &column, NULL), UR_OK);
    EXPECT_EQUAL(column.fixed_bytes, later[i].width);
    EXPECT_EQUAL(column.is_blob, later[i].is_blob);
    EXPECT(!ur_type_is_known(&column));
    EXPECT_EQUAL(ur_column_check(column.type, column.codec, &error), UR_COLUMN);
    EXPECT(strncmp(error.what, "the column has type ", 20) == 0);
  }
  EXPECT_EQUAL(ur_column_check(6, UR_CODEC_PLAIN, NULL), UR_OK);
}

static void sections_outside_the_body_are_refused(void) {
  fixture *part = make_part(10, 0, 0);
  ur_index_header index;
  ur_section_entry section;
  EXPECT_EQUAL(ur_parse_index_header(part->index, 192, part->index_bytes, &index, NULL), UR_OK);
  static const struct {
    int at, bytes;
    uint64_t value;
  } changes[] = {{0, 2, 0},  {0, 2, UR_SECTION_KINDS}, {0, 2, 0x7fff},          {4, 4, 0},  {8, 8, 64}, {8, 8, 1}, {8, 8, UINT64_MAX - 63},
                 {16, 8, 1}, {24, 8, UINT64_MAX}, {40, 8, 1}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    uint8_t entry[48];
    memcpy(entry, part->index + 192 + 4 * 32, 48);
    EXPECT_EQUAL(ur_parse_section(entry, &index, &section, NULL), UR_OK);
    put(entry + changes[i].at, changes[i].value, changes[i].bytes);
    EXPECT_EQUAL(ur_parse_section(entry, &index, &section, NULL), UR_CORRUPT);
  }
  free(part);
}

static void a_page_header_holds_only_at_its_place(void) {
  fixture *part = make_part(10, 0, 0);
  uint64_t end = part->data_bytes - 64;
  ur_page_header page;
  EXPECT_EQUAL(ur_parse_page(part->data + end, 64, fixture_id, end, &page, NULL), UR_OK);
  EXPECT_EQUAL(page.kind, UR_PAGE_END);
  EXPECT_EQUAL(page.rows, 10);
  EXPECT_EQUAL(ur_parse_page(part->data + end, 63, fixture_id, end, &page, NULL), UR_CORRUPT);
  EXPECT_EQUAL(ur_parse_page(part->data + end, 64, fixture_id, end - 64, &page, NULL), UR_CORRUPT);
  EXPECT_EQUAL(ur_parse_page(part->data, 64, fixture_id, 0, &page, NULL), UR_CORRUPT);
  free(part);
}

static void a_gap_is_that_of_its_place_and_payload(void) {
  static const struct {
    int kind;
    uint64_t at, payload, gap;
    ur_status status;
  } cases[] = {
      {UR_PAGE_BLOB, 640, 65535, 0, UR_OK},        {UR_PAGE_BLOB, 640, 65535, 64, UR_CORRUPT},
      {UR_PAGE_BLOB, 640, 65536, 3392, UR_OK},     {UR_PAGE_BLOB, 640, 65536, 0, UR_CORRUPT},
      {UR_PAGE_BLOB, 4032, 1 << 20, 0, UR_OK},     {UR_PAGE_BLOB, 640, 65536, 7488, UR_CORRUPT},
      {UR_PAGE_SCALAR, 640, 65536, 0, UR_OK},      {UR_PAGE_SCALAR, 640, 65536, 3392, UR_CORRUPT},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t raw[64] = UR_PAGE_MAGIC;
    ur_page_header page;
    put(raw + UR_AT_PAGE_KIND, (uint64_t)cases[i].kind, 2);
    put(raw + UR_AT_PAGE_ROWS, 1, 8);
    put(raw + UR_AT_PAGE_PAYLOAD, cases[i].payload, 8);
    put(raw + UR_AT_PAGE_GAP, cases[i].gap, 8);
    uint64_t digest = ur_xxh3_64(raw, UR_AT_PAGE_HEADER_DIGEST, ur_seed(fixture_id, UR_DOMAIN_PAGE_HEADER, cases[i].at));
    put(raw + UR_AT_PAGE_HEADER_DIGEST, digest, 8);
    EXPECT_EQUAL(ur_parse_page(raw, 64, fixture_id, cases[i].at, &page, NULL), cases[i].status);
  }
}

static void a_compressed_page_says_its_codec_and_how_much_it_holds(void) {
  static const struct {
    int kind;
    uint64_t codec, field;
    ur_status status;
  } headers[] = {{UR_PAGE_SCALAR, 0, 0, UR_OK},      {UR_PAGE_SCALAR, 0, 64, UR_CORRUPT},
                 {UR_PAGE_SCALAR, 1, 0, UR_CORRUPT}, {UR_PAGE_SCALAR, 1, 1, UR_OK},
                 {UR_PAGE_SCALAR, 1, UR_MAX_RAW - 1, UR_OK}, {UR_PAGE_SCALAR, 1, UR_MAX_RAW, UR_CORRUPT},
                 {UR_PAGE_SCALAR, 1, UINT64_MAX, UR_CORRUPT}, {UR_PAGE_SCALAR, 65535, 1000, UR_OK},
                 {UR_PAGE_BLOB, 0, 0, UR_OK},        {UR_PAGE_BLOB, 0, 64, UR_CORRUPT},
                 {UR_PAGE_BLOB, 1, 64, UR_CORRUPT},
                 {UR_PAGE_DICTIONARY, 1, 64, UR_CORRUPT}, {UR_PAGE_END, 1, 64, UR_CORRUPT},
                 {(int)UR_ANCILLARY, 1, 64, UR_CORRUPT}};
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    uint8_t page[64] = "URPG";
    ur_page_header found;
    put(page + UR_AT_PAGE_KIND, (uint64_t)headers[i].kind, 2);
    put(page + UR_AT_PAGE_CODEC, headers[i].codec, 2);
    put(page + UR_AT_PAGE_GAP, headers[i].field, 8);
    put(page + UR_AT_PAGE_HEADER_DIGEST, ur_xxh3_64(page, 56, ur_seed(fixture_id, UR_DOMAIN_PAGE_HEADER, 640)), 8);
    EXPECT_EQUAL(ur_parse_page(page, 64, fixture_id, 640, &found, NULL), headers[i].status);
    if (headers[i].status != UR_OK) continue;
    EXPECT_EQUAL(found.codec, headers[i].codec);
    EXPECT_EQUAL(headers[i].codec != 0 ? found.raw_bytes : found.gap, headers[i].field);
    EXPECT_EQUAL(headers[i].codec != 0 ? found.gap : found.raw_bytes, 0);
  }
}

static void an_end_page_ends_its_file(void) {
  static const struct {
    int at, bytes;
    uint64_t value;
    ur_status status;
  } changes[] = {{UR_AT_END_CONTENT_DIGEST, 8, 77, UR_OK},     {UR_AT_END_CONTENT_DIGEST + 8, 8, 77, UR_OK},
                 {UR_AT_END_PAGES_DIGEST, 8, 77, UR_OK},       {UR_AT_PAGE_KIND, 2, UR_PAGE_SCALAR, UR_CORRUPT},
                 {UR_AT_PAGE_KIND, 2, UR_PAGE_BLOB, UR_CORRUPT}, {UR_AT_PAGE_PAYLOAD, 8, 1, UR_CORRUPT},
                 {UR_AT_PAGE_CODEC, 2, 1, UR_CORRUPT}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    fixture *part = make_part(10, 0, 0);
    uint64_t at = part->data_bytes - 64;
    uint8_t *end = part->data + at;
    ur_data_header data;
    ur_index_header index;
    ur_end_page page;
    EXPECT_EQUAL(ur_parse_data_header(part->data, 128, part->data_bytes, &data, NULL), UR_OK);
    EXPECT_EQUAL(ur_parse_index_header(part->index, 192, part->index_bytes, &index, NULL), UR_OK);
    EXPECT_EQUAL(ur_parse_end_page(end, &data, part->data_bytes, &page, NULL), UR_OK);
    static const uint8_t zeros[UR_WIDE_BYTES];
    EXPECT(memcmp(page.content_digest, index.content_digest, UR_WIDE_BYTES) == 0);
    EXPECT(memcmp(page.content_digest, zeros, UR_WIDE_BYTES) != 0);
    EXPECT_EQUAL(ur_parse_end_page(end, &data, part->data_bytes + 64, &page, NULL), UR_CORRUPT);
    put(end + changes[i].at, changes[i].value, changes[i].bytes);
    EXPECT_EQUAL(ur_parse_end_page(end, &data, part->data_bytes, &page, NULL), UR_CORRUPT);
    put(end + UR_AT_PAGE_HEADER_DIGEST, ur_xxh3_64(end, 56, ur_seed(fixture_id, UR_DOMAIN_PAGE_HEADER, at)), 8);
    EXPECT_EQUAL(ur_parse_end_page(end, &data, part->data_bytes, &page, NULL), changes[i].status);
    free(part);
  }
}

int main(void) {
  good_heads_are_read();
  short_and_foreign_files_are_no_files_of_ours();
  claims_beyond_the_file_are_refused();
  impossible_columns_are_refused();
  columns_of_later_types_are_taken();
  digests_of_an_unknown_algorithm_are_refused();
  sections_outside_the_body_are_refused();
  a_page_header_holds_only_at_its_place();
  a_gap_is_that_of_its_place_and_payload();
  a_compressed_page_says_its_codec_and_how_much_it_holds();
  an_end_page_ends_its_file();
  return 0;
}
