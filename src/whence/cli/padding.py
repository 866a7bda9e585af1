"""Padding of the texts of an imported model: what the options of `whence import` say of it."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from whence.errors import InputError

if TYPE_CHECKING:
    from whence.models.pipeline import Pipeline
    from whence.text.vocabulary import Vocabulary

PAD = (
    "where padding stood when the model was trained, before the texts (pad_sequences does so by default) or after them "
    "(TextVectorization does)"
)


class Side(StrEnum):
    """An end of a text."""

    before = "before"
    after = "after"


def require_padding(is_text: bool, brings_ids: bool, given: dict[str, object]) -> None:
    """Refuse options for padding that have no meaning."""
    if given and (brings_ids or not is_text):
        raise InputError(f"{', '.join(given)}: texts are padded with a word of the vocabulary; give it by --vocabulary")
    if "--length" in given and "--pad" not in given:
        raise InputError(f"--length {given['--length']} needs --pad: {PAD}")


class Padded(NamedTuple):
    """How many tokens a model reads, and what is done with texts of another number."""

    length: int | None
    pad: Side | None
    cut: Side


def length_of(file: Path, module: Any, given: int | None) -> int | None:
    """The number of tokens of every text: what the file says, or what is given."""
    fixed: int | None = getattr(module, "length", None)
    if fixed is not None and given not in (None, fixed):
        raise InputError(f"{file} reads texts of {fixed} tokens, and --length is {given}; leave it out")
    return given if fixed is None else fixed


def padded_as(file: Path, tokenizer: Any, words: "Vocabulary | None", padded: Padded) -> "tuple[Any, Vocabulary | None]":
    """The tokenizer and the vocabulary, with padding if the model reads a fixed number of tokens."""
    from whence.text.padded import PaddedTokenizer, padding_word, with_padding_word

    length, pad, cut = padded
    if length is None and (pad is not None or cut != Side.before):
        raise InputError(f"{file} reads texts of any length; give the one that they are padded to by --length")
    if length is None:
        return tokenizer, words
    reads = f"{file} reads texts of exactly {length} tokens"
    if words is None:
        raise InputError(f"{reads}, and those of a tokenizer.json are not padded; give --vocabulary and --tokenizer")
    if pad is None:
        raise InputError(f"{reads}, so they are padded; say by --pad {PAD}")
    if words.padding is None:
        raise InputError(f"{reads}, so short ones are padded; give the word or the id that fills them up by --padding")
    named = with_padding_word(words)
    token = padding_word(named)
    assert token is not None
    return PaddedTokenizer(tokenizer, length=length, token=token, pad=pad.value, cut=cut.value), named


def told_of_padding(pipeline: "Pipeline") -> str:
    """What is done with short texts, in a sentence; nothing if padding would be masked."""
    from whence.imports.keras import KerasModule
    from whence.text.padded import PaddedTokenizer

    tokenizer, module = pipeline.tokenizer, pipeline.module
    if isinstance(tokenizer, PaddedTokenizer):
        kept = "last" if tokenizer.cut == "before" else "first"
        return (
            f"texts are padded to {tokenizer.length} tokens with {tokenizer.token!r} {tokenizer.pad} them; of longer ones the "
            f"{kept} {tokenizer.length} are read"
        )
    if isinstance(module, KerasModule) and not module.is_masked:
        return (
            "texts are read without padding, which the model does not mask; if it was trained on padded texts, its scores "
            "differ: give --length, --pad and --padding"
        )
    return ""
