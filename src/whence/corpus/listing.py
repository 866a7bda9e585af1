"""The files that a path, a folder, a pattern or an address stands for."""

import glob
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from whence.corpus.places import filesystem_of, is_address, reason, shown
from whence.errors import DataError


class Entry(NamedTuple):
    """A file: where it is, its bytes, and when it changed, in nanoseconds."""

    path: str
    size: int
    mtime_ns: int | None


class Listing(NamedTuple):
    """The files of a place in order of their paths, what else is there, and the folder that all paths start with."""

    files: list[Entry]
    others: list[str]  # broken links, links to folders, pipes and the like
    base: str
    filesystem: Any = None  # of an address


def entry(path: str) -> Entry | None:
    """A file of this machine; None for what is no regular file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Entry(path, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def listing_of(place: str) -> Listing:
    """The files of a place; raises if there is none such."""
    try:
        found = _remote(place) if is_address(place) else _local(place)
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{shown(place)!r} cannot be read: {getattr(error, 'strerror', None) or reason(error)}") from None
    return found._replace(files=sorted(found.files), others=sorted(found.others))


def _local(place: str) -> Listing:
    path = os.path.abspath(place)
    if os.path.isdir(path) and place:
        return _sorted_out(_walked(path), path + "/")
    if (found := entry(path)) is not None:
        return Listing([found], [], os.path.dirname(path) + "/")
    if os.path.lexists(path) and place:
        raise DataError(f"{place!r} is neither a file nor a folder; to read a pipe, give - and let it be standard input")
    if not glob.has_magic(place):
        raise DataError(f"{place!r} does not exist; give a file, a folder, a pattern such as 'data/*.csv', or -")
    fixed = path[: next(n for n, c in enumerate(path) if c in "*?[")]
    matches = glob.glob(path, recursive=True)
    return _sorted_out((each for each in matches if not os.path.isdir(each)), os.path.dirname(fixed).rstrip("/") + "/")


def _walked(folder: str) -> Iterable[str]:
    """All that lies in a folder and its folders; links to folders are not followed, for they may lead back."""
    for inner, folders, names in os.walk(folder):
        yield from (os.path.join(inner, name) for name in names)
        yield from (os.path.join(inner, name) for name in folders if os.path.islink(os.path.join(inner, name)))


def _sorted_out(paths: Iterable[str], base: str) -> Listing:
    found = [(path, entry(path)) for path in paths]
    files = [each for _, each in found if each is not None]
    return Listing(files, [path for path, each in found if each is None], base)


def _remote(place: str) -> Listing:
    from pyarrow import fs  # pyright: ignore[reportMissingTypeStubs]

    pa_fs: Any = fs
    filesystem, path = filesystem_of(place)
    info = filesystem.get_file_info(path)
    if info.type == pa_fs.FileType.File:
        listed, base = [info], str(Path(path).parent) + "/"
    elif info.type == pa_fs.FileType.Directory:
        listed, base = filesystem.get_file_info(pa_fs.FileSelector(path, recursive=True)), path.rstrip("/") + "/"
    else:
        raise DataError(f"{shown(place)!r} does not exist; give a file, a folder, a pattern such as 'data/*.csv', or -")
    files = [Entry(each.path, each.size, each.mtime_ns) for each in listed if each.type == pa_fs.FileType.File]
    return Listing(files, [], base, filesystem)
