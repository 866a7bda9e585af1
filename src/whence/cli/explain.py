"""`whence explain`: explains texts, in any of the output formats."""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from whence.cli.loading import pipeline_of
from whence.cli.progress import counting
from whence.cli.settings import method_name, method_written, target_written, value_of
from whence.cli.streams import note, opened, require_place
from whence.errors import DataError, InputError
from whence.explanation import Explanation
from whence.methods.registry import METHODS
from whence.render.formats import FORMATS, TABLES, format_of, write_pieces

if TYPE_CHECKING:
    from whence._explain import Targets
    from whence.data.rows import Columns, Spelling
    from whence.methods.method import Method
    from whence.models.pipeline import Pipeline

    FormatName = str
else:  # the names in the registries, as typer checks and lists them
    FormatName = StrEnum("FormatName", {name: name for name in FORMATS | TABLES})


TERMINAL = FormatName("terminal")
Group = list[Explanation]  # of one text
REASONS = 5  # that a note lists
FIRST, MOST = 64, 4096  # texts that are explained at a time: the first few, so that something is seen soon, and then more


class ProductName(StrEnum):
    """The rules for products."""

    all = "all"
    half = "half"
    prop = "prop"
    abs = "abs"


def explain(
    context: typer.Context,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts to explain; by default, the lines of standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="A table (.csv, .tsv, .jsonl, .parquet), or a file with one text per line.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="The table's column of texts; by default text, or its only one.")] = None,
    label: Annotated[str | None, typer.Option(help="The table's column of true classes, which are shown too.")] = None,
    encoding: Annotated[str, typer.Option(help="How the file's texts are encoded.")] = "utf-8",
    delimiter: Annotated[str, typer.Option(help="What parts the fields of CSV.")] = ",",
    model: Annotated[
        str, typer.Option(help="A bundled model, the folder of a saved one, or package.module:factory.")
    ] = "sst-bilstm",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help=f"A method, also with settings, such as 'lrp(delta=1)'; may be given several times: {', '.join(METHODS)}.",
            show_default="lrp",
        ),
    ] = None,
    target: Annotated[str, typer.Option(help="A class by name or number, predicted, or all.")] = "predicted",
    versus: Annotated[
        str | None, typer.Option(help='A class, or "rest": what speaks for the target rather than for that.')
    ] = None,
    epsilon: Annotated[float, typer.Option(help="LRP's stabiliser.")] = 1e-3,
    delta: Annotated[float, typer.Option(help="The fraction of the biases that LRP distributes to the inputs.")] = 0.0,
    product: Annotated[ProductName, typer.Option(help="LRP's rule for products with gates.")] = ProductName.all,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of a method, as name=value; may be given several times."),
    ] = None,
    by_word: Annotated[bool, typer.Option("--by-word", help="Add up the characters, or pieces, of every word.")] = False,
    format: Annotated[
        FormatName | None, typer.Option(help="The output format; by default, what the suffix of --output says.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
) -> None:
    """Show which words spoke for a decision and which against it."""
    if output is not None:
        require_place(output)
    chosen_format = format or (TERMINAL if output is None else format_of(output))
    written = method or ["lrp"]
    names = [method_name(each) for each in written]
    settings: dict[str, object] = {"epsilon": epsilon, "delta": delta, "product": product.value}
    _note_idle_settings(context, names, list(settings))
    settings |= dict(_setting(each, names) for each in setting or [])
    methods = [method_written(each, settings) for each in written]
    from whence.data.rows import Columns, spelling_of
    from whence.models.labels import labels_read

    if file is not None and output is not None and output.exists() and output.samefile(file):
        raise InputError(f"{output} is the file that is read; write to another one")
    spelling = spelling_of(encoding, delimiter)
    given = _given(texts or [], file, Columns(() if text is None else (text,), label=label), spelling)
    first = next(given, None)  # before the model is loaded: a call without a text should fail at once
    if first is None:
        raise InputError("there is no text: all lines are empty" if file is None else f"{file} holds no text")
    pipeline = pipeline_of(model)
    chosen = target_written(target, versus, pipeline.classes)
    counted = Counted()
    with counting(output is not None) as progress:

        def explained(piece: list[Given]) -> list[Group]:
            counted.labels |= {each.label for each in piece if each.label is not None and len(counted.labels) < MOST}
            return _explained(pipeline, piece, chosen, methods, by_word=by_word, sound=counted.texts > counted.failed)

        pieces = _pieces(chain([first], given), explained)
        passing = counted(pieces, progress)
        if chosen_format == TERMINAL and output is None:
            _print(passing, counted)
        else:
            with opened(output) as stream:
                write_pieces(stream, passing, chosen_format, is_terminal=output is None and sys.stdout.isatty())
    if counted.failed == counted.texts:
        raise InputError(next(iter(counted.reasons)) if counted.texts == 1 else f"no text could be explained: {counted.told()}")
    if told := labels_read(pipeline.classes, counted.labels):
        note(told)
    if counted.failed:
        note(f"{counted.failed:,} of {counted.texts:,} texts could not be explained: {counted.told()}")


def _note_idle_settings(context: typer.Context, names: list[str], settings: list[str]) -> None:
    """Note which settings that were given have no effect with the chosen methods."""
    from whence.methods.registry import settings_of

    sources = {name: context.get_parameter_source(name) for name in settings}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    idle = [name for name in given if not any(name in settings_of(method) for method in names)]
    if idle:
        others = " and ".join(dict.fromkeys(f"--method {name}" for name in names))
        takers = " or ".join(f"--method {method}" for method in METHODS if any(name in settings_of(method) for name in idle))
        note(f"{', '.join(f'--{name}' for name in idle)}: no effect with {others}, only with {takers}")


def _setting(given: str, names: list[str]) -> tuple[str, object]:
    """A setting that is given as name=value, if one of the chosen methods has it; a value is a number where it reads as one."""
    from whence.methods.registry import settings_of

    name, sign, value = given.partition("=")
    known = list(dict.fromkeys(each for method in names for each in settings_of(method)))
    if not sign or name not in known:
        has = f"has the settings {', '.join(known)}" if known else "has no settings"
        raise InputError(f"--set {given}: --method {' and '.join(names)} {has}; give one as name=value")
    return name, value_of(value)


class Given(NamedTuple):
    """A text to explain, where it came from, and its true class if that is known."""

    content: object
    row: int | None = None
    label: str | None = None
    problem: str = ""


def _given(texts: list[str], file: Path | None, columns: "Columns", spelling: "Spelling") -> Iterator[Given]:
    """The texts of a call: its arguments, then the rows of a file or else the lines of standard input."""
    if file is None and (columns.content or columns.label):
        raise InputError("--text and --label name columns of a table; give it by --file")
    for text in filter(os.path.isfile, texts):
        note(f"{text!r} is explained as a text; to explain the lines of the file of that name, give --file {shlex.quote(text)}")
    yield from map(Given, texts)
    if file is None and texts:
        return
    if file is None and sys.stdin.isatty():
        raise InputError("there is no text; give one as an argument, by --file, or on standard input")
    yield from _rows(file, columns, spelling)


def _rows(file: Path | None, columns: "Columns", spelling: "Spelling") -> Iterator[Given]:
    from whence.data.rows import format_of, read_file, read_rows

    is_text = file is None or format_of(file.name) in (None, "text")
    if is_text and (columns.content or columns.label):
        raise InputError(f"{file} is read as lines of text, which have no columns; a table is .csv, .tsv, .jsonl or .parquet")
    try:
        rows = (
            read_rows(lambda: sys.stdin.buffer, "standard input", "text", columns, spelling)
            if file is None
            else read_file(file, columns, other="text", spelling=spelling)
        )
        for number, row in enumerate(rows):
            if is_text and isinstance(row.content, str) and not row.problem and not row.content.strip():
                continue  # an empty line between texts
            if is_text and isinstance(row.content, str) and "\0" in row.content:
                raise InputError(f"{file or 'standard input'} is a binary file; it must have one text per line")
            yield Given(row.content, number, row.label, row.problem)
    except DataError as error:
        raise InputError(str(error)) from None


def _pieces(given: Iterable[Given], explained: Callable[[list[Given]], list[Group]]) -> Iterator[list[Group]]:
    """The explanations of some texts at a time, so that the first are there soon and memory is bounded."""
    rest = iter(given)
    size = FIRST
    while piece := list(islice(rest, size)):
        yield explained(piece)
        size = min(4 * size, MOST)


def _explained(
    pipeline: "Pipeline", piece: list[Given], target: "Targets", methods: "Sequence[Method]", *, by_word: bool, sound: bool
) -> list[Group]:
    """For every text its explanations: one for every method, and for every class if all were asked for."""
    from whence._explain import explain_column

    contents = [None if each.problem else each.content for each in piece]
    labels = [each.label for each in piece]
    groups: list[Group] = [[] for _ in piece]
    for method in methods:
        found = explain_column(pipeline, contents, target=target, method=method, labels=labels, sound=sound, check="model")
        for explanation in found.by_word() if by_word else found:
            place = explanation.row or 0
            if not (explanation.error and groups[place]):  # once is enough
                own = piece[place]
                error = own.problem or explanation.error
                groups[place].append(replace(explanation, row=own.row, error=error))
    return groups


class Counted:
    """Counts the texts that could not be explained while they pass, and gathers their labels."""

    def __init__(self) -> None:
        self.texts = self.failed = 0
        self.reasons = Counter[str]()
        self.labels = set[str]()  # the different ones, if they are not too many

    def __call__(self, pieces: Iterable[list[Group]], progress: Callable[[int], None]) -> Iterator[list[Group]]:
        for groups in pieces:
            failures = [group[0].error for group in groups if group[0].error]
            self.reasons.update(failures)
            self.texts, self.failed = self.texts + len(groups), self.failed + len(failures)
            progress(self.texts)
            yield groups

    def told(self) -> str:
        """The most frequent reasons, with their numbers."""
        listed = "; ".join(f"{count:,} × {reason}" for reason, count in self.reasons.most_common(REASONS))
        return listed + ("; …" if len(self.reasons) > REASONS else "")


def _print(pieces: Iterable[list[Group]], counted: Counted) -> None:
    """Show explanations on the terminal as they come; where a single text fails, the error of the command says so."""
    from rich.console import Console

    from whence.render.terminal import print_on

    console = Console(highlight=False)
    for n, group in enumerate(group for groups in pieces for group in groups if counted.texts > 1 or not group[0].error):
        if n:
            console.rule(style="dim")
        print_on(console, group)
