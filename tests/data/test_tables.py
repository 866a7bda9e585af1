"""Columns of CSV, TSV, JSON Lines and Parquet files."""

import json
from pathlib import Path

import pytest

from whence.data.tables import read_columns
from whence.errors import DataError

ROWS = [("a fine film", "positive"), ('it "tries", and\nfails', "negative"), ("größer\u2028als 狗", "neutral")]


def write(path: Path) -> Path:
    """The rows in the format of the suffix, between two other columns."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"id": 1, "text": text, "label": label}) + "\n" for text, label in ROWS))
    elif path.suffix == ".parquet":
        import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        from pyarrow import parquet  # pyright: ignore[reportMissingTypeStubs]

        columns = {"id": [1, 2, 3], "text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
        parquet.write_table(pyarrow.table(columns), path)  # pyright: ignore[reportUnknownMemberType]
    else:
        sign = "\t" if path.suffix == ".tsv" else ","
        quoted = [[f'"{each.replace(chr(34), chr(34) * 2)}"' for each in row] for row in ROWS]
        path.write_bytes(("\ufeff" + sign.join(("id", "text", "label")) + "\r\n").encode())
        with path.open("ab") as file:
            file.writelines(f"1{sign}{text}{sign}{label}\r\n".encode() for text, label in quoted)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".CSV"])
def test_rows_are_read_as_written(tmp_path: Path, suffix: str) -> None:
    found = list(read_columns(write(tmp_path / f"data{suffix}"), ["text", "label"]))
    assert found == [(n, row) for n, row in enumerate(ROWS, start=1)]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "has no column 'text'; its columns are none"),
        ("a.csv", b"review,stars\nx,1\n", "has no column 'text'; its columns are 'review', 'stars'"),
        ("a.csv", b'text,label\n"open,1\n', "after line 1: .*; is every quote closed"),
        ("a.csv", b"text,label\n\xff,1\n", "is not UTF-8 text"),
        ("a.jsonl", b'{"text": 1, "label"', "line 1 is not JSON; every line is an object"),
        ("a.jsonl", b"[1, 2]\n", "line 1 is a list; every line is an object"),
        ("a.jsonl", b"[" * 100_000, "line 1 is not JSON"),
        ("a.parquet", b"PAR1", "is not a Parquet file that can be read"),
        ("a.csv", b"label,text\npositive,good, not bad\n", "line 2 has more fields than the 2 columns; put quotes around"),
        ("a.csv", b"text,label,text\na,b,c\n", "has 2 columns 'text'; give them different names"),
        ("a.jsonl", b'\n{"review": 1}\n', "has no column 'text'"),
        ("a.xlsx", b"", "ends in '.xlsx'; a table is known by its suffix: .csv, .tsv"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_columns(tmp_path / name, ["text", "label"]))


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist; give a file of rows"):
        list(read_columns(tmp_path / "gone.csv", ["text"]))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        list(read_columns(tmp_path / "folder.csv", ["text"]))


def test_a_row_without_a_column_and_a_field_longer_than_pythons_limit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"text,label\nx\n{'y' * 200_000},1\n")
    short, long = read_columns(tmp_path / "a.csv", ["text", "label"])
    assert short == (1, ("x", None)) and len(long[1][0]) == 200_000
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": 1}\n\n{"text": "b"}\n')
    assert list(read_columns(tmp_path / "a.jsonl", ["text", "label"])) == [(1, ("a", 1)), (3, ("b", None))]
