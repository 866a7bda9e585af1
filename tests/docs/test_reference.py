"""Every public name has its place in the reference."""

import re
from pathlib import Path

import whence
from whence import corpus

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_reference_has_every_public_name_once() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    listed = re.findall(r"^::: whence\.(\S+)$", pages, re.MULTILINE)
    assert sorted(name for name in listed if "." not in name) == sorted(whence.__all__)
    assert sorted(name for name in listed if name.startswith("corpus.")) == sorted(f"corpus.{name}" for name in corpus.__all__)


def test_the_overview_names_what_its_pages_have() -> None:
    overview = (REFERENCE / "index.md").read_text(encoding="utf-8")
    for line in overview.splitlines():
        page = re.match(r"\| \[[^]]+\]\((\w+\.md)\) \| (.*) \|", line)
        if page and page[1] not in ("corpus.md", "errors.md"):
            names = re.findall(r"^::: whence\.(\S+)$", (REFERENCE / page[1]).read_text(encoding="utf-8"), re.MULTILINE)
            assert re.findall(r"`(\w+)`", page[2]) == names
