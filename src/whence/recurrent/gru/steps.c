/* The steps of a GRU layer, forward and back. reference.py has the formulas. Here they are factors of r, the relevance of h:
 *
 *   R_h⁻ = ( z ⊙ h⁻ + ½ ε s ) / ( h + ε s ) · r                               directly, through the update gate z
 *   q_a  = ( (1 − z) ⊙ n + ½ ε s ) / ( h + ε s ) / ( a + ε sign a ) · r       relevance per unit of the candidate's sum a
 *   q_m  = q_a ( ρ ⊙ m + share of a ) / ( m + ε sign m )                      relevance per unit of m = W h⁻ + b_hn
 *
 * with ρ the reset gate. Then q_m W goes to h⁻ and q_a U to x, one matrix product each.
 *
 * The tape keeps for every step and row, H numbers each:  WRITTEN (1 − z) ⊙ n,  CANDIDATE a,  M m,  GATED ρ ⊙ m,  H h. */

static void open_gates(int64_t hidden, const REAL *restrict x, const REAL *restrict own, const REAL *restrict b_x, const REAL *restrict b_h,
                       REAL *restrict h, REAL *restrict tape) {
    for (int64_t j = 0; j < hidden; j++) {
        REAL reset = sigmoid(x[j] + own[j] + b_x[j] + b_h[j]);
        REAL update = sigmoid(x[hidden + j] + own[hidden + j] + b_x[hidden + j] + b_h[hidden + j]);
        REAL m = own[2 * hidden + j] + b_h[2 * hidden + j], gated = reset * m, a = x[2 * hidden + j] + b_x[2 * hidden + j] + gated;
        REAL written = ((REAL)1 - update) * hyperbolic(a), next = written + update * h[j];
        tape[TAPE_WRITTEN * hidden + j] = written, tape[TAPE_CANDIDATE * hidden + j] = a, tape[TAPE_M * hidden + j] = m;
        tape[TAPE_GATED * hidden + j] = gated, tape[TAPE_H * hidden + j] = next, h[j] = next;
    }
}

/* How many numbers of scratch memory one block of rows needs, forward or back. */
int64_t NAME(scratch)(int64_t block, int64_t inputs, int64_t hidden, int64_t targets) {
    const int64_t forward = block * (inputs + hidden + 2 * padded(3 * hidden)) + KEPT * hidden;
    const int64_t back = 6 * hidden + targets * block * (2 * hidden + padded(hidden) + padded(inputs) + 2);
    return forward > back ? forward : back;
}

void NAME(forward)(const Layer *l) {
    const int64_t width = l->inputs + l->hidden, sums = padded(3 * l->hidden), kept = KEPT * l->hidden;
    REAL *a = l->scratch, *of_x = a + l->block * width, *of_h = of_x + l->block * sums, *unkept = of_h + l->block * sums;
    for (int64_t start = l->first; start < l->last; start += l->block) {
        const int64_t rows = l->last - start < l->block ? l->last - start : l->block;
        for (int64_t b = 0; b < rows; b++) copy(l->hidden, l->h + (start + b) * l->hidden, a + b * width + l->inputs);
        for (int64_t t = l->from; t < l->to; t++) {
            const int64_t on = running(l, start, rows, t);
            for (int64_t b = 0; b < on; b++)
                copy(l->inputs, l->x + place(l, start + b, t) * l->x_time + (start + b) * l->x_row, a + b * width);
            product(on, l->inputs, 3 * l->hidden, a, width, l->u, of_x, sums);
            product(on, l->hidden, 3 * l->hidden, a + l->inputs, width, l->w, of_h, sums);
            for (int64_t b = 0; b < on; b++) {
                REAL *h = a + b * width + l->inputs;
                REAL *tape = l->tape ? l->tape + (t - l->from) * l->tape_time + (start + b) * kept : unkept;
                open_gates(l->hidden, of_x + b * sums, of_h + b * sums, l->bias_x, l->bias_h, h, tape);
                if (l->out) copy(l->hidden, h, l->out + place(l, start + b, t) * l->out_time + (start + b) * l->out_row);
            }
        }
        for (int64_t b = 0; b < rows; b++) copy(l->hidden, a + b * width + l->inputs, l->h + (start + b) * l->hidden);
    }
}

typedef struct { REAL eps, half, edge_a, edge_m, bias_a, bias_m, gone; } Rule;
typedef struct { REAL *kept, *for_a, *for_m, *each_a, *each_m, *lost; } Factors;

/* The factors of one row's step back; they are the same for all targets. */
static void factors(int64_t hidden, Rule rule, const REAL *restrict tape, const REAL *restrict b_in, const REAL *restrict b_hn,
                    REAL *restrict kept, REAL *restrict for_a, REAL *restrict for_m, REAL *restrict each_a, REAL *restrict each_m,
                    REAL *restrict lost) {
    for (int64_t j = 0; j < hidden; j++) {
        REAL written = tape[TAPE_WRITTEN * hidden + j], a = tape[TAPE_CANDIDATE * hidden + j], m = tape[TAPE_M * hidden + j];
        REAL gated = tape[TAPE_GATED * hidden + j], h = tape[TAPE_H * hidden + j];
        REAL s_h = sign(h), s_a = sign(a), s_m = sign(m), whole = (REAL)1 / (h + rule.eps * s_h);
        REAL edge = rule.edge_a * s_a + rule.bias_a * b_in[j];
        REAL unit_a = (written + rule.half * s_h) * whole / (a + rule.eps * s_a);
        REAL unit_m = unit_a * (gated + edge) / (m + rule.eps * s_m);
        kept[j] = (h - written + rule.half * s_h) * whole;
        for_a[j] = unit_a, for_m[j] = unit_m, each_a[j] = edge, each_m[j] = rule.edge_m * s_m + rule.bias_m * b_hn[j];
        lost[j] = rule.gone * (s_h * whole + s_a * unit_a + s_m * unit_m);
    }
}

