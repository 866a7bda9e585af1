"""Texts of a corpus as explanations again, shown with coloured words under headings."""

from collections.abc import Mapping, Sequence
from io import StringIO
from itertools import groupby
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from whence.corpus.learned.snippets import spans_of
from whence.explanation import Explanation
from whence.render import html
from whence.render.colour import one_line
from whence.render.terminal import heatmap, legend, palette_of

COLUMNS = ("row", "id", "text", "tokens", "relevance", "predicted", "target", "score", "scores")


def explanation_of(row: Mapping[str, Any], manifest: Mapping[str, Any]) -> Explanation:
    """The explanation that a row of `texts` holds. Which words the model did not know is not stored, so none is marked."""
    tokens = tuple(row["tokens"])
    return Explanation(
        text=row["text"],
        tokens=tokens,
        spans=tuple(spans_of(row["text"], tokens)),
        unknown=(False,) * len(tokens),
        relevance=tuple(row["relevance"]),
        scores=dict(zip(manifest["model"]["classes"], row["scores"], strict=False)),
        predicted=row["predicted"],
        target=row["target"],
        method=manifest["method"],
        rules=manifest.get("rules", 1),
        model=manifest["model"]["name"],
        is_signed=bool(manifest["is_signed"]),
        versus=manifest.get("versus") or "",
        difference=row["score"],
    )


class Shown(NamedTuple):
    """A text under a heading, with a remark on it."""

    heading: str
    remark: str
    text: Explanation


def print_on(console: Console, shown: Sequence[Shown]) -> None:
    """Print the texts with coloured words, or with signs where there is no colour, and one legend."""
    palette = palette_of(console)
    for heading, own in groupby(shown, key=lambda each: each.heading):
        console.print(Text(one_line(heading), style="bold"))
        for each in own:
            console.print(Text(f"{one_line(each.remark)}  ", style="dim") + heatmap(each.text, palette))
        console.print()
    if shown:
        found = legend([each.text for each in shown], palette)
        console.print(found[1:])  # it starts with a line break


def plain(shown: Sequence[Shown]) -> str:
    """The same without colour, for a file."""
    stream = StringIO()
    print_on(Console(file=stream, width=100, no_color=True, highlight=False, force_jupyter=False), shown)
    return stream.getvalue()


def page(shown: Sequence[Shown], *, title: str) -> str:
    """The same as a self-contained page."""
    parts: list[str] = []
    for heading, own in groupby(shown, key=lambda each: each.heading):
        parts.append(f"<h2>{html._safe(heading)}</h2>")
        parts += [
            f'<section><div class="head">{html._safe(each.remark)}</div>{html.fragment(each.text)}</section>' for each in own
        ]
    texts = [each.text for each in shown]
    models = ", ".join(dict.fromkeys(text.model for text in texts))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html._safe(title)}</title><style>{html.PAGE}{html.STYLE}</style></head>"
        f'<body><main class="whence"><h1>{html._safe(title)}</h1><p class="head">model: {html._safe(models)}</p>'
        f"{html._legend(texts)}{''.join(parts)}</main></body></html>\n"
    )
