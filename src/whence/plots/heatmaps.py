"""Relevance as coloured cells: time × feature, with the series' values above, and output × input step."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whence.errors import InputError
from whence.plots import canvas
from whence.plots.canvas import Scale
from whence.plots.series import Numbers, Part, Series
from whence.plots.settings import Settings
from whence.plots.thinning import Rows, distinct, most_relevant, short, strongest
from whence.render.colour import Shade

VALUES = 5  # features whose values are drawn
ROW, LINE = 0.27, 0.62  # inches of a row of cells, and of a line of values
FEW = 10  # steps, and twice as many rows, whose cells hold their numbers


def heatmap(series: Series, asked: Settings) -> Figure:
    """Time × feature; the values of the most relevant features above; inputs without steps as bars below."""
    series = asked.one_output(series).last(asked.last)
    parts = [(part, most_relevant(part.relevance[0], part.features, asked.most)) for part in series.parts]
    heights = [height for part, rows in parts for height in _heights(part, rows)]
    axes = canvas.panels(asked.ax, size=(_width(series, parts), sum(heights) + 0.95), heights=heights)
    cells = [_cells(rows, canvas.columns_of(axes[0])) if part.has_steps else rows.relevance.T for part, rows in parts]
    coloured = [(drawn, len(rows.chosen)) for drawn, (part, rows) in zip(cells, parts, strict=True) if part.has_steps]
    own, sums = [drawn[:count] for drawn, count in coloured], [drawn[count:] for drawn, count in coloured]
    scale = canvas.scale_of(own, sums, limit=asked.limit, is_signed=series.is_signed)
    left, images = list(axes), list[tuple[Axes, object]]()
    for (part, rows), drawn in zip(parts, cells, strict=True):
        above = [left.pop(0) for _ in range(_lines(part, rows))]
        below = left.pop(0)
        if part.has_steps:
            _draw_values(above, below, part, rows)
            below.figure.align_ylabels(above)
            images.append((below, _draw_rows(below, part, rows, drawn, series, scale)))
        else:
            _draw_bars(below, part, rows, series)
    canvas.entitle(axes[0], asked.title_of(series))
    if images:
        canvas.draw_scale([below for below, _ in images], images[0][1], scale, unit=series.unit)
    for (below, _), (drawn, _) in zip(images, coloured, strict=True):
        if drawn.shape[1] <= FEW and len(drawn) <= 2 * FEW:
            _write_numbers(below, drawn, scale)
    return canvas.root(axes[0])


def _width(series: Series, parts: Sequence[tuple[Part, Rows]]) -> float:
    longest = max((part.length for part in series.sequences), default=30)
    letters = max(len(name) for part, rows in parts for name in _row_names(part, rows))
    return 3.4 + min(6.4, max(1.6, 0.5 * longest)) + max(0.0, 0.07 * letters - 1.1)  # 1.1 inches of names are in the 3.4


def _lines(part: Part, rows: Rows) -> int:
    """How many lines of values are drawn above a heatmap."""
    return 0 if part.values is None or not part.has_steps or part.length == 1 else min(VALUES, len(rows.chosen))


def _heights(part: Part, rows: Rows) -> list[float]:
    return [LINE] * _lines(part, rows) + [max(1.05, ROW * len(rows.names))]


def _cells(rows: Rows, columns: int) -> Numbers:
    """The cells (features, columns)."""
    return strongest(rows.relevance.T, columns).numbers


def _draw_rows(axes: Axes, part: Part, rows: Rows, cells: Numbers, series: Series, scale: Scale) -> object:
    """The heatmap of one input."""
    size = -(-part.length // cells.shape[1])
    image = canvas.draw_cells(axes, cells, scale, width=size)
    axes.set_xlim(-0.5, part.length - 0.5)
    canvas.mark_steps(axes, series.steps if len(series.steps) >= part.length else (), part.length)
    _mark_features(axes, part, rows)
    canvas.label(axes, x=step_label(series.step, size, series.step, shown=_shown(series, part.length)))
    return image


def _row_names(part: Part, rows: Rows) -> list[str]:
    """The names of the rows; of a single step with the values, which have no line."""
    values = part.values[0] if part.values is not None and part.length == 1 else None
    own = [
        name if values is None else f"{name} = {canvas.number(float(values[n]))}"
        for n, name in zip(rows.chosen, rows.names, strict=False)
    ]
    return [*own, *rows.names[len(own) :]]


def _mark_features(axes: Axes, part: Part, rows: Rows) -> None:
    canvas.mark_names(axes.yaxis, _row_names(part, rows))
    numbered = "" if part.is_named or len(part.features) == 1 else "feature"
    canvas.label(axes, y=short(part.name, 14) if len(part.features) > 1 and part.name else numbered)


def step_label(name: str, size: int, of: str, *, shown: str = "") -> str:
    """What the columns are, which of the steps are shown, and how many share one."""
    notes = [shown, f"a column shows the strongest of {size} {of}s" if size > 1 else ""]
    told = "; ".join(filter(None, notes))
    return f"{name} ({told})" if told else name


def _shown(series: Series, length: int) -> str:
    """Which of the steps are shown, if not all."""
    return f"the last {length} of {series.left_out + length}" if series.left_out else ""


def _write_numbers(axes: Axes, cells: Numbers, scale: Scale) -> None:
    """Write the relevance into every cell, if there is room; none where it is exactly 0."""
    decimals = 2 - math.floor(math.log10(scale.largest))
    form = f"+.{max(0, decimals)}f" if -3 < decimals < 6 else "+.1e"
    texts = {place: f"{amount:{form}}".replace("-", "−") for place, amount in np.ndenumerate(cells) if amount}
    with canvas.without_glyph_warnings():
        canvas.root(axes).draw_without_rendering()  # names and the legend take their room from the cells
    room = axes.get_window_extent().width / canvas.root(axes).dpi / cells.shape[1]  # inches of a cell
    if room < 0.082 * max(map(len, texts.values()), default=0):
        return
    for (row, column), text in texts.items():
        amount = float(cells[row, column])
        shade = Shade(min(1.0, abs(amount) / scale.largest), amount >= 0)
        shown = text if scale.is_signed else text.removeprefix("+")
        axes.text(column, row, shown, ha="center", va="center", fontsize=8, color=shade.letters, **canvas.PLAIN)


def _draw_values(above: Sequence[Axes], below: Axes, part: Part, rows: Rows) -> None:
    """A line for each of the most relevant features, in their order."""
    if not above:
        return
    assert part.values is not None
    strength = np.abs(part.relevance[0]).sum(0)
    ranked = sorted(rows.chosen, key=lambda n: -strength[n])[: len(above)]
    for axes, n in zip(above, sorted(ranked), strict=True):
        name = rows.names[rows.chosen.index(n)]
        axes.sharex(below)
        marker = "o" if part.length == 1 else None
        axes.plot(
            np.arange(part.length), part.values[:, n], linewidth=1, marker=marker, color=canvas.mpl.rcParams["text.color"]
        )
        axes.tick_params(labelbottom=False, bottom=False, labelsize=8)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
        axes.yaxis.set_major_locator(canvas.MaxNLocator(3))
        axes.margins(y=0.12)
        axes.set_ylabel(
            name if part.is_named else f"feature {name}",
            rotation=0, ha="right", va="center", fontsize=canvas.SMALL, **canvas.letters(name),
        )  # fmt: skip


def _draw_bars(axes: Axes, part: Part, rows: Rows, series: Series) -> None:
    """The relevance of an input without steps."""
    amounts = rows.relevance[0]
    draw_signed_bars(axes, amounts, is_signed=series.is_signed)
    _mark_features(axes, part, rows)
    canvas.label(axes, x=f"relevance of {short(part.name) or 'the features'}{series.per_unit}")


def draw_signed_bars(axes: Axes, amounts: Sequence[float] | Numbers, *, is_signed: bool) -> None:
    """Horizontal bars from top to bottom, red for and blue against."""
    places = np.arange(len(amounts))
    colours = [canvas.RED if amount >= 0 else canvas.BLUE for amount in amounts]
    axes.barh(places, amounts, color=colours, height=0.75)
    axes.set_ylim(len(amounts) - 0.5, -0.5)
    axes.axvline(0, color=canvas.mpl.rcParams["axes.edgecolor"], linewidth=0.8)
    axes.xaxis.set_major_locator(canvas.MaxNLocator(6))
    axes.spines[["top", "right", "left"]].set_visible(False)
    largest = max(map(abs, amounts), default=0.0) or 1.0
    low = -1.08 * largest if is_signed and min(amounts, default=0.0) < 0 else 0.0
    high = 1.08 * largest if max(amounts, default=0.0) > 0 or not low else 0.0
    axes.set_xlim(low, high)


def matrix(series: Series, asked: Settings) -> Figure:
    """Output × input step, relevance summed over the features: every row adds up to what its output got from the inputs."""
    series = asked.one_class(series).last(asked.last)
    part = asked.one_sequence(series)
    if len(series.outputs) == 1:
        raise InputError(
            f"kind='matrix' draws several outputs, and this explains one, {series.shapes}; "
            'ask whence.relevance for target="all" or ("all", class)'
        )
    sums = part.relevance.sum(-1)  # (K, T)
    is_by_step = bool(series.output_steps)
    wide = 3.2 + min(6.0, max(2.2, 0.5 * part.length))
    tall = wide - 1.9 if is_by_step and len(sums) == part.length else 1.3 + min(6.0, max(1.2, 0.32 * len(sums)))
    (axes,) = canvas.panels(asked.ax, size=(wide, tall))
    most = canvas.columns_of(axes)
    across = strongest(sums, most)
    down = strongest(across.numbers.T, most)
    cells = down.numbers.T
    scale = canvas.scale_of([cells], limit=asked.limit, is_signed=series.is_signed)
    image = canvas.draw_cells(axes, cells, scale, width=across.size, height=down.size)
    axes.set_xlim(-0.5, part.length - 0.5)
    axes.set_ylim(len(sums) - 0.5, -0.5)
    canvas.mark_steps(axes, series.steps, part.length)
    shown = _shown(series, part.length)
    canvas.label(axes, x=step_label(f"input {series.step}", across.size, series.step, shown=shown))
    if is_by_step:
        _mark_output_steps(axes, series, part.length, down.size)
    elif len(series.outputs) <= 40:
        canvas.mark_names(axes.yaxis, distinct(series.outputs))
    else:
        canvas.mark_steps(axes, series.outputs, len(series.outputs), axis=axes.yaxis)
    canvas.entitle(axes, asked.title_of(series))
    canvas.draw_scale([axes], image, scale, unit=series.unit)
    if max(cells.shape) <= FEW:
        _write_numbers(axes, cells, scale)
    return canvas.root(axes)


def _mark_output_steps(axes: Axes, series: Series, length: int, size: int) -> None:
    """Name the rows by their steps, and draw the line right of which inputs come later than the output."""
    count, are_steps = len(series.outputs), not series.are_horizons
    canvas.mark_steps(axes, series.steps if are_steps and len(series.steps) == count else (), count, axis=axes.yaxis)
    canvas.label(axes, y=step_label(series.row, size, series.step if are_steps else "horizon"))
    if are_steps and count == length:
        edge = np.arange(-0.5, length)
        grey = canvas.mpl.rcParams["grid.color"]
        axes.step(edge, edge, where="post", color=grey, linewidth=0.8)
