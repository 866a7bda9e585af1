"""What a release consists of: its version, its metadata, and the files in its archives."""

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import whence

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
FOR_USERS = EXTRAS - {"dev", "docs"}
MOST = 25_000_000  # bytes of a wheel; PyPI takes up to 100 MB, and nobody likes to wait


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source archive of the working tree."""
    pytest.importorskip("hatchling", reason="hatchling is not installed; the dev extra has it")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), "-t", "wheel", "-t", "sdist"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def test_the_version_is_the_same_everywhere() -> None:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == whence.__version__
    assert PROJECT["dynamic"] == ["version"]  # read from src/whence/__init__.py
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased" or headings[0] == whence.__version__


def test_the_license_is_the_same_everywhere() -> None:
    cited = re.search(r"^license: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert cited[1] == PROJECT["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_citation_can_be_read() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed; the dev extra has it")
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert found["cff-version"] == "1.2.0"
    (paper,) = found["references"]
    assert [each["family-names"] for each in paper["authors"]] == ["Arras", "Montavon", "Müller", "Samek"]
    assert (paper["year"], paper["doi"]) == (2017, "10.18653/v1/W17-5221")


def test_issue_templates_can_be_read() -> None:
    yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed; the dev extra has it")
    forms = [each for each in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if each.name != "config.yml"]
    assert len(forms) == 3
    for each in forms:
        form = yaml.safe_load(each.read_text(encoding="utf-8"))
        assert form.keys() >= {"name", "description", "body"}, each.name
        names = [part["id"] for part in form["body"]]
        assert len(names) == len(set(names)), each.name


def test_the_versions_of_python_are_those_that_are_required() -> None:
    named = [each.removeprefix("Programming Language :: Python :: ") for each in PROJECT["classifiers"]]
    versions = [each for each in named if re.fullmatch(r"3\.\d+", each)]
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in versions
    assert "Typing :: Typed" in PROJECT["classifiers"]


def test_messages_and_pages_name_extras_that_there_are() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {name for page in pages for name in re.findall(r"whence\[(\w+)\]", page.read_text(encoding="utf-8"))}
    assert named
    assert named <= EXTRAS
    said = {name for page in (ROOT / "src").rglob("*.py") for name in re.findall(r"whence\[(\w+)\]", page.read_text("utf-8"))}
    assert "captum" in said


def test_the_wheel_has_types_models_and_the_page_and_nothing_else(archives: tuple[Path, Path]) -> None:
    wheel, _ = archives
    assert wheel.stat().st_size < MOST
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert {"whence/py.typed", "whence/models/bundle/sst-bilstm/model.safetensors", "whence/web/page/index.html"} <= names
    assert "whence/recurrent/lstm/steps.c" in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"whence", f"whence-{whence.__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".so", ".o"))]
    assert f"\nVersion: {whence.__version__}\n" in metadata
    assert set(re.findall(r"^Provides-Extra: (\S+)$", metadata, re.MULTILINE)) >= FOR_USERS


def test_the_source_archive_holds_the_repository_and_nothing_from_outside(archives: tuple[Path, Path]) -> None:
    _, source = archives
    assert source.stat().st_size < MOST
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if listed.returncode:
        pytest.skip("not a checkout: git cannot say which files belong to the repository")
    with tarfile.open(source) as archive:
        members = archive.getmembers()
    assert all(each.isfile() or each.isdir() for each in members)  # no links
    names = {each.name.partition("/")[2] for each in members if each.isfile()}
    assert names - set(listed.stdout.splitlines()) == {"PKG-INFO"}
    assert {"LICENSE", "CHANGELOG.md", "constraints.txt", "src/whence/py.typed", "tests/test_release.py"} <= names
    assert not [name for name in names if Path(name).name in ("train.txt", "dev.txt", "test.txt")]  # SST is not ours to give
