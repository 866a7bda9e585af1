"""A lock that lets one run at a time use a folder."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from whence.errors import InputError

NAME = ".lock"


@contextmanager
def sole_use(folder: Path) -> Generator[None]:
    """Create a folder and lock it for other runs. If the process is killed, the operating system releases the lock."""
    is_new = not os.path.isdir(folder)  # unlike Path.is_dir, False for an invalid name too
    lock = FileLock(folder / NAME, timeout=0)
    try:  # also for an interrupt that comes as soon as the lock is taken
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise InputError(
                f"another run is training in {folder}; wait until it has finished, or choose another folder"
            ) from None
        except (OSError, ValueError) as error:
            raise InputError(f"{str(folder)!r} cannot be written to: {getattr(error, 'strerror', None) or error}") from None
        yield
    finally:
        was_held = lock.is_locked
        if was_held:
            with suppress(OSError):  # Windows does not remove an open file
                (folder / NAME).unlink()
        lock.release()
        if is_new and was_held:
            with suppress(OSError):  # a folder that is not empty stays
                folder.rmdir()
