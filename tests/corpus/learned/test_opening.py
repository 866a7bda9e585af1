"""Folders that are no corpus, damaged, unfinished or empty, and what is said of them."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpus.learned.making import Row, random_rows, write
from whence.corpus.learned.opening import opened
from whence.corpus.learned.query import query
from whence.corpus.learned.results import notes_of
from whence.corpus.learned.words import words
from whence.errors import DataError, InputError

ROWS = [Row(0, ["a", "b"], [1.0, -1.0]), Row(1, ["c"], [0.5]), Row(3, ["a"], [2.0])]


def test_the_views_hold_every_text_and_every_word(tmp_path: Path) -> None:
    write(tmp_path, ROWS, reasons={"empty": 2})
    found = query(tmp_path, "SELECT row, position, token, relevance, target, predicted FROM tokens ORDER BY row, position")
    expected = [(0, 0, "a", 1.0), (0, 1, "b", -1.0), (1, 0, "c", 0.5), (3, 0, "a", 2.0)]
    assert [tuple(row.values()) for row in found.to_pylist()] == [(*each, "positive", "positive") for each in expected]
    assert query(tmp_path, "SELECT row FROM texts").column("row").to_pylist() == [0, 1, 3]
    assert query(tmp_path, "SELECT reason FROM rejects").column("reason").to_pylist() == ["empty", "empty"]
    assert notes_of(found) == []


def test_a_folder_whose_name_looks_like_a_pattern_is_opened(tmp_path: Path) -> None:
    folder = write(tmp_path / "o[1]*'q\"?", ROWS)
    assert query(folder, "SELECT count(*) AS n FROM tokens").to_pylist() == [{"n": 4}]


@pytest.mark.parametrize(
    ("name", "message"), [("nowhere", "nowhere is not a folder"), (".", r"no explained corpus: it has no manifest\.json")]
)
def test_what_is_no_corpus_is_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        words(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"manifest\.json is damaged \(JSONDecodeError.*run whence corpus explain again"),
        ("[]", r"manifest\.json is damaged"),
        ('{"format": 1, "model": {}}', r"manifest\.json is damaged \(KeyError"),
        ('{"format": 7, "model": {"hash": ""}}', "has format 7; this version of whence reads format 1"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=message):
        words(tmp_path)


@pytest.mark.parametrize("kept", [0, 3, 200])
def test_a_part_that_was_cut_off_is_refused(tmp_path: Path, kept: int) -> None:
    write(tmp_path, ROWS)
    part = tmp_path / "part-000001.parquet"
    part.write_bytes(part.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"part-000001\.parquet is damaged.*run whence corpus explain again"):
        words(tmp_path)


def test_a_part_whose_middle_is_damaged_is_refused(tmp_path: Path) -> None:
    write(tmp_path, random_rows(300), parts=1)
    part = tmp_path / "part-000000.parquet"
    content = bytearray(part.read_bytes())
    content[4:2000] = b"\xff" * 1996
    part.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"run whence corpus explain again$"):
        words(tmp_path)


def test_a_part_that_is_missing_is_refused(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    (tmp_path / "part-000000.parquet").unlink()
    with pytest.raises(DataError, match=r"lacks part-000000\.parquet, which its manifest\.json names"):
        words(tmp_path)


def test_of_an_unfinished_corpus_the_parts_that_are_there_are_used(tmp_path: Path) -> None:
    write(tmp_path, ROWS, complete=False)
    (tmp_path / "rejects.parquet").rename(tmp_path / "rejects-000000.parquet")
    (tmp_path / "part-000001.parquet").unlink()
    (tmp_path / ".part-000001.parquet.x1").write_bytes(b"half")
    found = words(tmp_path)
    assert set(found.column("word").to_pylist()) == {"a", "b", "c"}  # of rows 0 and 1
    assert "is not complete: these are its first 1 parts" in notes_of(found)[0]


def test_a_corpus_without_an_explained_text_is_told(tmp_path: Path) -> None:
    write(tmp_path, [], reasons={"empty": 3})
    found = words(tmp_path)
    assert len(found) == 0
    assert notes_of(found) == [f"{tmp_path} holds no explained text; 3 rows were rejected: 3 × empty"]
    assert query(tmp_path, "SELECT count(*) AS n FROM tokens").to_pylist() == [{"n": 0}]


def test_series_have_no_words_but_can_be_queried(tmp_path: Path) -> None:
    write(tmp_path, ROWS, parts=1)
    pq.write_table(pa.table({"row": [0, 1], "score": [1.0, 2.0]}), tmp_path / "part-000000.parquet")
    with pytest.raises(InputError, match="is not a corpus of texts: its parts have no column tokens"):
        words(tmp_path)
    assert query(tmp_path, "SELECT sum(score) AS s FROM texts").to_pylist() == [{"s": 3.0}]


def test_two_corpora_are_opened_side_by_side(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", ROWS), write(tmp_path / "two", ROWS[:1], complete=False)
    with opened(one, two) as corpus:
        assert corpus.rows("SELECT count(*) AS n FROM tokens") == [{"n": 4}]
        assert corpus.rows("SELECT count(*) AS n FROM other.tokens") == [{"n": 2}]
        assert len(corpus.notes) == 1 and "two is not complete" in corpus.notes[0]


def test_a_manifest_without_a_sign_is_of_a_signed_method(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    told = json.loads((tmp_path / "manifest.json").read_text())
    del told["is_signed"]
    (tmp_path / "manifest.json").write_text(json.dumps(told))
    with opened(tmp_path) as corpus:
        assert corpus.is_signed
