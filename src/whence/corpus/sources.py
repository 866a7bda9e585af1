"""The input of a corpus: the files that a path, a folder, a pattern or an address stands for, and what identifies them."""

import glob
import hashlib
import io
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from whence.corpus.layout import arrow
from whence.corpus.reading import SUFFIXES, Columns, Row, format_of, read_rows
from whence.errors import DataError, WhenceError

STANDARD_INPUT = "-"
PIECE = 2**20
AHEAD = 2**22  # bytes of an object store that are read at once: every reading is a request
UNREACHED = "AWS Error"  # in the problem of a row that an object store has not given


def is_address(place: str) -> bool:
    """Whether a place is an address such as s3://bucket/folder."""
    return "://" in place


def shown(text: str) -> str:
    """A place, or what is said of one, without the user and password that an address may hold."""
    return re.sub(r"://([^/@?\s]*:[^?\s]*|[^/@?\s]*)@", "://…@", text)


def reason(error: BaseException) -> str:
    """What an error says, in one line and without passwords."""
    line = shown((str(error).splitlines() or [type(error).__name__])[0])
    return line[max(line.find(UNREACHED), 0) :].split(" (Request ID")[0]


def filesystem_of(place: str) -> tuple[Any, str]:
    """The file system of a place, and the path in it."""
    arrow()
    from pyarrow import fs  # pyright: ignore[reportMissingTypeStubs]

    pa_fs: Any = fs
    return _remote(place) if is_address(place) else (pa_fs.LocalFileSystem(), str(Path(place).absolute()))


@lru_cache(maxsize=16)
def _remote(address: str) -> tuple[Any, str]:
    """The same for an address; to open one may take requests."""
    from pyarrow import fs  # pyright: ignore[reportMissingTypeStubs]

    pa_fs: Any = fs
    try:
        return pa_fs.FileSystem.from_uri(address)
    except (OSError, ValueError, arrow().ArrowException) as error:
        raise DataError(f"{shown(address)!r} cannot be opened: {reason(error)}") from None


@dataclass(frozen=True)
class File:
    """A file of the input."""

    name: str  # under which the manifest lists it
    path: str
    filesystem: Any
    format: str
    size: int
    changed: int | None  # when, in nanoseconds

    def open(self) -> Any:
        """Its bytes, with random access."""
        stream = self.filesystem.open_input_file(self.path)
        return io.BufferedReader(stream, AHEAD) if self.is_remote and self.format != "parquet" else stream

    @property
    def is_remote(self) -> bool:
        """Whether it comes from another machine."""
        return self.filesystem.type_name != "local"

    def identity(self) -> dict[str, object]:
        """What tells it from a changed one: its name, size and a hash of all its bytes."""
        digest = hashlib.sha256()
        try:
            with closing(self.open()) as stream:
                while piece := stream.read(PIECE):
                    digest.update(piece)
        except OSError as error:
            if self.is_remote:
                raise WhenceError(f"{self.name} cannot be read: {reason(error)}; the same command goes on") from None
            return {"name": self.name, "bytes": self.size, "sha256": None}  # reading it will say why
        return {"name": self.name, "bytes": self.size, "sha256": digest.hexdigest()}

    def require_unchanged(self) -> None:
        """Raise if it is not what it was when it was listed."""
        now = self.filesystem.get_file_info(self.path)
        if (now.size, now.mtime_ns) != (self.size, self.changed):
            raise WhenceError(
                f"{self.name} changed while it was read, so it is not known which rows were explained; wait until nobody "
                "writes to it, and give --restart"
            )


