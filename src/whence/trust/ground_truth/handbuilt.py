"""An LSTM with one cell whose weights are written down instead of trained, so that what it computes is known exactly."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from whence.recurrent.lstm.weights import lstm_gates

FULLY = 40.0  # in double precision, sigm(40) is 1 and its derivative 0; sigm(−40) is 4e-18


class Unit(NamedTuple):
    """The weights of a gate or of the candidate on the features of a step, and its bias; nothing comes from the last state."""

    weights: Sequence[float]
    bias: float


class HandBuilt(nn.Module):
    """score = scale · h_T of an nn.LSTM with one cell in double precision."""

    def __init__(self, *, i: Unit, f: Unit, g: Unit, o: Unit, scale: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(len(g.weights), 1, batch_first=True, dtype=torch.float64)
        self.head = nn.Linear(1, 1, bias=False, dtype=torch.float64)
        with torch.no_grad():
            for each in self.lstm.parameters():
                each.zero_()
            weights = lstm_gates(cast(Tensor, self.lstm.weight_ih_l0), axis=0)
            biases = lstm_gates(cast(Tensor, self.lstm.bias_ih_l0))
            for name, unit in (("i", i), ("f", f), ("g", g), ("o", o)):
                weight, bias = cast(Tensor, getattr(weights, name)), cast(Tensor, getattr(biases, name))
                weight.copy_(torch.tensor([unit.weights], dtype=torch.float64))
                bias.fill_(unit.bias)
            self.head.weight.fill_(scale)

    def forward(self, x: Tensor) -> Tensor:
        """One score for each sequence (B, T, features)."""
        return self.head(self.lstm(x)[0][:, -1])[:, 0]


def always_open(features: int) -> Unit:
    """A gate that is 1 at every step."""
    return Unit([0.0] * features, FULLY)
