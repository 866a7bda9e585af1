"""What README, docs, demo and docstrings show runs as shown."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {page: re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL) for page in (
    ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))
)}  # fmt: skip
# One process for a page, as importing PyTorch takes longer than most pieces of code; each is a program of its own.
RUN = """
import json, sys, types
for number, code in enumerate(json.load(sys.stdin), start=1):
    sys.modules["__main__"] = program = types.ModuleType("__main__")
    exec(compile(code, f"<code block {number} of the page>", "exec"), program.__dict__)
"""


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks], ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(PAGES[page]),
        capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_demo_shows_both_methods_and_writes_a_page(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "examples" / "demo.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sensitivity analysis for" in done.stdout
    assert "LRP (ε = 0.001, δ = 0) for very positive" in done.stdout
    page = (tmp_path / "demo" / "index.html").read_text(encoding="utf-8")
    assert ">horrible</span>" in page
    assert "<script" not in page


@pytest.mark.parametrize("name", ["text_attention", "river_flow", "health_visits"])
def test_an_example_runs_and_draws(name: str, tmp_path: Path) -> None:
    script = tmp_path / f"{name}.py"
    script.write_bytes((ROOT / "examples" / f"{name}.py").read_bytes())
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_of_models_is_what_running_it_gives() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "make_models.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in (ROOT / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "command",
    re.findall(
        r"^whence (?!train|data|paper|serve|evaluate --suite|corpus).*$",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    ),
)
def test_commands_run(command: str, tmp_path: Path) -> None:
    (tmp_path / "reviews.txt").write_text("a fine film\n", encoding="utf-8")
    (tmp_path / "review.txt").write_text("We took the bus. The film is a moving, brilliant joy.", encoding="utf-8")
    (tmp_path / "reviews.csv").write_text("review,sentiment\na fine film,positive\na dull one,negative\n", encoding="utf-8")
    arguments = shlex.split(command, comments=True)[1:]
    code = "from whence.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


def test_the_commands_for_a_corpus_run_one_after_the_other(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "reviews.csv").write_text("review,sentiment\na fine film,positive\na dull one,negative\n", encoding="utf-8")
    for command in re.findall(r"^whence corpus .*$", readme, re.MULTILINE):
        call = [sys.executable, "-m", "whence", *shlex.split(command, comments=True)[1:]]
        done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
