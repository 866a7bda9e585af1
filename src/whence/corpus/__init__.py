"""Whole corpora: every text of files of any size explained into a folder of Parquet files, and what they tell of the model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.corpus._explain import explain as explain

_HOMES = {"explain": "whence.corpus._explain"}  # of the public names; they are imported when they are asked for

__all__ = ["explain"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'whence.corpus' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
