/* picture/real.h - the few functions of real numbers that crops and filters need, the same to the last bit on every machine.
 *
 * libm's differ by a bit from one system to the next, which once in a while would be another crop; and the core needs no libm.
 */
#ifndef UR_PICTURE_REAL_H
#define UR_PICTURE_REAL_H

#include <stdint.h>

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF /* GCC does not contract under -std=c11 */
#endif

/* To the nearest whole number, halves to the even one; |x| < 2^51. */
static inline double ur_real_round(double x) {
  double shifted = x + 0x1.8p52;
  return shifted - 0x1.8p52;
}

/* The greatest whole number that is not above x; |x| < 2^31. */
static inline int32_t ur_real_floor(double x) {
  int32_t whole = (int32_t)x;
  return whole > x ? whole - 1 : whole;
}

static inline double ur_real_least(double a, double b) { return a < b ? a : b; }
static inline double ur_real_most(double a, double b) { return a > b ? a : b; }

/* Newton's method from above, until it falls no more; 0 <= x < 2^60. */
static inline double ur_real_sqrt(double x) {
  double root = x > 1 ? x : 1;
  for (double next; (next = (root + x / root) / 2) < root;) root = next;
  return root;
}

/* e^x, |x| < 100: 2^k times the series of the rest, |rest| <= ln(2) / 2. */
static inline double ur_real_exp(double x) {
  double k = ur_real_round(x * 0x1.71547652b82fep0);
  double rest = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33; /* ln 2 in two pieces */
  double sum = 1;
  for (int i = 16; i >= 1; i--) sum = 1 + sum * rest / i;
  for (; k > 0; k--) sum *= 2;
  for (; k < 0; k++) sum /= 2;
  return sum;
}

/* The natural logarithm, x > 0: powers of two, and 2 artanh((m - 1) / (m + 1)) of what is left. */
static inline double ur_real_log(double x) {
  double k = 0;
  for (; x > 0x1.6a09e667f3bcdp0; x /= 2) k++;
  for (; x < 0x1.6a09e667f3bcdp-1; x *= 2) k--;
  double s = (x - 1) / (x + 1), sum = 0;
  for (int i = 27; i >= 1; i -= 2) sum = sum * s * s + 1.0 / i;
  return k * 0x1.62e42fefa39efp-1 + 2 * s * sum;
}

#endif
