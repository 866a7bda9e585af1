"""An inspection on a terminal, as a web page and for a notebook."""

import json
from collections.abc import Callable, Sequence
from html import escape

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from whence.inspection import INPUTS, NO_RELEVANCE, Inspection, Part, Row
from whence.render.colour import FOR, hexadecimal, one_line
from whence.render.drawing import drawing
from whence.render.html import PAGE
from whence.render.labels import SYMBOLS, effective
from whence.render.terminal import _captured

STYLE = f"""
.whence .no {{ color: {hexadecimal(FOR)}; font-weight: bold; }}
.whence svg {{ max-width: 100%; height: auto; display: block; margin: .8em 0; }}
.whence summary {{ cursor: pointer; font-size: .9em; }}
.whence ul {{ padding-left: 1.2em; }}
.whence code {{ font-size: .95em; }}
.whence.whence .rows {{ border-collapse: collapse; font-size: .85em; margin: .6em 0; color: inherit; }}
.whence.whence .rows tr {{ background: none; }}
.whence.whence .rows th, .whence.whence .rows td {{
  text-align: left; vertical-align: top; padding: .25em .9em .25em 0; border-bottom: 1px solid rgba(128, 128, 128, .3); }}
.whence.whence .rows .quiet {{ opacity: .6; }}
@media print {{ .whence, .whence * {{ -webkit-print-color-adjust: exact; print-color-adjust: exact; }} }}
"""
NOTEBOOK = ".whence { font: 14px/1.6 system-ui, sans-serif; max-width: 66em; }"
WIDE = ".whence { max-width: 60rem; }"


def place(layer: str) -> str:
    """A layer's name, in words for the model itself."""
    return one_line(layer) if layer else "the model itself"


def heading(inspection: Inspection) -> str:
    """The model, its inputs and the method."""
    settings = [_setting(key, value) for key, value in effective(inspection.method).items()]
    method = f"{str(inspection.method['name']).upper()} ({', '.join(filter(None, settings))})"
    return one_line(f"{inspection.model} · {inspection.inputs} · {method}")


def _setting(key: str, value: object) -> str:
    """A setting of the method, in words; nothing for one that is off."""
    if isinstance(value, bool):
        return key if value else ""
    return f"{SYMBOLS.get(key, key)} = {value:g}" if isinstance(value, (int, float)) else f"{key} {value}"


def verdict(inspection: Inspection) -> str:
    """In one sentence whether the model can be explained."""
    rows, refused, choices = inspection.rows, inspection.refused, len(inspection.choices)
    if refused:
        what = "1 place" if len(refused) == 1 else f"{len(refused)} places"
        return f"The model cannot be explained with this method: relevance is refused at {what}."
    decided = {0: "nothing had to be decided", 1: "1 choice was made"}.get(choices, f"{choices} choices were made")
    kinds = "1 kind" if len(rows) == 1 else f"{len(rows)} kinds"
    return f"Relevance can pass from the output to the inputs, through {kinds} of operations; {decided}."


def short(name: str, layer: str) -> str:
    """The name of an absorbed amount without its layer."""
    return one_line(name.removeprefix(f"{layer}.") if layer else name)


def terminal(inspection: Inspection, *, width: int | None = None, colour: bool | None = None) -> str:
    """The inspection as a tree of parts, with a table of operations in each; width and colour are those of the terminal."""
    found = _captured(lambda console: print_on(console, inspection), width=width, colour=colour)
    return "\n".join(line.rstrip() for line in found.splitlines())


