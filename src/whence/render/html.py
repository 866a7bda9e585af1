"""Explanations as a self-contained web page without scripts, readable in light mode, in dark mode and on paper."""

from collections.abc import Sequence
from html import escape
from secrets import token_hex

from whence.explanation import Explanation
from whence.explanations import Explanations
from whence.render.choosing import CHOOSING, controls, items, overview
from whence.render.colour import AGAINST, FOR, shades, visible
from whence.render.labels import method_label, unsigned_note
from whence.render.probability import probabilities

# All rules are limited to .whence. Doubling the class name gives them precedence over a notebook's own rules for tables.
STYLE = (
    """
.whence .text { margin: .2em 0 .8em; line-height: 1.9; white-space: pre-wrap; overflow-wrap: anywhere; }
.whence .t { border-radius: .2em; padding: .12em .05em; }
.whence .u { text-decoration: underline dotted; }
.whence .s { color: white; }
.whence .d { text-decoration: line-through; }
.whence .head, .whence .legend { font-size: .85em; opacity: .85; }
.whence .head + .head { margin-top: .8em; }
.whence.whence .scores { border-collapse: collapse; margin: .3em 0 .6em; font-size: .9em; line-height: 1.5; color: inherit; }
.whence.whence .scores tr { background: none; }
.whence.whence .scores td { padding: 0 .8em 0 0; text-align: left; line-height: 1.5; font-variant-numeric: tabular-nums; }
.whence.whence .scores td.n { text-align: right; }
.whence .items { max-height: 40em; overflow: auto; }
.whence .items > * { display: grid; gap: 0 .8em; align-items: baseline; }
.whence .items > * { grid-template-columns: 2.5em minmax(5em, 11em) 4em 1fr; }
.whence .items .text { margin: 0; }
.whence .items .error { grid-column: 2 / -1; }
.whence .n { text-align: right; font-variant-numeric: tabular-nums; }
.whence .error { font-size: .85em; font-style: italic; opacity: .85; line-height: 1.9; }
.whence .bar { display: inline-block; height: .7em; background: currentColor; opacity: .45; }
.whence tr.p { font-weight: bold; }
@media (max-width: 34em) {
  .whence .items > * { grid-template-columns: 2em 1fr 4em; }
  .whence .items .text { grid-column: 1 / -1; }
}
@media print { .whence .items { max-height: none; } }
@media print { .whence, .whence * { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
"""
    + CHOOSING
)
NOTEBOOK = ".whence { font: 14px/1.6 system-ui, sans-serif; max-width: 54em; }"
PAGE = """
:root { color-scheme: light dark; }
.whence { font: 16px/1.6 system-ui, sans-serif; max-width: 48rem; margin: 1.5rem auto; padding: 0 1rem; }
.whence h1 { font-size: 1.3em; margin-bottom: 0; }
.whence section { margin: 1rem 0; }
"""
SHOWN = 200  # lines of a list in a notebook; the others are only counted


def fragment(explanation: Explanation) -> str:
    """One explanation as HTML, without a page around it and without style."""
    head = f"{_safe(method_label(explanation))} for <b>{_safe(explanation.question)}</b>, score {explanation.score:+.3f}"
    sums = ""
    if explanation.absorbed:
        words, rest = sum(explanation.relevance), sum(explanation.absorbed.values())
        sums = f'<div class="head">relevance {words:+.3f} + absorbed {rest:+.3f} = score {explanation.score:+.3f}</div>'
    doubt = f'<div class="error">in doubt: {_safe(explanation.doubt)}</div>' if explanation.doubt else ""
    return f'<div class="head">{head}</div><div class="text" dir="auto">{_heatmap(explanation)}</div>{sums}{doubt}'


def _chosen(explanations: Sequence[Explanation]) -> str:
    """What had to be decided about the model, each once."""
    choices = dict.fromkeys(choice for each in explanations for choice in each.choices)
    return "".join(f'<div class="head">chosen: {_safe(choice)}</div>' for choice in choices)


def notebook(explanation: Explanation) -> str:
    """One explanation for a notebook cell."""
    return _cell(fragment(explanation) + _chosen([explanation]) + _scores(explanation) + _legend([explanation]))


def notebook_list(explanations: Explanations) -> str:
    """Many explanations for a notebook cell: what they have in common, then lines that can be sorted and filtered."""
    if not explanations:
        return _cell('<div class="head">no explanations</div>')
    shown, rest = explanations[:SHOWN], len(explanations) - SHOWN
    methods = list(dict.fromkeys(method_label(each) for each in shown if not each.error))
    lines = [_line(e, group[0] is e, len(methods) > 1) for group in shown.groups() for e in group]
    more = f'<div class="head">… and {rest:,} more</div>' if rest > 0 else ""
    note = f'<div class="head">{_safe(explanations.note)}</div>' if explanations.note else ""
    head = f'<div class="head">{_safe(", ".join(methods))}</div>{note}{overview(explanations)}'
    listed = f'<div class="items">{items(list(zip(shown, lines, strict=True)))}</div>'
    return _cell(f"{head}{controls(shown, token_hex(4))}{listed}{more}{_legend(shown)}")


