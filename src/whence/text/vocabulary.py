"""A vocabulary maps tokens to ids; id 0 stands for every unknown token."""

from collections.abc import Iterable, Sequence

UNKNOWN = "<unknown>"


class Vocabulary:
    """An ordered list of tokens. The first one stands for all unknown tokens."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = (UNKNOWN, *(token for token in dict.fromkeys(tokens) if token != UNKNOWN))
        self._ids = {token: n for n, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def ids(self, tokens: Sequence[str]) -> list[int]:
        """The id of every token, 0 where it is unknown."""
        return [self._ids.get(token, 0) for token in tokens]
