"""The Makefile: what each target installs."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make here")
def test_the_demo_installs_no_tools_of_development(tmp_path: Path) -> None:
    def steps(target: str) -> str:
        """What make would do if .venv did not exist."""
        done = subprocess.run(
            ["make", "--no-print-directory", "-n", target], capture_output=True, text=True, cwd=tmp_path, check=True
        )
        return done.stdout

    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    assert "-e '.[paper]'" in steps("demo") and "examples/demo.py" in steps("demo")
    assert "[dev]" not in steps("demo")
    assert "-e '.[web]'" in steps("serve") and "whence serve" in steps("serve") and "[dev]" not in steps("serve")
    assert "-e '.[dev]'" in steps("test") and "pytest" in steps("test")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".demo").touch()
    assert "[paper]" not in steps("test") and "-e '.[dev]'" in steps("test")  # after the demo the rest is installed
    (tmp_path / ".venv" / ".installed").touch()
    assert "pip install" not in steps("demo") + steps("test")
