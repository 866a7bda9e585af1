"""One direction of one LSTM layer, step by step as the formulas read; the measure for every faster path, not fast itself.

i, f, o = σ(W h⁻ + U x + b)    a = W_g h⁻ + U_g x + b_g    g = tanh a
c = f ⊙ c⁻ + i ⊙ g             m = o ⊙ tanh c              h = m, or P m with a projection
"""

from typing import NamedTuple

import torch
from torch import Tensor

from whence.recurrent.weights import LSTMWeights, lstm_gates
from whence.rules.equations import (
    WeightedRule,
    absorbed_by_bias,
    absorbed_by_stabiliser,
    coefficient,
    linear_epsilon,
    product_all,
    share,
    sum_epsilon,
)


class Tape(NamedTuple):
    """What the forward pass keeps. State t of `h` and `c` is the one *before* step t; the last one is final."""

    x: Tensor  # (T, B, E)
    h: Tensor  # (T + 1, B, P)
    c: Tensor  # (T + 1, B, H)
    i: Tensor  # (T, B, H)
    f: Tensor  # (T, B, H)
    a: Tensor  # (T, B, H)
    o: Tensor  # (T, B, H)
    active: Tensor | None  # (T, B, 1), False where a sequence has ended; None when all have the same length

    def outputs(self) -> Tensor:
        """The hidden state after every step (T, B, P), zero where the sequence has ended."""
        return self.h[1:] if self.active is None else self.h[1:] * self.active


class Swept(NamedTuple):
    """Where the relevance of one layer went. K targets at once."""

    x: Tensor  # (K, T, B, E)
    h: Tensor  # (K, B, P), the initial hidden state's
    c: Tensor  # (K, B, H), the initial cell state's
    bias: Tensor  # (K, B)
    stabiliser: Tensor  # (K, B)


def forward(x: Tensor, weights: LSTMWeights, *, h0: Tensor, c0: Tensor, lengths: Tensor | None = None) -> Tape:
    """Run the layer over x (T, B, E) from the states h0 (B, P) and c0 (B, H); a sequence that has ended keeps its state."""
    steps = len(x)
    active = None
    if lengths is not None:
        active = (torch.arange(steps, device=x.device)[:, None] < lengths)[..., None]
    from_x = x @ weights.input.T
    if weights.bias is not None:
        from_x = from_x + weights.bias
    h, c = [h0], [c0]
    gates: list[tuple[Tensor, ...]] = []
    for t in range(steps):
        z = lstm_gates(from_x[t] + h[-1] @ weights.hidden.T)
        i, f, o = z.i.sigmoid(), z.f.sigmoid(), z.o.sigmoid()
        c_t = f * c[-1] + i * z.g.tanh()
        h_t = o * c_t.tanh()
        if weights.projection is not None:
            h_t = h_t @ weights.projection.T
        h.append(h_t if active is None else torch.where(active[t], h_t, h[-1]))
        c.append(c_t if active is None else torch.where(active[t], c_t, c[-1]))
        gates.append((i, f, z.g, o))
    i, f, a, o = (torch.stack(each) for each in zip(*gates, strict=True))
    return Tape(x, torch.stack(h), torch.stack(c), i, f, a, o, active)


def relevance(tape: Tape, weights: LSTMWeights, *, r_outputs: Tensor, r_h: Tensor, r_c: Tensor, rule: WeightedRule) -> Swept:
    """Hand back the relevance of every step's output (K, T, B, P) and of the final states (K, B, P), (K, B, H).

    Backwards in time, the cell sum has N = 2 and the candidate N = E + P:

        R_c   += R_m                                             gate o, then tanh: passed through
        R_c⁻   = ( f ⊙ c⁻ + ε s/2 ) / ( c + ε s ) · R_c          R_g likewise with i ⊙ g
        R_x, R_h⁻  from R_g by the weighted rule on a, whose bias is b_g
    """
    u, w, bias = weights.candidate()
    fan_in = u.shape[1] + w.shape[1]
    r_x = torch.empty(*r_outputs.shape[:-1], u.shape[1], dtype=r_outputs.dtype, device=r_outputs.device)
    by_bias = by_stabiliser = r_c.new_zeros(r_c.shape[:-1])
    for t in reversed(range(len(tape.x))):
        x, h_before, c_before, c = tape.x[t], tape.h[t], tape.c[t], tape.c[t + 1]
        i, f, a, o = tape.i[t], tape.f[t], tape.a[t], tape.o[t]
        r_h = r_h + r_outputs[:, t]
        ended_h, ended_c = r_h, r_c
        if tape.active is not None:  # a sequence that has ended only waits
            ended_h, ended_c = r_h * ~tape.active[t], r_c * ~tape.active[t]
            r_h, r_c = r_h * tape.active[t], r_c * tape.active[t]

        if weights.projection is not None:
            q = coefficient(tape.h[t + 1], r_out=r_h, epsilon=rule.epsilon)
            shared = share(tape.h[t + 1], q=q, bias=None, fan_in=c.shape[-1], rule=rule) if rule.shares else None
            by_stabiliser = by_stabiliser + absorbed_by_stabiliser(tape.h[t + 1], q=q, rule=rule).sum(-1)
            r_h = linear_epsilon(o * c.tanh(), weights.projection, q=q, share=shared)

        r_c = r_c + product_all(r_h)
        q = coefficient(c, r_out=r_c, epsilon=rule.epsilon)
        shared = share(c, q=q, bias=None, fan_in=2, rule=rule) if rule.shares else None
        by_stabiliser = by_stabiliser + absorbed_by_stabiliser(c, q=q, rule=rule).sum(-1)
        r_c = product_all(sum_epsilon(f * c_before, q=q, share=shared))
        r_g = product_all(sum_epsilon(i * a.tanh(), q=q, share=shared))

        q = coefficient(a, r_out=r_g, epsilon=rule.epsilon)
        shared = share(a, q=q, bias=bias, fan_in=fan_in, rule=rule) if rule.shares else None
        by_stabiliser = by_stabiliser + absorbed_by_stabiliser(a, q=q, rule=rule).sum(-1)
        if bias is not None:
            by_bias = by_bias + absorbed_by_bias(bias, q=q, rule=rule).sum(-1)
        r_x[:, t] = linear_epsilon(x, u, q=q, share=shared)
        r_h = linear_epsilon(h_before, w, q=q, share=shared)

        if tape.active is not None:
            r_h, r_c = r_h + ended_h, r_c + ended_c
    return Swept(r_x, r_h, r_c, by_bias, by_stabiliser)
