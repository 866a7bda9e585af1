"""What `--model` names: a bundled or saved model, or what a factory of the user's returns."""

import importlib
import os
import sys
from typing import TYPE_CHECKING

from whence.errors import ModelError, WhenceError

if TYPE_CHECKING:
    from whence.models.pipeline import Pipeline


def pipeline_of(model: str) -> "Pipeline":
    """What `--model` names, which has to be a pipeline."""
    from whence.models.bundled import require_pipeline

    return require_pipeline(loaded(model), model)


def loaded(model: str) -> object:
    """A bundled or saved model, or what the user's own factory, package.module:factory, returns."""
    from whence.models.bundled import load

    module, _, factory = model.partition(":")
    if not factory or os.path.exists(model):
        return load(model)
    if not all(each.isidentifier() for each in (*module.split("."), factory)):
        raise ModelError(
            f"{model!r} is no package.module:factory, such as my_models:make; a module in another folder is found if the "
            "command runs there, or if the folder is in PYTHONPATH"
        )
    sys.path.insert(0, "")
    try:
        found = importlib.import_module(module)
        if not hasattr(found, factory):
            raise ModelError(f"{model!r} cannot be used: {module} has no {factory!r}")
        return getattr(found, factory)()
    except ImportError as error:
        raise ModelError(f"{model!r} cannot be imported: {error}") from None
    except WhenceError:
        raise
    except Exception as error:
        raise ModelError(f"{model!r} failed: {type(error).__name__}: {error}") from error
