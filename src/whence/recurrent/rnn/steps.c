/* The steps of a plain recurrent layer, forward and back. reference.py has the formulas:
 *
 *   z = W h⁻ + U x + b,  h = ACTIVATION(z),  q = R_h / ( z + ε sign z ),  and q W goes to h⁻, q U to x.
 *
 * The tape keeps for every step and row, H numbers each:  Z z,  H h. */

static inline REAL relu(REAL z) { return z < 0 ? 0 : z; }

static void activate(int64_t hidden, const REAL *restrict sums, const REAL *restrict bias, REAL *restrict h, REAL *restrict tape) {
    for (int64_t j = 0; j < hidden; j++) {
        REAL z = sums[j] + bias[j], next = ACTIVATION(z);
        tape[TAPE_Z * hidden + j] = z, tape[TAPE_H * hidden + j] = next, h[j] = next;
    }
}

/* How many numbers of scratch memory one block of rows needs, forward or back. */
int64_t NAME(scratch)(int64_t block, int64_t inputs, int64_t hidden, int64_t targets) {
    const int64_t forward = block * (inputs + hidden + padded(hidden)) + KEPT * hidden;
    const int64_t back = 3 * hidden + targets * block * (hidden + padded(hidden + inputs) + 1);
    return forward > back ? forward : back;
}

void NAME(forward)(const Layer *l) {
    const int64_t width = l->inputs + l->hidden, sums = padded(l->hidden), kept = KEPT * l->hidden;
    REAL *a = l->scratch, *z = a + l->block * width, *unkept = z + l->block * sums;
    for (int64_t start = l->first; start < l->last; start += l->block) {
        const int64_t rows = l->last - start < l->block ? l->last - start : l->block;
        for (int64_t b = 0; b < rows; b++) copy(l->hidden, l->h + (start + b) * l->hidden, a + b * width + l->inputs);
        for (int64_t t = l->from; t < l->to; t++) {
            const int64_t on = running(l, start, rows, t);
            for (int64_t b = 0; b < on; b++)
                copy(l->inputs, l->x + place(l, start + b, t) * l->x_time + (start + b) * l->x_row, a + b * width);
            product(on, width, l->hidden, a, width, l->u, z, sums);
            for (int64_t b = 0; b < on; b++) {
                REAL *h = a + b * width + l->inputs;
                REAL *tape = l->tape ? l->tape + (t - l->from) * l->tape_time + (start + b) * kept : unkept;
                activate(l->hidden, z + b * sums, l->bias_x, h, tape);
                if (l->out) copy(l->hidden, h, l->out + place(l, start + b, t) * l->out_time + (start + b) * l->out_row);
            }
        }
        for (int64_t b = 0; b < rows; b++) copy(l->hidden, a + b * width + l->inputs, l->h + (start + b) * l->hidden);
    }
}

typedef struct { REAL eps, edge, from_bias, gone; } Rule;
typedef struct { REAL *unit, *each, *lost; } Factors;

/* The factors of one row's step back; they are the same for all targets. */
static void factors(int64_t hidden, Rule rule, const REAL *restrict z, const REAL *restrict bias, REAL *restrict unit,
                    REAL *restrict each, REAL *restrict lost) {
    for (int64_t j = 0; j < hidden; j++) {
        REAL s = sign(z[j]), whole = (REAL)1 / (z[j] + rule.eps * s);
        unit[j] = whole, each[j] = rule.edge * s + rule.from_bias * bias[j], lost[j] = rule.gone * s * whole;
    }
}

/* One row, one target: from the relevance of h to q; also the share and what is absorbed. */
static void step_back(int64_t hidden, Factors f, const REAL *restrict r_h, const REAL *restrict r_out, REAL *restrict q,
                      REAL *restrict share, double *restrict absorbed) {
    const REAL *restrict unit = f.unit, *restrict each = f.each, *restrict lost = f.lost;
    REAL shared = 0, gone = 0;
    for (int64_t j = 0; j < hidden; j++) q[j] = r_h[j];
    if (r_out)
        for (int64_t j = 0; j < hidden; j++) q[j] += r_out[j];
    for (int64_t j = 0; j < hidden; j++) {
        REAL r = q[j], own = unit[j] * r;
        q[j] = own, shared += own * each[j], gone += lost[j] * r;
    }
    *share = shared, *absorbed += gone;
}

