# pyright: basic
"""The steps of a plain recurrent layer with tanh in Triton, forward and back; reference.py has the formulas.

The tape keeps  z  for every step, (B, H). `states` (T + 1, D, B, DEPTH) is h before every step and after the last, zero beyond
H; with more than 64 units, it has float16 parts, (T + 1, 2, D, B, DEPTH). Products have room for four sums per unit, as those
of the cells with gates; three of them are empty here.
"""

import triton
import triton.language as tl

from whence.recurrent.triton.shared import SIZES, arrive, hyperbolic, lengths_of, load_shares, place, sign, split_gates, wait
from whence.recurrent.triton.split import (
    TOP,
    float16_parts,
    join,
    load_state,
    precise_dot,
    scale_for,
    store_state,
    tf32_head,
    times_held,
    times_weights,
)

KEPT = tl.constexpr(1)  # numbers on the tape for every unit and step
CANDIDATE: int = 0  # the only sum
HAS_HIDDEN_SUM: bool = False


@triton.jit(do_not_specialize=SIZES)
def forward(
    sums, hidden, w_scales, h_scales, states, h_0, ends, tape, out, lengths, counters, first, last, B, T, time, row,
    t_from, t_to, H: tl.constexpr, DEPTH: tl.constexpr, BB: tl.constexpr, UB: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr, IS_WHOLE: tl.constexpr, IS_LARGE: tl.constexpr, IS_HELD: tl.constexpr,
):  # fmt: skip
    """Steps t_from … t_to of every sequence from row `first` to `last`; sums (T, B, D·H) hold U x + b.

    `time` and `row` are the strides of time and batch in sums and outputs, counted in rows. IS_HELD: one program owns all
    units; the state and the weights, split into float16 parts, stay in registers for all steps.
    """
    OFFSET = tl.int64 if IS_LARGE else tl.int32
    own, tile, d = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(OFFSET)
    rows = (first + tile * BB + tl.arange(0, BB)).to(OFFSET)
    units = own * UB + tl.arange(0, UB)
    inside = (rows < last)[:, None] & (units < H)[None, :]
    length = lengths_of(lengths, rows, rows < last, T, OFFSET)
    plane, directions = tl.cast(B, OFFSET) * H, tl.num_programs(2).to(OFFSET)
    state = d * plane + rows[:, None] * H + units[None, :]
    w, w_tail_at = hidden + (d * GROUP + own) * 4 * UB * DEPTH, directions * GROUP * 4 * UB * DEPTH
    tape += d * T * KEPT * plane
    h_tail_at = directions * B * DEPTH
    state_step = h_tail_at if IS_HELD else h_tail_at * 2
    states += d * B * DEPTH
    here, there = rows[:, None] * H + units[None, :], rows[:, None] * DEPTH + units[None, :]
    h_t = tl.load(h_0 + state, mask=inside, other=0.0)
    tl.store(ends + state, h_t, mask=inside & (length == 0)[:, None])
    if IS_HELD:
        tl.store(states + there, h_t, mask=(rows < last)[:, None])
        whole = tl.load(w + tl.arange(0, 4 * UB)[None, :] * DEPTH + tl.arange(0, DEPTH)[:, None])
        w_scale = scale_for(tl.max(tl.abs(whole), 0))[None, :]
        w_head, w_tail = float16_parts(whole, w_scale)
        h_scale = scale_for(tl.max(tl.abs(h_t), 1))[:, None]
        is_wide = tl.max(tl.abs(h_t)) > 1
    else:
        w_scale = tl.load(w_scales + (d * GROUP + own) * 4 * UB + tl.arange(0, 4 * UB))[None, :]
        h_scale = tl.load(h_scales + d * B + rows, mask=rows < last, other=1.0)[:, None]
    for t in range(t_from, tl.minimum(t_to, tl.max(length))):
        on = (rows < last) & (length > t)
        now = place(t, length, d)
        active = inside & on[:, None]
        line = (now * time + rows * row) * directions + d
        from_x = tl.load(sums + line[:, None] * H + units[None, :], mask=active, other=0.0)
        if IS_HELD:
            stacked = times_held(h_t, w_head, w_tail, h_scale, is_wide & (t == 0)) * w_scale
        else:
            stacked = tl.zeros((BB, 4 * UB), dtype=tl.float32)
            at = states + t * state_step
            stacked = times_weights(stacked, at, h_tail_at, rows * DEPTH, on, w, w_tail_at, 4 * UB, DEPTH, BK)
            stacked *= w_scale * tl.where(t == 0, h_scale, 1 / TOP)
        z, _, _, _ = split_gates(stacked, BB, UB)
        z += from_x
        h_t = hyperbolic(z)
        wide = on[:, None] & (units < DEPTH)[None, :]
        store_state(states + (t + 1) * state_step + there, h_tail_at, h_t, 1 / TOP, wide)
        arrive(counters, tile, d, GROUP, IS_WHOLE)
        tl.store(tape + t * KEPT * plane + here, z, mask=active)
        tl.store(out + line[:, None] * H + units[None, :], h_t, mask=active)
        tl.store(ends + state, h_t, mask=active & (length == t + 1)[:, None])
        wait(counters, tile, d, t - t_from, GROUP, IS_WHOLE)


