"""Output of a command: standard streams, which may be closed, and files."""

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from whence.errors import InputError, WhenceError
from whence.render.colour import one_line


def fill_closed_streams() -> None:
    """Open /dev/null in place of closed standard streams, so that no other file gets their descriptors.

    Input is then empty, writing output fails, and errors are discarded.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR if number == 2 else os.O_RDONLY)  # gets the lowest free descriptor
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def drop_output() -> None:
    """Discard output that could not be written; otherwise Python would try to write it again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def note(text: str) -> None:
    """Print a note as one line on standard error."""
    print(f"whence: note: {one_line(text)}", file=sys.stderr)


def require_place(path: Path) -> None:
    """Refuse a file that cannot be written, before any work is done."""
    try:
        path.resolve()  # raises for a link that leads to itself
        if path.is_dir():
            raise InputError(f"{path} is a folder; give the name of a file")
        if not path.parent.is_dir():
            raise InputError(f"{path.parent} is not a folder; make it first, or write somewhere else")
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{path} is write-protected; change its mode, or write somewhere else")
        path.lstat()
    except FileNotFoundError:
        return
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from None


def write_file(path: Path, content: bytes) -> None:
    """Write a file completely, or raise an error that says why not."""
    with opened(path) as file:
        file.write(content)


@contextmanager
def opened(path: Path | None) -> Generator[IO[bytes]]:
    """Standard output, or a file that is there only when it is whole; what cannot be written raises an error that says why."""
    from whence.models.files import whole_file

    if path is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    try:
        with _ended_like_interrupted(), whole_file(path) as file:
            yield file
    except BrokenPipeError:
        raise  # who reads the pipe has had enough
    except OSError as error:
        raise WhenceError(f"{path} cannot be written: {error.strerror}") from error


@contextmanager
def _ended_like_interrupted() -> Generator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that no unfinished file stays."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def put(content: bytes, output: Path | None) -> None:
    """Write to a file, or to standard output if there is none."""
    with opened(output) as file:
        file.write(content)
