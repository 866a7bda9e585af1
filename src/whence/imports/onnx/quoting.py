"""Quotes from a file, shortened for error messages."""

import reprlib

LENGTH = 200  # characters

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 2, LENGTH // 2, LENGTH // 2, LENGTH // 2


def quoted(value: object) -> str:
    """The repr of a value, shortened if it is long."""
    return shortened(_REPR.repr(value))


def shortened(text: object) -> str:
    """A text on one line, cut off after 200 characters."""
    written = " ".join(str(text).split())
    return written if len(written) <= LENGTH else f"{written[:LENGTH]}…"
