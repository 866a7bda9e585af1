"""What a model holds, listed once for a call: its layers, parameters and buffers."""

from collections.abc import Iterable
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn


def named_layers(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """A model's layers, itself included, by their dotted names."""
    return cast(Iterable[tuple[str, nn.Module]], model.named_modules())  # PyTorch gives it no type


def storage_of(tensor: Tensor) -> int:
    """The address of a tensor's memory; a sparse tensor has none of its own."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else -id(tensor)


class ModelParts:
    """The layers, parameters and buffers of a model, by their dotted names."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.layers = model, list(named_layers(model))
        self.parameters: list[tuple[str, nn.Parameter]] = []
        self.buffers: list[tuple[str, Tensor]] = []
        for name, layer in self.layers:
            parts = ((self.parameters, layer._parameters), (self.buffers, layer._buffers))
            for found, held in parts:
                found += [(f"{name}.{key}" if name else key, each) for key, each in held.items() if each is not None]
        self.own = {id(each) for _, each in self.parameters}

    @cached_property
    def _trained(self) -> set[int]:
        return {storage_of(each) for _, each in self.parameters} - {0}

    @cached_property
    def _memory(self) -> set[int]:
        return {storage_of(each) for _, each in self.buffers} - {0}

    def is_trained(self, tensor: object) -> bool:
        """Whether a tensor is a parameter of the model or a view of one."""
        return id(tensor) in self.own or (isinstance(tensor, Tensor) and storage_of(tensor) in self._trained)

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter or buffer of the model, or a view of one."""
        return self.is_trained(tensor) or storage_of(tensor) in self._memory

    @property
    def is_time_first(self) -> bool:
        """Whether the model's recurrent layers all read (time, batch, features)."""
        recurrent = [layer for _, layer in self.layers if isinstance(layer, nn.RNNBase)]
        return bool(recurrent) and not any(layer.batch_first for layer in recurrent)
