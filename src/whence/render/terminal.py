"""Explanations for a terminal: coloured where it can, marked with signs where it cannot."""

import math
from collections.abc import Sequence
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from whence.explanation import Explanation
from whence.render.colour import method_label, one_line, shades, visible

BAR, NUMBERS = 24, 22  # columns of the longest bar, and of all else in a line but the name
FAINT = 0.08  # a shade below this is left out: a white box on a dark terminal would shout


def terminal(explanation: Explanation, *, width: int | None = None, colour: bool | None = None) -> str:
    """A text with its words coloured, a legend, the scores as bars and what was absorbed.

    `colour` None asks the terminal (NO_COLOR, TERM, whether it is one); `width` None takes its own.
    """
    buffer = StringIO()
    seen = Console(force_jupyter=False)  # what the terminal can do
    if colour is None:
        colour = seen.color_system is not None and not seen.no_color and seen.is_terminal
    console = Console(
        file=buffer,
        width=width or seen.width,
        highlight=False,
        force_jupyter=False,  # a notebook would show the text by itself and leave nothing in the buffer
        force_terminal=colour,
        no_color=not colour,
        color_system=("256" if seen.color_system in ("256", "standard") else "truecolor") if colour else None,
    )
    print_on(console, [explanation])
    return buffer.getvalue()


def print_on(console: Console, explanations: Sequence[Explanation]) -> None:
    """Print explanations of one text, its scores once."""
    first = explanations[0]
    marked = console.no_color or console.color_system not in ("256", "truecolor")  # sixteen colours would lose the sign
    for explanation in explanations:
        head = Text(f"{method_label(explanation)} for ", style="dim")
        head.append(one_line(explanation.target), style="bold")
        head.append(f", score {explanation.score:+.3f}")
        console.print(head)
        console.print(heatmap(explanation, marked=marked))
        console.print()
    console.print(scores(first, width=console.width))
    console.print(legend(explanations, marked=marked))


def heatmap(explanation: Explanation, *, marked: bool) -> Text:
    """The text as the user wrote it, each token on its colour; `marked` puts signs around strong ones instead."""
    line = Text()
    strong = shades(explanation)
    for piece, number in explanation.pieces():
        shown = visible(piece)
        if number is None:
            line.append(shown)
            continue
        shade = strong[number]
        if marked:
            sign = "" if shade.strength < 0.15 else ("+" if shade.is_for else "-") * (1 + (shade.strength > 0.5))
            shown = f"[{sign}{shown}]" if sign else shown
            line.append(shown + ("°" if explanation.unknown[number] else ""))
            continue
        ink = "rgb(255,255,255)" if shade.needs_white_text else "rgb(0,0,0)"
        style = f"{ink} on rgb({','.join(map(str, shade.mixed()))})" if shade.strength >= FAINT else ""
        line.append(shown, style=style + (" underline" if explanation.unknown[number] else ""))
    return line


def scores(explanation: Explanation, *, width: int) -> Text:
    """A bar for every class, as long as its probability."""
    largest = max(explanation.scores.values())
    weights = {name: math.exp(score - largest) for name, score in explanation.scores.items()}
    total = sum(weights.values())
    shown = {name: one_line(name) for name in explanation.scores}
    names = min(max(map(cell_len, shown.values())), max(8, width - NUMBERS))
    longest = max(0, min(BAR, width - names - NUMBERS))
    lines = Text(no_wrap=True, overflow="crop")
    for name, score in explanation.scores.items():
        share = weights[name] / total
        bar = "█" * round(longest * share)
        style = "bold" if name == explanation.predicted else ""
        label = Text(shown[name])
        label.truncate(names, overflow="ellipsis", pad=True)
        lines.append(f"  {label}  {score:+7.3f}  {100 * share:5.1f} %  {bar}\n", style=style)
    lines.rstrip()
    return lines


def legend(explanations: Sequence[Explanation], *, marked: bool) -> Text:
    """What the colours or signs mean, and where the score went."""
    is_signed = any(explanation.is_signed for explanation in explanations)
    line = Text("\n")
    if marked:
        line.append("[++word] [+word] for" + (", [--word] [-word] against" if is_signed else "") + " the target")
    else:
        line.append(" for ", style="rgb(255,255,255) on rgb(178,24,43)")
        if is_signed:
            line.append(" against ", style="rgb(255,255,255) on rgb(33,102,172)")
        line.append(" the target")
    if any(any(explanation.unknown) for explanation in explanations):
        line.append("; word° is not in the vocabulary" if marked else "; underlined words are not in the vocabulary")
    if not all(explanation.is_signed for explanation in explanations):
        line.append("; sensitivity analysis has no sign: it says how much a word matters, not for which side")
    for explanation in explanations:
        if explanation.absorbed:
            words, rest = sum(explanation.relevance), sum(explanation.absorbed.values())
            which = f"{one_line(explanation.target)}: " if len(explanations) > 1 else ""
            line.append(f"\n{which}relevance {words:+.3f} + absorbed {rest:+.3f} = score {explanation.score:+.3f}", style="dim")
    return line
