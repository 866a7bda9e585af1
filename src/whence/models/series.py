"""`SeriesModel`: a module that reads numbers step by step, the names and scales of what it reads and gives, and its files."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from whence.errors import DataError, ModelError
from whence.models.architectures import architecture_of, require_no_module, restored
from whence.models.classifier import CELLS
from whence.models.forecaster import Forecaster, ForecasterArchitecture
from whence.models.saved import (
    LARGEST_TEXT,
    UNNAMED,
    load_weights,
    read_config,
    read_files,
    refusing,
    require_hashes,
    require_known,
    require_size,
    weight_bytes,
    write_files,
)
from whence.models.table import Table, read_table
from whence.quoting import quoted

FILES = ("config.json", "model.safetensors", "example.csv")
WORDS = ("unit", "step", "description")
NAMES = ("features", "outputs")
NUMBERS = {"feature_centre": "features", "feature_scale": "features", "output_centre": "outputs", "output_scale": "outputs"}


@dataclass(frozen=True, eq=False)
class SeriesModel:
    """A module that reads series (B, T, F) of floats, and what its numbers mean.

    The module reads (value − centre) / scale of every feature; with z what it gives, an output is centre + scale · z. Without
    them, centres are 0 and scales 1. A feature at its centre is 0 for the module, which LRP takes as "nothing there": choose a
    value that says nothing of interest, such as the mean, or no rain.

    Without `features`, the module may read any number of them. Without `outputs`, they are numbered. `unit` is that of the
    outputs, `step` what a step is, such as "day", and `example` CSV text with the features as columns, perhaps after a column
    of labels.
    """

    module: nn.Module
    features: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    name: str = UNNAMED
    unit: str = ""
    step: str = "step"
    feature_centre: tuple[float, ...] = ()
    feature_scale: tuple[float, ...] = ()
    output_centre: tuple[float, ...] = ()
    output_scale: tuple[float, ...] = ()
    example: str = ""
    description: str = ""
    record: Mapping[str, Any] = field(default_factory=dict[str, Any])  # how it was trained, and how well it does

    def __post_init__(self) -> None:
        if not isinstance(self.module, nn.Module):
            raise ModelError(f"module is a {type(self.module).__name__}; it must be a torch.nn.Module")
        for name in ("name", "example", *WORDS):
            if not isinstance(getattr(self, name), str):
                raise ModelError(f"{name} is {quoted(getattr(self, name))}; it must be a text")
        for name in NAMES:
            object.__setattr__(self, name, _names(name, getattr(self, name)))
        for name, of in NUMBERS.items():
            object.__setattr__(self, name, _numbers(name, getattr(self, name), of, len(getattr(self, of))))
        if self.example:
            try:
                self.example_table()
            except DataError as error:
                raise ModelError(f"the example cannot be read: {error}") from None

    def example_table(self) -> Table:
        """The example's numbers, the names of its columns and its labels."""
        return read_table(self.example, features=self.features)

    def save(self, directory: str | Path) -> None:
        """Write the model's three files, each completely or not at all."""
        module = self.module
        if type(module) is Forecaster:
            sizes = module.architecture
            if (sizes.features, sizes.outputs) != (len(self.features), len(self.outputs)):
                raise ModelError(
                    f"the model names {len(self.features)} features and {len(self.outputs)} outputs; "
                    f"to be saved it must name all {sizes.features} and {sizes.outputs} of the module"
                )
        architecture = module.architecture.settings() if type(module) is Forecaster else architecture_of(module)
        config: dict[str, object] = {"format": 1, "kind": "series", "architecture": architecture}
        config |= {name: getattr(self, name) for name in (*NAMES, *NUMBERS, *WORDS)}
        config["training"] = dict(self.record)
        try:
            example = self.example.encode()
        except UnicodeEncodeError as error:
            raise ModelError(f"the example holds {error.object[error.start]!r}, which is no character") from None
        write_files(Path(directory), config, {"example.csv": example, "model.safetensors": weight_bytes(module)})


def load_series_model(directory: str | Path, *, name: str | None = None, module: nn.Module | None = None) -> SeriesModel:
    """Load a saved series model; files that do not belong together are refused."""
    folder = Path(directory)
    path = folder / "config.json"
    config_bytes, weights, example = read_files(folder, FILES, kind="series model")
    config = read_config(path, config_bytes, kind="series model")
    with refusing(path, kind="series model"):
        if config["kind"] != "series":
            raise ValueError(f"its kind is {quoted(config['kind'])}")
        settings = dict(config["architecture"])
        architecture = ForecasterArchitecture(**settings) if "kind" not in settings else None
        texts = {key: config[key] for key in (*NAMES, *NUMBERS, *WORDS)}
    with refusing(folder / "example.csv", kind="series model"):
        if len(example) > LARGEST_TEXT:
            raise ValueError(f"it has {len(example)} bytes; at most {LARGEST_TEXT} are read")
        text = example.decode("utf-8")
    files = {"example.csv": example, "model.safetensors": weights}
    if architecture is None:
        require_hashes(folder, config, files)
        found = restored(folder, settings, weights, given=module, kind="series model")
    else:
        require_no_module(folder, module)
        found = _forecaster(folder, architecture, weights)
        require_hashes(folder, config, files)
    record = cast(dict[str, Any], config.get("training") or {})
    try:
        model = SeriesModel(found.eval(), name=name or folder.name, example=text, record=record, **texts)
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from None
    if architecture and (len(model.features), len(model.outputs)) != (architecture.features, architecture.outputs):
        raise ModelError(
            f"{path} names {len(model.features)} features and {len(model.outputs)} outputs; "
            f"the module has {architecture.features} and {architecture.outputs}"
        )
    return model


def _forecaster(folder: Path, architecture: ForecasterArchitecture, weights: bytes) -> Forecaster:
    """A forecaster of these sizes, with the weights of the file."""
    for key in ("features", "outputs", "hidden"):
        require_size(folder / "config.json", key, getattr(architecture, key), largest=10**4)
    require_known(folder / "config.json", "cell", architecture.cell, CELLS)
    with torch.device("meta"):
        module = Forecaster(architecture)
    load_weights(module, folder / "model.safetensors", weights)
    return module


def _names(name: str, given: object) -> tuple[str, ...]:
    names = tuple(cast(Sequence[object], given)) if isinstance(given, (tuple, list)) else (None,)
    if not all(isinstance(each, str) and each for each in names) or len(set(names)) != len(names):
        raise ModelError(f"{name} are {quoted(cast(object, given))}; give different names, or none")
    return cast(tuple[str, ...], names)


def _numbers(name: str, given: object, of: str, count: int) -> tuple[float, ...]:
    numbers = list(cast(Sequence[object], given)) if isinstance(given, (tuple, list)) else [None]
    is_scale = name.endswith("scale")
    if not numbers:
        return (1.0 if is_scale else 0.0,) * count
    if len(numbers) != count:
        raise ModelError(f"{name} has {len(numbers)} numbers; give one for each of {count} {of}, or none")
    for each in numbers:
        if isinstance(each, bool) or not isinstance(each, (int, float)) or not _is_finite(each) or (is_scale and each <= 0):
            raise ModelError(f"{name} holds {quoted(each)}; give finite numbers{' above 0' if is_scale else ''}")
    return tuple(float(cast(float, each)) for each in numbers)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number that no float can hold
        return False
