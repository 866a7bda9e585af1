"""Nested tuples, lists and dicts of tensors, as models take and return them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor

NESTED = (tuple, list, dict)


def mapped(function: Callable[[Any], object], tree: object) -> Any:
    """`function` applied to every leaf of nested tuples, lists and dicts; the structure stays."""
    return rebuilt(tree, [function(leaf) for leaf in leaves_of(tree)])


def rebuilt(tree: object, leaves: Iterable[object]) -> Any:
    """The same structure with other leaves, given in the order of `leaves_of`."""
    return _filled(tree, iter(leaves))


def _filled(tree: object, leaves: Iterator[object]) -> object:
    if type(tree) is tuple:  # most are, and their leaves are met here
        items = cast(tuple[object, ...], tree)
        return tuple([_filled(cast(object, each), leaves) if isinstance(each, NESTED) else next(leaves) for each in items])
    if isinstance(tree, tuple) and not isinstance(tree, torch.Size):
        items = [_filled(item, leaves) for item in cast(tuple[object, ...], tree)]
        kind = cast(Callable[..., object], tree.__class__)
        if hasattr(kind, "_fields"):
            return kind(*items)
        return kind(items)  # also the named results of torch.max and similar functions
    if isinstance(tree, list):
        return [_filled(item, leaves) for item in cast(list[object], tree)]
    if isinstance(tree, dict):
        return {key: _filled(item, leaves) for key, item in cast(dict[object, object], tree).items()}
    return next(leaves)


def leaves_of(tree: object) -> list[object]:
    """The leaves of nested tuples, lists and dicts, in order."""
    found: list[object] = []
    waiting: list[object] = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(reversed(cast(dict[object, object], item).values()))
        elif isinstance(item, (tuple, list)) and not isinstance(item, torch.Size):
            waiting.extend(reversed(cast(Sequence[object], item)))
        else:
            found.append(item)
    return found


def tensors_of(tree: object) -> list[Tensor]:
    """The tensors in a nested structure, in order."""
    return [leaf for leaf in leaves_of(tree) if isinstance(leaf, Tensor)]


def floats_of(tree: object) -> list[Tensor]:
    """The tensors of real or complex numbers in a nested structure, in order."""
    return [tensor for tensor in tensors_of(tree) if tensor.is_floating_point() or tensor.is_complex()]
