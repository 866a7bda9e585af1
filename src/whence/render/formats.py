"""The output formats by name: the one list that the command goes by. A format's file is imported when it is first used."""

from collections.abc import Callable, Sequence
from importlib import import_module

from whence.explanation import Explanation

Groups = Sequence[Sequence[Explanation]]  # the explanations of one text together

# Where the function of each format is: from groups of explanations to a string.
FORMATS = {
    "terminal": "whence.render.terminal.plain",
    "html": "whence.render.html.page",
    "json": "whence.render.json_lines.json_lines",
    "latex": "whence.render.latex.document",
    "svg": "whence.render.svg.picture",
}


def rendered(groups: Groups, format: str) -> str:
    """Explanations in one of the formats."""
    module, _, name = FORMATS[format].rpartition(".")
    function: Callable[[Groups], str] = getattr(import_module(module), name)
    found = function(groups)
    assert isinstance(found, str), f"{FORMATS[format]} returned a {type(found).__name__}; a format returns a string"
    return found
