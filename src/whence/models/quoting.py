"""What stood in a file, short enough for a message about that file."""

import reprlib

LENGTH = 200  # characters

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 2, LENGTH // 2, LENGTH // 2, LENGTH // 2


def quoted(value: object) -> str:
    """A value as Python writes it; only the beginning and the end of a long one."""
    return shortened(_REPR.repr(value))


def shortened(text: object) -> str:
    """The beginning of a text."""
    written = str(text)
    return written if len(written) <= LENGTH else f"{written[:LENGTH]}…"
