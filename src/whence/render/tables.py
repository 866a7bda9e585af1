"""Explanations as tables: CSV, in which lists are JSON, and Parquet."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import IO

from whence.data.arrow import arrow
from whence.data.formulas import inert
from whence.explanation import Explanation
from whence.explanations import Explanations

Groups = Sequence[Sequence[Explanation]]


def csv_lines(groups: Groups, *, head: bool = True) -> str:
    """A line for every explanation, after one with the names of the columns."""
    columns = _flat(groups).columns()
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    if head:
        writer.writerow(columns)
    writer.writerows(map(_cell, row) for row in zip(*columns.values(), strict=True))
    return buffer.getvalue()


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else inert(value)


def parquet(groups: Groups) -> bytes:
    """A Parquet file with a row for every explanation."""
    buffer = io.BytesIO()
    write_parquet(buffer, [groups])
    return buffer.getvalue()


def write_parquet(file: IO[bytes], pieces: Iterable[Groups]) -> None:
    """Write a Parquet file as the explanations come."""
    pa = arrow()
    with pa.parquet.ParquetWriter(file, Explanations().to_arrow().schema, compression="zstd") as writer:
        for groups in pieces:
            writer.write_table(_flat(groups).to_arrow())


def _flat(groups: Groups) -> Explanations:
    return Explanations(explanation for group in groups for explanation in group)
