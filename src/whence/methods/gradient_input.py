"""Gradient × Input: the score's first-order share of every input."""

from dataclasses import dataclass

from whence.methods.forward import Forward
from whence.methods.gradient import gradients
from whence.methods.target import Target
from whence.result import Result


@dataclass(frozen=True)
class GradientXInput:
    """R_d = x_d · ∂f_c / ∂x_d: signed, but in a network with gates it does not add up to the score."""

    @property
    def name(self) -> str:
        """The name by which commands and files know the method."""
        return "gi"

    def relevance(self, forward: Forward, target: Target, *, direction: int | None = None) -> Result:
        """Multiply the gradient by the input."""
        found, scores, selection = gradients(forward, target, direction=direction)
        products = [each * tensor for each, tensor in zip(found, forward.tensors, strict=True)]
        relevance = forward.wrapped([selection.led(each) for each in products])
        return Result(relevance, selection.shaped(scores), selection.target, self)
