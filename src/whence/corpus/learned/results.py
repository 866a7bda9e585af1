"""Arrow tables as this room makes them: built from rows, and with notes to the user in their metadata."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from whence.data.arrow import arrow

NOTES = b"whence notes"


def table_of(rows: Iterable[Mapping[str, Any]], schema: Sequence[tuple[str, Any]], notes: Sequence[str] = ()) -> Any:
    """A table with these columns; what rows hold beside them is left out."""
    pa = arrow()
    settled = [{name: _settled(row.get(name)) for name, _ in schema} for row in rows]
    return noted(pa.Table.from_pylist(settled, schema=pa.schema(list(schema))), notes)


def _settled(value: Any) -> Any:
    """A sum or mean to twelve digits: the order in which threads add up changes the last ones from run to run.

    Relevance itself, which is stored in single precision, stays as it is.
    """
    is_mean = isinstance(value, float) and abs(value) < 1e38 and float(np.float32(value)) != value
    return float(f"{value:.12g}") if is_mean else value


def noted(table: Any, notes: Sequence[str]) -> Any:
    """The same table with notes."""
    return table.replace_schema_metadata({NOTES: json.dumps(list(notes))})


def with_notes(table: Any, more: Sequence[str]) -> Any:
    """The same table with more notes after its own."""
    return noted(table, [*notes_of(table), *more])


def notes_of(table: Any) -> list[str]:
    """The notes of a table: what its numbers mean, and what the user should know about the corpus."""
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    return json.loads(metadata.get(NOTES, b"[]"))
