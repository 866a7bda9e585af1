"""`whence explain`: explains texts, in any of the output formats."""

import os
import shlex
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.loading import pipeline_of
from whence.cli.settings import method_with, target_written, value_of
from whence.cli.streams import note, require_place, write_file
from whence.errors import InputError
from whence.methods.registry import METHODS
from whence.render.formats import FORMATS, rendered

if TYPE_CHECKING:
    from whence.explanation import Explanation

    MethodName = str
    FormatName = str
else:  # the names in the registries, as typer checks and lists them
    MethodName = StrEnum("MethodName", {name: name for name in METHODS})
    FormatName = StrEnum("FormatName", {name: name for name in FORMATS})


TERMINAL = FormatName("terminal")


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
    file: Annotated[Path | None, typer.Option(help="A file with one text per line.")] = None,
    model: Annotated[
        str, typer.Option(help="A bundled model, the folder of a saved one, or package.module:factory.")
    ] = "sst-bilstm",
    method: Annotated[list[MethodName] | None, typer.Option(help="The method; may be given several times.")] = None,
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
    format: Annotated[FormatName, typer.Option(help="The output format.")] = TERMINAL,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
) -> None:
    """Show which words spoke for a decision and which against it."""
    if output is not None:
        require_place(output)
    names = method or ["lrp"]
    given = _texts(texts, file)
    settings: dict[str, object] = {"epsilon": epsilon, "delta": delta, "product": product.value}
    _note_idle_settings(context, names, list(settings))
    settings |= dict(_setting(each, names) for each in setting or [])
    methods = [method_with(name, settings) for name in names]
    pipeline = pipeline_of(model)
    from whence._explain import explain as explain_texts

    chosen = target_written(target, versus, pipeline.classes)
    by_method = [explain_texts(pipeline, given, target=chosen, method=each) for each in methods]
    by_method = [each.by_word() for each in by_method] if by_word else by_method
    per_text = len(by_method[0]) // len(given)
    groups = [[e for found in by_method for e in found[n * per_text : (n + 1) * per_text]] for n in range(len(given))]
    _print(groups, format, output)


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


def _texts(texts: list[str] | None, file: Path | None) -> list[str]:
    given = list(texts or [])
    for text in filter(os.path.isfile, given):
        note(f"{text!r} is explained as a text; to explain the lines of the file of that name, give --file {shlex.quote(text)}")
    if file is not None:
        given += _lines(file.read_bytes, str(file))
    elif not given:
        if sys.stdin.isatty():
            raise InputError("there is no text; give one as an argument, by --file, or on standard input")
        given = _lines(sys.stdin.buffer.read, "standard input")
    if not given:
        raise InputError("there is no text: all lines are empty")
    return given


def _lines(read: Callable[[], bytes], name: str) -> list[str]:
    try:
        content = read()
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror}") from None
    return [line for line in _decoded(content, name).split("\n") if line.strip()]


def _decoded(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text (byte {error.start}); it must have one text per line") from None
    text = text.replace("\r\n", "\n")
    if "\0" in text:
        raise InputError(f"{name} is a binary file; it must have one text per line")
    return text


def _print(groups: "list[list[Explanation]]", format: str, output: Path | None) -> None:
    if format == TERMINAL and output is None:
        from rich.console import Console

        from whence.render.terminal import print_on

        console = Console(highlight=False)
        for n, group in enumerate(groups):
            if n:
                console.rule(style="dim")
            print_on(console, group)
        return
    content = rendered(groups, format).encode("utf-8", errors="replace")
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    else:
        write_file(output, content)
