"""Files that are written completely or not at all."""

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from whence.errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely or not at all; see `whole_file`."""
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes]]:
    """A temporary file, renamed when all is written, so that the file is never incomplete. An existing file keeps its mode.

    Links are followed. Anything but a regular file, such as a pipe, a device or /dev/stdout, is written to directly.
    """
    number = _open_number(path)
    if number is not None:
        with open(os.dup(number), "wb") as stream:
            yield stream
        return
    path = path.resolve()
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    temporary = path.with_name(f".{path.name[:20]}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(temporary, flags, 0o666 if mode is None else mode & 0o666)
    try:
        with open(handle, "wb") as file:
            if mode is not None:
                os.chmod(temporary, mode)
            yield file
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


def require_folder(folder: Path, is_ours: Callable[[str], object]) -> None:
    """Refuse a folder that cannot be written to, before work is spent on what it will hold.

    `is_ours` says of which files the names are.
    """
    try:
        if folder.is_dir():
            taken = next((path for path in sorted(_ours(folder, is_ours)) if path.is_dir() or path.is_symlink()), None)
            if taken is not None:
                raise InputError(
                    f"{taken} is in the way: a file of this name is to be written; remove it, or choose another folder"
                )
        elif os.path.lexists(folder):
            raise InputError(f"{folder} is a file; give the name of a folder")
        parent = folder if folder.is_dir() else folder.absolute().parent
        if not parent.is_dir():
            raise InputError(f"{parent} is not a folder; make it first, or write somewhere else")
        with tempfile.TemporaryDirectory(dir=parent, prefix=".whence-"):
            if not folder.exists():
                folder.mkdir()
                folder.rmdir()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(folder)!r} cannot be written to: {getattr(error, 'strerror', None) or error}") from None


def _ours(folder: Path, is_ours: Callable[[str], object]) -> list[Path]:
    return [path for path in folder.iterdir() if is_ours(path.name)]


def write_folder(folder: Path, contents: Mapping[str, bytes], is_ours: Callable[[str], object]) -> None:
    """Write all files at once as a new folder, or replace the files of an earlier run in an existing one."""
    exists = folder.is_dir()
    made = (folder if exists else folder.absolute().parent) / f".whence-{secrets.token_hex(8)}"
    try:
        made.mkdir()  # with the user's default permissions, unlike tempfile's: it may become the folder itself
        for name, content in contents.items():
            (made / name).write_bytes(content)
        if not exists:
            made.rename(folder)
            return
        for path in _ours(folder, is_ours):
            if path.name not in contents:
                path.unlink()
        for name in contents:
            os.replace(made / name, folder / name)
    finally:
        shutil.rmtree(made, ignore_errors=True)
