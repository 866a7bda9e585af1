"""A vocabulary maps words, or other tokens, to the ids of an embedding's rows."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from numbers import Integral
from typing import Final, cast

from whence.errors import InputError, ModelError

UNKNOWN = "<unknown>"
LARGEST_ID = 10**7 - 1
_LOOKS_UNKNOWN = re.compile(r"[<\[{_|(]+(?:unk|unknown|oov)[>\]}_|)]+", re.IGNORECASE)
_LOOKS_PADDING = re.compile(r"[<\[{_|(]+(?:pad|padding)[>\]}_|)]+", re.IGNORECASE)


class _Ungiven(Enum):
    UNGIVEN = "not given"


_UNGIVEN: Final = _Ungiven.UNGIVEN


def looks_like_padding(word: str) -> bool:
    """Whether a word is spelled as padding usually is: <pad>, [PAD]."""
    return _LOOKS_PADDING.fullmatch(word) is not None


class Vocabulary:
    """Words and their ids; `unknown` and `padding` are the ids of the word for unknown ones and of that for padding, or None.

    `Vocabulary(words)` puts "<unknown>" before the words, at id 0. With `unknown=` or `padding=`, each a word or an id, the ids
    are exactly the positions in `words`; `unknown=None` says that no word stands for unknown ones, so that a text with one is
    refused. `words` may also be a dict from words to ids.

        Vocabulary(["<pad>", "<unk>", "good", "bad"], unknown="<unk>", padding="<pad>")
    """

    def __init__(
        self,
        words: Iterable[str] | Mapping[str, int],
        *,
        unknown: str | int | _Ungiven | None = _UNGIVEN,
        padding: str | int | _Ungiven | None = _UNGIVEN,
    ) -> None:
        is_plain = unknown is _UNGIVEN and padding is _UNGIVEN and not isinstance(words, Mapping)
        if isinstance(words, Mapping):
            self._ids = _checked_ids(cast(Mapping[object, object], words))
        else:
            listed = _words(words)
            self._ids = _after_unknown(listed) if is_plain else _positions(listed)
        last = LARGEST_ID if isinstance(words, Mapping) else len(self._ids) - 1
        if not is_plain:
            _require_named(self._ids, unknown, padding)
        self.unknown: int | None = 0 if is_plain else _id_of("unknown", unknown, self._ids, last)
        self.padding: int | None = _id_of("padding", padding, self._ids, last)
        self.tokens: tuple[str, ...] = tuple(sorted(self._ids, key=self._ids.__getitem__))
        self._size = 1 + max(*self._ids.values(), self.unknown or 0, self.padding or 0, 0)

    @classmethod
    def from_ids(
        cls, ids: Mapping[str, int], *, unknown: str | int | None = None, padding: str | int | None = None
    ) -> "Vocabulary":
        """A vocabulary of words whose ids are given; ids without a word, such as 0 for padding, are possible.

        Vocabulary.from_ids({"good": 3, "bad": 4}, unknown=2, padding=0)
        """
        if not isinstance(ids, Mapping):
            raise ModelError(f"ids is a {type(ids).__name__}; give a dict from words to ids")
        return cls(ids, unknown=unknown, padding=padding)

    def __len__(self) -> int:
        """How many rows an embedding of this vocabulary has: one more than the largest id."""
        return self._size

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    @property
    def is_plain(self) -> bool:
        """Whether it is one that puts `UNKNOWN` first, and nothing else has a meaning of its own."""
        return self.unknown == 0 and self.padding is None and self.tokens[:1] == (UNKNOWN,)

    @property
    def filler(self) -> int:
        """The id that shorter texts of a batch are filled up with."""
        return self.padding or 0

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The id of every token, that of the unknown word where it has none."""
        if self.unknown is None:
            self._require_known(tokens)
        unknown, get = self.unknown or 0, self._ids.get
        return [get(token, unknown) for token in tokens]

    def id(self, token: str) -> int | None:
        """The id of one token; None if it has none of its own."""
        return self._ids.get(token)

    def _require_known(self, tokens: Sequence[str]) -> None:
        for token in tokens:
            if token not in self._ids:
                raise InputError(
                    f"the word {_quoted(token)} is not in the vocabulary, which has no word for unknown ones; "
                    'name one with Vocabulary(words, unknown="<unk>"), or leave the word out'
                )


def _after_unknown(words: Sequence[str]) -> dict[str, int]:
    """The ids of words behind `UNKNOWN`. Words that come twice are those of a text, not a list of ids; each counts once."""
    ids = {word: n for n, word in enumerate(dict.fromkeys((UNKNOWN, *words)))}
    own = {word: n for n, word in enumerate(words)}
    if len(own) == len(words):
        _require_named(own, _UNGIVEN, _UNGIVEN)
    return ids


def _positions(words: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for n, word in enumerate(words):
        if found.setdefault(word, n) != n:
            raise ModelError(
                f"the word {_quoted(word)} stands at {found[word]} and at {n}; with unknown= or padding=, ids are positions, "
                "so give each word once"
            )
    return found


def _checked_ids(words: Mapping[object, object]) -> dict[str, int]:
    _words(words)
    owners: dict[int, str] = {}
    for word, given in cast(Mapping[str, object], words).items():
        number = _whole(given)
        if number is None or not 0 <= number <= LARGEST_ID:
            raise ModelError(f"the id of {_quoted(word)} is {_quoted(given)}; give a whole number from 0 to {LARGEST_ID}")
        if owners.setdefault(number, word) != word:
            raise ModelError(f"{_quoted(owners[number])} and {_quoted(word)} both have the id {number}; give each its own")
    return {word: number for number, word in owners.items()}


def _words(words: Iterable[object]) -> list[str]:
    found = list(words)
    for n, word in enumerate(found):
        if not isinstance(word, str):
            raise ModelError(f"word {n} of the vocabulary is a {type(word).__name__}, {_quoted(word)}; words are strings")
    return cast(list[str], found)


def _require_named(ids: Mapping[str, int], unknown: object, padding: object) -> None:
    """Refuse words that look like the unknown one or like padding, unless it is said whether they are."""
    found: dict[str, str] = {}
    for name, given, looks in (("unknown", unknown, _LOOKS_UNKNOWN), ("padding", padding, _LOOKS_PADDING)):
        if given is _UNGIVEN:
            alike = [word for word, number in ids.items() if looks.fullmatch(word) and (word, number) != (UNKNOWN, 0)]
            found |= {name: _quoted(alike[0])} if alike else {}
    if found:
        raise ModelError(
            f"the vocabulary holds {' and '.join(found.values())}; say what it stands for with "
            f"{', '.join(f'{name}={word}' for name, word in found.items())} (None if it is an ordinary word); "
            "ids are then the positions of the words"
        )


def _id_of(name: str, given: object, ids: Mapping[str, int], last: int) -> int | None:
    """The id that is given as a word or as an id."""
    if given is None or given is _UNGIVEN:
        return None
    if isinstance(given, str):
        if given not in ids:
            raise ModelError(f"{name} is {_quoted(given)}, which is not in the vocabulary; give one of its words, or an id")
        return ids[given]
    number = _whole(given)
    if number is None or not 0 <= number <= last:
        raise ModelError(f"{name} is {_quoted(given)}; give a word of the vocabulary, or an id from 0 to {last}")
    return number


def _whole(given: object) -> int | None:
    if type(given) is int:
        return given  # most are; asking for Integral takes ten times as long
    return int(given) if isinstance(given, Integral) and not isinstance(given, bool) else None


def _quoted(value: object) -> str:
    written = repr(value)
    return written if len(written) <= 80 else f"{written[:80]}…"
