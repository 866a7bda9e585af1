"""Arrow tables as this room makes them: built from rows, and with notes to the user in their metadata."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from whence.corpus.layout import arrow

NOTES = b"whence notes"


def table_of(rows: Iterable[Mapping[str, Any]], schema: Sequence[tuple[str, Any]], notes: Sequence[str] = ()) -> Any:
    """A table with these columns; what rows hold beside them is left out."""
    pa = arrow()
    return noted(pa.Table.from_pylist(list(rows), schema=pa.schema(list(schema))), notes)


def noted(table: Any, notes: Sequence[str]) -> Any:
    """The same table with notes."""
    return table.replace_schema_metadata({NOTES: json.dumps(list(notes))})


def notes_of(table: Any) -> list[str]:
    """The notes of a table: what its numbers mean, and what the user should know about the corpus."""
    metadata: Mapping[bytes, bytes] = table.schema.metadata or {}
    return json.loads(metadata.get(NOTES, b"[]"))
