# pyright: basic
"""The steps of an LSTM layer in Triton, forward and back; what they compute is written in reference.py.

The tape holds for every step  i ⊙ g, a, c,  each (B, H); `states` (D, T + 1, B, H) is h before every step and after the last.
"""

import triton
import triton.language as tl

from whence.recurrent.gpu.shared import four_parts, hyperbolic, meet, place, shared_out, sigmoid, sign, times_weights

KEPT = tl.constexpr(3)


@triton.jit
def forward(
    sums, hidden, states, h_n, c_n, tape, out, lengths, counters, first, last, B, T, sums_time, sums_row, out_time, out_row,
    t_from, t_to, H: tl.constexpr, DEPTH: tl.constexpr, BB: tl.constexpr, UB: tl.constexpr, BK: tl.constexpr,
    GROUP: tl.constexpr, IS_WHOLE: tl.constexpr, OFFSET: tl.constexpr,
):  # fmt: skip
    """Steps t_from … t_to of every sequence from row `first` to `last`; sums (T, B, D·4H) hold U x + b."""
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
    c = tl.load(c_n + state, mask=inside, other=0.0)
    for t in range(t_from, tl.minimum(t_to, tl.max(length))):
        on = (rows < last) & (length > t)
        now = place(t, length, d)
        going = inside & on[:, None]
        at = sums + (now * sums_time + rows * sums_row)[:, None] + d * 4 * H + units[None, :]
        x_i, x_f = tl.load(at, mask=going, other=0.0), tl.load(at + H, mask=going, other=0.0)
        x_g, x_o = tl.load(at + 2 * H, mask=going, other=0.0), tl.load(at + 3 * H, mask=going, other=0.0)
        z = times_weights(
            tl.zeros((BB, 4 * UB), dtype=tl.float32), states + t * B * DEPTH, rows * DEPTH, on, w, rest, 4 * UB, DEPTH, BK
        )
        z_i, z_f, z_g, z_o = four_parts(z, BB, UB)
        a = z_g + x_g
        written = sigmoid(z_i + x_i) * hyperbolic(a)
        c = tl.where(going, sigmoid(z_f + x_f) * c + written, c)
        shown = sigmoid(z_o + x_o) * hyperbolic(c)
        kept = tape + t * KEPT * plane + here
        tl.store(kept, written, mask=going)
        tl.store(kept + plane, a, mask=going)
        tl.store(kept + 2 * plane, c, mask=going)
        tl.store(states + (t + 1) * B * DEPTH + there, shown, mask=on[:, None] & (units < DEPTH)[None, :])
        tl.store(out + (now * out_time + rows * out_row)[:, None] + d * H + units[None, :], shown, mask=going)
        tl.store(h_n + state, shown, mask=going & (length == t + 1)[:, None])
        meet(counter, t - t_from, GROUP, IS_WHOLE)
    tl.store(c_n + state, c, mask=inside)


@triton.jit
def back(
    tape, states, weights, bias, r_h, r_c, r_out, q, shares, of_bias, of_stabiliser, lengths, counters, first, last, B, T,
    K, q_target, q_time, q_row, out_target, out_time, out_row, t_from, t_to, epsilon, returned, delta, fan_x, H:
    tl.constexpr, DEPTH: tl.constexpr, BB: tl.constexpr, UB: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, MEMBERS:
    tl.constexpr, HAS_OUT: tl.constexpr, IS_WHOLE: tl.constexpr, OFFSET: tl.constexpr,
):  # fmt: skip
    """Steps t_to … t_from back, for the rows `first` to `last` of all K·B; weights are W_gᵀ, cut up by unit."""
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
    b = tl.load(bias + d * H + units, mask=units < H, other=0.0)[None, :]
    relevance_h = tl.load(r_h + state, mask=inside, other=0.0)
    relevance_c = tl.load(r_c + state, mask=inside, other=0.0)
    w, rest = weights + (d * GROUP + own) * UB * DEPTH, tl.num_programs(2) * GROUP * UB * DEPTH
    account = (d * K * B + lines) * GROUP + own
    from_bias = tl.load(of_bias + account, mask=lines < last, other=0.0)
    from_stabiliser = tl.load(of_stabiliser + account, mask=lines < last, other=0.0)
    fan_in = fan_x + H
    directions = tl.num_programs(2)
    ends = tl.minimum(t_to, tl.max(length))
    for step in range(ends - t_from):
        t = ends - 1 - step
        # this step, which is none where t = −1, needs what the one after it, which all have done, hands back to h
        on, is_done = (lines < last) & (length > t) & (t >= 0), (lines < last) & (length > t + 1)
        going, done = inside & on[:, None], inside & is_done[:, None]
        kept = tape + t * KEPT * plane + here
        written, a = tl.load(kept, mask=going, other=0.0), tl.load(kept + plane, mask=going, other=0.0)
        c = tl.load(kept + 2 * plane, mask=going, other=0.0)
        h = tl.load(states + (t + 1) * B * DEPTH + there, mask=done, other=0.0)
        line = targets * q_target + place(t + 1, length, d) * q_time + rows * q_row
        acc = times_weights(
            tl.zeros((BB, UB), dtype=tl.float32), q, (line * directions + d) * DEPTH, is_done, w, rest, UB, DEPTH, BK
        )
        share = shared_out(shares, (line * directions + d) * GROUP, is_done, GROUP, MEMBERS)
        relevance_h = tl.where(done, h * acc + share[:, None], relevance_h)
        now = place(t, length, d)
        s_c, s_a = sign(c), sign(a)
        whole, candidate = 1 / (c + epsilon * s_c), 1 / (a + epsilon * s_a)
        into = (written + 0.5 * epsilon * returned * s_c) * whole
        r = relevance_c + relevance_h
        if HAS_OUT:
            at = (targets * out_target + now * out_time + rows * out_row)[:, None] + d * H + units[None, :]
            r += tl.load(r_out + at, mask=going, other=0.0)
        r = tl.where(going, r, 0.0)
        unit = into * candidate * r
        relevance_h = tl.where(going, 0.0, relevance_h)
        relevance_c = tl.where(going, (c - written + 0.5 * epsilon * returned * s_c) * whole * r, relevance_c)
        from_stabiliser += tl.sum((1 - returned) * epsilon * (s_c * whole + s_a * candidate * into) * r, 1)
        from_bias += (1 - delta) * tl.sum(unit * b, 1)
        part = tl.sum(unit * (epsilon * returned / fan_in * s_a + delta / fan_in * b), 1)
        line = targets * q_target + now * q_time + rows * q_row
        tl.store(
            q + (line * directions + d)[:, None] * DEPTH + units[None, :], unit, mask=on[:, None] & (units < DEPTH)[None, :]
        )
        tl.store(shares + (line * directions + d) * GROUP + own, part, mask=on)
        meet(counter, step, GROUP, IS_WHOLE)
    tl.store(r_h + state, relevance_h, mask=inside)
    tl.store(r_c + state, relevance_c, mask=inside)
    tl.store(of_bias + account, from_bias, mask=lines < last)
    tl.store(of_stabiliser + account, from_stabiliser, mask=lines < last)
