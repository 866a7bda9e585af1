"""One direction of one plain recurrent layer:  h = φ(z),  z = W h⁻ + U x + b,  with φ tanh or ReLU."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from whence.equations import Rules, linear_epsilon
from whence.recurrent.rnn.weights import RNNWeights
from whence.recurrent.sweep import Ledger, Swept, activity, split_ended


class Tape(NamedTuple):
    """What the forward pass keeps. State t of `h` is the one *before* step t; the last one is final."""

    x: Tensor  # (T, B, E)
    h: Tensor  # (T + 1, B, H)
    z: Tensor  # (T, B, H)
    active: Tensor | None  # (T, B, 1), False where a sequence has ended; None when all have the same length

    def outputs(self) -> Tensor:
        """The hidden state after every step (T, B, H), zero where the sequence has ended."""
        return self.h[1:] if self.active is None else self.h[1:] * self.active

    def final(self) -> tuple[Tensor, ...]:
        """The final state h (B, H)."""
        return (self.h[-1],)


def forward(
    x: Tensor,
    weights: RNNWeights,
    *,
    states: tuple[Tensor, ...],
    activation: Callable[[Tensor], Tensor],
    lengths: Tensor | None = None,
) -> Tape:
    """Run the layer over x (T, B, E) from the state h (B, H); a sequence that has ended keeps its state."""
    active = activity(len(x), lengths)
    from_x = x @ weights.input.T
    if weights.bias is not None:
        from_x = from_x + weights.bias
    h = [states[0]]
    sums: list[Tensor] = []
    for t in range(len(x)):
        z = from_x[t] + h[-1] @ weights.hidden.T
        h_t = activation(z)
        h.append(h_t if active is None else torch.where(active[t], h_t, h[-1]))
        sums.append(z)
    return Tape(x, torch.stack(h), torch.stack(sums), active)


def relevance(
    tape: Tape,
    weights: RNNWeights,
    *,
    r_outputs: Tensor,
    r_states: tuple[Tensor, ...],
    rules: Rules,
    keep: bool = False,
) -> Swept:
    """Hand back the relevance of every step's output (K, T, B, H) and of the final state (K, B, H).

    Relevance passes through φ unchanged; R_x and R_h⁻ follow by the weighted rule on z with N = E + H. There are no products.
    With `keep`, the relevance of the state at every step is returned too.
    """
    (r_h,) = r_states
    ledger = Ledger(rules, r_h)
    fan_in = weights.input.shape[1] + weights.hidden.shape[1]
    r_x = r_outputs.new_empty(*r_outputs.shape[:-1], weights.input.shape[1])
    carried = [r_h]
    for t in reversed(range(len(tape.x))):
        r_h, ended = split_ended(r_h + r_outputs[:, t], None if tape.active is None else tape.active[t])
        q, s = ledger.sum(tape.z[t], r_out=r_h, fan_in=fan_in, bias=weights.bias)
        r_x[:, t] = linear_epsilon(tape.x[t], weights.input, q=q, share=s)
        r_h = linear_epsilon(tape.h[t], weights.hidden, q=q, share=s) + ended
        carried += [r_h] if keep else []
    return Swept(r_x, (r_h,), ledger.bias, ledger.stabiliser, (torch.stack(carried[::-1], dim=1),) if keep else ())
