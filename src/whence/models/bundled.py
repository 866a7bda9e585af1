"""The models that come with whence: their names and the folders of their files."""

import json
import os
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, overload

from torch import nn

from whence.errors import ModelError
from whence.models.pipeline import Config, Pipeline, load_pipeline
from whence.models.saved import read_files, refusing
from whence.models.series import SeriesModel, load_series_model
from whence.quoting import quoted

NAMES = ("sst-bilstm", "sst-bigru", "sst-char-gru")  # models of texts
SERIES = ("river-lstm",)  # models of series


def directory(name: str) -> Path:
    """The folder of a bundled model's files."""
    return Path(str(files("whence.models") / "bundle" / name))


@overload
def load(model: Literal["sst-bilstm", "sst-bigru", "sst-char-gru"]) -> Pipeline: ...
@overload
def load(model: Literal["river-lstm"]) -> SeriesModel: ...
@overload
def load(
    model: str | Path, module: nn.Module | None = ..., tokenizer: object = ...
) -> Any: ...  # Any, not a union: who loads a folder knows what was saved in it
def load(model: str | Path, module: nn.Module | None = None, tokenizer: object = None) -> Pipeline | SeriesModel:
    """Load a bundled model by its name, or a saved one from its folder: a `Pipeline`, or a `SeriesModel`.

    `module` and `tokenizer` are for folders saved with a module or a tokenizer of your own, which are code and not in the
    folder: the module, whose weights are replaced by those in the folder, and the tokenizer.
    """
    name = str(model) if str(model) in (*NAMES, *SERIES) else None
    if name is None and not os.path.isdir(model):  # unlike Path.is_dir, False for an invalid name too
        bundled = ", ".join((*NAMES, *SERIES))
        raise ModelError(f"there is no model {quoted(str(model))}; bundled are {bundled}, or give the folder of a saved one")
    folder = Path(model) if name is None else directory(name)
    if not _is_series(folder):
        return load_pipeline(folder, name=name, module=module, tokenizer=tokenizer)
    if tokenizer is not None:
        raise ModelError(f"{folder} holds a model of series, which has no tokenizer; leave out tokenizer=")
    return load_series_model(folder, name=name, module=module)


def load_any(model: str | Path) -> Pipeline:
    """Load a bundled pipeline by its name, or a saved one from its folder."""
    return require_pipeline(load(model), str(model))


def require_pipeline(model: object, name: str) -> Pipeline:
    """A model that reads texts; others are refused."""
    if isinstance(model, SeriesModel):
        raise ModelError(
            f"{quoted(name)} reads series of numbers, not texts; explain it with whence.explain_series in Python, "
            "or on the page of whence serve"
        )
    if not isinstance(model, Pipeline):
        raise ModelError(f"{quoted(name)} returned a {type(model).__name__}; it must return a whence.Pipeline")
    return model


def _is_series(folder: Path) -> bool:
    """Whether config.json says so; one that cannot be read is reported by `load_pipeline`."""
    with suppress(ModelError), refusing(folder / "config.json", kind="model"):
        (content,) = read_files(folder, ["config.json"], kind="model")
        return json.loads(content)["kind"] == "series"
    return False


def records() -> dict[str, Config]:
    """The config.json of each bundled model of texts, without loading any weights."""
    return {name: json.loads((directory(name) / "config.json").read_text(encoding="utf-8")) for name in NAMES}


def series_records() -> dict[str, dict[str, Any]]:
    """The config.json of each bundled model of series, without loading any weights."""
    return {name: json.loads((directory(name) / "config.json").read_text(encoding="utf-8")) for name in SERIES}
