"""Both directions of one LSTM layer at once, in few and large operations: what `reference` computes, for the rule "all".

The forward pass keeps the states and the gates. With r the relevance that arrives at the cell,

    R_c⁻ = kept · r,    kept = ( f ⊙ c⁻ + ½ ε s ) / ( c + ε s )
    q    = new · r,     new  = ( i ⊙ g + ½ ε s ) / ( c + ε s ) / ( a + ε sign a )     relevance per unit of the candidate's sum

so a step back is two elementwise products and one matrix product, q W for h⁻. The product q U for x is done once, at the end,
for all steps. Samples are sorted by length, longest first, so those still running at a step come first.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import linear

from whence.equations import Rules
from whence.recurrent.lstm.weights import LSTMWeights, lstm_gates
from whence.recurrent.sequences import running
from whence.recurrent.sweep import Swept

AT_ONCE = 2**28  # bytes of states; the factors of all their steps take four times as much


class Tape(NamedTuple):
    """What the forward pass keeps, for D directions. State t is the one *before* step t; the last one is final."""

    x: Tensor  # (D, T, B, E)
    h: Tensor  # (D, T + 1, B, H)
    c: Tensor  # (D, T + 1, B, H)
    gates: Tensor  # (D, T, B, 4H): i, f and o after the sigmoid, the candidate before tanh
    lengths: Tensor | None  # (B,), descending

    def outputs(self) -> list[Tensor]:
        """For every direction the hidden state after every step (T, B, H), zero where the sequence has ended."""
        found = self.h[:, 1:]
        if self.lengths is not None:
            steps = torch.arange(found.shape[1], device=found.device)
            found = found * (steps[:, None] < self.lengths)[..., None]
        return list(found)

    def final(self) -> list[tuple[Tensor, ...]]:
        """For every direction the final states h and c (B, H)."""
        return list(zip(self.h[:, -1], self.c[:, -1], strict=True))


def forward(
    x: Sequence[Tensor],
    weights: Sequence[LSTMWeights],
    *,
    states: Sequence[tuple[Tensor, ...]],
    lengths: Tensor | None,
) -> Tape:
    """Run D directions over x (T, B, E), each in its own order, from the states h and c (B, H)."""
    stacked = torch.stack(list(x))  # (D, T, B, E)
    directions, steps, batch, _ = stacked.shape
    hidden = weights[0].hidden_size
    w = torch.stack([_candidate_last(each.hidden).T for each in weights])  # (D, H, 4H)
    gates = stacked.new_empty(directions, steps, batch, 4 * hidden)
    for d, each in enumerate(weights):
        bias = None if each.bias is None else _candidate_last(each.bias)
        gates[d] = linear(stacked[d], _candidate_last(each.input), bias)
    h, c = (stacked.new_empty(directions, steps + 1, batch, hidden) for _ in range(2))
    for d, (h_0, c_0) in enumerate(states):
        h[d, 0], c[d, 0] = h_0, c_0
    _steps(gates, h, c, w, running(steps, batch, lengths))
    return Tape(stacked, h, c, gates, lengths)


def _steps(gates: Tensor, h: Tensor, c: Tensor, w: Tensor, rows_by_step: Sequence[int]) -> None:
    """Run all steps in place: fill h and c, and apply the sigmoid to the three gates in `gates`."""
    hidden = h.shape[-1]
    gate_steps, three_gates, candidates = (
        each.unbind(1) for each in (gates, gates[..., : 3 * hidden], gates[..., 3 * hidden :])
    )
    h_steps, c_steps = h.unbind(1), c.unbind(1)
    for t, rows in enumerate(rows_by_step):
        for state in (h_steps, c_steps):
            state[t + 1][:, rows:] = state[t][:, rows:]
        gate_steps[t][:, rows:] = 0
        sums, c_t = gate_steps[t][:, :rows], c_steps[t + 1][:, :rows]
        sums.baddbmm_(h_steps[t][:, :rows], w)
        i, f, o = three_gates[t][:, :rows].sigmoid_().chunk(3, dim=-1)
        torch.mul(f, c_steps[t][:, :rows], out=c_t).addcmul_(i, candidates[t][:, :rows].tanh())
        torch.mul(o, c_t.tanh(), out=h_steps[t + 1][:, :rows])


def _candidate_last(rows: Tensor) -> Tensor:
    """PyTorch's rows i, f, g, o as i, f, o, g, so that one sigmoid covers the three gates."""
    i, f, g, o = lstm_gates(rows, axis=0)
    return torch.cat([i, f, o, g])


class Factors(NamedTuple):
    """The factors of some steps back, each (D, steps, 1, b, H) for the b samples that are still running."""

    kept: Tensor
    new: Tensor
    share: Tensor  # the share of every input of the candidate's sum, per unit of q
    stabiliser: Tensor | None  # what the stabilisers of both sums absorb, per unit of r

    def at(self, step: int) -> "Factors":
        """Those of one step, each (D, 1, b, H)."""
        lost = None if self.stabiliser is None else self.stabiliser[:, step]
        return Factors(self.kept[:, step], self.new[:, step], self.share[:, step], lost)


