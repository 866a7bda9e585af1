"""What a model holds: its parameters and buffers, recognised also in views of them."""

import torch
from torch import Tensor, nn


def storage_of(tensor: Tensor) -> int:
    """The address of a tensor's memory; a sparse tensor has none of its own."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else -id(tensor)


class Held:
    """The parameters and buffers of a model, which keeps them alive."""

    def __init__(self, model: nn.Module) -> None:
        parameters = list(model.parameters())
        self.parameters = set(map(id, parameters))
        self._trained = set(map(storage_of, parameters)) - {0}
        self._buffers = {storage_of(buffer) for buffer in model.buffers()} - {0}

    def is_trained(self, tensor: object) -> bool:
        """Whether a tensor is a parameter of the model or a view of one."""
        return id(tensor) in self.parameters or (isinstance(tensor, Tensor) and storage_of(tensor) in self._trained)

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter or buffer of the model, or a view of one."""
        return self.is_trained(tensor) or storage_of(tensor) in self._buffers
