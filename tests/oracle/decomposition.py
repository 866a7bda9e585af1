"""Contextual decomposition (Murdoch et al., 2018) of one sentence and one phrase, unit by unit, with all three parts.

A value is (β, γ, b): from the phrase, from everything else, and from constants alone. States of recurrent layers have no b.
"""

from collections.abc import Callable, Sequence
from math import exp, tanh
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

Array = NDArray[np.float64]
Triple = tuple[float, float, float]
Vector = list[Triple]


class Weights(NamedTuple):
    """One direction of one layer, as PyTorch stacks the gates: U (G·H, E), W (G·H, ·), two biases (G·H,), projection (P, H)."""

    u: Array
    w: Array
    b_x: Array
    b_h: Array
    projection: Array | None = None


def weights_of(layer: nn.RNNBase) -> list[list[Weights]]:
    """PyTorch's parameters, by layer and direction."""
    found: list[list[Weights]] = []
    for k in range(layer.num_layers):
        places = [f"l{k}", f"l{k}_reverse"][: 1 + layer.bidirectional]
        found.append([_weights_at(dict(layer.named_parameters()), place) for place in places])
    return found


def _weights_at(parameters: dict[str, nn.Parameter], place: str) -> Weights:
    arrays = {name.removesuffix(f"_{place}"): each.detach().numpy() for name, each in parameters.items()}
    none = np.zeros(len(arrays["weight_hh"]))
    biases = [arrays.get(name, none) for name in ("bias_ih", "bias_hh")]
    return Weights(arrays["weight_ih"], arrays["weight_hh"], biases[0], biases[1], arrays.get("weight_hr"))


def sigmoid(z: float) -> float:
    return 1 / (1 + exp(-z))


def relu(z: float) -> float:
    return max(z, 0.0)


def linearised(f: Callable[[float], float], value: Triple) -> Triple:
    """What each part adds to f when it joins, the bias first: the mean over the orders β, γ and γ, β."""
    beta, gamma, bias = value
    beta_first = f(bias + beta) - f(bias)
    beta_second = f(bias + gamma + beta) - f(bias + gamma)
    gamma_first = f(bias + gamma) - f(bias)
    gamma_second = f(bias + beta + gamma) - f(bias + beta)
    return (beta_first + beta_second) / 2, (gamma_first + gamma_second) / 2, f(bias)


def product(one: Triple, other: Triple) -> Triple:
    """All nine products: one with a γ is the rest's, one of two biases is the bias's, the others are the phrase's."""
    found = [0.0, 0.0, 0.0]
    for m, first in enumerate(one):
        for n, second in enumerate(other):
            owner = 1 if 1 in (m, n) else 2 if (m, n) == (2, 2) else 0
            found[owner] += first * second
    return found[0], found[1], found[2]


def settled(value: Triple, is_inside: bool) -> Triple:
    beta, gamma, bias = value
    return (beta + bias, gamma, 0.0) if is_inside else (beta, gamma + bias, 0.0)


def total(*values: Triple) -> Triple:
    return sum(v[0] for v in values), sum(v[1] for v in values), sum(v[2] for v in values)


def weighted(row: Array, vector: Vector, bias: float = 0.0) -> Triple:
    """A weighted sum, part by part; its own bias joins the third."""
    beta, gamma, constant = (sum(float(w) * value[part] for w, value in zip(row, vector, strict=True)) for part in range(3))
    return beta, gamma, constant + bias


def lstm_step(x: Vector, h: Vector, c: Vector, weights: Weights, is_inside: bool) -> tuple[Vector, Vector]:
    size = len(c)
    new_c, m = [], []
    for j in range(size):
        i, f, g, o = (
            total(weighted(weights.u[k], x, float(weights.b_x[k] + weights.b_h[k])), weighted(weights.w[k], h))
            for k in (j, size + j, 2 * size + j, 3 * size + j)
        )
        written = settled(product(linearised(sigmoid, i), linearised(tanh, g)), is_inside)
        new_c.append(total(written, product(linearised(sigmoid, f), c[j])))
        opened = sigmoid(sum(o))
        beta, gamma, bias = linearised(tanh, new_c[j])
        m.append((opened * beta, opened * gamma, opened * bias))
    return [weighted(row, m) for row in weights.projection] if weights.projection is not None else m, new_c


def gru_step(x: Vector, h: Vector, weights: Weights, is_inside: bool) -> Vector:
    size, new = len(h), []
    for j in range(size):
        from_x = [weighted(weights.u[k], x, float(weights.b_x[k])) for k in (j, size + j, 2 * size + j)]
        from_h = [weighted(weights.w[k], h, float(weights.b_h[k])) for k in (j, size + j, 2 * size + j)]
        r, z = (linearised(sigmoid, total(from_x[k], from_h[k])) for k in (0, 1))
        n = linearised(tanh, total(from_x[2], product(r, from_h[2])))
        written = settled(product((-z[0], -z[1], 1 - z[2]), n), is_inside)
        new.append(total(written, product(z, h[j])))
    return new


def rnn_step(x: Vector, h: Vector, weights: Weights, is_inside: bool, activation: Callable[[float], float]) -> Vector:
    sums = [
        total(weighted(weights.u[j], x, float(weights.b_x[j] + weights.b_h[j])), weighted(weights.w[j], h))
        for j in range(len(h))
    ]
    return [settled(linearised(activation, each), is_inside) for each in sums]


def step(kind: str, x: Vector, states: Sequence[Vector], weights: Weights, is_inside: bool) -> list[Vector]:
    if kind == "lstm":
        return list(lstm_step(x, states[0], states[1], weights, is_inside))
    if kind == "gru":
        return [gru_step(x, states[0], weights, is_inside)]
    return [rnn_step(x, states[0], weights, is_inside, tanh if kind == "rnn_tanh" else relu)]


def network(
    kind: str, x: Array, inside: Sequence[bool], layers: Sequence[Sequence[Weights]], states: Sequence[Array]
) -> tuple[list[Vector], list[list[Vector]]]:
    """The last layer's outputs, and the final states of every layer and direction in turn.

    x (T, E); inside, for every step whether it is in the phrase; states (layers · directions, ·) each, which are the rest's.
    """
    vectors = [[(value, 0.0, 0.0) if own else (0.0, value, 0.0) for value in row] for row, own in zip(x, inside, strict=True)]
    finals: list[list[Vector]] = []
    for directions in layers:
        read: list[list[Vector]] = []
        for d, weights in enumerate(directions):
            now = [[(0.0, float(value), 0.0) for value in state[len(finals)]] for state in states]
            outputs: list[Vector] = [[] for _ in vectors]
            for t in reversed(range(len(vectors))) if d else range(len(vectors)):
                now = step(kind, vectors[t], now, weights, inside[t])
                outputs[t] = now[0]
            read.append(outputs)
            finals.append(now)
        vectors = [[value for outputs in read for value in outputs[t]] for t in range(len(vectors))]
    return vectors, finals
