"""`whence inspect`: what relevance will do in a model."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.loading import loaded
from whence.cli.streams import put, require_place
from whence.errors import InputError, ModelError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from whence.inspection import Inspection
    from whence.models.pipeline import Pipeline

SAMPLE = "neither funny nor suspenseful nor particularly well-drawn ."


class InspectionFormat(StrEnum):
    """The formats of an inspection."""

    terminal = "terminal"
    html = "html"
    json = "json"


def inspect(
    model: Annotated[str, typer.Option(help="A bundled model, the folder of a saved one, or package.module:factory.")],
    text: Annotated[str | None, typer.Option(help="For a model of texts: the text to run it on.")] = None,
    shape: Annotated[
        str | None, typer.Option(help="For a module: the shape of its input, such as 2,7,5; random numbers.")
    ] = None,
    ids: Annotated[str | None, typer.Option(help="For a module: the shape of its token ids, such as 2,7; random ids.")] = None,
    format: Annotated[InspectionFormat, typer.Option(help="The output format.")] = InspectionFormat.terminal,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of the terminal.")] = None,
) -> None:
    """Show what relevance will do in a model: rules, gates, what is absorbed, what is refused."""
    if output is not None:
        require_place(output)
    sizes = {name: _sizes(name, given) for name, given in (("--shape", shape), ("--ids", ids)) if given is not None}
    found = _inspected(model, text, sizes)
    if format == InspectionFormat.terminal and output is None:
        from rich.console import Console

        from whence.render.inspection import print_on

        print_on(Console(highlight=False), found)
        return
    from whence.render.inspection import FORMATS

    content = FORMATS[format](found).encode("utf-8", errors="replace")
    put(content, output)


def _sizes(name: str, given: str) -> tuple[int, ...]:
    """The sizes of a tensor, given as 2,7,5."""
    try:
        found = tuple(int(each) for each in given.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise InputError(f"{name} is {given!r}; give sizes of at least 1 with commas between them, such as 2,7,5")
    return found


def _inspected(name: str, text: str | None, sizes: dict[str, tuple[int, ...]]) -> "Inspection":
    from whence._inspect import inspect as inspect_model
    from whence.models.pipeline import Pipeline

    model = _loaded(name)
    if isinstance(model, Pipeline):
        if sizes:
            raise InputError(f"{name!r} reads texts; give --text instead of {' and '.join(sizes)}")
        return inspect_model(model, SAMPLE if text is None else text)
    if text is not None or len(sizes) != 1:
        raise InputError(
            f"{name!r} is a {type(model).__name__}, not a whence.Pipeline; give the shape of its input, by --shape 2,7,5 for "
            "numbers (samples, steps, features) or by --ids 2,7 for token ids"
        )
    inputs = _numbers(model, sizes["--shape"]) if "--shape" in sizes else _ids(model, sizes["--ids"])
    try:
        return inspect_model(model, inputs)
    except TypeError as error:
        raise ModelError(
            f"{name!r} cannot be called with one tensor ({error}); use whence.inspect(model, inputs, args=…) in Python"
        ) from error


def _loaded(model: str) -> "Pipeline | nn.Module":
    """What `--model` names, which has to be a pipeline or a module."""
    from torch import nn

    from whence.models.pipeline import Pipeline
    from whence.models.series import SeriesModel

    made = loaded(model)
    made = made.module if isinstance(made, SeriesModel) else made
    if not isinstance(made, (Pipeline, nn.Module)):
        raise ModelError(f"{model!r} returned a {type(made).__name__}; it must return a torch.nn.Module or a whence.Pipeline")
    return made


def _numbers(model: "nn.Module", shape: tuple[int, ...]) -> "Tensor":
    """Random numbers in the precision and on the device of the model; the same ones every time."""
    import torch

    weight = next((each for each in model.parameters() if each.is_floating_point()), torch.zeros(1))
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(weight.device, weight.dtype)


def _ids(model: "nn.Module", shape: tuple[int, ...]) -> "Tensor":
    """Random token ids that every table of the model has; the same ones every time."""
    import torch
    from torch import nn

    tables = [each for each in model.modules() if isinstance(each, (nn.Embedding, nn.EmbeddingBag))]
    if not tables:
        raise InputError("--ids is for a model with an nn.Embedding, and this one has none; give --shape")
    count = min(table.num_embeddings for table in tables)
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(0)).to(tables[0].weight.device)
