/* What the kernels of all cells share. `Layer`, what a kernel is given, is generated from native/arguments.py. */

/* A kernel, what each call of it is given, and the number of the next call, which threads take in turn. */
typedef struct { void (*kernel)(const Layer *); const Layer *parts; int64_t count, next; } Work;

void NAME(work)(Work *given) {
    for (int64_t n; (n = __atomic_fetch_add(&given->next, 1, __ATOMIC_RELAXED)) < given->count;) given->kernel(given->parts + n);
}

/* How many of the block's sequences are still running at step t: they are sorted, longest first. */
static inline int64_t running(const Layer *l, int64_t start, int64_t rows, int64_t t) {
    while (rows > 0 && l->lengths[start + rows - 1] <= t) rows--;
    return rows;
}

/* The time that a row's sequence reads at step t of this direction. */
static inline int64_t place(const Layer *l, int64_t row, int64_t t) { return l->is_reverse ? l->lengths[row] - 1 - t : t; }

static inline void copy(int64_t size, const REAL *restrict from, REAL *restrict to) {
    for (int64_t j = 0; j < size; j++) to[j] = from[j];
}

static inline REAL dot(int64_t size, const REAL *restrict a, const REAL *restrict b) {
    REAL sum = 0;
    for (int64_t j = 0; j < size; j++) sum += a[j] * b[j];
    return sum;
}

/* R_x = x ⊙ (q U) + share, where back = q U; added to r_x or written over it. */
static inline void to_inputs(int64_t size, REAL added, const REAL *restrict x, const REAL *restrict back, REAL share, REAL *restrict r_x) {
    if (added != 0)
        for (int64_t j = 0; j < size; j++) r_x[j] += x[j] * back[j] + share;
    else
        for (int64_t j = 0; j < size; j++) r_x[j] = x[j] * back[j] + share;
}

/* R_h⁻ = kept · R_h⁻ + h⁻ ⊙ (q W) + share, where back = q W. */
static inline void to_state(int64_t size, const REAL *restrict h, const REAL *restrict back, REAL share, REAL kept, REAL *restrict r_h) {
    for (int64_t j = 0; j < size; j++) r_h[j] = kept * r_h[j] + h[j] * back[j] + share;
}
