"""The models that come with whence: their names, and where their files lie."""

import json
import os
from importlib.resources import files
from pathlib import Path

from whence.errors import ModelError
from whence.models.pipeline import Config, Pipeline, load_pipeline
from whence.models.quoting import quoted

NAMES = ("sst-bilstm", "sst-bigru", "sst-char-gru")


def directory(name: str) -> Path:
    """Where a bundled model's files lie."""
    return Path(str(files("whence.models") / "bundle" / name))


def load_any(model: str | Path) -> Pipeline:
    """A pipeline by the name of a bundled one, or by the folder it was saved in."""
    if str(model) in NAMES:
        return load_pipeline(directory(str(model)), name=str(model))
    if os.path.isdir(model):  # False, not an error, for a name that no file can have
        return load_pipeline(model)
    raise ModelError(
        f"there is no model {quoted(str(model))}; bundled are {', '.join(NAMES)}, or give the folder of a saved one"
    )


def records() -> dict[str, Config]:
    """What each bundled model's config.json says of its training, without loading any weights."""
    return {name: json.loads((directory(name) / "config.json").read_text(encoding="utf-8")) for name in NAMES}
