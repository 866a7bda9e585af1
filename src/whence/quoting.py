"""Quotes for error messages from files, settings and arguments, shortened."""

import reprlib

LENGTH = 200  # characters

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 2, LENGTH // 2, LENGTH // 2, LENGTH // 2


def quoted(value: object) -> str:
    """The repr of a value, shortened if it is long."""
    return _cut(_REPR.repr(value))


def shortened(text: object) -> str:
    """A text on one line, cut off after 200 characters."""
    return _cut(" ".join(str(text).split()))


def _cut(text: str) -> str:
    return text if len(text) <= LENGTH else f"{text[:LENGTH]}…"
