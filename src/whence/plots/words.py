"""Explanations of texts: coloured words, bars of words, and the words with the most relevance in many texts."""

from collections import defaultdict
from collections.abc import Sequence
from textwrap import fill, wrap
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from whence.errors import InputError
from whence.explanation import Explanation
from whence.plots import canvas
from whence.plots.heatmaps import draw_signed_bars
from whence.plots.settings import Settings
from whence.plots.thinning import distinct, short
from whence.render.colour import Shade, hexadecimal, one_line, shades
from whence.render.labels import method_label, unsigned_note

SIZE, LINE, GAP, MARGIN, WIDTH = 11.0, 21.0, 5.0, 12.0, 620.0  # points
NOTE = 5.0  # points of a letter of a note
TEXTS = 20  # that are drawn as coloured words
_MEASURE = TextToPath()


class Word(NamedTuple):
    """A word to be written, and where: points right of and below the upper left corner."""

    text: str
    x: float
    y: float
    shade: Shade | None  # None: not a word of the text


def words(explanations: Sequence[Explanation], asked: Settings) -> Figure:
    """The words of every text in colour, its target and score above it, and the legend below."""
    shown = explanations[:TEXTS]
    is_own = asked.ax is None
    width = WIDTH if is_own else _points(asked.ax) - 2 * MARGIN
    placed, y = list[Word](), LINE * 0.8
    for n, explanation in enumerate(shown):
        heading = _heading(explanation) if asked.title is None or len(shown) > 1 else asked.title
        placed.append(Word(heading, 0.0, y, None))
        found, y = _placed(explanation, width, y + LINE)
        placed += found
        for line in wrap(f"in doubt: {explanation.doubt}", max(20, int(width / NOTE))) if explanation.doubt else []:
            y += LINE
            placed.append(Word(line, 0.0, y, None))
        y += LINE * (1.6 if n < len(shown) - 1 else 1.4)
    more = len(explanations) - len(shown)
    if more:
        placed.append(Word(f"… and {more} more texts", 0.0, y, None))
        y += LINE * 1.2
    size = ((width + 2 * MARGIN) / 72, (y + LINE * 0.6) / 72)
    axes = _bare(asked.ax, size)
    for word in placed:
        _write(axes, word)
    _legend(axes, y, shown)
    return canvas.root(axes)


def _heading(explanation: Explanation) -> str:
    return f"{method_label(explanation)} for {short(explanation.question, 60)}: {canvas.number(explanation.score, signed=True)}"


def _points(ax: object) -> float:
    """The width of axes or of a figure in points."""
    if isinstance(ax, Axes):
        return ax.get_window_extent().width / canvas.root(ax).dpi * 72
    if isinstance(ax, (Figure, SubFigure)):
        return float(ax.bbox.width) / ax.dpi * 72
    raise InputError(f"ax is a {type(ax).__name__}; give matplotlib's Axes, Figure or SubFigure")


def _bare(ax: object, size: tuple[float, float]) -> Axes:
    """Axes without frame and ticks that fill their figure."""
    if isinstance(ax, Axes):
        axes = ax
    elif ax is None:
        axes = canvas.Picture(figsize=size).add_axes((0, 0, 1, 1))
    else:
        (axes,) = canvas.panels(ax, size=size)
    axes.set_axis_off()
    return axes


def _placed(explanation: Explanation, width: float, y: float) -> tuple[list[Word], float]:
    """The words in lines of at most `width` points, and where the last line is."""
    found, x = list[Word](), 0.0
    font = FontProperties(family=canvas.mpl.rcParams["font.family"], size=SIZE)
    for token, shade in zip(explanation.tokens, shades(explanation), strict=True):
        text = short(token, 60) or " "
        with canvas.without_glyph_warnings():
            wide = float(_MEASURE.get_text_width_height_descent(text, font, ismath=False)[0])
        if x and x + wide > width:
            x, y = 0.0, y + LINE
        found.append(Word(text, x, y, shade))
        x += wide + GAP
    return found, y


