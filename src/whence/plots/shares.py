"""How relevance is shared out: by feature for every output (horizons), and by the number of steps ago (memory)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whence.plots import canvas
from whence.plots.series import Numbers, Part, Series
from whence.plots.settings import Settings
from whence.plots.thinning import Rows, most_relevant
from whence.render.colour import SERIES

ABSORBED = "#cccccc"
DOTS = 60  # outputs; of more, the scores are a line, and the amounts areas
COLOURS = SERIES[2:]  # without the red and blue of the scale of relevance
FEATURES = 7  # that have a colour of their own, with the sum of the others
MARKS = (0.5, 0.9)  # shares of the relevance whose place is written


def horizons(series: Series, asked: Settings) -> Figure:
    """For every output a stack of what each feature gave it, for (up) and against (down), and its score."""
    series = asked.one_class(series)
    names = tuple(name for part in series.parts for name in shown_names(part, is_alone=len(series.parts) == 1))
    sums = np.concatenate([part.relevance.sum(1) for part in series.parts], axis=-1)  # (K, F)
    rows = most_relevant(sums, names, min(asked.most, FEATURES))
    count = len(series.outputs)
    (axes,) = canvas.panels(asked.ax, size=(4.2 + min(5.0, 0.55 * count), 3.8))
    entries, ends = _stack(axes, rows)
    if series.absorbed is not None:
        if np.abs(series.absorbed).max() > 1e-3 * np.abs(sums).sum(-1).max():
            base = np.where(series.absorbed >= 0, *ends)
            entries.append(("absorbed", _draw_layer(axes, series.absorbed, base, ABSORBED, hatch="//")))
        form = "o" if count <= DOTS else "-"
        ink = canvas.mpl.rcParams["text.color"]
        entries.append(("score", axes.plot(np.arange(count), series.scores, form, color=ink, markersize=5)[0]))
    axes.axhline(0, color=canvas.mpl.rcParams["axes.edgecolor"], linewidth=0.8)
    axes.set_xlim(-0.6, count - 0.4)
    names = () if series.are_horizons else series.steps if series.output_steps else series.outputs
    canvas.mark_steps(axes, names, count)
    canvas.label(axes, x=series.row if series.output_steps else "output", y=f"relevance{series.per_unit}")
    axes.spines[["top", "right"]].set_visible(False)
    _list(axes, entries)
    canvas.entitle(axes, asked.title_of(series))
    return canvas.root(axes)


def shown_names(part: Part, *, is_alone: bool) -> tuple[str, ...]:
    """The names of the features for a legend, which has no heading that says what a number is."""
    if not is_alone:
        return part.full_names
    return part.features if part.is_named or len(part.features) == 1 else tuple(f"feature {name}" for name in part.features)


Entry = tuple[str, Any]  # of a legend: a name, and what is drawn under it


def _stack(axes: Axes, rows: Rows) -> tuple[list[Entry], tuple[Numbers, Numbers]]:
    """A layer for every feature, positive amounts on top of each other and negative ones below; and where both end."""
    entries, up, down = list[Entry](), np.zeros(len(rows.relevance)), np.zeros(len(rows.relevance))
    for n, name in enumerate(rows.names):
        amounts = rows.relevance[:, n]
        entries.append((name, _draw_layer(axes, amounts, np.where(amounts >= 0, up, down), COLOURS[n])))
        up, down = up + np.maximum(amounts, 0), down + np.minimum(amounts, 0)
    return entries, (up, down)


def _draw_layer(axes: Axes, amounts: Numbers, base: Numbers, colour: str, *, hatch: str | None = None) -> Any:
    """Bars; of many outputs an area, which is drawn faster."""
    places = np.arange(len(amounts))
    if len(amounts) <= DOTS:
        return axes.bar(places, amounts, 0.8, base, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5)
    return axes.fill_between(places, base, base + amounts, step="mid", color=colour, hatch=hatch, linewidth=0)


def _list(axes: Axes, entries: Sequence[Entry]) -> None:
    """The legend, right of the axes. Names are set afterwards: matplotlib would read formulas, and leave out those with _."""
    drawn = [artist for _, artist in entries]
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False, "fontsize": canvas.SMALL}
    legend = axes.legend(drawn, [" "] * len(drawn), **place)
    for text, (name, _) in zip(legend.get_texts(), entries, strict=True):
        text.set(**canvas.letters(name))
        text.set_text(name)


class Memory(NamedTuple):
    """Absolute relevance by how many steps before the output a step is: entry n belongs to a distance of n steps."""

    amounts: Numbers  # (distances, features)
    has_later: bool  # whether steps after the output have some too; they are counted by their distance


def memory_of(part: Part, ends: tuple[int, ...]) -> Memory:
    """Σ |relevance| by distance, over all outputs; an output without a step of its own comes after the last step."""
    places = np.arange(part.length)
    found = np.zeros((part.length, part.relevance.shape[-1]))
    has_later = False
    for n, relevance in enumerate(np.abs(part.relevance)):
        now = ends[n] if ends else part.length - 1
        np.add.at(found, np.abs(places - now).clip(max=part.length - 1), relevance)
        has_later |= bool(relevance[places > now].any())
    return Memory(found, has_later)


def reached(shares: Numbers, share: float) -> int:
    """At which distance the cumulative share first reaches a share."""
    return int(np.argmax(shares >= share - 1e-12))


def memory(series: Series, asked: Settings) -> Figure:
    """The cumulative share of the absolute relevance, from the output's step back in time, of all features and of each."""
    series = asked.one_class(series) if series.output_steps else asked.one_output(series)
    part = asked.one_sequence(series)
    found = memory_of(part, series.ends)
    total = found.amounts.sum()
    shares = found.amounts.sum(1).cumsum() / total if total else np.zeros(len(found.amounts))
    (axes,) = canvas.panels(asked.ax, size=(7.2, 3.8))
    rows = most_relevant(found.amounts, shown_names(part, is_alone=True), min(asked.most, FEATURES))
    distances, entries = np.arange(len(shares)), list[Entry]()
    for n, name in enumerate(rows.names if len(rows.names) > 1 and total else ()):
        own = rows.relevance[:, n]
        (line,) = axes.plot(distances, own.cumsum() / (own.sum() or 1), color=COLOURS[n], linewidth=1.1)
        entries.append((f"{name} ({percent(own.sum() / total)})", line))
    marker = "o" if len(shares) == 1 else None
    entries += [("all", axes.plot(distances, shares, color=canvas.mpl.rcParams["text.color"], linewidth=2.2, marker=marker)[0])]
    far = max(reached(shares, 0.999) if total else len(shares) - 1, 1)
    far = far if asked.last is None else max(1, min(asked.last, len(shares)) - 1)
    axes.set_xlim(far * 1.08 + 0.5, -0.5 - 0.01 * far)  # the present on the right, as in the other plots
    axes.set_ylim(0, 1.04)
    _mark_shares(axes, shares, series.step)
    axes.xaxis.set_major_locator(canvas.MaxNLocator(8, integer=True))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"], fontsize=canvas.SMALL, **canvas.PLAIN)
    axes.grid(axis="y", linewidth=0.6, alpha=0.5)
    now = f"last input {series.step}" if series.are_horizons else "output"
    where = f"from the {now}, before or after" if found.has_later else f"before the {now}"
    canvas.label(
        axes,
        x=f"{series.step}s {where}",
        y=f"share of the absolute relevance\nfrom there to the {now}" if total else "all relevance is 0",
    )
    axes.spines[["top", "right"]].set_visible(False)
    _list(axes, entries)
    canvas.entitle(axes, asked.title_of(series))
    return canvas.root(axes)


def _mark_shares(axes: Axes, shares: Numbers, step: str) -> None:
    """Dotted lines where the curve of all features reaches 50 % and 90 %."""
    places: dict[int, list[str]] = {}
    for share in MARKS if shares.any() else ():
        places.setdefault(reached(shares, share), []).append(percent(share))
    seen = {place: marks for place, marks in places.items() if place <= axes.get_xlim()[0]}
    for n, (place, marks) in enumerate(seen.items()):
        axes.plot([place, place], [0, shares[place]], linestyle=":", color=canvas.mpl.rcParams["text.color"], linewidth=1)
        text = f"{' and '.join(marks)}: {place} {step}{'s' if place != 1 else ''}"
        is_far = place > 0.75 * axes.get_xlim()[0]  # near the left edge: write right of the line
        style: dict[str, Any] = {"ha": "left" if is_far else "right", "fontsize": canvas.SMALL, **canvas.letters(step)}
        axes.annotate(text, (place, 0.02), xytext=(4 if is_far else -4, 2 + 14 * n), textcoords="offset points", **style)


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"
