"""`whence explain`: explains texts, in any of the output formats."""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.streams import note, require_place, write_file
from whence.errors import InputError, ModelError

if TYPE_CHECKING:
    from whence.explanation import Explanation
    from whence.methods.method import Method
    from whence.models.pipeline import Pipeline


class Format(StrEnum):
    """The output formats."""

    terminal = "terminal"
    html = "html"
    json = "json"
    latex = "latex"
    svg = "svg"


class MethodName(StrEnum):
    """The methods by their short names."""

    lrp = "lrp"
    sa = "sa"
    gi = "gi"


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
    epsilon: Annotated[float, typer.Option(help="LRP's stabiliser.")] = 1e-3,
    delta: Annotated[float, typer.Option(help="The fraction of the biases that LRP distributes to the inputs.")] = 0.0,
    product: Annotated[ProductName, typer.Option(help="LRP's rule for products with gates.")] = ProductName.all,
    format: Annotated[Format, typer.Option(help="The output format.")] = Format.terminal,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
) -> None:
    """Show which words spoke for a decision and which against it."""
    if output is not None:
        require_place(output)
    names = method or [MethodName.lrp]
    _note_idle_settings(context, names)
    given = _texts(texts, file)
    methods = _methods(names, epsilon, delta, product)
    pipeline = pipeline_of(model)
    from whence._explain import explain as explain_texts

    is_number = re.fullmatch(r"-?[0-9]{1,9}", target) is not None and target not in pipeline.classes
    chosen = int(target) if is_number else target
    by_method = [explain_texts(pipeline, given, target=chosen, method=each) for each in methods]
    per_text = len(by_method[0]) // len(given)
    groups = [[e for found in by_method for e in found[n * per_text : (n + 1) * per_text]] for n in range(len(given))]
    _print(groups, format, output)


def _note_idle_settings(context: typer.Context, names: list[MethodName]) -> None:
    """Note which of LRP's settings have no effect with the chosen methods."""
    sources = {name: context.get_parameter_source(name) for name in ("epsilon", "delta", "product")}
    given = [f"--{name}" for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given and MethodName.lrp not in names:
        others = " and ".join(dict.fromkeys(f"--method {name.value}" for name in names))
        note(f"{', '.join(given)}: no effect with {others}, only with --method lrp")


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


def _methods(names: list[MethodName], epsilon: float, delta: float, product: ProductName) -> "list[Method]":
    from whence.methods.gradient_input import GradientXInput
    from whence.methods.lrp import LRP
    from whence.methods.sensitivity import SensitivityAnalysis

    made = {
        "lrp": lambda: LRP(epsilon=epsilon, delta=delta, product=product.value),
        "sa": SensitivityAnalysis,
        "gi": GradientXInput,
    }
    return [made[name]() for name in names]


def pipeline_of(model: str) -> "Pipeline":
    """A bundled or saved pipeline, or what the user's own factory returns."""
    from whence.models.bundled import load_any
    from whence.models.pipeline import Pipeline

    module, _, factory = model.partition(":")
    if not factory or os.path.exists(model):
        return load_any(model)
    import importlib

    sys.path.insert(0, "")
    try:
        made = getattr(importlib.import_module(module), factory)()
    except ImportError as error:
        raise ModelError(f"{model!r} cannot be imported: {error}") from None
    except Exception as error:
        raise ModelError(f"{model!r} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, Pipeline):
        raise ModelError(f"{model!r} returned a {type(made).__name__}; it must return a whence.Pipeline")
    return made


def _print(groups: "list[list[Explanation]]", format: Format, output: Path | None) -> None:
    if format is Format.terminal and output is None:
        from rich.console import Console

        from whence.render.terminal import print_on

        console = Console(highlight=False)
        for n, group in enumerate(groups):
            if n:
                console.rule(style="dim")
            print_on(console, group)
        return
    content = _rendered(groups, format)
    if output is None:
        sys.stdout.buffer.write(content.encode("utf-8", errors="replace"))
        sys.stdout.flush()
    else:
        write_file(output, content.encode("utf-8", errors="replace"))


def _rendered(groups: "list[list[Explanation]]", format: Format) -> str:
    everything = [explanation for group in groups for explanation in group]
    if format is Format.json:
        return "".join(json.dumps(explanation.to_dict(), allow_nan=False) + "\n" for explanation in everything)
    if format is Format.html:
        from whence.render.html import page

        return page(groups)
    if format is Format.latex:
        from whence.render.latex import latex

        return latex(everything)
    if format is Format.svg:
        from whence.render.svg import svg

        if len(everything) != 1:
            raise InputError(
                f"an SVG image shows one explanation, but there are {len(everything)}; use --format html for several"
            )
        return svg(everything[0])
    from whence.render.terminal import terminal

    return "".join(terminal(explanation, colour=False, width=100) for explanation in everything)
