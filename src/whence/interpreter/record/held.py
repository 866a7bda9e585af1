"""What a model holds: its parameters and buffers, recognised also in views of them."""

from collections.abc import Sequence
from copy import copy

from torch import Tensor, nn

from whence.interpreter.record.memory import storage_of
from whence.trees import floats_of


class Held:
    """The parameters and buffers of a model, which keeps them alive."""

    def __init__(self, model: nn.Module) -> None:
        self.parameters = {id(parameter) for parameter in model.parameters()}
        self._trained = {storage_of(parameter) for parameter in model.parameters()} - {0}
        self._buffers = {storage_of(buffer) for buffer in model.buffers()} - {0}
        self._derived: dict[int, Tensor] = {}  # computed from these alone, as −exp(A) is; kept alive, so that no id() is reused

    def again(self) -> "Held":
        """The same for another run, with nothing computed from them yet."""
        found = copy(self)
        found._derived = {}
        return found

    def is_trained(self, tensor: object) -> bool:
        """Whether a tensor is a parameter of the model or a view of one."""
        return id(tensor) in self.parameters or (isinstance(tensor, Tensor) and storage_of(tensor) in self._trained)

    def holds(self, tensor: object) -> bool:
        """Whether a tensor is a parameter or buffer of the model, a view of one, or computed from these alone."""
        if self.is_trained(tensor) or id(tensor) in self._derived:
            return True
        return isinstance(tensor, Tensor) and storage_of(tensor) in self._buffers

    def derive(self, given: Sequence[Tensor], result: object) -> None:
        """Note a result that was computed from parameters and buffers alone."""
        floats = [tensor for tensor in given if tensor.is_floating_point()]
        if floats and all(map(self.holds, floats)):
            self._derived.update((id(tensor), tensor) for tensor in floats_of(result))
