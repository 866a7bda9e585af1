/* One step of both directions of a GRU layer, forward and back: everything but the matrix products, in one pass.
 *
 * Compiled twice by compiled.py, with REAL as float and as double. What it computes is written in cpu.py. */

/* One sample: each pointer is a row of its own, which the compiler has to be told. */
static void open_gates(long hidden, REAL *restrict r, REAL *restrict z, REAL *restrict a, const REAL *restrict h_r,
                       const REAL *restrict h_z, const REAL *restrict h_n, const REAL *restrict before, REAL *restrict m,
                       REAL *restrict out) {
    for (long j = 0; j < hidden; j++) {
        REAL reset = sigmoid(r[j] + h_r[j]), update = sigmoid(z[j] + h_z[j]), own = h_n[j], sum = a[j] + reset * own;
        r[j] = reset, z[j] = update, a[j] = sum, m[j] = own;
        out[j] = ((REAL)1 - update) * hyperbolic(sum) + update * before[j];
    }
}

/* from_x (D, ·, rows, 3H) holds U x + b for r, z, n on entry, and r, z and the candidate's sum a afterwards; m is W h⁻ + b for n. */
void NAME(forward)(long directions, long rows, long hidden, REAL *from_x, long x_stride, const REAL *from_h, REAL *m, long m_stride,
                   const REAL *h_before, REAL *h, long state_stride) {
    for (long d = 0; d < directions; d++)
        for (long b = 0; b < rows; b++) {
            REAL *x = from_x + d * x_stride + b * 3 * hidden;
            const REAL *own = from_h + (d * rows + b) * 3 * hidden;
            const long at = d * state_stride + b * hidden;
            open_gates(hidden, x, x + hidden, x + 2 * hidden, own, own + hidden, own + 2 * hidden, h_before + at,
                       m + d * m_stride + b * hidden, h + at);
        }
}

typedef struct { REAL eps, half, edge_a, edge_m, bias_a, bias_m, gone; } Rule;

/* What one sample's step back multiplies by. */
static void factors(long hidden, Rule rule, const REAL *restrict r, const REAL *restrict z, const REAL *restrict a,
                    const REAL *restrict m, const REAL *restrict before, const REAL *restrict after, const REAL *restrict b_in,
                    const REAL *restrict b_hn, REAL *restrict kept, REAL *restrict for_a, REAL *restrict for_m,
                    REAL *restrict each_a, REAL *restrict each_m, REAL *restrict lost) {
    for (long j = 0; j < hidden; j++) {
        REAL s_h = after[j] >= 0 ? (REAL)1 : (REAL)-1, s_a = a[j] >= 0 ? (REAL)1 : (REAL)-1, s_m = m[j] >= 0 ? (REAL)1 : (REAL)-1;
        REAL whole = (REAL)1 / (after[j] + rule.eps * s_h), of_a = (REAL)1 / (a[j] + rule.eps * s_a);
        REAL of_m = (REAL)1 / (m[j] + rule.eps * s_m), edge = rule.edge_a * s_a + rule.bias_a * b_in[j];
        REAL unit_a = (((REAL)1 - z[j]) * hyperbolic(a[j]) + rule.half * s_h) * whole * of_a;
        REAL unit_m = unit_a * (r[j] * m[j] + edge) * of_m;
        kept[j] = (z[j] * before[j] + rule.half * s_h) * whole;
        for_a[j] = unit_a, for_m[j] = unit_m, each_a[j] = edge, each_m[j] = rule.edge_m * s_m + rule.bias_m * b_hn[j];
        lost[j] = rule.gone * (s_h * whole + s_a * unit_a + s_m * unit_m);
    }
}

/* One sample, one target: the relevance r of h to what stays with h⁻, and to q of both sums; the sums of shares and of what is absorbed. */
static void step_back(long hidden, const REAL *restrict kept, const REAL *restrict for_a, const REAL *restrict for_m,
                      const REAL *restrict each_a, const REAL *restrict each_m, const REAL *restrict lost, const REAL *restrict r_out,
                      REAL with_out, REAL *restrict r_h, REAL *restrict q_a, REAL *restrict q_m, REAL *restrict share_a,
                      REAL *restrict share_m, REAL *restrict absorbed) {
    REAL shared_a = 0, shared_m = 0, gone = 0;
    for (long j = 0; j < hidden; j++) {
        REAL r = r_h[j] + with_out * r_out[j], unit_a = for_a[j] * r, unit_m = for_m[j] * r;
        q_a[j] = unit_a, q_m[j] = unit_m, r_h[j] = kept[j] * r;
        shared_a += unit_a * each_a[j], shared_m += unit_m * each_m[j], gone += lost[j] * r;
    }
    *share_a = shared_a, *share_m = shared_m, *absorbed += gone;
}

/* r_h (D, K, B, H) takes r_out in, and leaves with what stays with h⁻; the units q of both sums and their shares come out. */
void NAME(back)(long directions, long targets, long batch, long rows, long hidden, const REAL *gates, long gates_stride, const REAL *m,
                long m_stride, const REAL *h_before, const REAL *h, long state_stride, const REAL *b_in, const REAL *b_hn,
                const REAL *r_out, long out_stride, long out_target_stride, REAL *r_h, REAL *q_a, REAL *q_m, long q_stride,
                REAL *share_a, REAL *share_m, long share_stride, REAL *lost, REAL *scratch, double epsilon, double returned,
                double delta, long inputs) {
    const Rule rule = {(REAL)epsilon, (REAL)(0.5 * epsilon * returned), (REAL)(epsilon * returned / (inputs + 1)),
                       (REAL)(epsilon * returned / hidden), (REAL)(delta / (inputs + 1)), (REAL)(delta / hidden),
                       (REAL)((1 - returned) * epsilon)};
    REAL *kept = scratch, *for_a = scratch + hidden, *for_m = scratch + 2 * hidden;
    REAL *each_a = scratch + 3 * hidden, *each_m = scratch + 4 * hidden, *gone = scratch + 5 * hidden;
    for (long d = 0; d < directions; d++)
        for (long b = 0; b < rows; b++) {
            const REAL *g = gates + d * gates_stride + b * 3 * hidden;
            const long state = d * state_stride + b * hidden;
            factors(hidden, rule, g, g + hidden, g + 2 * hidden, m + d * m_stride + b * hidden, h_before + state, h + state,
                    b_in + d * hidden, b_hn + d * hidden, kept, for_a, for_m, each_a, each_m, gone);
            for (long k = 0; k < targets; k++) {
                const long at = (d * targets + k) * batch + b, unit = d * q_stride + (k * batch + b) * hidden;
                const REAL *out = r_out ? r_out + d * out_stride + k * out_target_stride + b * hidden : kept;
                step_back(hidden, kept, for_a, for_m, each_a, each_m, gone, out, r_out ? (REAL)1 : (REAL)0, r_h + at * hidden,
                          q_a + unit, q_m + unit, share_a + d * share_stride + k * batch + b,
                          share_m + d * share_stride + k * batch + b, lost + at);
            }
        }
}
