"""One direction of one GRU layer, step by step as the formulas read; the measure for every faster path, not fast itself.

r, z = σ(W h⁻ + U x + b)    m = W_n h⁻ + b_hn    a = U_n x + b_in + r ⊙ m    n = tanh a
h = (1 − z) ⊙ n + z ⊙ h⁻
"""

from typing import NamedTuple

import torch
from torch import Tensor

from whence.recurrent.sweep import Books, Swept, activity, split_ended
from whence.recurrent.weights import GRUWeights, gru_gates
from whence.rules.equations import WeightedRule, linear_epsilon, product_all, sum_epsilon


class Tape(NamedTuple):
    """What the forward pass keeps. State t of `h` is the one *before* step t; the last one is final."""

    x: Tensor  # (T, B, E)
    h: Tensor  # (T + 1, B, H)
    r: Tensor  # (T, B, H)
    z: Tensor  # (T, B, H)
    m: Tensor  # (T, B, H)
    a: Tensor  # (T, B, H)
    active: Tensor | None  # (T, B, 1), False where a sequence has ended; None when all have the same length

    def outputs(self) -> Tensor:
        """The hidden state after every step (T, B, H), zero where the sequence has ended."""
        return self.h[1:] if self.active is None else self.h[1:] * self.active

    def final(self) -> tuple[Tensor, ...]:
        """The final state h (B, H)."""
        return (self.h[-1],)


def forward(x: Tensor, weights: GRUWeights, *, states: tuple[Tensor, ...], lengths: Tensor | None = None) -> Tape:
    """Run the layer over x (T, B, E) from the state h (B, H); a sequence that has ended keeps its state."""
    active = activity(len(x), lengths)
    from_x = x @ weights.input.T
    if weights.input_bias is not None:
        from_x = from_x + weights.input_bias
    h = [states[0]]
    gates: list[tuple[Tensor, ...]] = []
    for t in range(len(x)):
        from_h = h[-1] @ weights.hidden.T
        if weights.hidden_bias is not None:
            from_h = from_h + weights.hidden_bias
        of_x, of_h = gru_gates(from_x[t]), gru_gates(from_h)
        r, z = (of_x.r + of_h.r).sigmoid(), (of_x.z + of_h.z).sigmoid()
        a = of_x.n + r * of_h.n
        h_t = (1 - z) * a.tanh() + z * h[-1]
        h.append(h_t if active is None else torch.where(active[t], h_t, h[-1]))
        gates.append((r, z, of_h.n, a))
    r, z, m, a = (torch.stack(each) for each in zip(*gates, strict=True))
    return Tape(x, torch.stack(h), r, z, m, a, active)


def relevance(tape: Tape, weights: GRUWeights, *, r_outputs: Tensor, r_states: tuple[Tensor, ...], rule: WeightedRule) -> Swept:
    """Hand back the relevance of every step's output (K, T, B, H) and of the final state (K, B, H).

    Backwards in time; the state's sum has N = 2, the candidate's N = E + 1, and m, the source of a product, N = H:

        R_n    = ( (1 − z) ⊙ n + ε s/2 ) / ( h + ε s ) · R_h          R_h⁻ likewise with z ⊙ h⁻
        R_x, R_m   from R_n by the weighted rule on a, whose bias is b_in and whose other term is r ⊙ m
        R_h⁻  += the weighted rule on m, whose bias is b_hn
    """
    u, w, bias_x, bias_h = weights.candidate()
    (r_h,) = r_states
    books = Books(rule, r_h)
    r_x = r_outputs.new_empty(*r_outputs.shape[:-1], u.shape[1])
    for t in reversed(range(len(tape.x))):
        r, z, m, a = tape.r[t], tape.z[t], tape.m[t], tape.a[t]
        r_h, ended = split_ended(r_h + r_outputs[:, t], None if tape.active is None else tape.active[t])

        q, s = books.sum(tape.h[t + 1], r_out=r_h, fan_in=2)
        r_n = product_all(sum_epsilon((1 - z) * a.tanh(), q=q, share=s))
        r_h = product_all(sum_epsilon(z * tape.h[t], q=q, share=s)) + ended

        q, s = books.sum(a, r_out=r_n, fan_in=u.shape[1] + 1, bias=bias_x)
        r_x[:, t] = linear_epsilon(tape.x[t], u, q=q, share=s)
        r_m = product_all(sum_epsilon(r * m, q=q, share=s))

        q, s = books.sum(m, r_out=r_m, fan_in=w.shape[1], bias=bias_h)
        r_h = r_h + linear_epsilon(tape.h[t], w, q=q, share=s)
    return Swept(r_x, (r_h,), books.bias, books.stabiliser)
