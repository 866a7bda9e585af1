"""Runs of a model on other inputs than the given ones, and whether they gave something else."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import cast

import torch
from torch import Tensor

from whence.choice import Choice
from whence.engine.layers import Layers
from whence.methods.forward import Followed, Forward, Run
from whence.methods.gradient import DifferentiableRecurrence
from whence.methods.layout import Layout
from whence.methods.probe import Randomness, repeated
from whence.methods.state import State
from whence.methods.target import Target

# Called before every run of the model; it may raise to stop an explanation that nobody waits for any more.
BEFORE_RUN: ContextVar[Callable[[], None]] = ContextVar("before_run", default=lambda: None)


class Runs:
    """Runs the model, each time from the same state and with the same random numbers."""

    def __init__(self, forward: Forward, target: Target, state: State) -> None:
        self.forward, self.target = forward, target
        self._state, self._before = state, Randomness()
        self.choices: tuple[Choice, ...] = ()  # where the derivative stops, if it was taken

    def run(self, forward: Forward, tensors: Sequence[Tensor] | None, mode: Followed) -> Run:
        """One run, with these tensors in place of the explained ones if they are given; a callable target is applied."""
        BEFORE_RUN.get()()

        def leaf(number: int, tensor: Tensor) -> Tensor:
            with mode.context():
                return (tensor if tensors is None else tensors[number]).clone()

        self._state.restore()
        with repeated(self._before):
            found = forward.run(leaf, mode)
            if callable(self.target):
                with type(mode)():
                    found = found._replace(output=self.target(found.output))
        return found

    def output(self, tensors: Sequence[Tensor] | None, forward: Forward | None = None) -> Tensor:
        """What the model gives for these tensors."""
        return cast(Tensor, self.run(forward or self.forward, tensors, Followed()).output)

    def graph(self, tensors: Sequence[Tensor], forward: Forward | None = None, *, leaves: Sequence[Tensor]) -> Tensor:
        """The same with a graph that leads to the leaves from which the tensors were made."""
        with torch.enable_grad():
            layers = Layers(self.forward.parts)
            mode = DifferentiableRecurrence(layers=layers)
            mode.leaves = list(leaves)
            with layers.watched():
                found = self.run(forward or self.forward, tensors, mode)
            self.choices = mode.choices
            return cast(Tensor, found.output)


def laid(layouts: Sequence[Layout], ordered: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors that are ordered by samples and steps, as the model reads them."""
    parts = zip(layouts, ordered, tensors, strict=True)
    return [layout.whole(each[None], rest=own.detach())[0] for layout, each, own in parts]


def changed(output: Tensor, before: Tensor, axis: int | None, *, rounding: float = 16.0) -> Tensor:
    """Which samples (B,) of an output differ from what they were by more than this many units of rounding."""
    if axis is None:
        output, before, axis = output[None], before[None], 0
    one, other = (each.movedim(axis, 0).flatten(1) if each.dim() > 1 else each[:, None] for each in (output, before))
    largest = other.masked_fill(~other.isfinite(), 0).abs().amax(1, keepdim=True)
    is_same = (one == other) | ((one - other).abs() <= rounding * torch.finfo(other.dtype).eps * largest)
    return ~is_same.all(1)
