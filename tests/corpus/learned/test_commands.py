"""The commands about an explained corpus: what they print, and where."""

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.corpus.learned.making import Row, random_rows, write
from whence.cli.learned import register
from whence.corpus.learned.words import words
from whence.errors import InputError, WhenceError

EVIL = "\x1b[31mred\x1b[0m\x9b\u202e"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = random_rows(60, longest=40, targets=("predicted",))
    return write(tmp_path_factory.mktemp("corpus"), [*rows, Row(100, ["good", EVIL], [5.0, 9.0], label="0")], labels=True)


def run(*arguments: str) -> tuple[str, str]:
    """What a command prints on both streams; an error is raised."""
    app = typer.Typer()
    register(app)
    done = CliRunner().invoke(app, list(arguments), catch_exceptions=True)
    if isinstance(done.exception, WhenceError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_words_in_all_formats(out: Path, tmp_path: Path) -> None:
    expected = words(out, count=2).to_pylist()
    table, _ = run("words", str(out), "--count", "2")
    assert [line for line in table.splitlines() if line.endswith("relevant")] == [
        "negative: most relevant", "negative: least relevant", "positive: most relevant", "positive: least relevant",
    ]  # fmt: skip
    assert "\x1b" not in table and "␛[31mred" in table
    found = [json.loads(line) for line in run("words", str(out), "--count", "2", "--format", "json")[0].split("\n")[:-1]]
    assert found == expected
    run("words", str(out), "--count", "2", "--format", "csv", "--output", str(tmp_path / "words.csv"))
    rows = list(csv.DictReader(io.StringIO((tmp_path / "words.csv").read_text(encoding="utf-8"), newline="")))
    assert [row["word"] for row in rows] == [row["word"] for row in expected]


def test_options_reach_the_functions(out: Path) -> None:
    found = run(
        "words", str(out), "--class", "1", "--ngrams", "1..2", "--by", "mean", "--least-count", "3", "--format", "json"
    )[0]
    expected = words(out, target="positive", ngrams=(1, 2), by="mean", least_count=3).to_pylist()
    assert [json.loads(line) for line in found.split("\n")[:-1]] == expected
    assert "speak for it and against it" in run("words", str(out), "--mixed")[0]
    for wrong in ("x", "1..", "..", "1..x"):
        with pytest.raises(InputError, match="give the number of words in a phrase"):
            run("words", str(out), "--ngrams", wrong)


def test_position_examples_and_errors_are_printed(out: Path, tmp_path: Path) -> None:
    assert "texts: share of the relevance" in run("position", str(out), "--least-words", "1")[0]
    shown = run("examples", str(out), "--word", "good", "--count", "1")[0]
    assert "positive: where “good” speaks for the class" in shown and "\x1b" not in shown and "[+good]" in shown
    run("examples", str(out), "--word", "good", "--format", "html", "--output", str(tmp_path / "good.html"))
    assert (tmp_path / "good.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    rows = [json.loads(line) for line in run("examples", str(out), "--word", "good", "--format", "json")[0].split("\n")[:-1]]
    assert rows[0]["tokens"][rows[0]["position"]] == "good"
    table, notes = run("errors", str(out))
    assert "suspected shortcuts" in table and "predictions are right" in notes
    tables = {json.loads(line)["table"] for line in run("errors", str(out), "--format", "json")[0].split("\n")[:-1]}
    assert {"confusion", "words"} <= tables
    with pytest.raises(InputError, match="a CSV file holds one table; choose one with --show: confusion, words, shortcuts"):
        run("errors", str(out), "--format", "csv")
    assert run("errors", str(out), "--format", "csv", "--show", "confusion")[0].startswith("label,predicted,texts\n")


def test_corpora_are_compared(out: Path, tmp_path: Path) -> None:
    rows = [row._replace(relevance=row.relevance[::-1]) for row in random_rows(60, longest=40, targets=("predicted",))]
    other = write(tmp_path / "other", rows, labels=True)
    table, notes = run("compare", str(out), str(other), "--count", "2")
    assert "words whose relevance differs" in table and "rank correlation" in table and "60 rows are in both" in notes
    assert run("compare", str(out), str(other), "--format", "csv", "--show", "texts")[0].startswith("row,target,correlation")
    sliced = run("compare", str(out), "--slice-a", "label = '1'", "--format", "json")[0]
    assert {json.loads(line)["table"] for line in sliced.split("\n")[:-1]} == {"words", "predictions"}
    run("compare", str(out), str(other), "--output", str(tmp_path / "compared.txt"))
    assert "rank correlation" in (tmp_path / "compared.txt").read_text(encoding="utf-8")


def test_a_query_is_answered_in_all_formats(out: Path, tmp_path: Path) -> None:
    sql = "SELECT token, count(*) AS n FROM tokens GROUP BY token ORDER BY n DESC, token LIMIT 2"
    first = run("query", str(out), sql, "--format", "csv")[0]
    rows = list(csv.DictReader(io.StringIO(first)))
    assert len(rows) == 2 and int(rows[0]["n"]) >= int(rows[1]["n"])
    assert [json.loads(line) for line in run("query", str(out), sql, "--format", "json")[0].splitlines()] == [
        {"token": row["token"], "n": int(row["n"])} for row in rows
    ]
    assert run("query", str(out), sql)[0].splitlines()[0].split() == ["token", "n"]
    run("query", str(out), sql, "--format", "csv", "--output", str(tmp_path / "answer.csv"))
    assert (tmp_path / "answer.csv").read_text() == first
    table, notes = run("query", str(out), "SELECT * FROM range(5000)")
    assert len(table.splitlines()) == 1001 and "these are the first 1000 rows; --format csv gives all" in notes
    assert len(run("query", str(out), "SELECT * FROM range(5000)", "--format", "csv")[0].splitlines()) == 5001


def test_a_report_is_written(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("report", str(out), "--output", str(tmp_path / "r.html"))[0] == f"{tmp_path / 'r.html'}\n"
    assert "<!DOCTYPE html>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run("report", str(out))[0] == "report.html\n"
    with pytest.raises(InputError, match=r"^report\.html is there already"):
        run("report", str(out))
    with pytest.raises(InputError, match="is not a folder; make it first"):
        run("report", str(out), "--output", str(tmp_path / "no" / "r.html"))


def test_notes_go_to_standard_error(tmp_path: Path) -> None:
    folder = write(tmp_path, random_rows(5), complete=False)
    table, notes = run("words", str(folder), "--format", "csv")
    assert table.startswith("target,end,rank,word,") and "is not complete" not in table
    assert notes.startswith("whence: note: ") and "is not complete" in notes


@pytest.mark.parametrize("format", ["table", "csv", "json"])
def test_a_terminal_gets_no_control_characters_of_tokens(out: Path, format: str) -> None:
    code = "import sys, typer; from whence.cli.learned import register; app = typer.Typer(); register(app); app(sys.argv[1:])"
    parent, child = pty.openpty()
    command = [sys.executable, "-c", code, "words", str(out), "--class", "1", "--count", "1", "--format", format]
    with subprocess.Popen(command, stdout=child, stderr=subprocess.PIPE, env={**os.environ, "TERM": "dumb"}) as process:
        os.close(child)
        shown = b""
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        assert process.wait() == 0
    os.close(parent)
    text = shown.decode()
    assert "red" in text and "\x1b[31m" not in text and "\x9b" not in text and "\u202e" not in text


@pytest.mark.parametrize("show", ["confusion", "words", "shortcuts", "label-noise", "all"])
def test_every_table_of_errors_tells_once_what_is_left_out(tmp_path: Path, show: str) -> None:
    folder = write(tmp_path, [Row(0, ["a"], [1.0], label="great"), Row(1, ["a"], [1.0], label="0")], labels=True)
    assert run("errors", str(folder), "--show", show)[1].count("1 texts are left out because their label is no class") == 1


@pytest.mark.parametrize(
    ("show", "told"), [("words", "no word differs"), ("predictions", "differ in 0"), ("texts", "no text differs")]
)
def test_every_table_of_a_comparison_has_its_notes(tmp_path: Path, show: str, told: str) -> None:
    folder = write(tmp_path, random_rows(60), complete=False)
    notes = run("compare", str(folder), str(folder), "--show", show)[1]
    assert told in notes and notes.count("is not complete") == 1
    assert told in run("compare", str(folder), str(folder))[1]
