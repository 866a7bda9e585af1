"""Explanations on a terminal: in colour, or with plus and minus signs where there is none."""

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Literal

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from whence.explanation import Explanation
from whence.explanations import Explanations
from whence.render.choosing import MANY
from whence.render.colour import FAINT, Shade, one_line, shades, visible
from whence.render.labels import method_label, method_name, unsigned_note
from whence.render.probability import probabilities

Palette = Literal["signs", "256", "truecolor"]
BAR, NUMBERS = 24, 22  # columns of the longest bar, and of the rest of a line without the name


def terminal(explanation: Explanation, *, width: int | None = None, colour: bool | None = None) -> str:
    """A text with coloured words, its scores as bars, a legend, and the sum of what was absorbed.

    By default, `colour` and `width` are those of the terminal (NO_COLOR and TERM are respected).
    """
    return _captured(lambda console: print_on(console, [explanation]), width=width, colour=colour)


def plain(groups: Sequence[Sequence[Explanation]]) -> str:
    """All explanations without colour, for a file."""
    return "".join(terminal(explanation, colour=False, width=100) for group in groups for explanation in group)


def terminal_list(explanations: Explanations, *, width: int | None = None, colour: bool | None = None) -> str:
    """Many explanations: the target, the score and the coloured words of each, then one legend."""
    found = _captured(lambda console: print_list_on(console, explanations), width=width, colour=colour)
    return "\n".join(line.rstrip() for line in found.splitlines())


def _captured(draw: Callable[[Console], None], *, width: int | None, colour: bool | None) -> str:
    """What is printed to a console like the user's."""
    buffer = StringIO()
    seen = Console(force_jupyter=False)  # the user's terminal
    if colour is None:
        colour = seen.color_system is not None and not seen.no_color and seen.is_terminal
    console = Console(
        file=buffer,
        width=width or seen.width,
        highlight=False,
        force_jupyter=False,  # in a notebook, rich would display the text itself and leave the buffer empty
        force_terminal=colour,
        no_color=not colour,
        color_system=("256" if seen.color_system in ("256", "standard") else "truecolor") if colour else None,
    )
    draw(console)
    return buffer.getvalue()


def print_on(console: Console, explanations: Sequence[Explanation]) -> None:
    """Print the explanations of one text, and its scores once."""
    first, palette = explanations[0], palette_of(console)
    if first.error:
        place = "" if first.row is None else f"row {first.row}: "
        console.print(Text(f"{place}{one_line(first.error)}", style="yellow"))
        return
    if first.label is not None:
        console.print(Text(f"true: {one_line(first.label)}", style="dim"))
    for explanation in explanations:
        head = Text(f"{method_label(explanation)} for ", style="dim")
        head.append(one_line(explanation.question), style="bold")
        head.append(f", score {explanation.score:+.3f}")
        console.print(head)
        console.print(heatmap(explanation, palette))
        console.print()
    console.print(scores(first, width=console.width))
    console.print(legend(explanations, palette).append(_sums(explanations)))
    for doubt in dict.fromkeys(each.doubt for each in explanations if each.doubt):
        console.print(Text(f"in doubt: {one_line(doubt)}", style="yellow"))
    for choice in dict.fromkeys(choice for explanation in explanations for choice in explanation.choices):
        console.print(Text(f"chosen: {one_line(choice)}", style="dim"))


