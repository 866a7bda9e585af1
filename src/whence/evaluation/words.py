"""Tokens grouped into words, so that a character model is evaluated on the same words as any other."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from whence._batches import Text, cut
from whence.explanation import Explanation
from whence.models.pipeline import Pipeline
from whence.text.tokenizer import CharacterTokenizer, TreebankTokenizer


def word_groups(pipeline: Pipeline, text: Text) -> list[range]:
    """The tokens of every word, in order and without gaps. Only characters are grouped; other tokens count as words.

    Characters between two words belong to the first of them.
    """
    written, _, spans = cut(pipeline, text)
    if not isinstance(pipeline.tokenizer, CharacterTokenizer):
        return [range(n, n + 1) for n in range(len(spans))]
    words = [word.start for word in TreebankTokenizer().tokens(written)]
    owners = [max(bisect_right(words, start) - 1, 0) for start, _ in spans]
    firsts = [n for n, owner in enumerate(owners) if n == 0 or owner != owners[n - 1]]
    return [range(start, end) for start, end in zip(firsts, [*firsts[1:], len(spans)], strict=True)]


def by_word(explanation: Explanation, groups: Sequence[range]) -> Explanation:
    """The same explanation with one token per group, whose relevance is the sum over the group."""
    if all(len(group) == 1 for group in groups):
        return explanation
    spans = [(explanation.spans[group[0]][0], explanation.spans[group[-1]][1]) for group in groups]

    def summed(relevance: Sequence[float]) -> tuple[float, ...]:
        return tuple(sum(relevance[n] for n in group) for group in groups)

    words = [explanation.text[start:end].rstrip() for start, end in spans]
    return replace(
        explanation,
        tokens=tuple(words),
        spans=tuple((start, start + len(word)) for (start, _), word in zip(spans, words, strict=True)),
        unknown=tuple(any(explanation.unknown[n] for n in group) for group in groups),
        relevance=summed(explanation.relevance),
        encoders=tuple(summed(share) for share in explanation.encoders),
    )
