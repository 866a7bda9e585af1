"""An inspection as an SVG drawing: a box for every part of the run, arrows of relevance between them, gates beside sources."""

from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from whence.inspection import INPUTS, NO_RELEVANCE, Arrow, Inspection, Part, Row
from whence.render.colour import FOR, GRID, INK, MUTED, NOTE, PAPER, RULE, SERIES, hexadecimal, one_line

PASSES, ABSORBED, GATE, REFUSED = SERIES[2], SERIES[3], SERIES[5], hexadecimal(FOR)
BOX, HEAD, LINE, SMALL, GAP, PILL, EDGE = 760, 34, 24, 16, 36, 30, 14  # pixels: a box's width; heights; margins
LANE = 14  # pixels between arrows that run side by side
OPERATION, RULE_AT, FACTORS = 34, 196, 385  # where the columns of a box start
MONO, SANS = 7.0, 6.3  # the usual width of a letter, at 12 pixels
PER_LINE = 112  # letters in a line of small text


class Span(NamedTuple):
    """Where a box lies."""

    top: float
    bottom: float


class Lane(NamedTuple):
    """An arrow that runs beside the boxes, and how far outside."""

    arrow: Arrow
    number: int


def drawing(inspection: Inspection) -> str:
    """The drawing; its text stays text, and it holds no script."""
    parts = inspection.parts
    spans = _spans(parts)
    gates, flows = (_lanes([each for each in inspection.arrows if _is_beside(each, kind)]) for kind in KINDS)
    left = EDGE + LANE * (1 + max((lane.number for lane in gates), default=-1)) + (10 if gates else 0)
    right = EDGE + LANE * (1 + max((lane.number for lane in flows), default=-1)) + (10 if flows else 0)
    width, height = left + BOX + right, spans[len(parts)].bottom + 54
    drawn = [_pill(inspection.inputs, spans[INPUTS], left)]
    drawn += [_box(number, part, spans[number], left) for number, part in enumerate(parts)]
    drawn += [_pill(OUTPUT, spans[len(parts)], left)]
    drawn += [_straight(arrow, spans, left) for arrow in inspection.arrows if _is_next(arrow) and arrow.kind == "relevance"]
    inner = {INPUTS: _inset(inspection.inputs), len(parts): _inset(OUTPUT)}
    drawn += [_round(lane, spans, inner, left + BOX, 1) for lane in flows]
    drawn += [_round(lane, spans, inner, left, -1) for lane in gates]
    drawn.append(_legend(left, height - 22))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}" '
        f'font-family="system-ui, sans-serif" font-size="12" role="img" '
        f"aria-label={quoteattr(_legal(f'What relevance does in {inspection.model}'))}>"
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>{"".join(drawn)}</svg>'
    )


KINDS = ("gate", "relevance")
OUTPUT = "output: relevance starts here"


def _is_next(arrow: Arrow) -> bool:
    return abs(arrow.start - arrow.end) == 1


def _is_beside(arrow: Arrow, kind: str) -> bool:
    """Whether an arrow runs beside the boxes: every gate's does, and every one that skips a box."""
    return arrow.kind == kind and (kind == "gate" or not _is_next(arrow))


def _spans(parts: Sequence[Part]) -> dict[int, Span]:
    """Where every box lies, and the inputs above and the output below them."""
    spans, top = {INPUTS: Span(EDGE, EDGE + PILL)}, EDGE + PILL + GAP
    for number, part in enumerate(parts):
        height = HEAD + sum(LINE + SMALL * len(_small(row)) for row in part.rows) + 8
        spans[number] = Span(top, top + height)
        top += height + GAP
    spans[len(parts)] = Span(top, top + PILL)
    return spans


def _lanes(arrows: Sequence[Arrow]) -> list[Lane]:
    """A lane for every arrow, the shortest inside, so that no two cover each other."""
    found: list[Lane] = []
    for arrow in sorted(arrows, key=lambda each: (abs(each.start - each.end), each)):
        low, high = sorted((arrow.start, arrow.end))
        taken = {lane.number for lane in found if low < max(lane.arrow[:2]) and min(lane.arrow[:2]) < high}
        found.append(Lane(arrow, next(n for n in range(len(arrows)) if n not in taken)))
    return found


