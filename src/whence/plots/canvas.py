"""Figures and axes to draw in, in the user's style. Names are never read as formulas; pyplot and rcParams stay as they are."""

import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import fontManager
from matplotlib.ticker import MaxNLocator

from whence.errors import InputError
from whence.plots.series import Numbers
from whence.plots.thinning import COLUMNS, distinct, short, tick_places
from whence.render.colour import AGAINST, FOR, WHITE, hexadecimal

SMALL = 9
PLAIN: dict[str, Any] = {"usetex": False, "parse_math": False}  # a dollar sign in a name is a dollar sign
RED, BLUE = hexadecimal(FOR), hexadecimal(AGAINST)
SIGNED = LinearSegmentedColormap.from_list("whence", [BLUE, hexadecimal(WHITE), RED], N=513)  # odd: 0 is white
UNSIGNED = LinearSegmentedColormap.from_list("whence_unsigned", [hexadecimal(WHITE), RED], N=257)
# Fonts with letters that matplotlib's own font lacks; those that are installed are used.
FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "Yu Gothic",
    "Malgun Gothic", "Noto Sans Devanagari", "Nirmala UI", "Noto Sans Thai", "Arial Unicode MS",
)  # fmt: skip


class Picture(Figure):
    """A figure that also shows itself in a notebook where pyplot has not been imported."""

    def _repr_png_(self) -> bytes:
        content = BytesIO()
        with without_glyph_warnings():
            self.savefig(content, format="png")
        return content.getvalue()


@contextmanager
def without_glyph_warnings() -> Generator[None]:
    """Suppress warnings about letters that no font has; they are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        yield


def letters(*texts: str) -> dict[str, Any]:
    """Settings of a matplotlib text: no formulas, and fonts for the letters of these texts."""
    if all(ord(letter) < 0x900 for text in texts for letter in text):
        return dict(PLAIN)
    return {**PLAIN, "fontfamily": [*mpl.rcParams["font.family"], *_installed()]}


@cache
def _installed() -> tuple[str, ...]:
    names = {font.name for font in fontManager.ttflist}
    return tuple(name for name in FONTS if name in names)


def panels(ax: object, *, size: tuple[float, float], heights: Sequence[float] = (1.0,)) -> list[Axes]:
    """Axes one below the other, in a new figure or in the user's; for a single panel, the user's axes are used as they are."""
    if isinstance(ax, Axes):
        if len(heights) > 1:
            raise InputError(f"this plot has {len(heights)} panels; give ax=None, a figure or a subfigure, or draw less of it")
        return [ax]
    if ax is None:
        ax = Picture(figsize=size, layout="constrained")
    if not isinstance(ax, (Figure, SubFigure)):
        raise InputError(f"ax is a {type(ax).__name__}; give matplotlib's Axes, Figure or SubFigure")
    found = ax.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": list(heights)})
    return list(found[:, 0])


def root(axes: Axes) -> Figure:
    """The figure that axes are in; of a subfigure, that around it."""
    figure = axes.figure
    found = figure.figure if isinstance(figure, SubFigure) else figure
    assert isinstance(found, Figure)
    return found


def entitle(axes: Axes, title: str) -> None:
    """Write a title above axes."""
    axes.set_title(_lines(title), loc="left", fontsize=11, **letters(title))


def _lines(text: str) -> str:
    """A text of the user's or of ours, in its own lines."""
    return "\n".join(short(line, 200) for line in text.split("\n"))


def label(axes: Axes, *, x: str | None = None, y: str | None = None) -> None:
    """Write what the axes mean."""
    if x is not None:
        axes.set_xlabel(_lines(x), **letters(x))
    if y is not None:
        axes.set_ylabel(_lines(y), **letters(y))


def number(amount: float, *, signed: bool = False) -> str:
    """A number in a few letters, with a real minus."""
    return f"{amount:{'+' if signed and amount else ''}.3g}".replace("-", "−")


def columns_of(axes: Axes) -> int:
    """How many columns can be told apart in axes."""
    return int(min(COLUMNS, max(50, axes.get_window_extent().width)))


