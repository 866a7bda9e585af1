"""Where compiled kernels are kept: a folder in the user's cache that nobody else can write to, or else a temporary one.

Files from this folder are loaded and run, so anyone who can write to it can run code as this user.
"""

import atexit
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from whence.cache import cache_home


class Folder(NamedTuple):
    """Where kernels are kept; the reason is set where the folder is temporary."""

    path: Path
    reason: str = ""


def kernel_folder() -> Folder:
    """The folder for kernels, created when missing; a temporary one for this process where the cache cannot be trusted."""
    try:
        home = cache_home().resolve()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = home / "whence" / "kernels"
        for each in (path.parent, path):
            each.mkdir(mode=0o700, exist_ok=True)
        foreign = [each for each in (path.parent, path) if not _is_ours(each, stat.S_IFDIR)]
        foreign += [each for each in (home, *home.parents) if not _is_guarded(each)]
        return Folder(_temporary_folder(), f"others can write to {foreign[0]}") if foreign else Folder(path)
    except (OSError, RuntimeError, ValueError) as error:  # no home directory, no write permission, or a file in its place
        return Folder(_temporary_folder(), str(error))


def is_our_file(path: Path) -> bool:
    """Whether a path is a regular file (no link) of this user that nobody else can write to."""
    try:
        return _is_ours(path, stat.S_IFREG)
    except OSError:
        return False


def _is_ours(path: Path, kind: int) -> bool:
    status = path.lstat()
    return stat.S_IFMT(status.st_mode) == kind and status.st_uid == _user(status) and not status.st_mode & 0o022


def _is_guarded(folder: Path) -> bool:
    """Whether nobody else can replace files in a folder: it belongs to us or root, and others may at most add, as in /tmp."""
    status = folder.stat()
    return status.st_uid in (0, _user(status)) and (not status.st_mode & 0o022 or bool(status.st_mode & stat.S_ISVTX))


def _user(status: os.stat_result) -> int:
    """This user's id; on systems without user ids, every file counts as ours."""
    return os.geteuid() if hasattr(os, "geteuid") else status.st_uid


@cache
def _temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="whence-"))  # created with mode 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
