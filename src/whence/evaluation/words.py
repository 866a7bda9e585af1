"""Tokens grouped into words, so that a character model is evaluated on the same words as any other."""

from whence._batches import Text, cut
from whence.models.pipeline import Pipeline
from whence.text import words
from whence.text.tokenizer import CharacterTokenizer


def word_groups(pipeline: Pipeline, text: Text) -> list[range]:
    """The tokens of every word, in order and without gaps. Only characters are grouped; other tokens count as words."""
    written, _, spans = cut(pipeline, text)
    if not isinstance(pipeline.tokenizer, CharacterTokenizer):
        return [range(n, n + 1) for n in range(len(spans))]
    return words.word_groups(written, spans)
