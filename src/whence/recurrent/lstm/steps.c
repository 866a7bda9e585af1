/* The steps of an LSTM layer, forward and back. reference.py has the formulas, plain.py the same as factors.
 *
 * The tape keeps for every step and row, H numbers each:  WRITTEN i ⊙ g,  CANDIDATE a,  C c,  H h. */

static void open_gates(int64_t hidden, const REAL *restrict sums, const REAL *restrict bias, REAL *restrict cell, REAL *restrict h,
                       REAL *restrict tape) {
    for (int64_t j = 0; j < hidden; j++) {
        REAL a = sums[2 * hidden + j] + bias[2 * hidden + j];
        REAL written = sigmoid(sums[j] + bias[j]) * hyperbolic(a);
        REAL c = sigmoid(sums[hidden + j] + bias[hidden + j]) * cell[j] + written;
        REAL next = sigmoid(sums[3 * hidden + j] + bias[3 * hidden + j]) * hyperbolic(c);
        tape[TAPE_WRITTEN * hidden + j] = written, tape[TAPE_CANDIDATE * hidden + j] = a;
        tape[TAPE_C * hidden + j] = c, tape[TAPE_H * hidden + j] = next;
        cell[j] = c, h[j] = next;
    }
}

/* How many numbers of scratch memory one block of rows needs, forward or back. */
int64_t NAME(scratch)(int64_t block, int64_t inputs, int64_t hidden, int64_t targets) {
    const int64_t forward = block * (inputs + hidden + padded(4 * hidden)) + KEPT * hidden;
    const int64_t back = 4 * hidden + targets * block * (hidden + padded(hidden + inputs) + 1);
    return forward > back ? forward : back;
}

void NAME(forward)(const Layer *l) {
    const int64_t width = l->inputs + l->hidden, sums = padded(4 * l->hidden), kept = KEPT * l->hidden;
    REAL *a = l->scratch, *z = a + l->block * width, *unkept = z + l->block * sums;
    for (int64_t start = l->first; start < l->last; start += l->block) {
        const int64_t rows = l->last - start < l->block ? l->last - start : l->block;
        for (int64_t b = 0; b < rows; b++) copy(l->hidden, l->h + (start + b) * l->hidden, a + b * width + l->inputs);
        for (int64_t t = l->from; t < l->to; t++) {
            const int64_t on = running(l, start, rows, t);
            for (int64_t b = 0; b < on; b++)
                copy(l->inputs, l->x + place(l, start + b, t) * l->x_time + (start + b) * l->x_row, a + b * width);
            product(on, width, 4 * l->hidden, a, width, l->u, z, sums);
            for (int64_t b = 0; b < on; b++) {
                REAL *h = a + b * width + l->inputs;
                REAL *tape = l->tape ? l->tape + (t - l->from) * l->tape_time + (start + b) * kept : unkept;
                open_gates(l->hidden, z + b * sums, l->bias_x, l->c + (start + b) * l->hidden, h, tape);
                if (l->out) copy(l->hidden, h, l->out + place(l, start + b, t) * l->out_time + (start + b) * l->out_row);
            }
        }
        for (int64_t b = 0; b < rows; b++) copy(l->hidden, a + b * width + l->inputs, l->h + (start + b) * l->hidden);
    }
}

typedef struct { REAL eps, half, edge, from_bias, gone; } Rule;
typedef struct { REAL *kept, *new, *each, *lost; } Factors;

/* The factors of one row's step back; they are the same for all targets. */
static void factors(int64_t hidden, Rule rule, const REAL *restrict tape, const REAL *restrict bias, REAL *restrict kept,
                    REAL *restrict new, REAL *restrict each, REAL *restrict lost) {
    for (int64_t j = 0; j < hidden; j++) {
        REAL written = tape[TAPE_WRITTEN * hidden + j], a = tape[TAPE_CANDIDATE * hidden + j], c = tape[TAPE_C * hidden + j];
        REAL s_c = sign(c), s_a = sign(a);
        REAL whole = (REAL)1 / (c + rule.eps * s_c), candidate = (REAL)1 / (a + rule.eps * s_a);
        REAL into = (written + rule.half * s_c) * whole;
        kept[j] = (c - written + rule.half * s_c) * whole;
        new[j] = into * candidate;
        each[j] = rule.edge * s_a + rule.from_bias * bias[j];
        lost[j] = rule.gone * (s_c * whole + s_a * candidate * into);
    }
}

