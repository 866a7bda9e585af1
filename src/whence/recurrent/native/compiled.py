"""Kernels in C, built by the user's own compiler when first needed and kept in the user's cache.

They are optional: without a compiler, or with `WHENCE_COMPILED=0`, layers take another path.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import torch

from whence.recurrent.cell import Native
from whence.recurrent.native.arguments import struct
from whence.recurrent.native.cache import is_our_file, kernel_folder

PATIENCE = 30  # seconds before a compiler counts as hanging; a build takes one or two

# Sums may be reordered and nothing traps, so that the compiler can vectorise loops. Not -ffast-math: loading a library that was
# linked with it flushes subnormals to zero in the whole process. NaN stays NaN, so it cannot pass for a result.
FLAGS = (
    *("-O3", "-march=native", "-funroll-loops", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math"),
    *("-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
)
# What numbers.h needs to know about a precision: type, rounding, the largest argument of exp, terms of its Taylor series, the
# bound below which tanh uses a series, and the layout of the bits.
SINGLE = "REAL=float ROUND=__builtin_rintf LARGEST=87 TERMS=7 NEAR=0.01 WHOLE=int32_t BIAS=127 DIGITS=23".split()
DOUBLE = "REAL=double ROUND=__builtin_rint LARGEST=700 TERMS=13 NEAR=1e-5 WHOLE=int64_t BIAS=1023 DIGITS=52".split()
PRECISIONS = {torch.float32: ("single", SINGLE), torch.float64: ("double", DOUBLE)}


class Built(NamedTuple):
    """A library of kernels, or why there is none."""

    library: ctypes.CDLL | None
    reason: str


def is_off(name: str) -> bool:
    """Whether an environment variable is set to "0", "no", "off" or "false"."""
    return os.environ.get(name, "").strip().lower() in ("0", "no", "off", "false")


@cache
def built(native: Native, dtype: torch.dtype) -> Built:
    """The kernels of a cell for one precision."""
    if is_off("WHENCE_COMPILED"):
        return Built(None, f"WHENCE_COMPILED is {os.environ['WHENCE_COMPILED']}")
    if dtype not in PRECISIONS:
        return Built(None, f"there are no kernels for {dtype}")
    try:
        words = shlex.split(os.environ.get("CC", "")) or ["cc"]
    except ValueError as error:
        return Built(None, f"CC is {os.environ['CC']!r}, which cannot be read: {error}")
    compiler = shutil.which(words[0])
    if compiler is None:
        return Built(None, f"there is no C compiler {words[0]}")
    name, numbers = PRECISIONS[dtype]
    text = source_of(native).encode()
    macros = (*numbers, *native.defines, f"NAME(x)=x##_{name}")
    command = (compiler, *words[1:], *FLAGS, *(f"-D{each}" for each in macros))
    try:
        folder, why_temporary = kernel_folder()
        path = folder / f"{Path(native.source).stem}-{name}-{_key(text, command)}.so"
        if not _is_whole(path):
            _compile(command, text, path)
        note = f", for this process alone: {why_temporary}" if why_temporary else ""
        return Built(ctypes.CDLL(str(path)), f"built by {Path(compiler).name}{note}")
    except subprocess.TimeoutExpired:
        return Built(None, f"{Path(compiler).name} had not built it after {PATIENCE} s")
    except subprocess.SubprocessError:
        return Built(None, f"it could not be built by {Path(compiler).name}")
    except OSError as error:
        return Built(None, f"it could not be built: {error}")


def source_of(native: Native) -> str:
    """The whole C source of a cell: what all cells share, the layout of its tape, and its own file."""
    folder = files("whence.recurrent")

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    tape = f"enum {{ {', '.join(f'TAPE_{name}' for name in native.tape)}, KEPT }};\n"
    return "\n".join(
        [read("native/numbers.h"), read("native/matrices.h"), struct(), read("native/layer.h"), tape, read(native.source)]
    )


def _key(text: bytes, command: Sequence[str]) -> str:
    """A hash of everything a library depends on: its source, the compiler and its flags, and the processor."""
    compiler = os.stat(command[0])
    parts = (command, compiler.st_size, compiler.st_mtime_ns, platform.machine(), _processor())
    return hashlib.sha256(text + repr(parts).encode()).hexdigest()[:16]


def _is_whole(path: Path) -> bool:
    """Whether a library is ours and undamaged: loading a damaged one would crash the process."""
    digest = path.with_suffix(".sha256")
    try:
        is_ours = is_our_file(path) and is_our_file(digest)
        return is_ours and hashlib.sha256(path.read_bytes()).hexdigest() == digest.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def _processor() -> str:
    """What -march=native depends on, for a cache that several machines share."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _compile(command: Sequence[str], text: bytes, path: Path) -> None:
    """Build a library. A compiler that hangs is not tried again for an hour, in this process or another."""
    hung = path.parent / f"{Path(command[0]).name}-{_key(b'', command[:1])}.hung"
    if is_our_file(hung) and time.time() - hung.stat().st_mtime < 3600:
        raise subprocess.TimeoutExpired(command, PATIENCE)
    for left in path.parent.glob("build-*"):  # left behind by a process that was killed
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        source, made = Path(folder) / "kernel.c", Path(folder) / "kernel.so"
        source.write_bytes(text)
        try:
            _run([*command, str(source), "-o", str(made), "-lm"])
        except subprocess.TimeoutExpired:
            hung.touch()
            raise
        digest = made.with_suffix(".sha256")
        digest.write_text(hashlib.sha256(made.read_bytes()).hexdigest(), encoding="utf-8")
        for each in (made, digest):
            each.chmod(0o600)  # whatever the umask is, nobody else may write to it
        os.replace(made, path)
        os.replace(digest, path.with_suffix(".sha256"))


def _run(command: Sequence[str]) -> None:
    """Run a compiler. If it takes too long, kill it and every process it started."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            status = process.wait(PATIENCE)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if status:
        raise subprocess.CalledProcessError(status, command)
