"""Figures with matplotlib, as PNG and PDF. They are drawn off screen and leave matplotlib's state unchanged."""

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from io import BytesIO
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from whence.errors import InputError
from whence.explanation import Explanation
from whence.render.colour import COUNTS, GRID, INK, NOTE, PAPER, RULE, SERIES, Shade, hexadecimal, shades, visible

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import FancyBboxPatch
    from matplotlib.text import Text
    from matplotlib.textpath import TextToPath
except ModuleNotFoundError:
    raise InputError("figures need matplotlib; run: pip install 'whence[plot]'") from None

Numbers = NDArray[np.float64]
P = ParamSpec("P")
R = TypeVar("R")
MARKERS = "os^DvxP*<>"


def own_style(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw with matplotlib's defaults whatever the user's settings are, and do not parse dollar signs as mathematics."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams["text.parse_math"] = False
            return draw(*args, **kwargs)

    return drawn


@own_style
def files(name: str, figure: Figure) -> dict[str, bytes]:
    """The figure as name.png and name.pdf, the same bytes on every run."""
    found: dict[str, bytes] = {}
    for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None, "Creator": None})):
        content = BytesIO()
        with _without_glyph_warnings():
            figure.savefig(content, format=kind, dpi=160, metadata=metadata, facecolor=PAPER)
        found[f"{name}.{kind}"] = content.getvalue()
    return found


@contextmanager
def _without_glyph_warnings() -> Generator[None]:
    """Suppress warnings about characters that the font lacks; they are drawn as boxes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        yield


class Curve(NamedTuple):
    """A line with a band around it."""

    label: str
    y: Numbers
    low: Numbers
    high: Numbers


@own_style
def curves(panels: Mapping[str, Sequence[Curve]], *, colours: Mapping[str, str], x: str, y: str) -> Figure:
    """Panels side by side, each with one curve for every method over 0, 1, 2, …; `colours` are those of the labels."""
    figure = Figure(figsize=(10.4, 4.4), layout="constrained")
    figure.get_layout_engine().set(wspace=0.06)  # pyright: ignore[reportOptionalMemberAccess, reportCallIssue] - layout= sets it
    labels = list(dict.fromkeys(curve.label for panel in panels.values() for curve in panel))
    for axes, (title, panel) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for curve in panel:
            k = labels.index(curve.label)
            steps, colour = np.arange(len(curve.y)), colours[curve.label]
            axes.fill_between(steps, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(steps, curve.y, color=colour, marker=MARKERS[k % len(MARKERS)], markersize=5, label=curve.label)
        axes.set_title(title, fontsize=11)
        axes.set_xlabel(x)
        axes.set_xticks(range(max(len(curve.y) for curve in panel)))
        if min(float(np.min(curve.y)) for curve in panel) >= 0:
            axes.set_ylim(bottom=0)
        axes.set_ylabel(y)
        _plain(axes)
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(labels), 6), frameon=False
    )
    return figure


@own_style
def intervals(rows: Mapping[str, tuple[float, float, float]], *, x: str) -> Figure:
    """A dot with its interval (value, low, high) for every row, from top to bottom, and a line at 0."""
    figure = Figure(figsize=(8.4, 0.6 + 0.28 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, (value, low, high) in enumerate(rows.values()):
        axes.plot([low, high], [place, place], color=SERIES[1], linewidth=2)
        axes.plot([value], [place], "o", color=SERIES[1], markersize=5)
    axes.axvline(0, color=NOTE, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), [visible(name)[:60] for name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel(x)
    _plain(axes)
    return figure


@own_style
def distributions(
    rows: Mapping[str, Mapping[str, Mapping[str, Numbers]]], *, colours: Mapping[str, str], x: str, y: str
) -> Figure:
    """A grid: a row for each outer key, a column for each inner one, in each cell a step line for every method."""
    columns = list(next(iter(rows.values())))
    figure = Figure(figsize=(2.35 * len(columns) + 0.6, 2.1 * len(rows) + 0.6), layout="constrained")
    grid = figure.subplots(len(rows), len(columns), sharex=True, sharey="row", squeeze=False)
    for line, (row, cells) in zip(grid, rows.items(), strict=True):
        for axes, (column, methods) in zip(line, cells.items(), strict=True):
            count = max(len(values) for values in methods.values())
            for label, values in methods.items():
                axes.stairs(values, np.arange(count + 1) + 0.5, color=colours[label], linewidth=1.8, label=label)
            axes.axhline(1 / count, color=NOTE, linewidth=0.8, linestyle=":")
            axes.axvline(count / 2 + 0.5, color=NOTE, linewidth=0.8, linestyle=":")
            axes.set_xticks(range(1, count + 1))
            axes.tick_params(axis="x", labelsize=7)
            axes.tick_params(axis="y", labelsize=8)
            _plain(axes)
            if axes in grid[0]:
                axes.set_title(column, fontsize=11)
        line[0].set_ylabel(f"{row}\n{y}", fontsize=9)
        line[0].set_ylim(0, 1.08 * max(values.max() for methods in cells.values() for values in methods.values()))
    figure.supxlabel(x, fontsize=10)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper right", ncols=6, frameon=False)
    return figure


@own_style
def confusion(counts: NDArray[np.int64], classes: Sequence[str]) -> Figure:
    """The number of sentences by label and predicted class, shaded by the share of the label's sentences."""
    figure = Figure(figsize=(5.4, 4.6), layout="constrained")
    axes = figure.subplots()
    parts = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(parts, cmap=COUNTS, vmin=0, vmax=1)
    for (label, predicted), count in np.ndenumerate(counts):
        dark = parts[label, predicted] > 0.5
        note = f"{count}\n{100 * parts[label, predicted]:.0f} %"
        axes.text(predicted, label, note, ha="center", va="center", fontsize=9, color=PAPER if dark else INK)
    axes.set_xticks(range(len(classes)), classes, rotation=25, ha="right")
    axes.set_yticks(range(len(classes)), classes)
    axes.set_xlabel("predicted")
    axes.set_ylabel("label")
    return figure


