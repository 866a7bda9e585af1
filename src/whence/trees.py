"""Nested tuples, lists and dicts of tensors, as models take and return them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """`function` applied to every leaf of nested tuples, lists and dicts; the structure stays."""
    return rebuilt(tree, [function(leaf) for leaf in leaves_of(tree)])


def rebuilt(tree: Any, leaves: Iterable[object]) -> Any:
    """The same structure with other leaves, given in the order of `leaves_of`."""
    return _filled(tree, iter(leaves))


def _filled(tree: Any, leaves: Iterator[object]) -> Any:
    if isinstance(tree, tuple) and not isinstance(tree, torch.Size):
        items = [_filled(item, leaves) for item in tree]  # pyright: ignore[reportUnknownVariableType]
        if hasattr(tree, "_fields"):
            return type(tree)(*items)
        return type(tree)(items)  # also the named results of torch.max and similar functions
    if isinstance(tree, list):
        return [_filled(item, leaves) for item in tree]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(tree, dict):
        return {key: _filled(item, leaves) for key, item in tree.items()}  # pyright: ignore[reportUnknownVariableType]
    return next(leaves)


def leaves_of(tree: object) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, in order."""
    found: list[Any] = []
    waiting: list[Any] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(reversed(item.values()))  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(item, (tuple, list)) and not isinstance(item, torch.Size):
            waiting.extend(reversed(item))  # pyright: ignore[reportUnknownArgumentType]
        else:
            found.append(item)
    return found


def tensors_of(tree: object) -> list[Tensor]:
    """The tensors in a nested structure, in order."""
    return [leaf for leaf in leaves_of(tree) if isinstance(leaf, Tensor)]


def floats_of(tree: object) -> list[Tensor]:
    """The floating-point tensors in a nested structure, in order."""
    return [tensor for tensor in tensors_of(tree) if tensor.is_floating_point()]