def _small(row: Row) -> list[tuple[str, str]]:
    """The lines of small text below a row, each with its colour."""
    found: list[tuple[str, str]] = []
    if row.refused:
        found += [(line, REFUSED) for line in wrap(one_line(f"refused: {row.refused}"), PER_LINE)]
    if row.choice:
        found += [(line, MUTED) for line in wrap(one_line(f"choice: {row.choice}"), PER_LINE)]
    return found


def _inset(text: str) -> float:
    """How far the frame of the inputs or the output lies inside the edges of the boxes."""
    return max(0.0, BOX / 2 - len(text) * SANS * 0.56 - 20)


def _pill(text: str, span: Span, left: float) -> str:
    x, width = left + _inset(text), BOX - 2 * _inset(text)
    return f'<rect x="{x:.0f}" y="{span.top:.0f}" width="{width:.0f}" height="{PILL}" rx="{PILL / 2}" fill="{INK}"/>' + _text(
        _cut(text, 100), left + BOX / 2, span.top + 19, PAPER, anchor="middle", bold=True
    )


def _box(number: int, part: Part, span: Span, left: float) -> str:
    is_refused = any(row.refused for row in part.rows)
    only_gates = not part.gets_relevance and any(row.flow == "gate" for row in part.rows)
    colour = REFUSED if is_refused else GATE if only_gates else PASSES if part.gets_relevance else RULE
    dashed = ' stroke-dasharray="5 4"' if not (part.gets_relevance or is_refused) else ""
    name = _cut(one_line(part.layer) if part.layer else "the model itself", 40)
    drawn = [
        f'<rect x="{left}" y="{span.top:.0f}" width="{BOX}" height="{span.bottom - span.top:.0f}" rx="7" fill="{PAPER}" '
        f'stroke="{colour}" stroke-width="1.5"{dashed}/>',
        _text(str(number + 1), left + 14, span.top + 22, NOTE, mono=True),
        f'<text x="{left + OPERATION}" y="{span.top + 22:.0f}" font-size="13" fill="{MUTED}">'
        f'<tspan font-weight="600" fill="{INK}">{escape(_legal(name))}</tspan>'
        f'<tspan dx="10" font-size="12">{escape(_legal(_cut(part.kind, 40)))}</tspan></text>',
    ]
    if only_gates:
        drawn.append(_text("only computes gates: no relevance", left + BOX - 14, span.top + 22, GATE, anchor="end"))
    top = span.top + HEAD
    for row in part.rows:
        drawn.append(_row(row, top, left))
        top += LINE + SMALL * len(_small(row))
    return "".join(drawn)


def _row(row: Row, top: float, left: float) -> str:
    """One operation: its mark, its name, its rule, the factors of a product, and what is absorbed."""
    quiet = row.flow != "passes" and not row.refused
    colour, y = (NOTE if quiet else REFUSED if row.refused else INK), top + 16
    drawn = [_band(row, top, left), _mark(row, left + 18, y - 4)]
    often = f" ×{row.times}" if row.times > 1 else ""
    name = _cut(row.operation or "the whole model", 20 - len(often)) + often
    drawn.append(_text(name, left + OPERATION, y, colour, mono=bool(row.operation)))
    drawn.append(_text(_cut(row.rule, 32), left + RULE_AT, y, colour))
    end = left + BOX - 14
    if row.absorbs:
        end = _absorbed(row, drawn, end, y)
    if quiet and not row.absorbs:
        end = _note(row, drawn, end, y)
    if row.flow == "passes" and (row.gate or row.source):
        _factors(row, drawn, left + FACTORS, y, end)
    small = top + LINE + 8
    for text, own in _small(row):
        drawn.append(_text(text, left + OPERATION, small, own, size=11))
        small += SMALL
    factors = (row.gate and f"gate: {row.gate}", row.source and f"source: {row.source}", row.why)
    about = "; ".join(filter(None, (f"{row.operation}: {row.rule}", *factors)))
    return f"<g><title>{escape(_legal(about))}</title>{''.join(drawn)}</g>"


