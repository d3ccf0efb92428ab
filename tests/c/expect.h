/* expect.h - the whole test harness of tests/c: an expectation that fails says where and ends the program. */
#ifndef UR_TEST_EXPECT_H
#define UR_TEST_EXPECT_H

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition)                                                                  \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);             \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

/* Both sides as 64-bit integers, shown when they differ. */
#define EXPECT_EQUAL(left, right)                                                          \
  do {                                                                                     \
    unsigned long long left_ = (unsigned long long)(left), right_ = (unsigned long long)(right); \
    if (left_ != right_) {                                                                 \
      fprintf(stderr, "%s:%d: %s is %llu, %s is %llu\n", __FILE__, __LINE__, #left, left_, #right, right_); \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

#endif
