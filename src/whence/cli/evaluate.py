"""`whence evaluate`: measures how far the explanations of a model can be trusted."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli.streams import note
from whence.errors import DataError, InputError

if TYPE_CHECKING:
    from whence.data.rows import Columns, Spelling
    from whence.models.pipeline import Pipeline

Samples = tuple[list[Any], list[Any] | None]  # texts, and their labels if there are any


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
    data: Annotated[Path | None, typer.Option(help="A file of texts: .csv, .tsv, .jsonl or .parquet.")] = None,
    text: Annotated[str | None, typer.Option(help="The table's column of texts; by default text, or its only one.")] = None,
    label: Annotated[
        str | None,
        typer.Option(help="The column of the labels, classes by name or number; by default label, if there is one."),
    ] = None,
    encoding: Annotated[str, typer.Option(help="How the file's texts are encoded.")] = "utf-8",
    delimiter: Annotated[str, typer.Option(help="What parts the fields of CSV.")] = ",",
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
    """Measure how well methods explain a model: what does it do without the words they point to?

    In each text the score of its label is explained; without labels, that of the predicted class.
    """
    from whence.cli.loading import pipeline_of
    from whence.cli.progress import bars
    from whence.cli.settings import method_written
    from whence.data.rows import spelling_of
    from whence.methods.registry import METHODS
    from whence.models.files import require_folder
    from whence.models.labels import labels_read
    from whence.render.colour import one_line
    from whence.trust.choose import LIMIT
    from whence.trust.evaluate import evaluate as evaluate_methods
    from whence.trust.evaluation import FILES

    if sst is not None and data is not None:
        raise InputError("--sst and --data are both given; the texts come from one of them")
    require_folder(output, FILES.__contains__)
    spelling = spelling_of(encoding, delimiter)
    table = None if data is None else _table(data, text, label, spelling)
    pipeline = pipeline_of(model)
    names = [each for given in method or [] for each in (METHODS if given == "all" else [given])]
    chosen: Any = [method_written(each) for each in names] or None
    targets = [each.value for each in target] if target else None
    limit = LIMIT if choose and limit is None else limit
    texts, labels = ([], []) if suite is Suite.ground_truth else table or _treebank(pipeline, sst)
    if texts and labels is None:
        note("there are no labels, so the predicted class of every text is explained; name their column by --label")
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
    if told := "" if data is None else labels_read(pipeline.classes, labels or ()):
        note(told)
    found.save(output)
    if found.results["accuracy"] is not None and len(pipeline.classes) > 1:
        print(_accuracy(found.results["texts"], found.results["accuracy"]))
    print(found)
    print(f"report: {one_line(str(output / 'report.html'))}")


def _table(data: Path, text: str | None, label: str | None, spelling: "Spelling") -> Samples:
    """The texts of a table and their labels; no labels if the user names no column of them and there is none."""
    from whence.data.rows import Columns

    columns = Columns(() if text is None else (text,), label=label)
    if label is not None:
        return _rows(data, columns, spelling)
    try:
        return _rows(data, replace(columns, label="label"), spelling)
    except DataError:
        return _rows(data, columns, spelling)


def _rows(data: Path, columns: "Columns", spelling: "Spelling") -> Samples:
    from whence.data.rows import read_file

    rows = list(read_file(data, columns, spelling=spelling))
    problem = next((row.problem for row in rows if row.problem), "" if rows else "it has no rows")
    if problem:
        raise DataError(f"{data}: {problem}")
    labels = [row.label for row in rows]
    return [row.content for row in rows], None if all(each is None for each in labels) else labels


def _treebank(pipeline: "Pipeline", sst: Path | None) -> Samples:
    """The test sentences of SST and their labels."""
    from whence.data.sst import CLASSES, find_sst, read_split

    if len(pipeline.classes) != len(CLASSES):
        raise InputError(f"{pipeline.name} has {len(pipeline.classes)} classes, SST {len(CLASSES)}; give texts by --data")
    trees = read_split(find_sst(sst), "test")
    return [tree.tokens for tree in trees], [tree.label for tree in trees]


def _accuracy(texts: int, accuracy: float) -> str:
    right = round(texts * accuracy)
    return f"accuracy {100 * accuracy:.1f} %: {right:,} of {texts:,} predictions are right, {texts - right:,} wrong"
