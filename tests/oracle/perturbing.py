"""Methods that run a model on other inputs, for one sequence x (T, E) and any function of it, straight from the formulas."""

from collections.abc import Callable
from itertools import permutations

import numpy as np

from tests.oracle.lstm import Array

Score = Callable[[Array], float]
Gradient = Callable[[Array], Array]


def integrated_gradients(gradient: Gradient, x: Array, start: Array, *, steps: int) -> Array:
    """R = (x − x⁰) ∫ ∂f/∂x (x⁰ + α (x − x⁰)) dα, by the midpoints of equal intervals."""
    total = np.zeros_like(x)
    for n in range(steps):
        total += gradient(start + (n + 0.5) / steps * (x - start))
    return (x - start) * total / steps


def occlusion(score: Score, x: Array, start: Array, *, window: int) -> Array:
    """R_t (T,): the mean of f(x) − f(x with a window at the baseline) over all windows that hold step t."""
    steps, window = len(x), min(window, len(x))
    relevance = np.zeros(steps)
    for t in range(steps):
        drops = []
        for first in range(steps - window + 1):
            if first <= t < first + window:
                occluded = x.copy()
                occluded[first : first + window] = start[first : first + window]
                drops.append(score(x) - score(occluded))
        relevance[t] = np.mean(drops)
    return relevance


def shapley(score: Score, x: Array, start: Array) -> Array:
    """R_t (T,): the mean of what step t adds to the score over all orders of the steps."""
    relevance, orders = np.zeros(len(x)), list(permutations(range(len(x))))
    for order in orders:
        given = start.copy()
        for t in order:
            before = score(given)
            given[t] = x[t]
            relevance[t] += (score(given) - before) / len(orders)
    return relevance
