"""Phrases and trees of phrases on a terminal, as a web page, for a notebook and as JSON; the drawing of a tree is elsewhere."""

import json
from collections.abc import Callable, Sequence
from html import escape

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from whence.errors import InputError
from whence.phrase import Node, Phrase, Phrases, PhraseTree
from whence.render.colour import Shade, one_line
from whence.render.html import PAGE, STYLE
from whence.render.labels import method_label
from whence.render.phrase_tree import drawing
from whence.render.terminal import Palette, _captured, _style, palette_of

Shown = Phrases | PhraseTree
MORE = """
.whence svg { max-width: 100%; height: auto; display: block; margin: .8em 0; }
.whence.whence .scores th { text-align: left; font-weight: normal; opacity: .75; padding-right: 1.2em; }
"""
NOTEBOOK = ".whence { font: 14px/1.6 system-ui, sans-serif; max-width: 66em; }"
NOTE = "together: what a phrase gives beyond the sum of its words"
JOINED = "joined: what a phrase gives beyond the sum of its two parts"


def heading(shown: Shown) -> str:
    """The method, the target and its score."""
    explanation = shown.explanation
    return one_line(f"{method_label(explanation)} for {explanation.question}, score {explanation.score:+.3f}")


def shade_of(phrase: Phrase, phrases: Sequence[Phrase]) -> Shade:
    """The shade of a phrase among others: full at the largest relevance."""
    largest = max((abs(each.relevance) for each in phrases), default=0.0)
    return Shade(abs(phrase.relevance) / largest if largest else 0.0, phrase.relevance >= 0)


def _rows(phrases: Phrases) -> tuple[Phrases, int]:
    """The phrases that are displayed, and how many are not."""
    rest = len(phrases) - phrases.shown
    return (phrases.largest(phrases.shown), rest) if rest > 0 else (phrases, 0)


def terminal(shown: Shown, *, width: int | None = None, colour: bool | None = None) -> str:
    """A table of phrases, or a tree; width and colour are those of the terminal."""
    found = _captured(lambda console: print_on(console, shown), width=width, colour=colour)
    return "\n".join(line.rstrip() for line in found.splitlines())


def print_on(console: Console, shown: Shown) -> None:
    """Print phrases or a tree."""
    console.print(Text(heading(shown), style="bold"))
    palette = palette_of(console)
    if isinstance(shown, PhraseTree):
        console.print(_branch(shown.root, shown.phrases(), palette))
        console.print(Text(f"\n{JOINED}", style="dim"))
        return
    rows, rest = _rows(shown)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("relevance", "together"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("phrase", overflow="fold")
    for each in rows:
        table.add_row(f"{each.relevance:+.3f}", _together(each), _coloured(each, rows, palette))
    console.print(table)
    console.print(Text((f"… and {rest} more; " if rest else "") + NOTE, style="dim"))


def _branch(node: Node, phrases: Sequence[Phrase], palette: Palette) -> Tree:
    line = Text(f"{node.phrase.relevance:+.3f}  ").append(_coloured(node.phrase, phrases, palette))
    if node.parts:
        line.append(f"  joined {node.joint:+.3f}", style="dim")
    tree = Tree(line, guide_style="dim")
    tree.children = [_branch(part, phrases, palette) for part in node.parts]
    return tree


def _together(phrase: Phrase) -> str:
    return "–" if phrase.interaction is None else f"{phrase.interaction:+.3f}"


def _coloured(phrase: Phrase, phrases: Sequence[Phrase], palette: Palette) -> Text:
    shade = shade_of(phrase, phrases)
    return Text(one_line(phrase.text)) if palette == "signs" else Text(one_line(phrase.text), style=_style(shade, palette))


def _safe(text: str) -> str:
    return escape(one_line(text), quote=True)


def _content(shown: Shown) -> str:
    if isinstance(shown, PhraseTree):  # the drawing has the heading
        rows = "".join(_row(node.phrase, shown.phrases(), f"{node.joint:+.3f}") for node in shown.root if node.parts)
        table = f'{_table(rows, "joined")}<p class="legend">{_safe(JOINED)}</p>'
        return f"{drawing(shown)}<details><summary>All phrases as a table</summary>{table}</details>"
    phrases, rest = _rows(shown)
    rows = "".join(_row(each, phrases, _together(each)) for each in phrases)
    more = f"… and {rest} more; " if rest else ""
    head = f'<div class="head">{_safe(heading(shown))}</div>'
    return f'{head}{_table(rows, "together")}<p class="legend">{_safe(more + NOTE)}</p>'


def _table(rows: str, last: str) -> str:
    return f'<table class="scores"><tr><th>relevance</th><th>{last}</th><th>phrase</th></tr>{rows}</table>'


def _row(phrase: Phrase, phrases: Sequence[Phrase], together: str) -> str:
    shade = shade_of(phrase, phrases)
    red, green, blue = shade.full
    kinds = "t" + " s" * (shade.letters == "white")
    text = (
        f'<span class="{kinds}" style="background:rgba({red},{green},{blue},{shade.strength:.3f})">{_safe(phrase.text)}</span>'
    )
    return f'<tr><td class="n">{phrase.relevance:+.3f}</td><td class="n">{together}</td><td dir="auto">{text}</td></tr>'


def notebook(shown: Shown) -> str:
    """Phrases or a tree for a notebook cell."""
    return f'<style>{NOTEBOOK}{STYLE}{MORE}</style><div class="whence">{_content(shown)}</div>'


def page(shown: Shown) -> str:
    """A whole page without scripts."""
    title = "What do the phrases give?"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{PAGE}.whence {{ max-width: 66rem; }}{STYLE}{MORE}</style></head>"
        f'<body><main class="whence"><h1>{title}</h1><p class="head">model: {_safe(shown.explanation.model)}</p>'
        f"{_content(shown)}</main></body></html>\n"
    )


def svg(shown: Shown) -> str:
    """The drawing of a tree."""
    if not isinstance(shown, PhraseTree):
        raise InputError("an SVG image shows a tree of phrases; leave out --span, or use --format html for a table")
    return drawing(shown) + "\n"


def as_json(shown: Shown) -> str:
    """Phrases or a tree as one JSON object."""
    return json.dumps(shown.to_dict(), allow_nan=False) + "\n"


def plain(shown: Shown) -> str:
    """Phrases or a tree without colour, for a file."""
    return terminal(shown, colour=False, width=120) + "\n"


FORMATS: dict[str, Callable[[Shown], str]] = {"terminal": plain, "html": page, "json": as_json, "svg": svg}
