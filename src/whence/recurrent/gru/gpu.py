# pyright: basic
"""The steps of a GRU layer in Triton, forward and back; what they compute is written in reference.py, as factors in steps.c.

The tape holds for every step  (1 − z) ⊙ n, a, m, ρ ⊙ m,  each (B, H), with ρ the reset gate; `states` (D, T + 1, B, H) is h
before every step and after the last.
"""

import triton
import triton.language as tl

from whence.recurrent.gpu.shared import four_parts, hyperbolic, meet, place, shared_out, sigmoid, sign, times_weights

KEPT = tl.constexpr(4)


@triton.jit
def forward(
    sums, hidden, b_hidden, states, h_n, tape, out, lengths, counters, first, last, B, T, sums_time, sums_row, out_time,
    out_row, t_from, t_to, H: tl.constexpr, DEPTH: tl.constexpr, BB: tl.constexpr, UB: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr, IS_WHOLE: tl.constexpr, OFFSET: tl.constexpr,
):  # fmt: skip
    """Steps t_from … t_to of every sequence from row `first` to `last`; sums (T, B, D·3H) hold U x + b."""
    own, tile, d = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(OFFSET)
    rows = (first + tile * BB + tl.arange(0, BB)).to(OFFSET)
    units = own * UB + tl.arange(0, UB)
    inside = (rows < last)[:, None] & (units < H)[None, :]
    length = tl.load(lengths + rows, mask=rows < last, other=0).to(OFFSET)
    plane = B * H
    state = d * plane + rows[:, None] * H + units[None, :]
    w, rest = hidden + (d * GROUP + own) * 4 * UB * DEPTH, tl.num_programs(2) * GROUP * 4 * UB * DEPTH
    tape += d * T * KEPT * plane
    states += d * (T + 1) * B * DEPTH
    here, there = rows[:, None] * H + units[None, :], rows[:, None] * DEPTH + units[None, :]
    counter = counters + d * tl.num_programs(1) + tile
    b = b_hidden + d * 3 * H + units
    b_r = tl.load(b, mask=units < H, other=0.0)[None, :]
    b_z = tl.load(b + H, mask=units < H, other=0.0)[None, :]
    b_n = tl.load(b + 2 * H, mask=units < H, other=0.0)[None, :]
    mine = tl.load(h_n + state, mask=inside, other=0.0)
    for t in range(t_from, tl.minimum(t_to, tl.max(length))):
        on = (rows < last) & (length > t)
        now = place(t, length, d)
        going = inside & on[:, None]
        at = sums + (now * sums_time + rows * sums_row)[:, None] + d * 3 * H + units[None, :]
        x_r, x_z = tl.load(at, mask=going, other=0.0), tl.load(at + H, mask=going, other=0.0)
        x_n = tl.load(at + 2 * H, mask=going, other=0.0)
        z = times_weights(
            tl.zeros((BB, 4 * UB), dtype=tl.float32), states + t * B * DEPTH, rows * DEPTH, on, w, rest, 4 * UB, DEPTH, BK
        )
        z_r, z_z, m, _ = four_parts(z, BB, UB)  # the fourth is empty: tiles have a power of two of columns
        m += b_n
        gated, update = sigmoid(z_r + b_r + x_r) * m, sigmoid(z_z + b_z + x_z)
        a = x_n + gated
        written = (1 - update) * hyperbolic(a)
        mine = tl.where(going, written + update * mine, mine)
        kept = tape + t * KEPT * plane + here
        tl.store(kept, written, mask=going)
        tl.store(kept + plane, a, mask=going)
        tl.store(kept + 2 * plane, m, mask=going)
        tl.store(kept + 3 * plane, gated, mask=going)
        tl.store(states + (t + 1) * B * DEPTH + there, mine, mask=on[:, None] & (units < DEPTH)[None, :])
        tl.store(out + (now * out_time + rows * out_row)[:, None] + d * H + units[None, :], mine, mask=going)
        meet(counter, t - t_from, GROUP, IS_WHOLE)
    tl.store(h_n + state, mine, mask=inside)


