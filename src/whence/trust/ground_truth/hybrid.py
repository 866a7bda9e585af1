"""Two sentences of opposite sentiment in one document: the relevance for a sentence's class should point to that sentence."""

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from whence._explain import explain, explain_all
from whence.errors import InputError, ModelError
from whence.methods.gradient_input import GradientXInput
from whence.methods.method import Method
from whence.models.bundled import load
from whence.models.pipeline import Pipeline
from whence.trust.ground_truth.sentences import sentences
from whence.trust.ground_truth.task import Case, Exam, Task
from whence.trust.ground_truth.traits import RANDOM

MODEL = "sst-bilstm"
SHIFT = 7  # sentence n meets sentence n + SHIFT of the other class, so that no two of a pair are built alike


class Document(NamedTuple):
    """A text of two sentences, and the question about one of them."""

    text: str
    middle: int  # the character at which the second sentence begins
    target: str  # the class of the sentence to be found
    is_first: bool  # whether that sentence is the first


def documents(pipeline: Pipeline, pairs: Sequence[tuple[str, str]]) -> list[Document]:
    """Every pair of sentences in both orders, with a question about each of the two.

    A pair is left out where the model itself disagrees: each sentence, read alone, must have the higher score for its class.
    """
    names = list(dict.fromkeys(name for _, name in pairs))
    if len(names) != 2:
        raise InputError(f"the sentences are of the classes {', '.join(names) or 'none'}; give sentences of two classes")
    texts = [text for text, _ in pairs]
    alone = explain_all(pipeline, texts, target=[name for _, name in pairs], method=GradientXInput())
    scores = {text: each.scores for text, each in zip(texts, alone, strict=True)}
    groups = [[text for text, name in pairs if name == each] for each in names]
    count = min(map(len, groups))
    found: list[Document] = []
    for n in range(count):
        one, other = groups[0][n], groups[1][(n + SHIFT) % count]
        if all(
            scores[own][name] > scores[foreign][name] for own, foreign, name in ((one, other, names[0]), (other, one, names[1]))
        ):
            found += _questions(one, other, names) + _questions(other, one, names[::-1])
    if not found:
        raise ModelError(f"{pipeline.name} does not tell {names[0]!r} from {names[1]!r} in any pair of these sentences")
    return found


def _questions(first: str, second: str, names: Sequence[str]) -> list[Document]:
    start = f"{first} . "
    return [Document(f"{start}{second} .", len(start), name, n == 0) for n, name in enumerate(names)]


def _exam(pairs: Sequence[tuple[str, str]] | None, pipeline: Pipeline | None) -> Exam:
    own = load(MODEL) if pipeline is None else pipeline
    asked = documents(own, sentences() if pairs is None else pairs)
    truth = _padded([_sides(own, document) for document in asked])
    return Exam((Case(partial(_relevance, own, asked), truth),), partial(_measured, truth=truth))


def _sides(pipeline: Pipeline, document: Document) -> list[float]:
    """1 for every token of the sentence to be found, −1 for those of the other."""
    spans = explain(pipeline, document.text, target=document.target, method=GradientXInput()).spans
    return [1.0 if (start < document.middle) == document.is_first else -1.0 for start, _ in spans]


def _relevance(pipeline: Pipeline, asked: Sequence[Document], method: Method) -> Tensor:
    found = explain_all(pipeline, [each.text for each in asked], target=[each.target for each in asked], method=method)
    return _padded([each.relevance for each in found])


def _padded(rows: Sequence[Sequence[float]]) -> Tensor:
    """Rows of any length (B, T), with zeros at the end."""
    length = max(map(len, rows))
    return torch.tensor([[*row, *[0.0] * (length - len(row))] for row in rows], dtype=torch.float64)


def _measured(answer: Sequence[Tensor], truth: Tensor) -> dict[str, float]:
    """How often relevance points to the right sentence; a tie counts half.

    - sum: the sum over the right sentence is larger than that over the other
    - maximum: the largest of all is in the right sentence; a foreign word may well be strong, so this does not decide
    - same_half: the sum points to the same sentence for both classes of a document
    """
    r = answer[0]
    sums = (r * (truth > 0)).sum(1) - (r * (truth < 0)).sum(1)
    right, wrong = (r.masked_fill(~is_there, -torch.inf).amax(1) for is_there in (truth > 0, truth < 0))
    pointed = (sums.sign() + 1) / 2
    return {
        "sum": float(pointed.mean()),
        "maximum": float((((right - wrong).sign() + 1) / 2).mean()),
        "same_half": float((pointed[0::2] != pointed[1::2]).double().mean()),
        "documents": len(truth) / 2,
    }


def hybrid(pairs: Sequence[tuple[str, str]] | None = None, pipeline: Pipeline | None = None) -> Task:
    """The task for pairs of (sentence, class), of two classes; without any, for sentences of our own."""
    return Task(
        name="hybrid",
        title="Two sentences of opposite sentiment in one text: relevance for a sentence's class should point to it",
        prepare=cache(partial(_exam, pairs, pipeline)),
        deciding=("sum",),
        causes={
            "unsigned": "it has no sign, so it cannot say for which class a sentence speaks; in {same_half:.0%} of the "
            "documents it points to the same sentence for both classes",
            "plain gradient": "summed over the vector of a word, the gradient is the reaction to adding one number to all "
            "dimensions, which has nothing to do with the word's own vector",
            **RANDOM,
        },
    )


HYBRID = hybrid()
