"""What the tests of this room read back from an explained corpus."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]
import pyarrow.parquet as pq  # pyright: ignore[reportMissingTypeStubs]


def parts(out: Path) -> list[Path]:
    return sorted(out.glob("part-*.parquet"))


def explained(out: Path) -> list[dict[str, Any]]:
    """The explained rows, in the order of the files."""
    tables: Any = [pq.read_table(part) for part in parts(out)]
    return pa.concat_tables(tables).to_pylist() if tables else []


def rejected(out: Path) -> dict[int, str]:
    """The reasons of the rejected rows, by their numbers."""
    found: Any = pq.read_table(out / "rejects.parquet")
    return dict(zip(found["row"].to_pylist(), found["reason"].to_pylist(), strict=True))


def manifest(out: Path) -> dict[str, Any]:
    return json.loads((out / "manifest.json").read_text())


def everything(out: Path) -> tuple[Any, ...]:
    """All that a reader of the folder sees; two runs of a job must agree in it to the last bit."""
    found = manifest(out)
    return [each.read_bytes() for each in parts(out)], (out / "rejects.parquet").read_bytes(), found


def accounted(out: Path, count: int) -> None:
    """Every row of the input is in exactly one of the two files."""
    rows = [row["row"] for row in explained(out)] + list(rejected(out))
    assert sorted(rows) == list(range(count))
    found = manifest(out)
    assert found["complete"]
    assert (found["rows"], found["explained"] + found["rejected"]) == (count, count)
    assert found["rejected"] == len(rejected(out))
