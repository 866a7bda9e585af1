"""Arrow tables as text: aligned for people, CSV and JSON Lines for programs."""

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from rich.cells import cell_len

from whence.data.arrow import arrow
from whence.data.formulas import inert
from whence.render.colour import one_line

LONGEST = 72  # characters of a cell in a table for people


class Section(NamedTuple):
    """A part of a table under a heading."""

    heading: str
    table: Any


def sections_by(table: Any, columns: Sequence[str], heading: str, *, without: Sequence[str] = ()) -> list[Section]:
    """The parts of a table with equal values in these columns, in order; `heading` is filled in from them."""
    rows = table.select(list(columns)).to_pylist()
    kept = [name for name in table.column_names if name not in (*columns, *without)]
    starts = [n for n, row in enumerate(rows) if n == 0 or row != rows[n - 1]]
    ends = [*starts[1:], len(rows)]
    return [
        Section(heading.format(**rows[start]), table.select(kept).slice(start, end - start))
        for start, end in zip(starts, ends, strict=False)
    ]


def aligned(sections: Sequence[Section]) -> str:
    """Tables with aligned columns, numbers to the right."""
    return "\n".join(
        f"{one_line(each.heading)}\n{_aligned(each.table)}" if each.heading else _aligned(each.table) for each in sections
    )


def _aligned(table: Any) -> str:
    names, cells, numeric = cells_of(table)
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    lines = [
        "  ".join(
            " " * (width - cell_len(cell)) + cell if is_number else cell + " " * (width - cell_len(cell))
            for cell, width, is_number in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in [names, *cells]
    ]
    return "\n".join(lines) + "\n"


def cells_of(table: Any) -> tuple[list[str], list[list[str]], list[bool]]:
    """The names, the cells by row, and which columns hold numbers."""
    columns = [column.to_pylist() for column in table.columns]
    texts = [_written(column) for column in columns]
    numeric = [any(isinstance(value, (int, float)) for value in column) for column in columns]
    names = [one_line(name) for name in table.column_names]
    return names, [list(row) for row in zip(*texts, strict=True)], numeric


def _written(column: Sequence[object]) -> list[str]:
    """The values of a column with the same number of decimals."""
    sizes = [abs(value) for value in column if isinstance(value, float) and math.isfinite(value) and value]
    decimals = 3 if not sizes or max(sizes) >= 0.02 else min(12, 2 - math.floor(math.log10(max(sizes))))
    return [_cell(value, decimals) for value in column]


def _cell(value: object, decimals: int) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.{decimals}f}" if abs(value) < 1e12 else f"{value:g}"
    text = one_line(str(value))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def csv_lines(table: Any, *, head: bool = True) -> str:
    """The table as CSV; lists and maps are JSON."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if head:
        writer.writerow(map(inert, table.schema.names))
    writer.writerows(zip(*([_csv_cell(value) for value in _values(column)] for column in table.columns), strict=True))
    return stream.getvalue()


def _csv_cell(value: object) -> object:
    """A list, map or struct as JSON, the rest as it is; none is a formula."""
    return _json(cast(object, value)) if isinstance(value, (list, dict)) else inert(value)


def _values(column: Any) -> list[Any]:
    """The values of a column; Arrow gives a map as a list of pairs."""
    values = column.to_pylist()
    if arrow().types.is_map(column.type):
        return [None if value is None else dict(value) for value in values]
    return values


def json_lines(table: Any, *, name: str = "") -> str:
    """The table as JSON Lines, one object a row; `name` says which of several tables a row is from."""
    first = {"table": name} if name else {}
    names = table.schema.names
    rows: Iterable[tuple[object, ...]] = zip(*map(_values, table.columns), strict=True)
    return "".join(f"{_json(first | dict(zip(names, row, strict=True)))}\n" for row in rows)


def _json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, default=str)


def _plain(value: object) -> object:
    """A value that JSON can hold: no number is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in cast(Sequence[object], value)]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in cast(dict[object, object], value).items()}
    return value
