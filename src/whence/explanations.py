"""`Explanations`: a list of explanations, which shows itself, becomes a table, and is saved to a file."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, SupportsIndex, cast, overload

from whence.errors import DataError
from whence.explanation import Explanation
from whence.plotted import Plotted


class Explanations(list[Explanation], Plotted):
    """A list of explanations that displays itself in a terminal and in a notebook.

        found = whence.explain(pipeline, frame["review"], labels=frame["sentiment"])
        found.to_pandas()            # with the index of the frame
        found.save("reviews.html")   # or .jsonl, .csv, .parquet, .tex, .svg

    A text that could not be explained is an entry whose `error` says why.
    """

    # How the list is displayed, as "text" and as "html"; filled by whence.render.display.
    displays: ClassVar[dict[str, Callable[["Explanations"], str]]] = {}
    # How the list is written to a file, the format of which its suffix says; filled by whence.render.display.
    writers: ClassVar[dict[str, Callable[["Explanations", Path], None]]] = {}
    shown: ClassVar[int] = 20  # how many are displayed; the others are only counted

    def __init__(self, found: Iterable[Explanation] = (), *, index: Any = None, note: str = "") -> None:
        super().__init__(found)
        self.note = note  # what is said above the list, such as how labels were read
        self.pandas_index = index  # of the column that the texts came from, if pandas made it

    @overload
    def __getitem__(self, place: SupportsIndex) -> Explanation: ...
    @overload
    def __getitem__(self, place: slice) -> "Explanations": ...
    def __getitem__(self, place: SupportsIndex | slice) -> "Explanation | Explanations":
        if isinstance(place, slice):
            return Explanations(super().__getitem__(place), index=self.pandas_index, note=self.note)
        return super().__getitem__(place)

    def where(self, wanted: Callable[[Explanation], object]) -> "Explanations":
        """Those that a function wants, in order: `found.where(lambda each: each.is_right is False)`."""
        return Explanations(filter(wanted, self), index=self.pandas_index, note=self.note)

    def groups(self) -> list["Explanations"]:
        """The explanations grouped by text, such as those for all classes of one text."""
        return [Explanations(group) for _, group in groupby(self, key=lambda each: (each.row, each.text))]

    def by_word(self) -> "Explanations":
        """The same explanations with words as their tokens."""
        return Explanations((explanation.by_word() for explanation in self), index=self.pandas_index, note=self.note)

    def failures(self) -> "Explanations":
        """The entries of the texts that could not be explained."""
        return self.where(lambda each: each.error)

    def top_words(self, count: int = 8) -> list[tuple[str, float, int]]:
        """The words with the largest sums of relevance, of either sign: word, sum, and how often it occurs.

        Words are compared in lower case, and punctuation marks are left out.
        """
        sums, times = defaultdict[str, float](float), defaultdict[str, int](int)
        for explanation in self:
            whole = explanation.by_word()
            for word, relevance in zip(whole.tokens, whole.relevance, strict=True):
                if any(map(str.isalnum, word)):
                    sums[word.strip().lower()] += relevance
                    times[word.strip().lower()] += 1
        best = sorted(sums, key=lambda word: (-abs(sums[word]), word))[:count]
        return [(word, sums[word], times[word]) for word in best]

    def columns(self) -> dict[str, list[Any]]:
        """The explanations as the columns of a table: a row for each, and None where there is nothing."""

        def column(value: Callable[[Explanation], object]) -> list[Any]:
            return [None if each.error else value(each) for each in self]

        found: dict[str, list[Any]] = {
            "row": [each.row for each in self],
            "text": [each.text for each in self],
            "label": [each.label for each in self],
            "predicted": column(lambda each: each.predicted),
            "target": column(lambda each: each.target),
            "versus": column(lambda each: each.versus or None),
            "score": column(lambda each: each.score),
            "tokens": column(lambda each: list(each.tokens)),
            "relevance": column(lambda each: list(each.relevance)),
            "spans": column(lambda each: [list(span) for span in each.spans]),
            "unknown": column(lambda each: list(each.unknown)),
            "scores": column(lambda each: dict(each.scores)),
            "absorbed": column(lambda each: dict(each.absorbed)),
            "method": column(lambda each: json.dumps(dict(each.method))),
            "model": [each.model for each in self],
            "error": [each.error or None for each in self],
        }
        return found

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each; if the texts were a pandas column, with that one's index."""
        try:
            import pandas  # pyright: ignore[reportMissingTypeStubs]
        except ImportError:
            raise DataError("a DataFrame needs pandas; run: pip install pandas") from None
        rows, index = [each.row for each in self], self.pandas_index
        own = index.take(rows) if index is not None and all(row is not None and row < len(index) for row in rows) else None
        columns = {name: valid(column) for name, column in self.columns().items()}
        return cast(Any, pandas).DataFrame(columns, index=own)

    def to_arrow(self) -> Any:
        """A pyarrow Table with a row for each."""
        try:
            import pyarrow  # pyright: ignore[reportMissingTypeStubs]
        except ImportError:
            raise DataError("an Arrow table needs pyarrow; run: pip install 'whence[corpus]'") from None
        pa = cast(Any, pyarrow)
        amounts = pa.map_(pa.string(), pa.float64())
        types: dict[str, Any] = {"row": pa.int64(), "score": pa.float64(), "tokens": pa.list_(pa.string())}
        types |= {"relevance": pa.list_(pa.float64()), "unknown": pa.list_(pa.bool_()), "scores": amounts, "absorbed": amounts}
        types |= {"spans": pa.list_(pa.list_(pa.int64(), 2))}
        columns = {name: valid(column) for name, column in self.columns().items()}
        for name in ("scores", "absorbed"):
            columns[name] = [None if each is None else list(each.items()) for each in columns[name]]
        return pa.table({name: pa.array(column, types.get(name, pa.string())) for name, column in columns.items()})

    def save(self, path: str | Path) -> None:
        """Write a file, completely or not at all: .html, .jsonl, .csv, .parquet, .tex, .svg or .txt, by its suffix."""
        self.writers["save"](self, Path(path))

    def __repr__(self) -> str:
        return self.displays["text"](self) if "text" in self.displays else super().__repr__()

    def _repr_html_(self) -> str | None:
        return self.displays["html"](self) if "html" in self.displays else None


def valid(value: Any) -> Any:
    """The same with question marks for what is no character."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [valid(each) for each in cast(list[Any], value)]
    if isinstance(value, dict):
        return {valid(key): valid(each) for key, each in cast(dict[Any, Any], value).items()}
    return value
