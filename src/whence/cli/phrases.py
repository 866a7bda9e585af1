"""`whence phrases`: what phrases of a text give to a score, as a tree or, for given ones, as a table."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.loading import pipeline_of
from whence.cli.settings import target_written
from whence.cli.streams import put, require_place
from whence.methods.registry import METHODS

if TYPE_CHECKING:
    MethodName = str
else:  # the names in the registry, as typer checks and lists them
    MethodName = StrEnum("MethodName", {name: name for name in METHODS})


class PhraseFormat(StrEnum):
    """The formats of phrases."""

    terminal = "terminal"
    html = "html"
    svg = "svg"
    json = "json"


CD = MethodName("cd")


def phrases(
    text: Annotated[str, typer.Argument(help="The text.")],
    span: Annotated[
        list[str] | None,
        typer.Option(help="A piece of the text; may be given several times. Without it, a tree of all phrases is drawn."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="A bundled model, the folder of a saved one, or package.module:factory.")
    ] = "sst-bilstm",
    method: Annotated[
        MethodName, typer.Option(help="cd gives every phrase a score of its own; other methods add up words, for --span.")
    ] = CD,
    target: Annotated[str, typer.Option(help="A class by name or number, or predicted.")] = "predicted",
    versus: Annotated[
        str | None, typer.Option(help='A class, or "rest": what speaks for the target rather than for that.')
    ] = None,
    format: Annotated[PhraseFormat, typer.Option(help="The output format.")] = PhraseFormat.terminal,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
) -> None:
    """Show what phrases give to a score, such as a negation together with what it negates."""
    if output is not None:
        require_place(output)
    pipeline = pipeline_of(model)
    from whence._phrases import phrase_tree
    from whence._phrases import phrases as score_phrases

    chosen = target_written(target, versus, pipeline.classes)
    if span:
        found = score_phrases(pipeline, text, span, target=chosen, method=str(method))
    else:
        found = phrase_tree(pipeline, text, target=chosen, method=str(method))
    if format == PhraseFormat.terminal and output is None:
        from rich.console import Console

        from whence.render.phrases import print_on

        print_on(Console(highlight=False), found)
        return
    from whence.render.phrases import FORMATS

    content = FORMATS[format](found).encode("utf-8", errors="replace")
    put(content, output)
