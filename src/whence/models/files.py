"""Files that are written completely or not at all."""

import os
import secrets
import stat
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a temporary file, then rename it, so that the file is never incomplete. An existing file keeps its mode.

    Links are followed. Anything but a regular file, such as a pipe, a device or /dev/stdout, is written to directly.
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
    """The file descriptor that a path such as /dev/stdout or /dev/fd/3 stands for, if it does."""
    numbers = Path("/dev/fd").resolve()
    for _ in range(8):  # a link may lead to a link
        if path.name.isdecimal() and path.parent.resolve() == numbers:
            return int(path.name)
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return None
