"""The drawings and pages in docs are what their commands give."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
pytestmark = pytest.mark.slow


def require_same(made: Path, kept: Path) -> None:
    """The same words and shapes, and the same numbers but for rounding; colours follow from the numbers."""
    new, old = (re.sub(r"#[0-9a-f]{6}", "#", path.read_text(encoding="utf-8")) for path in (made, kept))
    assert NUMBER.sub("0", new) == NUMBER.sub("0", old), f"{kept.name} is out of date"
    numbers = [[float(each) for each in NUMBER.findall(text)] for text in (new, old)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.11), f"{kept.name} is out of date"  # coordinates have one decimal


@pytest.mark.parametrize(("script", "folder"), [("make_figures.py", "figures"), ("make_gallery.py", "figures/gallery")])
def test_what_is_drawn_is_what_the_script_draws(script: str, folder: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DOCS / script, "--output", tmp_path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    made = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    pattern = "mathematics-*" if folder == "figures" else "*"
    assert [path.name for path in made] == sorted(path.name for path in (DOCS / folder).glob(pattern) if path.is_file())
    for path in made:
        require_same(path, DOCS / folder / path.name)
