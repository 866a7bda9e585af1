"""Texts explained in bulk: the rows of a part in, a table of their relevance out, and the reasons of those left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from whence._batches import TOKENS, Cut, cut
from whence._explain import One, answered, attempted, reason, text_of
from whence.corpus.layout import text_schema
from whence.corpus.parts import ASKED, Explained, Part, Rejected, asked_about
from whence.data.arrow import arrow
from whence.data.rows import Row
from whence.errors import InputError
from whence.methods.forward import Forward
from whence.methods.lrp import LRP
from whence.methods.method import Method
from whence.methods.target import Contrast
from whence.models.pipeline import Pipeline
from whence.text.sentences import sentence_spans
from whence.threads import one_thread

CHARACTERS_PER_TOKEN = 64  # a text with more than that for every token it may have is not even split


Place = tuple[int, int]  # the number of a row in its part, and of a sentence in its text


class Line(NamedTuple):
    """What was found for one text and one class."""

    relevance: NDArray[np.float32]
    scores: NDArray[np.float32]
    predicted: int
    target: int
    score: float
    absorbed: Mapping[str, float]


@dataclass(frozen=True)
class TextTask:
    """How texts are explained; a pure function of the rows of a part, wherever it runs."""

    pipeline: Pipeline
    target: One
    method: Method
    has_labels: bool = False
    longest: int = TOKENS  # tokens of a text
    device: str | None = None
    split: str | None = None

    def start(self) -> None:
        """Move the module to its device."""
        if self.device is not None:
            self.pipeline.module.to(self.device)

    def explain(self, part: Part) -> Explained:
        """Explain the texts of a part, in order; what cannot be explained is rejected with its reason."""
        cuts: dict[Place, Cut] = {}
        rejected: dict[int, str] = {}
        for n, row in enumerate(part.rows):
            try:
                cuts |= {(n, k): self._cut(text) for k, text in enumerate(self._texts(row))}
            except InputError as error:
                rejected[n] = str(error)
        lines: dict[Place, list[Line]] = {}
        with one_thread():
            for place, found in self._found(cuts):
                if isinstance(found, Exception):
                    rejected.setdefault(place[0], reason(found))
                else:
                    lines[place] = found
            asked = self._asked(cuts) if part.number == 0 and self.method.is_signed else None
        kept = {place: lines[place] for place in sorted(lines) if place[0] not in rejected}
        table = self._table(part, cuts, kept)
        return Explained(table, [Rejected(part.first + n, part.rows[n].id, rejected[n]) for n in sorted(rejected)], asked)

    def _asked(self, cuts: Mapping[Place, Cut]) -> dict[str, object]:
        """What the model itself says of the first rows."""
        method = replace(self.method, strict=False) if isinstance(self.method, LRP) else self.method

        def work(places: list[Place], forward: Forward) -> list[list[str | None]]:
            own = [cuts[place] for place in places]
            result, _ = answered(self.pipeline, forward, self.target, method, cuts=own, check="model")
            doubts = result.doubts()
            return [doubts[n :: len(places)] for n in range(len(places))]

        doubts: dict[int, list[str | None]] = {}
        for (n, _), found in attempted(self.pipeline, {place: cuts[place] for place in cuts if place[0] < ASKED}, work):
            if not isinstance(found, Exception):
                doubts.setdefault(n, []).extend(found)
        return asked_about(doubts)

    def _texts(self, row: Row) -> list[str | tuple[str, ...]]:
        """The text of a row, or its sentences; raises if it has none."""
        text = text_in(row)
        whole = text if isinstance(text, str) else " ".join(text)
        return [whole[start:end] for start, end in sentence_spans(whole)] if self.split else [text]

    def _cut(self, text: str | tuple[str, ...]) -> Cut:
        """The tokens of a text; raises if there are too many."""
        length, most = len(text if isinstance(text, str) else " ".join(text)), CHARACTERS_PER_TOKEN * self.longest
        if length > most:
            raise InputError(f"the text is too long: {length:,} characters; at most {most:,}")
        found = cut(self.pipeline, text)
        if len(found.forms) > self.longest:
            raise InputError(f"the text is too long: {len(found.forms):,} tokens; at most {self.longest:,}")
        return found

    def _found(self, cuts: Mapping[Place, Cut]) -> Iterable[tuple[Place, "list[Line] | Exception"]]:
        """For every text its lines, or why there are none."""

        def work(places: list[Place], forward: Forward) -> list[list[Line]]:
            result, scores = answered(self.pipeline, forward, self.target, self.method)
            return list(self._lines([cuts[place] for place in places], result, scores.float().cpu().numpy()))

        return attempted(self.pipeline, cuts, work)

    def _lines(self, cuts: Sequence[Cut], result: Any, scores: NDArray[np.float32]) -> Iterable[list[Line]]:
        """The lines of a batch: one for every text, or one for every class of every text."""
        relevance, amounts = result.relevance.float().cpu().numpy(), result.score.double().cpu().numpy()
        absorbed = {name: amount.double().cpu().numpy() for name, amount in result.absorbed.items()}
        is_all = self.target == "all"
        one = self.target.one if isinstance(self.target, Contrast) else self.target
        for n, (each, best) in enumerate(zip(cuts, cast(list[int], scores.argmax(1).tolist()), strict=True)):
            classes = range(len(scores[n])) if is_all else [best if one == "predicted" else cast(int, one)]
            yield [
                Line(relevance[place][: len(each.forms)], scores[n], best, index, float(amounts[place]), {
                    name: float(amount[place]) for name, amount in absorbed.items()
                })
                for index in classes
                for place in [(index, n) if is_all else (n,)]
            ]  # fmt: skip

    def _table(self, part: Part, cuts: Mapping[Place, Cut], lines: Mapping[Place, Sequence[Line]]) -> Any:
        pa, classes = arrow(), self.pipeline.classes
        flat = [(place, line) for place, own in lines.items() for line in own]
        numbers = [n for (n, _), _ in flat]
        own = [cuts[place] for place, _ in flat]
        tokens = [list(each.shown(self.pipeline)) for each in own]
        places = pa.array(np.cumsum([0, *map(len, tokens)]), pa.int32())
        relevance: Any = np.concatenate([line.relevance for _, line in flat]) if flat else np.zeros(0, np.float32)
        scores = np.stack([line.scores for _, line in flat]) if flat else np.zeros((0, len(classes)), np.float32)
        columns: dict[str, Any] = {
            "row": [part.first + n for n in numbers],
            "id": [part.rows[n].id for n in numbers],
            "sentence": [k for (_, k), _ in flat],
            "text": [each.text for each in own],
            "tokens": pa.ListArray.from_arrays(places, pa.array([token for each in tokens for token in each], pa.string())),
            "relevance": pa.ListArray.from_arrays(places, pa.array(relevance, pa.float32())),
            "predicted": [classes[line.predicted] for _, line in flat],
            "target": [classes[line.target] for _, line in flat],
            "score": [line.score for _, line in flat],
            "scores": pa.FixedSizeListArray.from_arrays(pa.array(scores.reshape(-1)), len(classes)).cast(
                pa.list_(pa.float32())
            ),
            "absorbed": [list(line.absorbed.items()) for _, line in flat],
            "label": [part.rows[n].label for n in numbers],
        }
        schema = text_schema(label=self.has_labels, sentence=bool(self.split))
        return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def text_in(row: Row) -> str | tuple[str, ...]:
    """The text of a row, or its words if it is split already; raises if it holds neither."""
    if row.problem:
        raise InputError(row.problem)
    content: object = row.content
    return text_of(content.decode("utf-8", "surrogateescape") if isinstance(content, bytes) else content)
