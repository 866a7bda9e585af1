"""The documentation builds as a site without a warning, and loads nothing from another host."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import whence

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


class Loads(HTMLParser):
    """Collects what a page loads: scripts, styles, pictures, frames; links that a reader may follow are none."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.found += [values.get("src") or "", values.get("srcset") or "", values.get("style") or ""]
        if tag == "link":
            self.found.append(values.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: pip install 'whence[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        reader = Loads()
        reader.feed(page.read_text(encoding="utf-8"))
        assert not [each for each in reader.found if re.search(r"(https?:)?//", each)], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", style.read_text(encoding="utf-8")), style.name


def test_formulas_are_mathml_and_drawings_are_in_the_page(site: Path) -> None:
    page = (site / "mathematics.html").read_text(encoding="utf-8")
    assert page.count("<math ") > 40
    assert "\\(" not in page and "\\[" not in page and "\\frac" not in page and ">&amp;<" not in page
    assert page.count('<div class="figure"') == 5


def test_the_reference_describes_every_public_name(site: Path) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    assert not [name for name in whence.__all__ if f'id="whence.{name}"' not in pages]


def test_tutorials_are_pages_and_notebooks(site: Path) -> None:
    for tutorial in (ROOT / "docs" / "tutorials").glob("*.py"):
        assert (site / "tutorials" / f"{tutorial.stem}.ipynb").exists()
        assert "This page as a notebook" in (site / "tutorials" / f"{tutorial.stem}.html").read_text(encoding="utf-8")
