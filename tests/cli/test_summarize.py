"""`whence summarize`: the formats, standard input, and what is refused."""

import json
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import pytest

from whence.cli.main import main

DOCUMENT = "We took the bus. It was a day in May. The film is a moving, brilliant joy. Two hours went by."
JOY = "The film is a moving, brilliant joy."


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    code: object
    stdout: str
    stderr: str


Call = Callable[..., Done]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    """Runs the command in this process, which is faster than starting another one."""

    def called(*arguments: str, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "argv", ["whence", "summarize", *arguments])
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            main()
        printed = capfd.readouterr()
        return Done(end.value.code or 0, printed.out, printed.err)

    return called


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "document.txt"
    path.write_text(DOCUMENT, encoding="utf-8")
    return path


def test_it_shows_what_carries_the_decision(call: Call, file: Path) -> None:
    done = call(str(file), "--budget", "0.4")
    assert done.code == 0, done.stderr
    assert f"… {JOY} …" in done.stdout and "the summary alone keeps the decision: very positive" in done.stdout


def test_standard_input_with_crlf_and_a_byte_order_mark(call: Call) -> None:
    given = b"\xef\xbb\xbf" + DOCUMENT.replace(". ", ".\r\n").encode()
    done = call("-", "--budget", "0.4", "--format", "text", stdin=given)
    assert (done.code, done.stdout) == (0, f"{JOY}\n"), done.stderr


@pytest.mark.parametrize(
    ("format", "start"), [("html", "<!DOCTYPE html>"), ("json", "{"), ("terminal", "LRP"), ("text", "The film")]
)
def test_it_writes_every_format(call: Call, format: str, start: str, file: Path, tmp_path: Path) -> None:
    done = call(str(file), "--budget", "0.4", "--format", format, "--output", str(tmp_path / "out"))
    assert done.code == 0, done.stderr
    assert (tmp_path / "out").read_text(encoding="utf-8").startswith(start)


def test_the_options_reach_the_library(call: Call, file: Path) -> None:
    options = ["--model", "sst-bigru", "--method", "gi", "--target", "negative", "--unit", "span", "--by", "document"]
    found = json.loads(call(str(file), *options, "--format", "json").stdout)
    assert (found["model"], found["method"]["name"], found["target"]) == ("sst-bigru", "gi", "negative")
    assert (found["unit"], found["by"], "versus" in found) == ("span", "document", False)
    found = json.loads(call(str(file), "--versus", "4", "--target", "0", "--format", "json").stdout)
    assert (found["target"], found["versus"]) == ("very negative", "very positive")
    found = json.loads(call(str(file), "--versus", "rest", "--format", "json").stdout)
    assert (found["target"], found["versus"]) == ("very positive", "rest")


def test_it_notes_that_no_sentence_fits(call: Call, file: Path) -> None:
    done = call(str(file), "--budget", "0.1", "--format", "json")
    assert done.code == 0 and json.loads(done.stdout)["unit"] == "span"
    assert "whence: note: no sentence for very positive fits into 10 % of the words" in done.stderr


def test_it_notes_that_no_sentence_speaks_for_the_target(call: Call) -> None:
    given = b"It was a joy. It was a brilliant joy."
    done = call("-", "--target", "very negative", "--budget", "0.6", stdin=given)
    assert done.code == 0 and "0 % of the relevance for very negative" in done.stdout
    assert done.stderr.startswith("whence: note: no sentence speaks for very negative on its own; --by document explains")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", [], "is empty: there is no word to summarize"),
        (b" \r\n\xc2\xa0", [], "is empty"),
        (b"a film\0", [], "is a binary file; give a text file"),
        (b"a \xff film", [], "is not UTF-8 text (byte 2); give a text file"),
        (None, [], "cannot be read: No such file or directory"),
        (b"word " * 10**6, [], "has more than 4194304 bytes, too much for one document; give a part of it"),
        (b"joy", ["--budget", "0"], "budget is 0.0; give the share"),
        (b"joy", ["--budget", "2"], "budget is 2.0; give the share"),
        (b"joy", ["--budget", "nan"], "budget is nan; give the share"),
        (b"joy", ["--unit", "word"], "'word' is not one of 'sentence', 'span'"),
        (b"joy", ["--method", "best"], "--method best: there is no such method"),
        (b"joy", ["--target", "all"], 'target is "all"; a summary is made for one class'),
    ],
)
def test_bad_input_is_told_in_one_line(
    call: Call, content: bytes | None, options: list[str], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "document.txt"
    if content is not None:
        path.write_bytes(content)
    done = call(str(path), *options)
    assert done.code == 2 and not done.stdout
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_one_word_is_its_own_summary(call: Call) -> None:
    assert call("-", "--format", "text", stdin=b"joy").stdout == "joy\n"
