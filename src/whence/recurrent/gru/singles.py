"""Single steps of a GRU cell with the same weights, as a loop makes them: factors for all steps at once.

PyTorch's own cell has run already, so the states before and after every step are known. The formulas are those of steps.c:
with r the relevance of h, w = (1 − z) ⊙ n the part of h that is new, and ρ the reset gate,

    R_h⁻ = ( h − w + ½ ε s ) / ( h + ε s ) · r + h⁻ ⊙ (q_m W) + share of m
    q_a  = ( w + ½ ε s ) / ( h + ε s ) / ( a + ε sign a ) · r        q_m = ( ρ ⊙ m + share of a ) / ( m + ε sign m ) · q_a
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from whence.equations import Rules, absorbed_by_bias, stabiliser
from whence.recurrent.gru.reference import gates_and_sums
from whence.recurrent.gru.weights import GRUWeights


class Singles:
    """What a step back needs beside its relevance, for all steps, and the coefficients q that it leaves."""

    def __init__(
        self,
        x: list[Tensor],
        before: list[list[Tensor]],
        after: list[list[Tensor]],
        weights: GRUWeights,
        rules: Rules,
        *,
        targets: int,
    ) -> None:
        """Inputs x (B, E) of every step, and for h those (B, H) before and after every step."""
        self.x, self.h, h = x, before[0], torch.stack(after[0])
        self.u, self.w, *self.biases = weights.candidate()
        reset, z, m, a = gates_and_sums(
            linear(torch.stack(x), weights.input, weights.input_bias),
            linear(torch.stack(before[0]), weights.hidden, weights.hidden_bias),
        )
        written = (1 - z) * a.tanh()
        edge_h, edge_a, edge_m = (stabiliser(each, rules.epsilon) for each in (h, a, m))
        whole, half = (h + edge_h).reciprocal_(), edge_h * (0.5 * rules.returned)
        for_a = (written + half).mul_(whole).div_(a + edge_a)
        each_a = self._each(edge_a, self.biases[0], self.u.shape[1] + 1, rules)
        for_m = (reset * m + each_a).mul_(for_a).div_(m + edge_m)
        each_m = self._each(edge_m, self.biases[1], self.w.shape[1], rules)
        lost = (edge_h * whole + edge_a * for_a + edge_m * for_m) * (1 - rules.returned) if rules.returned != 1 else None
        self.rules, self.lost = rules, None if lost is None else lost.unbind(0)
        self.kept = (h - written).add_(half).mul_(whole).unbind(0)
        self.factors = torch.stack([for_a, for_m], 1).unsqueeze(2).unbind(0)  # (2, 1, B, H) of every step
        self.each = torch.stack([each_a, each_m], 1).unsqueeze(2).unbind(0)
        self.q = h.new_zeros(len(h), 2, targets, *h.shape[1:])
        self.of_q = self.q.unbind(0)
        self.stabiliser = h.new_zeros(targets, h.shape[1])

    @staticmethod
    def _each(edge: Tensor, bias: Tensor | None, fan_in: int, rules: Rules) -> Tensor:
        """What every lower neuron of a sum gets beyond its contribution, per unit of q."""
        found = edge * (rules.returned / fan_in)
        return found if bias is None or rules.delta == 0 else found + bias * (rules.delta / fan_in)

    def back(self, n: int, r_states: Sequence[Tensor | None]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """From the relevance (K, B, H) of the state after step n to that of x, and of the state before it."""
        (r,) = r_states
        assert r is not None
        q = torch.mul(r, self.factors[n], out=self.of_q[n])
        shares = (q * self.each[n]).sum(-1, keepdim=True)
        r_x = torch.addcmul(shares[0], self.x[n], q[0] @ self.u)
        r_h = torch.addcmul(shares[1], self.h[n], q[1] @ self.w).addcmul_(r, self.kept[n])
        if self.lost is not None:
            self.stabiliser += (r * self.lost[n]).sum(-1)
        return r_x, (r_h,)

    def of_bias(self) -> Tensor:
        """What the biases have absorbed of all steps (K, B)."""
        found = self.q.new_zeros(self.q.shape[2:4])
        for bias, q in zip(self.biases, self.q.sum(0), strict=True):
            if bias is not None:
                found = found + absorbed_by_bias(bias, q=q, rules=self.rules).sum(-1)
        return found
