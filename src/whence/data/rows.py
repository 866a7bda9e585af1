"""The rows of a file, whatever is in it: what can be explained, and what cannot with the reason. Memory is bounded."""

import codecs
import csv
import gzip
import io
import json
import sys
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from whence.data.arrow import arrow
from whence.errors import DataError, InputError

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
LONGEST_LINE = 2**23  # characters of a line, or of a row of CSV
DEEPEST = 50  # lists within lists of JSON
T = TypeVar("T")
UTF16 = ("\udcff\udcfe", "\udcfe\udcff")  # how its first bytes look
ROWS = 128  # of a Parquet file, read at once


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
    option: str = "--text"  # by which a person names the content

    def chosen(self, known: Sequence[str]) -> "Columns":
        """The same with a content that a table of these columns has; raises for one that does not have what was asked for."""
        content = self.content or (_default(known),)
        shown = ", ".join(repr(name[:40]) for name in known[:20]) or "none"
        wanted = [(name, self.option) for name in content]
        for name, option in [*wanted, (self.id, "--id"), (self.label, "--label")]:
            if name is not None and name not in known:
                parted = next((mark for mark in ";\t|" if len(known) == 1 and mark in known[0]), None)
                hint = (
                    f"is it parted by {parted!r}? Then give --delimiter {parted!r}" if parted else f"choose one with {option}"
                )
                raise DataError(f"has no column {name[:40]!r}; its columns are {shown}; {hint}")
            if name is not None and known.count(name) > 1:
                raise DataError(f"has {known.count(name)} columns {name[:40]!r}; give them different names")
        return replace(self, content=content)

    def row(self, named: Mapping[str, Any]) -> Row:
        """A row with these values."""
        missing = next((name for name in self.content if name not in named), None)
        own = [named.get(name) for name in self.content]
        id, label = (_word(named.get(name)) if name else None for name in (self.id, self.label))
        if missing is not None:
            return Row(None, id, label, f"there is no field {missing!r}")
        return Row(own[0] if len(own) == 1 else own, id, label)


def _default(known: Sequence[str]) -> str:
    """The column of the content where none is named."""
    return known[0] if len(known) == 1 else "text"


def format_of(name: str) -> str | None:
    """The format that a file's name says; None if it says none."""
    name = name.lower()
    for packed in PACKED:
        name = name.removesuffix(packed)
    return next((format for suffix, format in SUFFIXES.items() if name.endswith(suffix)), None)


@dataclass(frozen=True)
class Spelling:
    """How texts are written in files: their encoding, and what parts the fields of CSV."""

    encoding: str = "utf-8-sig"
    delimiter: str = ","


def spelling_of(encoding: str | None, delimiter: str | None) -> Spelling:
    """How files are written, as a person says it."""
    if delimiter is not None and len(delimiter) != 1:
        raise InputError(f"delimiter is {delimiter!r}; give the one character that parts the fields of CSV")
    try:
        usual = encoding is None or codecs.lookup(encoding).name == "utf-8"
    except (LookupError, ValueError):
        raise InputError(f"encoding {encoding!r} is not known; give one such as latin-1, cp1252 or utf-16") from None
    return Spelling("utf-8-sig" if usual else cast(str, encoding), delimiter or ",")


def read_rows(
    open_file: Callable[[], Any],
    name: str,
    format: str,
    columns: Columns,
    spelling: Spelling = Spelling(),  # noqa: B008 - it is frozen
) -> Generator[Row]:
    """The rows of a file. What cannot be read is a row with a problem; a table without the wanted columns raises."""
    try:
        if format == "parquet":
            yield from _parquet(open_file, columns)
            return
        with _unpacked(open_file(), name) as stream:
            newline = None if format == "text" else ""
            lines = _Lines(io.TextIOWrapper(stream, spelling.encoding, "surrogateescape", newline=newline))
            if format == "text":
                yield from (Row((line or "").rstrip("\n"), problem=problem) for line, problem in _each(lines, lines))
            elif format == "jsonl":
                yield from _json_lines(lines, columns)
            else:
                yield from _separated(lines, columns, "\t" if format == "tsv" else spelling.delimiter)
    except (OSError, EOFError, UnicodeError, zlib.error, *_errors_of_arrow()) as error:
        yield Row(problem=f"{name} cannot be read any further: {_first_line(error)}")


def _errors_of_arrow() -> tuple[type[Exception], ...]:
    """What pyarrow raises, if it was needed at all."""
    return (sys.modules["pyarrow"].ArrowException,) if "pyarrow" in sys.modules else ()


def read_file(
    path: Path,
    columns: Columns,
    *,
    other: str | None = None,
    spelling: Spelling = Spelling(),  # noqa: B008 - it is frozen
) -> Generator[Row]:
    """The rows of a file whose format its name says; with `other`, that of a name that says none."""
    format = format_of(path.name) or other
    if format is None:
        raise DataError(f"{path} ends in {path.suffix!r}; a table is known by its suffix: {', '.join(SUFFIXES)}")
    try:
        path.open("rb").close()
        yield from read_rows(lambda: path.open("rb"), path.name, format, columns, spelling)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except DataError as error:
        raise DataError(f"{path} {error}") from None


def _unpacked(stream: Any, name: str) -> Any:
    if name.lower().endswith(".gz"):
        return gzip.open(stream)
    if name.lower().endswith(".zst"):
        return arrow().CompressedInputStream(stream, "zstd")
    return stream


class _TooLongError(Exception):
    """A line that is not read to its end."""


