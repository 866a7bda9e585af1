"""Every link inside the repository leads to a file, and every anchor to a heading, as GitHub shows them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")), *TUTORIALS]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """A page without its code; of a tutorial, the text of its Markdown cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines() if line.startswith("#"))
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> Iterator[str]:
    """The anchors of a page's headings: small letters, hyphens for spaces, no punctuation."""
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found: list[str] = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_elsewhere = re.match(r"[a-z]+:", link)
        if not is_elsewhere and not (target.exists() and (not anchor or anchor in anchors(target))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken(page)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A heading, with `code`\n", encoding="utf-8")
    page = tmp_path / "page.md"
    links = ["other.md", "other.md#a-heading-with-code", "#here", "gone.md", "other.md#gone", "https://example.org/gone"]
    page.write_text("# Here\n\n" + " ".join(f"[link]({link})" for link in links), encoding="utf-8")
    assert broken(page) == ["gone.md", "other.md#gone"]