/* One row, one target: from the relevance of c and h to that of c⁻ and to q; also the share and what is absorbed. */
static void step_back(int64_t hidden, Factors f, const REAL *restrict r_h, const REAL *restrict r_out, REAL *restrict r_c,
                      REAL *restrict q, REAL *restrict share, double *restrict absorbed) {
    const REAL *restrict kept = f.kept, *restrict new = f.new, *restrict each = f.each, *restrict lost = f.lost;
    REAL shared = 0, gone = 0;
    if (r_out)
        for (int64_t j = 0; j < hidden; j++) r_c[j] += r_out[j];
    for (int64_t j = 0; j < hidden; j++) {
        REAL r = r_c[j] + r_h[j], unit = new[j] * r;
        q[j] = unit, r_c[j] = kept[j] * r;
        shared += unit * each[j], gone += lost[j] * r;
    }
    *share = shared, *absorbed += gone;
}

/* The relevance of a step's whole input, without the product q U:  Σ q (a − b) − Σ h⁻ (q W) + E · share. */
static REAL of_step(const Layer *l, const REAL *restrict q, const REAL *restrict a, const REAL *restrict h, const REAL *restrict back,
                    REAL share) {
    REAL sum = 0;
    for (int64_t j = 0; j < l->hidden; j++) sum += q[j] * (a[j] - l->bias_x[2 * l->hidden + j]) - h[j] * back[j];
    return sum + (REAL)l->inputs * share;
}

void NAME(back)(const Layer *l) {
    const int64_t hidden = l->hidden, kept = KEPT * hidden, width = padded(l->is_by_step ? hidden : hidden + l->inputs);
    const int64_t fan_in = l->inputs + hidden;
    const REAL *bias = l->bias_x + 2 * hidden;
    const Rule rule = {(REAL)l->epsilon, (REAL)(0.5 * l->epsilon * l->returned), (REAL)(l->epsilon * l->returned / fan_in),
                       (REAL)(l->delta / fan_in), (REAL)((1 - l->returned) * l->epsilon)};
    Factors f = {l->scratch, l->scratch + hidden, l->scratch + 2 * hidden, l->scratch + 3 * hidden};
    REAL *q = l->scratch + 4 * hidden, *back = q + l->targets * l->block * hidden, *shares = back + l->targets * l->block * width;
    for (int64_t start = l->first; start < l->last; start += l->block) {
        const int64_t rows = l->last - start < l->block ? l->last - start : l->block;
        for (int64_t t = l->to - 1; t >= l->from; t--) {
            const int64_t on = running(l, start, rows, t);
            const REAL *tape = l->tape + (t - l->from) * l->tape_time + start * kept;
            for (int64_t b = 0; b < on; b++) {
                factors(hidden, rule, tape + b * kept, bias, f.kept, f.new, f.each, f.lost);
                for (int64_t k = 0; k < l->targets; k++) {
                    const int64_t at = k * l->r_target + (start + b) * hidden, row = k * l->batch + start + b;
                    const REAL *out = l->r_out ? l->r_out + k * l->r_out_target + place(l, start + b, t) * l->r_out_time +
                                                     (start + b) * l->r_out_row : 0;
                    REAL *own = q + (k * on + b) * hidden;
                    step_back(hidden, f, l->r_h + at, out, l->r_c + at, own, shares + k * on + b, l->of_stabiliser + row);
                    if (l->delta != 1) l->of_bias[row] += (1 - l->delta) * dot(hidden, bias, own);
                }
            }
            product(l->targets * on, hidden, l->is_by_step ? hidden : hidden + l->inputs, q, hidden, l->w_back, back, width);
            for (int64_t k = 0; k < l->targets; k++)
                for (int64_t b = 0; b < on; b++) {
                    const int64_t line = k * on + b, now = place(l, start + b, t);
                    const REAL *h = t > l->from ? tape - l->tape_time + b * kept + TAPE_H * hidden : l->h_start + (start + b) * hidden;
                    const REAL *own = back + line * width, share = shares[line];
                    to_state(hidden, h, own, share, 0, l->r_h + k * l->r_target + (start + b) * hidden);
                    if (!l->r_x) continue;
                    REAL *r_x = l->r_x + k * l->r_x_target + now * l->r_x_time + (start + b) * l->r_x_row;
                    if (l->is_by_step)
                        *r_x = (l->is_added ? *r_x : 0) + of_step(l, q + line * hidden, tape + b * kept + TAPE_CANDIDATE * hidden, h, own, share);
                    else
                        to_inputs(l->inputs, (REAL)l->is_added, l->x + now * l->x_time + (start + b) * l->x_row, own + hidden, share,
                                  r_x);
                }
        }
    }
}
