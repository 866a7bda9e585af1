"""Word deletion: how fast a model loses a decision, or finds the right one, when words are taken away in some order."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from whence._batches import Text, batches, cut, scores_of
from whence.explanation import Explanation
from whence.models.pipeline import Pipeline

Order = Literal["decreasing", "increasing"]


def deletion_order(explanation: Explanation, order: Order) -> list[int]:
    """The words of an explanation by decreasing or increasing relevance; of equal ones the first goes first."""
    sign = -1 if order == "decreasing" else 1
    return sorted(range(len(explanation.relevance)), key=lambda n: sign * explanation.relevance[n])


def predictions_without(
    pipeline: Pipeline,
    texts: Sequence[Text],
    orders: Sequence[Sequence[int]],
    *,
    words: Sequence[Sequence[range]] | None = None,
    steps: int = 5,
    size: int = 256,
) -> NDArray[np.int64]:
    """The class predicted with the first 0, 1, … `steps` words of each text's order deleted (texts, steps + 1).

    A word is deleted by setting its embedding to zero; its place stays. `words` are the tokens of each word, where one word may
    be several.
    """
    cuts = [cut(pipeline, text) for text in texts]
    found = np.full((len(cuts), steps + 1), -1)
    for rows, forward in batches(pipeline, cuts, size=size):
        embedded = forward.tensors[0]
        for step in range(steps + 1):
            for k, n in enumerate(rows):
                if 0 < step <= len(orders[n]):
                    word = orders[n][step - 1]
                    embedded[k, list(words[n][word]) if words is not None else word] = 0
            found[rows, step] = scores_of(pipeline, forward, embedded).argmax(-1).cpu().numpy()
    return found


def deletion_curve(
    pipeline: Pipeline,
    texts: Sequence[Text],
    labels: Sequence[int],
    explanations: Sequence[Explanation],
    *,
    order: Order,
    words: Sequence[Sequence[range]] | None = None,
    steps: int = 5,
) -> NDArray[np.bool_]:
    """Whether the model is right about each text after 0, 1, … `steps` deletions (texts, steps + 1); its mean is the curve.

    Relevance is computed once, on the whole text: the explanations come from it.
    """
    orders = [deletion_order(explanation, order) for explanation in explanations]
    predicted = predictions_without(pipeline, texts, orders, words=words, steps=steps)
    return predicted == np.asarray(labels)[:, None]


def random_orders(lengths: Sequence[int], *, seed: int) -> list[list[int]]:
    """For every text its words in a random order."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(length, generator=generator).tolist() for length in lengths]
