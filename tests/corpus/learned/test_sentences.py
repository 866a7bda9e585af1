"""A corpus whose texts were split into sentences: each sentence is a text of its own."""

import subprocess
import sys
from pathlib import Path

from whence.corpus._explain import explain
from whence.corpus.learned.examples import examples
from whence.corpus.learned.query import query
from whence.corpus.learned.report import report
from whence.corpus.learned.words import words
from whence.models.pipeline import Pipeline

LONG = "I really liked all of it because the very good acting was so wonderful and moving."


def test_words_and_examples_are_those_of_their_sentence(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text(f"A wonderful film. {LONG} Excellent acting.\n\nA dull film.\n")
    out = tmp_path / "out"
    explain(pipeline, tmp_path / "in.txt", out, target="positive", split="sentences", workers=1)
    texts = query(out, "SELECT row, document, sentence, text FROM texts ORDER BY row").to_pylist()
    assert [(each["row"], each["document"], each["sentence"]) for each in texts] == [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 2, 0)]
    found = {row["word"]: row for row in words(out, count=100).to_pylist() if row["end"] == "most"}
    assert "moving" in found["moving"]["example"] and found["moving"]["row"] == 1
    assert found["dull"]["row"] == 3
    assert {row["row"] for row in examples(out, "wonderful").to_pylist()} == {0, 1}
    assert report(out, tmp_path / "report.html").stat().st_size > 5_000


def test_answers_that_python_cannot_hold_are_told_in_one_line(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("good\n")
    explain(pipeline, tmp_path / "in.txt", tmp_path / "out", workers=1)
    for sql in ("SELECT date '20000-01-01'", "SELECT 'infinity'::timestamp", "SELECT '\udcff'"):
        call = [sys.executable, "-m", "whence", "corpus", "query", str(tmp_path / "out"), sql]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("whence: the ") and len(done.stderr.splitlines()) == 1
