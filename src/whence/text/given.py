"""What a user may give as a tokenizer, as one of ours."""

import sys
from collections.abc import Callable
from typing import Any, cast

from whence.errors import ModelError
from whence.text.functions import FunctionTokenizer
from whence.text.huggingface import HuggingFaceTokenizer, from_transformers
from whence.text.spacy_rules import SpacyTokenizer
from whence.text.tokenizer import Tokenizer

KINDS = (
    "a tokenizer of whence, a tokenizers.Tokenizer, a fast tokenizer of transformers, a spaCy language, or a function from a "
    "text to (start, end) spans or to words"
)


def tokenizer_of(given: object) -> Tokenizer:
    """A tokenizer of ours, of another library, or a function. The other libraries are not imported: who gives theirs, has."""
    foreign = cast(Any, given)
    if isinstance(given, type):
        raise ModelError(f"tokenizer is the class {given.__name__}; give an instance of it, such as {given.__name__}()")
    if _is_a(given, "tokenizers", "Tokenizer"):
        return HuggingFaceTokenizer(foreign)
    if _is_a(given, "tokenizers.implementations", "BaseTokenizer"):
        return HuggingFaceTokenizer(foreign._tokenizer)
    if _is_a(given, "transformers", "PreTrainedTokenizerBase"):
        if not _is_a(getattr(given, "backend_tokenizer", None), "tokenizers", "Tokenizer"):
            raise ModelError(
                f"tokenizer is a {type(given).__name__}, a slow tokenizer of transformers, which does not say where its tokens "
                "stand in the text; give the fast one, such as AutoTokenizer.from_pretrained(…, use_fast=True)"
            )
        return from_transformers(foreign)
    if _is_a(given, "spacy.language", "Language"):
        return SpacyTokenizer(foreign.tokenizer)
    if _is_a(given, "spacy.tokenizer", "Tokenizer"):
        return SpacyTokenizer(foreign)
    if all(hasattr(given, name) for name in ("name", "tokens", "forms")):
        return cast(Tokenizer, given)
    if callable(given):
        return FunctionTokenizer(cast(Callable[[str], object], given))
    raise ModelError(f"tokenizer is a {type(given).__name__}; give {KINDS}")


def _is_a(given: object, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(given, kind)
