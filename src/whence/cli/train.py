"""`whence train`: trains a sentiment model on SST."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class CellName(StrEnum):
    """The recurrent cells."""

    lstm = "lstm"
    gru = "gru"
    rnn = "rnn"


class LevelName(StrEnum):
    """What the tokens of a model are."""

    word = "word"
    char = "char"


def train(
    output: Annotated[Path, typer.Option(help="The folder to save the model in; a stopped run resumes from there.")],
    sst: Annotated[Path | None, typer.Option(help="The folder of SST's tree files.")] = None,
    cell: Annotated[CellName, typer.Option(help="The recurrent cell.")] = CellName.lstm,
    level: Annotated[LevelName, typer.Option(help="Whether tokens are words or characters.")] = LevelName.word,
    vectors: Annotated[Path | None, typer.Option(help="Initial word vectors: GloVe-style text, or an npz file.")] = None,
    seed: Annotated[int, typer.Option(help="The random seed.")] = 0,
    epochs: Annotated[int | None, typer.Option(help="The number of epochs.", min=1)] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Train a sentiment model on the Stanford Sentiment Treebank."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from whence.data.sst import find_sst
    from whence.render.colour import one_line
    from whence.training.sst import train_sst

    folder = find_sst(sst)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[loss]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("training", total=None, loss="")
        pipeline = train_sst(
            folder,
            output,
            cell=cell.value,
            level=level.value,
            vectors=vectors,
            seed=seed,
            epochs=epochs,
            device=device,
            progress=lambda done, total, loss: bar.update(task, completed=done, total=total, loss=f"loss {loss:.3f}"),
            resumed=lambda epoch, epochs: print(
                one_line(f"resuming the run in {output} after epoch {epoch} of {epochs}"), file=sys.stderr
            ),
        )
    for split in ("dev", "test"):
        found = pipeline.record[split]
        binary = "" if found["binary"] is None else f", {100 * found['binary']:.1f} % binary"
        print(f"{split}: {100 * found['five']:.1f} % of five classes{binary}")
    print(f"saved in {one_line(str(output))}")
