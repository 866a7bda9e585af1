"""The rows of a file, whatever is in it: what can be explained, and what cannot with the reason. Memory is bounded."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from whence.corpus.layout import arrow
from whence.errors import DataError

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".txt": "text",
}
PACKED = (".gz", ".zst")
LONGEST_LINE = 2**24  # characters of a line, or of a field of CSV
T = TypeVar("T")
ROWS = 4096  # of a Parquet file, read at once


class Row(NamedTuple):
    """A row of the input: its content, or the problem it has."""

    content: Any = None  # a text, a text split into words, or the values of a series
    id: str | None = None
    label: str | None = None
    problem: str = ""


@dataclass(frozen=True)
class Columns:
    """Which columns are read; without names, the content is `text` or the only column, and there are no ids and labels."""

    content: tuple[str, ...] = ()
    id: str | None = None
    label: str | None = None

    def chosen(self, known: Sequence[str]) -> "Columns":
        """The same with a content that a table of these columns has; raises for one that does not have what was asked for."""
        content = self.content or ("text",) if "text" in known or len(known) != 1 else (self.content or (known[0],))
        shown = ", ".join(repr(name[:40]) for name in known[:20]) or "none"
        for name in (*content, *filter(None, (self.id, self.label))):
            if name not in known:
                raise DataError(f"has no column {name[:40]!r}; its columns are {shown}; choose one with --text")
            if known.count(name) > 1:
                raise DataError(f"has {known.count(name)} columns {name[:40]!r}; give them different names")
        return Columns(content, self.id, self.label)

    def row(self, named: Mapping[str, Any]) -> Row:
        """A row with these values."""
        missing = next((name for name in self.content if name not in named), None)
        own = [named.get(name) for name in self.content]
        id, label = (_word(named.get(name)) if name else None for name in (self.id, self.label))
        if missing is not None:
            return Row(None, id, label, f"there is no field {missing!r}")
        return Row(own[0] if len(own) == 1 else own, id, label)


def format_of(name: str) -> str | None:
    """The format that a file's name says; None if it says none."""
    name = name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return next((format for suffix, format in SUFFIXES.items() if name.endswith(suffix)), None)


def read_rows(open_file: Callable[[], Any], name: str, format: str, columns: Columns) -> Generator[Row]:
    """The rows of a file. What cannot be read is a row with a problem; a table without the wanted columns raises."""
    try:
        if format == "parquet":
            yield from _parquet(open_file, columns)
            return
        with _unpacked(open_file(), name) as stream:
            lines = _Lines(io.TextIOWrapper(stream, "utf-8-sig", "surrogateescape", newline=None if format == "text" else ""))
            if format == "text":
                yield from (Row((line or "").rstrip("\n"), problem=problem) for line, problem in _each(lines))
            elif format == "jsonl":
                yield from _json_lines(lines, columns)
            else:
                yield from _separated(lines, columns, "\t" if format == "tsv" else ",")
    except (OSError, EOFError, zlib.error, arrow().ArrowException) as error:
        yield Row(problem=f"{name} cannot be read any further: {_first_line(error)}")


def _unpacked(stream: Any, name: str) -> Any:
    if name.lower().endswith(".gz"):
        return gzip.open(stream)
    if name.lower().endswith(".zst"):
        return arrow().CompressedInputStream(stream, "zstd")
    return stream


class _TooLongError(Exception):
    """A line that is not read to its end."""


class _Lines:
    """The lines of a text; one that is too long is passed over and raises, and the next call goes on behind it."""

    def __init__(self, file: io.TextIOBase) -> None:
        self.file, self.number = file, 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self.file.readline(LONGEST_LINE)
        if not line:
            raise StopIteration
        self.number += 1
        if len(line) < LONGEST_LINE or line.endswith(("\n", "\r")):
            return line
        while (rest := self.file.readline(LONGEST_LINE)) and not rest.endswith(("\n", "\r")):
            pass
        raise _TooLongError(f"line {self.number} is longer than {LONGEST_LINE:,} characters")


def _each(found: Iterator[T]) -> Iterator[tuple[T | None, str]]:
    """What an iterator gives, or None and the problem where it cannot be read."""
    while True:
        try:
            yield next(found), ""
        except StopIteration:
            return
        except (_TooLongError, csv.Error) as error:
            yield None, str(error)


def _separated(lines: _Lines, columns: Columns, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_LINE)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    for fields, problem in _each(reader):
        if header is None:
            if fields is None:
                raise DataError(f"has no header that can be read: {problem}")
            if fields:  # not an empty line
                header, columns = fields, columns.chosen(fields)
        elif fields is None:
            yield Row(problem=f"line {lines.number}: {problem}")
        elif fields:
            row = columns.row(dict(zip(header, fields, strict=False)))
            if len(fields) > len(header):
                row = row._replace(problem=f"line {lines.number} has {len(fields)} fields for {len(header)} columns")
            yield row


def _json_lines(lines: _Lines, columns: Columns) -> Iterator[Row]:
    columns = Columns(columns.content or ("text",), columns.id, columns.label)
    for line, problem in _each(lines):
        if line is None:
            yield Row(problem=problem)
        elif line.strip():
            try:
                found = cast(object, json.loads(line))
            except (ValueError, RecursionError):
                yield Row(problem=f"line {lines.number} is not JSON")
                continue
            if isinstance(found, Mapping):
                yield columns.row(cast(Mapping[str, Any], found))
            else:
                yield Row(found)


def _parquet(open_file: Callable[[], Any], columns: Columns) -> Iterator[Row]:
    pa = arrow()
    file: Any = pa.parquet.ParquetFile(open_file())
    columns = columns.chosen(list(file.schema_arrow.names))
    wanted = list(dict.fromkeys([*columns.content, *filter(None, (columns.id, columns.label))]))
    seen = 0
    try:
        for batch in file.iter_batches(batch_size=ROWS, columns=wanted):
            yield from map(columns.row, _plain(batch))
            seen += batch.num_rows
    except (OSError, pa.ArrowException) as error:
        problem = f"the Parquet file cannot be read here: {_first_line(error)}"
        yield from (Row(problem=problem) for _ in range(file.metadata.num_rows - seen))


def _plain(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of a batch; a column whose texts are not UTF-8 is read as bytes."""
    pa = arrow()
    try:
        yield from batch.to_pylist()
    except UnicodeDecodeError:
        raw = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
        own = [each.view(raw[each.type]) if each.type in raw else each for each in batch.columns]
        for row in zip(*(each.to_pylist() for each in own), strict=True):
            yield {name: _decoded(value) for name, value in zip(batch.schema.names, row, strict=True)}


def _decoded(value: object) -> object:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _word(value: object) -> str | None:
    """An id or a label as text that can be written."""
    if value is None:
        return None
    found = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return found.encode("utf-8", "backslashreplace").decode()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
