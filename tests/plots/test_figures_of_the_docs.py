"""The figures of docs/plots.md are those that its command draws, and are small."""

import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_command_draws_the_figures_of_the_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DOCS / "make_plots.py", tmp_path], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in tmp_path.iterdir()}
    shown = set(re.findall(r"\(figures/(plot-\w+\.png)\)", (DOCS / "plots.md").read_text(encoding="utf-8")))
    assert drawn == shown == {path.name for path in (DOCS / "figures").glob("plot-*.png")}
    assert all((DOCS / "figures" / name).stat().st_size <= 150_000 for name in shown)