def _band(row: Row, top: float, left: float) -> str:
    """A tinted band behind a row that refuses relevance, or for which something was decided."""
    if not row.refused and not row.choice:
        return ""
    height = LINE + SMALL * len(_small(row)) - 1
    colour = REFUSED if row.refused else ABSORBED
    return f'<rect x="{left + 6}" y="{top}" width="{BOX - 12}" height="{height}" rx="4" fill="{colour}" fill-opacity="0.09"/>'


def _mark(row: Row, x: float, y: float) -> str:
    if row.refused:
        return f'<path d="M{x - 4},{y - 4} l8,8 m0,-8 l-8,8" stroke="{REFUSED}" stroke-width="2.2" fill="none"/>'
    if row.flow == "passes":
        return f'<circle cx="{x}" cy="{y}" r="4.5" fill="{PASSES}"/>'
    colour = GATE if row.flow == "gate" else RULE
    return f'<circle cx="{x}" cy="{y}" r="4" fill="none" stroke="{colour}" stroke-width="1.4" stroke-dasharray="2 1.6"/>'


def _absorbed(row: Row, drawn: list[str], end: float, y: float) -> float:
    """The mark of what is absorbed, at the right end of a row; returns where it starts."""
    prefix = f"{row.layer}." if row.layer else ""
    kinds = dict.fromkeys(name.removeprefix(prefix).rpartition(".")[2].replace("_", " ") for name in row.absorbs)
    text = _cut(", ".join(kinds), 30)
    drawn.append(_text(text, end - 16, y, ABSORBED, anchor="end"))
    drawn.append(_ground(end - 5, y))
    return end - len(text) * SANS - 24


def _ground(x: float, y: float) -> str:
    """The mark of what is absorbed: an electrician's ground."""
    return f'<path d="M{x},{y - 11:.0f} v6 m-5,0 h10 m-8,3 h6 m-4,3 h2" stroke="{ABSORBED}" stroke-width="1.5" fill="none"/>'


def _note(row: Row, drawn: list[str], end: float, y: float) -> float:
    """Why a row gets no relevance, and why its result is a gate."""
    text = row.why if row.flow == "gate" and row.gate else NO_RELEVANCE[row.flow].partition(": ")[2]
    text = _cut(text, 60)
    drawn.append(_text(text, end, y, GATE if row.flow == "gate" and row.gate else NOTE, anchor="end", size=11))
    return end - len(text) * SANS


