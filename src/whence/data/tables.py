"""Columns of a table in a file: CSV, TSV, JSON Lines or Parquet, known by its suffix."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

from whence.errors import DataError

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")
LARGEST_FIELD = 2**27  # characters; Python's own limit for a field of CSV is 131,072


def read_columns(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The rows of a table: the number of each, from 1 on, and what the columns hold; None where a row lacks one."""
    try:
        yield from _rows(path, columns)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; give a file of rows with a text and a label each") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        yield from _parquet(path, columns)
    elif suffix == ".jsonl":
        with path.open(encoding="utf-8-sig") as file:
            yield from _json_lines(path, file, columns)
    elif suffix in (".csv", ".tsv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _separated(path, file, columns, "\t" if suffix == ".tsv" else ",")
    else:
        raise DataError(f"{path} ends in {suffix or 'nothing'!r}; a table is known by its suffix: {', '.join(SUFFIXES)}")


def _require(path: Path, known: Sequence[str], columns: Sequence[str]) -> None:
    for column in columns:
        if known.count(column) > 1:
            raise DataError(f"{path} has {known.count(column)} columns {column!r}; give them different names")
        if column not in known:
            shown = ", ".join(map(repr, known[:20])) or "none"
            raise DataError(f"{path} has no column {column!r}; its columns are {shown}")


def _separated(path: Path, file: TextIO, columns: Sequence[str], delimiter: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    csv.field_size_limit(LARGEST_FIELD)
    reader = csv.DictReader(file, delimiter=delimiter, strict=True)
    try:
        _require(path, list(reader.fieldnames or []), columns)
        for number, row in enumerate(reader, start=1):
            if None in row:
                raise DataError(
                    f"{path}, line {reader.line_num} has more fields than the {len(reader.fieldnames or [])} columns; put "
                    "quotes around a text with a comma"
                )
            yield number, tuple(row[column] for column in columns)
    except csv.Error as error:
        raise DataError(f"{path}, after line {reader.line_num}: {error}; is every quote closed?") from None


def _json_lines(path: Path, file: TextIO, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    is_first = True
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = cast(object, json.loads(line))
        except (ValueError, RecursionError):
            raise DataError(f'{path}, line {number} is not JSON; every line is an object such as {{"text": …}}') from None
        if not isinstance(row, Mapping):
            raise DataError(f'{path}, line {number} is a {type(row).__name__}; every line is an object such as {{"text": …}}')
        named = cast(Mapping[str, Any], row)
        if is_first:
            _require(path, list(named), columns)
        is_first = False
        yield number, tuple(named.get(column) for column in columns)


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    try:
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError:
        raise DataError("Parquet files need pyarrow; run: pip install 'whence[corpus]'") from None
    arrow, reader = cast(Any, pyarrow), cast(Any, parquet)
    try:
        file: Any = reader.ParquetFile(path, pre_buffer=False)
        _require(path, list(file.schema_arrow.names), columns)
        number = 0
        for batch in file.iter_batches(columns=list(columns), use_threads=False):
            own = [cast(list[Any], batch.column(column).to_pylist()) for column in columns]
            for row in zip(*own, strict=True):
                number += 1
                yield number, row
    except arrow.ArrowException as error:
        raise DataError(f"{path} is not a Parquet file that can be read: {str(error).splitlines()[0]}") from None
