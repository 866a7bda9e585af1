"""`whence corpus`: explains whole corpora, and says what a model has learned from them."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any

import typer

from whence.cli.learned import register

corpus = typer.Typer(
    help="Explain whole corpora, and see what a model has learned.", no_args_is_help=True, rich_markup_mode=None
)


class Engine(StrEnum):
    """Where the work is done."""

    local = "local"
    ray = "ray"


class Split(StrEnum):
    """What a text is split into."""

    sentences = "sentences"


class InputFormat(StrEnum):
    """The format of the input, where its name does not say it."""

    text = "text"
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"
    parquet = "parquet"


@corpus.command()
def explain(
    source: Annotated[str, typer.Argument(metavar="IN", help="A file, a folder, a pattern in quotes, s3://…, or -.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder for the explained texts; also s3://….")],
    text: Annotated[str | None, typer.Option(help="The column of the texts; by default `text`, or the only one.")] = None,
    values: Annotated[
        list[str] | None, typer.Option(help="A column of a series' values, for a model of series. May be given several times.")
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="The column of the texts' ids.")] = None,
    label: Annotated[str | None, typer.Option(help="The column of the true classes, for whence corpus errors.")] = None,
    model: Annotated[
        str, typer.Option(help="A bundled model, the folder of a saved one, or package.module:factory.")
    ] = "sst-bilstm",
    method: Annotated[str, typer.Option(help="A method, also with settings: lrp, 'lrp(delta=1)', gi.")] = "lrp",
    target: Annotated[str, typer.Option(help="A class, predicted, or all.")] = "predicted",
    versus: Annotated[
        str | None, typer.Option(help="Explain the target's score minus that of this class, or of the rest.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ….")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; by default one for every core.")] = None,
    engine: Annotated[Engine, typer.Option(help="This machine, or a Ray cluster.")] = Engine.local,
    address: Annotated[str | None, typer.Option(help="Of an existing Ray cluster.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Throw away what OUT holds; by default it is completed.")] = False,
    input_format: Annotated[InputFormat | None, typer.Option(help="The format of IN, if its name does not say it.")] = None,
    encoding: Annotated[str | None, typer.Option(help="Of text, CSV and JSON Lines; UTF-8 by default.")] = None,
    delimiter: Annotated[str | None, typer.Option(help="What parts the fields of CSV; a comma by default.")] = None,
    split: Annotated[Split | None, typer.Option(help="Explain every sentence of a text by itself.")] = None,
    longest: Annotated[int, typer.Option(min=1, help="Texts with more tokens are rejected.")] = 2**15,
    part_rows: Annotated[int, typer.Option(min=1, help="Rows of the input in one file of OUT.")] = 8192,
) -> None:
    """Explain every row of IN into Parquet files in OUT. Called again, it goes on where it was stopped."""
    from whence.cli.loading import loaded
    from whence.cli.settings import method_written, target_written
    from whence.cli.streams import note
    from whence.corpus._explain import explain as explain_corpus
    from whence.corpus.layout import REJECTS
    from whence.corpus.places import shown
    from whence.errors import WhenceError
    from whence.models.pipeline import Pipeline
    from whence.render.colour import one_line

    found_model: Any = loaded(model)
    classes = found_model.classes if isinstance(found_model, Pipeline) else ()
    try:
        with _bar() as progress:
            found = explain_corpus(
                found_model,
                source,
                out,
                text=text,
                values=values or (),
                id=id,
                label=label,
                target=target_written(target, versus, classes),
                method=method_written(method),
                device=device,
                workers=workers,
                engine=engine.value,
                address=address,
                restart=restart,
                input_format=input_format.value if input_format else None,
                encoding=encoding,
                delimiter=delimiter,
                split=split.value if split else None,
                longest=longest,
                part_rows=part_rows,
                progress=progress,
            )
    except KeyboardInterrupt:
        note("what was done is kept; the same command goes on")
        raise
    skipped = [name for name in found["input"].get("skipped", []) if not name.startswith((".", "_"))]
    if skipped:
        some = ", ".join(skipped[:3]) + (", …" if len(skipped) > 3 else "")
        note(f"{len(skipped):,} files were not read, as they are no files of a known suffix: {some}")
    print(f"{found['explained']:,} of {found['rows']:,} rows explained in {one_line(shown(out))}")
    asked = found.get("model_check", {"in_doubt": 0})
    if asked["in_doubt"]:
        first = asked["first"]
        note(f"in doubt: {asked['in_doubt']} of the first {asked['rows']} rows; row {first['row']}: {first['doubt']}")
    if found["rejected"]:
        print(f"{found['rejected']:,} rejected, with reasons in {REJECTS}:")
        for reason, count in list(found["reasons"].items())[:5]:
            print(f"  {count:,} × {one_line(reason)}")
    if found["rows"] and not found["explained"]:
        raise WhenceError(f"no row of {shown(source)} could be explained; {REJECTS} says why")


@contextmanager
def _bar() -> Generator[Callable[[int, int, int | None], None]]:
    """A bar that gets the rows done, and how far the input is read; its time left follows from the rows done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns: list[Any] = [
        TextColumn("{task.fields[rows]:,} rows"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, rows=0, rate="")
        began: list[int] = []

        def progress(rows: int, read: int, size: int | None) -> None:
            began.append(rows) if not began else None
            elapsed = bar.tasks[0].elapsed or 0
            rate = f"{(rows - began[0]) / elapsed:,.0f} rows/s" if elapsed > 1 and rows > began[0] else ""
            bar.update(task, completed=read, total=size, rows=rows, rate=rate)

        yield progress


register(corpus)
