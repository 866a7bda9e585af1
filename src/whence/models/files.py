"""Files that are written whole or not at all."""

import os
import secrets
import stat
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name first, so that it is never there in part; one that exists keeps its mode.

    A link is followed. What is no ordinary file, such as a pipe, a device or /dev/stdout, is written to as it is.
    """
    number = _open_number(path)
    if number is not None:
        with open(os.dup(number), "wb") as stream:
            stream.write(content)
        return
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    temporary = path.with_name(f".{path.name[:20]}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666 if mode is None else mode & 0o666)
    try:
        with open(handle, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _open_number(path: Path) -> int | None:
    """The number of this process's open file that a path such as /dev/stdout or /dev/fd/3 means."""
    numbers = Path("/dev/fd").resolve()
    for _ in range(8):  # links that lead on
        if path.name.isdecimal() and path.parent.resolve() == numbers:
            return int(path.name)
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return None