def factors_of(tape: Tape, times: slice, rows: int, bias: Tensor | None, fan_in: int, rules: Rules) -> Factors:
    """The factors of some steps."""
    i, f, _, a = tape.gates[:, times, None, :rows].chunk(4, dim=-1)
    before, c = tape.c[:, :-1][:, times, None, :rows], tape.c[:, 1:][:, times, None, :rows]
    epsilon = torch.tensor(rules.epsilon, dtype=c.dtype, device="cpu")  # 0-dim: combines with any device
    edge_c, edge_a = torch.copysign(epsilon, c + 0.0), torch.copysign(epsilon, a + 0.0)  # ε sign z, with sign(−0) = +1
    whole_c, whole_a = (c + edge_c).reciprocal_(), (a + edge_a).reciprocal_()
    half = edge_c * (0.5 * rules.returned)
    kept, new = (f * before).add_(half).mul_(whole_c), (i * a.tanh()).add_(half).mul_(whole_c)
    lost = (edge_c * whole_c + edge_a * whole_a * new).mul_(1 - rules.returned) if rules.returned != 1 else None
    share = edge_a.mul_(rules.returned / fan_in)
    if bias is not None:
        share = share + bias[:, None, None] * (rules.delta / fan_in)
    return Factors(kept, new.mul_(whole_a), share, lost)


def is_at_once(tape: Tape) -> bool:
    """Whether the factors of all steps are computed at once: on a GPU, where launches cost more than memory.

    On a CPU, the numbers of one step stay in the cache.
    """
    return tape.c.is_cuda and tape.lengths is None and tape.c.nbytes <= AT_ONCE


class Work(NamedTuple):
    """Buffers that the backward pass fills: the relevance of the states, and for every step q and each sample's share."""

    r_h: Tensor  # (D, K, B, H)
    r_c: Tensor  # (D, K, B, H)
    q: Tensor  # (D, T, K, B, H)
    shares: Tensor  # (D, T, K, B, 1)
    absorbed: Tensor  # (D, K, B), by the stabiliser


def relevance(
    tape: Tape,
    weights: Sequence[LSTMWeights],
    *,
    r_outputs: Sequence[Tensor] | None,
    r_states: Sequence[tuple[Tensor, ...]],
    rules: Rules,
) -> list[Swept]:
    """For every direction, hand back the relevance of every step's output (K, T, B, H) and of the final states (K, B, H)."""
    directions, steps, batch, embedding = tape.x.shape
    r_h, r_c = (torch.stack([each[n] for each in r_states]).contiguous() for n in (0, 1))
    targets, hidden = r_h.shape[1], r_h.shape[-1]
    work = Work(
        r_h, r_c,
        r_h.new_zeros(directions, steps, targets, batch, hidden),
        r_h.new_zeros(directions, steps, targets, batch, 1),
        r_h.new_zeros(directions, targets, batch),
    )  # fmt: skip
    # the relevance of the outputs of all directions: one (D, K, B, H) for every step
    arriving = None if r_outputs is None else torch.stack(list(r_outputs)).unbind(2)
    u, w, bias = _candidates(weights)
    _steps_back(tape, w, bias, work, arriving, embedding + hidden, rules)
    return [
        Swept(
            _of_inputs(tape.x[d], work.q[d], work.shares[d], u[d]),
            (r_h[d], r_c[d]),
            _of_bias(work.q[d], None if bias is None else bias[d, 0], rules),
            work.absorbed[d],
        )
        for d in range(directions)
    ]


def _steps_back(
    tape: Tape, w: Tensor, bias: Tensor | None, work: Work, arriving: Sequence[Tensor] | None, fan_in: int, rules: Rules
) -> None:
    """Run all steps back in place."""
    directions, _, batch, hidden = work.r_h.shape
    h_steps, q_steps, share_steps = tape.h.unsqueeze(2).unbind(1), work.q.unbind(1), work.shares.unbind(1)
    of_all = factors_of(tape, slice(None), batch, bias, fan_in, rules) if is_at_once(tape) else None
    for t, rows in reversed(list(enumerate(running(len(q_steps), batch, tape.lengths)))):
        own = factors_of(tape, slice(t, t + 1), rows, bias, fan_in, rules) if of_all is None else None
        factors = own.at(0) if own is not None else cast(Factors, of_all).at(t)
        r, r_h, q = work.r_c[:, :, :rows], work.r_h[:, :, :rows], q_steps[t][:, :, :rows]
        r += r_h if arriving is None else r_h + arriving[t][:, :, :rows]
        torch.mul(r, factors.new, out=q)
        share = (q * factors.share).sum(-1, keepdim=True)
        product = torch.bmm(q.reshape(directions, -1, hidden), w).view(q.shape)
        torch.addcmul(share, h_steps[t][:, :, :rows], product, out=r_h)
        share_steps[t][:, :, :rows] = share
        if factors.stabiliser is not None:
            work.absorbed[:, :, :rows] += (r * factors.stabiliser).sum(-1)
        r *= factors.kept


def _candidates(weights: Sequence[LSTMWeights]) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """The candidates' rows of all directions: input (H, E) each, hidden (D, H, H), bias (D, 1, H)."""
    found = [each.candidate() for each in weights]
    biases = [bias for _, _, bias in found if bias is not None]
    bias = torch.stack(biases)[:, None] if biases else None
    return [u for u, _, _ in found], torch.stack([w for _, w, _ in found]), bias


def _of_bias(q: Tensor, bias: Tensor | None, rules: Rules) -> Tensor:
    """What the bias absorbs over all steps:  (1 − δ) Σ_t b · q_t, (K, B)."""
    if bias is None or rules.delta == 1:
        return q.new_zeros(q.shape[1:3])
    return (q.sum(0) @ bias).mul_(1 - rules.delta)


def _of_inputs(x: Tensor, q: Tensor, shares: Tensor, u: Tensor) -> Tensor:
    """R_x = x ⊙ (q U) + share, for all steps at once: x (T, B, E), q (T, K, B, H), shares (T, K, B, 1) to (K, T, B, E)."""
    back = (q.view(-1, q.shape[-1]) @ u).view(*q.shape[:-1], u.shape[-1])
    return torch.addcmul(shares, back, x[:, None]).transpose(0, 1)
