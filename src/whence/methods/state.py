"""What a model keeps between calls: its attributes and buffers, put back as they were after a call."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from operator import is_
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, cast
from weakref import ReferenceType

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

Restore = Callable[[], None]
# What nn.Module itself keeps, apart from the dictionaries below; the training mode is put back elsewhere.
OWN = frozenset(nn.Module().__dict__) - {"_buffers", "_parameters", "_modules"}
DEPTH = 3  # of lists in dictionaries in attributes, and of the attributes of plain objects
LARGE = 2**16  # elements
PLAIN = frozenset([type(None), bool, int, float, str, nn.Parameter, ReferenceType])
FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType)
# Copies of what tensors hold, each with the count of writes at that time, so that most calls copy nothing.
_COPIES = WeakIdKeyDictionary()


class State:
    """The attributes and buffers of a model as they are now. Weights are not copied: a forward pass does not train."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._dicts: list[tuple[dict[Any, object], dict[Any, object], frozenset[str]]] = []
        self._lists: list[tuple[list[object], list[object]]] = []
        self._restores: list[Restore] = []
        self._seen: set[int] = set()
        self._tensors: list[tuple[Tensor, Tensor]] = []
        for module in modules:
            held = module.__dict__
            self._dicts.append((held, held.copy(), OWN))
            for key, each in held.items():
                if type(each) not in PLAIN and key not in OWN:
                    self._keep(each, DEPTH - 1)

    def restore(self) -> None:
        """Put everything back as it was."""
        for held, kept, but in self._dicts:
            if not _are_same(held.values(), kept.values()) or held.keys() != kept.keys():
                _refill(held, kept, but)
        for items, copied in self._lists:
            if not _are_same(items, copied):
                items.clear()
                items.extend(copied)
        for restore in self._restores:
            restore()
        for tensor, copied in self._tensors:
            if _writes(tensor) != _writes_of(copied, tensor) or _differs(tensor, copied):
                with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                    if tensor.grad_fn is not None and not tensor._is_view():
                        tensor.detach_()  # what was written into it had a graph
                    tensor.copy_(copied)
                _COPIES[tensor] = _writes(tensor), copied

    def tensors(self) -> list[Tensor]:
        """The tensors that the model keeps, apart from its weights."""
        return [tensor for tensor, _ in self._tensors]

    def _keep(self, thing: object, depth: int) -> None:
        """Remember what a container holds, and how to put it back."""
        if id(thing) in self._seen:
            return
        if isinstance(thing, Tensor):
            self._keep_tensor(thing)
        elif isinstance(thing, dict):
            held = cast(dict[Any, object], thing)
            self._seen.add(id(held))
            self._dicts.append((held, dict(held), frozenset()))
            self._enter(held.values(), depth)
        elif isinstance(thing, (list, deque)):
            items = cast(list[object], thing)
            self._seen.add(id(items))
            self._lists.append((items, list(items)))
            self._enter(items, depth)
        elif isinstance(thing, tuple):
            self._enter(cast(tuple[object, ...], thing), depth)
        elif isinstance(thing, np.ndarray):
            array, before = cast(np.ndarray[Any, Any], thing), cast(np.ndarray[Any, Any], thing).copy()
            self._restores.append(lambda: np.copyto(array, before))
        elif isinstance(thing, set):
            items, members = cast(set[object], thing), set(cast(set[object], thing))
            self._restores.append(lambda: _refill_set(items, members))
        elif isinstance(thing, torch.Generator):
            generator, drawn = thing, thing.get_state()
            self._restores.append(lambda: _rewind(generator, drawn))
        elif isinstance(thing, np.random.Generator):
            bits, numbers = thing.bit_generator, thing.bit_generator.state
            self._restores.append(lambda: setattr(bits, "state", numbers))
        elif depth > 1 and hasattr(thing, "__dict__") and not isinstance(thing, (nn.Module, type, *FUNCTIONS)):
            self._keep(cast(Any, thing).__dict__, depth - 1)

    def _enter(self, things: Iterable[object], depth: int) -> None:
        if depth:
            for each in things:
                if type(each) not in PLAIN and not isinstance(each, (nn.Parameter, nn.Module)):
                    self._keep(each, depth - 1)

    def _keep_tensor(self, tensor: Tensor) -> None:
        self._seen.add(id(tensor))
        if tensor.layout != torch.strided or tensor.is_meta or tensor.is_nested or isinstance(tensor, nn.Parameter):
            return
        written, copied = _copy_of(tensor)
        # batch norm and writes through .data do not count as writes
        if copied is None or written is None or written != _writes(tensor) or not torch.equal(tensor.detach(), copied):
            copied = tensor.detach().clone()
            _COPIES[tensor] = _writes(tensor), copied
        self._tensors.append((tensor, copied))


def _differs(tensor: Tensor, copied: Tensor) -> bool:
    """Whether a write that PyTorch does not count, such as one through .data, changed a tensor; large ones are trusted."""
    return tensor.numel() <= LARGE and not torch.equal(tensor.detach(), copied)


def _copy_of(tensor: Tensor) -> tuple[int | None, Tensor | None]:
    """The copy that was made of a tensor, and the count of writes at that time."""
    return cast(tuple[int | None, Tensor | None], _COPIES.get(tensor, (None, None)))


def _writes(tensor: Tensor) -> int | None:
    """PyTorch's count of the writes to a tensor; None for inference tensors, which have none."""
    return None if tensor.is_inference() else tensor._version


def _writes_of(copied: Tensor, tensor: Tensor) -> object:
    """The count of writes for which a copy was made; never equal to None."""
    written, known = _copy_of(tensor)
    return written if known is copied and written is not None else object()


def _are_same(one: Collection[object], other: Collection[object]) -> bool:
    """Whether two collections hold the same objects in the same order."""
    return len(one) == len(other) and all(map(is_, one, other))


def _refill(held: dict[Any, object], kept: dict[Any, object], but: frozenset[str]) -> None:
    """Put back what a dictionary held, but for these keys."""
    for key in [key for key in held if key not in but and key not in kept]:
        del held[key]
    held.update((key, each) for key, each in kept.items() if key not in but)


def _refill_set(items: set[object], members: set[object]) -> None:
    items.clear()
    items.update(members)


def _rewind(generator: torch.Generator, drawn: Tensor) -> None:
    generator.set_state(drawn)