/* The relevance of a step's whole input, without the product q U:  Σ q (z − b) − Σ h⁻ (q W) + E · share. */
static REAL of_step(const Layer *l, const REAL *restrict q, const REAL *restrict z, const REAL *restrict h, const REAL *restrict back,
                    REAL share) {
    REAL sum = 0;
    for (int64_t j = 0; j < l->hidden; j++) sum += q[j] * (z[j] - l->bias_x[j]) - h[j] * back[j];
    return sum + (REAL)l->inputs * share;
}

void NAME(back)(const Layer *l) {
    const int64_t hidden = l->hidden, kept = KEPT * hidden, columns = l->is_by_step ? hidden : hidden + l->inputs;
    const int64_t width = padded(columns), fan_in = l->inputs + hidden;
    const Rule rule = {(REAL)l->epsilon, (REAL)(l->epsilon * l->returned / fan_in), (REAL)(l->delta / fan_in),
                       (REAL)((1 - l->returned) * l->epsilon)};
    Factors f = {l->scratch, l->scratch + hidden, l->scratch + 2 * hidden};
    REAL *q = l->scratch + 3 * hidden, *back = q + l->targets * l->block * hidden, *shares = back + l->targets * l->block * width;
    for (int64_t start = l->first; start < l->last; start += l->block) {
        const int64_t rows = l->last - start < l->block ? l->last - start : l->block;
        for (int64_t t = l->to - 1; t >= l->from; t--) {
            const int64_t on = running(l, start, rows, t);
            const REAL *tape = l->tape + (t - l->from) * l->tape_time + start * kept;
            for (int64_t b = 0; b < on; b++) {
                factors(hidden, rule, tape + b * kept + TAPE_Z * hidden, l->bias_x, f.unit, f.each, f.lost);
                for (int64_t k = 0; k < l->targets; k++) {
                    const int64_t row = k * l->batch + start + b, line = k * on + b;
                    const REAL *out = l->r_out ? l->r_out + k * l->r_out_target + place(l, start + b, t) * l->r_out_time +
                                                     (start + b) * l->r_out_row : 0;
                    step_back(hidden, f, l->r_h + k * l->r_target + (start + b) * hidden, out, q + line * hidden, shares + line,
                              l->of_stabiliser + row);
                    if (l->delta != 1) l->of_bias[row] += (1 - l->delta) * dot(hidden, l->bias_x, q + line * hidden);
                }
            }
            product(l->targets * on, hidden, columns, q, hidden, l->w_back, back, width);
            for (int64_t k = 0; k < l->targets; k++)
                for (int64_t b = 0; b < on; b++) {
                    const int64_t line = k * on + b, now = place(l, start + b, t);
                    const REAL *h = t > l->from ? tape - l->tape_time + b * kept + TAPE_H * hidden : l->h_start + (start + b) * hidden;
                    const REAL *own = back + line * width, share = shares[line];
                    to_state(hidden, h, own, share, 0, l->r_h + k * l->r_target + (start + b) * hidden);
                    if (!l->r_x) continue;
                    REAL *r_x = l->r_x + k * l->r_x_target + now * l->r_x_time + (start + b) * l->r_x_row;
                    if (l->is_by_step)
                        *r_x = (l->is_added ? *r_x : 0) +
                               of_step(l, q + line * hidden, tape + b * kept + TAPE_Z * hidden, h, own, share);
                    else
                        to_inputs(l->inputs, (REAL)l->is_added, l->x + now * l->x_time + (start + b) * l->x_row, own + hidden, share,
                                  r_x);
                }
        }
    }
}
