"""Sensitivity analysis: how much the score would change, without a sign."""

from dataclasses import dataclass

from whence.methods.forward import Forward
from whence.methods.gradient import gradients
from whence.methods.method import Method, Question
from whence.result import Result


@dataclass(frozen=True)
class SensitivityAnalysis(Method):
    """R_d = (∂f_c / ∂x_d)²: never negative; the sum over all d is the squared norm of the gradient."""

    name = "sa"
    label = "sensitivity analysis"
    short = "SA"
    is_signed = False
    is_additive = False  # squares, taken in each direction alone, do not add up
    answers = frozenset({"direction"})

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Square the gradient."""
        found = gradients(forward, question)
        return found.result([each.square() for each in found.derivatives], forward, self)
