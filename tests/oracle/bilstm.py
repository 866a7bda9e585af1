"""The paper's model: two LSTMs, one reading the words in order and one in reverse, and a linear layer without bias."""

from dataclasses import dataclass

import numpy as np

from tests.oracle import lstm
from tests.oracle.lstm import Array, States, Weights


@dataclass
class BiLSTM:
    """A left encoder (words in order), a right encoder (reverse), and V (C, 2H) on their last states."""

    left: Weights
    right: Weights
    V: Array

    def forward(self, x: Array) -> tuple[Array, States, States]:
        """The scores (C,) and both encoders' states; the right one's are in its own, reversed order."""
        left, right = lstm.forward(x, self.left), lstm.forward(x[::-1], self.right)
        return self.V @ np.concatenate([left.h[-1], right.h[-1]]), left, right

    def lrp(self, x: Array, target: int, *, epsilon: float, delta: float, shared: bool) -> tuple[Array, Array, float]:
        """Relevance (T, E) through the left and through the right encoder, and the initial states' share."""
        scores, left, right = self.forward(x)
        settings = {"epsilon": epsilon, "delta": delta, "shared": shared}
        hidden = len(left.h[-1])
        r_start = np.zeros(len(scores))
        r_start[target] = scores[target]
        r_last = lstm.weighted(
            np.concatenate([left.h[-1], right.h[-1]]), self.V, np.zeros(len(scores)), scores, r_start, n=2 * hidden, **settings
        )
        r_left, r_h_left, r_c_left = lstm.lrp(left, self.left, r_last[:hidden], **settings)
        r_right, r_h_right, r_c_right = lstm.lrp(right, self.right, r_last[hidden:], **settings)
        rest = sum(each.sum() for each in (r_h_left, r_c_left, r_h_right, r_c_right))
        return r_left, r_right[::-1], float(rest)

    def gradient(self, x: Array, target: int) -> Array:
        """∂f_c/∂x (T, E): both encoders read the same word, so their gradients add up."""
        _, left, right = self.forward(x)
        hidden = len(left.h[-1])
        from_left = lstm.gradient(left, self.left, self.V[target, :hidden])
        return from_left + lstm.gradient(right, self.right, self.V[target, hidden:])[::-1]

    def sensitivity(self, x: Array, target: int) -> Array:
        """(∂f_c/∂x)²."""
        return self.gradient(x, target) ** 2
