"""Memory that one layer hands on to the next: fresh pages cost more than the numbers that are written into them."""

import math
from collections import defaultdict

import torch
from torch import Tensor

KEPT = 32 * 2**20  # bytes that are kept at most for each precision, free for the next layer

_free: defaultdict[torch.dtype, list[Tensor]] = defaultdict(list)


def borrow(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU with anything in it, to be given back; NaN where PyTorch is told to fill what is not written."""
    size = math.prod(shape)
    free = _free[dtype]
    for n in reversed(range(len(free))):
        if free[n].numel() >= size:
            try:
                found = free.pop(n)
            except IndexError:  # another thread was faster
                break
            if found.numel() >= size:
                taken = found[:size].view(shape)
                return taken.fill_(math.nan) if torch.are_deterministic_algorithms_enabled() else taken
            free.append(found)
            break
    return torch.empty(size, dtype=dtype).view(shape)


def give_back(tensor: Tensor) -> None:
    """Hand a borrowed tensor to whoever comes next, unless much is free already."""
    free = _free[tensor.dtype]
    whole = tensor if tensor._base is None else tensor._base
    if sum(each.nbytes for each in free) + whole.nbytes <= KEPT:
        free.append(whole.view(-1))
