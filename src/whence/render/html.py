"""Explanations as a self-contained web page without scripts, readable in light mode, in dark mode and on paper."""

from collections.abc import Sequence
from html import escape

from whence.explanation import Explanation, Explanations
from whence.render.colour import AGAINST, FOR, shades, visible
from whence.render.labels import method_label, unsigned_note
from whence.render.probability import probabilities

# All rules are limited to .whence. Doubling the class name gives them precedence over a notebook's own rules for tables.
STYLE = """
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
.whence.whence .list td { vertical-align: baseline; }
.whence.whence .list .f td { padding-top: .6em; }
.whence.whence .list .text { margin: 0; }
.whence .bar { display: inline-block; height: .7em; background: currentColor; opacity: .45; }
.whence tr.p { font-weight: bold; }
@media print { .whence, .whence * { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
"""
NOTEBOOK = ".whence { font: 14px/1.6 system-ui, sans-serif; max-width: 54em; }"
PAGE = """
:root { color-scheme: light dark; }
.whence { font: 16px/1.6 system-ui, sans-serif; max-width: 48rem; margin: 1.5rem auto; padding: 0 1rem; }
.whence h1 { font-size: 1.3em; margin-bottom: 0; }
.whence section { margin: 1rem 0; }
"""


def fragment(explanation: Explanation) -> str:
    """One explanation as HTML, without a page around it and without style."""
    head = f"{_safe(method_label(explanation))} for <b>{_safe(explanation.question)}</b>, score {explanation.score:+.3f}"
    sums = ""
    if explanation.absorbed:
        words, rest = sum(explanation.relevance), sum(explanation.absorbed.values())
        sums = f'<div class="head">relevance {words:+.3f} + absorbed {rest:+.3f} = score {explanation.score:+.3f}</div>'
    chosen = "".join(f'<div class="head">chosen: {_safe(choice)}</div>' for choice in explanation.choices)
    return f'<div class="head">{head}</div><div class="text" dir="auto">{_heatmap(explanation)}</div>{sums}{chosen}'


def notebook(explanation: Explanation) -> str:
    """One explanation for a notebook cell."""
    return _cell(fragment(explanation) + _scores(explanation) + _legend([explanation]))


def notebook_list(explanations: Explanations) -> str:
    """Many explanations for a notebook cell: the target, the score and the coloured words of each, then one legend."""
    shown, rest = explanations[: explanations.shown], len(explanations) - explanations.shown
    methods = list(dict.fromkeys(map(method_label, shown)))
    rows = "".join(_row(e, group[0] is e, len(methods) > 1) for group in shown.groups() for e in group)
    more = f'<div class="head">… and {rest} more</div>' if rest > 0 else ""
    head = f'<div class="head">{_safe(", ".join(methods)) or "no explanations"}</div>'
    return _cell(head + f'<table class="scores list">{rows}</table>{more}{_legend(shown)}' if shown else head)


def _row(explanation: Explanation, is_first: bool, has_method: bool) -> str:
    label = explanation.question + (f", {method_label(explanation)}" if has_method else "")
    cells = f'<td class="head">{_safe(label)}</td><td class="head n">{explanation.score:+.3f}</td>'
    text = f'<td><div class="text" dir="auto">{_heatmap(explanation)}</div></td>'
    return f'<tr class="{"f" if is_first else ""}">{cells}{text}</tr>'


def _cell(content: str) -> str:
    return f'<style>{NOTEBOOK}{STYLE}</style><div class="whence">{content}</div>'


def page(groups: Sequence[Sequence[Explanation]], *, title: str = "Which words spoke for the decision?") -> str:
    """A whole page with the explanations and the scores of every text."""
    sections = "".join("<section>" + "".join(map(fragment, group)) + _scores(group[0]) + "</section><hr>" for group in groups)
    models = ", ".join(dict.fromkeys(group[0].model for group in groups))
    everything = [explanation for group in groups for explanation in group]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_safe(title)}</title><style>{PAGE}{STYLE}</style></head>"
        f'<body><main class="whence"><h1>{_safe(title)}</h1><p class="head">model: {_safe(models)}</p>'
        f"{_legend(everything)}{sections}</main></body></html>\n"
    )


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
