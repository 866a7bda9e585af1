"""The models that come with whence: their names and the folders of their files."""

import json
import os
from importlib.resources import files
from pathlib import Path

from whence.errors import ModelError
from whence.models.pipeline import Config, Pipeline, load_pipeline
from whence.models.quoting import quoted

NAMES = ("sst-bilstm", "sst-bigru", "sst-char-gru")


def directory(name: str) -> Path:
    """The folder of a bundled model's files."""
    return Path(str(files("whence.models") / "bundle" / name))


def load_any(model: str | Path) -> Pipeline:
    """Load a bundled pipeline by its name, or a saved one from its folder."""
    if str(model) in NAMES:
        return load_pipeline(directory(str(model)), name=str(model))
    if os.path.isdir(model):  # unlike Path.is_dir, False for an invalid name too
        return load_pipeline(model)
    raise ModelError(
        f"there is no model {quoted(str(model))}; bundled are {', '.join(NAMES)}, or give the folder of a saved one"
    )


def records() -> dict[str, Config]:
    """The config.json of each bundled model, without loading any weights."""
    return {name: json.loads((directory(name) / "config.json").read_text(encoding="utf-8")) for name in NAMES}
