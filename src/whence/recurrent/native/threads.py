"""Kernels on several threads: those of the OpenMP runtime that PyTorch uses, so that the two do not compete for cores.

An OpenMP thread that has finished its part keeps its core busy for a while. Threads of another kind would have to wait for it.
"""

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from whence.recurrent.native.arguments import Arguments


class Work(ctypes.Structure):
    """The struct `Work` of layer.h: a kernel, what each call of it is given, and the number of the next call."""

    _fields_ = [("kernel", ctypes.c_void_p), ("parts", ctypes.c_void_p), ("count", ctypes.c_int64), ("next", ctypes.c_int64)]


@cache
def _openmp() -> Callable[..., object] | None:
    """`GOMP_parallel(function, data, threads, flags)` of GNU's OpenMP as this process has loaded it; None if it has another."""
    with suppress(OSError, AttributeError):
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        paths = {line.split(maxsplit=5)[-1] for line in lines if "libgomp" in line}
        if len(paths) == 1:  # of two, nobody knows which one PyTorch uses
            found: Any = ctypes.CDLL(paths.pop()).GOMP_parallel
            found.argtypes, found.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
            return found
    return None


def run(kernel: Any, work: Any, parts: Sequence[Arguments], threads: int) -> None:
    """Call a kernel for every part; `work` is the C function that takes parts until none is left."""
    given = (Arguments * len(parts))(*parts)
    parallel = _openmp()
    if parallel is None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(kernel, map(ctypes.byref, given)))
        return
    own = Work(ctypes.cast(kernel, ctypes.c_void_p), ctypes.addressof(given), len(parts), 0)
    parallel(ctypes.cast(work, ctypes.c_void_p), ctypes.addressof(own), threads, 0)
