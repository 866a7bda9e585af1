"""Tokenizers of spaCy, whose words need a vocabulary; their rules as plain data, so that they can be saved without pickle."""

import json
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

from whence.errors import InputError, ModelError
from whence.text.tokenizer import Token

_PATTERNS = ("prefix_search", "suffix_search", "infix_finditer", "token_match", "url_match")
LARGEST_RULES = 2**22  # bytes


class SpacyTokenizer:
    """spaCy's words and punctuation marks, as they are written; white space of its own is a token there too."""

    name = "spacy"

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer`: that of a language, `nlp.tokenizer`."""
        self.tokenizer = tokenizer

    def tokens(self, text: str) -> list[Token]:
        """The text's tokens, in order; none if all of it is white space."""
        if not text.strip():
            return []
        try:
            found = self.tokenizer(text)
        except Exception as error:
            raise InputError(f"spaCy's tokenizer failed: {type(error).__name__}: {str(error)[:200]}") from None
        return [Token(each.idx, each.idx + len(each.text), cast(str, each.text)) for each in found]

    def forms(self, words: Sequence[str]) -> list[str]:
        """The words themselves."""
        return list(words)

    def content(self) -> str:
        """The rules as JSON text; raises if the tokenizer has others than spaCy's usual ones."""
        try:
            patterns = {name: _pattern(getattr(self.tokenizer, name)) for name in _PATTERNS}
            pieces = {word: [_piece(part) for part in parts] for word, parts in self.tokenizer.rules.items()}
        except (AttributeError, TypeError, KeyError):
            raise ModelError(f"{type(self.tokenizer).__name__} has rules of its own") from None
        return json.dumps({"patterns": patterns, "exceptions": pieces}, ensure_ascii=False, indent=1)


def spacy_from(content: str) -> SpacyTokenizer:
    """The tokenizer with these rules; raises ValueError, TypeError or KeyError if they are none."""
    try:
        tokenizer, vocab = _spacy("tokenizer").Tokenizer, _spacy("vocab").Vocab()
    except ImportError:
        raise ModelError("the pipeline's tokenizer is spaCy's; run: pip install spacy") from None
    found = json.loads(content)
    patterns, exceptions = found["patterns"], found["exceptions"]
    if sorted(patterns) != sorted(_PATTERNS):
        raise ValueError(f"it has the patterns {sorted(patterns)}")
    methods = {name: each and getattr(re.compile(*each), _method(name)) for name, each in patterns.items()}
    orth = _spacy("attrs").ORTH
    rules = {word: [{orth: part} for part in parts] for word, parts in exceptions.items()}
    return SpacyTokenizer(tokenizer(vocab, rules=rules, **methods))


def _method(name: str) -> str:
    return "finditer" if name == "infix_finditer" else "search" if name.endswith("search") else "match"


def _pattern(method: Any) -> tuple[str, int] | None:
    """The pattern of a regular expression's method, and its flags; raises for any other function."""
    if method is None:
        return None
    pattern = method.__self__
    if not isinstance(pattern, re.Pattern):
        raise TypeError("no regular expression")
    return cast(str, pattern.pattern), pattern.flags


def _piece(part: dict[object, str]) -> str:
    """A piece of an exception, under the number of its attribute or, as users write it, under its name."""
    return part["ORTH"] if "ORTH" in part else part[_spacy("attrs").ORTH]


def _spacy(part: str) -> Any:
    """A module of spaCy, imported when first used."""
    return import_module(f"spacy.{part}")
