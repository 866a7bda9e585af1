"""Memory that one layer passes on to the next, as touching fresh pages costs more than filling used ones.

There is no lock, so no finaliser can deadlock: `list.pop` and `list.append` are atomic in Python.
"""

import math
from collections import defaultdict

import torch
from torch import Tensor

KEPT = 32 * 2**20  # the most bytes that are kept for the next layer, for each dtype

_free: defaultdict[torch.dtype, list[Tensor]] = defaultdict(list)


def borrow(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """An uninitialised tensor on the CPU, to be given back; filled with NaN under PyTorch's deterministic algorithms."""
    size = math.prod(shape)
    found = _taken(_free[dtype], size)
    if found is None:
        return torch.empty(size, dtype=dtype, device="cpu").view(shape)
    fitting = found[:size].view(shape)
    return fitting.fill_(math.nan) if torch.are_deterministic_algorithms_enabled() else fitting


def _taken(free: list[Tensor], size: int) -> Tensor | None:
    """Remove and return the most recently returned tensor that is large enough."""
    small: list[Tensor] = []
    try:
        while free:
            last = free.pop()
            if last.numel() >= size:
                return last
            small.append(last)
        return None
    except IndexError:  # another thread took the last one
        return None
    finally:
        free.extend(reversed(small))


def forget() -> None:
    """Let go of everything that is kept."""
    _free.clear()


def give_back(tensor: Tensor) -> None:
    """Return a borrowed tensor for the next layer, unless enough is free already."""
    whole = tensor if tensor._base is None else tensor._base
    free = _free[tensor.dtype]
    if sum(each.nbytes for each in free) + whole.nbytes <= KEPT:
        free.append(whole.view(-1))
