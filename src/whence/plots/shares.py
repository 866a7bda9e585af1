"""How relevance is shared out: by feature for every output (horizons), and by the number of steps ago (memory)."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whence.plots import canvas
from whence.plots.series import Numbers, Part, Series
from whence.plots.settings import Settings
from whence.plots.thinning import most_relevant, short
from whence.render.colour import SERIES

COLOURS = SERIES[2:]  # without the red and blue of the scale of relevance
FEATURES = 7  # that have a colour of their own, with the sum of the others
MARKS = (0.5, 0.9)  # shares of the relevance whose place is written


def horizons(series: Series, asked: Settings) -> Figure:
    """For every output a stack of what each feature gave it, for (up) and against (down), and its score."""
    series = asked.one_class(series)
    names = tuple(name for part in series.parts for name in (part.full_names if len(series.parts) > 1 else part.features))
    sums = np.concatenate([part.relevance.sum(1) for part in series.parts], axis=-1)  # (K, F)
    rows = most_relevant(sums, names, min(asked.most, FEATURES))
    stacks = {name: rows.relevance[:, n] for n, name in enumerate(rows.names)}
    if series.absorbed is not None and np.abs(series.absorbed).max() > 1e-3 * np.abs(sums).sum(-1).max():
        stacks["absorbed"] = series.absorbed
    count = len(series.outputs)
    (axes,) = canvas.panels(asked.ax, size=(4.2 + min(5.0, 0.55 * count), 3.8))
    _stack(axes, stacks, is_named=any(part.is_named for part in series.parts))
    if series.absorbed is not None:
        form = "o" if count <= 60 else "-"  # so many dots would hide the bars
        axes.plot(np.arange(count), series.scores, form, color=canvas.mpl.rcParams["text.color"], markersize=5, label="score")
    axes.axhline(0, color=canvas.mpl.rcParams["axes.edgecolor"], linewidth=0.8)
    axes.set_xlim(-0.6, count - 0.4)
    canvas.mark_steps(axes, series.steps if series.output_steps else series.outputs, count)
    canvas.label(
        axes,
        y=f"relevance{f' in {series.unit}' if series.unit else ''}",
        x=f"output {series.step}" if series.output_steps else "output",
    )
    axes.spines[["top", "right"]].set_visible(False)
    _list(axes)
    canvas.entitle(axes, asked.title_of(series))
    return canvas.root(axes)


def _stack(axes: Axes, stacks: dict[str, Numbers], *, is_named: bool) -> None:
    """Bars, positive amounts on top of each other and negative ones below."""
    count = len(next(iter(stacks.values())))
    up, down = np.zeros(count), np.zeros(count)
    for n, (name, amounts) in enumerate(stacks.items()):
        base = np.where(amounts >= 0, up, down)
        is_absorbed = name == "absorbed"
        colour = "#cccccc" if is_absorbed else COLOURS[n % len(COLOURS)]
        shown = short(name) if is_named or not name.isdecimal() else f"feature {name}"
        axes.bar(
            np.arange(count),
            amounts,
            0.8,
            base,
            color=colour,
            label=shown,
            hatch="//" if is_absorbed else None,
            edgecolor="white",
            linewidth=0.5 if count <= 60 else 0,
        )
        up, down = up + np.maximum(amounts, 0), down + np.minimum(amounts, 0)


def _list(axes: Axes) -> None:
    """The legend, right of the axes; names are not read as formulas."""
    handles, names = axes.get_legend_handles_labels()
    legend = axes.legend(
        handles, ["" for _ in names], loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=canvas.SMALL
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(**canvas.letters(name))
        text.set_text(name)


class Memory(NamedTuple):
    """Absolute relevance by how many steps before the output a step is: entry n belongs to a distance of n steps."""

    amounts: Numbers  # (distances, features)
    has_later: bool  # whether steps after the output have some too; they are counted by their distance


def memory_of(part: Part, output_steps: tuple[int, ...]) -> Memory:
    """Σ |relevance| by distance, over all outputs; an output without a step of its own comes after the last step."""
    places = np.arange(part.length)
    found = np.zeros((part.length, part.relevance.shape[-1]))
    has_later = False
    for n, relevance in enumerate(np.abs(part.relevance)):
        now = output_steps[n] if output_steps else part.length - 1
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
    found = memory_of(part, series.output_steps)
    total = found.amounts.sum()
    shares = found.amounts.sum(1).cumsum() / total if total else np.zeros(len(found.amounts))
    (axes,) = canvas.panels(asked.ax, size=(7.2, 3.8))
    rows = most_relevant(found.amounts, part.features, min(asked.most, FEATURES))
    distances = np.arange(len(shares))
    if len(part.features) > 1 and total:
        for n, name in enumerate(rows.names):
            own = rows.relevance[:, n]
            shown = short(name) if part.is_named or not name.isdecimal() else f"feature {name}"
            label = f"{shown} ({percent(own.sum() / total)})"
            axes.plot(distances, own.cumsum() / (own.sum() or 1), color=COLOURS[n], linewidth=1.1, label=label)
    axes.plot(
        distances,
        shares,
        color=canvas.mpl.rcParams["text.color"],
        linewidth=2.2,
        label="all",
        marker="o" if len(shares) == 1 else None,
    )
    far = max(reached(shares, 0.999) if total else len(shares) - 1, 1)
    axes.set_xlim(far * 1.08 + 0.5, -0.5 - 0.01 * far)  # the present on the right, as in the other plots
    axes.set_ylim(0, 1.04)
    _mark_shares(axes, shares, series.step)
    axes.xaxis.set_major_locator(canvas.MaxNLocator(8, integer=True))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"], fontsize=canvas.SMALL, **canvas.PLAIN)
    axes.grid(axis="y", linewidth=0.6, alpha=0.5)
    where = "from the output, before or after" if found.has_later else "before the output"
    canvas.label(
        axes,
        x=f"{series.step}s {where}",
        y="share of the absolute relevance\nfrom there to the output" if total else "all relevance is 0",
    )
    axes.spines[["top", "right"]].set_visible(False)
    _list(axes)
    canvas.entitle(axes, asked.title_of(series))
    return canvas.root(axes)


def _mark_shares(axes: Axes, shares: Numbers, step: str) -> None:
    """Dotted lines where the curve of all features reaches 50 % and 90 %."""
    places: dict[int, list[str]] = {}
    for share in MARKS if shares.any() else ():
        places.setdefault(reached(shares, share), []).append(percent(share))
    for place, marks in places.items():
        axes.plot([place, place], [0, shares[place]], linestyle=":", color=canvas.mpl.rcParams["text.color"], linewidth=1)
        text = f"{' and '.join(marks)}: {place} {step}{'s' if place != 1 else ''}"
        is_far = place > 0.75 * axes.get_xlim()[0]  # near the left edge: write right of the line
        style: dict[str, Any] = {"ha": "left" if is_far else "right", "fontsize": canvas.SMALL, **canvas.letters(step)}
        axes.annotate(text, (place, 0.02), xytext=(4 if is_far else -4, 2), textcoords="offset points", **style)


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.0f} %"
