"""Which path a recurrent layer takes, and why: the readable reference, or a faster one that is tested against it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from whence.recurrent import compiled
from whence.recurrent.gru import cpu as gru_cpu
from whence.recurrent.lstm import cpu as lstm_cpu
from whence.recurrent.sweep import Swept
from whence.recurrent.weights import GRUWeights, LSTMWeights
from whence.rules.equations import Product, Rules

States = Sequence[tuple[Tensor, ...]]  # for every direction


class Path(NamedTuple):
    """The path of a layer: "reference", "plain" (few large operations) or "compiled" (kernels in C), and why."""

    name: str
    reason: str


def path(weights: Any, x: Tensor, *, product: Product) -> Path:
    """The path of a layer with these weights for an input x (T, B, E)."""
    if not isinstance(weights, (LSTMWeights, GRUWeights)):
        return Path("reference", "only nn.LSTM and nn.GRU have a faster path")
    if product != "all" or (isinstance(weights, LSTMWeights) and weights.projection is not None):
        return Path("reference", "a projection, or another rule for products than the paper's, has no faster path")
    if x.device.type == "cuda" and isinstance(weights, LSTMWeights) and x.dtype in compiled.PRECISIONS:
        return Path("plain", "on a GPU PyTorch's own operations do the work")
    if x.device.type != "cpu" or x.dtype not in compiled.PRECISIONS:
        return Path("reference", f"there is no faster path for {x.dtype} on {x.device.type}")
    if isinstance(weights, GRUWeights):
        built = compiled.built("gru/steps.c", x.dtype)
        return Path("reference" if built.library is None else "compiled", built.reason)
    built = compiled.built("lstm/steps.c", x.dtype)
    return Path("plain" if built.library is None else "compiled", built.reason)


class Layer(Protocol):
    """What one layer's forward pass kept, for all directions, and the way back through it."""

    def outputs(self) -> list[Tensor]:
        """For every direction the hidden state after every step (T, B, ·)."""
        ...

    def final(self) -> list[tuple[Tensor, ...]]:
        """For every direction the final states (B, ·)."""
        ...

    def relevance(self, r_outputs: Sequence[Tensor] | None, r_states: States, rule: Rules, *, keep: bool) -> list[Swept]:
        """For every direction where relevance went; without `r_outputs` none arrives at the outputs of steps."""
        ...


class ReferenceLayer:
    """A direction at a time, step by step."""

    def __init__(
        self,
        cell: Any,
        x: Sequence[Tensor],
        weights: Sequence[Any],
        states: States,
        lengths: Tensor | None,
    ) -> None:
        self.cell, self.weights = cell, weights
        self.tapes = [
            cell.forward(own, each, states=state, lengths=lengths) for own, each, state in zip(x, weights, states, strict=True)
        ]

    def outputs(self) -> list[Tensor]:
        """For every direction the hidden state after every step (T, B, ·)."""
        return [tape.outputs() for tape in self.tapes]

    def final(self) -> list[tuple[Tensor, ...]]:
        """For every direction the final states (B, ·)."""
        return [tape.final() for tape in self.tapes]

    def relevance(self, r_outputs: Sequence[Tensor] | None, r_states: States, rule: Rules, *, keep: bool) -> list[Swept]:
        """For every direction where relevance went."""
        if r_outputs is None:
            targets = len(r_states[0][0])
            r_outputs = [each.new_zeros(targets, *each.shape) for each in self.outputs()]
        return [
            self.cell.relevance(tape, own, r_outputs=arrived, r_states=states, rule=rule, keep=keep)
            for tape, own, arrived, states in zip(self.tapes, self.weights, r_outputs, r_states, strict=True)
        ]


class FastLayer:
    """All directions at once."""

    def __init__(
        self,
        slow: Callable[[], ReferenceLayer],
        x: Sequence[Tensor],
        weights: Sequence[Any],
        states: States,
        lengths: Tensor | None,
        *,
        compiled: bool,
    ) -> None:
        self.slow, self.weights = slow, weights
        self.path: Any = lstm_cpu if isinstance(weights[0], LSTMWeights) else gru_cpu
        settings = {"compiled": compiled} if self.path is lstm_cpu else {}
        self.tape = self.path.forward(x, weights, states=states, lengths=lengths, **settings)

    def outputs(self) -> list[Tensor]:
        """For every direction the hidden state after every step (T, B, H)."""
        return self.tape.outputs()

    def final(self) -> list[tuple[Tensor, ...]]:
        """For every direction the final states (B, H)."""
        return self.tape.final()

    def relevance(self, r_outputs: Sequence[Tensor] | None, r_states: States, rule: Rules, *, keep: bool) -> list[Swept]:
        """For every direction where relevance went; every state's own is kept by the reference alone."""
        if keep or rule.epsilon == 0:  # without a stabiliser, 0 / 0 needs a look at every number
            return self.slow().relevance(r_outputs, r_states, rule, keep=keep)
        arrived = [None] * len(self.weights) if r_outputs is None else r_outputs
        return self.path.relevance(self.tape, self.weights, r_outputs=arrived, r_states=r_states, rule=rule)


def run_layer(
    cell: Any, x: Sequence[Tensor], weights: Sequence[Any], states: States, lengths: Tensor | None, *, product: Product
) -> Layer:
    """Run a layer's directions, each over x (T, B, E) in its own order, on the path that is best for it."""
    chosen = path(weights[0], x[0], product=product)

    def slow() -> ReferenceLayer:
        return ReferenceLayer(cell, x, weights, states, lengths)

    if chosen.name == "reference" or any(each.dtype != x[0].dtype for state in states for each in state):
        return slow()
    with torch.no_grad():
        return FastLayer(slow, x, weights, states, lengths, compiled=chosen.name == "compiled")
