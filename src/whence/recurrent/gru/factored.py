"""The backward pass of `reference` in fewer operations, for every rule for products.

A step back is linear in the relevance r of h, and its factors depend on the forward pass alone. They are computed for all steps
at once; what is left for each step is a product with W, and what is done once at the end is the product with U. The sums are
those of the gates ρ and z, the candidate's a, and m = W_n h⁻ + b_hn; the paper's rule gives gates nothing.
"""

import torch
from torch import Tensor

from whence.equations import Rules, absorbed_by_bias, product, stabiliser
from whence.recurrent.gru.reference import Tape, gates_and_sums
from whence.recurrent.gru.weights import GRUWeights
from whence.recurrent.sweep import Swept, split_ended


class Factors:
    """What the steps back need beside relevance, each (T, B, ·). Coefficients q of a sum are given per unit of r."""

    def __init__(self, tape: Tape, weights: GRUWeights, rules: Rules) -> None:
        reset, z, m, a = gates_and_sums(tape.from_x, tape.from_h)
        h, before, n, ones = tape.h[1:], tape.h[:-1], a.tanh(), torch.ones_like(z)
        u, w, bias_a, bias_m = weights.candidate()
        edge = stabiliser(h, rules.epsilon)
        whole, half = (h + edge).reciprocal_(), edge * (0.5 * rules.returned)
        new, kept = ((1 - z) * n).add_(half).mul_(whole), (z * before).add_(half).mul_(whole)
        (to_closed, to_n), (to_z, to_h), (to_reset, to_m) = (
            product(gate, source, r_out=ones, rules=rules) for gate, source in ((1 - z, n), (z, before), (reset, m))
        )
        self.direct = to_h * kept
        lost = edge * whole * (1 - rules.returned)
        # the sums a and m, then those of both gates
        q_a, each_a, lost_a = _sum(a, to_n * new, bias_a, u.shape[1] + 1, rules)
        gated = (reset * m + each_a) * q_a
        q_m, each_m, lost_m = _sum(m, to_m * gated, bias_m, w.shape[1], rules)
        lost = lost + lost_a + lost_m
        self.u, self.w, self.q_x, self.q_h = u, w, q_a, q_m
        self.of_bias = [(bias_a, q_a), (bias_m, q_m)]
        share_x, share_h = each_a * q_a, each_m * q_m
        if rules.product != "all":
            gates_u, gates_w, bias = weights.gates()
            sums = (tape.from_x + tape.from_h)[..., : len(gates_u)]
            per_unit = torch.cat([to_reset * gated, to_z * kept + to_closed * new], dim=-1)
            q, each, lost_q = _sum(sums, per_unit, bias, u.shape[1] + w.shape[1], rules)
            self.u, self.w = torch.cat([u, gates_u]), torch.cat([w, gates_w])
            self.q_x, self.q_h = torch.cat([q_a, q], dim=-1), torch.cat([q_m, q], dim=-1)
            both = sum((each * q).chunk(2, dim=-1))
            share_x, share_h = share_x + both, share_h + both
            lost = lost + sum(lost_q.chunk(2, dim=-1))
            self.of_bias.append((bias, q))
            if rules.product == "prop" and rules.returned != 1:
                lost = lost + new * (1 - to_closed - to_n) + kept * (1 - to_z - to_h) + gated * (1 - to_reset - to_m)
        self.share_x, self.share_h, self.lost = share_x, share_h, lost


def _sum(z: Tensor, per_unit: Tensor, bias: Tensor | None, fan_in: int, rules: Rules) -> tuple[Tensor, Tensor, Tensor]:
    """The coefficient q of a sum per unit of r, each lower neuron's share per unit of q, and what the stabiliser absorbs."""
    edge = stabiliser(z, rules.epsilon)
    q, each = per_unit / (z + edge), edge * (rules.returned / fan_in)
    each = each if bias is None or rules.delta == 0 else each + bias * (rules.delta / fan_in)
    return q, each, edge * q * (1 - rules.returned)


def relevance(
    tape: Tape,
    weights: GRUWeights,
    *,
    r_outputs: Tensor,
    r_states: tuple[Tensor, ...],
    rules: Rules,
) -> Swept:
    """Hand back the relevance of every step's output (K, T, B, H) and of the final state (K, B, H)."""
    f, (r_h,) = Factors(tape, weights, rules), r_states
    times = f.q_h.shape[-1] // r_h.shape[-1]
    arrived = r_h.new_empty(len(tape.x), *r_h.shape)  # at h, after every step
    for t in reversed(range(len(tape.x))):
        r, ended = split_ended(r_h + r_outputs[:, t], None if tape.active is None else tape.active[t])
        arrived[t] = r
        q = f.q_h[t] * (r if times == 1 else r.repeat(1, 1, times))
        share = (r * f.share_h[t]).sum(-1, keepdim=True)
        r_h = torch.addcmul(share, tape.h[t], q @ f.w).addcmul_(f.direct[t], r) + ended
    q_x = f.q_x[:, None] * (arrived if times == 1 else arrived.repeat(1, 1, 1, times))
    shares = (arrived * f.share_x[:, None]).sum(-1, keepdim=True)
    r_x = torch.addcmul(shares, tape.x[:, None], q_x @ f.u).transpose(0, 1)
    bias, stabilised = r_h.new_zeros(r_h.shape[:-1]), r_h.new_zeros(r_h.shape[:-1])
    for own, q in f.of_bias:
        if own is not None and rules.delta != 1:
            ready = arrived if q.shape[-1] == arrived.shape[-1] else arrived.repeat(1, 1, 1, 2)
            bias = bias + absorbed_by_bias(own, q=(q[:, None] * ready).sum(0), rules=rules).sum(-1)
    if rules.returned != 1:
        stabilised = (arrived * f.lost[:, None]).sum((0, -1))
    return Swept(r_x, (r_h,), bias, stabilised)
