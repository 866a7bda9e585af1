"""A labelled test set with a pipeline's scores and explanations, from which all figures and tables are made."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence._batches import batches, cut, scores_of
from whence._explain import explain_all
from whence.errors import InputError
from whence.evaluation.words import word_groups
from whence.explanation import Explanation
from whence.methods.method import Method
from whence.models.pipeline import Pipeline

Report = Callable[[int], None]  # gets the number of sentences that were just done


@dataclass(frozen=True, eq=False)
class TestSet:
    """Sentences, split into words, and their labels. Explanations are by word whatever the pipeline's tokens are."""

    __test__ = False  # pytest would take it for a test case because of its name

    pipeline: Pipeline
    texts: Sequence[tuple[str, ...]]
    labels: Sequence[int]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def words(self) -> list[list[range]]:
        """The tokens of each word of each sentence."""
        return [word_groups(self.pipeline, text) for text in self.texts]

    @cached_property
    def scores(self) -> Tensor:
        """The score of every class for every sentence (sentences, classes)."""
        return self.scored()

    def scored(self, report: Report = lambda n: None) -> Tensor:
        """Compute the scores and cache them."""
        found = torch.empty(len(self), len(self.pipeline.classes), dtype=torch.float64)
        for part in self.parts(range(len(self)), size=forward_size):
            for rows, forward in batches(self.pipeline, [cut(self.pipeline, self.texts[n]) for n in part], size=len(part)):
                found[[part[k] for k in rows]] = scores_of(self.pipeline, forward).cpu().double()
            report(len(part))
        self.__dict__["scores"] = found  # the cache of the property
        return found

    @cached_property
    def predicted(self) -> NDArray[np.int64]:
        """The class predicted for every sentence."""
        return self.scores.numpy().argmax(-1)

    @property
    def is_correct(self) -> NDArray[np.bool_]:
        """Whether the prediction is the label."""
        return self.predicted == np.asarray(self.labels)

    @property
    def confusion(self) -> NDArray[np.int64]:
        """How many sentences there are of each label (row) and prediction (column)."""
        counts = np.zeros((len(self.pipeline.classes),) * 2, dtype=np.int64)
        np.add.at(counts, (np.asarray(self.labels), self.predicted), 1)
        return counts

    def at_least(self, words: int) -> list[int]:
        """The indices of the sentences with at least that many words."""
        return [n for n, text in enumerate(self.texts) if len(text) >= words]

    def parts(self, rows: Sequence[int], *, size: Callable[[int], int]) -> list[list[int]]:
        """Batches of sentences of similar length, as indices into `rows`; `size` gives the batch size for a length.

        Batches are small because progress is reported, and an interrupt takes effect, only after each of them.
        """
        lengths = [self.words[n][-1].stop for n in rows]
        found: list[list[int]] = []
        for k in sorted(range(len(rows)), key=lambda k: lengths[k]):
            if found and len(found[-1]) < size(lengths[k]):
                found[-1].append(k)
            else:
                found.append([k])
        return found

    def explained(
        self,
        method: Method,
        *,
        rows: Sequence[int] | None = None,
        target: int | None = None,
        report: Report = lambda n: None,
    ) -> list[Explanation]:
        """The explanation of every sentence by word, for its own label or for one class."""
        chosen = range(len(self)) if rows is None else rows
        targets = [self.labels[n] if target is None else target for n in chosen]
        found = self._by_word(method, chosen, targets, report, encoders=False)
        return [each for (each,) in found]

    def explained_for_all(
        self, method: Method, *, rows: Sequence[int], encoders: bool, report: Report = lambda n: None
    ) -> list[list[Explanation]]:
        """The explanations of these sentences by word, for every class."""
        return self._by_word(method, rows, "all", report, encoders=encoders)

    def _by_word(
        self, method: Method, rows: Sequence[int], target: Sequence[int] | Literal["all"], report: Report, *, encoders: bool
    ) -> list[list[Explanation]]:
        per_text = len(self.pipeline.classes) if target == "all" else 1
        found: list[list[Explanation]] = [[] for _ in rows]
        for part in self.parts(rows, size=backward_size):
            chosen = "all" if isinstance(target, str) else [target[n] for n in part]
            texts = [self.texts[rows[n]] for n in part]
            flat = explain_all(self.pipeline, texts, target=chosen, method=method, encoders=encoders)
            for k, n in enumerate(part):
                own = flat[k * per_text : (k + 1) * per_text]
                found[n] = [each.by_word(self.words[rows[n]]) for each in own]
            report(len(part))
        return found


def forward_size(tokens: int) -> int:
    """How many sentences of a length are scored at a time, so that a batch takes a fraction of a second."""
    return min(256, 2**13 // tokens)


def backward_size(tokens: int) -> int:
    """How many sentences of a length are explained at a time; the time of PyTorch's backward pass grows with its square."""
    return min(256, 2**17 // tokens**2)


def has_encoders(test: TestSet, methods: Mapping[str, Method]) -> bool:
    """Whether the relevance through each direction of the pipeline's model can be separated."""
    try:
        for name in ("sa", "lrp"):
            explain_all(test.pipeline, test.texts[:1], encoders=True, method=methods[name])
    except InputError:
        return False
    return True
