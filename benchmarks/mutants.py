"""Changes the code in one small way at a time and counts how many of these mutants the tests notice.

    python benchmarks/mutants.py --count 120            # about an hour on two cores
    python benchmarks/mutants.py --only equations.py --count 1000

A mutant is a copy of the package in a temporary folder; the working tree is never changed. Each runs the quick tests of its
room, and where it survives these, the larger selection. `mutants.toml` beside this file holds mutants written by hand, which
always run, and the equivalent ones: those that change nothing that can be observed. They are counted apart.
"""

import argparse
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from mutations import Edit, edits_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "whence"
LISTS = tomllib.loads((ROOT / "benchmarks" / "mutants.toml").read_text(encoding="utf-8"))
NOT_TESTED, USAGE_ERROR = 70, 4  # the exit statuses of a child that does not get as far as its tests, and of pytest's
MEMORY = 16 * 2**30  # bytes that a mutant may ask for
LIMITS = (
    240,
    1200,
)  # seconds on a processor for the quick and for the larger selection; a mutant that takes more hangs, and is dead
WAITING = 10  # times that long by the clock, where the machine is busy


class Room(NamedTuple):
    """A part of the package: its files, those left out of it, and its tests, the ones that kill most mutants first."""

    files: Sequence[str]
    quick: Sequence[str]
    larger: tuple[str, ...]
    without: Sequence[str] = ()


PATHS, C = "tests/recurrent/test_paths.py", "tests/recurrent/test_c_arithmetic.py"
ENGINE = tuple(
    f"tests/engine/test_{name}.py" for name in ("table", "rules", "gates", "fan_in", "in_place", "samples", "students")
)
METHODS = tuple(
    f"tests/methods/test_{name}.py" for name in ("inputs_and_targets", "targets", "token_ids", "by_step", "shared_inputs")
)
RECURRENT = tuple(f"tests/recurrent/test_{name}.py" for name in ("lstm_reference", "gru_and_rnn", "oracles", "which_path"))
WHOLE = (
    *(
        "tests/engine",
        "tests/methods",
        "tests/test_equations.py",
        "tests/test_products.py",
        "tests/evaluation",
        "tests/experiments/test_findings.py",
    ),
    *(f"tests/test_{name}.py" for name in ("batches", "bad_input", "no_trace", "golden", "pipeline", "embeddings")),
    "tests/recurrent",
)
GPU = ("recurrent/*/triton.py", "recurrent/triton/*.py")
ROOMS = {
    "equations": Room(("equations.py",), ("tests/test_equations.py", "tests/test_products.py", *RECURRENT, *ENGINE), WHOLE),
    "engine": Room(("engine/**/*.py",), (*ENGINE, *METHODS), WHOLE),
    "recurrent": Room(("recurrent/**/*.py",), (*RECURRENT, C, PATHS, "tests/recurrent/test_unfriendly.py"), WHOLE, GPU),
    "kernels": Room(("recurrent/**/*.c", "recurrent/**/*.h"), (C, PATHS), WHOLE),
    "methods": Room(("methods/*.py",), ("tests/methods", "tests/test_batches.py", "tests/test_bad_input.py"), WHOLE),
    "evaluation": Room(("evaluation/*.py",), ("tests/evaluation",), ("tests/experiments", "tests/cli", *WHOLE)),
    # What these decide shows on a GPU alone, where tests/test_cuda.py runs; by Triton's interpreter only their numbers do.
    "gpu": Room(GPU, (PATHS,), ("tests/recurrent",)),
}
BY_HAND_ALONE = Room((), ("tests/experiments/test_findings.py",), ("tests/experiments",))
SLOW = "tests/recurrent/test_compiling.py"  # it compiles for GPUs, and is told nothing by a mutant of another room
NAMED = ("not triton", "not test_triton")  # the tests that are run by stage; Triton's interpreter takes minutes


@dataclass(frozen=True)
class Mutant:
    """A changed file: what stood there, what stands there now, and what became of it."""

    room: str
    file: str
    line: int
    old: str
    new: str
    text: str  # of the whole file
    equivalent: str = ""  # the reason
    fate: str = ""  # "survived", or what killed it


class Running(NamedTuple):
    """A mutant whose tests run, in which selection, and since when."""

    mutant: Mutant
    stage: int
    since: float

    @property
    def seconds(self) -> float:
        """For how long."""
        return time.monotonic() - self.since


