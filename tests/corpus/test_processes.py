"""Several processes give what one gives, whichever of them is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.corpus.killing import command, run_with_kills, workers
from tests.corpus.outputs import accounted, everything, parts
from tests.corpus.test_job import write_corpus
from whence.corpus import local
from whence.corpus._explain import explain
from whence.corpus.parts import Part
from whence.models.pipeline import Pipeline

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
OPTIONS = ("--id", "id", "--workers", "2", "--part-rows", "40")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "in.jsonl", 1500)


@pytest.fixture(scope="module")
def whole(corpus: Path, pipeline: Pipeline) -> Path:
    """The result of a job that nobody disturbed, in one process."""
    explain(pipeline, corpus, corpus.parent / "whole", id="id", workers=1, part_rows=40)
    return corpus.parent / "whole"


def test_a_job_killed_at_random_moments_gives_the_same(corpus: Path, whole: Path, tmp_path: Path) -> None:
    count = run_with_kills(command(corpus, tmp_path / "out", *OPTIONS), kills=3, longest=6.0, seed=1)
    assert count["done"] == 1
    assert everything(tmp_path / "out") == everything(whole)
    accounted(tmp_path / "out", 1500)


def begun(call: list[str], out: Path) -> subprocess.Popen[bytes]:
    """A job that has written its first part and has others to do."""
    process = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not parts(out) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None
    return process


def test_a_killed_job_leaves_neither_a_lock_nor_processes(corpus: Path, whole: Path, tmp_path: Path) -> None:
    call = command(corpus, tmp_path / "out", *OPTIONS)
    process = begun(call, tmp_path / "out")
    own = workers(process.pid)
    assert len(own) == 2
    process.send_signal(signal.SIGSTOP)  # it holds the folder for as long as it lives
    second = subprocess.run(call, capture_output=True, text=True)
    assert second.returncode == 2
    assert "another job is writing to" in second.stderr
    process.kill()
    process.communicate()
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
    assert not any(Path(f"/proc/{number}").exists() for number in own)
    assert everything(tmp_path / "out") == everything(whole)


def test_an_interrupted_job_says_so_and_goes_on(corpus: Path, whole: Path, tmp_path: Path) -> None:
    call = command(corpus, tmp_path / "out", *OPTIONS)
    process = begun(call, tmp_path / "out")
    own = workers(process.pid)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    note = b"whence: note: what was done is kept; the same command goes on\n"
    assert (process.returncode, errors) == (130, note + b"whence: stopped\n")
    assert not any(Path(f"/proc/{number}").exists() for number in own)
    subprocess.run(call, check=True, stdout=subprocess.DEVNULL)
    assert everything(tmp_path / "out") == everything(whole)


@pytest.mark.parametrize("own", [False, True])
def test_a_script_of_the_users_is_not_run_again(own: bool, corpus: Path, tmp_path: Path) -> None:
    model = "whence.load('sst-bilstm')"
    (tmp_path / "script.py").write_text(
        "import dataclasses, torch, whence\nprint('begun')\n"
        "class Own(torch.nn.Module):\n"
        "    def __init__(self, inner):\n"
        "        super().__init__()\n"
        "        self.inner = inner\n"
        "    def forward(self, ids, lengths):\n"
        "        return self.inner(ids, lengths)\n"
        f"model = {model}\n"
        + ("model = dataclasses.replace(model, module=Own(model.module).eval())\n" if own else "")
        + f"found = whence.corpus.explain(model, {str(corpus)!r}, 'out', workers=2)\nprint(found['rows'])\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, cwd=tmp_path, check=False)
    if own:  # its class is defined in the script, which every process has to run
        assert "does it call this under `if __name__ == " in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, "begun\n1500\n"), done.stderr


def test_workers_that_always_die_end_the_job(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(
        "import os, torch, whence\n"
        "from whence.models.pipeline import Pipeline\n"
        "class Deadly(torch.nn.Module):\n"
        "    def __init__(self, own):\n"
        "        super().__init__()\n"
        "        self.own, self.process = own, os.getpid()\n"
        "    def forward(self, ids, lengths):\n"
        "        if os.getpid() != self.process: os.kill(os.getpid(), 9)\n"
        "        return self.own(ids, lengths)\n"
        "def model():\n"
        "    known = whence.load('sst-bilstm')\n"
        "    return Pipeline(Deadly(known.module).eval(), known.tokenizer, known.vocabulary, known.classes, 'deadly')\n"
    )
    call = command(corpus, tmp_path / "out", *OPTIONS, "--model", "deadly:model")
    found = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""})
    assert found.returncode == 1
    assert "5 processes ended one after the other without finishing a part" in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_processes_start_at_once(corpus: Path, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process listens only when it has started, which takes seconds: none may wait for another one."""
    events = list[str]()

    class Watched(local._Worker):
        def __init__(self, work: bytes) -> None:
            events.append("start")
            super().__init__(work)

        def give(self, part: Part) -> None:
            events.append("give")
            super().give(part)

    monkeypatch.setattr(local, "_Worker", Watched)
    explain(pipeline, corpus, tmp_path / "out", id="id", workers=3, part_rows=500)
    assert events == ["start"] * 3 + ["give"] * 3