@dataclass
class Source:
    """All files of an input in order; `read` bytes of `size` have been taken so far. Standard input has no files."""

    files: Sequence[File]
    columns: Columns
    format: str | None = None  # of standard input
    skipped: Sequence[str] = ()  # files of a folder that hold no rows, by their names
    read: int = 0

    @property
    def size(self) -> int | None:
        """Bytes of all files; None for standard input."""
        return sum(file.size for file in self.files) if self.files or not self.format else None

    def identity(self) -> dict[str, object]:
        """What tells this input from another."""
        if self.format:
            return {"standard input": self.format}
        return {"files": [file.identity() for file in self.files], "skipped": list(self.skipped)}

    def rows(self) -> Generator[Row]:
        """All rows. A file among several that cannot be read is one row with a problem; a single one raises."""
        if self.format:
            stream: Any = sys.stdin.buffer
            yield from _refusing("standard input", read_rows(lambda: stream, "standard input", self.format, self.columns))
            return
        before = 0
        for file in self.files:
            found = self._counted(file, before)
            try:
                yield from found if len(self.files) > 1 else _refusing(file.name, found)
            except DataError as error:
                if len(self.files) == 1:
                    raise
                yield Row(problem=f"{file.name} {error}")
            before += file.size
            self.read = before

    def _counted(self, file: File, before: int) -> Iterator[Row]:
        """The rows of a file, while `read` tells how far it is read."""
        opened: list[Any] = []

        def opening() -> Any:
            opened.append(file.open())
            return opened[0]

        for number, row in enumerate(read_rows(opening, file.name, file.format, self.columns)):
            if number % 1024 == 0 and not opened[0].closed:
                self.read = before + opened[0].tell()
            if file.is_remote and UNREACHED in row.problem:  # it is not known what the row is
                raise WhenceError(f"{row.problem}; what was done is kept, and the same command goes on")
            yield row
        file.require_unchanged()


def _refusing(name: str, rows: Iterator[Row]) -> Iterator[Row]:
    try:
        yield from rows
    except DataError as error:
        raise DataError(f"{name} {error}") from None


def source_of(place: str, columns: Columns, *, format: str | None = None) -> Source:
    """The input that a place names: a file, a folder, a pattern, an address such as s3://…, or - for standard input."""
    if place == STANDARD_INPUT:
        if format == "parquet":
            raise DataError("standard input cannot be Parquet, which is read from its end; give a file")
        return Source((), columns, format or "text")
    filesystem, path = filesystem_of(place)
    files, skipped = _found(filesystem, path, place, format)
    if not files:
        known = ", ".join(SUFFIXES)
        raise DataError(
            f"{shown(place)!r} has no file to read; files are known by their suffix: {known}, also with .gz or .zst"
        )
    return Source(files, columns, None, skipped)


def _found(filesystem: Any, path: str, place: str, format: str | None) -> tuple[list[File], list[str]]:
    from pyarrow import fs  # pyright: ignore[reportMissingTypeStubs]

    pa_fs: Any = fs
    try:
        info = filesystem.get_file_info(path)
        if info.type == pa_fs.FileType.File:
            kind = format or format_of(path)
            if kind is None:
                raise DataError(
                    f"{shown(place)!r} has a suffix that says no format; known are {', '.join(SUFFIXES)}, also with .gz or "
                    ".zst; or say it with --input-format"
                )
            return [File(Path(path).name, path, filesystem, kind, info.size, info.mtime_ns)], []
        if info.type == pa_fs.FileType.Directory:
            listed = filesystem.get_file_info(pa_fs.FileSelector(path, recursive=True))
            base = path.rstrip("/") + "/"
        else:
            if is_address(place) or not glob.has_magic(place):
                raise DataError(f"{shown(place)!r} does not exist; give a file, a folder, a pattern such as 'data/*.csv', or -")
            listed = filesystem.get_file_info(sorted(glob.glob(path, recursive=True)))
            base = str(Path(path[: next(n for n, c in enumerate(path) if c in "*?[")]).parent) + "/"
    except OSError as error:
        raise DataError(f"{shown(place)!r} cannot be read: {error.strerror or reason(error)}") from None
    files: list[File] = []
    skipped: list[str] = []
    for each in sorted((one for one in listed if one.type == pa_fs.FileType.File), key=lambda one: one.path):
        name = each.path.removeprefix(base)
        kind = format or format_of(each.path)
        if kind is None or any(part.startswith((".", "_")) for part in name.split("/")):
            skipped.append(name)
        else:
            files.append(File(name, each.path, filesystem, kind, each.size, each.mtime_ns))
    return files, skipped