def print_on(console: Console, inspection: Inspection) -> None:
    """Print an inspection."""
    console.print(Text(heading(inspection), style="bold"))
    console.print(Text(verdict(inspection), style="green" if inspection.is_explainable else "bold red"))
    console.print()
    tree = Tree(Text("inputs", style="bold"), guide_style="dim")
    widths = [
        max((len(_called(row)) for row in inspection.rows), default=0),
        max((len(r.rule) for r in inspection.rows), default=0),
    ]
    for number, part in enumerate(inspection.parts):
        tree.add(Group(_header(inspection, number, part), *(_line(row, widths, console.width - 4) for row in part.rows), ""))
    tree.add(Text("output").append(_goes_to(inspection, len(inspection.parts))))
    console.print(tree)
    console.print()
    console.print(_legend())
    for each in _notes(inspection):
        console.print(each)


def _called(row: Row) -> str:
    """The operation, with the number of its calls."""
    return one_line(row.operation or "(all)") + (f" ×{row.times}" if row.times > 1 else "")


def _header(inspection: Inspection, number: int, part: Part) -> Text:
    line = Text().append(f"{number + 1} ", style="dim").append(place(part.layer), style="bold")
    return line.append(f"  {one_line(part.kind)}", style="italic").append(_goes_to(inspection, number))


def _goes_to(inspection: Inspection, number: int) -> Text:
    """Where the arrows that start at a part lead."""
    line = Text()
    for kind, words, style in (("relevance", "relevance to", "green"), ("gate", "gates from", "magenta")):
        ends = sorted({arrow.end for arrow in inspection.arrows if arrow.start == number and arrow.kind == kind})
        if ends:
            line.append(f"  {words} " + ", ".join("inputs" if end == INPUTS else str(end + 1) for end in ends), style=style)
    return line


