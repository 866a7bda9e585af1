"""Tokens grouped into words, so that a character model is evaluated on the same words as any other."""

from whence._batches import Text, cut
from whence.models.pipeline import Pipeline
from whence.text import words
from whence.text.huggingface import HuggingFaceTokenizer
from whence.text.tokenizer import CharacterTokenizer


def word_groups(pipeline: Pipeline, text: Text) -> list[range]:
    """The tokens of every word, in order and without gaps. Characters and pieces are grouped; other tokens count as words."""
    found = cut(pipeline, text)
    if not isinstance(pipeline.tokenizer, (CharacterTokenizer, HuggingFaceTokenizer)):
        return [range(n, n + 1) for n in range(len(found.spans))]
    return words.word_groups(found.text, found.spans, found.shown(pipeline))
