"""One direction of one LSTM layer, step by step as the formulas read; the measure for every faster path, not fast itself.

i, f, o = σ(W h⁻ + U x + b)    a = W_g h⁻ + U_g x + b_g    g = tanh a
c = f ⊙ c⁻ + i ⊙ g             m = o ⊙ tanh c              h = m, or P m with a projection
"""

from typing import NamedTuple

import torch
from torch import Tensor

from whence.recurrent.sweep import Books, Swept, activity, split_ended
from whence.recurrent.weights import LSTMWeights, lstm_gates
from whence.rules.equations import WeightedRule, linear_epsilon, product_all, sum_epsilon


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

    def final(self) -> tuple[Tensor, ...]:
        """The final states h (B, P) and c (B, H)."""
        return self.h[-1], self.c[-1]


def forward(x: Tensor, weights: LSTMWeights, *, states: tuple[Tensor, ...], lengths: Tensor | None = None) -> Tape:
    """Run the layer over x (T, B, E) from the states h (B, P) and c (B, H); a sequence that has ended keeps its state."""
    active = activity(len(x), lengths)
    from_x = x @ weights.input.T
    if weights.bias is not None:
        from_x = from_x + weights.bias
    h, c = [states[0]], [states[1]]
    gates: list[tuple[Tensor, ...]] = []
    for t in range(len(x)):
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


def relevance(
    tape: Tape, weights: LSTMWeights, *, r_outputs: Tensor, r_states: tuple[Tensor, ...], rule: WeightedRule
) -> Swept:
    """Hand back the relevance of every step's output (K, T, B, P) and of the final states (K, B, P), (K, B, H).

    Backwards in time, the cell sum has N = 2 and the candidate N = E + P:

        R_c   += R_m                                             gate o, then tanh: passed through
        R_c⁻   = ( f ⊙ c⁻ + ε s/2 ) / ( c + ε s ) · R_c          R_g likewise with i ⊙ g
        R_x, R_h⁻  from R_g by the weighted rule on a, whose bias is b_g
    """
    u, w, bias = weights.candidate()
    r_h, r_c = r_states
    books = Books(rule, r_c)
    r_x = r_outputs.new_empty(*r_outputs.shape[:-1], u.shape[1])
    for t in reversed(range(len(tape.x))):
        c, i, f, a, o = tape.c[t + 1], tape.i[t], tape.f[t], tape.a[t], tape.o[t]
        active = None if tape.active is None else tape.active[t]
        r_h, ended_h = split_ended(r_h + r_outputs[:, t], active)
        r_c, ended_c = split_ended(r_c, active)
        if weights.projection is not None:
            q, s = books.sum(tape.h[t + 1], r_out=r_h, fan_in=weights.hidden_size)
            r_h = linear_epsilon(o * c.tanh(), weights.projection, q=q, share=s)

        q, s = books.sum(c, r_out=r_c + product_all(r_h), fan_in=2)
        r_c = product_all(sum_epsilon(f * tape.c[t], q=q, share=s)) + ended_c
        r_g = product_all(sum_epsilon(i * a.tanh(), q=q, share=s))

        q, s = books.sum(a, r_out=r_g, fan_in=u.shape[1] + w.shape[1], bias=bias)
        r_x[:, t] = linear_epsilon(tape.x[t], u, q=q, share=s)
        r_h = linear_epsilon(tape.h[t], w, q=q, share=s) + ended_h
    return Swept(r_x, (r_h, r_c), books.bias, books.stabiliser)
