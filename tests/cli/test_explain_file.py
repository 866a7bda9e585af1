"""`whence explain --file`: tables in, tables out, a row for every row."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.test_cli import WHENCE, run
from whence.cli.main import _told  # pyright: ignore[reportPrivateUsage]

ROWS = 'id,review,mood\r\n1,"a warm, funny film",positive\r\n2,,neutral\r\n3,"dull\nand slow",negative\r\n'


def test_a_table_is_read_by_its_columns(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"\xef\xbb\xbf" + ROWS.encode())
    done = run("explain", "--file", "in.csv", "--text", "review", "--label", "mood", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, empty, last = (json.loads(line) for line in done.stdout.splitlines())
    assert first["text"] == "a warm, funny film" and first["row"] == 0 and first["label"] == "positive"
    assert [first["text"][start:end] for start, end in first["spans"]] == first["tokens"]
    assert len(first["unknown"]) == len(first["tokens"])
    assert empty == {"row": 1, "text": "", "label": "neutral", "error": "the text is empty"}
    assert last["text"] == "dull\nand slow" and last["row"] == 2
    assert done.stderr == "whence: note: 1 of 3 texts could not be explained: 1 × the text is empty\n"


def test_a_method_may_have_settings_in_brackets() -> None:
    done = run("explain", "fine", "--method", "lrp(delta=1)", "--method", "lrp", "--epsilon", "0.5", "--format", "json")
    first, second = (json.loads(line)["method"] for line in done.stdout.splitlines())
    assert (first["delta"], first["epsilon"], second["delta"], second["epsilon"]) == (1, 0.5, 0, 0.5)
    for given, says in {"lime": "there is no such method; there are lrp, ", "lrp(x=1)": "lrp has the settings epsilon"}.items():
        done = run("explain", "fine", "--method", given)
        assert done.returncode == 2 and f"whence: --method {given}: {says}" in done.stderr


def test_failures_are_counted_by_their_reasons(tmp_path: Path) -> None:
    lines = [json.dumps({"text": text}) for text in ("good", "", 3, " ", None, "", 4, 5, 6, 7)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    done = run("explain", "--file", "in.jsonl", "--format", "json", cwd=tmp_path)
    assert done.stderr.startswith(
        "whence: note: 9 of 10 texts could not be explained: 3 × the text is empty; 1 × 3 is not a text"
    )
    assert done.stderr.endswith("; …\n")
    (tmp_path / "in.jsonl").write_text("\n".join(lines[1:4]))
    done = run("explain", "--file", "in.jsonl", cwd=tmp_path)
    assert "whence: no text could be explained: 2 × the text is empty; 1 × 3 is not a text but a int" in done.stderr


def test_how_labels_were_read_is_noted(tmp_path: Path) -> None:
    cases = {
        ("0", "1"): "whence: note: labels are numbers: 0 is 'very negative', 1 is 'negative'\n",
        ("3.0", "3.0"): "whence: note: labels are numbers: 3.0 is 'positive'\n",
        ("good", ""): "whence: note: no label is a class of the model: labels are 'good'; classes are very negative, ",
        ("positive", "0"): "",
    }
    for labels, note in cases.items():
        (tmp_path / "in.csv").write_text("text,label\n" + "".join(f"fine,{label}\n" for label in labels))
        done = run("explain", "--file", "in.csv", "--label", "label", "--output", "out.csv", cwd=tmp_path)
        assert done.returncode == 0 and done.stderr.startswith(note) and done.stderr.count("\n") == bool(note)


@pytest.mark.parametrize("name", ["in.tsv", "in.jsonl", "in.parquet", "in.txt.gz"])
def test_every_table_gives_the_same(name: str, tmp_path: Path) -> None:
    texts = ["a warm film", "", "dull"]
    path = tmp_path / name
    if name.endswith(".tsv"):
        path.write_text("text\tn\n" + "".join(f"{text}\t1\n" for text in texts))
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    elif name.endswith(".parquet"):
        import pyarrow as pa

        pq.write_table(pa.table({"text": texts}), path)
    else:
        path.write_bytes(gzip.compress("\n".join(texts).encode()))
    done = run("explain", "--file", name, "--output", "out.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found = {int(row["row"]): row for row in rows}
    assert sorted(found) == ([0, 2] if name.startswith("in.txt") else [0, 1, 2])  # an empty line of a text is no text
    assert found[0]["text"] == "a warm film" and json.loads(found[2]["tokens"]) == ["dull"]


def test_what_is_wrong_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(ROWS)
    (tmp_path / "empty.csv").write_text("text\n")
    (tmp_path / "bad.csv").write_text("text\n\n \n")
    cases = {
        ("--file", "in.csv"): "has no column 'text'; its columns are 'id', 'review', 'mood'; choose one with --text",
        ("--file", "in.csv", "--text", "id", "--output", "x.docx"): "x.docx ends in '.docx'; a format is known by its suffix",
        ("--file", "empty.csv"): "empty.csv holds no text",
        ("--file", "in.csv", "--text", "review", "--output", "in.csv"): "in.csv is the file that is read; write to another",
        ("--file", "bad.csv"): "the text is empty",
        ("--file", "gone.csv"): "gone.csv cannot be read: No such file or directory",
        ("good", "--text", "review"): "--text and --label name columns of a table; give it by --file",
    }
    for arguments, message in cases.items():
        done = run("explain", *arguments, cwd=tmp_path)
        assert done.returncode == 2, (arguments, done.stderr)
        assert message in done.stderr and done.stderr.count("\n") <= 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "empty.csv", "in.csv"]


@pytest.mark.skipif(sys.platform != "linux", reason="signals are sent as on Linux")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_killed_command_leaves_no_half_of_a_file(sent: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a long and winding film that never ends\n" * 60_000)
    (tmp_path / "out.jsonl").write_text("old")
    command = [*WHENCE, "explain", "--file", "in.txt", "--output", "out.jsonl"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not [path for path in tmp_path.glob(".out.jsonl.*") if path.stat().st_size] and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(sent)  # Ctrl-C, or the end of a job: what is unfinished goes
    assert process.wait(30) == 130
    assert (tmp_path / "out.jsonl").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.jsonl"]


def test_the_first_answers_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a long and winding film that never ends\n" * 200_000)
    command = [*WHENCE, "explain", "--file", "in.txt", "--format", "json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["row"] == 0
        process.stdout.close()  # as head -1 does
        assert process.stderr.read() == b""
        process.wait(60)


def test_a_missing_file_is_told_in_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert _told(FileNotFoundError(2, "No such file or directory", "gone.csv"), ["explain"]) == 2
    assert capsys.readouterr().err == "whence: gone.csv does not exist; give the name of a file or folder that does\n"
    done = run("import", "keras", "gone.keras", "--output", "none")
    assert done.stderr == "whence: gone.keras: it cannot be read: No such file or directory\n"
