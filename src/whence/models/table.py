"""A series as CSV text: a header, one line per step, and perhaps a first column of labels such as dates."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from whence.errors import DataError
from whence.quoting import quoted, shortened


class Table(NamedTuple):
    """The numbers of a series, with a name for every column and, if the text has them, a label for every step."""

    features: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]  # (T, F)
    labels: tuple[str, ...]  # (T,), or none


def read_table(text: str, *, features: Sequence[str] = ()) -> Table:
    """Read CSV text. Its columns must be `features`, if given, after at most one column of labels."""
    lines = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        rows = [[cell.strip() for cell in row] for row in lines if row]
    except csv.Error as error:
        raise DataError(f"the table is not CSV text: {shortened(error)} in line {lines.line_num}") from None
    if len(rows) < 2:
        raise DataError("the table has no steps; give a line with the names of the columns, then one line per step")
    header, *steps = rows
    for n, row in enumerate(steps, 1):
        if len(row) != len(header):
            raise DataError(f"step {n} of the table has {len(row)} cells; its header names {len(header)} columns")
    is_labelled = len(header) == len(features) + 1 if features else not _is_number(steps[0][0])
    names = tuple(header[is_labelled:])
    if features and names != tuple(features):
        raise DataError(f"the columns of the table are {quoted(list(names))}; the model reads {quoted(list(features))}")
    values = tuple(_numbers(row[is_labelled:], names, n) for n, row in enumerate(steps, 1))
    return Table(names, values, tuple(row[0] for row in steps) if is_labelled else ())


def _numbers(cells: Sequence[str], names: Sequence[str], step: int) -> tuple[float, ...]:
    for name, cell in zip(names, cells, strict=True):
        if not _is_number(cell):
            raise DataError(f"{quoted(name)} is {quoted(cell)} in step {step} of the table; it must be a finite number")
    return tuple(map(float, cells))


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def csv_text(values: Iterable[Iterable[float]], *, features: Sequence[str], labels: Sequence[str] = (), label: str = "") -> str:
    """Write a series as CSV text; `label` is the name of the column of labels."""
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow([*([label] if labels else []), *features])
    for n, row in enumerate(values):
        lines.writerow([*islice(labels, n, n + 1), *row])
    return written.getvalue()
