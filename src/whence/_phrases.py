"""The public functions `phrases` and `phrase_tree`: what groups of neighbouring words give to a score."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from whence._batches import batches, cut
from whence._explain import One, explain, target_of
from whence.errors import InputError, TargetError
from whence.explanation import Explanation
from whence.methods.decomposition import ContextualDecomposition, decomposition, require_finite_parts
from whence.methods.decomposition import Phrases as Masks
from whence.methods.method import Method
from whence.methods.registry import method_of
from whence.methods.target import Target
from whence.models.bundled import load_any
from whence.models.pipeline import Pipeline
from whence.phrase import Node, Phrase, Phrases, PhraseTree

Span = tuple[int, int]  # token numbers: the first, and that after the last
LONGEST = 256  # tokens of a text whose phrases are put into a tree
AT_ONCE = 40  # tokens: of a text up to this length, a tree computes all phrases in one pass


def phrases(
    pipeline: Pipeline | str | Path,
    text: str,
    spans: Sequence[Span | str] | None = None,
    *,
    target: One = "predicted",
    method: Method | str | None = "cd",
) -> Phrases:
    """What phrases of a text give to a score.

    `spans`: the phrases, each as token numbers (start, end) or as a piece of the text; without them, all runs of neighbouring
    words, from single ones to the whole text. `target` is that of `explain`, for one class or contrast.

    With contextual decomposition, a phrase has a score of its own, and an `interaction`: what its words give beyond their sum
    one by one. Any other method adds up the words.

        found = whence.phrases("sst-bilstm", "not a waste of time", ["not a waste", "waste"])
        found[0].relevance, found[0].interaction
    """
    pipeline, explanation, method = _explained(pipeline, text, target, method)
    wanted = _every_run(len(explanation.tokens)) if spans is None else [_span(each, explanation) for each in _listed(spans)]
    if not isinstance(method, ContextualDecomposition):
        return Phrases(explanation, tuple(_phrase(explanation, each) for each in wanted))
    scores = _scores(pipeline, text, target, wanted)
    return Phrases(explanation, tuple(_phrase(explanation, *each) for each in zip(wanted, scores, strict=True)))


def phrase_tree(
    pipeline: Pipeline | str | Path, text: str, *, target: One = "predicted", method: Method | str | None = "cd"
) -> PhraseTree:
    """The phrases of a text as a tree, as in agglomerative contextual decomposition (Singh et al., 2019).

    It starts from the words, and joins in turn the two neighbouring phrases that interact most: whose common score differs
    most from the sum of both. Every phrase has its score.

        print(whence.phrase_tree("sst-bilstm", "not a waste of time"))
    """
    pipeline, explanation, method = _explained(pipeline, text, target, method)
    if not isinstance(method, ContextualDecomposition):
        raise InputError(
            f"{method.label} adds up words, which then do not interact, so there is no tree of phrases; "
            'use method="cd", or whence.phrases for sums'
        )
    words = len(explanation.tokens)
    if words > LONGEST:
        raise InputError(f"the text has {words} tokens; a tree of phrases is made of at most {LONGEST}, so give a part of it")
    known = {(n, n + 1): relevance for n, relevance in enumerate(explanation.relevance)}
    nodes = [Node(_phrase(explanation, span, score)) for span, score in known.items()]
    while len(nodes) > 1:
        joined = [(one.phrase.start, other.phrase.end) for one, other in pairwise(nodes)]
        missing = [span for span in joined if span not in known]
        if missing and words <= AT_ONCE:
            missing = [span for span in _every_run(words) if span not in known]
        known.update(zip(missing, _scores(pipeline, text, target, missing), strict=True))
        joints = [
            known[span] - one.phrase.relevance - other.phrase.relevance
            for span, (one, other) in zip(joined, pairwise(nodes), strict=True)
        ]
        best = max(range(len(joints)), key=lambda n: abs(joints[n]))
        phrase = _phrase(explanation, joined[best], known[joined[best]])
        nodes[best : best + 2] = [Node(phrase, joints[best], (nodes[best], nodes[best + 1]))]
    return PhraseTree(explanation, nodes[0])


def _explained(
    pipeline: Pipeline | str | Path, text: str, target: One, method: Method | str | None
) -> tuple[Pipeline, Explanation, Method]:
    """The pipeline, the explanation of the text's words, and the method."""
    if not isinstance(text, str):
        raise InputError(f"text is a {type(text).__name__}; phrases are those of one text, a string")
    if isinstance(pipeline, (str, Path)):
        pipeline = load_any(pipeline)
    chosen = method_of(method)
    found = explain(pipeline, text, target=target, method=chosen)
    if not isinstance(found, Explanation):
        raise TargetError(f"target is {target!r}; phrases are explained for one class or contrast")
    return pipeline, found, chosen


def _every_run(words: int) -> list[Span]:
    """All runs of neighbouring words, short ones first."""
    return [(start, start + size) for size in range(1, words + 1) for start in range(words - size + 1)]


def _listed(spans: object) -> Iterable[object]:
    if isinstance(spans, str) or not isinstance(spans, Sequence):
        raise InputError(f"spans is {spans!r}; give a list, of token numbers (start, end) or of pieces of the text")
    return cast(Sequence[object], spans)


def _span(given: object, explanation: Explanation) -> Span:
    """A span as token numbers."""
    if isinstance(given, str):
        return explanation.tokens_of(given)
    numbers = tuple(cast(Sequence[object], given)) if isinstance(given, (tuple, list)) else ()
    if len(numbers) != 2 or not all(isinstance(each, Integral) and not isinstance(each, bool) for each in numbers):
        raise InputError(f"the span {given!r} is neither two token numbers (start, end) nor a piece of the text")
    start, end = (int(cast(int, each)) for each in numbers)
    if not 0 <= start < end <= len(explanation.tokens):
        raise InputError(
            f"the span {given!r} is not in the text, which has {len(explanation.tokens)} tokens; "
            f"a span (start, end) has 0 ≤ start < end ≤ {len(explanation.tokens)}"
        )
    return start, end


def _phrase(explanation: Explanation, span: Span, score: float | None = None) -> Phrase:
    """A phrase with a score of its own, or with the sum of its words."""
    start, end = span
    text, words = (
        explanation.text[explanation.spans[start][0] : explanation.spans[end - 1][1]] or explanation.tokens[start],
        explanation.relevance[start:end],
    )
    if score is None:
        return Phrase(start, end, text, sum(words))
    return Phrase(start, end, text, words[0], 0.0) if len(words) == 1 else Phrase(start, end, text, score, score - sum(words))


def _scores(pipeline: Pipeline, text: str, target: One, spans: Sequence[Span]) -> list[float]:
    """What every span gives to the score as one phrase, by contextual decomposition."""
    if not spans:
        return []
    ((_, forward),) = batches(pipeline, [cut(pipeline, text)], size=1)
    ids = forward.inputs.tensors[0]  # (1, T)
    steps = torch.arange(ids.shape[1], device=ids.device)[:, None]  # (T, 1)
    starts, ends = torch.tensor(spans, device=ids.device).T[..., None, None, None]  # (N, 1, 1, 1) each

    def masks(numbers: range) -> list[Tensor]:
        own = slice(numbers.start, numbers.stop)
        return [(starts[own] <= steps) & (steps < ends[own])]  # (n, 1, T, 1)

    def wanted(*_: object) -> Masks:
        return Masks(len(spans), masks)

    found = decomposition(forward, cast(Target, target_of(pipeline, target)), wanted)
    require_finite_parts(found)
    return cast(list[float], found.phrases[:, 0, 0].tolist())
