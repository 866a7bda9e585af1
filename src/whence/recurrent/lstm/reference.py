"""One direction of one LSTM layer, step by step as in the formulas. Every faster path is tested against it.

i, f, o = σ(W h⁻ + U x + b)    a = W_g h⁻ + U_g x + b_g    g = tanh a
c = f ⊙ c⁻ + i ⊙ g             m = o ⊙ tanh c              h = m, or P m with a projection
"""

from typing import NamedTuple

import torch
from torch import Tensor

from whence.equations import Rules, linear_epsilon, product_all, sum_epsilon
from whence.recurrent.lstm.weights import LSTMGates, LSTMWeights, lstm_gates
from whence.recurrent.sweep import Ledger, Swept, activity, split_ended


class Tape(NamedTuple):
    """What the forward pass keeps. State t of `h` and `c` is the one *before* step t; the last one is final."""

    x: Tensor  # (T, B, E)
    h: Tensor  # (T + 1, B, P)
    c: Tensor  # (T + 1, B, H)
    sums: Tensor  # (T, B, 4H), the gates and the candidate before their activations
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
    sums: list[Tensor] = []
    for t in range(len(x)):
        sums.append(from_x[t] + h[-1] @ weights.hidden.T)
        i, f, g, o = activated(lstm_gates(sums[t]))
        c_t = f * c[-1] + i * g
        h_t = o * c_t.tanh()
        if weights.projection is not None:
            h_t = h_t @ weights.projection.T
        h.append(h_t if active is None else torch.where(active[t], h_t, h[-1]))
        c.append(c_t if active is None else torch.where(active[t], c_t, c[-1]))
    return Tape(x, torch.stack(h), torch.stack(c), torch.stack(sums), active)


def activated(sums: LSTMGates) -> LSTMGates:
    """Apply the sigmoid to the gates and tanh to the candidate."""
    return LSTMGates(sums.i.sigmoid(), sums.f.sigmoid(), sums.g.tanh(), sums.o.sigmoid())


def relevance(
    tape: Tape,
    weights: LSTMWeights,
    *,
    r_outputs: Tensor,
    r_states: tuple[Tensor, ...],
    rules: Rules,
    keep: bool = False,
) -> Swept:
    """Hand back the relevance of every step's output (K, T, B, P) and of the final states (K, B, P), (K, B, H).

    Backwards in time, the cell sum has N = 2 and the candidate N = E + P:

        R_c   += R_m                                             gate o, then tanh: passed through
        R_c⁻   = ( f ⊙ c⁻ + ε s/2 ) / ( c + ε s ) · R_c          R_g likewise with i ⊙ g
        R_x, R_h⁻  from R_g by the weighted rule on a, whose bias is b_g

    With another product rule than "all", the gates o, f and i receive a part of R_m, R_(f ⊙ c⁻) and R_(i ⊙ g), and pass it on
    to x and h⁻ by the weighted rule on their own sums. With `keep`, the relevance of the states at every step is returned too.
    """
    is_all = rules.product == "all"
    u, w, bias = weights.candidate() if is_all else (weights.input, weights.hidden, weights.bias)
    r_h, r_c = r_states
    ledger = Ledger(rules, r_c)
    r_x = r_outputs.new_empty(*r_outputs.shape[:-1], u.shape[1])
    carried = [(r_h, r_c)]
    for t in reversed(range(len(tape.x))):
        sums, c = tape.sums[t], tape.c[t + 1]
        i, f, g, o = activated(lstm_gates(sums))
        active = None if tape.active is None else tape.active[t]
        r_h, ended_h = split_ended(r_h + r_outputs[:, t], active)
        r_c, ended_c = split_ended(r_c, active)
        if weights.projection is not None:
            q, s = ledger.sum(tape.h[t + 1], r_out=r_h, fan_in=weights.hidden_size)
            r_h = linear_epsilon(o * c.tanh(), weights.projection, q=q, share=s)

        r_o, r_tanh = (None, product_all(r_h)) if is_all else ledger.product(o, c.tanh(), r_out=r_h)
        q, s = ledger.sum(c, r_out=r_c + r_tanh, fan_in=2)
        r_kept, r_new = sum_epsilon(f * tape.c[t], q=q, share=s), sum_epsilon(i * g, q=q, share=s)
        if r_o is None:
            r_c, r_sums, z = product_all(r_kept) + ended_c, product_all(r_new), lstm_gates(sums).g
        else:
            r_f, r_c = ledger.product(f, tape.c[t], r_out=r_kept)
            r_i, r_g = ledger.product(i, g, r_out=r_new)
            r_c, r_sums, z = r_c + ended_c, torch.cat(LSTMGates(r_i, r_f, r_g, r_o), dim=-1), sums

        q, s = ledger.sum(z, r_out=r_sums, fan_in=u.shape[1] + w.shape[1], bias=bias)
        r_x[:, t] = linear_epsilon(tape.x[t], u, q=q, share=s)
        r_h = linear_epsilon(tape.h[t], w, q=q, share=s) + ended_h
        carried += [(r_h, r_c)] if keep else []
    kept = tuple(torch.stack(each[::-1], dim=1) for each in zip(*carried, strict=True)) if keep else ()
    return Swept(r_x, (r_h, r_c), ledger.bias, ledger.stabiliser, kept)
