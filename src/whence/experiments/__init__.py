"""Work that brings data, models and explanations together; `run` reproduces the paper."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.experiments.paper import run

__all__ = ["run"]


def __getattr__(name: str) -> object:
    if name != "run":
        raise AttributeError(f"module 'whence.experiments' has no attribute {name!r}")
    from whence.experiments.paper import run

    return run
