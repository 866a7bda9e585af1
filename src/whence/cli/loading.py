"""What `--model` names: a bundled or saved pipeline, or what a factory of the user's returns."""

import importlib
import os
import sys
from typing import TYPE_CHECKING

from whence.errors import ModelError, WhenceError

if TYPE_CHECKING:
    from whence.models.pipeline import Pipeline


def pipeline_of(model: str) -> "Pipeline":
    """What `--model` names, which has to be a pipeline."""
    from whence.models.pipeline import Pipeline

    made = loaded(model)
    if not isinstance(made, Pipeline):
        raise ModelError(f"{model!r} returned a {type(made).__name__}; it must return a whence.Pipeline")
    return made


def loaded(model: str) -> object:
    """A bundled or saved pipeline, or what the user's own factory, package.module:factory, returns."""
    from whence.models.bundled import load_any

    module, _, factory = model.partition(":")
    if not factory or os.path.exists(model):
        return load_any(model)
    sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), factory)()
    except ImportError as error:
        raise ModelError(f"{model!r} cannot be imported: {error}") from None
    except WhenceError:
        raise
    except Exception as error:
        raise ModelError(f"{model!r} failed: {type(error).__name__}: {error}") from error
