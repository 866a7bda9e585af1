"""The Ray engine: what the local one gives, whatever is killed, and a sentence where the cluster cannot be used."""

import importlib
import json
import logging
import os
import pickle
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from whence.corpus import ray_engine as engine
from whence.corpus._explain import explain
from whence.corpus.job import Work
from whence.corpus.layout import MANIFEST, rejects_schema
from whence.corpus.parts import Explained, Part, Written, parts_of
from whence.corpus.storage import Local
from whence.data.arrow import arrow
from whence.data.rows import Row
from whence.errors import DataError, InputError, WhenceError

# Ray reads these when it is imported. Without a token it writes one into the user's home.
os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
ray: Any = importlib.import_module("ray")

WORDS = "a dull and overlong film that never quite finds its way , despite a good cast ; not without charm".split()


@pytest.fixture(scope="module")
def address() -> Generator[str]:
    """A cluster of two CPUs on this machine, to which this process is connected."""
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def write_corpus(path: Path, rows: int) -> Path:
    """Rows of many lengths, some of which cannot be explained."""
    bad = {7: b"", 20: b"   ", 33: b"not \xff UTF-8", 46: b"film " * 60, 59: b'"a, b",extra,fields'}
    texts = [bad.get(n % 100, " ".join(WORDS[n % 7 : n % 7 + n % 13 + 1]).replace(",", "").encode()) for n in range(rows)]
    lines = [b"%d,%s,%d" % (n, text, n % 5) for n, text in enumerate(texts)]
    path.write_bytes(b"\n".join([b"id,text,label", *lines]) + b"\n")
    return path


