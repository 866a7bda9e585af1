"""The paper's equations in its order, each a pure tensor function; they know nothing of networks.

Symbols: z a neuron's weighted sum, b its bias, N (`fan_in`) the number of lower neurons connected to it, R relevance.
Relevance tensors may carry extra leading axes (one per explained target); everything broadcasts.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

Stabiliser = Literal["shared", "absorbed", "none"]
Product = Literal["all", "half", "prop", "abs"]
HeadRule = Literal["epsilon", "gamma", "alpha-beta"]


class Rules(NamedTuple):
    """The settings of the rules: ε, δ and who gets the stabiliser in weighted connections, and the rule for products.

    `stabiliser="shared"` is the paper's formula: the lower neurons share the whole ε term. `"absorbed"` is the authors'
    released code: they share δ of it, as of the bias; with `"none"`, nothing, which tells what they shared. `head` is the rule
    of the dense layers of a model's head, with γ or α.
    """

    epsilon: float = 1e-3
    delta: float = 0.0
    stabiliser: Stabiliser = "shared"
    product: Product = "all"
    head: HeadRule = "epsilon"
    gamma: float = 0.25
    alpha: float = 2.0

    @property
    def returned(self) -> float:
        """The part of the stabiliser that goes back to the lower neurons: 1 in the paper, δ in the released code."""
        return {"shared": 1.0, "absorbed": self.delta, "none": 0.0}[self.stabiliser]

    @property
    def shares(self) -> bool:
        """Whether lower neurons get anything beyond their own contribution z_i w_ij."""
        return self.delta != 0 or (self.returned != 0 and self.epsilon != 0)


def sign(z: Tensor) -> Tensor:
    """The sign of z with sign(0) = +1, so that a stabilised denominator is never zero."""
    return torch.where(z >= 0, 1.0, -1.0).to(z.dtype)


def stabiliser(z: Tensor, epsilon: float) -> Tensor:
    """ε sign z. Adding 0.0 makes a negative zero positive, so that copysign takes sign(0) for +1."""
    return torch.copysign(_constant(epsilon, z.dtype), z + 0.0)


@cache
def _constant(number: float, dtype: torch.dtype) -> Tensor:
    """A number as a tensor without axes, which combines with tensors on any device."""
    with torch.inference_mode(False):
        return torch.tensor(number, dtype=dtype, device="cpu")


def stabilise(z: Tensor, epsilon: float) -> Tensor:
    """z + ε sign z: moved away from zero, with the same sign."""
    return z + stabiliser(z, epsilon)


def coefficient(z: Tensor, *, r_out: Tensor, epsilon: float, known: Tensor | None = None) -> Tensor:
    """Relevance per unit of z, what every term of the sum is multiplied by:  q_j = R_j / (z_j + ε sign z_j).

    If ε = 0, a neuron without relevance has q = 0, even if z = 0 too. `known` is ε sign z, where that was computed before.
    """
    if epsilon == 0:
        return torch.where(r_out == 0, 0.0, r_out / torch.where((r_out == 0) & (z == 0), 1.0, z))
    return r_out / (stabilise(z, epsilon) if known is None else z + known)


def share(
    z: Tensor,
    *,
    q: Tensor,
    bias: Tensor | None,
    fan_in: float | Tensor,
    rules: Rules,
    known: Tensor | None = None,
    is_shared: bool = False,
) -> Tensor:
    """What each of the N lower neurons gets beyond its contribution:  (ε sign z_j + δ b_j) / N · q_j.

    With the stabiliser absorbed, δ (ε sign z_j + b_j) / N · q_j. A sum with no lower neuron (N = 0) shares nothing; with
    `is_shared`, there is none. `known` is ε sign z, where that was computed before.
    """
    total = stabiliser(z, rules.returned * rules.epsilon) if known is None or rules.returned != 1 else known
    if bias is not None and rules.delta != 0:
        total = total + rules.delta * bias
    if isinstance(fan_in, Tensor) and not is_shared:
        return torch.where(fan_in > 0, total / fan_in.clamp(min=1), 0.0) * q
    return total / fan_in * q if is_shared or fan_in > 0 else torch.zeros_like(q)


def linear_epsilon(x: Tensor, weight: Tensor, *, q: Tensor, share: Tensor | None) -> Tensor:
    """Hand the relevance of a linear layer's outputs back to its inputs.

        R_i = Σ_j ( x_i w_ji + (ε sign z_j + δ b_j) / N ) / ( z_j + ε sign z_j ) · R_j

    x (B, I); weight (J, I); q, share (B, J) as `coefficient` and `share` give them for the whole sum z. Returns (B, I).
    Keeps: Σ R_i = Σ R_j − Σ_j absorbed by bias and stabiliser, if x holds all terms of the sum.
    """
    r_in = x * (q @ weight)
    return r_in if share is None else r_in + share.sum(-1, keepdim=True)


def sum_epsilon(term: Tensor, *, q: Tensor, share: Tensor | None) -> Tensor:
    """Hand the relevance of a plain sum z = Σ terms back to one term:  R = ( term + ε sign z / N ) / ( z + ε sign z ) · R_z."""
    return term * q if share is None else term * q + share


def product_all(r_out: Tensor) -> Tensor:
    """The relevance of the source in z = gate · source:  R_source = R_z, and R_gate = 0."""
    return r_out


def product_half(r_out: Tensor) -> tuple[Tensor, Tensor]:
    """R_gate = R_source = R_z / 2."""
    return r_out / 2, r_out / 2


def product_prop(gate: Tensor, source: Tensor, *, r_out: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """In proportion, as if the factors were added:  R_gate = g / (g + s) · R_z, stabilised like a sum of two terms."""
    total = gate + source
    q = coefficient(total, r_out=r_out, epsilon=rules.epsilon)
    both = share(total, q=q, bias=None, fan_in=2, rules=rules) if rules.shares else None
    return sum_epsilon(gate, q=q, share=both), sum_epsilon(source, q=q, share=both)


def product_abs(gate: Tensor, source: Tensor, *, r_out: Tensor) -> tuple[Tensor, Tensor]:
    """By absolute size:  R_gate = |g| / (|g| + |s|) · R_z;  a half where both are 0."""
    total = gate.abs() + source.abs()
    part = torch.where(total > 0, gate.abs() / torch.where(total > 0, total, 1.0), 0.5)
    return part * r_out, (1 - part) * r_out


def product(gate: Tensor, source: Tensor, *, r_out: Tensor, rules: Rules) -> tuple[Tensor, Tensor]:
    """The relevance (R_gate, R_source) of the factors of z = gate · source; the stabiliser absorbs the rest of R_z."""
    if rules.product == "all":
        return torch.zeros_like(r_out), product_all(r_out)
    if rules.product == "half":
        return product_half(r_out)
    if rules.product == "prop":
        return product_prop(gate, source, r_out=r_out, rules=rules)
    return product_abs(gate, source, r_out=r_out)


def absorbed_by_bias(bias: Tensor, *, q: Tensor, rules: Rules) -> Tensor:
    """What stops at a bias:  (1 − δ) b_j · q_j."""
    return (1 - rules.delta) * bias * q


def absorbed_by_stabiliser(z: Tensor, *, q: Tensor, rules: Rules) -> Tensor:
    """What stops at the stabiliser:  (1 − δ) ε sign z_j · q_j, or nothing if it is shared."""
    return stabiliser(z, (1 - rules.returned) * rules.epsilon) * q


class Sides(NamedTuple):
    """A pair of numbers for the positive (`up`) and the negative (`down`) contributions to a neuron."""

    up: Tensor
    down: Tensor

    def total(self, q: "Sides") -> Tensor:
        """What these contributions get:  c⁺ q⁺ + c⁻ q⁻."""
        return self.up * q.up + self.down * q.down


def sides_of(term: Tensor) -> Sides:
    """A term as one contribution, on the side of its sign."""
    return Sides(term.clamp(min=0), term.clamp(max=0))


def sides_gamma(z: Tensor, sums: Sides, *, r_out: Tensor, rules: Rules) -> Sides:
    """Relevance per unit of contribution under the γ rule, which favours contributions of the same sign as z.

        R_i = Σ_j ( c_ij + γ c_ij^± ) / ( z_j + γ z_j^± + ε sign z_j ) · R_j,    ± the sign of z_j, z_j^± = Σ_i c_ij^±

    c_ij = z_i w_ij; a bias is a contribution too, and `sums` holds z_j⁺ and z_j⁻ with it. Returns q_j⁺ and q_j⁻.
    """
    is_up = z >= 0
    q = coefficient(z + rules.gamma * torch.where(is_up, sums.up, sums.down), r_out=r_out, epsilon=rules.epsilon)
    more = (1 + rules.gamma) * q
    return Sides(torch.where(is_up, more, q), torch.where(is_up, q, more))


def sides_alpha_beta(z: Tensor, sums: Sides, *, r_out: Tensor, rules: Rules) -> Sides:
    """Relevance per unit of contribution under the αβ rule, β = α − 1.

        R_i = Σ_j ( α c_ij⁺ / (z_j⁺ + ε) − β c_ij⁻ / (z_j⁻ − ε) ) · R_j

    Where z_j < 0, α goes with c⁻ and β with c⁺. Where nothing contributes to the side of β, α = 1 and β = 0.
    """
    is_up = z >= 0
    alpha = torch.where(torch.where(is_up, sums.down, sums.up) == 0, 1.0, rules.alpha).to(z.dtype)
    own, other = alpha * r_out, (1 - alpha) * r_out
    return Sides(
        coefficient(sums.up, r_out=torch.where(is_up, own, other), epsilon=rules.epsilon),
        coefficient(sums.down, r_out=torch.where(is_up, other, own), epsilon=rules.epsilon),
    )


def stabiliser_of_sides(z: Tensor, *, q: Sides, rules: Rules) -> Tensor:
    """What the stabilisers of `sides_gamma` or `sides_alpha_beta` take of R_j:  ε sign z_j · q_j, or ε q_j⁺ − ε q_j⁻."""
    if rules.head == "gamma":
        return rules.epsilon * sign(z) * torch.where(z >= 0, q.down, q.up)
    return rules.epsilon * (q.up - q.down)


def changed(x: Tensor, rest: Tensor) -> Tensor:
    """What a value x is beyond its value at rest x⁰; 0 where both are the same infinity, as a mask makes it."""
    return torch.where(x == rest, 0.0, x - rest)


def secant(function: Callable[[Tensor], Tensor], z: Tensor, rest: Tensor) -> Tensor:
    """The slope of an elementwise function from its value at rest:  (φ(z) − φ(z⁰)) / (z − z⁰).

    Where z and z⁰ are close, the mean of φ' between them, by three Gauss–Legendre nodes, because the quotient cancels.
    """
    way = changed(z, rest)
    near = way.abs() <= NEAR * (1 + z.abs() + rest.abs())
    slope = changed(function(z), function(rest)) / torch.where(near, 1.0, way)
    nodes, weights = _gauss_legendre(3)
    means = [weight * derivative(function, rest + node * way) for node, weight in zip(nodes, weights, strict=True)]
    return torch.where(near, sum(means[1:], start=means[0]), slope).nan_to_num(0.0, 0.0, 0.0)


def derivative(function: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    """φ'(z) of an elementwise function."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = z.detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(function(leaf).sum(), leaf)
    return found