@triton.jit(do_not_specialize=SIZES)
def back(
    tape, states, h_scales, weights, bias, r_h, r_out, q, shares, r_0, ledger, lengths, counters, first, last, B,
    T, time, row, K, out_target, out_time, out_row, t_from, t_to, epsilon, returned, delta, fan_x, H: tl.constexpr,
    DEPTH: tl.constexpr, BB: tl.constexpr, UB: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, IS_WHOLE: tl.constexpr,
    IS_LARGE: tl.constexpr, MEMBERS: tl.constexpr, IS_HELD: tl.constexpr,
):  # fmt: skip
    """Steps t_to … t_from back, for the rows `first` to `last` of all K · B; weights are Wᵀ, grouped by program.

    IS_HELD: one program owns all units; q stays in registers from step to step, and the weights for all steps.
    """
    OFFSET = tl.int64 if IS_LARGE else tl.int32
    own, tile, d = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(OFFSET)
    lines = (first + tile * BB + tl.arange(0, BB)).to(OFFSET)
    targets, rows = lines // B, lines % B
    units = own * UB + tl.arange(0, UB)
    inside = (lines < last)[:, None] & (units < H)[None, :]
    length = lengths_of(lengths, rows, lines < last, T, OFFSET)
    plane, directions = tl.cast(B, OFFSET) * H, tl.num_programs(2).to(OFFSET)
    state = ((targets * directions + d) * B + rows)[:, None] * H + units[None, :]
    tape += d * T * KEPT * plane
    h_tail_at = directions * B * DEPTH
    state_step = h_tail_at if h_scales is None else h_tail_at * 2
    states += d * B * DEPTH
    here, there = rows[:, None] * H + units[None, :], rows[:, None] * DEPTH + units[None, :]
    h_scale = 1.0
    if h_scales is not None:
        h_scale = tl.load(h_scales + d * B + rows, mask=lines < last, other=1.0)[:, None]
    b = tl.load(bias + d * H + units, mask=units < H, other=0.0)[None, :]
    relevance = tl.load(r_h + state, mask=inside, other=0.0)
    w, w_tail_at = weights + (d * GROUP + own) * UB * DEPTH, directions * GROUP * UB * DEPTH
    of_bias = ledger + (d * K * B + lines) * GROUP + own
    of_stabiliser = of_bias + directions * K * B * GROUP
    is_begun = (lines < last) & (t_to < T)
    from_bias = tl.load(of_bias, mask=is_begun, other=0.0)
    from_stabiliser = tl.load(of_stabiliser, mask=is_begun, other=0.0)
    fan_in = fan_x + H
    unit, share = tl.zeros((BB, UB), dtype=tl.float32), tl.zeros((BB,), dtype=tl.float32)
    if IS_HELD:
        at_w = w + units[None, :] * DEPTH + tl.arange(0, DEPTH)[:, None]
        w_head, w_tail = tl.load(at_w), tl.load(at_w + w_tail_at)
    ends = tl.minimum(t_to, tl.max(length))
    for step in range(ends - t_from):
        t = ends - 1 - step
        # First finish step t + 1: all programs have stored its q, so the relevance that it hands back to h can be computed.
        # Then do step t. The last round, t = −1, only finishes step 0.
        on, is_done = (lines < last) & (length > t) & (t >= 0), (lines < last) & (length > t + 1)
        active, done = inside & on[:, None], inside & is_done[:, None]
        after = states + (t + 1) * state_step + there
        zero = tl.zeros((BB, UB), dtype=tl.float32)
        z = tl.load(tape + t * KEPT * plane + here, mask=active, other=0.0)
        h, h_tail = load_state(after, h_tail_at, done)
        if IS_HELD:
            head = tf32_head(unit)
            acc = precise_dot(zero, head, unit - head, w_head, w_tail)
        else:
            line = (targets * T * B + place(t + 1, length, d) * time + rows * row) * directions + d
            found = load_shares(shares, line * GROUP, is_done, GROUP, MEMBERS)  # loaded early, to overlap with the product
            acc = times_weights(zero, q, 0, line * DEPTH, is_done, w, w_tail_at, UB, DEPTH, BK)
            share = tl.sum(found, 1)
        h = join(h, h_tail, tl.where(t < 0, h_scale, 1 / TOP))
        relevance = tl.where(done, h * acc + share[:, None], relevance)
        now = place(t, length, d)
        s = sign(z)
        r = relevance
        if r_out is not None:
            at = (targets * out_target + now * out_time + rows * out_row)[:, None] + d * H + units[None, :]
            r += tl.load(r_out + at, mask=active, other=0.0)
        r = tl.where(active, r, 0.0)
        unit = r / (z + epsilon * s)
        share = tl.sum(unit * (epsilon * returned / fan_in * s + delta / fan_in * b), 1)
        line = (targets * T * B + now * time + rows * row) * directions + d
        tl.store(q + line[:, None] * DEPTH + units[None, :], unit, mask=on[:, None] & (units < DEPTH)[None, :])
        tl.store(shares + line * GROUP + own, share, mask=on)
        if not IS_HELD:
            arrive(counters, tile, d, GROUP, IS_WHOLE)
        relevance = tl.where(active, 0.0, relevance)
        from_stabiliser += tl.sum((1 - returned) * epsilon * s * unit, 1)
        from_bias += (1 - delta) * tl.sum(unit * b, 1)
        if not IS_HELD:
            wait(counters, tile, d, step, GROUP, IS_WHOLE)
    tl.store(r_0 + state, relevance, mask=inside)
    tl.store(of_bias, from_bias, mask=lines < last)
    tl.store(of_stabiliser, from_stabiliser, mask=lines < last)
