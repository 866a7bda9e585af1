"""Kernels in C, built by the user's own compiler when first needed and kept in the user's cache; all works without them too.

`WHENCE_COMPILED=0` leaves them alone.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import torch

# Sums in any order and no traps, so that loops become vector instructions. Not -ffast-math: a library linked with that switches
# the whole process to numbers without subnormals as soon as it is loaded. NaN stays NaN, so that it cannot pass for a result.
FLAGS = (
    *("-O3", "-march=native", "-funroll-loops", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math"),
    *("-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
# What a kernel needs to know of its numbers: their type, rounding, the largest exponent, terms of a Taylor sum, and their bits.
SINGLE = "REAL=float ROUND=__builtin_rintf LARGEST=87 TERMS=7 NEAR=0.01 WHOLE=int32_t BIAS=127 DIGITS=23".split()
DOUBLE = "REAL=double ROUND=__builtin_rint LARGEST=700 TERMS=13 NEAR=1e-5 WHOLE=int64_t BIAS=1023 DIGITS=52".split()
PRECISIONS = {torch.float32: ("single", SINGLE), torch.float64: ("double", DOUBLE)}


class Built(NamedTuple):
    """A library of kernels, or why there is none."""

    library: Any
    reason: str


def is_off(name: str) -> bool:
    """Whether a variable of the environment says no."""
    return os.environ.get(name, "").strip().lower() in ("0", "no", "off", "false")


@cache
def built(source: str, dtype: torch.dtype) -> Built:
    """The kernels of a source file of the `recurrent` room for one precision."""
    if is_off("WHENCE_COMPILED"):
        return Built(None, f"WHENCE_COMPILED is {os.environ['WHENCE_COMPILED']}")
    if dtype not in PRECISIONS:
        return Built(None, f"there are no kernels for {dtype}")
    words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    compiler = shutil.which(words[0])
    if compiler is None:
        return Built(None, f"there is no C compiler {words[0]}")
    name, numbers = PRECISIONS[dtype]
    text = b"".join((files("whence.recurrent") / part).read_bytes() for part in ("numbers.h", "matrices.h", "layer.h", source))
    defines = (*(f"-D{each}" for each in numbers), f"-DNAME(x)=x##_{name}")
    key = hashlib.sha256(text + repr((FLAGS, defines, compiler, platform.machine(), _processor())).encode()).hexdigest()[:16]
    try:
        path = _cache() / f"{Path(source).stem}-{name}-{key}.so"
        if not _is_whole(path):
            _compile([compiler, *words[1:]], text, defines, path)
        return Built(ctypes.CDLL(str(path)), f"built by {Path(compiler).name}")
    except subprocess.SubprocessError:
        return Built(None, f"it could not be built by {Path(compiler).name}")
    except OSError as error:
        return Built(None, f"it could not be built: {error}")


def _is_whole(path: Path) -> bool:
    """Whether a library is as it was built: loading a damaged one would end the process."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == path.with_suffix(".sha256").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whence" / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _processor() -> str:
    """What -march=native depends on, for a cache that several machines share."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _compile(compiler: Sequence[str], text: bytes, defines: tuple[str, ...], path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        source, made = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        source.write_bytes(text)
        command = [*compiler, *FLAGS, *defines, str(source), "-o", str(made), "-lm"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        digest = made.with_suffix(".sha256")
        digest.write_text(hashlib.sha256(made.read_bytes()).hexdigest(), encoding="utf-8")
        os.replace(made, path)
        os.replace(digest, path.with_suffix(".sha256"))
