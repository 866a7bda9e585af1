"""The README's pictures are there, small enough to load quickly, in light and dark; its badges say what pyproject.toml says."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PICTURES = sorted(set(re.findall(r'(?:src|srcset)="([^"]+)"', README) + re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)))
MOST = {".png": 300_000, ".webp": 1_500_000, ".svg": 10_000}  # bytes


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_is_there_and_not_too_large(picture: str) -> None:
    path = ROOT / picture
    assert 0 < path.stat().st_size <= MOST[path.suffix]


def test_pictures_have_both_colour_schemes_and_a_description() -> None:
    shown = re.findall(r"<picture>.*?</picture>", README, re.DOTALL)
    assert len(shown) == 3
    for each in shown:
        (dark,), (light,) = re.findall(r'srcset="([^"]+)"', each), re.findall(r'src="([^"]+)"', each)
        assert dark.replace("-dark.", "-light.") == light
        assert '(prefers-color-scheme: dark)"' in each
        assert re.search(r'alt="[^"]{40,}"', each)


def test_badges_say_what_the_project_says() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = told["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    (torch,) = [each.removeprefix("torch>=") for each in project["dependencies"] if each.startswith("torch")]
    expected = {
        "python": " | ".join(versions),
        "pytorch": f"≥ {torch}",
        "licence": project["license"],
        "types": f"pyright, {told['tool']['pyright']['typeCheckingMode']}",
    }
    for name, value in expected.items():
        badge = (ROOT / "docs" / "figures" / f"badge-{name}.svg").read_text(encoding="utf-8")
        assert f">{value}</text>" in badge
    assert f"Python {', '.join(versions)}" in README
    assert f"PyTorch {torch} and newer" in README
