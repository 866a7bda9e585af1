"""The papers' experiments: `run` reproduces Arras et al. (2017), and `toy` the ground truth of Arras et al. (2019)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.experiments.paper import run

__all__ = ["run"]


def __getattr__(name: str) -> object:
    if name != "run":
        raise AttributeError(f"module 'whence.experiments' has no attribute {name!r}")
    from whence.experiments.paper import run

    return run
