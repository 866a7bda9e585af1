"""`whence corpus explain` as a person calls it."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.corpus.outputs import accounted, explained, manifest, rejected

COMMAND = [sys.executable, "-m", "whence", "corpus", "explain"]


def whence(*arguments: object, given: str = "", folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    call = [*COMMAND, *map(str, arguments), "--workers", "1"]
    return subprocess.run(call, input=given, capture_output=True, text=True, cwd=folder, check=False)


def test_a_table_is_explained_and_the_command_says_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("stars,review\n5,a truly wonderful film\n1,\n1,dull\n")
    options = ("--text", "review", "--label", "stars", "--target", "positive", "--versus", "rest", "--method", "lrp(delta=1)")
    done = whence("in.csv", "out", *options, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "2 of 3 rows explained in out",
        "1 rejected, with reasons in rejects.parquet:",
        "  1 × the text is empty",
    ]
    accounted(tmp_path / "out", 3)
    found = manifest(tmp_path / "out")
    assert (found["target"], found["versus"], found["method"]["delta"]) == ("positive", "rest", 1)
    assert [row["label"] for row in explained(tmp_path / "out")] == ["5", "1"]


def test_standard_input_has_a_text_on_every_line(tmp_path: Path) -> None:
    done = whence("-", "out", given="good\n\nbad\n", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["text"] for row in explained(tmp_path / "out")] == ["good", "bad"]
    assert rejected(tmp_path / "out") == {1: "the text is empty"}
    done = whence("-", "lines", "--input-format", "jsonl", given='{"text": "good"}\n', folder=tmp_path)
    assert done.stdout.startswith("1 of 1 rows explained")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["none.csv", "out"],
            2,
            "whence: 'none.csv' does not exist; give a file, a folder, a pattern such as 'data/*.csv', or -",
        ),
        (["two.csv", "out"], 2, "whence: two.csv has no column 'text'; its columns are 'a', 'b'; choose one with --text"),
        (["two.csv", "out", "--text", "a", "--target", "grand"], 2, "whence: there is no class 'grand'"),
        (["two.csv", "out", "--text", "b"], 1, "whence: no row of two.csv could be explained; rejects.parquet says why"),
        (["two.csv", "out", "--text", "a", "--device", "tpu9"], 2, "whence: device 'tpu9' cannot be used"),
        (["two.csv", "out", "--workers", "0"], 2, "whence: Invalid value"),
    ],
)
def test_a_wrong_call_is_one_sentence(arguments: list[str], code: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("a,b\ngood,\nbad,\n")
    done = whence(*arguments, folder=tmp_path) if "--workers" not in arguments else subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
    )  # fmt: skip
    assert done.returncode == code
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1


def test_a_terminal_sees_how_far_it_is(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a good film\n" * 300)
    ours, theirs = pty.openpty()
    call = [*COMMAND, "in.txt", "out", "--workers", "1", "--part-rows", "100"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=theirs, cwd=tmp_path, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
    assert process.wait() == 0
    os.close(ours)
    assert b"300 rows" in shown
    assert b"100 %" in shown
