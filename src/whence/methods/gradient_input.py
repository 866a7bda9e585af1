"""Gradient × Input: the first-order contribution of every input to the score."""

from dataclasses import dataclass

from whence.methods.forward import Forward
from whence.methods.gradient import gradients
from whence.methods.method import Method, Question
from whence.result import Result


@dataclass(frozen=True)
class GradientXInput(Method):
    """R_d = x_d · ∂f_c / ∂x_d: signed, but in a network with gates it does not add up to the score."""

    name = "gi"
    label = "Gradient×Input"
    answers = frozenset({"direction"})

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Multiply the gradient by the input."""
        found = gradients(forward, question)
        products = [each * x.detach() for each, x in zip(found.derivatives, found.inputs, strict=True)]
        return found.result(products, forward, self)
