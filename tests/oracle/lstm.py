"""One LSTM reading one sentence: forward, gradient and LRP, neuron by neuron."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.oracle.products import split

Array = NDArray[np.float64]


@dataclass
class Weights:
    """Gate by gate: U (H, E), W (H, H), b (H,) for each of "i", "f", "g", "o"."""

    U: dict[str, Array]
    W: dict[str, Array]
    b: dict[str, Array]

    @staticmethod
    def stacked(u: Array, w: Array, b: Array, order: str) -> "Weights":
        """From matrices that hold the four gates in the given order."""
        return Weights(
            dict(zip(order, np.split(u, 4), strict=True)),
            dict(zip(order, np.split(w, 4), strict=True)),
            dict(zip(order, np.split(b, 4), strict=True)),
        )


@dataclass
class States:
    """Everything the forward pass computed; h[t], c[t] are the states before step t."""

    x: Array  # (T, E)
    h: Array  # (T + 1, H)
    c: Array  # (T + 1, H)
    i: Array
    f: Array
    g: Array
    o: Array
    a: Array  # the candidate before its tanh


def sigmoid(z: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-z))


def forward(x: Array, weights: Weights, h0: Array | None = None, c0: Array | None = None) -> States:
    """i, f, o = σ(W h + U x + b);  g = tanh(...);  c = f c⁻ + i g;  h = o tanh c."""
    steps, hidden = len(x), len(weights.b["g"])
    h, c = np.zeros((steps + 1, hidden)), np.zeros((steps + 1, hidden))
    if h0 is not None and c0 is not None:
        h[0], c[0] = h0, c0
    gates = {gate: np.zeros((steps, hidden)) for gate in "ifgoa"}
    for t in range(steps):
        z = {gate: weights.W[gate] @ h[t] + weights.U[gate] @ x[t] + weights.b[gate] for gate in "ifgo"}
        gates["i"][t], gates["f"][t], gates["o"][t] = sigmoid(z["i"]), sigmoid(z["f"]), sigmoid(z["o"])
        gates["a"][t], gates["g"][t] = z["g"], np.tanh(z["g"])
        c[t + 1] = gates["f"][t] * c[t] + gates["i"][t] * gates["g"][t]
        h[t + 1] = gates["o"][t] * np.tanh(c[t + 1])
    return States(x, h, c, **gates)


def weighted(
    z_in: Array, w: Array, b: Array, z_out: Array, r_out: Array, *, n: int, epsilon: float, delta: float, shared: bool
) -> Array:
    """R_i←j = ( z_i w_ij + (ε sign z_j + δ b_j)/N ) / ( z_j + ε sign z_j ) · R_j; w is (J, I).

    Not shared, the authors' released code: δ (ε sign z_j + b_j)/N instead.
    """
    r_in = np.zeros(len(z_in))
    for j in range(len(z_out)):
        sign = 1.0 if z_out[j] >= 0 else -1.0
        extra = epsilon * sign + delta * b[j] if shared else delta * (epsilon * sign + b[j])
        for i in range(len(z_in)):
            r_in[i] += (z_in[i] * w[j, i] + extra / n) / (z_out[j] + epsilon * sign) * r_out[j]
    return r_in


def lrp(
    states: States, weights: Weights, r_last: Array, *, epsilon: float, delta: float, shared: bool, product: str = "all"
) -> tuple[Array, Array, Array]:
    """Relevance of x (T, E) and of the two initial states, from that of the last hidden state."""
    steps, embedding = states.x.shape
    hidden = len(r_last)
    settings = {"epsilon": epsilon, "delta": delta, "shared": shared}
    r_x = np.zeros_like(states.x)
    r_h, r_c = r_last.copy(), np.zeros(hidden)
    none = np.zeros(1)
    for t in reversed(range(steps)):
        r_gate = {gate: np.zeros(hidden) for gate in "ifgo"}
        for j in range(hidden):
            r_gate["o"][j], r_tanh = split(states.o[t][j], np.tanh(states.c[t + 1][j]), r_h[j], product=product, **settings)
            terms = np.array([states.f[t][j] * states.c[t][j], states.i[t][j] * states.g[t][j]])
            r_sum = np.array([r_c[j] + r_tanh])
            kept, new = weighted(terms, np.ones((1, 2)), none, states.c[t + 1][j : j + 1], r_sum, n=2, **settings)
            r_gate["f"][j], r_c[j] = split(states.f[t][j], states.c[t][j], kept, product=product, **settings)
            r_gate["i"][j], r_gate["g"][j] = split(states.i[t][j], states.g[t][j], new, product=product, **settings)
        lower = np.concatenate([states.x[t], states.h[t]])
        r_h = np.zeros(hidden)
        for gate, r_a in r_gate.items():
            w = np.concatenate([weights.U[gate], weights.W[gate]], axis=1)
            z = w @ lower + weights.b[gate]
            back = weighted(lower, w, weights.b[gate], z, r_a, n=embedding + hidden, **settings)
            r_x[t] += back[:embedding]
            r_h += back[embedding:]
    return r_x, r_h, r_c


def gradient(states: States, weights: Weights, d_last: Array) -> Array:
    """∂/∂x (T, E) of d_last · h_T, by the chain rule backwards through time."""
    d_x = np.zeros_like(states.x)
    d_h, d_c = d_last.copy(), np.zeros(len(d_last))
    for t in reversed(range(len(states.x))):
        i, f, g, o = states.i[t], states.f[t], states.g[t], states.o[t]
        tanh_c = np.tanh(states.c[t + 1])
        d_c = d_c + d_h * o * (1 - tanh_c**2)
        d = {
            "o": d_h * tanh_c * o * (1 - o),
            "i": d_c * g * i * (1 - i),
            "f": d_c * states.c[t] * f * (1 - f),
            "g": d_c * i * (1 - g**2),
        }
        d_x[t] = sum(weights.U[gate].T @ d[gate] for gate in "ifgo")
        d_h = sum(weights.W[gate].T @ d[gate] for gate in "ifgo")
        d_c = d_c * f
    return d_x
