"""`Summary`: the parts of a document that carry a decision; how they are chosen and shown lives elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from whence.explanations import Explanations

Span = tuple[int, int]


@dataclass(frozen=True)
class Part:
    """A sentence or a word of a document: its place, its relevance, how many words it has, and whether it is kept."""

    start: int
    end: int
    relevance: float
    words: int
    is_kept: bool

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {
            "start": self.start,
            "end": self.end,
            "relevance": self.relevance,
            "words": self.words,
            "kept": self.is_kept,
        }


@dataclass(frozen=True)
class Reading:
    """What the model decides when it reads a text: the predicted class, and the scores of all classes."""

    predicted: str
    scores: Mapping[str, float]

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {"predicted": self.predicted, "scores": dict(self.scores)}


@dataclass(frozen=True)
class Summary:
    """The sentences, or spans of words, of a document that carry a decision, in the document's order.

    `text` is the summary, `spans` are the places of its pieces in `document`. `parts` are all sentences (or words) of the
    document with their relevance. `whole` is the model's reading of the document, `alone` that of the summary.
    """

    document: str = field(repr=False)
    text: str
    spans: tuple[Span, ...]
    parts: tuple[Part, ...] = field(repr=False)
    whole: Reading
    alone: Reading
    budget: float  # the largest share of the document's words
    unit: str  # "sentence" or "span"; "span" also if no sentence for the target fits into the budget
    by: str  # "sentence" or "document": what the model read at a time when relevance was computed
    explanations: Explanations = field(repr=False)  # of every sentence, or of the document

    # How it is displayed, as "text" and as "html"; filled by whence.render.display.
    displays: ClassVar[dict[str, Callable[["Summary"], str]]] = {}

    @property
    def pieces(self) -> tuple[str, ...]:
        """The pieces of the document that make up the summary, as they are written there."""
        return tuple(self.document[start:end] for start, end in self.spans)

    @property
    def share(self) -> float:
        """The share of relevance kept: of all that sentences (or words) have for the target, how much the kept ones have."""
        total = sum(part.relevance for part in self.parts if part.relevance > 0)
        return sum(part.relevance for part in self.parts if part.is_kept and part.relevance > 0) / total if total else 0.0

    @property
    def words(self) -> int:
        """How many words of the document are kept."""
        return sum(part.words for part in self.parts if part.is_kept)

    @property
    def document_words(self) -> int:
        """How many words the document has."""
        return sum(part.words for part in self.parts)

    @property
    def target(self) -> str:
        """The class that the summary is about."""
        return self.explanations[0].target

    @property
    def question(self) -> str:
        """What is explained, for people: "positive", "positive versus the rest"."""
        return self.explanations[0].question

    @property
    def keeps_decision(self) -> bool:
        """Whether the model predicts the same class from the summary alone as from the document."""
        return self.alone.predicted == self.whole.predicted

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        first = self.explanations[0]
        return {
            "text": self.text,
            "pieces": list(self.pieces),
            "spans": [list(span) for span in self.spans],
            "share": self.share,
            "words": self.words,
            "document_words": self.document_words,
            "budget": self.budget,
            "unit": self.unit,
            "by": self.by,
            "target": self.target,
            **({"versus": first.versus} if first.versus else {}),
            "whole": self.whole.to_dict(),
            "alone": self.alone.to_dict(),
            "keeps_decision": self.keeps_decision,
            "method": dict(first.method),
            "model": first.model,
            "parts": [part.to_dict() for part in self.parts],
        }

    def __str__(self) -> str:
        return self.displays["text"](self) if "text" in self.displays else repr(self)

    def _repr_html_(self) -> str | None:
        return self.displays["html"](self) if "html" in self.displays else None
