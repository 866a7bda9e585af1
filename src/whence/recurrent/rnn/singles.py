"""Single steps of a plain recurrent cell with the same weights, as a loop makes them: the factors of all steps at once.

q = r / ( z + ε sign z ),    z = U x + W h⁻ + b,    and x and h⁻ follow by the weighted rule
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from whence.equations import Rules, absorbed_by_bias, stabiliser
from whence.recurrent.rnn.weights import RNNWeights


class Singles:
    """What a step back needs beside its relevance, for all steps, and the coefficients q that it leaves."""

    def __init__(
        self,
        x: list[Tensor],
        before: list[list[Tensor]],
        after: list[list[Tensor]],
        weights: RNNWeights,
        rules: Rules,
        *,
        targets: int,
    ) -> None:
        """Inputs x (B, E) of every step, and for h those (B, H) before and after every step."""
        self.bias, self.rules, self.hidden = weights.bias, rules, weights.hidden_size
        self.weights = torch.cat([weights.hidden, weights.input], 1)  # (H, H + E)
        sources = torch.cat([torch.stack(before[0]), torch.stack(x)], -1)  # (n, B, H + E)
        z = linear(sources, self.weights, weights.bias)
        edge, fan_in = stabiliser(z, rules.epsilon), weights.input.shape[1] + weights.hidden.shape[1]
        factors = (z + edge).reciprocal_()
        self.factors = factors.unbind(0)
        self.lost = (edge * factors).mul_(1 - rules.returned).unbind(0) if rules.returned != 1 else None
        each = edge.mul_(rules.returned / fan_in)
        if self.bias is not None and rules.delta != 0:
            each = each + self.bias * (rules.delta / fan_in)
        self.each = each.unbind(0)
        self.sources = sources.unbind(0)
        self.q = z.new_zeros(len(z), targets, *z.shape[1:])
        self.of_q = self.q.unbind(0)
        self.stabiliser = z.new_zeros(targets, z.shape[1])

    def back(self, n: int, r_states: Sequence[Tensor | None]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """From the relevance (K, B, H) of the state after step n to that of x, and of the state before it."""
        (r,) = r_states
        assert r is not None
        q = torch.mul(r, self.factors[n], out=self.of_q[n])
        share = (q * self.each[n]).sum(-1, keepdim=True)
        found = torch.addcmul(share, self.sources[n], q @ self.weights)
        if self.lost is not None:
            self.stabiliser += (r * self.lost[n]).sum(-1)
        return found[..., self.hidden :], (found[..., : self.hidden],)

    def of_bias(self) -> Tensor:
        """What the bias has absorbed of all steps (K, B)."""
        if self.bias is None:
            return self.q.new_zeros(self.q.shape[1:3])
        return absorbed_by_bias(self.bias, q=self.q.sum(0), rules=self.rules).sum(-1)
