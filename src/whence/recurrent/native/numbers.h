/* Activations in one precision, written so that the compiler can vectorise loops over them. */

#include <stdint.h>

/* eᶻ = 2ⁿ eʳ with |r| ≤ ½ ln 2 and a Taylor series for eʳ. Loops over it are vectorised; loops over expf are not. */
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

/* tanh z = 2 σ(2z) − 1; near zero that loses digits, so the series z − z³/3 + … is used there. */
static inline REAL hyperbolic(REAL z) {
    REAL far = (REAL)2 * sigmoid((REAL)2 * z) - (REAL)1, square = z * z;
    REAL near = z * ((REAL)1 + square * ((REAL)(-1.0 / 3) + square * ((REAL)(2.0 / 15) - square * (REAL)(17.0 / 315))));
    return square < (REAL)NEAR ? near : far;
}

static inline REAL sign(REAL z) { return z >= 0 ? (REAL)1 : (REAL)-1; }
