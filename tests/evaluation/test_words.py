"""Only characters are grouped into words; other tokens count as words, even if several make up one."""

from collections.abc import Sequence
from dataclasses import replace

import whence
from whence.evaluation.words import word_groups
from whence.text.tokenizer import Token


class Pieces:
    """A tokenizer that splits a text into pieces of three letters."""

    name = "pieces"

    def tokens(self, text: str) -> list[Token]:
        return [Token(n, min(n + 3, len(text)), text[n : n + 3]) for n in range(0, len(text), 3)]

    def forms(self, words: Sequence[str]) -> list[str]:
        return [token.form for token in self.tokens(" ".join(words))]


def test_only_characters_are_gathered_into_words() -> None:
    pipeline = replace(whence.load("sst-bilstm"), tokenizer=Pieces())
    assert word_groups(pipeline, "unbelievable") == [range(1), range(1, 2), range(2, 3), range(3, 4)]
    assert word_groups(whence.load("sst-char-gru"), "unbelievable") == [range(12)]
