"""A tokenizer whose texts all have the same number of tokens, for models that were trained on padded texts."""

from collections.abc import Sequence
from itertools import chain, count
from typing import Any, Literal, cast

from whence.errors import ModelError
from whence.quoting import quoted
from whence.text.given import tokenizer_of
from whence.text.huggingface import HuggingFaceTokenizer
from whence.text.tokenizer import Token
from whence.text.vocabulary import Vocabulary

Side = Literal["before", "after"]
SIDES = ("before", "after")
LONGEST = 2**15  # tokens


class PaddedTokenizer:
    """Another tokenizer's tokens, padded or cut to `length` of them, as `pad_sequences` of Keras does.

    `pad` says where padding stands: before the text (Keras' "pre") or after it ("post"). `cut` says which end of a longer text
    is cut off; by default the tokens before the last ones, as in Keras. Padding is read by the model, so it is explained:
    tokens with empty spans, called `token`, which is the vocabulary's word for padding.

        PaddedTokenizer(TreebankTokenizer(), length=100, token="<pad>", pad="before")
    """

    def __init__(self, tokenizer: object, *, length: int, token: str, pad: Side, cut: Side = "before") -> None:
        own = tokenizer_of(tokenizer)
        if isinstance(own, (HuggingFaceTokenizer, PaddedTokenizer)):
            raise ModelError(
                f"a {type(own).__name__} pads texts itself; give a tokenizer of words or characters, or a function"
            )
        if type(length) is not int or not 1 <= length <= LONGEST:
            raise ModelError(f"length is {quoted(length)}; give a whole number of tokens from 1 to {LONGEST}")
        for name, side in {"pad": pad, "cut": cut}.items():
            if side not in SIDES:
                raise ModelError(f"{name} is {quoted(side)}; give 'before' or 'after'")
        self.tokenizer, self.length, self.token, self.pad, self.cut = own, length, token, pad, cut

    @property
    def name(self) -> str:
        """That of the tokenizer whose tokens are padded."""
        return self.tokenizer.name

    def tokens(self, text: str) -> list[Token]:
        """The text's tokens and the padding, in order; none if the text is empty."""
        return self.filled(self.tokenizer.tokens(text), len(text))

    def forms(self, words: Sequence[str]) -> list[str]:
        """The forms of words that are already split, without padding."""
        return self.tokenizer.forms(words)

    def filled(self, tokens: Sequence[Token], end: int) -> list[Token]:
        """The tokens of a text that ends at `end`, cut or padded."""
        if not tokens:
            return []
        kept = list(tokens[-self.length :] if self.cut == "before" else tokens[: self.length])
        place = 0 if self.pad == "before" else end
        padding = [Token(place, place, self.token)] * (self.length - len(kept))
        return [*padding, *kept] if self.pad == "before" else [*kept, *padding]

    def settings(self) -> dict[str, object]:
        """What config.json says of the padding."""
        return {"length": self.length, "pad": self.pad, "cut": self.cut}


def padded_by(settings: object, tokenizer: object, vocabulary: Vocabulary) -> PaddedTokenizer:
    """A tokenizer with the padding that config.json describes; raises if that is none."""
    token = padding_word(vocabulary)
    known = cast(dict[str, Any], settings) if isinstance(settings, dict) else {}
    if set(known) != {"length", "pad", "cut"}:
        raise ModelError(f"padded is {quoted(cast(object, settings))}; it must hold length, pad and cut")
    if token is None:
        raise ModelError("texts are padded, and no word of the vocabulary is its padding")
    return PaddedTokenizer(tokenizer, token=token, **known)


def padding_word(vocabulary: Vocabulary) -> str | None:
    """The vocabulary's word for padding; None if it has none."""
    return next((word for word in vocabulary.tokens if vocabulary.id(word) == vocabulary.padding), None)


def with_padding_word(vocabulary: Vocabulary) -> Vocabulary:
    """The same vocabulary with a word for padding, if its padding is an id without a word."""
    assert vocabulary.padding is not None
    if padding_word(vocabulary) is not None:
        return vocabulary
    name = next(name for name in chain(["<pad>"], (f"<pad {n}>" for n in count(1))) if name not in vocabulary)
    ids = {word: cast(int, vocabulary.id(word)) for word in vocabulary.tokens}
    return Vocabulary.from_ids({name: vocabulary.padding, **ids}, unknown=vocabulary.unknown, padding=vocabulary.padding)
