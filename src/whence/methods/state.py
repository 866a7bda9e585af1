"""What a model keeps between calls: its attributes and buffers, put back as they were after a call."""

from collections import deque
from collections.abc import Callable
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

    def __init__(self, model: nn.Module) -> None:
        self._restores: list[Restore] = []
        self._seen: set[int] = set()
        self._tensors: list[tuple[Tensor, Tensor]] = []
        for module in model.modules():
            self._keep(module.__dict__, DEPTH, but=OWN)

    def restore(self) -> None:
        """Put everything back as it was."""
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

    def _keep(self, thing: object, depth: int, *, but: frozenset[str] = frozenset()) -> None:
        """Remember what a container holds, and how to put it back."""
        if id(thing) in self._seen:
            return
        if isinstance(thing, Tensor):
            self._keep_tensor(thing)
        elif isinstance(thing, dict):
            held = cast(dict[Any, object], thing)
            self._seen.add(id(held))
            kept = {key: each for key, each in held.items() if key not in but}
            self._restores.append(lambda: _refill(held, kept, but))
            self._enter(kept.values(), depth)
        elif isinstance(thing, (list, deque)):
            items = cast(list[object], thing)
            self._seen.add(id(items))
            copied = list(items)
            self._restores.append(lambda: _rewrite(items, copied))
            self._enter(copied, depth)
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

    def _enter(self, things: Any, depth: int) -> None:
        for each in things:
            if type(each) not in PLAIN and depth and not isinstance(each, (nn.Parameter, nn.Module)):
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


def _refill(held: dict[Any, object], kept: dict[Any, object], but: frozenset[str]) -> None:
    if len(held) == len(kept) + sum(key in but for key in held) and all(held.get(key) is each for key, each in kept.items()):
        return
    for key in [key for key in held if key not in but and key not in kept]:
        del held[key]
    held.update(kept)


def _refill_set(items: set[object], members: set[object]) -> None:
    items.clear()
    items.update(members)


def _rewind(generator: torch.Generator, drawn: Tensor) -> None:
    generator.set_state(drawn)


def _rewrite(items: list[object], copied: list[object]) -> None:
    if len(items) != len(copied) or any(one is not other for one, other in zip(items, copied, strict=True)):
        items.clear()
        items.extend(copied)