@own_style
def growth(panels: Mapping[str, tuple[Sequence[float], Sequence[float], float]], *, y: str) -> Figure:
    """Times over sizes on log axes. Each panel has the values, the times and the slope; a dotted line has slope one."""
    figure = Figure(figsize=(3.6 * len(panels), 3.4), layout="constrained")
    every = [time for _, times, _ in panels.values() for time in times]
    ticks = [step * 10.0**power for power in range(-3, 6) for step in (1, 3)]
    first = None
    for n, (name, (values, times, slope)) in enumerate(panels.items()):
        axes = first = figure.add_subplot(1, len(panels), n + 1, sharey=first)
        axes.loglog(values, [times[-1] * value / values[-1] for value in values], ":", color=NOTE, label="in proportion")
        axes.loglog(values, times, "o-", color=SERIES[n], linewidth=1.8, markersize=5, label=f"slope {slope:.2f}")
        shown = values[:: max(1, len(values) // 3)]
        axes.set_xticks(list(shown), [f"{value:g}" for value in shown])
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_ylim(min(every) / 1.5, max(every) * 1.5)
        axes.minorticks_off()
        axes.set_xlabel(name)
        axes.set_ylabel(y if n == 0 else "")
        axes.legend(frameon=False, loc="upper left", fontsize=9)
        _plain(axes)
    return figure


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


class HeatmapRow(NamedTuple):
    """A sentence in a list of heatmaps: its number, its label and prediction, and its explanation."""

    number: int
    label: str
    predicted: str
    explanation: Explanation


WIDTH, LINE, SIZE = 760.0, 17.0, 10.5  # width of the page, height of a line and size of the letters, in points
_MEASURE = TextToPath()
_FONT = FontProperties(family="DejaVu Sans", size=SIZE)


@own_style
def heatmaps(groups: Sequence[tuple[str, Sequence[HeatmapRow]]], *, title: str) -> Figure:
    """Groups of sentences under headings, with words coloured by relevance; label and prediction are on the left."""
    left, items, y = 128.0, list[Callable[[Axes], None]](), 58.0
    for heading, rows in groups:
        items.append(partial(_heading, y=y, heading=heading))
        y += LINE * 1.3
        for row in rows:
            items.append(partial(_row, y=y, row=row))
            placed, lines = _placed(row.explanation, WIDTH - left - 12)
            colours = shades(row.explanation)
            items += [
                partial(_word, y=y + LINE * line, x=left + x, width=width, word=row.explanation.tokens[n], shade=colours[n])
                for line, x, width, n in placed
            ]
            y += LINE * lines + 5
        y += 8
    y -= LINE
    figure = Figure(figsize=(WIDTH / 72, y / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(y, 0)
    axes.axis("off")
    _write(axes, 10, 17, title, size=SIZE, color=INK)
    for x, name in ((10, "no."), (36, "label"), (72, "predicted"), (left, "sentence")):
        _write(axes, x, 36, name, size=8.5, color=NOTE)
    for draw in items:
        draw(axes)
    return figure


def _placed(explanation: Explanation, width: float) -> tuple[list[tuple[int, float, float, int]], int]:
    """The line, the position and the width of every word, and the number of lines."""
    placed: list[tuple[int, float, float, int]] = []
    line, x = 0, 0.0
    for n, word in enumerate(explanation.tokens):
        with _without_glyph_warnings():
            wide = _MEASURE.get_text_width_height_descent(visible(word), _FONT, ismath=False)[0]
        if x and x + wide > width:
            line, x = line + 1, 0.0
        placed.append((line, x, wide, n))
        x += wide + 4.5
    return placed, line + 1


def _write(axes: Axes, x: float, y: float, text: str, **style: Any) -> Text:
    return axes.text(x, y, visible(text), va="baseline", **style)


def _heading(axes: Axes, *, y: float, heading: str) -> None:
    axes.plot((10, WIDTH - 10), (y - LINE * 0.85,) * 2, color=RULE, linewidth=0.7)
    _write(axes, 10, y, heading, size=9.5, weight="bold", color=INK)


def _row(axes: Axes, *, y: float, row: HeatmapRow) -> None:
    _write(axes, 10, y, f"{row.number}.", size=SIZE - 1.5, color=NOTE)
    _write(axes, 36, y, row.label, size=SIZE - 1.5, color=INK)
    _write(axes, 72, y, row.predicted, size=SIZE - 1.5, color=INK)


def _word(axes: Axes, *, y: float, x: float, width: float, word: str, shade: Shade) -> None:
    box = FancyBboxPatch(
        (x - 1, y - LINE * 0.66), width + 2, LINE * 0.88, boxstyle="round,pad=0,rounding_size=2",
        facecolor=hexadecimal(shade.mixed()), edgecolor="none", linewidth=0,
    )  # fmt: skip
    axes.add_patch(box)
    _write(axes, x, y, word, fontproperties=_FONT, color=shade.letters)
