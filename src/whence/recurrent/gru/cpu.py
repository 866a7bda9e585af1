"""Both directions of one GRU layer at once, by compiled kernels: what `reference` computes, for the rule "all".

With r the relevance that arrives at h, one step back is

    stays with h⁻:  ( z ⊙ h⁻ + ½ ε s ) / ( h + ε s ) · r
    q_a = ( (1 − z) ⊙ n + ½ ε s ) / ( h + ε s ) / ( a + ε sign a ) · r        per unit of the candidate's sum a
    q_m = q_a ( ρ ⊙ m + share of a ) / ( m + ε sign m )                       per unit of m = W h⁻ + b_hn; ρ the reset gate

and one matrix product, q_m W for h⁻; that of q_a for x waits until all steps are done. Samples are sorted by length.
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from whence.recurrent.compiled import built, number, pointer
from whence.recurrent.sequences import running
from whence.recurrent.sweep import Swept
from whence.recurrent.together import by_step, of_inputs, outputs
from whence.recurrent.weights import GRUWeights
from whence.rules.equations import Rules


class Tape(NamedTuple):
    """What the forward pass keeps, for D directions. State t is the one *before* step t; the last one is final."""

    x: Tensor  # (D, T, B, E)
    h: Tensor  # (D, T + 1, B, H)
    gates: Tensor  # (D, T, B, 3H): reset and update opened, then the candidate's sum a
    m: Tensor  # (D, T, B, H)
    lengths: Tensor | None  # (B,), descending

    def outputs(self) -> list[Tensor]:
        """For every direction the hidden state after every step (T, B, H), zero where the sequence has ended."""
        return outputs(self.h, self.lengths)

    def final(self) -> list[tuple[Tensor, ...]]:
        """For every direction the final state h (B, H)."""
        return [(h,) for h in self.h[:, -1]]


def _biases(bias: Tensor | None, hidden: int, like: Tensor) -> Tensor:
    return like.new_zeros(3 * hidden) if bias is None else bias


def forward(
    x: Sequence[Tensor], weights: Sequence[GRUWeights], *, states: Sequence[tuple[Tensor, ...]], lengths: Tensor | None
) -> Tape:
    """Run D directions over x (T, B, E), each in its own order, from the state h (B, H)."""
    stacked = torch.stack(list(x))  # (D, T, B, E)
    directions, steps, batch, _ = stacked.shape
    hidden = weights[0].hidden.shape[1]
    ending = "single" if stacked.dtype == torch.float32 else "double"
    run = getattr(built("gru/steps.c", stacked.dtype).library, f"forward_{ending}")
    gates = torch.stack([linear(own, each.input, each.input_bias) for own, each in zip(stacked, weights, strict=True)])
    w = torch.stack([each.hidden.T for each in weights])  # (D, H, 3H)
    b_h = torch.stack([_biases(each.hidden_bias, hidden, stacked) for each in weights])[:, None]  # (D, 1, 3H)
    h = stacked.new_empty(directions, steps + 1, batch, hidden)
    m = stacked.new_zeros(directions, steps, batch, hidden)
    for d, (h_0,) in enumerate(states):
        h[d, 0] = h_0
    h_steps, gate_steps, m_steps = h.unbind(1), gates.unbind(1), m.unbind(1)
    sizes = [number(each) for each in (directions, hidden, gates.stride(0), m.stride(0), h.stride(0))]
    for t, rows in enumerate(running(steps, batch, lengths)):
        from_h = torch.baddbmm(b_h, h_steps[t][:, :rows], w)
        run(
            sizes[0], number(rows), sizes[1], pointer(gate_steps[t]), sizes[2], pointer(from_h), pointer(m_steps[t]), sizes[3],
            pointer(h_steps[t]), pointer(h_steps[t + 1]), sizes[4],
        )  # fmt: skip
        h_steps[t + 1][:, rows:] = h_steps[t][:, rows:]
    return Tape(stacked, h, gates, m, lengths)


def relevance(
    tape: Tape,
    weights: Sequence[GRUWeights],
    *,
    r_outputs: Sequence[Tensor | None],
    r_states: Sequence[tuple[Tensor, ...]],
    rule: Rules,
) -> list[Swept]:
    """For every direction, hand back the relevance of every step's output (K, T, B, H) and of the final state (K, B, H)."""
    directions, steps, batch, embedding = tape.x.shape
    r_h = torch.stack([state for (state,) in r_states]).contiguous()  # (D, K, B, H)
    targets, hidden = r_h.shape[1], r_h.shape[-1]
    q_a, q_m = r_h.new_zeros(2, directions, steps, targets, batch, hidden)
    shares, share_m = r_h.new_zeros(2, directions, steps, targets, batch, 1)
    absorbed = r_h.new_zeros(directions, targets, batch)
    arriving = by_step(r_outputs)
    parts = [each.candidate() for each in weights]
    w = torch.stack([own for _, own, _, _ in parts])
    b_in, b_hn = (
        torch.stack([r_h.new_zeros(hidden) if bias is None else bias for bias in biases])
        for biases in zip(*((b_x, b_h) for _, _, b_x, b_h in parts), strict=True)
    )
    work = Work(r_h, q_a, q_m, shares, share_m, absorbed)
    _steps_back(tape, w, (b_in, b_hn), work, arriving, embedding, rule)
    return [
        Swept(
            of_inputs(tape.x[i], q_a[i], shares[i], parts[i][0]),
            (r_h[i],),
            (q_a[i].sum(0) @ b_in[i] + q_m[i].sum(0) @ b_hn[i]).mul_(1 - rule.delta),
            absorbed[i],
        )
        for i in range(directions)
    ]


