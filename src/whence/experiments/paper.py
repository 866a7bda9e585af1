"""Reproduces the paper in one call: measures every figure and table, and writes the report."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from whence._explain import explain_all
from whence.data.lexicon import vader
from whence.data.sst import OFFICIAL, SPLITS, digest, find_sst, read_split
from whence.errors import ModelError
from whence.experiments.methods import methods_of
from whence.experiments.published import DELTA, EPSILON
from whence.experiments.reproduction import Clock, Data, Progress, reproduction
from whence.experiments.results import Results, results
from whence.experiments.tables import COLUMNS, tables
from whence.experiments.test_set import TestSet
from whence.methods.method import Method
from whence.models.bundled import load_any
from whence.models.files import require_folder, write_folder
from whence.models.pipeline import Pipeline
from whence.threads import one_thread

if TYPE_CHECKING:
    from whence.experiments.chapter import Chapter

FIGURES = ("confusion", "fig1_sa_heatmaps", "fig2_lrp_heatmaps", "fig3_deletion", "fig4_position")
FILES = ("report.html", "results.json", *COLUMNS)
# Everything that a run may write. Methods that a user adds have heatmaps; figures of a second model end in -2.
OURS = re.compile(rf"(?:{'|'.join(map(re.escape, FILES))})|(?:{'|'.join(FIGURES)}|heatmaps_\w+)(?:-[1-9][0-9]*)?\.(?:png|pdf)")
Model = str | Path | Pipeline


def run(
    *,
    output: str | Path,
    sst: str | Path | None = None,
    model: Model | Sequence[Model] = "sst-bilstm",
    methods: Sequence[str | Method] = (),
    epsilon: float = EPSILON,
    delta: float = DELTA,
    progress: Progress = lambda part, done, total: None,
) -> Results:
    """Recompute the paper with a pipeline and write `report.html`, the figures, `results.json` and CSV files into a folder.

    Several models stand side by side in the report. `methods` are further methods, beside those of the paper; `epsilon` and
    `delta` are LRP's settings. Returns the content of results.json. Nothing is written before everything is computed. PyTorch
    uses one thread meanwhile.

        results = whence.experiments.run(sst="trees", output="paper")
    """
    chosen = methods_of(epsilon=epsilon, delta=delta, further=methods)
    folder = Path(output)
    require_folder(folder, OURS.fullmatch)
    clock = Clock(progress)
    with clock.part("reading"):
        tests, data = _test_sets(find_sst(sst), _pipelines(model))
        for test in tests:
            _try(test, chosen)
    made, contents = _everything(tests, data, chosen, clock)
    write_folder(folder, contents, OURS.fullmatch)
    return made


def _everything(
    tests: Sequence[TestSet], data: Data, methods: Mapping[str, Method], clock: Clock
) -> tuple[Results, dict[str, bytes]]:
    """The content of results.json, and all files by name."""
    lexicon = vader()
    from whence.experiments.report import report  # needs matplotlib and jinja2

    contents: dict[str, bytes] = {}
    parts: list[tuple[Results, Chapter]] = []
    for number, test in enumerate(tests, start=1):
        own = Clock(clock.progress, prefix=f"{test.pipeline.name}: " if len(tests) > 1 else "")
        own.seconds |= clock.seconds if number == 1 else {}
        found, drawn = _measured(test, data, lexicon, methods, own, suffix="" if number == 1 else f"-{number}")
        parts.append(found)
        contents |= drawn
    every = [numbers for numbers, _ in parts]
    made = cast(Results, every[0] | ({"other_models": every[1:]} if every[1:] else {}))
    contents |= tables(every)
    contents["report.html"] = report([chapter for _, chapter in parts]).encode("utf-8", errors="replace")
    contents["results.json"] = (json.dumps(made, indent=1, allow_nan=False) + "\n").encode()
    return made, contents


def _measured(
    test: TestSet, data: Data, lexicon: Mapping[str, float], methods: Mapping[str, Method], clock: Clock, *, suffix: str
) -> "tuple[tuple[Results, Chapter], dict[str, bytes]]":
    """One model's numbers, its part of the report, and its figures by file name. Its explanations are not kept."""
    from whence.experiments.chapter import chapter
    from whence.experiments.pictures import figures

    with one_thread():
        found = reproduction(test, data, lexicon, clock, methods)
    with clock.part("figures"):
        drawn = figures(found)
    named = {f"{name[:-4]}{suffix}{name[-4:]}": content for name, content in drawn.items()}
    return (results(found, clock.seconds), chapter(found, drawn, clock.seconds, files=suffix)), named


def _pipelines(model: Model | Sequence[Model]) -> list[Pipeline]:
    given = [model] if isinstance(model, (str, Path, Pipeline)) else list(model)
    if not given:
        raise ModelError("there is no model; give at least one")
    found = [each if isinstance(each, Pipeline) else load_any(each) for each in given]
    names = [pipeline.name for pipeline in found]
    for pipeline in found:
        if len(pipeline.classes) != 5:
            raise ModelError(
                f"{pipeline.name} has {len(pipeline.classes)} classes; SST has five, from very negative to very positive"
            )
        if names.count(pipeline.name) > 1:
            raise ModelError(f"{names.count(pipeline.name)} models are called {pipeline.name}; give models of different names")
    return found


def _try(test: TestSet, methods: Mapping[str, Method]) -> None:
    """Explain one sentence by every method, so that one that does not suit the model is refused before the long work."""
    for method in methods.values():
        explain_all(test.pipeline, test.texts[:1], target=test.labels[0], method=method)


def _test_sets(directory: Path, pipelines: Sequence[Pipeline]) -> tuple[list[TestSet], Data]:
    trees = {split: read_split(directory, split) for split in SPLITS}["test"]  # all are read, so that a damaged file is noticed
    sha256 = digest(directory)
    texts, labels = [tree.tokens for tree in trees], [tree.label for tree in trees]
    return [TestSet(pipeline, texts, labels) for pipeline in pipelines], Data(sha256, sha256 == OFFICIAL)
