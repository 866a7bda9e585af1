"""`whence inspect`: what it prints and writes, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

from tests.cli import test_cli
from tests.cli.test_cli import run

MODULES = """
import torch, whence
from torch import nn

class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(5, 4, batch_first=True), nn.Linear(4, 3)
    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])

class Reader(Classifier):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 5)
    def forward(self, ids):
        return super().forward(self.embedding(ids))

class Two(Classifier):
    def forward(self, x, more):
        return super().forward(x) + more

class Odd(Classifier):
    def forward(self, x):
        return super().forward(torch.sinc(x))

double = lambda: Classifier().double()
pipeline = lambda: whence.load("sst-bigru")
series = lambda: whence.load("river-lstm")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MODULES, encoding="utf-8")
    return tmp_path


def test_its_help_needs_no_torch() -> None:
    test_cli.test_help_needs_no_torch(["inspect"])


def test_a_bundled_model_on_the_terminal() -> None:
    done = run("inspect", "--model", "sst-bilstm")
    assert done.returncode == 0, done.stderr
    assert "Relevance can pass from the output to the inputs" in re.sub(r"\s+", " ", done.stdout)
    assert re.search(r"● +lstm +recurrent layer nn.LSTM", done.stdout)
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("factory", "given", "inputs"),
    [
        ("Classifier", ("--shape", "2,7,5"), "inputs (2, 7, 5)"),
        ("double", ("--shape", "2,7,5"), "inputs (2, 7, 5)"),
        ("Reader", ("--ids", "3,4"), "inputs, token ids (3, 4)"),
        ("pipeline", ("--text", "a fine film"), "inputs, token ids (1, 3)"),
        ("pipeline", (), "inputs, token ids (1, 8)"),
        ("series", ("--shape", "1,30,3"), "inputs (1, 30, 3)"),
    ],
)
def test_a_factory(folder: Path, factory: str, given: tuple[str, ...], inputs: str) -> None:
    done = run("inspect", "--model", f"mine:{factory}", *given, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["is_explainable"] is True
    assert found["inputs"] == inputs
    assert found["parts"][-1]["rows"][0]["operation"] == "linear"


def test_a_refused_model_is_shown(folder: Path) -> None:
    done = run("inspect", "--model", "mine:Odd", "--shape", "2,7,5", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "✕  sinc" in done.stdout
    assert "@whence.handles(torch.sinc)" in done.stdout


@pytest.mark.parametrize(("format", "start"), [("html", "<!DOCTYPE html>"), ("json", "{"), ("terminal", "sst-bigru · ")])
def test_output_files_appear_whole(tmp_path: Path, format: str, start: str) -> None:
    done = run("inspect", "--model", "sst-bigru", "--format", format, "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (tmp_path / "out").read_text(encoding="utf-8").startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "Missing option '--model'; see whence inspect --help"),
        (("--model", "sst-gpt"), "there is no model 'sst-gpt'"),
        (("--model", "sst-bilstm", "--shape", "2,3"), "'sst-bilstm' reads texts; give --text instead of --shape"),
        (("--model", "sst-bilstm", "--text", ""), "is empty"),
        (("--model", "mine:Classifier"), "'mine:Classifier' is a Classifier, not a whence.Pipeline; give the shape"),
        (("--model", "mine:Classifier", "--shape", "2,7,5", "--ids", "2,7"), "give the shape of its input, by --shape"),
        (("--model", "mine:Classifier", "--shape", "2,x"), "--shape is '2,x'; give sizes of at least 1"),
        (("--model", "mine:Classifier", "--shape", "2,0,5"), "--shape is '2,0,5'; give sizes of at least 1"),
        (("--model", "mine:Classifier", "--shape", "2,7,4"), "the model cannot run on inputs of shape"),
        (("--model", "mine:Classifier", "--ids", "2,7"), "--ids is for a model with an nn.Embedding"),
        (("--model", "mine:Two", "--shape", "2,7,5"), "cannot be called with these inputs alone: .*'more'"),
        (("--model", "mine:nn"), "'mine:nn' failed: TypeError"),
        (("--model", "mine:dict"), "'mine:dict' cannot be used: mine has no 'dict'"),
        (("--model", "no.such:thing"), "'no.such:thing' cannot be imported"),
        (("--model", "collections:OrderedDict"), "returned a OrderedDict; it must return a torch.nn.Module"),
        (("--model", "sst-bilstm", "--output", "no/such/folder/x"), "is not a folder; make it first"),
    ],
)
def test_a_wrong_call_gets_a_line_and_exit_code_2(folder: Path, args: tuple[str, ...], message: str) -> None:
    done = run("inspect", *args, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert re.search(message, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