def _line(row: Row, widths: Sequence[int], width: int) -> RenderableType:
    """One row: its mark, operation and rule, and below them what else is to say."""
    mark, style = _mark(row)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=1)
    table.add_column(width=min(widths[0], width // 3), overflow="fold")
    table.add_column(width=min(widths[1], width // 3), overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    quiet = "" if row.flow == "passes" or row.refused else "dim"
    table.add_row(Text(mark, style=style), Text(_called(row), style=quiet), Text(row.rule, style=quiet), _remarks(row))
    return table


def _mark(row: Row) -> tuple[str, str]:
    if row.refused:
        return "✕", "bold red"
    return ("●", "green") if row.flow == "passes" else ("○", "magenta" if row.flow == "gate" else "dim")


def _remarks(row: Row) -> Text:
    """Gate and source, what is absorbed, what was decided, and why relevance is refused."""
    found: list[Text] = []
    if row.flow == "gate" and row.gate:
        found.append(Text.assemble(("no relevance: ", "dim"), (f"a gate, {one_line(row.why)}", "magenta")))
    elif row.flow != "passes" and not row.refused:
        found.append(Text(NO_RELEVANCE[row.flow], style="dim"))
    elif row.gate:
        found.append(Text.assemble(("gate ", "dim"), (one_line(row.gate), "magenta"), (f": {one_line(row.why)}", "dim")))
    elif row.why:
        found.append(Text(one_line(row.why), style="dim"))
    if row.source:
        found.append(Text.assemble(("source ", "dim"), (one_line(row.source), "green")))
    if row.absorbs:
        found.append(Text.assemble(("absorbs ", "dim"), (", ".join(short(each, row.layer) for each in row.absorbs), "yellow")))
    if row.choice:
        found.append(Text(f"choice: {one_line(row.choice)}", style="cyan"))
    if row.refused:
        found.append(Text(f"refused: {one_line(row.refused)}", style="red"))
    return Text("\n").join(found)


def _legend() -> Text:
    return Text.assemble(
        ("●", "green"), " gets relevance   ", ("○", "magenta"), " gets none   ", ("✕", "bold red"), " refuses it   ",
        ("absorbs", "yellow"), " where relevance stays, by the names in result.absorbed",
    )  # fmt: skip


def _notes(inspection: Inspection) -> Sequence[RenderableType]:
    """The choices that were made, and what to do about what is refused."""
    found: list[RenderableType] = []
    if inspection.choices:
        found.append(Text("\nChoices (whence.gate(tensor) marks a gate, LRP(strict=True) refuses instead):", style="bold"))
        found += [Padding(Text(one_line(str(choice)), style="cyan"), (0, 0, 0, 2)) for choice in inspection.choices]
    if inspection.doubt:
        found.append(Text(f"\nIn doubt, for what it predicts here: {one_line(inspection.doubt)}", style="yellow"))
    if inspection.refused:
        found.append(Text("\nRefused:", style="bold"))
        found += [Padding(Text(one_line(sentence(row)), style="red"), (0, 0, 0, 2)) for row in inspection.refused]
    return found


def sentence(row: Row) -> str:
    """Why a row is refused, and what to do about it."""
    where = f"{row.operation} ({place(row.layer)}): " if row.operation else ""
    return f"{where}{row.refused}{f'; {row.advice}' if row.advice else ''}"


def notebook(inspection: Inspection) -> str:
    """An inspection for a notebook cell: the drawing, then the table."""
    return f'<style>{NOTEBOOK}{STYLE}</style><div class="whence">{_content(inspection)}</div>'


def page(inspection: Inspection) -> str:
    """A whole page without scripts."""
    title = f"What relevance will do in {inspection.model}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_safe(title)}</title><style>{PAGE}{WIDE}{STYLE}</style></head>"
        f'<body><main class="whence"><h1>{_safe(title)}</h1>{_content(inspection)}</main></body></html>\n'
    )


def as_json(inspection: Inspection) -> str:
    """An inspection as one JSON object."""
    return json.dumps(inspection.to_dict(), allow_nan=False) + "\n"


def plain(inspection: Inspection) -> str:
    """An inspection without colour, for a file."""
    return terminal(inspection, colour=False, width=120) + "\n"


FORMATS: dict[str, Callable[[Inspection], str]] = {"terminal": plain, "html": page, "json": as_json}


def _safe(text: str) -> str:
    return escape(one_line(text), quote=True)


def _content(inspection: Inspection) -> str:
    kind = "" if inspection.is_explainable else ' class="no"'
    head = f"<div>{_safe(heading(inspection))}</div><div{kind}>{_safe(verdict(inspection))}</div>"
    choices = [_safe(str(choice)) for choice in inspection.choices]
    about = "Choices (<code>whence.gate(tensor)</code> marks a gate, <code>LRP(strict=True)</code> refuses instead)"
    refused = [_safe(sentence(row)) for row in inspection.refused]
    doubt = f"<div>In doubt, for what it predicts here: {_safe(inspection.doubt)}</div>" if inspection.doubt else ""
    return head + doubt + drawing(inspection) + _list("Refused", refused) + _list(about, choices) + _table(inspection)


def _list(title: str, items: Sequence[str]) -> str:
    return f"<div><b>{title}</b><ul>{''.join(f'<li>{item}</li>' for item in items)}</ul></div>" if items else ""


def _table(inspection: Inspection) -> str:
    names = ("layer", "operation", "rule", "relevance", "gate", "source", "absorbs")
    head = "".join(f"<th>{name}</th>" for name in names)
    return (
        f'<details><summary>All operations as a table</summary><table class="rows"><tr>{head}</tr>'
        f"{''.join(map(_cells, inspection.rows))}</table></details>"
    )


def _cells(row: Row) -> str:
    flow = "refused" if row.refused else "yes" if row.flow == "passes" else NO_RELEVANCE[row.flow].partition(": ")[2]
    gate = f"{row.gate}: {row.why}" if row.gate else row.why
    absorbs = ", ".join(short(each, row.layer) for each in row.absorbs)
    cells = (place(row.layer), _called(row), row.rule, flow, gate, row.source, absorbs)
    kind = "no" if row.refused else "" if row.flow == "passes" else "quiet"
    return f'<tr class="{kind}">{"".join(f"<td>{_safe(cell)}</td>" for cell in cells)}</tr>'
