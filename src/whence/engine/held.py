"""What a model holds, listed once for a call: its layers, parameters and buffers."""

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

LARGE = 2**18  # elements; looking at a larger tensor takes longer than explaining a sentence


def named_layers(model: nn.Module) -> Iterable[tuple[str, nn.Module]]:
    """A model's layers, itself included, by their dotted names."""
    return cast(Iterable[tuple[str, nn.Module]], model.named_modules())  # PyTorch gives it no type


def storage_of(tensor: Tensor) -> int:
    """The address of a tensor's memory; a sparse tensor has none of its own."""
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else -id(tensor)


def infinite(tensors: Sequence[Tensor]) -> set[int]:
    """The ids of tensors that hold infinities. Sums tell whether there are any, with one synchronisation for a device."""
    totals: dict[torch.device, Tensor] = {}
    with torch.no_grad():
        for each in tensors:
            total = each.sum()
            totals[each.device] = totals[each.device] + total if each.device in totals else total
        if all(math.isfinite(total.item()) for total in totals.values()):
            return set()
        return {id(each) for each in tensors if bool(each.isinf().any())}


class ModelParts:
    """The layers, parameters and buffers of a model, by their dotted names.

    A parameter that is not trained and holds infinities is a mask, and counts as a buffer.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model, self.layers = model, list(named_layers(model))
        self.parameters: list[tuple[str, nn.Parameter]] = []
        self.buffers: list[tuple[str, Tensor]] = []
        for name, layer in self.layers:
            parts = ((self.parameters, layer._parameters), (self.buffers, layer._buffers))
            for found, held in parts:
                found += [(f"{name}.{key}" if name else key, each) for key, each in held.items() if each is not None]
        frozen = [each for _, each in self.parameters if not (each.requires_grad or each.is_meta or is_lazy(each))]
        masks = infinite([each for each in frozen if each.is_floating_point() and each.numel() < LARGE])
        if masks:
            self.buffers += [(name, each) for name, each in self.parameters if id(each) in masks]
            self.parameters = [(name, each) for name, each in self.parameters if id(each) not in masks]
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
