"""`whence phrases`: a tree, a table, and the formats."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import run

TEXT = "not a waste of time"
CALL = ("phrases", TEXT, "--target", "negative", "--versus", "positive")


def test_it_draws_a_tree() -> None:
    done = run(*CALL)
    assert done.returncode == 0, done.stderr
    assert "contextual decomposition for negative versus positive" in done.stdout
    assert "not a waste of time" in done.stdout and "joined" in done.stdout


def test_given_pieces_make_a_table() -> None:
    done = run(*CALL, "--span", "not a waste", "--span", "waste", "--format", "json")
    found = json.loads(done.stdout)["phrases"]
    assert [each["text"] for each in found] == ["not a waste", "waste"]
    assert found[0]["interaction"] < -1
    done = run(*CALL, "--span", "not a waste", "--method", "lrp")
    assert done.returncode == 0 and "not a waste" in done.stdout


@pytest.mark.parametrize(
    ("format", "start"), [("html", "<!DOCTYPE html>"), ("svg", "<svg "), ("json", "{"), ("terminal", "co")]
)
def test_it_writes_every_format(format: str, start: str, tmp_path: Path) -> None:
    done = run(*CALL, "--format", format, "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text(encoding="utf-8").startswith(start)


def test_a_wrong_call_is_told_in_one_line() -> None:
    for more, message in [
        (["--span", "nothing"], "'nothing' does not occur in the text"),
        (["--method", "lrp"], "LRP adds up words"),
        (["--span", "waste", "--format", "svg"], "an SVG image shows a tree of phrases"),
    ]:
        done = run(*CALL, *more)
        assert done.returncode == 2
        assert message in done.stderr and done.stderr.count("\n") == 1