/* One row, one target: from the relevance of h to the direct part of h⁻ and to q_a and q_m; also shares and what is absorbed. */
static void step_back(int64_t hidden, Factors f, const REAL *restrict r_out, REAL *restrict r_h, REAL *restrict q_a, REAL *restrict q_m,
                      REAL *restrict share_a, REAL *restrict share_m, double *restrict absorbed) {
    const REAL *restrict kept = f.kept, *restrict for_a = f.for_a, *restrict for_m = f.for_m;
    const REAL *restrict each_a = f.each_a, *restrict each_m = f.each_m, *restrict lost = f.lost;
    REAL shared_a = 0, shared_m = 0, gone = 0;
    if (r_out)
        for (int64_t j = 0; j < hidden; j++) r_h[j] += r_out[j];
    for (int64_t j = 0; j < hidden; j++) {
        REAL r = r_h[j], unit_a = for_a[j] * r, unit_m = for_m[j] * r;
        q_a[j] = unit_a, q_m[j] = unit_m, r_h[j] = kept[j] * r;
        shared_a += unit_a * each_a[j], shared_m += unit_m * each_m[j], gone += lost[j] * r;
    }
    *share_a = shared_a, *share_m = shared_m, *absorbed += gone;
}

/* The relevance of a step's whole input, without the product q U:  Σ q (U x) + E · share,  with U x = a − b − ρ ⊙ m. */
static REAL of_step(const Layer *l, const REAL *restrict q, const REAL *restrict tape, REAL share) {
    const int64_t hidden = l->hidden;
    REAL sum = 0;
    for (int64_t j = 0; j < hidden; j++)
        sum += q[j] * (tape[TAPE_CANDIDATE * hidden + j] - l->bias_x[2 * hidden + j] - tape[TAPE_GATED * hidden + j]);
    return sum + (REAL)l->inputs * share;
}

void NAME(back)(const Layer *l) {
    const int64_t hidden = l->hidden, kept = KEPT * hidden, wide = padded(hidden), width = padded(l->inputs), lines = l->targets * l->block;
    const REAL *b_in = l->bias_x + 2 * hidden, *b_hn = l->bias_h + 2 * hidden;
    const double edge = l->epsilon * l->returned, sources = l->inputs + 1;
    const Rule rule = {(REAL)l->epsilon, (REAL)(0.5 * edge), (REAL)(edge / sources), (REAL)(edge / hidden), (REAL)(l->delta / sources),
                       (REAL)(l->delta / hidden), (REAL)((1 - l->returned) * l->epsilon)};
    REAL *s = l->scratch;
    Factors f = {s, s + hidden, s + 2 * hidden, s + 3 * hidden, s + 4 * hidden, s + 5 * hidden};
    REAL *q_a = s + 6 * hidden, *q_m = q_a + lines * hidden, *to_h = q_m + lines * hidden, *to_x = to_h + lines * wide;
    REAL *share_a = to_x + lines * width, *share_m = share_a + lines;
    for (int64_t start = l->first; start < l->last; start += l->block) {
        const int64_t rows = l->last - start < l->block ? l->last - start : l->block;
        for (int64_t t = l->to - 1; t >= l->from; t--) {
            const int64_t on = running(l, start, rows, t);
            const REAL *tape = l->tape + (t - l->from) * l->tape_time + start * kept;
            for (int64_t b = 0; b < on; b++) {
                factors(hidden, rule, tape + b * kept, b_in, b_hn, f.kept, f.for_a, f.for_m, f.each_a, f.each_m, f.lost);
                for (int64_t k = 0; k < l->targets; k++) {
                    const int64_t at = k * l->r_target + (start + b) * hidden, row = k * l->batch + start + b, line = k * on + b;
                    const REAL *out = l->r_out ? l->r_out + k * l->r_out_target + place(l, start + b, t) * l->r_out_time +
                                                     (start + b) * l->r_out_row : 0;
                    step_back(hidden, f, out, l->r_h + at, q_a + line * hidden, q_m + line * hidden, share_a + line, share_m + line,
                              l->of_stabiliser + row);
                    if (l->delta != 1)
                        l->of_bias[row] += (1 - l->delta) * (dot(hidden, b_in, q_a + line * hidden) + dot(hidden, b_hn, q_m + line * hidden));
                }
            }
            product(l->targets * on, hidden, hidden, q_m, hidden, l->w_back, to_h, wide);
            if (l->r_x && !l->is_by_step) product(l->targets * on, hidden, l->inputs, q_a, hidden, l->u_back, to_x, width);
            for (int64_t k = 0; k < l->targets; k++)
                for (int64_t b = 0; b < on; b++) {
                    const int64_t line = k * on + b, now = place(l, start + b, t);
                    const REAL *h = t > l->from ? tape - l->tape_time + b * kept + TAPE_H * hidden : l->h_start + (start + b) * hidden;
                    to_state(hidden, h, to_h + line * wide, share_m[line], 1, l->r_h + k * l->r_target + (start + b) * hidden);
                    if (!l->r_x) continue;
                    REAL *r_x = l->r_x + k * l->r_x_target + now * l->r_x_time + (start + b) * l->r_x_row;
                    if (l->is_by_step)
                        *r_x = (l->is_added ? *r_x : 0) + of_step(l, q_a + line * hidden, tape + b * kept, share_a[line]);
                    else
                        to_inputs(l->inputs, (REAL)l->is_added, l->x + now * l->x_time + (start + b) * l->x_row, to_x + line * width,
                                  share_a[line], r_x);
                }
        }
    }
}
