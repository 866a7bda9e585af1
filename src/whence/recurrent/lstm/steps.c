/* One step of both directions of an LSTM layer, forward and back: everything but the matrix products, in one pass.
 *
 * Compiled twice by compiled.py, with REAL as float and as double. What it computes is written in cpu.py. */

/* One sample: each pointer is a row of its own, which the compiler has to be told. */
static void open_gates(long hidden, REAL *restrict i, REAL *restrict f, REAL *restrict o, const REAL *restrict a,
                       const REAL *restrict before, REAL *restrict cell, REAL *restrict out) {
    for (long j = 0; j < hidden; j++) {
        REAL written = sigmoid(i[j]), kept = sigmoid(f[j]), shown = sigmoid(o[j]), g = hyperbolic(a[j]);
        REAL next = kept * before[j] + written * g;
        i[j] = written, f[j] = kept, o[j] = g;
        cell[j] = next, out[j] = shown * hyperbolic(next);
    }
}

/* sums (D, ·, rows, 4H) hold i, f, o, a on entry and σ(i), σ(f), tanh(a), a afterwards. */
void NAME(forward)(long directions, long rows, long hidden, REAL *sums, long sums_stride, const REAL *c_before, REAL *c, REAL *h,
                   long state_stride) {
    for (long d = 0; d < directions; d++)
        for (long b = 0; b < rows; b++) {
            REAL *z = sums + d * sums_stride + b * 4 * hidden;
            const long at = d * state_stride + b * hidden;
            open_gates(hidden, z, z + hidden, z + 2 * hidden, z + 3 * hidden, c_before + at, c + at, h + at);
        }
}

typedef struct { REAL eps, half, edge, from_bias, gone; } Rule;

/* What one sample's step back multiplies by. */
static void factors(long hidden, Rule rule, const REAL *restrict i, const REAL *restrict f, const REAL *restrict g,
                    const REAL *restrict a, const REAL *restrict before, const REAL *restrict cell, const REAL *restrict bias,
                    REAL *restrict kept, REAL *restrict new, REAL *restrict each, REAL *restrict lost) {
    for (long j = 0; j < hidden; j++) {
        REAL s_c = cell[j] >= 0 ? (REAL)1 : (REAL)-1, s_a = a[j] >= 0 ? (REAL)1 : (REAL)-1;
        REAL whole = (REAL)1 / (cell[j] + rule.eps * s_c), candidate = (REAL)1 / (a[j] + rule.eps * s_a);
        REAL into = (i[j] * g[j] + rule.half * s_c) * whole;
        kept[j] = (f[j] * before[j] + rule.half * s_c) * whole;
        new[j] = into * candidate;
        each[j] = rule.edge * s_a + rule.from_bias * bias[j];
        lost[j] = rule.gone * (s_c * whole + s_a * candidate * into);
    }
}

/* One sample, one target: relevance r of the cell to that of c⁻ and to q; the sums of shares and of what is absorbed. */
static void step_back(long hidden, const REAL *restrict kept, const REAL *restrict new, const REAL *restrict each,
                      const REAL *restrict lost, const REAL *restrict r_h, const REAL *restrict r_out, REAL with_out,
                      REAL *restrict r_c, REAL *restrict q, REAL *restrict share, REAL *restrict absorbed) {
    REAL shared = 0, gone = 0;
    for (long j = 0; j < hidden; j++) {
        REAL r = r_c[j] + r_h[j] + with_out * r_out[j], unit = new[j] * r;
        q[j] = unit, r_c[j] = kept[j] * r;
        shared += unit * each[j], gone += lost[j] * r;
    }
    *share = shared, *absorbed += gone;
}

/* r_c (D, K, B, H) takes r_h and r_out in, and leaves with the relevance of c⁻; q and the share of every sample come out. */
void NAME(back)(long directions, long targets, long batch, long rows, long hidden, const REAL *gates, long gates_stride,
                const REAL *c_before, const REAL *c, long state_stride, const REAL *bias, const REAL *r_out, long out_stride,
                long out_target_stride, const REAL *r_h, REAL *r_c, REAL *q, long q_stride, REAL *shares, long shares_stride,
                REAL *lost, REAL *scratch, double epsilon, double returned, double delta, long fan_in) {
    const Rule rule = {(REAL)epsilon, (REAL)(0.5 * epsilon * returned), (REAL)(epsilon * returned / fan_in),
                       (REAL)(delta / fan_in), (REAL)((1 - returned) * epsilon)};
    REAL *kept = scratch, *new = scratch + hidden, *each = scratch + 2 * hidden, *gone = scratch + 3 * hidden;
    for (long d = 0; d < directions; d++)
        for (long b = 0; b < rows; b++) {
            const REAL *z = gates + d * gates_stride + b * 4 * hidden;
            const long state = d * state_stride + b * hidden;
            factors(hidden, rule, z, z + hidden, z + 2 * hidden, z + 3 * hidden, c_before + state, c + state, bias + d * hidden,
                    kept, new, each, gone);
            for (long k = 0; k < targets; k++) {
                const long at = (d * targets + k) * batch + b;
                const REAL *out = r_out ? r_out + d * out_stride + k * out_target_stride + b * hidden : r_h + at * hidden;
                step_back(hidden, kept, new, each, gone, r_h + at * hidden, out, r_out ? (REAL)1 : (REAL)0, r_c + at * hidden,
                          q + d * q_stride + (k * batch + b) * hidden, shares + d * shares_stride + k * batch + b, lost + at);
            }
        }
}
