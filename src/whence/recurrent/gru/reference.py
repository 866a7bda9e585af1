"""One direction of one GRU layer, step by step as in the formulas. Every faster path is tested against it.

r, z = σ(W h⁻ + U x + b)    m = W_n h⁻ + b_hn    a = U_n x + b_in + r ⊙ m    n = tanh a
h = (1 − z) ⊙ n + z ⊙ h⁻
"""

from typing import NamedTuple

import torch
from torch import Tensor

from whence.equations import Rules, linear_epsilon, sum_epsilon
from whence.recurrent.gru.weights import GRUWeights, gru_gates
from whence.recurrent.sweep import Ledger, Swept, activity, split_ended


class Tape(NamedTuple):
    """What the forward pass keeps. State t of `h` is the one *before* step t; the last one is final."""

    x: Tensor  # (T, B, E)
    h: Tensor  # (T + 1, B, H)
    from_x: Tensor  # (T, B, 3H), U x + b for reset, update and candidate
    from_h: Tensor  # (T, B, 3H), W h⁻ + b likewise
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
    h, from_h = [states[0]], list[Tensor]()
    for t in range(len(x)):
        from_h.append(h[-1] @ weights.hidden.T)
        if weights.hidden_bias is not None:
            from_h[t] = from_h[t] + weights.hidden_bias
        _, z, _, a = gates_and_sums(from_x[t], from_h[t])
        h_t = (1 - z) * a.tanh() + z * h[-1]
        h.append(h_t if active is None else torch.where(active[t], h_t, h[-1]))
    return Tape(x, torch.stack(h), from_x, torch.stack(from_h), active)


def gates_and_sums(from_x: Tensor, from_h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gates r and z, the sum m of the hidden state, and the candidate's sum a."""
    of_x, of_h = gru_gates(from_x), gru_gates(from_h)
    r, z = (of_x.r + of_h.r).sigmoid(), (of_x.z + of_h.z).sigmoid()
    return r, z, of_h.n, of_x.n + r * of_h.n


def relevance(
    tape: Tape,
    weights: GRUWeights,
    *,
    r_outputs: Tensor,
    r_states: tuple[Tensor, ...],
    rules: Rules,
    keep: bool = False,
) -> Swept:
    """Hand back the relevance of every step's output (K, T, B, H) and of the final state (K, B, H).

    Backwards in time; the state's sum has N = 2, the candidate's N = E + 1, and m, the source of a product, N = H:

        R_n    = ( (1 − z) ⊙ n + ε s/2 ) / ( h + ε s ) · R_h          R_h⁻ likewise with z ⊙ h⁻
        R_x, R_m   from R_n by the weighted rule on a, whose bias is b_in and whose other term is r ⊙ m
        R_h⁻  += the weighted rule on m, whose bias is b_hn

    With another product rule than "all", the gates r and z receive relevance too, z also as 1 − z. They pass it on to x and h⁻
    by the weighted rule on their own sums, N = E + H. With `keep`, the relevance of the state at every step is returned too.
    """
    u, w, bias_x, bias_h = weights.candidate()
    (r_h,) = r_states
    ledger = Ledger(rules, r_h)
    r_x = r_outputs.new_empty(*r_outputs.shape[:-1], u.shape[1])
    carried = [r_h]
    for t in reversed(range(len(tape.x))):
        r, z, m, a = gates_and_sums(tape.from_x[t], tape.from_h[t])
        r_h, ended = split_ended(r_h + r_outputs[:, t], None if tape.active is None else tape.active[t])

        q, s = ledger.sum(tape.h[t + 1], r_out=r_h, fan_in=2)
        r_new, r_kept = sum_epsilon((1 - z) * a.tanh(), q=q, share=s), sum_epsilon(z * tape.h[t], q=q, share=s)
        r_closed, r_n = ledger.product(1 - z, a.tanh(), r_out=r_new)
        r_z, r_h = ledger.product(z, tape.h[t], r_out=r_kept)

        q, s = ledger.sum(a, r_out=r_n, fan_in=u.shape[1] + 1, bias=bias_x)
        r_x[:, t] = linear_epsilon(tape.x[t], u, q=q, share=s)
        r_r, r_m = ledger.product(r, m, r_out=sum_epsilon(r * m, q=q, share=s))

        q, s = ledger.sum(m, r_out=r_m, fan_in=w.shape[1], bias=bias_h)
        r_h = r_h + ended + linear_epsilon(tape.h[t], w, q=q, share=s)
        if rules.product != "all":
            gates_u, gates_w, bias = weights.gates()
            sums = (tape.from_x[t] + tape.from_h[t])[..., : len(gates_u)]
            q, s = ledger.sum(sums, r_out=torch.cat([r_r, r_z + r_closed], dim=-1), fan_in=u.shape[1] + w.shape[1], bias=bias)
            r_x[:, t] += linear_epsilon(tape.x[t], gates_u, q=q, share=s)
            r_h = r_h + linear_epsilon(tape.h[t], gates_w, q=q, share=s)
        carried += [r_h] if keep else []
    return Swept(r_x, (r_h,), ledger.bias, ledger.stabiliser, (torch.stack(carried[::-1], dim=1),) if keep else ())
