"""Phrases of a text and what they give to the score, as a list and as a tree; how they are found and drawn lives elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, overload

from whence.explanation import Explanation


@dataclass(frozen=True)
class Phrase:
    """Some neighbouring tokens of a text, from number `start` to before `end`, and what they give to the score as one phrase.

    `interaction` is what they give beyond the sum of their words, one by one; None for a method that only adds words up.
    """

    start: int
    end: int
    text: str
    relevance: float
    interaction: float | None = None

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {
            "start": self.start,
            "end": self.end,
            "text": self.text,
            "relevance": self.relevance,
            "interaction": self.interaction,
        }


@dataclass(frozen=True)
class Phrases(Sequence[Phrase]):
    """Phrases of one text, in the order in which they were asked for, and the explanation of its words."""

    explanation: Explanation
    items: tuple[Phrase, ...]

    # How they are displayed, as "text" and as "html"; filled by whence.render.display.
    displays: ClassVar[dict[str, Callable[["Phrases"], str]]] = {}
    shown: ClassVar[int] = 20  # how many are displayed: of more, the ones with the largest relevance

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Phrase: ...
    @overload
    def __getitem__(self, index: slice) -> "Phrases": ...
    def __getitem__(self, index: int | slice) -> "Phrase | Phrases":
        return Phrases(self.explanation, self.items[index]) if isinstance(index, slice) else self.items[index]

    def largest(self, count: int) -> "Phrases":
        """The phrases with the largest relevance, for the target or against it; the largest first."""
        return Phrases(self.explanation, tuple(sorted(self.items, key=lambda each: -abs(each.relevance))[:count]))

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON: that of the explanation, and the phrases."""
        return {**self.explanation.to_dict(), "phrases": [each.to_dict() for each in self.items]}

    def __str__(self) -> str:
        return self.displays["text"](self) if "text" in self.displays else repr(self)

    def _repr_html_(self) -> str | None:
        return self.displays["html"](self) if "html" in self.displays else None


@dataclass(frozen=True)
class Node:
    """A phrase in a tree: a word, or two neighbouring phrases joined.

    `joint` is what the two give together beyond what each of them gives; 0 for a word.
    """

    phrase: Phrase
    joint: float = 0.0
    parts: tuple["Node", ...] = ()

    def __iter__(self) -> Iterator["Node"]:
        """This phrase, then each of its parts with all that it is made of."""
        yield self
        for part in self.parts:
            yield from part

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {**self.phrase.to_dict(), "joint": self.joint, "parts": [each.to_dict() for each in self.parts]}


@dataclass(frozen=True)
class PhraseTree:
    """The phrases of one text as a tree: from its words to the whole, always joining the neighbours that interact most."""

    explanation: Explanation
    root: Node

    # How it is displayed, as "text" and as "html"; filled by whence.render.display.
    displays: ClassVar[dict[str, Callable[["PhraseTree"], str]]] = {}

    def phrases(self) -> list[Phrase]:
        """All phrases of the tree, each before its parts."""
        return [node.phrase for node in self.root]

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON: that of the explanation, and the tree."""
        return {**self.explanation.to_dict(), "tree": self.root.to_dict()}

    def __str__(self) -> str:
        return self.displays["text"](self) if "text" in self.displays else repr(self)

    def _repr_html_(self) -> str | None:
        return self.displays["html"](self) if "html" in self.displays else None
