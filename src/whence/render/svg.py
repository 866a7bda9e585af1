"""An explanation as an SVG image whose text stays text."""

import unicodedata
from collections.abc import Sequence
from textwrap import wrap
from xml.sax.saxutils import escape, quoteattr

from whence.errors import InputError
from whence.explanation import Explanation
from whence.render.colour import MUTED, PAPER, Shade, hexadecimal, shades, visible
from whence.render.labels import method_label

SIZE, ADVANCE, LINE, COLUMNS = 16, 9.7, 28, 80  # of a monospaced font, in pixels; the last is the columns per line
NOTE = 105  # columns of a line in small letters


def picture(groups: Sequence[Sequence[Explanation]]) -> str:
    """The one explanation that there is; several do not fit into one image."""
    everything = [explanation for group in groups for explanation in group]
    if len(everything) != 1:
        raise InputError(f"an SVG image shows one explanation, but there are {len(everything)}; use HTML for several")
    return svg(everything[0])


def svg(explanation: Explanation) -> str:
    """The heatmap in lines of at most 80 columns."""
    boxes: list[str] = []
    row, column = 0, 0
    strong = shades(explanation)
    for piece, number in explanation.pieces():
        for part in _lines(_legal(piece)):
            if part == "\n":
                row, column = row + 1, 0
                continue
            width = _columns(part)
            if column and column + width > COLUMNS:
                row, column = row + 1, 0
                if number is None:
                    continue
            if number is not None:
                boxes.append(_token(explanation, number, part, strong[number], row, column, width))
            elif part.strip():
                boxes.append(_text(part, row, column, "black"))
            column += width
    notes = wrap(f"in doubt: {explanation.doubt}", NOTE) if explanation.doubt else []
    for note in notes:
        row += 1
        boxes.append(f'<text x="12" y="{(row + 2) * LINE}" font-size="12" fill="{MUTED}">{escape(_legal(note))}</text>')
    width, height = COLUMNS * ADVANCE + 24, (row + 2) * LINE + 12
    label = f"{method_label(explanation)} for {explanation.question}, score {explanation.score:+.3f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
        f'font-family="monospace" font-size="{SIZE}" role="img" aria-label={quoteattr(_legal(label))}>'
        f'<rect width="100%" height="100%" fill="{PAPER}"/>'
        f'<text x="12" y="20" font-size="12" fill="{MUTED}">{escape(_legal(label))}</text>{"".join(boxes)}</svg>\n'
    )


def _legal(text: str) -> str:
    """The text without characters that XML does not allow."""
    return "".join(
        c for c in visible(text).replace("\t", "    ") if c == "\n" or (ord(c) >= 32 and ord(c) not in (0xFFFE, 0xFFFF))
    )


def _lines(text: str) -> list[str]:
    """A piece of text split at line ends; a line of more than 80 columns is split further."""
    parts: list[str] = []
    for n, line in enumerate(text.split("\n")):
        parts += ["\n"] if n else []
        parts += [line[k : k + COLUMNS // 2] for k in range(0, len(line), COLUMNS // 2)] if _columns(line) > COLUMNS else [line]
    return [part for part in parts if part]


def _columns(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _text(part: str, row: int, column: int, colour: str, *, lines: str = "") -> str:
    x, y = 12 + column * ADVANCE, (row + 2) * LINE
    line = f' text-decoration="{lines}"' if lines else ""
    return f'<text x="{x:.1f}" y="{y}" fill="{colour}"{line} xml:space="preserve">{escape(part)}</text>'


def _token(explanation: Explanation, number: int, part: str, shade: Shade, row: int, column: int, width: int) -> str:
    x, y = 12 + column * ADVANCE, (row + 2) * LINE - 20
    box = f'<rect x="{x:.1f}" y="{y}" width="{width * ADVANCE:.1f}" height="26" rx="3" fill="{hexadecimal(shade.mixed())}"/>'
    note = f"<title>{explanation.relevance[number]:+.4f}</title>"
    lines = " ".join(["underline"] * explanation.unknown[number] + ["line-through"] * (number in explanation.deleted))
    text = _text(part, row, column, shade.letters, lines=lines)
    return f"<g>{note}{box}{text}</g>"