@triton.jit
def back(
    tape, states, weights, b_in, b_hn, r_h, r_out, q, q_m, shares, shares_m, of_bias, of_stabiliser, lengths, counters,
    first, last, B, T, K, q_target, q_time, q_row, out_target, out_time, out_row, t_from, t_to, epsilon, returned, delta,
    fan_x, H: tl.constexpr, DEPTH: tl.constexpr, BB: tl.constexpr, UB: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    MEMBERS: tl.constexpr, HAS_OUT: tl.constexpr, IS_WHOLE: tl.constexpr, OFFSET: tl.constexpr,
):  # fmt: skip
    """Steps t_to … t_from back, for the rows `first` to `last` of all K·B; weights are W_nᵀ, cut up by unit."""
    own, tile, d = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(OFFSET)
    lines = (first + tile * BB + tl.arange(0, BB)).to(OFFSET)
    targets, rows = lines // B, lines % B
    units = own * UB + tl.arange(0, UB)
    inside = (lines < last)[:, None] & (units < H)[None, :]
    length = tl.load(lengths + rows, mask=lines < last, other=0).to(OFFSET)
    plane = B * H
    state = (d * K * B + lines)[:, None] * H + units[None, :]
    tape += d * T * KEPT * plane
    states += d * (T + 1) * B * DEPTH
    here, there = rows[:, None] * H + units[None, :], rows[:, None] * DEPTH + units[None, :]
    counter = counters + d * tl.num_programs(1) + tile
    b_a = tl.load(b_in + d * H + units, mask=units < H, other=0.0)[None, :]
    b_m = tl.load(b_hn + d * H + units, mask=units < H, other=0.0)[None, :]
    relevance = tl.load(r_h + state, mask=inside, other=0.0)
    w, rest = weights + (d * GROUP + own) * UB * DEPTH, tl.num_programs(2) * GROUP * UB * DEPTH
    account = (d * K * B + lines) * GROUP + own
    from_bias = tl.load(of_bias + account, mask=lines < last, other=0.0)
    from_stabiliser = tl.load(of_stabiliser + account, mask=lines < last, other=0.0)
    fan_in = fan_x + 1.0
    directions = tl.num_programs(2)
    ends = tl.minimum(t_to, tl.max(length))
    for step in range(ends - t_from):
        t = ends - 1 - step
        # this step, which is none where t = −1, needs what the one after it, which all have done, hands back to h
        on, is_done = (lines < last) & (length > t) & (t >= 0), (lines < last) & (length > t + 1)
        going, done = inside & on[:, None], inside & is_done[:, None]
        kept = tape + t * KEPT * plane + here
        written, a = tl.load(kept, mask=going, other=0.0), tl.load(kept + plane, mask=going, other=0.0)
        m, gated = tl.load(kept + 2 * plane, mask=going, other=0.0), tl.load(kept + 3 * plane, mask=going, other=0.0)
        # h after this step is also what the next one found; where t = −1, it is the initial state
        h = tl.load(states + (t + 1) * B * DEPTH + there, mask=going | done, other=0.0)
        line = targets * q_target + place(t + 1, length, d) * q_time + rows * q_row
        acc = times_weights(
            tl.zeros((BB, UB), dtype=tl.float32), q_m, (line * directions + d) * DEPTH, is_done, w, rest, UB, DEPTH, BK
        )
        share = shared_out(shares_m, (line * directions + d) * GROUP, is_done, GROUP, MEMBERS)
        relevance += tl.where(done, h * acc + share[:, None], 0.0)
        now = place(t, length, d)
        s_h, s_a, s_m = sign(h), sign(a), sign(m)
        whole = 1 / (h + epsilon * s_h)
        edge = epsilon * returned / fan_in * s_a + delta / fan_in * b_a
        r = relevance
        if HAS_OUT:
            at = (targets * out_target + now * out_time + rows * out_row)[:, None] + d * H + units[None, :]
            r += tl.load(r_out + at, mask=going, other=0.0)
        r = tl.where(going, r, 0.0)
        unit_a = (written + 0.5 * epsilon * returned * s_h) * whole / (a + epsilon * s_a) * r
        unit_m = unit_a * (gated + edge) / (m + epsilon * s_m)
        relevance = tl.where(going, (h - written + 0.5 * epsilon * returned * s_h) * whole * r, relevance)
        from_stabiliser += tl.sum((1 - returned) * epsilon * (s_h * whole * r + s_a * unit_a + s_m * unit_m), 1)
        from_bias += (1 - delta) * tl.sum(unit_a * b_a + unit_m * b_m, 1)
        part = tl.sum(unit_m * (epsilon * returned / H * s_m + delta / H * b_m), 1)
        line = targets * q_target + now * q_time + rows * q_row
        at_q, wide = (line * directions + d)[:, None] * DEPTH + units[None, :], on[:, None] & (units < DEPTH)[None, :]
        at_share = (line * directions + d) * GROUP
        tl.store(q + at_q, unit_a, mask=wide)
        tl.store(q_m + at_q, unit_m, mask=wide)
        tl.store(shares + at_share + own, tl.sum(unit_a * edge, 1), mask=on)
        tl.store(shares_m + at_share + own, part, mask=on)
        meet(counter, step, GROUP, IS_WHOLE)
    tl.store(r_h + state, relevance, mask=inside)
    tl.store(of_bias + account, from_bias, mask=lines < last)
    tl.store(of_stabiliser + account, from_stabiliser, mask=lines < last)