def print_list_on(console: Console, explanations: Explanations) -> None:
    """Print many explanations, grouped by text; if there are too many, only the first of them."""
    shown, rest = explanations[: explanations.shown], len(explanations) - explanations.shown
    palette, methods = palette_of(console), list(dict.fromkeys(method_label(each) for each in shown if not each.error))
    console.print(Text(", ".join(methods) if shown else "no explanations", style="dim"))
    if explanations.note:
        console.print(Text(one_line(explanations.note), style="yellow"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(max_width=max(8, console.width // 3), no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    groups = shown.groups()
    for n, group in enumerate(groups):
        if n and len(groups) < len(shown):
            table.add_row()
        for explanation in group:
            if explanation.error:
                table.add_row(
                    Text(f"row {explanation.row}", style="dim"), "", Text(one_line(explanation.error), style="yellow")
                )
                continue
            label = one_line(explanation.question) + (f", {method_label(explanation)}" if len(methods) > 1 else "")
            label += "" if explanation.label is None or explanation.is_right else f", true: {one_line(explanation.label)}"
            table.add_row(Text(label), f"{explanation.score:+.3f}", heatmap(explanation, palette))
    console.print(table)
    if rest > 0:
        console.print(Text(f"… and {rest} more"))
    if words := explanations.top_words() if 1 < len(groups) == len(shown) and len(explanations) <= MANY else []:
        listed = ", ".join(f"{one_line(word)} {total:+.2f}" for word, total, _ in words)
        console.print(Text(f"largest sums of relevance, every text for its own target: {listed}", style="dim"))
    if methods:
        console.print(legend(shown, palette))


def palette_of(console: Console) -> Palette:
    """The palette that a console supports. With 16 colours or none, signs are used, since there are no shades."""
    system = None if console.no_color else console.color_system
    return system if system in ("256", "truecolor") else "signs"


def heatmap(explanation: Explanation, palette: Palette) -> Text:
    """The text as the user wrote it, with tokens coloured, or with signs at strong tokens."""
    line = Text()
    strong = shades(explanation)
    for piece, number in explanation.pieces():
        shown = visible(piece)
        if number is None:
            line.append(shown)
            continue
        shade, is_deleted = strong[number], number in explanation.deleted
        if palette == "signs":
            sign = "" if shade.strength < 0.15 else ("+" if shade.is_for else "-") * (1 + (shade.strength > 0.5))
            shown = f"[{sign}{shown}]" if sign else shown
            shown = f"~{shown}~" if is_deleted else shown
            line.append(shown + ("°" if explanation.unknown[number] else ""))
            continue
        line.append(
            shown,
            style=_style(shade, palette) + Style(underline=explanation.unknown[number] or None, strike=is_deleted or None),
        )
    return line


def _style(shade: Shade, palette: Palette) -> Style:
    letters, box = shade.on_terminal(has_256=palette == "256")
    return Style(color=letters and Color.from_rgb(*letters), bgcolor=box and Color.from_rgb(*box))


def scores(explanation: Explanation, *, width: int) -> Text:
    """A bar for every class, as long as its probability."""
    shares = probabilities(explanation.scores)
    shown = {name: one_line(name) for name in explanation.scores}
    names = min(max(map(cell_len, shown.values())), max(8, width - NUMBERS))
    longest = max(0, min(BAR, width - names - NUMBERS))
    lines = Text(no_wrap=True, overflow="crop")
    for name, score in explanation.scores.items():
        bar = "█" * round(longest * shares[name])
        style = "bold" if name == explanation.predicted else ""
        label = Text(shown[name])
        label.truncate(names, overflow="ellipsis", pad=True)
        lines.append(f"  {label}  {score:+7.3f}  {100 * shares[name]:5.1f} %  {bar}\n", style=style)
    lines.rstrip()
    return lines


def legend(explanations: Sequence[Explanation], palette: Palette) -> Text:
    """What the colours or signs mean."""
    is_signed = any(explanation.is_signed for explanation in explanations)
    line = Text("\n")
    marked = palette == "signs"
    if marked:
        line.append("[++word] [+word] " + ("for, [--word] [-word] against the target" if is_signed else "matter"))
    else:
        line.append(" for " if is_signed else " matters ", style=_style(Shade(1.0, True), palette))
        if is_signed:
            line.append(" against ", style=_style(Shade(1.0, False), palette))
        line.append(" the target; " if is_signed else "; ")
        line.append("coloured letters", style=_style(Shade(FAINT, True), palette))
        line.append(" where it is weak")
    if any(any(explanation.unknown) for explanation in explanations):
        line.append("; word° is not in the vocabulary" if marked else "; underlined words are not in the vocabulary")
    if note := unsigned_note(explanations):
        line.append(f"; {note}")
    return line


def _sums(explanations: Sequence[Explanation]) -> Text:
    """How relevance and absorbed amounts add up to each score."""
    lines = Text()
    are_several = len({str(explanation.method) for explanation in explanations if explanation.absorbed}) > 1
    for explanation in explanations:
        if explanation.absorbed:
            words, rest = sum(explanation.relevance), sum(explanation.absorbed.values())
            which = f"{one_line(explanation.question)}: " if len(explanations) > 1 else ""
            which = f"{method_name(explanation)} for {which}" if are_several else which
            lines.append(
                f"\n{which}relevance {words:+.3f} + absorbed {rest:+.3f} = score {explanation.score:+.3f}", style="dim"
            )
    return lines
