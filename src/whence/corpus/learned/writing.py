"""Files that are written a piece at a time and appear only when they are whole."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from whence.errors import WhenceError


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes]]:
    """A file for a large answer. It replaces what was there when all is written; after an error, nothing is left of it."""
    path = path.resolve()
    if path.exists() and not path.is_file():  # a pipe or a device takes what comes
        with path.open("wb") as stream:
            yield stream
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as stream:
            yield stream
        unfinished.replace(path)
    except OSError as error:
        raise WhenceError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)
