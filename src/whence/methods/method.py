"""What a method is: a frozen value that turns a forward pass and a target into a result."""

from typing import Protocol

from torch import nn

from whence.methods.forward import Forward
from whence.methods.target import Target
from whence.result import Result


class Method(Protocol):
    """A way to explain a model's score."""

    @property
    def name(self) -> str:
        """The name by which commands and files know the method."""
        ...

    def relevance(self, forward: Forward, target: Target) -> Result:
        """Explain the score that `target` picks out of the forward pass."""
        ...


def is_time_first(model: nn.Module) -> bool:
    """Whether the model's recurrent layers all read (time, batch, features)."""
    recurrent = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
    return bool(recurrent) and not any(module.batch_first for module in recurrent)