def partition_weights(z: Tensor, rest: Tensor, axes: Sequence[int]) -> Tensor:
    """What each term of logsumexp(z) counts, from its value at rest:  w = ∫₀¹ softmax(z⁰ + t (z − z⁰)) dt.

    logsumexp(z) − logsumexp(z⁰) = Σ_k w_k (z_k − z⁰_k): by 32 Gauss–Legendre nodes, then scaled so that this is exact.
    """
    way, whole = changed(z, rest), torch.zeros_like(z)
    for node, weight in zip(*_gauss_legendre(32), strict=True):
        point = rest + node * way
        whole += weight * (point - point.logsumexp(tuple(axes), keepdim=True)).exp()
    gained = changed(z.logsumexp(tuple(axes), keepdim=True), rest.logsumexp(tuple(axes), keepdim=True))
    found = (whole * way).sum(tuple(axes), keepdim=True)
    is_clear = found.abs() > 0.1 * (whole * way.abs()).sum(tuple(axes), keepdim=True)
    return whole * torch.where(is_clear, gained / torch.where(is_clear, found, 1.0), 1.0)


def product_means(a: Tensor, b: Tensor, rests: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The multipliers of the factors of a · b from their values at rest:  (b + b⁰) / 2  and  (a + a⁰) / 2.

    (a − a⁰)(b + b⁰) / 2 + (b − b⁰)(a + a⁰) / 2 = a b − a⁰ b⁰.
    """
    return (b + rests[1]) / 2, (a + rests[0]) / 2


NEAR = 1e-2  # in units of the values


@cache
def _gauss_legendre(count: int) -> tuple[list[float], list[float]]:
    """The nodes and weights of an integral from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return list((nodes + 1) / 2), list(weights / 2)