def folder_content(folder: Path) -> dict[str, bytes]:
    """The bytes of all files that are the result."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def command(source: Path, out: Path, *options: str, folder: Path, home: Path | None = None) -> "subprocess.Popen[str]":
    """`whence corpus explain` with Ray, started; with a home it has nothing of this process's settings of Ray."""
    paths = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    code = "from whence.cli.main import main; main()"
    environment = dict(os.environ)
    if home is not None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"HOME": str(home)}
    return subprocess.Popen(
        [sys.executable, "-c", code, "corpus", "explain", str(source), str(out), "--engine", "ray", *options],
        cwd=folder,
        env=environment | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("address")
def test_all_files_are_those_of_the_local_engine_byte_for_byte(tmp_path: Path) -> None:
    source = write_corpus(tmp_path / "in.csv", 300)
    settings: Any = {"text": "text", "id": "id", "label": "label", "part_rows": 40, "longest": 50}
    found = explain("sst-bilstm", source, tmp_path / "ray", engine="ray", **settings)
    expected = explain("sst-bilstm", source, tmp_path / "local", workers=1, **settings)
    assert found == expected and found["rows"] == 300 and found["rejected"] == 15 and len(found["parts"]) == 8
    assert folder_content(tmp_path / "ray") == folder_content(tmp_path / "local")


@dataclass(frozen=True)
class Odd:
    """A task that gives no tables; the worker dies over a part, or the part fails."""

    deadly: int = -1  # the part over which workers die
    once: str = ""  # a file that is there when one has died; without it all of them die
    failing: int = -1
    device: str | None = None

    def start(self) -> None:
        pass

    def explain(self, part: Part) -> Explained:
        if part.number == self.failing:
            raise DataError("the disk is full")
        if part.number == self.deadly and not (self.once and Path(self.once).exists()):
            if self.once:
                Path(self.once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        assert all(row.content == f"\udcff {part.first + n}" for n, row in enumerate(part.rows))
        return Explained(rejects_schema().empty_table(), [])


def parts(count: int) -> Sequence[Part]:
    """Parts of two rows, whose texts are not valid Unicode."""
    return list(parts_of((Row(f"\udcff {n}") for n in range(2 * count)), size=2))


def odd_work(folder: Path, task: Odd) -> Work:
    folder.mkdir()
    return Work(task, Local(str(folder)), "job", {})


@pytest.mark.usefixtures("address")
def test_a_part_whose_worker_is_killed_is_done_again_and_none_comes_twice(tmp_path: Path) -> None:
    work = odd_work(tmp_path / "out", Odd(deadly=3, once=str(tmp_path / "died")))
    asked: list[int] = []

    def counted() -> Generator[Part]:
        for part in parts(20):
            asked.append(part.number)
            yield part

    came: list[Written] = []
    for written in engine.ray_engine(2, None)(work, counted()):
        came.append(written)
        assert len(asked) <= len(came) + 2 * engine.AHEAD  # the input is read only as fast as it is worked on
    assert sorted(each.number for each in came) == list(range(20))
    assert (tmp_path / "died").exists()
    assert [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")] == []


@pytest.mark.usefixtures("address")
def test_a_part_that_kills_every_worker_stops_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "DEATHS", 2)
    work = odd_work(tmp_path / "out", Odd(deadly=1))
    with pytest.raises(WhenceError, match="2 workers ended one after the other while they explained rows 2 to 3; is there eno"):
        list(engine.ray_engine(1, None)(work, parts(4)))


@pytest.mark.usefixtures("address")
def test_an_error_of_a_part_is_raised_as_it_is(tmp_path: Path) -> None:
    work = odd_work(tmp_path / "out", Odd(failing=2))
    with pytest.raises(DataError, match=r"^the disk is full$"):
        list(engine.ray_engine(1, None)(work, parts(4)))


@pytest.mark.usefixtures("address")
def test_a_cluster_without_room_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = odd_work(tmp_path / "out", Odd())
    on_gpu = replace(work, task=Odd(device="cuda"))
    with pytest.raises(InputError, match="the Ray cluster has no GPU; give --device cpu, or start a node that has one before"):
        list(engine.ray_engine(None, None)(on_gpu, parts(1)))
    monkeypatch.setattr(engine, "READY", 2.0)
    other: Any = ray.remote(num_cpus=2)(Odd).remote()
    ray.get(other.start.remote())
    try:
        with pytest.raises(
            WhenceError, match="no worker was ready within 2 s: 0 of the 2 CPUs of the Ray cluster are free; wait"
        ):
            list(engine.ray_engine(None, None)(work, parts(1)))
    finally:
        ray.kill(other)


def test_a_chosen_gpu_is_refused(tmp_path: Path) -> None:
    work = odd_work(tmp_path / "out", Odd(device="cuda:1"))
    with pytest.raises(InputError, match=r"device 'cuda:1' cannot be chosen with Ray, .*; give cuda$"):
        list(engine.ray_engine(None, None)(work, parts(1)))


def test_addresses_where_no_cluster_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = command(write_corpus(tmp_path / "in.csv", 3), tmp_path / "out", "--address", "127.0.0.1:1", folder=tmp_path)
    said = started.communicate(timeout=60)
    assert started.returncode == 2 and said[0] == ""
    assert said[1] == "whence: no Ray cluster answers at '127.0.0.1:1': [Errno 111] Connection refused; is the address right?\n"
    with pytest.raises(
        InputError, match="address 'ray://head:10001' is of another kind; give that of the cluster's head as ho"
    ):
        engine.ray_engine(None, "ray://head:10001")
    monkeypatch.setattr(engine, "CONNECTED", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as other:  # a service that is not Ray
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"no Ray cluster answers at '127.0.0.1:{port}' within 3 s; is the address right?"):
            engine._require_reached(f"127.0.0.1:{port}", {"address": f"127.0.0.1:{port}"})


def test_a_cluster_that_asks_for_a_token_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "Failed to get cluster ID: Unauthenticated: InvalidAuthToken: Authentication token is missing\nConnectionError"
    answer = subprocess.CompletedProcess[str]([], 1, "", said)
    monkeypatch.setattr(engine.subprocess, "run", lambda *_, **__: answer)
    with pytest.raises(
        InputError, match="the Ray cluster at 'auto' asks for a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN"
    ):
        engine._require_reached("auto", {"address": "auto"})


def test_without_ray_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(DataError, match=r"engine ray needs Ray; run: pip install 'whence\[ray\]'"):
        engine.ray_engine(None, None)


def test_a_worker_that_cannot_do_the_work_says_why(tmp_path: Path) -> None:
    work = odd_work(tmp_path / "out", Odd())
    worker, packed, token = engine.CorpusWorker(), pickle.dumps(work), (".token", b"1")
    assert "they have whence" in str(worker.begin(packed, "0.0", token))
    assert "they cannot load the model: ModuleNotFoundError" in str(
        worker.begin(b"cnowhere\nmodel\n.", engine.__version__, token)
    )
    unseen = (
        f"they do not see the files of {tmp_path / 'out'}; give a folder that all machines share, or an address such as s3://…"
    )
    assert worker.begin(packed, engine.__version__, token) == unseen
    work.storage.write(*token)
    assert worker.begin(packed, engine.__version__, token) is None


MODEL = """
import dataclasses
import whence
from whence.text.tokenizer import TreebankTokenizer

class Lowercase(TreebankTokenizer):
    def tokens(self, text):
        return super().tokens(text.lower())

def factory():
    return dataclasses.replace(whence.load("sst-bilstm"), tokenizer=Lowercase())
"""


def test_a_killed_driver_leaves_no_cluster_and_the_next_run_goes_on(tmp_path: Path, address: str) -> None:
    (tmp_path / "mine.py").write_text(MODEL)  # the workers need it too, for its tokenizer
    source, out = write_corpus(tmp_path / "in.csv", 3000), tmp_path / "out"
    options = ["--text", "text", "--part-rows", "100", "--model", "mine:factory"]
    driver = command(source, out, *options, folder=tmp_path, home=tmp_path / "home")
    while not list(out.glob("part-*")) and driver.poll() is None:
        time.sleep(0.02)
    cluster = children(driver.pid)
    driver.kill()
    assert {"raylet", "gcs_server"} <= set(cluster.values()), driver.communicate()
    driver.communicate()
    until = time.monotonic() + 10
    while time.monotonic() < until and any(is_running(pid) for pid in cluster):
        time.sleep(0.05)
    assert [name for pid, name in cluster.items() if is_running(pid)] == []
    assert not (tmp_path / "home" / ".ray").exists()
    done = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert 0 < len(done) < 30
    rest = command(source, out, *options, "--address", address, folder=tmp_path)
    printed, errors = rest.communicate(timeout=100)
    assert all(line.startswith("whence: note: in doubt: ") for line in errors.splitlines()), errors
    assert rest.returncode == 0 and printed.startswith("2,880 of 3,000 rows explained in "), errors
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert json.loads((out / MANIFEST).read_text())["complete"]
    files = [*out.glob("part-*"), out / "rejects.parquet"]
    rows = [row for file in files for row in arrow().parquet.read_table(file, columns=["row"])["row"].to_pylist()]
    assert sorted(rows) == list(range(3000))


def children(pid: int) -> dict[int, str]:
    """The processes that a process has started, and their names."""
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and (fields := stat_fields(int(folder.name))) and int(fields[2]) == pid:
            found[int(folder.name)] = fields[0]
    return found


def is_running(pid: int) -> bool:
    fields = stat_fields(pid)
    return bool(fields) and fields[1] not in "ZX"


def stat_fields(pid: int) -> list[str]:
    """The name of a process, its state, its parent and more; empty if there is no such process."""
    try:
        name, rest = Path(f"/proc/{pid}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
    except OSError:
        return []
    return [name, *rest.split()]