def _write(axes: Axes, word: Word) -> None:
    """Write a word at its place below the upper left corner, with a box in its colour."""
    style = canvas.letters(word.text)
    if word.shade is None:
        style |= {"fontsize": SIZE - 1.5, "alpha": 0.75}
    else:
        box = {"boxstyle": "round,pad=0.18", "facecolor": hexadecimal(word.shade.mixed()), "edgecolor": "none"}
        style |= {"fontsize": SIZE, "color": word.shade.letters, "bbox": box}
    axes.annotate(
        one_line(word.text), (0, 1), xycoords="axes fraction", xytext=(MARGIN + word.x, -word.y), textcoords="offset points",
        va="baseline", annotation_clip=False, **style,
    ).set_in_layout(False)  # fmt: skip


def _legend(axes: Axes, y: float, shown: Sequence[Explanation]) -> None:
    x = 0.0
    if any(each.is_signed for each in shown):
        _write(axes, Word("for", x, y, Shade(1.0, True)))
        _write(axes, Word("against", x + 29, y, Shade(1.0, False)))
        x, rest = x + 86, "the target · full colour at each text's largest relevance"
    else:
        _write(axes, Word("matters", x, y, Shade(1.0, True)))
        x, rest = x + 58, unsigned_note(shown)
    _write(axes, Word(rest, x, y, None))


def bars(explanations: Sequence[Explanation], asked: Settings) -> Figure:
    """The words of one text from top to bottom with bars; of a long text those with the most relevance, in its order."""
    if len(explanations) > 1:
        raise InputError(f"kind='bars' draws one text, and {len(explanations)} were given; draw one of them, or kind='top'")
    (explanation,) = explanations
    strength = np.abs(np.array(explanation.relevance))
    chosen = sorted(int(n) for n in np.argsort(-strength, kind="stable")[: max(asked.most, 40)])
    title = _heading(explanation) if asked.title is None else asked.title
    if explanation.doubt:
        title += "\n" + fill(f"in doubt: {explanation.doubt}", 80)
    left = len(explanation.tokens) - len(chosen)
    if left:
        title += f"\nthe {len(chosen)} words with the most relevance; {left} others are left out"
    tokens = distinct([_seen(explanation.tokens[n]) for n in chosen])
    return _drawn_bars(tokens, [explanation.relevance[n] for n in chosen], title, explanation.is_signed, asked)


def top(explanations: Sequence[Explanation], asked: Settings) -> Figure:
    """The words with the largest sums of relevance over all texts, for and against, with how often they occur."""
    sums, counts = defaultdict[str, float](float), defaultdict[str, int](int)
    for explanation in explanations:
        for token, amount in zip(explanation.tokens, explanation.relevance, strict=True):
            sums[token.casefold()] += amount
            counts[token.casefold()] += 1
    ranked = sorted(sums, key=lambda word: (-sums[word], word))
    half = asked.most // 2
    positive = [word for word in ranked if sums[word] > 0][: asked.most if not explanations[0].is_signed else half]
    negative = [word for word in ranked if sums[word] < 0][-half:]
    chosen = [*positive, *negative]
    if not chosen:
        raise InputError("all relevance is 0, so no word comes first; draw kind='words'")
    targets = list(dict.fromkeys(each.question for each in explanations))
    target = short(targets[0], 60) if len(targets) == 1 else "each text's target"
    title = f"{method_label(explanations[0])} for {target},\nsummed over {len(explanations):,} texts"
    names = [f"{name} ×{counts[word]}" for name, word in zip(distinct(list(map(_seen, chosen)), 20), chosen, strict=True)]
    is_signed = explanations[0].is_signed
    return _drawn_bars(names, [sums[word] for word in chosen], title if asked.title is None else asked.title, is_signed, asked)


def _seen(token: str) -> str:
    """A token that can be seen: one of blanks alone in quotes."""
    return token if token.strip() else repr(token)


def _drawn_bars(names: Sequence[str], amounts: Sequence[float], title: str, is_signed: bool, asked: Settings) -> Figure:
    (axes,) = canvas.panels(asked.ax, size=(6.4, 1.2 + 0.24 * len(names)))
    draw_signed_bars(axes, amounts, is_signed=is_signed)
    canvas.mark_names(axes.yaxis, names)
    canvas.label(axes, x="relevance: against ← 0 → for" if is_signed else "relevance (without a sign)")
    canvas.entitle(axes, title)
    return canvas.root(axes)