def _line(explanation: Explanation, is_first: bool, has_method: bool) -> str:
    number = "" if explanation.row is None or not is_first else str(explanation.row)
    if explanation.error:
        return f'<span class="n head">{number}</span><span class="error">{_safe(explanation.error)}</span>'
    label = explanation.question + (f", {method_label(explanation)}" if has_method else "")
    cells = f'<span class="n head">{number}</span><span class="head">{_safe(label)}{_truth(explanation)}</span>'
    cells += f'<span class="n head">{explanation.score:+.3f}</span>'
    return f'{cells}<span class="text" dir="auto">{_heatmap(explanation)}</span>'


def _truth(explanation: Explanation) -> str:
    """The label, if there is one and it was not predicted."""
    return "" if explanation.label is None or explanation.is_right else f"<br><b>true: {_safe(explanation.label)}</b>"


def _cell(content: str) -> str:
    return f'<style>{NOTEBOOK}{STYLE}</style><div class="whence">{content}</div>'


def page(groups: Sequence[Sequence[Explanation]], *, title: str = "Which words spoke for the decision?") -> str:
    """A whole page with the explanations and the scores of every text; several can be sorted and filtered."""
    sections = items([(group[0], _section(group)) for group in groups])
    models = ", ".join(dict.fromkeys(group[0].model for group in groups))
    everything = Explanations(explanation for group in groups for explanation in group)
    several = overview(everything) + controls([group[0] for group in groups], "") if len(groups) > 1 else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_safe(title)}</title><style>{PAGE}{STYLE}</style></head>"
        f'<body><main class="whence"><h1>{_safe(title)}</h1><p class="head">model: {_safe(models)}</p>'
        f'{_legend(everything)}{_chosen(everything)}{several}<div class="sections">{sections}</div></main></body></html>\n'
    )


def _section(group: Sequence[Explanation]) -> str:
    first = group[0]
    number = "" if first.row is None else f'<a class="head" id="row-{first.row}" href="#row-{first.row}">{first.row}</a> '
    if first.error:
        return f'<section>{number}<span class="error">{_safe(first.error)}</span></section><hr>'
    truth = "" if first.label is None else f'<div class="head">true: <b>{_safe(first.label)}</b></div>'
    return f"<section>{number}{truth}{''.join(map(fragment, group))}{_scores(first)}</section><hr>"


def _safe(text: str) -> str:
    return escape(visible(text), quote=True)


def _heatmap(explanation: Explanation) -> str:
    strong = shades(explanation)
    parts: list[str] = []
    for piece, number in explanation.pieces():
        if number is None:
            parts.append(_safe(piece))
            continue
        shade = strong[number]
        red, green, blue = shade.full
        is_unknown, is_deleted = explanation.unknown[number], number in explanation.deleted
        kinds = "t" + " s" * (shade.letters == "white") + " u" * is_unknown + " d" * is_deleted
        note = f"{explanation.relevance[number]:+.4f}" + ", not in the vocabulary" * is_unknown + ", deleted" * is_deleted
        colour = f"background:rgba({red},{green},{blue},{shade.strength:.3f})"
        parts.append(f'<span class="{kinds}" style="{colour}" title="{note}">{_safe(piece)}</span>')
    return "".join(parts)


def _scores(explanation: Explanation) -> str:
    shares = probabilities(explanation.scores)
    rows = "".join(
        f'<tr class="{"p" if name == explanation.predicted else ""}"><td>{_safe(name)}</td><td class="n">{score:+.3f}</td>'
        f'<td class="n">{100 * shares[name]:.1f} %</td>'
        f'<td><span class="bar" style="width:{8 * shares[name]:.2f}rem"></span></td></tr>'
        for name, score in explanation.scores.items()
    )
    return f'<table class="scores">{rows}</table>'


def _legend(explanations: Sequence[Explanation]) -> str:
    def swatch(colour: tuple[int, int, int], word: str) -> str:
        return f'<span class="t s" style="background:rgb{colour}">&nbsp;{word}&nbsp;</span>'

    is_signed = any(e.is_signed for e in explanations)
    marks = f"{swatch(FOR, 'for')} {swatch(AGAINST, 'against')} the target" if is_signed else swatch(FOR, "matters")
    unknown = " · dotted line: not in the vocabulary" if any(any(e.unknown) for e in explanations) else ""
    note = unsigned_note(explanations)
    unsigned = f" · {_safe(note)}" if note else ""
    return f'<p class="legend">{marks} · full colour at each text\'s largest relevance{unknown}{unsigned}</p>'
