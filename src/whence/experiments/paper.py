"""The paper from one call: every figure and table measured, compared with what was published, bound into a report."""

import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from whence.data.lexicon import vader
from whence.data.sst import OFFICIAL, SPLITS, digest, find_sst, read_split
from whence.errors import InputError, ModelError
from whence.experiments.reproduction import Clock, Progress, reproduction
from whence.experiments.results import results
from whence.experiments.test_set import TestSet
from whence.models.bundled import load_any
from whence.models.files import write_whole
from whence.models.pipeline import Pipeline


def run(
    *,
    output: str | Path,
    sst: str | Path | None = None,
    model: str | Path | Pipeline = "sst-bilstm",
    progress: Progress = lambda part, done, total: None,
) -> dict[str, Any]:
    """Recompute the paper with a pipeline and write `report.html`, the figures and `results.json` into a folder.

    Returns what results.json holds. Nothing is written before everything is done. PyTorch works with one thread meanwhile: on
    matrices of this size a second one brings nothing, and on a busy machine much waiting.

        results = whence.experiments.run(sst="trees", output="paper")
    """
    folder = Path(output)
    _require_folder(folder)
    clock = Clock(progress)
    with clock.part("reading"):
        test, data = _test_set(find_sst(sst), model)
    lexicon = vader()
    from whence.experiments.report import figures, report  # needs matplotlib

    with _one_thread():
        found = reproduction(test, data, lexicon, clock)
    with clock.part("figures"):
        contents = figures(found)
    numbers = results(found, clock.seconds)
    contents["report.html"] = report(found, contents, clock.seconds).encode("utf-8", errors="replace")
    contents["results.json"] = (json.dumps(numbers, indent=1, allow_nan=False) + "\n").encode()
    _write(folder, contents)
    return numbers


@contextmanager
def _one_thread() -> Generator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _require_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; give the name of a folder")
    parent = folder.absolute().parent
    if not folder.exists() and not parent.is_dir():
        raise InputError(f"{parent} is no folder; make it first, or write somewhere else")
    if not os.access(folder if folder.exists() else parent, os.W_OK):
        raise InputError(f"{folder} cannot be written to; choose another folder")


def _test_set(directory: Path, model: str | Path | Pipeline) -> tuple[TestSet, dict[str, Any]]:
    pipeline = model if isinstance(model, Pipeline) else load_any(model)
    if len(pipeline.classes) != 5:
        raise ModelError(
            f"{pipeline.name} knows {len(pipeline.classes)} classes; SST's are five, from very negative to very positive"
        )
    trees = {split: read_split(directory, split) for split in SPLITS}["test"]  # all are read, so that damage is noticed
    data = {"sha256": digest(directory), "is_official": digest(directory) == OFFICIAL}
    return TestSet(pipeline, [tree.tokens for tree in trees], [tree.label for tree in trees]), data


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """All files together, as a new folder; into one that exists, each file whole."""
    if folder.exists():
        for name, content in contents.items():
            write_whole(folder / name, content)
        return
    made = Path(tempfile.mkdtemp(dir=folder.absolute().parent, prefix=f".{folder.name[:100]}."))
    try:
        for name, content in contents.items():
            (made / name).write_bytes(content)
        made.chmod(0o777 & ~_mask())
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
