/* scan/numbers.c - tests of whole numbers worked out of columns, a stack of short pieces of rows in L1 cache.
 *
 * That no sum or product is too large is for the caller to know; where the columns are not as their bounds say, it wraps.
 */
#include <string.h>

#include "scan/numbers.h"
#include "base/layout.h"
#include "base/packed.h"
#include "base/wide.h"
#include "unirecord_internal.h"

enum { PIECE = 256 };

#define LOAD(S)                                                  \
  for (int64_t i = 0; i < n; i++) {                              \
    S value;                                                     \
    memcpy(&value, data + (size_t)i * sizeof value, sizeof value); \
    out[i] = (T)value;                                           \
  }                                                              \
  break

#define LOAD_ANY                       \
  switch (type) {                      \
    case UR_TYPE_INT8: LOAD(int8_t);   \
    case UR_TYPE_UINT8: LOAD(uint8_t); \
    case UR_TYPE_INT16: LOAD(int16_t); \
    case UR_TYPE_UINT16: LOAD(uint16_t); \
    case UR_TYPE_INT32: LOAD(int32_t); \
    case UR_TYPE_UINT32: LOAD(uint32_t); \
    case UR_TYPE_INT64: LOAD(int64_t); \
    default: LOAD(uint64_t);           \
  }

#define EACH(value) \
  for (int64_t i = 0; i < n; i++) value

/* One operation on the numbers `a`, and `b` above them on the stack; into `a`. */
#define JOIN_ANY                                       \
  switch (op) {                                        \
    case UR_NUMBER_ADD: EACH(a[i] = (T)((U)a[i] + (U)b[i])); break; \
    case UR_NUMBER_SUBTRACT: EACH(a[i] = (T)((U)a[i] - (U)b[i])); break; \
    default: EACH(a[i] = (T)((U)a[i] * (U)b[i])); break; \
  }

#define TEST_ANY                                                              \
  switch (op) {                                                               \
    case UR_NUMBER_EQUAL: EACH(out[i] = (uint8_t)((a[i] == b[i]) ^ flip)); break; \
    case UR_NUMBER_LESS: EACH(out[i] = (uint8_t)((a[i] < b[i]) ^ flip)); break; \
    default: EACH(out[i] = (uint8_t)((a[i] <= b[i]) ^ flip)); break;          \
  }

#define DEFINE_NUMBERS(bits)                                                                                            \
  WIDE static void load_##bits(const uint8_t *data, int32_t type, int64_t n, T *out) { LOAD_ANY }                       \
  WIDE static void join_##bits(int32_t op, int64_t n, T *restrict a, const T *restrict b) { JOIN_ANY }                  \
  WIDE static void test_##bits(int32_t op, int64_t n, const T *restrict a, const T *restrict b, uint8_t flip,           \
                               uint8_t *restrict out) {                                                                 \
    TEST_ANY                                                                                                            \
  }                                                                                                                     \
  WIDE static void within_##bits(int64_t n, const T *a, T low, T high, uint8_t flip, uint8_t *restrict out) {           \
    EACH(out[i] = (uint8_t)(((a[i] >= low) & (a[i] <= high)) ^ flip));                                                  \
  }                                                                                                                     \
  static void try_##bits(const ur_scan_step *s, int64_t row, int64_t n, uint8_t *out) {                                 \
    T stack[UR_NUMBER_DEPTH][PIECE];                                                                                    \
    uint8_t flip = s->negated != 0;                                                                                     \
    int top = -1;                                                                                                       \
    for (int32_t k = 0; k < s->number_count; k++) {                                                                     \
      const ur_scan_number *number = &s->numbers[k];                                                                    \
      switch (number->op) {                                                                                             \
        case UR_NUMBER_LOAD:                                                                                            \
          if (number->packed != NULL) /* what does not fit wraps, as it does where it is loaded */                      \
            ur_packed_range(number->packed, (uint64_t)row, n, sizeof(T), (uint8_t *)stack[++top]);                      \
          else                                                                                                          \
            load_##bits((const uint8_t *)number->data + (size_t)row * ur_number_width(number->type), number->type, n,   \
                        stack[++top]);                                                                                  \
          break;                                                                                                        \
        case UR_NUMBER_CONSTANT: top++; EACH(stack[top][i] = (T)number->value); break;                                  \
        case UR_NUMBER_MINUS: EACH(stack[top][i] = (T)(0 - (U)stack[top][i])); break;                                   \
        case UR_NUMBER_WITHIN:                                                                                          \
          within_##bits(n, stack[0], (T)(int64_t)s->low, (T)(int64_t)s->high, flip, out);                               \
          break;                                                                                                        \
        case UR_NUMBER_ADD: case UR_NUMBER_SUBTRACT: case UR_NUMBER_MULTIPLY:                                           \
          top--;                                                                                                        \
          join_##bits(number->op, n, stack[top], stack[top + 1]);                                                       \
          break;                                                                                                        \
        default: test_##bits(number->op, n, stack[0], stack[1], flip, out); break;                                      \
      }                                                                                                                 \
    }                                                                                                                   \
  }

#define T int32_t
#define U uint32_t
DEFINE_NUMBERS(32)
#undef T
#undef U
#define T int64_t
#define U uint64_t
DEFINE_NUMBERS(64)
#undef T
#undef U

size_t ur_number_width(int32_t type) {
  switch (type) {
    case UR_TYPE_INT8: case UR_TYPE_UINT8: return 1;
    case UR_TYPE_INT16: case UR_TYPE_UINT16: return 2;
    case UR_TYPE_INT32: case UR_TYPE_UINT32: return 4;
    case UR_TYPE_INT64: case UR_TYPE_UINT64: return 8;
    default: return 0;
  }
}

/* How many numbers an operation takes from the stack, and leaves there. */
static int is_sound(const ur_scan_number *number, int last, int *depth) {
  switch (number->op) {
    case UR_NUMBER_LOAD:
      (*depth)++;
      if (number->packed != NULL && (number->packed->bits == 0 || number->packed->bits > UR_MAX_PACKED_BITS)) return 0;
      return !last && *depth <= UR_NUMBER_DEPTH && ur_number_width(number->type) != 0;
    case UR_NUMBER_CONSTANT: (*depth)++; return !last && *depth <= UR_NUMBER_DEPTH;
    case UR_NUMBER_MINUS: return !last && *depth >= 1;
    case UR_NUMBER_ADD: case UR_NUMBER_SUBTRACT: case UR_NUMBER_MULTIPLY: return !last && --*depth >= 1;
    case UR_NUMBER_WITHIN: return last && *depth == 1;
    case UR_NUMBER_EQUAL: case UR_NUMBER_LESS: case UR_NUMBER_AT_MOST: return last && *depth == 2;
    default: return 0;
  }
}

int ur_numbers_are_sound(const ur_scan_step *s) {
  int depth = 0;
  if (s->type != UR_TYPE_INT32 && s->type != UR_TYPE_INT64) return 0;
  for (int32_t k = 0; k < s->number_count; k++) {
    if (!is_sound(&s->numbers[k], k + 1 == s->number_count, &depth)) return 0;
  }
  return s->number_count > 0;
}

void ur_try_numbers(const ur_scan_step *s, int64_t row, int64_t n, uint8_t *out) {
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t count = n - i < PIECE ? n - i : PIECE;
    if (s->type == UR_TYPE_INT32) {
      try_32(s, row + i, count, out + i);
    } else {
      try_64(s, row + i, count, out + i);
    }
  }
}
