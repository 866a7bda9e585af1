"""One GRU reading one sentence, in PyTorch's and in Keras' convention: forward and LRP, neuron by neuron."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tests.oracle.lstm import sigmoid, weighted
from tests.oracle.products import split

Array = NDArray[np.float64]


@dataclass
class Weights:
    """Gate by gate: U (H, E), W (H, H), bx and bh (H,) for each of "r", "z", "n"; Keras has bh = 0 for r and z."""

    U: dict[str, Array]
    W: dict[str, Array]
    bx: dict[str, Array]
    bh: dict[str, Array]
    reset_after: bool = True


def step(x: Array, h: Array, w: Weights) -> dict[str, Array]:
    """One step: everything it computes.

    PyTorch: n = tanh(U x + bx + r ⊙ (W h + bh)). Keras' reset_after=False: n = tanh(U x + W (r ⊙ h) + bx + bh).
    """
    a = {gate: w.U[gate] @ x + w.bx[gate] + w.W[gate] @ h + w.bh[gate] for gate in "rz"}
    r, z = sigmoid(a["r"]), sigmoid(a["z"])
    m = w.W["n"] @ h + w.bh["n"]
    a_n = w.U["n"] @ x + w.bx["n"] + (r * m if w.reset_after else w.W["n"] @ (r * h) + w.bh["n"])
    new = (1 - z) * np.tanh(a_n) + z * h
    return {"a_r": a["r"], "a_z": a["z"], "r": r, "z": z, "m": m, "a_n": a_n, "h": new}


def lrp(
    x: Array, w: Weights, h0: Array, r_last: Array, *, epsilon: float, delta: float, shared: bool, product: str = "all"
) -> tuple[Array, Array]:
    """Relevance of x (T, E) and of the initial state, from that of the last state."""
    settings = {"epsilon": epsilon, "delta": delta, "shared": shared}
    hidden, embedding = w.U["n"].shape
    states, steps = [h0], []
    for x_t in x:
        steps.append(step(x_t, states[-1], w))
        states.append(steps[-1]["h"])
    r_x, r_h, none = np.zeros_like(x), r_last.copy(), np.zeros(1)
    for t in reversed(range(len(x))):
        s, before = steps[t], states[t]
        n = np.tanh(s["a_n"])
        r_gate = {"r": np.zeros(hidden), "z": np.zeros(hidden)}
        r_n, r_before = np.zeros(hidden), np.zeros(hidden)
        for j in range(hidden):
            terms = np.array([(1 - s["z"][j]) * n[j], s["z"][j] * before[j]])
            new, kept = weighted(terms, np.ones((1, 2)), none, s["h"][j : j + 1], r_h[j : j + 1], n=2, **settings)
            closed, r_n[j] = split(1 - s["z"][j], n[j], new, product=product, **settings)
            opened, r_before[j] = split(s["z"][j], before[j], kept, product=product, **settings)
            r_gate["z"][j] = closed + opened
        if w.reset_after:
            for j in range(hidden):  # the candidate's sum: E inputs and one product
                lower = np.append(x[t], s["r"][j] * s["m"][j])
                row = np.append(w.U["n"][j], 1.0)[None]
                bias = w.bx["n"][j : j + 1]
                back = weighted(lower, row, bias, s["a_n"][j : j + 1], r_n[j : j + 1], n=embedding + 1, **settings)
                r_x[t] += back[:-1]
                r_gate["r"][j], r_m = split(s["r"][j], s["m"][j], back[-1], product=product, **settings)
                r_before += weighted(
                    before, w.W["n"][j : j + 1], w.bh["n"][j : j + 1], s["m"][j : j + 1], np.array([r_m]), n=hidden, **settings
                )
        else:
            lower = np.concatenate([x[t], s["r"] * before])
            both = np.concatenate([w.U["n"], w.W["n"]], axis=1)
            back = weighted(lower, both, w.bx["n"] + w.bh["n"], s["a_n"], r_n, n=embedding + hidden, **settings)
            r_x[t] += back[:embedding]
            for j in range(hidden):
                r_gate["r"][j], more = split(s["r"][j], before[j], float(back[embedding + j]), product=product, **settings)
                r_before[j] += more
        for gate, r_a in r_gate.items():
            lower, both = np.concatenate([x[t], before]), np.concatenate([w.U[gate], w.W[gate]], axis=1)
            back = weighted(lower, both, w.bx[gate] + w.bh[gate], s[f"a_{gate}"], r_a, n=embedding + hidden, **settings)
            r_x[t] += back[:embedding]
            r_before += back[embedding:]
        r_h = r_before
    return r_x, r_h
