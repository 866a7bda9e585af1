"""What README, docs, demo and docstrings show runs as shown."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SNIPPETS = [
    pytest.param(code, id=f"{page.name}-{n}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for n, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
]


@pytest.mark.parametrize("code", SNIPPETS)
def test_examples_run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_the_demo_balances_its_books() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    (together,) = re.findall(r"together.*", done.stdout)
    (score,) = re.findall(r"│ score.*", done.stdout)
    assert re.findall(r"[+-]\d+\.\d+", together) == re.findall(r"[+-]\d+\.\d+", score)
    assert len(re.findall(r"[+-]\d+\.\d+", score)) == 3
    assert "initial_state" in done.stdout
