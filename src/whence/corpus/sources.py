"""The input of a corpus: the files that a path, a folder, a pattern or an address stands for, and what identifies them."""

import hashlib
import io
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.corpus.listing import entry, listing_of
from whence.corpus.places import UNREACHED, local_path, reason, shown
from whence.data.rows import SUFFIXES, Columns, Row, Spelling, format_of, read_rows
from whence.errors import DataError, WhenceError

STANDARD_INPUT = "-"
PIECE = 2**20
AHEAD = 2**22  # bytes of an object store that are read at once: every reading is a request


@dataclass(frozen=True)
class File:
    """A file of the input."""

    name: str  # under which the manifest lists it
    path: str
    filesystem: Any  # None for this machine's
    format: str
    size: int
    changed: int | None  # when, in nanoseconds

    def open(self) -> Any:
        """Its bytes, with random access."""
        if self.filesystem is None:
            return open(self.path, "rb")
        stream = self.filesystem.open_input_file(self.path)
        return stream if self.format == "parquet" else io.BufferedReader(stream, AHEAD)

    @property
    def is_remote(self) -> bool:
        """Whether it comes from another machine."""
        return self.filesystem is not None

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
        try:
            now: Any = entry(self.path) if self.filesystem is None else self.filesystem.get_file_info(self.path)
            is_same = now is not None and (now.size, now.mtime_ns) == (self.size, self.changed)
        except OSError:
            is_same = False
        if not is_same:
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
    folder: Path | None = None  # which is read
    spelling: Spelling = Spelling()  # noqa: RUF009 - it is frozen
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
            yield from _refusing(
                "standard input", read_rows(lambda: stream, "standard input", self.format, self.columns, self.spelling)
            )
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

        for number, row in enumerate(read_rows(opening, file.name, file.format, self.columns, self.spelling)):
            if number % 1024 == 0 and opened and not opened[0].closed:
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


def source_of(
    place: str,
    columns: Columns,
    *,
    format: str | None = None,
    spelling: Spelling = Spelling(),  # noqa: B008 - it is frozen
) -> Source:
    """The input that a place names: a file, a folder, a pattern, an address such as s3://…, or - for standard input."""
    if place == STANDARD_INPUT:
        if format == "parquet":
            raise DataError("standard input cannot be Parquet, which is read from its end; give a file")
        return Source((), columns, format or "text", spelling=spelling)
    found = listing_of(local_path(place))
    files: list[File] = []
    skipped = [_name(path, found.base) for path in found.others]
    is_single = len(found.files) == 1 and not found.others and found.files[0].path == os.path.abspath(local_path(place))
    for path, size, changed in found.files:
        name, kind = _name(path, found.base), format or format_of(path)
        if is_single and kind is None:
            raise DataError(
                f"{shown(place)!r} has a suffix that says no format; known are {', '.join(SUFFIXES)}, also with .gz or .zst; "
                "or say it with --input-format"
            )
        if kind is None or (not is_single and any(part.startswith((".", "_")) for part in name.split("/"))):
            skipped.append(name)
        else:
            files.append(File(name, path, found.filesystem, kind, size, changed))
    if not files:
        known = ", ".join(SUFFIXES)
        raise DataError(
            f"{shown(place)!r} has no file to read; files are known by their suffix: {known}, also with .gz or .zst"
        )
    folder = Path(found.base).resolve() if found.filesystem is None and os.path.isdir(local_path(place)) else None
    return Source(files, columns, None, sorted(skipped), folder, spelling)


def _name(path: str, base: str) -> str:
    """The name of a file in its folder, as text that can be written."""
    return path.removeprefix(base).encode("utf-8", "backslashreplace").decode()
