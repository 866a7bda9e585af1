"""What the references of all cells share: their result, the rules with an account of what is absorbed, and ended sequences."""

from typing import NamedTuple

import torch
from torch import Tensor

from whence.equations import Rules, absorbed_by_bias, absorbed_by_stabiliser, coefficient, product, share


class Swept(NamedTuple):
    """Where the relevance of one direction of one layer went, for K targets."""

    x: Tensor  # (K, T, B, E)
    states: tuple[Tensor, ...]  # (K, B, ·) each, of the initial states
    bias: Tensor  # (K, B)
    stabiliser: Tensor  # (K, B)
    carried: tuple[Tensor, ...] = ()  # (K, T + 1, B, ·) each, of the states before every step and after the last


class Ledger:
    """Applies the rules and adds up what biases and the stabiliser absorb, per sample (K, B)."""

    def __init__(self, rules: Rules, like: Tensor) -> None:
        self.rules = rules
        self.bias = self.stabiliser = like.new_zeros(like.shape[:-1])

    def sum(self, z: Tensor, *, r_out: Tensor, fan_in: int, bias: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The coefficient q and the share s of the sum z (B, ·), from its relevance (K, B, ·)."""
        q = coefficient(z, r_out=r_out, epsilon=self.rules.epsilon)
        if self.rules.returned != 1:
            self.stabiliser = self.stabiliser + absorbed_by_stabiliser(z, q=q, rules=self.rules).sum(-1)
        if bias is not None and self.rules.delta != 1:
            self.bias = self.bias + absorbed_by_bias(bias, q=q, rules=self.rules).sum(-1)
        return q, share(z, q=q, bias=bias, fan_in=fan_in, rules=self.rules) if self.rules.shares else None

    def product(self, gate: Tensor, source: Tensor, *, r_out: Tensor) -> tuple[Tensor, Tensor]:
        """The relevance of a gate and of its source (K, B, ·), from that of their product."""
        r_gate, r_source = product(gate, source, r_out=r_out, rules=self.rules)
        if self.rules.product == "prop" and self.rules.returned != 1:
            self.stabiliser = self.stabiliser + (r_out - r_gate - r_source).sum(-1)
        return r_gate, r_source


def activity(steps: int, lengths: Tensor | None) -> Tensor | None:
    """Which sequences are still running at every step (T, B, 1); None when all have the same length."""
    if lengths is None:
        return None
    return (torch.arange(steps, device=lengths.device)[:, None] < lengths)[..., None]


def split_ended(r: Tensor, active: Tensor | None) -> tuple[Tensor, Tensor | float]:
    """Split the relevance of a state (K, B, ·): that of running sequences, and that of ended ones, which skips the step."""
    return (r, 0.0) if active is None else (r * active, r * ~active)
