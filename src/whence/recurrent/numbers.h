/* What the kernels share: numbers of one precision, their activations, and the step to h⁻. compiled.py puts it before each. */

#include <stdint.h>

/* eᶻ = 2ⁿ eʳ with |r| ≤ ½ ln 2 and a Taylor sum for eʳ: a loop over it becomes vector instructions, which one over expf does not. */
static inline REAL exponential(REAL z) {
    z = z > (REAL)LARGEST ? (REAL)LARGEST : z < (REAL)-LARGEST ? (REAL)-LARGEST : z;
    REAL n = ROUND(z * (REAL)1.4426950408889634);
    REAL r = (z - n * (REAL)0.693145751953125) - n * (REAL)1.42860682030941723212e-6, sum = 1;
    for (int k = TERMS; k > 0; k--) sum = 1 + r * sum / (REAL)k;
    WHOLE bits = ((WHOLE)n + BIAS) << DIGITS;
    REAL power;
    __builtin_memcpy(&power, &bits, sizeof power);
    return sum * power;
}

static inline REAL sigmoid(REAL z) { return (REAL)1 / ((REAL)1 + exponential(-z)); }

/* 2 σ(2z) − 1 loses its digits near zero, where z − z³/3 has them. */
static inline REAL hyperbolic(REAL z) {
    REAL far = (REAL)2 * sigmoid((REAL)2 * z) - (REAL)1, square = z * z;
    REAL near = z * ((REAL)1 + square * ((REAL)(-1.0 / 3) + square * ((REAL)(2.0 / 15) - square * (REAL)(17.0 / 315))));
    return square < (REAL)NEAR ? near : far;
}

static void onward(long hidden, REAL keep, REAL share, const REAL *restrict h, const REAL *restrict product, REAL *restrict r_h) {
    for (long j = 0; j < hidden; j++) r_h[j] = keep * r_h[j] + h[j] * product[j] + share;
}

/* r_h = h⁻ ⊙ (q W) + share, from the matrix product (D, K, rows, H); added to what r_h holds if it is to be kept. */
void NAME(hidden)(long directions, long targets, long batch, long rows, long hidden, const REAL *product, const REAL *h_before,
                  long state_stride, const REAL *shares, long shares_stride, REAL *r_h, long is_kept) {
    for (long d = 0; d < directions; d++)
        for (long k = 0; k < targets; k++)
            for (long b = 0; b < rows; b++)
                onward(hidden, (REAL)is_kept, shares[d * shares_stride + k * batch + b], h_before + d * state_stride + b * hidden,
                       product + ((d * targets + k) * rows + b) * hidden, r_h + ((d * targets + k) * batch + b) * hidden);
}

