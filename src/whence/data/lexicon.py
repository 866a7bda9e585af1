"""VADER's sentiment lexicon, read from its package: how positive or negative people rated each word."""

from importlib.resources import files

from whence.errors import DataError


def vader() -> dict[str, float]:
    """The valence of every word of the lexicon, from −4 (most negative) to +4."""
    try:
        text = (files("vaderSentiment") / "vader_lexicon.txt").read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        raise DataError("VADER's lexicon is not installed; run: pip install 'whence[paper]'") from None
    return {fields[0]: float(fields[1]) for line in text.splitlines() if len(fields := line.split("\t")) > 1}