class Work(NamedTuple):
    """What the way back fills: relevance of the state, and for all steps q and the shares of both sums."""

    r_h: Tensor  # (D, K, B, H)
    q_a: Tensor  # (D, T, K, B, H)
    q_m: Tensor  # (D, T, K, B, H)
    share_a: Tensor  # (D, T, K, B, 1)
    share_m: Tensor  # (D, T, K, B, 1)
    absorbed: Tensor  # (D, K, B), by the stabiliser


def _steps_back(
    tape: Tape,
    w: Tensor,
    biases: tuple[Tensor, Tensor],
    work: Work,
    arriving: Sequence[Tensor] | None,
    inputs: int,
    rule: Rules,
) -> None:
    """The steps back by compiled kernels; only the matrix product is PyTorch's."""
    r_h, q_a, q_m, shares, share_m, absorbed = work
    directions, _, batch, hidden = r_h.shape
    ending = "single" if r_h.dtype == torch.float32 else "double"
    library = built("gru/steps.c", r_h.dtype).library
    back, onward = getattr(library, f"back_{ending}"), getattr(library, f"hidden_{ending}")
    d, k, b, n = (number(size) for size in r_h.shape)
    of_gates, of_m, of_states, of_q, of_shares = (number(each.stride(0)) for each in (tape.gates, tape.m, tape.h, q_a, shares))
    out = [number(stride) for stride in ((0, 0) if arriving is None else arriving[0].stride()[:2])]
    settings = [*(ctypes.c_double(each) for each in (rule.epsilon, rule.returned, rule.delta)), number(inputs)]
    scratch = r_h.new_empty(6 * hidden)
    fixed = [pointer(each) for each in (*biases, r_h, absorbed, scratch)]
    views = [each.unbind(1) for each in (tape.gates, tape.m, tape.h, q_a, q_m, shares, share_m)]
    for t, rows in reversed(list(enumerate(running(q_a.shape[1], batch, tape.lengths)))):
        gates, m, h, a_t, m_t, s_a, s_m = (each[t] for each in views)
        count = number(rows)
        back(
            d, k, b, count, n, pointer(gates), of_gates, pointer(m), of_m, pointer(h), pointer(views[2][t + 1]), of_states,
            fixed[0], fixed[1], pointer(None if arriving is None else arriving[t]), *out, fixed[2], pointer(a_t), pointer(m_t),
            of_q, pointer(s_a), pointer(s_m), of_shares, fixed[3], fixed[4], *settings,
        )  # fmt: skip
        product = torch.bmm(m_t[:, :, :rows].reshape(directions, -1, hidden), w)
        onward(d, k, b, count, n, pointer(product), pointer(h), of_states, pointer(s_m), of_shares, fixed[2], number(1))
