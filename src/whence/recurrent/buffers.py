"""Memory that one layer hands on to the next: fresh pages cost more than the numbers that are written into them."""

import math
import threading
from collections import defaultdict

import torch
from torch import Tensor

KEPT = 32 * 2**20  # bytes that are kept at most for each precision, free for the next layer

_lock = threading.Lock()  # never to be taken by a finaliser: the collector runs those in a thread that may hold it
_free: defaultdict[torch.dtype, list[Tensor]] = defaultdict(list)


def borrow(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU with anything in it, to be given back; NaN where PyTorch is told to fill what is not written."""
    size = math.prod(shape)
    with _lock:
        free = _free[dtype]
        fitting = [n for n, each in enumerate(free) if each.numel() >= size]
        found = free.pop(fitting[-1]) if fitting else None
    if found is None:
        return torch.empty(size, dtype=dtype, device="cpu").view(shape)
    taken = found[:size].view(shape)
    return taken.fill_(math.nan) if torch.are_deterministic_algorithms_enabled() else taken


def give_back(tensor: Tensor) -> None:
    """Hand a borrowed tensor to whoever comes next, unless much is free already."""
    whole = tensor if tensor._base is None else tensor._base
    with _lock:
        free = _free[tensor.dtype]
        if sum(each.nbytes for each in free) + whole.nbytes <= KEPT:
            free.append(whole.view(-1))