def mark_steps(axes: Axes, names: Sequence[str], count: int, *, axis: Axis | None = None) -> None:
    """Ticks at steps: some of their names, or numbers."""
    axis = axes.xaxis if axis is None else axis
    is_wide = axis is axes.xaxis
    extent = axes.get_window_extent()
    inches = (extent.width if is_wide else extent.height) / root(axes).dpi
    if not names:
        room = max(2, int(inches * (1.3 if is_wide else 2.5)))
        axis.set_major_locator(MaxNLocator(min(room, 10), integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
        axis.set_tick_params(labelsize=SMALL)
        return
    shown = distinct(names[:count])
    places = tick_places(shown if is_wide else ["x"] * count, inches * (11 if is_wide else 16))
    axis.set_ticks(places, [shown[n] for n in places], fontsize=SMALL, **letters(*shown))


def mark_names(axis: Axis, names: Sequence[str]) -> None:
    """A tick with its name, which has been cut, for every row or column."""
    axis.set_ticks(range(len(names)), names, fontsize=SMALL, **letters(*names))
    axis.set_tick_params(length=0)


class Scale(NamedTuple):
    """The colours of relevance: full colour at ±`largest`."""

    largest: float
    is_signed: bool
    is_cut: bool  # whether something lies beyond
    is_zero: bool  # whether all relevance is 0

    @property
    def settings(self) -> dict[str, Any]:
        """For imshow."""
        lowest = -self.largest if self.is_signed else 0.0
        return {"cmap": SIGNED if self.is_signed else UNSIGNED, "vmin": lowest, "vmax": self.largest}


def scale_of(drawn: Sequence[Numbers], sums: Sequence[Numbers] = (), *, limit: float | None, is_signed: bool) -> Scale:
    """The scale of all numbers in a figure; `sums` over many features may lie beyond it. If all are 0, it runs up to 1."""
    largest, beyond = (max((float(np.abs(each).max()) for each in some if each.size), default=0.0) for some in (drawn, sums))
    if limit is None:
        limit = largest or beyond or 1.0
    elif isinstance(limit, bool) or not isinstance(limit, (int, float)) or not 0 < limit < float("inf"):
        raise InputError(f"limit is {limit!r}; give the relevance with full colour, a number above 0")
    return Scale(float(limit), is_signed, is_cut=max(largest, beyond) > limit, is_zero=not largest and not beyond)


def draw_cells(axes: Axes, cells: Numbers, scale: Scale, *, width: int = 1, height: int = 1) -> Any:
    """Cells (rows, columns) in colour; each column stands for `width` steps, each row for `height`."""
    rows, columns = cells.shape
    extent = (-0.5, columns * width - 0.5, rows * height - 0.5, -0.5)
    return axes.imshow(cells, aspect="auto", interpolation="nearest", extent=extent, **scale.settings)


def draw_scale(axes: Sequence[Axes], image: Any, scale: Scale, *, unit: str) -> None:
    """The legend of colours beside axes: red for, blue against, white zero."""
    bar = axes[0].figure.colorbar(image, ax=list(axes), extend=_extend(scale), fraction=0.05, pad=0.02, aspect=18)
    top = number(scale.largest, signed=scale.is_signed)
    if scale.is_signed:
        bar.set_ticks([-scale.largest, 0.0, scale.largest])
        texts = [f"{number(-scale.largest)}\nagainst", "0", f"{top}\nfor"]
    else:
        bar.set_ticks([0.0, scale.largest])
        texts = ["0", top]
    bar.ax.yaxis.set_ticks(bar.get_ticks(), texts, fontsize=SMALL, **PLAIN)
    sign = "" if scale.is_signed else " (without a sign)"
    label(bar.ax, y="all relevance is 0" if scale.is_zero else f"relevance{f' in {unit}' if unit else ''}{sign}")


def _extend(scale: Scale) -> str:
    return "neither" if not scale.is_cut else "both" if scale.is_signed else "max"
