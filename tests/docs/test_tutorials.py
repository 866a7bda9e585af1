"""Every tutorial runs, as a script; one also as a notebook."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
pytestmark = pytest.mark.slow


def _run(*command: str | Path, folder: Path) -> None:
    """Run a command, on one thread."""
    environment = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr


def _run_here(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a tutorial in this process, which has PyTorch already; warnings are errors here."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    with torch.random.fork_rng():
        runpy.run_path(str(TUTORIALS / f"{name}.py"))


@pytest.mark.parametrize("name", sorted({path.stem for path in TUTORIALS.glob("*.py")} - {"first_steps", "keras_onnx"}))
def test_a_tutorial_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("WHENCE_SST", raising=False)
    _run_here(name, monkeypatch)
    assert capsys.readouterr().out


def test_the_tutorial_on_the_paper_uses_sst_where_it_is(
    sst: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WHENCE_SST", str(sst))
    _run_here("paper", monkeypatch)
    assert capsys.readouterr().out.startswith("200 sentences")


def test_the_tutorial_on_keras_and_onnx_runs(tmp_path: Path) -> None:
    _run(sys.executable, TUTORIALS / "keras_onnx.py", folder=tmp_path)  # Keras reads its settings when it is imported


def test_first_steps_run_as_a_notebook_that_shows_explanations(tmp_path: Path) -> None:
    notebook = tmp_path / "first_steps.ipynb"
    script = TUTORIALS / "first_steps.py"
    _run(sys.executable, "-m", "jupytext", "--quiet", "--to", "ipynb", "--output", notebook, script, folder=tmp_path)
    _run(sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", notebook, folder=tmp_path)
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    shown = ["".join(output.get("data", {}).get("text/html", "")) for cell in cells for output in cell.get("outputs", [])]
    assert sum('class="whence"' in each for each in shown) == 4
