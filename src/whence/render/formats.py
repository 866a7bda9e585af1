"""The output formats by name and by suffix: the one list that commands go by. A format's file is imported when it is used."""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO

from whence.errors import InputError, WhenceError
from whence.explanation import Explanation
from whence.explanations import Explanations
from whence.models.files import whole_file
from whence.render.colour import visible

Groups = Sequence[Sequence[Explanation]]  # the explanations of one text together

# Where the function of each format is: from groups of explanations to a string.
FORMATS = {
    "terminal": "whence.render.terminal.plain",
    "html": "whence.render.html.page",
    "json": "whence.render.json_lines.json_lines",
    "latex": "whence.render.latex.document",
    "svg": "whence.render.svg.picture",
}
# Those for programs, which may be a string or bytes.
TABLES = {"csv": "whence.render.tables.csv_lines", "parquet": "whence.render.tables.parquet"}
SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".tex": "latex",
    ".svg": "svg",
    ".txt": "terminal",
}
PIECEWISE = ("json", "csv", "parquet")  # these can be written a piece at a time


def format_of(path: Path) -> str:
    """The format that a file's name says; one without a suffix holds what a terminal shows."""
    if not path.suffix:
        return "terminal"
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} ends in {path.suffix!r}; a format is known by its suffix: {', '.join(SUFFIXES)}")
    return SUFFIXES[path.suffix.lower()]


def rendered(groups: Groups, format: str) -> str:
    """Explanations in one of the formats that are text."""
    found = _function(format)(groups)
    assert isinstance(found, str), f"{FORMATS[format]} returned a {type(found).__name__}; a format returns a string"
    return found


def content(groups: Groups, format: str) -> bytes:
    """Explanations as the content of a file."""
    if format == "svg":  # which has no place for an error
        groups = [group for group in groups if not group[0].error]
    found = _function(format)(groups)
    return _bytes(found)


def _bytes(found: str | bytes) -> bytes:
    return found.encode("utf-8", errors="replace") if isinstance(found, str) else found


def write_pieces(file: IO[bytes], pieces: Iterable[Groups], format: str, *, is_terminal: bool = False) -> None:
    """Write explanations to a file as they come; formats that need all at once wait for the last.

    A terminal gets no control characters.
    """
    if format == "parquet":
        from whence.render.tables import write_parquet

        write_parquet(file, pieces)
    elif format in PIECEWISE:
        for n, groups in enumerate(pieces):
            head = {"head": False} if format == "csv" and n else {}
            found = _function(format)(groups, **head)
            file.write(_bytes(visible(found) if is_terminal and isinstance(found, str) else found))
            file.flush()
    else:
        file.write(content([group for groups in pieces for group in groups], format))


def _function(format: str) -> Callable[..., str | bytes]:
    module, _, name = (FORMATS | TABLES)[format].rpartition(".")
    return getattr(import_module(module), name)


def save(explanations: Explanations, path: Path) -> None:
    """Write a file completely or not at all, in the format that its suffix says."""
    found = content(explanations.groups(), format_of(path))
    try:
        with whole_file(path) as file:
            file.write(found)
    except (OSError, ValueError, RuntimeError) as error:
        raise WhenceError(f"{str(path)!r} cannot be written: {getattr(error, 'strerror', None) or error}") from None