def found(room: str, pattern: str | None) -> list[Mutant]:
    """Every mutant of a room that the operators make."""
    own, made = ROOMS[room], list[Mutant]()
    left_out = {path for each in own.without for path in PACKAGE.glob(each)}
    for path in sorted({path for each in own.files for path in PACKAGE.glob(each)} - left_out):
        name = path.relative_to(PACKAGE).as_posix()
        if pattern is None or pattern in name:
            source = path.read_text(encoding="utf-8")
            made += [mutant_of(room, name, source, edit) for edit in edits_of(source, is_python=path.suffix == ".py")]
    return made


def mutant_of(room: str, name: str, source: str, edit: Edit) -> Mutant:
    """One edit made; `old` and `new` are the lines that differ, by which equivalent mutants are known again."""
    text = source[: edit.start] + edit.new + source[edit.end :]
    first = source.rfind("\n", 0, edit.start) + 1
    rest = len(source) - (source + "\n").find("\n", edit.end)
    old, new = (" ".join(each[first : len(each) - rest].split()) for each in (source, text))
    known = [
        each["why"] for each in LISTS.get("equivalent", []) if (each["file"], each["old"], each["new"]) == (name, old, new)
    ]
    return Mutant(room, name, source.count("\n", 0, edit.start) + 1, old, new, text, known[0] if known else "")


def by_hand(rooms: Sequence[str], pattern: str | None) -> list[Mutant]:
    """The mutants that are written out in the list."""
    made: list[Mutant] = []
    for each in LISTS["by_hand"]:
        room = each["room"]
        source = (PACKAGE / each["file"]).read_text(encoding="utf-8")
        place = source.find(each["old"])
        if place < 0 or source.count(each["old"]) > 1:
            raise SystemExit(
                f"mutants.toml: {each['old']!r} stands {source.count(each['old'])} times in {each['file']}; once is needed"
            )
        if (pattern is None and room in (*rooms, "experiments")) or (pattern is not None and pattern in each["file"]):
            text = source.replace(each["old"], each["new"])
            made.append(Mutant(room, each["file"], source.count("\n", 0, place) + 1, each["old"], each["new"], text))
    return made


def chosen(rooms: Sequence[str], count: int, seed: int, pattern: str | None) -> list[Mutant]:
    """As many of every room as of any other, where it has them, and those by hand."""
    pools = {room: found(room, pattern) for room in rooms}
    for pool in pools.values():
        random.Random(seed).shuffle(pool)
    taken: list[Mutant] = []
    while len(taken) < count and any(pools.values()):
        taken += [pool.pop() for pool in pools.values() if pool][: count - len(taken)]
    return by_hand(rooms, pattern) + taken


def start(mutant: Mutant, stage: int, folder: Path) -> int:
    """Run tests on a mutant in a child of this process, which has the slow imports behind it; returns the child's number."""
    child = os.fork()
    if child:
        return child
    status = NOT_TESTED
    try:
        os.setpgid(0, 0)
        log = os.open(folder / f"{os.getpid()}.log", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        status = tested(mutant, stage, folder)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def tested(mutant: Mutant, stage: int, folder: Path) -> int:
    """Make the mutant the package that is imported here, and run its tests; returns pytest's exit status."""
    home = folder / str(os.getpid())
    shutil.copytree(PACKAGE, home / "whence", copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__"))
    changed = home / "whence" / mutant.file
    changed.unlink()
    changed.write_text(mutant.text, encoding="utf-8")
    is_own_cache = mutant.room == "kernels" or mutant.file == "recurrent/native/compiled.py"
    os.environ["PYTHONPATH"] = str(home)  # for the commands that tests run
    os.environ["XDG_CACHE_HOME"] = str((home if is_own_cache else folder) / "cache")
    sys.path.insert(0, str(home))
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMITS[stage], LIMITS[stage]))
    os.chdir(ROOT)
    room = ROOMS.get(mutant.room, BY_HAND_ALONE)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=line", f"--ignore={SLOW}"]
    options += [] if mutant.room == "gpu" else ["-k", NAMED[stage]]
    return int(importlib.import_module("pytest").main([*options, *(room.larger if stage else room.quick)]))


