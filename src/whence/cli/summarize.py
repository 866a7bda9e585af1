"""`whence summarize`: the sentences, or spans of words, of a document that carry the decision."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from whence.cli.loading import pipeline_of
from whence.cli.settings import method_written, target_written
from whence.cli.streams import note, put, require_place
from whence.errors import InputError

MOST_BYTES = 2**22  # of a file; a document that can be summarized is smaller


class SummaryFormat(StrEnum):
    """The formats of a summary."""

    text = "text"
    terminal = "terminal"
    html = "html"
    json = "json"


class UnitName(StrEnum):
    """What a summary is made of."""

    sentence = "sentence"
    span = "span"


class ByName(StrEnum):
    """What the model reads at a time when relevance is computed."""

    sentence = "sentence"
    document = "document"


def summarize(
    file: Annotated[str, typer.Argument(help="A text file, or - for standard input.")],
    budget: Annotated[float, typer.Option(help="The largest share of the document's words that is kept.")] = 0.3,
    unit: Annotated[UnitName, typer.Option(help="Keep whole sentences, or spans of words.")] = UnitName.sentence,
    by: Annotated[ByName, typer.Option(help="Explain every sentence on its own, or the document at once.")] = ByName.sentence,
    model: Annotated[
        str, typer.Option(help="A bundled model, the folder of a saved one, or package.module:factory.")
    ] = "sst-bilstm",
    method: Annotated[str, typer.Option(help="The method, with settings in brackets if there are any.")] = "lrp(delta=1)",
    target: Annotated[
        str | None, typer.Option(help="A class by name or number, or predicted; by default, what keeps the decision.")
    ] = None,
    versus: Annotated[
        str | None, typer.Option(help='A class, or "rest": what speaks for the target rather than for that.')
    ] = None,
    format: Annotated[SummaryFormat, typer.Option(help="The output format.")] = SummaryFormat.terminal,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
) -> None:
    """Show the sentences of a document that carry the decision, and what is decided on these alone."""
    if output is not None:
        require_place(output)
    text = _document(file)
    chosen = method_written(method)
    pipeline = pipeline_of(model)
    from whence._summary import summarize as summary_of

    is_given = target is not None or versus is not None
    question = target_written(target or "predicted", versus, pipeline.classes) if is_given else None
    found = summary_of(pipeline, text, budget, unit=unit.value, by=by.value, target=question, method=chosen)
    if found.unit != unit:
        note(f"no sentence for {found.target} fits into {100 * budget:g} % of the words, so spans of words are kept")
    if not found.share and by == ByName.sentence:
        note(f"no sentence speaks for {found.target} on its own; --by document explains the document at once")
    if format == SummaryFormat.terminal and output is None:
        from rich.console import Console

        from whence.render.summaries import print_on

        print_on(Console(highlight=False), found)
        return
    from whence.render.summaries import FORMATS

    put(FORMATS[format](found).encode("utf-8", errors="replace"), output)


def _document(file: str) -> str:
    """The text of a file, or of standard input."""
    name = "standard input" if file == "-" else file
    try:
        if file == "-":
            content = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with open(file, "rb") as opened:
                content = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{name!r} cannot be read: {error}") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"{name} has more than {MOST_BYTES} bytes, too much for one document; give a part of it")
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text (byte {error.start}); give a text file") from None
    if "\0" in text:
        raise InputError(f"{name} is a binary file; give a text file")
    if not text.strip():
        raise InputError(f"{name} is empty: there is no word to summarize")
    return text
