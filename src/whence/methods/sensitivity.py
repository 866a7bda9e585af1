"""Sensitivity analysis: how much the score would change, without a sign."""

from dataclasses import dataclass

from whence.methods.forward import Forward
from whence.methods.gradient import gradients
from whence.methods.target import Target
from whence.result import Result


@dataclass(frozen=True)
class SensitivityAnalysis:
    """R_d = (∂f_c / ∂x_d)²: never negative, summed over all d the squared norm of the gradient."""

    @property
    def name(self) -> str:
        """The name by which commands and files know the method."""
        return "sa"

    def relevance(self, forward: Forward, target: Target, *, direction: int | None = None) -> Result:
        """Square the gradient."""
        found, scores, selection = gradients(forward, target, direction=direction)
        squared = [each.square() for each in found]
        relevance = forward.wrapped([selection.led(each) for each in squared])
        return Result(relevance, selection.shaped(scores), selection.target, self)
