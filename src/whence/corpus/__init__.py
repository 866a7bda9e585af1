"""Whole corpora: every text of files of any size explained into a folder of Parquet files, and what they tell of the model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whence.corpus._explain import explain as explain
    from whence.corpus.learned.compare import compare as compare
    from whence.corpus.learned.errors import errors as errors
    from whence.corpus.learned.examples import examples as examples
    from whence.corpus.learned.mixed import mixed as mixed
    from whence.corpus.learned.position import position as position
    from whence.corpus.learned.query import query as query
    from whence.corpus.learned.report import report as report
    from whence.corpus.learned.results import notes_of as notes_of
    from whence.corpus.learned.words import words as words

__all__ = ["compare", "errors", "examples", "explain", "mixed", "notes_of", "position", "query", "report", "words"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'whence.corpus' has no attribute {name!r}")
    home = {"explain": "_explain", "notes_of": "learned.results"}.get(name, f"learned.{name}")
    return getattr(import_module(f"whence.corpus.{home}"), name)
