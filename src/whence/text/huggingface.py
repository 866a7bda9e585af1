"""Tokenizers of Hugging Face's `tokenizers` and `transformers`, which bring their own ids; neither library is imported here."""

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, cast

from whence.errors import InputError, ModelError
from whence.text.tokenizer import Token
from whence.text.vocabulary import Vocabulary, looks_like_padding

BOUNDARIES = "▁Ġ"  # stand for the white space before a piece


class HuggingFaceTokenizer:
    """A `tokenizers.Tokenizer` with positions in the text as the user wrote it.

    Tokens are in order and do not overlap. Of several tokens for one character, such as the bytes of an emoji, the first one
    with any content has the character, and the others are empty behind or before it. Marks such as [CLS] are empty too. White
    space around a piece is no part of its position.
    """

    name = "tokenizers"

    def __init__(self, tokenizer: Any, *, unknown: int | None = None, padding: int | None = None) -> None:
        """`unknown` and `padding` are the ids of these tokens; by default what the tokenizer itself says."""
        _require_same_every_time(tokenizer)
        self.tokenizer = tokenizer
        ids = cast(dict[str, int], tokenizer.get_vocab(with_added_tokens=True))
        self._forms = {number: form for form, number in ids.items()}
        unknown = _unknown(tokenizer, ids) if unknown is None else unknown
        padding = _padding(tokenizer, ids) if padding is None else padding
        unique = {form: number for number, form in self._forms.items()}
        self.vocabulary = Vocabulary.from_ids(unique, unknown=unknown, padding=padding)
        self.marks = _marks(tokenizer)

    def tokens(self, text: str) -> list[Token]:
        """The text's tokens, in order; none if the text is empty but for marks that the tokenizer adds."""
        found = without_panic(lambda: self.tokenizer.encode(text), lambda why: InputError(_failed(text, why)))
        read = [n for n, is_read in enumerate(found.attention_mask) if is_read]  # the others are padding
        forms, offsets = self._forms, found.offsets
        try:
            pieces = [(*offsets[n], forms[number]) for n, number in enumerate(found.ids)]
        except KeyError as number:
            raise InputError(
                f"the tokenizer gave the id {number}, which its vocabulary did not have when it was given"
            ) from None
        tokens = in_order(text, pieces if len(read) == len(pieces) else [pieces[n] for n in read])
        return tokens if any(start < end for start, end, _ in tokens) else []

    def forms(self, words: Sequence[str]) -> list[str]:
        """None: words that are already split are read as running text, because pieces are not words."""
        return []

    def content(self) -> str:
        """The tokenizer as JSON text; raises if a part of it is code of the user's."""
        return without_panic(lambda: cast(str, self.tokenizer.to_str()), lambda why: ModelError(why))


def from_transformers(tokenizer: Any) -> HuggingFaceTokenizer:
    """A fast tokenizer of `transformers`, as it reads one text: nothing cut off, no padding."""
    backend = tokenizer.backend_tokenizer
    try:
        backend = deepcopy(backend)  # the settings of the user's own are those of its last call
        backend.no_truncation()
        backend.no_padding()
    except Exception:  # a part of it is code of the user's, which cannot be copied
        backend = tokenizer.backend_tokenizer
    return HuggingFaceTokenizer(backend, padding=tokenizer.pad_token_id)


def without_panic(call: Callable[[], Any], error: Callable[[str], Exception]) -> Any:
    """What a call into the library gives; its failures, panics of its Rust code included, become an error of ours."""
    try:
        return call()
    except BaseException as failure:
        if not isinstance(failure, Exception) and type(failure).__name__ != "PanicException":
            raise
        raise error(f"{type(failure).__name__}: {str(failure)[:200]}") from None


def in_order(text: str, pieces: Sequence[tuple[int, int, str]]) -> list[Token]:
    """Tokens in order and without overlap, out of pieces (start, end, form) that may share characters."""
    found: list[Token] = []
    place = 0
    following = [*(start for start, _, _ in pieces), len(text)][1:]
    for (start, end, form), ahead in zip(pieces, following, strict=True):
        if start <= ahead < end and not form.strip(BOUNDARIES):
            end = start  # only a boundary: the next piece has the character
        start, end = max(start, place), min(max(end, place), len(text))
        written = text[start:end]
        if written and not written.isspace():
            start += len(written) - len(written.lstrip())
            end -= len(written) - len(written.rstrip())
        found.append(Token(start, max(start, end), form))
        place = max(start, end)
    return found


def _require_same_every_time(tokenizer: Any) -> None:
    dropout = getattr(tokenizer.model, "dropout", None)
    if dropout:
        raise ModelError(
            f"the tokenizer splits at random (dropout {dropout}), which is for training; set tokenizer.model.dropout = None"
        )


def _failed(text: str, why: str) -> str:
    lone = next((n for n, character in enumerate(text) if "\ud800" <= character <= "\udfff"), None)
    if lone is not None:
        return f"it holds {text[lone]!r} at character {lone}, which is half a character and no text"
    return f"the tokenizer failed: {why}"


def _unknown(tokenizer: Any, ids: dict[str, int]) -> int | None:
    """The id that the tokenizer's model gives to what it does not know."""
    try:
        model = cast(dict[str, Any], json.loads(tokenizer.to_str())["model"])
    except Exception:  # a part of it is code of the user's
        return ids.get(getattr(tokenizer.model, "unk_token", None) or "")
    return cast("int | None", model["unk_id"]) if "unk_id" in model else ids.get(model.get("unk_token") or "")


def _padding(tokenizer: Any, ids: dict[str, int]) -> int | None:
    settings = cast("dict[str, Any] | None", tokenizer.padding)
    if settings is not None:
        return cast(int, settings["pad_id"])
    return next((number for form, number in ids.items() if looks_like_padding(form)), None)


def _marks(tokenizer: Any) -> frozenset[str]:
    """The tokens that the tokenizer adds to every text, such as [CLS] and [SEP]."""
    empty = without_panic(lambda: tokenizer.encode(""), lambda why: ModelError(f"the tokenizer cannot be used: {why}"))
    return frozenset(token for token, is_read in zip(empty.tokens, empty.attention_mask, strict=True) if is_read)