def killer(log: Path, status: int) -> str:
    """What ended a mutant, in a few words; nothing where its tests passed."""
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    if os.WEXITSTATUS(status) == 0:
        return ""
    if os.WEXITSTATUS(status) in (NOT_TESTED, USAGE_ERROR):
        raise SystemExit(f"the tests could not be run:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")
    named = re.findall(r"^(?:FAILED|ERROR) (\S+)", log.read_text(encoding="utf-8", errors="replace"), re.M)
    return named[0] if named else f"exit status {os.WEXITSTATUS(status)}"


def judged(mutants: Sequence[Mutant], workers: int, folder: Path) -> list[Mutant]:
    """The mutants with their fates, a few at a time."""
    waiting = [(mutant, 0) for mutant in reversed(mutants) if not mutant.equivalent]
    running: dict[int, Running] = {}
    done: list[Mutant] = []
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                mutant, stage = waiting.pop()
                running[start(mutant, stage, folder)] = Running(mutant, stage, time.monotonic())
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                time.sleep(0.1)
                for late in [each for each, own in running.items() if own.seconds > WAITING * LIMITS[own.stage]]:
                    os.killpg(late, signal.SIGKILL)
                continue
            own = running.pop(child)
            fate = killer(folder / f"{child}.log", status) or ("survived" if own.stage else "")
            if not fate:
                waiting.insert(0, (own.mutant, 1))
                continue
            done.append(replace(own.mutant, fate=fate))
            print(f"{len(done):4d} {own.seconds:5.0f}s {shown(done[-1])}", flush=True)
    finally:
        for child in running:
            os.killpg(child, signal.SIGKILL)
    return done


def shown(mutant: Mutant) -> str:
    """One line on a mutant."""
    return f"{mutant.fate}: {mutant.file}:{mutant.line}  {mutant.old}  ->  {mutant.new or '(nothing)'}"


def require_sound(rooms: Sequence[str], workers: int, folder: Path) -> None:
    """The package as it is passes all tests that mutants are given; otherwise they would all count as killed."""
    whole = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    different = {ROOMS.get(room, BY_HAND_ALONE).larger: room for room in rooms}.values()
    for result in judged([Mutant(room, "__init__.py", 1, "", "", whole) for room in different], workers, folder):
        if result.fate != "survived":
            raise SystemExit(f"the tests of {result.room} fail without any change ({result.fate}); mend that first")


def summary(done: Sequence[Mutant], equivalent: Sequence[Mutant]) -> dict[str, Any]:
    """The share killed in each room and in all, and the survivors."""
    rooms: dict[str, dict[str, float]] = {}
    for room in (*dict.fromkeys(mutant.room for mutant in done), "all"):
        own = [mutant for mutant in done if room in (mutant.room, "all")]
        dead = sum(mutant.fate != "survived" for mutant in own)
        same = sum(room in (mutant.room, "all") for mutant in equivalent)
        rooms[room] = {"mutants": len(own), "killed": dead, "equivalent": same, "share": dead / max(len(own), 1)}
    kept = [{key: value for key, value in asdict(each).items() if key != "text"} for each in (*done, *equivalent)]
    return {"rooms": rooms, "mutants": kept}


def ended(*_: object) -> None:
    """Exit, as a signal asks."""
    sys.exit(1)


def main() -> None:
    """Make the mutants, run them, and say which survive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=120, help="mutants to draw, besides those by hand")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--room", action="append", choices=list(ROOMS), help="only this room; may be given again")
    parser.add_argument("--only", metavar="FILE", help="only files whose path under src/whence contains this")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write everything as JSON")
    parser.add_argument("--unchecked", action="store_true", help="leave out the run of all tests on the unchanged package")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, ended)  # so that the children end too
    rooms = given.room or [room for room in ROOMS if room != "gpu"]
    mutants = chosen(rooms, given.count, given.seed, given.only)
    for each in ("torch", "pytest"):  # what every child would have to import
        importlib.import_module(each)
    with tempfile.TemporaryDirectory() as folder:
        if not given.unchecked:
            require_sound(sorted({mutant.room for mutant in mutants}), given.workers, Path(folder))
        done = judged(mutants, given.workers, Path(folder))
    whole = summary(done, [mutant for mutant in mutants if mutant.equivalent])
    print(*("survivors:", *(shown(each) for each in done if each.fate == "survived")), sep="\n")
    for room, row in whole["rooms"].items():
        print(
            f"{room:12s} {row['killed']:4d} of {row['mutants']:4d} killed ({row['share']:.1%}), {row['equivalent']} equivalent"
        )
    if given.json:
        given.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
