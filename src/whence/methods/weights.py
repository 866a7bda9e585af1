"""A model's weights: they must be finite, and whether they have changed since they were looked at."""

import math
from collections.abc import Mapping
from operator import is_
from typing import NamedTuple, cast
from weakref import ref

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from whence.errors import WeightsError


def require_finite_weights(model: nn.Module, *, anew: bool = False) -> None:
    """Refuse weights that are not finite; large ones are checked again only after they changed.

    A sum shows a NaN or infinity at a tenth of the cost of checking every number, with one GPU synchronisation for all.
    """
    found = [(name, each) for name, each in (*model.named_parameters(), *model.named_buffers()) if each.is_floating_point()]
    unknown = [(name, each) for name, each in found if anew or _FINITE.get(each) != state_of(each)]
    totals: dict[torch.device, Tensor] = {}
    for _, tensor in unknown:
        total = tensor.detach().sum()
        totals[tensor.device] = totals[tensor.device] + total if tensor.device in totals else total
    if not all(math.isfinite(total.item()) for total in totals.values()):
        for name, tensor in unknown:
            _require_finite(name, tensor)
    _FINITE.update((tensor, state_of(tensor)) for _, tensor in unknown if tensor.numel() >= LARGE)


def _require_finite(name: str, tensor: Tensor) -> None:
    # a buffer may hold the infinities of a mask
    wrong = ~tensor.isfinite() if isinstance(tensor, nn.Parameter) else tensor.isnan()
    if wrong.any():
        place = cast(list[int], wrong.nonzero()[0].tolist())
        raise WeightsError(
            f"{name}{place} is {tensor[tuple(place)].item()}; the model's weights must be finite: was its training cut off?"
        )


LARGE = 2**18  # elements; checking a larger tensor takes longer than explaining a sentence
# Large weights that were finite, each with its state at that time. A write through .data does not change the state; but then
# relevance is not finite, and all weights are checked again.
_FINITE = WeakIdKeyDictionary()


def state_of(tensor: Tensor) -> object:
    """Something that changes when a tensor is written to; never equal for inference tensors, which do not count writes."""
    return object() if tensor.is_inference() else (tensor.data_ptr(), tensor._version)


class _Built(NamedTuple):
    """A module as it was: the names of what it holds, its tensors, and the places of its children among all modules."""

    module: "ref[nn.Module]"
    children: tuple[str, ...]
    places: tuple[int | None, ...]
    parameters: Mapping[str, Tensor | None]
    buffers: Mapping[str, Tensor | None]


class Inventory:
    """The modules of a model and the tensors they hold, as they are now. It refers to the modules weakly."""

    def __init__(self, model: nn.Module) -> None:
        modules = list(model.modules())
        place = {id(module): n for n, module in enumerate(modules)}
        self._built = [
            _Built(
                ref(module),
                tuple(module._modules),
                tuple(None if child is None else place[id(child)] for child in module._modules.values()),
                dict(module._parameters),
                dict(module._buffers),
            )
            for module in modules
        ]
        held = (each for own in self._built for each in (*own.parameters.values(), *own.buffers.values()))
        self._tensors = [each for each in held if each is not None]
        self._forms = self._states = list[object]()
        self.renew()

    def renew(self) -> None:
        """Take the tensors as they are now."""
        self._forms, self._states = list(map(_form, self._tensors)), list(map(state_of, self._tensors))

    def modules(self) -> list[nn.Module] | None:
        """All modules, the model first; None if one of them, or what it holds, was replaced, added, taken out or renamed."""
        modules = [own.module() for own in self._built]
        for own, module in zip(self._built, modules, strict=True):
            if module is None or tuple(module._modules) != own.children:
                return None
            children = [None if place is None else modules[place] for place in own.places]
            if not all(map(is_, module._modules.values(), children)):
                return None
            if not _holds(module._parameters, own.parameters) or not _holds(module._buffers, own.buffers):
                return None
        return cast(list[nn.Module], modules)

    def is_unchanged(self) -> bool:
        """Whether no tensor was written to."""
        return list(map(state_of, self._tensors)) == self._states

    def has_same_form(self) -> bool:
        """Whether every tensor has its shape, dtype and device still."""
        return list(map(_form, self._tensors)) == self._forms


def _holds(now: Mapping[str, Tensor | None], before: Mapping[str, Tensor | None]) -> bool:
    return len(now) == len(before) and all(map(is_, now.values(), before.values())) and now.keys() == before.keys()


def _form(tensor: Tensor) -> object:
    return tensor.shape, tensor.dtype, tensor.device
