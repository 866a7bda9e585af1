"""The Ray engine beside the local one, on this machine: start-up, rate, a killed worker, a killed driver, equal output.

    python -m benchmarks.ray_engine [--rows 20000] [--workers 2]

Every run is a process of its own. Other programs on the machine disturb the figures: look at several runs.
"""

import argparse
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whence.corpus._explain import explain
from whence.corpus.parts import parts_of
from whence.corpus.sources import source_of
from whence.data.arrow import arrow
from whence.data.rows import Columns

PART_ROWS = 500
WORDS = (
    "the film is a rather dull and overlong affair that never quite finds its way despite good cast in story plot "
    "funny moving charming not without laughs director camera music script slow bright dark love war child house"
).split()


def write_sentences(path: Path, rows: int) -> Path:
    """Sentences of 3 to 35 words, 19 on average, always the same."""
    draw = random.Random(0)
    path.write_text("text\n" + "".join(f"{' '.join(draw.choices(WORDS, k=draw.randint(3, 35)))}\n" for _ in range(rows)))
    return path


def run_one(source: str, out: str, engine: str, workers: int) -> None:
    """Explain, and print when the first part was done and when the last."""
    began, seen = time.monotonic(), list[tuple[float, int]]()

    def progress(rows: int, read: int, size: int | None) -> None:
        if rows and (not seen or rows > seen[-1][1]):
            seen.append((time.monotonic() - began, rows))

    explain("sst-bilstm", source, out, engine=engine, workers=workers, part_rows=PART_ROWS, progress=progress)
    print(json.dumps({"first": seen[0], "last": seen[-1], "wall": time.monotonic() - began}))


def started(source: Path, out: Path, engine: str, workers: int) -> "subprocess.Popen[str]":
    """`run_one` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.ray_engine", "--one", str(source), str(out), engine, "--workers", str(workers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finished(name: str, process: "subprocess.Popen[str]") -> None:
    """Print the figures of a run."""
    printed, _ = process.communicate()
    assert process.returncode == 0, f"{name}: exit code {process.returncode}"
    found: dict[str, Any] = json.loads(printed)
    (start, before), (end, rows) = found["first"], found["last"]
    rate = (rows - before) / (end - start) if end > start else float("nan")
    print(f"{name:34} first part {start:5.1f} s   then {rate:6,.0f} rows/s   in all {found['wall']:6.1f} s", flush=True)


def wait_for_parts(out: Path, count: int, process: "subprocess.Popen[str]") -> None:
    """Wait until that many parts are written."""
    while len(list(out.glob("part-*"))) < count:
        assert process.poll() is None, "it has ended before"
        time.sleep(0.02)


def worker_of(driver: int) -> int:
    """An actor of the cluster that a process has started."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    fields = [line.split(None, 2) for line in listed.splitlines()[1:]]
    own = {int(pid) for pid, parent, _ in fields if int(parent) == driver}
    return next(int(pid) for pid, parent, name in fields if int(parent) in own and name.startswith("ray::CorpusWorker"))


def content(folder: Path) -> dict[str, bytes]:
    """The bytes of all files of a result."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def reading_rate(name: str, source: str, prepare: Callable[[Any], object]) -> None:
    """Print how fast one process reads, hashes and packs rows: no more can be worked on, whatever the cluster."""
    began, rows = time.process_time(), 0
    for part in parts_of(source_of(source, Columns(("text",))).rows()):
        prepare(part)
        rows += len(part.rows)
    print(f"{name:34} {rows / (time.process_time() - began):10,.0f} rows/s", flush=True)


def compare(rows: int, workers: int) -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        source = write_sentences(base / "in.csv", rows)
        for turn in range(2):
            for engine in ("local", "ray"):
                finished(
                    f"{engine}, {workers} workers, run {turn + 1}", started(source, base / f"{engine}{turn}", engine, workers)
                )
        killed = started(source, base / "worker", "ray", workers)
        wait_for_parts(base / "worker", 5, killed)
        os.kill(worker_of(killed.pid), signal.SIGKILL)
        finished("ray, a worker killed after 5 parts", killed)
        driver = started(source, base / "driver", "ray", workers)
        wait_for_parts(base / "driver", 5, driver)
        driver.kill()
        driver.communicate()
        kept = len(list((base / "driver").glob("part-*")))
        finished(f"ray, driver killed, {kept} parts kept", started(source, base / "driver", "ray", workers))
        expected = content(base / "local0")
        for name in ("ray0", "ray1", "worker", "driver", "local1"):
            assert content(base / name) == expected, f"{name} is not what the local engine gave"
        print(f"all {len(expected)} files of all six folders are equal byte for byte")
        reading_rate("one process reads CSV", str(source), pickle.dumps)
        table = arrow().table({"text": source.read_text().splitlines()[1:]})
        arrow().parquet.write_table(table, base / "in.parquet")
        reading_rate("one process reads Parquet", str(base / "in.parquet"), pickle.dumps)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--one", nargs=3, metavar=("IN", "OUT", "ENGINE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        run_one(*given.one, workers=given.workers)
    else:
        compare(given.rows, given.workers)


if __name__ == "__main__":
    main()
