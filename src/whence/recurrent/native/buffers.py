"""Memory that one layer hands on to the next: fresh pages cost more than the numbers that are written into them.

There is no lock, so nothing can be left locked: taking from the end of a list and putting there are single steps of Python's.
"""

import math
from collections import defaultdict

import torch
from torch import Tensor

KEPT = 32 * 2**20  # bytes that are kept at most for each precision, free for the next layer

_free: defaultdict[torch.dtype, list[Tensor]] = defaultdict(list)


def borrow(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU with anything in it, to be given back; NaN where PyTorch is told to fill what is not written."""
    size = math.prod(shape)
    found = _taken(_free[dtype], size)
    if found is None:
        return torch.empty(size, dtype=dtype, device="cpu").view(shape)
    fitting = found[:size].view(shape)
    return fitting.fill_(math.nan) if torch.are_deterministic_algorithms_enabled() else fitting


def _taken(free: list[Tensor], size: int) -> Tensor | None:
    """The tensor that was given back last of those that are large enough, out of the list."""
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


def give_back(tensor: Tensor) -> None:
    """Hand a borrowed tensor to whoever comes next, unless much is free already."""
    whole = tensor if tensor._base is None else tensor._base
    free = _free[tensor.dtype]
    if sum(each.nbytes for each in free) + whole.nbytes <= KEPT:
        free.append(whole.view(-1))
