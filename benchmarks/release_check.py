"""Does the package that would be released work? It is built, installed into empty environments, and used there.

    python benchmarks/release_check.py                   # the core, and every extra in an environment of its own
    python benchmarks/release_check.py core captum       # only these
    python benchmarks/release_check.py --python ~/.pyenv/versions/3.12.1/bin/python core

Takes a minute or two for each environment, and 2 GB of temporary space. In the core's, what needs an extra must say which.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
NOT_FOR_USERS = {"dev", "docs"}  # for working on whence itself
TEXT = "neither funny nor suspenseful nor particularly well-drawn ."
SERVED = """
import json, subprocess, sys, urllib.request
serving = subprocess.Popen([sys.executable, "-m", "whence", "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
try:
    address = serving.stdout.readline().split()[-1]
    request = urllib.request.Request(address + "/api/explain", json.dumps({"texts": ["a fine film"]}).encode())
    request.add_header("Content-Type", "application/json")
    assert json.load(urllib.request.urlopen(request))["explanations"][0]["tokens"] == ["a", "fine", "film"]
finally:
    serving.terminate()
"""
ATTRIBUTED = """
import torch, whence.captum
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
assert whence.captum.LRP(model).attribute(torch.randn(3, 2, 2), target=1).shape == (3, 2, 2)
"""


@dataclass(frozen=True)
class Use:
    """A use of an extra: commands that work with it."""

    commands: tuple[tuple[str, ...], ...]
    without: tuple[str, ...] | None = None  # what names the extra where it is missing; the first command if this is left out
    module: str = "whence"  # the extra is offered if there is such a module with such a name
    name: str = "relevance"


def _python(code: str) -> tuple[str, ...]:
    return ("python", "-c", code)


CORPUS = ("whence", "corpus", "explain", "reviews.csv")
USES = {
    "plot": Use((_python("import whence.render.figure"),)),
    "paper": Use(
        (_python("import whence.experiments.report; from whence.data.lexicon import vader; assert vader()['good'] > 0"),),
        without=_python("from whence.data.lexicon import vader; vader()"),
    ),
    "web": Use((_python(SERVED),), without=("whence", "serve", "--port", "0")),
    "corpus": Use(((*CORPUS, "found"), ("whence", "corpus", "query", "found", "SELECT count(*) FROM tokens"))),
    "ray": Use(((*CORPUS, "spread", "--engine", "ray"),)),
    "captum": Use((_python(ATTRIBUTED),), module="whence.captum", name="LRP"),
    "keras": Use((_python("import h5py"),), without=_python("import whence; whence.from_keras('x.h5')"), name="from_keras"),
    "onnx": Use((_python("import onnx"),), without=_python("import whence; whence.from_onnx('x.onnx')"), name="from_onnx"),
}


@dataclass(frozen=True)
class Environment:
    """An empty virtual environment, and how commands run in it."""

    folder: Path
    home: Path

    def run(self, command: Sequence[str], *, seconds: float = 180) -> "subprocess.CompletedProcess[str]":
        """Run a command of the environment, in a folder of its own, without anything of this process's environment."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WHENCE"))}
        call = [str(self.folder / "bin" / command[0]), *command[1:]]
        try:
            return subprocess.run(
                call,
                capture_output=True,
                text=True,
                check=False,
                cwd=self.home,
                env=kept,
                timeout=seconds,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(call, 124, "", f"still running after {seconds:.0f} s")

    @property
    def megabytes(self) -> float:
        """The size of what is installed."""
        return sum(each.stat().st_size for each in self.folder.rglob("*") if each.is_file() and not each.is_symlink()) / 1e6

    @property
    def packages(self) -> int:
        """How many packages are installed, without pip."""
        found: list[dict[str, str]] = json.loads(self.run(("pip", "list", "--format", "json")).stdout)
        return len([each for each in found if each["name"] not in ("pip", "setuptools")])


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source archive of the working tree."""
    environment = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(f"the package cannot be built:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def installed(python: str, what: str, folder: Path) -> Environment:
    """An empty environment with a package in it."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    (folder / "home").mkdir()
    (folder / "home" / "x.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    (folder / "home" / "x.onnx").write_bytes(b"")
    (folder / "home" / "reviews.csv").write_text("text\na fine film\na dull one\n", encoding="utf-8")
    environment = Environment(folder, folder / "home")
    done = environment.run(("pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), what), seconds=1200)
    if done.returncode:
        sys.exit(f"{what} cannot be installed:\n{done.stderr[-2000:]}")
    return environment


def problem(environment: Environment, command: Sequence[str], *, expected: str = "") -> str | None:
    """What is wrong with a command: it fails, or does not print what is expected."""
    done = environment.run(command)
    if done.returncode == 0 and expected in done.stdout:
        return None
    said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
    return f"{' '.join(command)[:60]!r} exits with {done.returncode}: {said[-1]}"


def core_problems(environment: Environment) -> list[str]:
    """What everyone can do."""
    found = [
        problem(environment, ("python", "-c", "import whence; print(whence.__version__)")),
        problem(environment, ("whence", "--help"), expected="explain"),
        problem(environment, ("whence", "explain", TEXT, "--format", "json"), expected='"relevance"'),
        problem(environment, ("whence", "explain", TEXT), expected="suspenseful"),
        problem(environment, ("python", "-m", "whence", "models"), expected="sst-bilstm"),
        problem(environment, ("pip", "check")),
    ]
    return [each for each in found if each is not None]


def is_offered(environment: Environment, use: Use) -> bool:
    """Whether this version has the code that an extra is for."""
    path = use.module.replace(".", "/")
    code = f"import importlib.resources as r, whence; print((r.files('whence').parent / {path!r}).is_dir(), dir(whence))"
    said = environment.run(("python", "-c", code)).stdout
    return said.startswith("True") and (use.module != "whence" or f"'{use.name}'" in said)


def unnamed(environment: Environment) -> list[str]:
    """Which extras are not named by what needs them, in an environment without any."""
    found: list[str] = []
    for name, use in USES.items():
        if not is_offered(environment, use):
            continue
        done = environment.run(use.without or use.commands[0], seconds=60)
        last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        if done.returncode == 0 or f"run: pip install 'whence[{name}]'" not in last:
            found.append(f"without the extra {name}: {last}")
    return found


def seconds(environment: Environment, command: Sequence[str], *, times: int = 5) -> float:
    """How long a command takes, the median of several."""
    taken: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        environment.run(command)
        taken.append(time.perf_counter() - start)
    return median(taken)


def sizes(wheel: Path, source: Path) -> str:
    """How large the archives are, and what the wheel mostly consists of."""
    with ZipFile(wheel) as archive:
        models = sum(each.compress_size for each in archive.infolist() if "/bundle/" in each.filename)
    return (
        f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, of which {models / 1e6:.1f} MB bundled models; "
        f"{source.name}: {source.stat().st_size / 1e6:.1f} MB"
    )


def checked(python: str, name: str, wheel: Path, folder: Path) -> list[str]:
    """Install the core or an extra, print its line of the table, and return what is wrong."""
    start = time.perf_counter()
    environment = installed(python, str(wheel) if name == "core" else f"{wheel}[{name}]", folder)
    took = time.perf_counter() - start
    problems = core_problems(environment)
    if name == "core":
        problems += unnamed(environment)
        start_up = seconds(environment, ("python", "-c", "pass"))
        plain = seconds(environment, ("python", "-c", "import whence")) - start_up
        whole = seconds(environment, ("python", "-c", "import whence; whence.relevance")) - start_up
        note = (
            f"import whence {plain:.2f} s, with torch {whole:.2f} s, --help {seconds(environment, ('whence', '--help')):.2f} s"
        )
    elif not is_offered(environment, USES[name]):
        note = "not offered: this version has no code for it"
        problems.append(f"the extra {name} is in pyproject.toml, but nothing uses it")
    else:
        problems += [said for each in USES[name].commands if (said := problem(environment, each)) is not None]
        note = "works" if not problems else "fails"
    print(f"{name:8} {environment.packages:9} {environment.megabytes:7.0f} MB {took:7.0f} s  {note}", flush=True)
    return problems


def main() -> None:
    """Build, install and use; exits with 1 if anything is wrong."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = [each for each in tomllib.load(file)["project"]["optional-dependencies"] if each not in NOT_FOR_USERS]
    unknown = sorted(set(extras) ^ USES.keys())
    if unknown:
        sys.exit(f"pyproject.toml and USES in this file do not have the same extras: {', '.join(unknown)}")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="core|EXTRA")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments")
    given = parser.parse_args()
    if not {*given.what} <= {"core", *extras}:
        parser.error(f"there are core, {', '.join(extras)}")
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        wheel, source = built(Path(folder) / "dist")
        print(sizes(wheel, source))
        print(f"{'':8} {'packages':>9} {'size':>10} {'install':>9}", flush=True)
        for name in given.what or ["core", *extras]:
            with tempfile.TemporaryDirectory() as place:
                problems += checked(given.python, name, wheel, Path(place) / "venv")
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
