"""What a model keeps between calls: its attributes and buffers, put back as they were after a call."""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from operator import is_
from threading import RLock
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, cast
from weakref import ReferenceType

import numpy as np
import torch
from torch import Tensor, nn

Restore = Callable[[], None]
# What nn.Module itself keeps, apart from the dictionaries below; the training mode is put back elsewhere.
OWN = frozenset(nn.Module().__dict__) - {"_buffers", "_parameters", "_modules"}
DEPTH = 3  # of lists in dictionaries in attributes, and of the attributes of plain objects
LARGE = 2**16  # elements
PLAIN = frozenset([type(None), bool, int, float, str, nn.Parameter, ReferenceType])
FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType)


class Copied:
    """A tensor that a model keeps, a copy of what it holds, and the count of writes to it at that time."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self._copy, self._writes = tensor, tensor.detach().clone(), _writes(tensor)

    def restore(self) -> None:
        """Put the numbers back, if they were written to.

        Batch norm and `.data` do not count as writes, so small tensors are compared; large ones are trusted.
        """
        tensor, writes = self.tensor, _writes(self.tensor)
        is_small = tensor.numel() <= LARGE or writes is None
        if writes == self._writes and not (is_small and not torch.equal(tensor.detach(), self._copy)):
            return
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            if tensor.grad_fn is not None and not tensor._is_view():
                tensor.detach_()  # what was written into it had a graph
            tensor.copy_(self._copy)
        self._writes = _writes(tensor)


class State:
    """The attributes and buffers of a model as they are now. Weights are not copied: a forward pass does not train.

    Several threads that explain one model share its state from before the first of them, and take turns to run it.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self.turn = RLock()
        self.is_shared = False  # whether there were several threads
        self.threads: dict[object, int] = {}  # those that explain the model, by the tokens of their explanations
        self._dicts: list[tuple[dict[Any, object], dict[Any, object], frozenset[str]]] = []
        self._lists: list[tuple[list[object], list[object]]] = []
        self._restores: list[Restore] = []
        self._seen: set[int] = set()
        self._tensors: list[Copied] = []
        for module in modules:
            held = module.__dict__
            self._dicts.append((held, held.copy(), OWN))
            for key, each in held.items():
                if type(each) not in PLAIN and key not in OWN:
                    self._keep(each, DEPTH - 1)

    def restore(self) -> None:
        """Put everything back as it was, when no thread runs the model."""
        with self.turn:
            for held, kept, but in self._dicts:
                if not _are_same(held.values(), kept.values()) or held.keys() != kept.keys():
                    _refill(held, kept, but)
            for items, copied in self._lists:
                if not _are_same(items, copied):
                    items.clear()
                    items.extend(copied)
            for restore in self._restores:
                restore()
            for copied in self._tensors:
                copied.restore()

    def tensors(self) -> list[Tensor]:
        """The tensors that the model keeps, apart from its weights."""
        return [copied.tensor for copied in self._tensors]

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
        self._tensors.append(Copied(tensor))


def _writes(tensor: Tensor) -> int | None:
    """PyTorch's count of the writes to a tensor; None for inference tensors, which have none."""
    return None if tensor.is_inference() else tensor._version


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
