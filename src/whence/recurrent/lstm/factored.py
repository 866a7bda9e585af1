"""The backward pass of `reference` in fewer operations, for every rule for products and for projections.

A step back is linear in the relevance that arrives, and its factors depend on the forward pass alone. They are computed for all
steps at once; what is left for each step is a product with W, and what is done once at the end is the product with U. With
m = o ⊙ tanh c, r_m its relevance and r that of the cell, the coefficients q of the sums i, f, a, o are

    q = ( R_i, R_f, R_g per unit of r, R_o per unit of r_m ) / ( z + ε sign z ) · ( r, r, r, r_m )

The paper's rule gives gates nothing, so only q of the candidate's sum a is left.
"""

import torch
from torch import Tensor

from whence.equations import Rules, absorbed_by_bias, product, stabiliser
from whence.recurrent.lstm.reference import Tape, activated
from whence.recurrent.lstm.weights import LSTMWeights, lstm_gates
from whence.recurrent.sweep import Swept, split_ended


class Factors:
    """What the steps back need beside relevance, each (T, B, ·)."""

    def __init__(self, tape: Tape, weights: LSTMWeights, rules: Rules) -> None:
        gates, c, before = activated(lstm_gates(tape.sums)), tape.c[1:], tape.c[:-1]
        tanh_c, ones = c.tanh(), torch.ones_like(c)
        edge = stabiliser(c, rules.epsilon)
        whole, half = (c + edge).reciprocal_(), edge * (0.5 * rules.returned)
        kept, new = (gates.f * before).add_(half).mul_(whole), (gates.i * gates.g).add_(half).mul_(whole)
        lost, self.lost_m = (edge * whole).mul_(1 - rules.returned), torch.zeros_like(c)
        self.opened = ones  # of r_m, what reaches the cell
        if rules.product == "all":
            self.u, self.w, self.bias = weights.candidate()
            z, per_unit = lstm_gates(tape.sums).g, new
        else:
            self.u, self.w, self.bias = weights.input, weights.hidden, weights.bias
            (to_o, self.opened), (to_f, from_f), (to_i, from_i) = (
                product(gate, source, r_out=ones, rules=rules)
                for gate, source in ((gates.o, tanh_c), (gates.f, before), (gates.i, gates.g))
            )
            z, per_unit = tape.sums, torch.cat([to_i * new, to_f * kept, from_i * new, to_o], dim=-1)
            if rules.product == "prop" and rules.returned != 1:
                self.lost_m = 1 - to_o - self.opened
                lost = lost + kept * (1 - to_f - from_f) + new * (1 - to_i - from_i)
            kept = from_f * kept
        fan_in, edge_z = self.u.shape[1] + self.w.shape[1], stabiliser(z, rules.epsilon)
        self.kept, self.lost = kept, lost
        self.unit = per_unit / (z + edge_z)
        self.lost_q = edge_z * (1 - rules.returned)
        self.each = edge_z * (rules.returned / fan_in)
        if self.bias is not None and rules.delta != 0:
            self.each = self.each + self.bias * (rules.delta / fan_in)
        if weights.projection is not None:
            edge_h, self.m = stabiliser(tape.h[1:], rules.epsilon), gates.o * tanh_c
            self.projected = (tape.h[1:] + edge_h).reciprocal_()
            self.lost_h, self.each_h = edge_h * (1 - rules.returned), edge_h * (rules.returned / weights.hidden_size)


def relevance(
    tape: Tape,
    weights: LSTMWeights,
    *,
    r_outputs: Tensor,
    r_states: tuple[Tensor, ...],
    rules: Rules,
) -> Swept:
    """Hand back the relevance of every step's output (K, T, B, P) and of the final states (K, B, P), (K, B, H)."""
    f, (r_h, r_c) = Factors(tape, weights, rules), r_states
    absorbed = r_c.new_zeros(r_c.shape[:-1])
    q_steps, shares = r_c.new_empty(len(tape.x), *r_c.shape[:-1], f.unit.shape[-1]), list[Tensor]()
    for t in reversed(range(len(tape.x))):
        active = None if tape.active is None else tape.active[t]
        r_h, ended_h = split_ended(r_h + r_outputs[:, t], active)
        r_c, ended_c = split_ended(r_c, active)
        if weights.projection is not None:
            q = r_h * f.projected[t]
            share = (q * f.each_h[t]).sum(-1, keepdim=True)
            absorbed = absorbed + (q * f.lost_h[t]).sum(-1) if rules.returned != 1 else absorbed
            r_h = torch.addcmul(share, f.m[t], q @ weights.projection)
        r = torch.addcmul(r_c, f.opened[t], r_h) if rules.product != "all" else r_c + r_h
        arrived = r if rules.product == "all" else torch.cat([r, r, r, r_h], dim=-1)
        q = torch.mul(f.unit[t], arrived, out=q_steps[t])
        if rules.returned != 1:
            absorbed = absorbed + (q * f.lost_q[t]).sum(-1) + (r * f.lost[t] + r_h * f.lost_m[t]).sum(-1)
        shares.append((q * f.each[t]).sum(-1, keepdim=True))
        r_h = torch.addcmul(shares[-1], tape.h[t], q @ f.w) + ended_h
        r_c = f.kept[t] * r + ended_c
    r_x = torch.addcmul(torch.stack(shares[::-1]), tape.x[:, None], q_steps @ f.u).transpose(0, 1)
    bias = torch.zeros_like(absorbed) if f.bias is None else absorbed_by_bias(f.bias, q=q_steps.sum(0), rules=rules).sum(-1)
    return Swept(r_x, (r_h, r_c), bias, absorbed)
