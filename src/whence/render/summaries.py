"""Summaries on a terminal, as a web page, for a notebook, as plain text and as JSON."""

import json
from collections.abc import Callable
from html import escape

from rich.console import Console
from rich.table import Table
from rich.text import Text

from whence.render.colour import Shade, one_line, visible
from whence.render.html import PAGE, STYLE
from whence.render.labels import method_label
from whence.render.probability import probabilities
from whence.render.terminal import _captured
from whence.summary import Reading, Summary
from whence.text.sentences import PARAGRAPH

MORE = """
.whence .gone { opacity: .5; }
.whence h2 { font-size: 1.05em; margin: 1em 0 0; }
.whence.whence .scores th { text-align: left; font-weight: normal; opacity: .75; padding-right: 1.2em; }
"""
NOTEBOOK = ".whence { font: 14px/1.6 system-ui, sans-serif; max-width: 54em; }"


def heading(summary: Summary) -> str:
    """The method and the target."""
    return one_line(f"{method_label(summary.explanations[0])} for {summary.question}")


def counts(summary: Summary) -> str:
    """How much is kept: sentences, words, and relevance for the target."""
    words = f"{summary.words} of {summary.document_words} words ({100 * summary.words / summary.document_words:.0f} %)"
    kept = sum(part.is_kept for part in summary.parts)
    unit = f"{kept} of {len(summary.parts)} sentences" if summary.unit == "sentence" else _numbered(len(summary.spans), "span")
    return f"{unit}, {words}, {100 * summary.share:.0f} % of the relevance for {one_line(summary.target)}"


def _numbered(count: int, name: str) -> str:
    return f"{count} {name}" if count == 1 else f"{count} {name}s"


def verdict(summary: Summary) -> str:
    """Whether the summary alone keeps the decision."""
    whole, alone = one_line(summary.whole.predicted), one_line(summary.alone.predicted)
    return (
        f"the summary alone keeps the decision: {whole}"
        if summary.keeps_decision
        else f"the summary alone does not keep the decision: {alone} instead of {whole}"
    )


def shortened(summary: Summary) -> str:
    """The pieces of the summary with " … " where something is left out, and paragraphs apart."""
    found, place = "", 0
    for (start, end), piece in zip(summary.spans, summary.pieces, strict=True):
        found += _gap(summary.document[place:start], is_first=not found) + piece
        place = end
    return found + " …" * bool(summary.document[place:].strip())


def _gap(gap: str, *, is_first: bool) -> str:
    """What is shown in place of a gap between two pieces, or before the first one."""
    if is_first:
        return "… " * bool(gap.strip())
    before, *others = PARAGRAPH.split(gap)
    if not others:
        return " … " if gap.strip() else gap
    return " …" * bool(before.strip()) + "\n\n" + "… " * any(map(str.strip, others))


def terminal(summary: Summary, *, width: int | None = None, colour: bool | None = None) -> str:
    """The summary, how much it keeps, and the scores; width and colour are those of the terminal."""
    found = _captured(lambda console: print_on(console, summary), width=width, colour=colour)
    return "\n".join(line.rstrip() for line in found.splitlines())


def print_on(console: Console, summary: Summary) -> None:
    """Print a summary."""
    console.print(Text(heading(summary), style="bold"))
    console.print(Text(counts(summary), style="dim"))
    console.print(Text(f"\n{visible(shortened(summary))}\n"))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("", "whole", "summary"):
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    for name, *cells in _rows(summary):
        table.add_row(Text(one_line(name)), *cells)
    console.print(table)
    console.print(Text(f"\n{verdict(summary)}", style="dim"))


def _rows(summary: Summary) -> list[tuple[str, str, str]]:
    """For every class, its score and probability on the document and on the summary."""

    def cells(reading: Reading) -> list[str]:
        shares = probabilities(reading.scores)
        return [f"{score:+.3f} {100 * shares[name]:5.1f} %" for name, score in reading.scores.items()]

    return list(zip(summary.whole.scores, cells(summary.whole), cells(summary.alone), strict=True))


def _safe(text: str) -> str:
    return escape(visible(text), quote=True)


def _content(summary: Summary) -> str:
    head = "".join(f'<div class="head">{_safe(line)}</div>' for line in (heading(summary), counts(summary), verdict(summary)))
    rows = "".join(
        f'<tr class="{"p" if name == summary.whole.predicted else ""}"><td>{escape(one_line(name))}</td>'
        f'<td class="n">{one}</td><td class="n">{other}</td></tr>'
        for name, one, other in _rows(summary)
    )
    table = f'<table class="scores"><tr><th></th><th>whole</th><th>summary</th></tr>{rows}</table>'
    legend = "coloured: the summary, stronger with more relevance per word; pale: left out"
    document = f'<div class="text" dir="auto">{_document(summary)}</div><p class="legend">{legend}</p>'
    return f'{head}<div class="text" dir="auto">{_safe(shortened(summary))}</div>{table}<h2>In the document</h2>{document}'


def _document(summary: Summary) -> str:
    """The document: kept parts in colour, the others pale."""
    largest = max(abs(part.relevance) / part.words for part in summary.parts)
    found, place = list[str](), 0
    for part in summary.parts:
        shade = Shade(abs(part.relevance) / part.words / largest if largest else 0.0, part.relevance >= 0)
        red, green, blue = shade.full
        kinds = ("t" + " s" * (shade.letters == "white")) if part.is_kept else "gone"
        style = f' style="background:rgba({red},{green},{blue},{shade.strength:.3f})"' if part.is_kept else ""
        found.append(_safe(summary.document[place : part.start]))
        text = _safe(summary.document[part.start : part.end])
        found.append(f'<span class="{kinds}"{style} title="{part.relevance:+.4f}">{text}</span>')
        place = part.end
    return "".join(found) + _safe(summary.document[place:])


def notebook(summary: Summary) -> str:
    """A summary for a notebook cell."""
    return f'<style>{NOTEBOOK}{STYLE}{MORE}</style><div class="whence">{_content(summary)}</div>'


def page(summary: Summary) -> str:
    """A whole page without scripts."""
    title = "What carries the decision?"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{PAGE}{STYLE}{MORE}</style></head>"
        f'<body><main class="whence"><h1>{title}</h1><p class="head">model: {_model(summary)}</p>'
        f"{_content(summary)}</main></body></html>\n"
    )


def _model(summary: Summary) -> str:
    return escape(one_line(summary.explanations[0].model), quote=True)


def text(summary: Summary) -> str:
    """The text of the summary alone."""
    return visible(summary.text) + "\n"


def as_json(summary: Summary) -> str:
    """A summary as one JSON object."""
    return json.dumps(summary.to_dict(), allow_nan=False) + "\n"


def plain(summary: Summary) -> str:
    """A summary without colour, for a file."""
    return terminal(summary, colour=False, width=120) + "\n"


FORMATS: dict[str, Callable[[Summary], str]] = {"text": text, "terminal": plain, "html": page, "json": as_json}
