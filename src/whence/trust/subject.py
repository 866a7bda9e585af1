"""What methods are measured on: a model, and samples whose parts can be taken away.

A sample consists of units: the words of a text, or the steps or the features of a series.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whence.methods.method import Method
from whence.models.two_classes import end_of

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]  # of a sample's units, True where one is taken away
Against = Literal["score", "rest"]  # what is explained: the score of a class, or this score against all others
Report = Callable[[int], None]  # gets the number of samples that were just done


def silent(done: int) -> None:
    """Report nothing."""


class Reading(NamedTuple):
    """What the model says about some samples (N,): about the class that is explained, and which class it predicts.

    `value` is the class's probability, and `odds` the logarithm of its odds. Where outputs are numbers, not scores of classes,
    `value` is the number itself; there are no odds and no predicted class.
    """

    value: Numbers
    odds: Numbers
    predicted: NDArray[np.int64]

    def at(self, places: NDArray[np.int64]) -> "Reading":
        """What it says about some of the samples."""
        return Reading(self.value[places], self.odds[places], self.predicted[places])


@dataclass(frozen=True, eq=False, kw_only=True)
class Subject(ABC):
    """Samples and the model that reads them."""

    name: str
    of: NDArray[np.int64]  # the class, or the output, that is explained in each sample
    labels: NDArray[np.int64] | None  # the true classes, if they are known
    has_classes: bool  # whether the model's outputs are scores of classes; otherwise they are numbers
    are_probabilities: bool = False  # whether these scores are probabilities already

    def __len__(self) -> int:
        return len(self.of)

    @property
    @abstractmethod
    def module(self) -> nn.Module:
        """The model."""

    @cached_property
    @abstractmethod
    def lengths(self) -> NDArray[np.int64]:
        """The number of units of each sample."""

    @abstractmethod
    def scores(self, rows: Sequence[int], gone: Sequence[Mask], *, report: Report = silent) -> Numbers:
        """The model's outputs (N, C) for the samples of these numbers, each without some of its units."""

    @abstractmethod
    def relevance(self, method: Method, *, against: Against, report: Report = silent) -> list[Numbers]:
        """The relevance of the units of each sample for the class that is explained in it."""

    def relevance_both(self, method: Method, *, report: Report = silent) -> dict[Against, list[Numbers]]:
        """The relevance for the score and for the score against the rest, from the same runs where the method shares them."""
        return {against: self.relevance(method, against=against, report=report) for against in ("score", "rest")}

    @property
    def at_once(self) -> Callable[[int], int]:
        """How many units one deletion takes away, for a sample of a length."""
        return lambda length: 1

    @abstractmethod
    def outputs(self) -> Iterator[tuple[Tensor, list[int]]]:
        """The model's outputs with their graph, a batch at a time, and the numbers of the samples in it."""

    @abstractmethod
    def with_module(self, module: nn.Module) -> Self:
        """The same samples, read by another model."""

    @abstractmethod
    def parts(self, rows: Sequence[int]) -> dict[str, object]:
        """The fields that depend on the samples, for some of them."""

    @abstractmethod
    def content(self, row: int) -> object:
        """Something that is equal for samples of the same content."""

    @abstractmethod
    def unit_names(self, row: int) -> list[str]:
        """What the units of a sample are called."""

    def class_name(self, number: int) -> str:
        """What a class is called."""
        return f"class {number}"

    def some(self, rows: Sequence[int]) -> Self:
        """The subject with some of its samples."""
        labels = None if self.labels is None else self.labels[list(rows)]
        return replace(self, of=self.of[list(rows)], labels=labels, **self.parts(rows))

    def read(self, scores: Numbers, of: NDArray[np.int64]) -> Reading:
        """What outputs (N, C) say about the classes that are explained."""
        own = scores[np.arange(len(scores)), of]
        if not self.has_classes:
            return Reading(own, np.full(len(own), np.nan), np.full(len(own), -1))
        others = scores.copy()
        others[np.arange(len(scores)), of] = -np.inf
        odds = own - _log_sum(others)
        predicted = np.where(np.isnan(scores).any(1), -1, scores.argmax(1))
        return Reading(1 / (1 + np.exp(-odds)), odds, predicted)

    def untouched(self, rows: Sequence[int]) -> list[Mask]:
        """Masks that take nothing away."""
        return [np.zeros(int(self.lengths[n]), dtype=bool) for n in rows]

    def whole(self) -> Reading:
        """What the model says about the samples as they are."""
        rows = range(len(self))
        return self.read(self.scores(rows, self.untouched(rows)), self.of)


def _log_sum(scores: Numbers) -> Numbers:
    """The logarithm of Σ exp over the classes."""
    most = scores.max(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return most + np.log(np.exp(scores - most[:, None]).sum(1))


def as_scores(output: Tensor, *, are_probabilities: bool) -> Numbers:
    """Outputs (N, C) of a classifier as scores: probabilities become their logarithms, whose softmax they are.

    One output is the score, or the probability, of the second of two classes; the first has the score 0.
    """
    found = output.detach().double().cpu().numpy()
    if found.shape[1] == 1:
        if are_probabilities:
            found = np.clip(found, 1e-15, 1 - 1e-15)
            found = np.log(found) - np.log1p(-found)
        return np.concatenate([np.zeros_like(found), found], axis=1)
    return np.log(np.maximum(found, 1e-300)) if are_probabilities else found


def hold_probabilities(scores: Numbers, one: Tensor) -> bool:
    """Whether the outputs of all samples are probabilities: numbers of at least 0 that add up to 1, but for rounding.

    `one` is an output with its graph. A single number between 0 and 1 may be a score or a probability: it is a probability if
    the graph ends in a sigmoid.
    """
    if one.shape[1] == 1:
        return "Sigmoid" in end_of(one)
    finite = scores[np.isfinite(scores).all(1)]
    rounding = 16 * torch.finfo(one.dtype).eps * scores.shape[1]
    return bool(len(finite) and (finite >= 0).all() and (np.abs(finite.sum(1) - 1) <= rounding).all())
