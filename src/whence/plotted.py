"""`Plotted`: what has a method `plot`. The drawing needs matplotlib and is in whence.plots, which is loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Plotted:
    """A base class of results and explanations."""

    __slots__ = ()

    def plot(self, kind: str | None = None, **settings: Any) -> "Figure":
        """A matplotlib figure of this; `whence.plot` describes the kinds and the settings."""
        return cast("Figure", import_module("whence.plots").plot(self, kind, **settings))
