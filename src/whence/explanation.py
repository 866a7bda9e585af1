"""An `Explanation`: a text, its tokens and how relevant each was; it knows no method and no colour."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Explanation:
    """Which tokens of a text spoke for the target's score (positive) and which against it (negative).

    `spans` are the tokens' places in `text`; `encoders` holds, where asked for, each direction's own share of `relevance`.
    """

    text: str
    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    unknown: tuple[bool, ...]
    relevance: tuple[float, ...]
    scores: Mapping[str, float]
    predicted: str
    target: str
    method: Mapping[str, Any]  # its name and settings
    absorbed: Mapping[str, float] = field(default_factory=dict[str, float])
    model: str = ""
    encoders: tuple[tuple[float, ...], ...] = ()

    # How explanations show themselves, as "text" and as "html"; filled by whence.render.display.
    displays: ClassVar[dict[str, Callable[["Explanation"], str]]] = {}

    @property
    def score(self) -> float:
        """The score that was explained."""
        return self.scores[self.target]

    @property
    def is_signed(self) -> bool:
        """Whether relevance can speak against the target; that of sensitivity analysis cannot."""
        return self.method.get("name") != "sa"

    def pieces(self) -> Sequence[tuple[str, int | None]]:
        """The text as the user wrote it, in order: tokens with their number, and what stands between them with None."""
        found: list[tuple[str, int | None]] = []
        place = 0
        for n, (start, end) in enumerate(self.spans):
            if start > place:
                found.append((self.text[place:start], None))
            found.append((self.text[start:end], n))
            place = end
        if place < len(self.text):
            found.append((self.text[place:], None))
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a file."""
        return {
            "text": self.text,
            "tokens": list(self.tokens),
            "relevance": list(self.relevance),
            "scores": dict(self.scores),
            "predicted": self.predicted,
            "target": self.target,
            "method": dict(self.method),
            "absorbed": dict(self.absorbed),
            "model": self.model,
        }

    def __str__(self) -> str:
        return self.displays["text"](self) if "text" in self.displays else repr(self)

    def _repr_html_(self) -> str | None:
        return self.displays["html"](self) if "html" in self.displays else None