def _factors(row: Row, drawn: list[str], x: float, y: float, end: float) -> None:
    """gate × source: the gate in a dashed frame, the source in a solid one."""
    room = int((end - x) / (MONO * 11 / 12)) - 6
    gate, source = one_line(row.gate), one_line(row.source)
    if len(gate) + len(source) > room:
        gate = _cut(gate, max(8, room // 2))
        source = _cut(source, max(8, room - len(gate)))
    for text, colour, dash in ((gate, GATE, ' stroke-dasharray="3 2"'), (source, PASSES, "")):
        if not text:
            continue
        width = len(text) * MONO * 11 / 12 + 12
        drawn.append(
            f'<rect x="{x:.1f}" y="{y - 13}" width="{width:.1f}" height="18" rx="5" fill="{colour}" fill-opacity="0.07" '
            f'stroke="{colour}"{dash}/>' + _text(text, x + 6, y, colour, mono=True, size=11)
        )
        x += width + 5
        if text is gate and source:
            drawn.append(_text("×", x, y, MUTED))
            x += 13


def _straight(arrow: Arrow, spans: dict[int, Span], left: float) -> str:
    """An arrow to the next box: up where the run is followed back, down to what ran later, in a loop's turn before."""
    is_up = arrow.end < arrow.start
    x = left + BOX / 2 + (0 if is_up else 40)
    first, last = (
        (spans[arrow.start].top, spans[arrow.end].bottom) if is_up else (spans[arrow.start].bottom, spans[arrow.end].top)
    )
    turn = 1 if is_up else -1
    return _path(f"M{x},{first:.0f} V{last + 7 * turn:.0f}", PASSES) + _tip(x, last + 2 * turn, 0, -turn)


def _round(lane: Lane, spans: dict[int, Span], inner: dict[int, float], edge: float, side: int) -> str:
    """An arrow beside the boxes, on the right (1) or the left (−1); that of a gate ends in a bar: no relevance goes there."""
    (start, end, kind), out = lane.arrow, edge + side * (18 + LANE * lane.number)
    is_up = end < start
    first = spans[start].top + 14 if is_up else spans[start].bottom - 14
    last = spans[end].bottom - 10 if is_up else spans[end].top + 24
    turn, colour = (-1 if is_up else 1), GATE if kind == "gate" else PASSES
    begin, finish = (edge - side * inner.get(each, 0.0) for each in (start, end))
    path = (
        f"M{begin},{first:.0f} H{out - 6 * side} Q{out},{first:.0f} {out},{first + 6 * turn:.0f} V{last - 6 * turn:.0f} "
        f"Q{out},{last:.0f} {out - 6 * side},{last:.0f} H{finish + 7 * side}"
    )
    if kind == "gate":
        return _path(path, colour, dashed=True) + _path(f"M{finish + 5 * side},{last - 5:.0f} v10", colour)
    return _path(path, colour) + _tip(finish + 2 * side, last, -side, 0)


def _path(path: str, colour: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'


def _tip(x: float, y: float, dx: int, dy: int) -> str:
    """The head of an arrow that points along (dx, dy)."""
    back, across = (x - 9 * dx, y - 9 * dy), (4.5 * dy, 4.5 * dx)
    corners = [(x, y), (back[0] + across[0], back[1] + across[1]), (back[0] - across[0], back[1] - across[1])]
    return f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}" fill="{PASSES}"/>'


def _legend(left: float, y: float) -> str:
    """What the marks mean."""
    x, drawn = float(left), [f'<path d="M{left},{y - 24} h{BOX}" stroke="{GRID}"/>']
    marks: Iterable[tuple[str, str]] = (
        (f'<circle cx="6" cy="-4" r="4.5" fill="{PASSES}"/>', "gets relevance"),
        (
            f'<circle cx="6" cy="-4" r="4" fill="none" stroke="{GATE}" stroke-width="1.4" stroke-dasharray="2 1.6"/>',
            "computes a gate",
        ),
        (f'<rect x="-2" y="-12" width="16" height="14" rx="4" fill="none" stroke="{GATE}" stroke-dasharray="3 2"/>', "gate"),
        (f'<rect x="-2" y="-12" width="16" height="14" rx="4" fill="none" stroke="{PASSES}"/>', "source"),
        (_ground(6, 0), "absorbs relevance"),
        (f'<rect x="-2" y="-12" width="16" height="14" rx="4" fill="{ABSORBED}" fill-opacity="0.2"/>', "was decided here"),
        (f'<path d="M2,-8 l8,8 m0,-8 l-8,8" stroke="{REFUSED}" stroke-width="2.2" fill="none"/>', "refuses it"),
    )
    for mark, words in marks:
        drawn.append(f'<g transform="translate({x:.0f},{y:.0f})">{mark}{_text(words, 20, 0, MUTED, size=11)}</g>')
        x += 40 + len(words) * 5.6
    return "".join(drawn)


def _text(
    text: str,
    x: float,
    y: float,
    colour: str,
    *,
    mono: bool = False,
    bold: bool = False,
    anchor: str = "start",
    size: int = 12,
) -> str:
    font = ' font-family="ui-monospace, monospace"' if mono else ""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}"{font}{weight}>'
        f"{escape(_legal(text))}</text>"
    )


def _cut(text: str, length: int) -> str:
    """A text of at most so many letters."""
    shown = one_line(text)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def _legal(text: str) -> str:
    """One line without characters that XML does not allow."""
    return "".join(letter for letter in one_line(text) if ord(letter) >= 32 and ord(letter) not in (0xFFFE, 0xFFFF))
