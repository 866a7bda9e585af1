"""Tables as text: aligned, CSV and JSON Lines."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from whence.cli.streams import opened
from whence.corpus.learned.results import noted, notes_of, table_of
from whence.corpus.learned.tables import Section, aligned, csv_lines, json_lines, sections_by
from whence.errors import WhenceError

EVIL = 'a\x1b[31m\n"b",\u202ec'


def test_columns_are_aligned_and_free_of_control_characters() -> None:
    table = pa.table({"word": [EVIL, "日本"], "mean": [-1.5, None], "n": [10, 2000], "small": [0.00123, -0.0004]})
    assert aligned([Section("of \x1b", table)]).splitlines() == [
        "of ␛",
        "word             mean     n     small",
        'a␛[31m␊"b",�c  -1.500    10   0.00123',
        "日本                –  2000  -0.00040",
    ]
    assert aligned([Section("", table.slice(0, 0))]) == "word  mean  n  small\n"


def test_csv_and_json_hold_the_values_as_they_are() -> None:
    table = pa.table({"word": [EVIL, None], "mean": [float("nan"), 0.1], "list": [[1.0, float("inf")], []]})
    rows = list(csv.reader(io.StringIO(csv_lines(table))))
    assert rows == [["word", "mean", "list"], [EVIL, "nan", "[1.0, null]"], ["", "0.1", "[]"]]
    found = [json.loads(line) for line in json_lines(table).split("\n")[:-1]]
    assert found == [{"word": EVIL, "mean": None, "list": [1.0, None]}, {"word": None, "mean": 0.1, "list": []}]
    maps = pa.table(
        {"map": pa.array([[("bias", 0.5)], None], pa.map_(pa.string(), pa.float64())), "words": [["é", EVIL], None]}
    )
    (_, first, missing) = csv.reader(io.StringIO(csv_lines(maps)))
    assert [json.loads(cell) for cell in first] == [{"bias": 0.5}, ["é", EVIL]] and missing == ["", ""]
    assert json.loads(json_lines(maps).split("\n")[0]) == {"map": {"bias": 0.5}, "words": ["é", EVIL]}
    assert json.loads(json_lines(table, name="words").split("\n")[0])["table"] == "words"


@pytest.mark.parametrize("word", ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\t=1"])
def test_no_cell_of_csv_is_a_formula(word: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_lines(pa.table({word: [word, "a=1"], "mean": [-1.5, 2.0]})))))
    assert rows == [[f"'{word}", "mean"], [f"'{word}", "-1.5"], ["a=1", "2.0"]]


def test_a_table_is_split_where_columns_change() -> None:
    table = pa.table({"target": ["a", "a", "b"], "end": ["most", "least", "least"], "n": [1, 2, 3], "rank": [1, 1, 1]})
    found = sections_by(table, ["target", "end"], "{target}: {end}", without=["rank"])
    assert [(heading, part.to_pydict()) for heading, part in found] == [
        ("a: most", {"n": [1]}), ("a: least", {"n": [2]}), ("b: least", {"n": [3]}),
    ]  # fmt: skip
    assert sections_by(table.slice(0, 0), ["target"], "{target}") == []


def test_notes_travel_with_a_table() -> None:
    table = table_of([{"a": 1, "b": 2}], [("a", pa.int64())], ["one", "two"])
    assert table.to_pydict() == {"a": [1]} and notes_of(table) == ["one", "two"]
    assert notes_of(noted(table, [])) == [] and notes_of(pa.table({"a": [1]})) == []


def test_means_are_kept_to_twelve_digits_and_relevance_whole() -> None:
    values = [1 / 3, 3.679816961288452, 1e300, float("inf")]  # the second is a number of single precision
    table = table_of([{"a": value} for value in values], [("a", pa.float64())])
    assert table.to_pydict()["a"] == [0.333333333333, 3.679816961288452, 1e300, float("inf")]


def test_a_file_is_there_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "answer.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), opened(path) as stream:
        stream.write(b"new" * (1 // 0))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    with opened(path) as stream:
        stream.write(b"new")
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(WhenceError, match="cannot be written: No such file"), opened(tmp_path / "no" / "x") as stream:
        stream.write(b"new")
