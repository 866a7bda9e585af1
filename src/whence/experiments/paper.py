"""Reproduces the paper in one call: measures every figure and table, and writes the report."""

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from whence.data.lexicon import vader
from whence.data.sst import OFFICIAL, SPLITS, digest, find_sst, read_split
from whence.errors import InputError, ModelError
from whence.experiments.reproduction import Clock, Data, Progress, reproduction
from whence.experiments.results import Results, results
from whence.experiments.test_set import TestSet
from whence.models.bundled import load_any
from whence.models.pipeline import Pipeline
from whence.threads import one_thread

FIGURES = ("confusion", "fig1_sa_heatmaps", "fig2_lrp_heatmaps", "fig3_deletion", "fig4_position")
FILES = (*(f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")), "report.html", "results.json")


def run(
    *,
    output: str | Path,
    sst: str | Path | None = None,
    model: str | Path | Pipeline = "sst-bilstm",
    progress: Progress = lambda part, done, total: None,
) -> Results:
    """Recompute the paper with a pipeline and write `report.html`, the figures and `results.json` into a folder.

    Returns the content of results.json. Nothing is written before everything is computed. PyTorch uses one thread meanwhile.

        results = whence.experiments.run(sst="trees", output="paper")
    """
    folder = Path(output)
    _require_folder(folder)
    clock = Clock(progress)
    with clock.part("reading"):
        test, data = _test_set(find_sst(sst), model)
    lexicon = vader()
    from whence.experiments.report import figures, report  # needs matplotlib

    with one_thread():
        found = reproduction(test, data, lexicon, clock)
    with clock.part("figures"):
        contents = figures(found)
    numbers = results(found, clock.seconds)
    contents["report.html"] = report(found, contents, clock.seconds).encode("utf-8", errors="replace")
    contents["results.json"] = (json.dumps(numbers, indent=1, allow_nan=False) + "\n").encode()
    _write(folder, contents)
    return numbers


def _require_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to, before any work is done."""
    try:
        if folder.is_dir():
            taken = next((name for name in FILES if (folder / name).is_dir() or (folder / name).is_symlink()), None)
            if taken is not None:
                raise InputError(
                    f"{folder / taken} is in the way: a file of this name is to be written; remove it, or choose another folder"
                )
        elif os.path.lexists(folder):
            raise InputError(f"{folder} is a file; give the name of a folder")
        parent = folder if folder.is_dir() else folder.absolute().parent
        if not parent.is_dir():
            raise InputError(f"{parent} is not a folder; make it first, or write somewhere else")
        with tempfile.TemporaryDirectory(dir=parent, prefix=".whence-"):
            if not folder.exists():
                folder.mkdir()
                folder.rmdir()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{str(folder)!r} cannot be written to: {getattr(error, 'strerror', None) or error}") from None


def _test_set(directory: Path, model: str | Path | Pipeline) -> tuple[TestSet, Data]:
    pipeline = model if isinstance(model, Pipeline) else load_any(model)
    if len(pipeline.classes) != 5:
        raise ModelError(
            f"{pipeline.name} has {len(pipeline.classes)} classes; SST has five, from very negative to very positive"
        )
    trees = {split: read_split(directory, split) for split in SPLITS}["test"]  # all are read, so that a damaged file is noticed
    sha256 = digest(directory)
    test = TestSet(pipeline, [tree.tokens for tree in trees], [tree.label for tree in trees])
    return test, Data(sha256, sha256 == OFFICIAL)


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write all files at once as a new folder, or replace the files of an earlier run in an existing one."""
    exists = folder.is_dir()
    made = (folder if exists else folder.absolute().parent) / f".whence-{secrets.token_hex(8)}"
    made.mkdir()  # with the user's default permissions, unlike tempfile's: it may become the folder itself
    try:
        for name, content in contents.items():
            (made / name).write_bytes(content)
        if not exists:
            made.rename(folder)
            return
        for name in FILES:
            if name in contents:
                os.replace(made / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)
