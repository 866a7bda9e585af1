"""`whence evaluate`: measures how far the explanations of a model can be trusted."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.errors import InputError

if TYPE_CHECKING:
    from whence.models.pipeline import Pipeline


class Suite(StrEnum):
    """What is measured."""

    faithfulness = "faithfulness"
    sanity = "sanity"
    ground_truth = "ground-truth"
    all = "all"


class Against(StrEnum):
    """What is explained: the score of a class, or this score against all others."""

    score = "score"
    rest = "rest"


def evaluate(
    output: Annotated[Path, typer.Option(help="The folder for report.html, results.json and leaderboard.csv.")],
    model: Annotated[
        str, typer.Option(help="A bundled model, the folder of a saved one, or package.module:factory.")
    ] = "sst-bilstm",
    sst: Annotated[Path | None, typer.Option(help="The folder of SST's tree files; its test sentences are used.")] = None,
    data: Annotated[Path | None, typer.Option(help="A file of labelled texts: .csv, .tsv, .jsonl or .parquet.")] = None,
    text: Annotated[str, typer.Option(help="The column of the texts.")] = "text",
    label: Annotated[str, typer.Option(help="The column of the labels: classes by name or number.")] = "label",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A method, also with settings: lrp, 'lrp(delta=1)', or all. May be given several times; all by default."
        ),
    ] = None,
    target: Annotated[
        list[Against] | None, typer.Option(help="What is explained. May be given twice; the score by default.")
    ] = None,
    suite: Annotated[Suite, typer.Option(help="What is measured.")] = Suite.faithfulness,
    choose: Annotated[bool, typer.Option("--choose", help="Compare methods, targets and settings, and recommend one.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="That many texts, drawn at random.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of everything that is drawn at random.")] = 0,
) -> None:
    """Measure how well methods explain a model, on labelled texts: what does it do without the words they point to?"""
    from whence.cli.loading import pipeline_of
    from whence.cli.progress import bars
    from whence.cli.settings import method_written
    from whence.methods.registry import METHODS
    from whence.models.files import require_folder
    from whence.render.colour import one_line
    from whence.trust.choose import LIMIT
    from whence.trust.evaluate import evaluate as evaluate_methods
    from whence.trust.evaluation import FILES

    if sst is not None and data is not None:
        raise InputError("--sst and --data are both given; the texts come from one of them")
    require_folder(output, FILES.__contains__)
    pipeline = pipeline_of(model)
    names = [each for given in method or [] for each in (METHODS if given == "all" else [given])]
    chosen: Any = [method_written(each) for each in names] or None
    targets = [each.value for each in target] if target else None
    limit = LIMIT if choose and limit is None else limit
    texts, labels = ([], []) if suite is Suite.ground_truth else _samples(pipeline, sst, data, text, label)
    with bars() as progress:
        found = evaluate_methods(
            pipeline,
            texts,
            labels,
            methods=chosen,
            targets=targets,
            suite=suite.value,
            choose=choose,
            limit=limit,
            seed=seed,
            progress=progress,
        )
    found.save(output)
    print(found)
    print(f"report: {one_line(str(output / 'report.html'))}")


def _samples(pipeline: "Pipeline", sst: Path | None, data: Path | None, text: str, label: str) -> tuple[list[Any], list[Any]]:
    """The texts and their labels, from SST or from a table."""
    if data is not None:
        from whence.data.rows import Columns, require_rows

        rows = require_rows(data, Columns((text,), label=label))
        return [row.content for row in rows], [row.label for row in rows]
    from whence.data.sst import CLASSES, find_sst, read_split

    if len(pipeline.classes) != len(CLASSES):
        raise InputError(
            f"{pipeline.name} has {len(pipeline.classes)} classes, SST {len(CLASSES)}; give labelled texts by --data"
        )
    trees = read_split(find_sst(sst), "test")
    return [tree.tokens for tree in trees], [tree.label for tree in trees]
