/* read_part.c - reads one row of a part with the C core alone: each value's size and first bytes. */
// cc -std=c11 -O3 -pthread -Icsrc examples/read_part.c csrc/*/*.c -o read_part && ./read_part train.urec 0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "unirecord.h"

static int failed(const ur_error *error) {
  (void)fprintf(stderr, "%s: %s\n", ur_status_text(error->status), error->what);
  return 1;
}

int main(int argc, char **argv) {
  ur_part_ref ref = {.data_path = argc > 1 ? argv[1] : "train.urec", .rows = -1};
  ur_set_options options = {.io = UR_IO_AUTO, .verify = UR_VERIFY_FIRST};
  ur_set *set = NULL;
  ur_part *part = NULL;
  ur_part_info about;
  ur_error error = {0};
  if (ur_set_open(&ref, 1, &options, &set, &error) != UR_OK) return failed(&error);
  if (ur_set_part(set, 0, &part, &error) != UR_OK) return failed(&error);
  ur_part_describe(part, &about);
  int64_t row = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
  (void)printf("%" PRId64 " rows of %" PRId32 " columns\n", about.rows, about.columns);

  for (int32_t column = 0; column < about.columns; column++) {
    ur_column_info type;
    int64_t offsets[2];
    uint8_t valid = 1;
    (void)ur_part_column(part, column, &type);
    ur_output output = {.column = column, .offsets = type.fixed_bytes == 0 ? offsets : NULL, .valid = &valid};
    ur_status status = ur_set_read(set, &row, 1, &output, 1, &error); /* no room yet: says how much it takes */
    if (status == UR_TOO_SMALL) {
      output.data = malloc(output.used);
      output.capacity = output.data == NULL ? 0 : output.used;
      status = ur_set_read(set, &row, 1, &output, 1, &error);
    }
    if (status != UR_OK) return failed(&error);
    (void)printf("column %" PRId32 ": %" PRIu64 " bytes%s", column, output.used, valid ? "" : ", null");
    for (uint64_t i = 0; i < output.used && i < 8; i++) (void)printf("%s%02x", i == 0 ? ": " : " ", output.data[i]);
    (void)printf("\n");
    free(output.data);
  }
  ur_part_release(part);
  ur_set_release(set);
  return 0;
}
