"""The folder of an explained corpus: the names of its files, and their columns."""

import re
from typing import Any

from whence.data.arrow import arrow

MANIFEST, REJECTS = "manifest.json", "rejects.parquet"
PART = re.compile(r"part-(\d{6,})\.parquet")


def part_name(number: int) -> str:
    """The file of a part's explained texts."""
    return f"part-{number:06}.parquet"


def text_schema(*, label: bool, sentence: bool = False) -> Any:
    """The columns of a corpus of texts: one row for every text.

    `label` is there if the input has labels, and `sentence` if texts were split, counted from 0 on in every text.

    `row` counts the rows of the input from 0 on. `score` is what was explained: Σ relevance + Σ absorbed = score for the
    methods that add up. `scores` are those of all classes, in the order that the manifest names them.
    """
    pa = arrow()
    return pa.schema(
        [
            ("row", pa.int64()),
            ("id", pa.string()),
            *([("sentence", pa.int32())] if sentence else []),
            ("text", pa.string()),
            ("tokens", pa.list_(pa.string())),
            ("relevance", pa.list_(pa.float32())),
            ("predicted", pa.string()),
            ("target", pa.string()),
            ("score", pa.float64()),
            ("scores", pa.list_(pa.float32())),
            ("absorbed", pa.map_(pa.string(), pa.float64())),
            *([("label", pa.string())] if label else []),
        ]
    )


def series_schema(*, label: bool) -> Any:
    """The columns of a corpus of series: one row for every series, whose values and relevance are rows of features (T, F).

    `target` is the output that was explained, and `scores` are all outputs, in the order that the model names them.
    """
    pa = arrow()
    numbers = pa.list_(pa.list_(pa.float64()))
    return pa.schema(
        [
            ("row", pa.int64()),
            ("id", pa.string()),
            ("values", numbers),
            ("relevance", numbers),
            ("target", pa.string()),
            ("score", pa.float64()),
            ("scores", pa.list_(pa.float64())),
            ("absorbed", pa.map_(pa.string(), pa.float64())),
            *([("label", pa.string())] if label else []),
        ]
    )


def rejects_schema() -> Any:
    """The columns of the rows that were not explained."""
    pa = arrow()
    return pa.schema([("row", pa.int64()), ("id", pa.string()), ("reason", pa.string())])


def read_table(source: Any) -> Any:
    """A small Parquet file whose checksums are right.

    It is read on this thread: Arrow's own threads can crash the end of a process, and `parquet.read_table` starts
    one whatever it is told.
    """
    return arrow().parquet.ParquetFile(source, pre_buffer=False, page_checksum_verification=True).read(use_threads=False)
