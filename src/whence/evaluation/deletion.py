"""Word deletion: how the predictions of a model change as words are deleted in some order."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from whence._batches import TOKENS, Text, batches, cut, require_scores_of, scores_of
from whence.errors import InputError
from whence.explanation import Explanation
from whence.models.pipeline import Pipeline

Order = Literal["decreasing", "increasing"]


def deletion_order(explanation: Explanation, order: Order) -> list[int]:
    """The positions of the words by decreasing or increasing relevance; ties are in the order of the text."""
    if order not in ("decreasing", "increasing"):
        raise InputError(f'order is {order!r}; it is "decreasing" or "increasing"')
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

    A word is deleted by setting its embedding to zero; its position stays. `words` gives the tokens of each word, where a word
    can have several.
    """
    cuts = [cut(pipeline, text) for text in texts]
    found = np.full((len(cuts), steps + 1), -1)
    for rows, forward in batches(pipeline, cuts, size=size):
        output, (embedded,), _ = forward.predict()
        found[rows, 0] = require_scores_of(pipeline, output, len(rows)).argmax(-1).cpu().numpy()
        for step in range(1, steps + 1):
            for k, n in enumerate(rows):
                if step <= len(orders[n]):
                    word = orders[n][step - 1]
                    embedded[k, list(words[n][word]) if words is not None else word] = 0
            found[rows, step] = scores_of(pipeline, forward, embedded).argmax(-1).cpu().numpy()
    return found


def scores_without(
    pipeline: Pipeline,
    text: Text,
    orders: Sequence[Sequence[int]],
    *,
    steps: int,
    before_batch: Callable[[], None] = lambda: None,
) -> NDArray[np.float32]:
    """The scores of one text with the first 0, 1, … `steps` words of each order deleted (orders, steps + 1, classes).

    A word is deleted by setting its embedding to zero. The orders and steps are the rows of a few large batches.
    `before_batch` is called before each of them; it may raise to stop.
    """
    whole = cut(pipeline, text)
    length = len(whole.forms)
    for order in orders:
        if sorted(order) != list(range(length)):
            raise InputError(f"an order has {len(order)} words of a text of {length}; it must name each of them once")
    if not 0 <= steps <= length:
        raise InputError(f"steps is {steps}; a text of {length} words has 0 to {length}")
    gone = np.argsort(np.asarray(orders), axis=1)[:, None, :] < np.arange(steps + 1)[None, :, None]  # (orders, steps + 1, T)
    rows, size = gone.reshape(-1, length), max(1, TOKENS // length)
    found: list[NDArray[np.float32]] = []
    for start in range(0, len(rows), size):
        before_batch()
        part = torch.from_numpy(rows[start : start + size])
        for _, forward in batches(pipeline, [whole] * len(part), size=len(part)):
            deleting = replace(forward, deleted=part.to(forward.inputs.tensors[0].device))
            found.append(scores_of(pipeline, deleting).float().cpu().numpy())
    return np.concatenate(found).reshape(len(orders), steps + 1, len(pipeline.classes))


def deletion_curve(
    pipeline: Pipeline,
    texts: Sequence[Text],
    labels: Sequence[int | str],
    explanations: Sequence[Explanation],
    *,
    order: Order,
    words: Sequence[Sequence[range]] | None = None,
    steps: int = 5,
) -> NDArray[np.bool_]:
    """Whether the model is right about each text after 0, 1, … `steps` deletions (texts, steps + 1); its mean is the curve.

    The explanations are those of the whole text: relevance is not computed again after a deletion. Labels are classes by name
    or number. A text with fewer words than steps stays empty once all its words are deleted.
    """
    if not len(texts) == len(labels) == len(explanations):
        raise InputError(
            f"there are {len(texts)} texts, {len(labels)} labels and {len(explanations)} explanations; "
            "give the same number of each"
        )
    numbers = [_label(pipeline, label) for label in labels]
    for n, (text, explanation) in enumerate(zip(texts, explanations, strict=True)):
        count = len(cut(pipeline, text).forms) if words is None else len(words[n])
        if count != len(explanation.relevance):
            raise InputError(
                f"text {n + 1} has {count} words, its explanation {len(explanation.relevance)}; give both in the same order"
            )
    orders = [deletion_order(explanation, order) for explanation in explanations]
    predicted = predictions_without(pipeline, texts, orders, words=words, steps=steps)
    return predicted == np.asarray(numbers)[:, None]


def _label(pipeline: Pipeline, label: int | str) -> int:
    if isinstance(label, str) and label in pipeline.classes:
        return pipeline.classes.index(label)
    if isinstance(label, (int, np.integer)) and 0 <= label < len(pipeline.classes):
        return int(label)
    raise InputError(
        f"label {label!r} is not a class of {pipeline.name}: {', '.join(pipeline.classes)}, or 0 to {len(pipeline.classes) - 1}"
    )


def random_orders(lengths: Sequence[int], *, seed: int) -> list[list[int]]:
    """A random order of the words of each text."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randperm(length, generator=generator).tolist() for length in lengths]
