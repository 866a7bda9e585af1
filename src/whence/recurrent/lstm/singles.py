"""Single steps of an LSTM cell with the same weights, as a loop makes them: factors for all steps at once, as in `plain`.

PyTorch's own cell has run already, so the states before and after every step are known. With w = i ⊙ g, the part of c that is
new, and r the relevance of c and h together,

    R_c⁻ = ( c − w + ½ ε s ) / ( c + ε s ) · r        q = ( w + ½ ε s ) / ( c + ε s ) / ( a + ε sign a ) · r
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from whence.equations import Rules, absorbed_by_bias, stabiliser
from whence.recurrent.lstm.weights import LSTMWeights, lstm_gates


class Singles:
    """What a step back needs beside its relevance, for all steps, and the coefficients q that it leaves."""

    def __init__(
        self,
        x: list[Tensor],
        before: list[list[Tensor]],
        after: list[list[Tensor]],
        weights: LSTMWeights,
        rules: Rules,
        *,
        targets: int,
    ) -> None:
        """Inputs x (B, E) of every step, and for h and c those (B, H) before and after every step."""
        sources, c = torch.cat([torch.stack(before[0]), torch.stack(x)], -1), torch.stack(after[1])  # (n, B, H + E)
        u, w, self.bias = weights.candidate()
        self.weights = torch.cat([w, u], 1)  # (H, H + E)
        of_i = torch.cat([lstm_gates(weights.hidden, axis=0).i, lstm_gates(weights.input, axis=0).i], 1)
        both = None if weights.bias is None else torch.cat([lstm_gates(weights.bias).i, lstm_gates(weights.bias).g])
        i, a = linear(sources, torch.cat([of_i, self.weights]), both).chunk(2, dim=-1)
        written = i.sigmoid() * a.tanh()
        edge_c, edge_a = stabiliser(c, rules.epsilon), stabiliser(a, rules.epsilon)
        whole, half = (c + edge_c).reciprocal_(), edge_c * (0.5 * rules.returned)
        kept = c.sub_(written).add_(half).mul_(whole)  # in the memory of c, which is a copy
        new = written.add_(half).mul_(whole).div_(a + edge_a)
        lost = (edge_c * whole + edge_a * new).mul_(1 - rules.returned) if rules.returned != 1 else None
        fan_in = u.shape[1] + w.shape[1]
        each = edge_a.mul_(rules.returned / fan_in)
        if self.bias is not None and rules.delta != 0:
            each = each + self.bias * (rules.delta / fan_in)
        self.rules, self.hidden = rules, w.shape[1]
        self.kept, self.new, self.each = kept.unbind(0), new.unbind(0), each.unbind(0)
        self.lost = None if lost is None else lost.unbind(0)
        self.sources = sources.unbind(0)
        self.q = c.new_zeros(len(c), targets, *c.shape[1:])
        self.of_q = self.q.unbind(0)
        self.stabiliser = c.new_zeros(targets, c.shape[1])

    def back(self, n: int, r_states: Sequence[Tensor | None]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """From the relevance (K, B, H) of the states after step n to that of x, and of the states before it."""
        r_h, r_c = r_states
        r = r_c if r_h is None else r_h if r_c is None else r_h + r_c
        assert r is not None
        q = torch.mul(r, self.new[n], out=self.of_q[n])
        share = (q * self.each[n]).sum(-1, keepdim=True)
        found = torch.addcmul(share, self.sources[n], q @ self.weights)
        if self.lost is not None:
            self.stabiliser += (r * self.lost[n]).sum(-1)
        return found[..., self.hidden :], (found[..., : self.hidden], r * self.kept[n])

    def of_bias(self) -> Tensor:
        """What the biases have absorbed of all steps (K, B)."""
        if self.bias is None:
            return self.q.new_zeros(self.q.shape[1:3])
        return absorbed_by_bias(self.bias, q=self.q.sum(0), rules=self.rules).sum(-1)
