"""A folder for one run at a time."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from whence.errors import InputError

NAME = ".lock"


@contextmanager
def sole_use(folder: Path) -> Generator[None]:
    """Make a folder and keep other runs out of it meanwhile; the system frees the lock when a process is killed."""
    is_new = not os.path.isdir(folder)  # False, not an error, for a name that no folder can have
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / NAME, timeout=0)
        lock.acquire()
    except Timeout:
        raise InputError(f"another run is training in {folder}; wait for its end, or choose another folder") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{str(folder)!r} cannot be written to: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file
            (folder / NAME).unlink()
        lock.release()
        if is_new:
            with suppress(OSError):  # a folder that is not empty stays
                folder.rmdir()