class _Lines:
    """The lines of a text; one that is too long is passed over and raises, and the next call goes on behind it.

    `taken` holds the lines since `begin` was called, so that they can be given back.
    """

    def __init__(self, file: io.TextIOBase) -> None:
        self.file, self.number, self.length = file, 0, 0
        self.taken, self.ahead = list[str](), deque[str]()

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self.ahead.popleft() if self.ahead else self.file.readline(LONGEST_LINE)
        if not line:
            raise StopIteration
        if not self.number and line.startswith(UTF16):
            raise DataError("is written in UTF-16; give --encoding utf-16, or save it as UTF-8")
        self.number += 1
        if len(line) == LONGEST_LINE and not line.endswith(("\n", "\r")):
            while (rest := self.file.readline(LONGEST_LINE)) and not rest.endswith(("\n", "\r")):
                pass
            raise _TooLongError(f"line {self.number} is longer than {LONGEST_LINE:,} characters")
        self.taken.append(line)
        self.length += len(line)
        if self.length > LONGEST_LINE:
            raise _TooLongError(f"the row that ends in line {self.number} is longer than {LONGEST_LINE:,} characters")
        return line

    def begin(self) -> None:
        """A row begins here."""
        self.taken, self.length = [], 0

    def give_back(self) -> None:
        """Go on with the line after that in which the row began."""
        self.ahead.extendleft(reversed(self.taken[1:]))
        self.number -= len(self.taken) - 1
        self.taken = []


def _each(found: Iterator[T], lines: _Lines) -> Iterator[tuple[T | None, str]]:
    """What an iterator over lines gives, or None and the problem where it cannot be read."""
    while True:
        lines.begin()
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
    for fields, problem in _each(reader, lines):
        if header is None:
            if fields is None:
                raise DataError(f"has no header that can be read: {problem}")
            if fields:  # not an empty line
                header, columns = fields, columns.chosen(fields)
        elif fields is None:
            lines.give_back()  # a quote that is not closed must not swallow what follows
            yield Row(problem=f"line {lines.number}: {problem}; is a quote not closed?")
        elif fields:
            row = columns.row(dict(zip(header, fields, strict=False)))
            if len(fields) > len(header):
                row = row._replace(problem=f"line {lines.number} has {len(fields)} fields for {len(header)} columns")
            yield row


def _json_lines(lines: _Lines, columns: Columns) -> Iterator[Row]:
    for line, problem in _each(lines, lines):
        if line is None:
            yield Row(problem=problem)
        elif line.strip():
            try:
                found = cast(object, json.loads(line))
                if line.count("[") + line.count("{") > DEEPEST and _depth(found) > DEEPEST:
                    raise ValueError
            except (ValueError, RecursionError):
                yield Row(problem=f"line {lines.number} is not JSON, or lists in it are nested too deeply")
                continue
            if isinstance(found, Mapping):
                named = cast(Mapping[str, Any], found)
                columns = replace(columns, content=columns.content or (_default(list(named)),))  # by the first row
                yield columns.row(named)
            else:
                yield Row(found)


def _depth(found: object) -> int:
    """How deeply lists and objects are nested."""
    depth, level = 0, [found]
    while level := [each for one in level for each in _inside(one)]:
        depth += 1
    return depth


def _inside(found: object) -> list[object]:
    if isinstance(found, Mapping):
        return list(cast(Mapping[str, object], found).values())
    return cast(list[object], found) if isinstance(found, list) else []


def _parquet(open_file: Callable[[], Any], columns: Columns) -> Iterator[Row]:
    pa = arrow()
    with closing(open_file()) as stream:
        file: Any = pa.parquet.ParquetFile(stream, pre_buffer=False)
        columns = columns.chosen(list(file.schema_arrow.names))
        wanted = list(dict.fromkeys([*columns.content, *filter(None, (columns.id, columns.label))]))
        seen = 0
        try:
            for batch in file.iter_batches(batch_size=ROWS, columns=wanted, use_threads=False):
                yield from _rows(batch, columns)
                seen += batch.num_rows
        except (OSError, pa.ArrowException) as error:
            problem = f"the Parquet file cannot be read here: {_first_line(error)}"
            yield from (Row(problem=problem) for _ in range(file.metadata.num_rows - seen))


def _rows(batch: Any, columns: Columns) -> Iterator[Row]:
    """The rows of a batch; if it holds a value that Python cannot, one by one."""
    try:
        found = [columns.row(named) for named in batch.to_pylist()]
    except (ValueError, OverflowError, ArithmeticError, LookupError):
        found = (_row(batch, n, columns) for n in range(batch.num_rows))
    yield from found


def _row(batch: Any, number: int, columns: Columns) -> Row:
    """One row, whose unreadable values are left out."""
    named: dict[str, Any] = {}
    problem = ""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            named[name] = _value(column[number])
        except (ValueError, OverflowError, ArithmeticError, LookupError) as error:
            named[name] = None
            problem = problem or (
                f"the value of {name!r} cannot be read: {_first_line(error)}" if name in columns.content else ""
            )
    return columns.row(named)._replace(problem=problem)


def _value(value: Any) -> object:
    """A value; a text that is not UTF-8 with stand-ins for its bytes."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        raw = value.value if hasattr(value, "dictionary") else value
        return raw.as_buffer().to_pybytes().decode("utf-8", "surrogateescape") if hasattr(raw, "as_buffer") else _reraise()


def _reraise() -> object:
    raise ValueError("it is not valid UTF-8")


def _word(value: object) -> str | None:
    """An id or a label as text that can be written."""
    if value is None or value != value:  # a gap, which pandas writes as NaN
        return None
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=str)
    found = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return found.encode("utf-8", "backslashreplace").decode()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
