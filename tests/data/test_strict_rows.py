"""A table of which every row is needed: CSV, TSV, JSON Lines and Parquet files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from whence.data.rows import Columns, Row, read_file
from whence.errors import DataError

ROWS = [("a fine film", "positive"), ('it "tries", and\nfails', "negative"), ("größer\u2028als 狗", "neutral")]


def require_rows(path: Path, columns: Columns) -> list[Row]:
    """The rows of a table; the first one that cannot be read raises."""
    found = list(read_file(path, columns))
    for row in found:
        if row.problem:
            raise DataError(f"{path}: {row.problem}")
    return found


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
    found = require_rows(write(tmp_path / f"data{suffix}"), Columns(("text",), label="label"))
    assert [(row.content, row.label) for row in found] == ROWS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"review,stars\nx,1\n", "has no column 'text'; its columns are 'review', 'stars'"),
        ("a.csv", b'text,label\n"open,1\n', "line 2: .*; is a quote not closed"),
        ("a.jsonl", b'{"text": 1, "label"', "line 1 is not JSON"),
        ("a.jsonl", b"[" * 100_000, "line 1 is not JSON"),
        ("a.parquet", b"PAR1", "a.parquet cannot be read any further"),
        ("a.csv", b"label,text\npositive,good, not bad\n", "line 2 has 3 fields for 2 columns"),
        ("a.csv", b"text,label,text\na,b,c\n", "has 2 columns 'text'; give them different names"),
        ("a.jsonl", b'\n{"review": 1}\n', "there is no field 'text'"),
        ("a.xlsx", b"", "ends in '.xlsx'; a table is known by its suffix: .csv, .tsv"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        require_rows(tmp_path / name, Columns(("text",), label="label"))


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        require_rows(tmp_path / "gone.csv", Columns())
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        require_rows(tmp_path / "folder.csv", Columns())


def test_a_row_without_a_column_and_a_field_longer_than_pythons_limit(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"text,label\nx\n{'y' * 200_000},1\n")
    short, long = require_rows(tmp_path / "a.csv", Columns(("text",), label="label"))
    assert short == Row("x") and len(long.content) == 200_000
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": 1}\n\n{"text": "b"}\n')
    assert require_rows(tmp_path / "a.jsonl", Columns(("text",), label="label")) == [Row("a", label="1"), Row("b")]


def test_texts_need_no_pyarrow(tmp_path: Path) -> None:
    """CSV and JSON Lines are read where pyarrow is not installed."""
    (tmp_path / "a.csv").write_text("text\nfine\n")
    program = "import sys; sys.modules['pyarrow'] = None\nfrom pathlib import Path\nfrom whence.data.rows import *\n"
    program += "print(*(row.content for row in read_file(Path(sys.argv[1]), Columns())))"
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "a.csv"], capture_output=True, text=True, check=True)
    assert done.stdout == "fine\n"
