/* One direction of a layer over some of its steps and some rows of its batch: what the kernels are given, and share.
 *
 * The same fields in the same order stand in native.py, and are explained there. */

typedef struct {
    long first, last, from, to, block;
    long batch, inputs, hidden, targets;
    long is_reverse, is_added, is_by_step;
    long x_time, x_row, out_time, out_row, tape_time;
    long r_target, r_out_target, r_out_time, r_out_row, r_x_target, r_x_time, r_x_row;
    const long *lengths;
    const REAL *x, *u, *w, *bias_x, *bias_h, *u_back, *w_back;
    const REAL *h_start, *c_start;
    REAL *h, *c, *tape, *out;
    const REAL *r_out;
    REAL *r_h, *r_c, *r_x;
    double *of_bias, *of_stabiliser;
    REAL *scratch;
    double epsilon, returned, delta;
} Layer;

/* How many of the block's sequences are still going on at step t: they are sorted, longest first. */
static inline long running(const Layer *l, long start, long rows, long t) {
    while (rows > 0 && l->lengths[start + rows - 1] <= t) rows--;
    return rows;
}

/* Where in time a sequence is at the t-th step of this direction. */
static inline long place(const Layer *l, long row, long t) { return l->is_reverse ? l->lengths[row] - 1 - t : t; }

static inline void copy(long size, const REAL *restrict from, REAL *restrict to) {
    for (long j = 0; j < size; j++) to[j] = from[j];
}

static inline REAL dot(long size, const REAL *restrict a, const REAL *restrict b) {
    REAL sum = 0;
    for (long j = 0; j < size; j++) sum += a[j] * b[j];
    return sum;
}

/* R_x = x ⊙ (q U) + share, over what the other direction left there or beside it. */
static inline void to_inputs(long size, REAL added, const REAL *restrict x, const REAL *restrict back, REAL share, REAL *restrict r_x) {
    if (added != 0)
        for (long j = 0; j < size; j++) r_x[j] += x[j] * back[j] + share;
    else
        for (long j = 0; j < size; j++) r_x[j] = x[j] * back[j] + share;
}

/* R_h⁻ = h⁻ ⊙ (q W) + share, beside what is kept of R_h⁻. */
static inline void to_state(long size, const REAL *restrict h, const REAL *restrict back, REAL share, REAL kept, REAL *restrict r_h) {
    for (long j = 0; j < size; j++) r_h[j] = kept * r_h[j] + h[j] * back[j] + share;
}
