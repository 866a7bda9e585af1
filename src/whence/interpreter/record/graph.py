"""PyTorch's own derivative of one recorded call: for a linear map, its adjoint."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

from whence.interpreter.record.memory import version_of
from whence.interpreter.record.step import Step
from whence.trees import floats_of


class Graph:
    """PyTorch's own derivative of one call: for a linear map, its adjoint.

    `make` runs the call again from the values as they were: a model may write in place into the memory that the graph keeps.
    """

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], make: "Callable[[], Graph] | None" = None) -> None:
        self.inputs, self.outputs, self.make = inputs, outputs, make
        self._writes = self._counted()

    def _counted(self) -> list[int]:
        """How often the memory of inputs and outputs was written to."""
        return [version_of(tensor) for tensor in (*self.inputs, *self.outputs)]

    def _current(self) -> "Graph":
        """This graph, or a new one if its memory was written to."""
        if self.make is None or self._counted() == self._writes:
            return self
        return self.make()

    def adjoint(self, arriving: Sequence[Tensor | None]) -> list[Tensor]:
        """Carry (K, *output shape) back to (K, *input shape) for every input."""
        return self._current()._adjoint(arriving)

    def _adjoint(self, arriving: Sequence[Tensor | None]) -> list[Tensor]:
        targets = next(len(r) for r in arriving if r is not None)
        pairs = [(out, r) for out, r in zip(self.outputs, arriving, strict=True) if r is not None and out.requires_grad]
        if not pairs:  # only constants, as after y[:] = 0
            return [x.new_zeros(targets, *x.shape) for x in self.inputs]
        outputs, grads = zip(*pairs, strict=True)
        single = targets == 1
        found = torch.autograd.grad(
            outputs,
            list(self.inputs),
            [grad[0] for grad in grads] if single else grads,
            retain_graph=True,
            allow_unused=True,
            is_grads_batched=not single,
        )
        found = cast(Sequence[Tensor | None], found)
        return [
            x.new_zeros(targets, *x.shape) if grad is None else grad[None] if single else grad
            for x, grad in zip(self.inputs, found, strict=True)
        ]

    def forward(self, given: Sequence[Tensor]) -> list[Tensor]:
        """Carry (M, *input shape) of every input forward to (M, *output shape): the derivative times each row."""
        return self._current()._forward(given)

    def _forward(self, given: Sequence[Tensor]) -> list[Tensor]:
        rows, live = len(given[0]), [out for out in self.outputs if out.requires_grad]
        with torch.enable_grad():
            probes = [torch.zeros_like(out, requires_grad=True) for out in live]
            # the adjoint is linear in the probes, so that its own derivative, times a row, is what this row becomes
            back = torch.autograd.grad(live, list(self.inputs), probes, create_graph=True, materialize_grads=True)
            pairs = [(each, own) for each, own in zip(back, given, strict=True) if each.requires_grad]
            outputs, grads = zip(*pairs, strict=True)
            made = torch.autograd.grad(outputs, probes, grads, is_grads_batched=True, materialize_grads=True)
        found = iter(made)
        return [next(found) if out.requires_grad else out.new_zeros(rows, *out.shape) for out in self.outputs]

    def covered(self) -> list[Tensor]:
        """For every output element, the part that comes from an input: 1, 0 for a constant, or a half where both tie."""
        return [real(each) for each in self._current()._probed([torch.ones_like(x) for x in self.inputs])]

    def touched(self, marked: Sequence[Tensor]) -> list[Tensor]:
        """For every output, where it changes with the marked elements of the inputs (same shapes, 1 where marked)."""
        return [each != 0 for each in self._current()._probed(marked)]

    def _probed(self, marked: Sequence[Tensor]) -> list[Tensor]:
        """The derivative times the marks, for every output; 0 for one that is a constant."""
        live = [out for out in self.outputs if out.requires_grad]
        if not live:
            return [torch.zeros_like(out) for out in self.outputs]
        with torch.enable_grad():
            probes = [torch.ones_like(out, requires_grad=True) for out in live]
            back = torch.autograd.grad(live, list(self.inputs), probes, create_graph=True, materialize_grads=True)
            reached = torch.stack([real((each * mark).sum()) for each, mark in zip(back, marked, strict=True)]).sum()
            if not reached.requires_grad:  # every derivative is 0: all elements were overwritten
                return [torch.zeros_like(out) for out in self.outputs]
            found = iter(torch.autograd.grad(reached, probes, materialize_grads=True))
        return [next(found) if out.requires_grad else torch.zeros_like(out) for out in self.outputs]


def real(tensor: Tensor) -> Tensor:
    """The real part of a tensor."""
    return tensor.real if tensor.is_complex() else tensor


def graph_of(step: Step) -> tuple[object, Graph]:
    """Run the step's call with its live values as fresh leaves, and keep PyTorch's derivative of it."""
    with torch.enable_grad():
        aliases = {value: value.tensor.detach().requires_grad_() for value in step.inputs if value.is_live}
        result = step.again(
            lambda value: aliases.get(value, value.tensor),
            lambda constant: constant.detach(),
        )
    return result, Graph(tuple(aliases.values()), floats_of(result), lambda: graph_of(step)[1])
