"""`Explanation`, a text with the relevance of its tokens. How relevance is computed and displayed lives elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import nan
from pathlib import Path
from typing import Any, ClassVar

from whence.errors import InputError
from whence.plotted import Plotted
from whence.revision import RULES
from whence.text.words import word_groups, word_span


@dataclass(frozen=True)
class Explanation(Plotted):
    """Which tokens of a text spoke for the target's score (positive) and which against it (negative).

    `spans` are the tokens' positions in `text`. A vocabulary may spell tokens in another way, such as quotes by their side;
    `pipeline.ids(text)` gives their ids. With `encoders=True`, `encoders` holds the relevance through each direction.
    If the target is explained versus another class or the rest, or not by its score, `difference` is the amount explained.

    A text of a list that cannot be explained keeps its place: `error` says why, there are no tokens, and the score is NaN.
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
    choices: tuple[str, ...] = ()  # what had to be decided about the model, such as which factor of a product is the gate
    is_signed: bool = True  # whether relevance can speak against the target; that of sensitivity analysis cannot
    versus: str = ""  # the class that the target is contrasted with, or "rest"
    difference: float | None = None  # the score of the target minus that of `versus`, or its log-probability
    deleted: tuple[int, ...] = ()  # the tokens whose vectors were set to zero
    errors: tuple[float, ...] = ()  # the standard errors of relevance that was sampled
    row: int | None = None  # the text's place in the list or file that it came from, counted from 0 on
    label: str | None = None  # the true class, if it was given
    error: str = ""  # why the text could not be explained
    doubt: str | None = None  # why the signs or amounts should not be believed
    rules: int = RULES  # the number of the rules that made it

    # How an explanation is displayed, as "text" and as "html"; filled by whence.render.display.
    displays: ClassVar[dict[str, Callable[["Explanation"], str]]] = {}

    @property
    def score(self) -> float:
        """The amount that was explained: the target's score, its difference from that of another, or its log-probability."""
        if self.error:
            return nan
        return self.scores[self.target] if self.difference is None else self.difference

    @staticmethod
    def failed(text: str, error: str, *, row: int | None = None, label: str | None = None, model: str = "") -> "Explanation":
        """The entry of a text that could not be explained."""
        return Explanation(text, (), (), (), (), {}, "", "", {}, model=model, row=row, label=label, error=error)

    @property
    def is_right(self) -> bool | None:
        """Whether the predicted class is the true one; None if that is not known, or is no class of the model."""
        return self.predicted == self.label if self.label in self.scores and len(self.scores) > 1 else None

    @property
    def question(self) -> str:
        """What is explained, for people: "positive", "positive versus negative", "positive versus the rest"."""
        other = "the rest" if self.versus == "rest" else self.versus
        return f"{self.target} versus {other}" if other else self.target

    def pieces(self) -> Sequence[tuple[str, int | None]]:
        """The text in order, as the user wrote it: each token with its number, and what is between tokens with None."""
        found: list[tuple[str, int | None]] = []
        place = 0
        for n, (start, end) in enumerate(self.spans):
            if start > place:
                found.append((self.text[place:start], None))
            found.append((self.text[start:end] or self.tokens[n], n))
            place = end
        if place < len(self.text):
            found.append((self.text[place:], None))
        return found

    def span(self, piece: str) -> float:
        """The relevance of a piece of the text: the sum over its tokens, where it first occurs.

        explanation.span("not a waste")
        """
        start, end = self.tokens_of(piece)
        return sum(self.relevance[start:end])

    def tokens_of(self, piece: str) -> tuple[int, int]:
        """The tokens of a piece of the text, where it first occurs: the number of the first, and that after the last."""
        wanted = piece.strip() if isinstance(piece, str) else ""
        if not wanted:
            raise InputError(f"{piece!r} is no piece of a text; give some of its words, as they are written in it")
        places = [n for n in range(len(self.text)) if self.text.startswith(wanted, n)]
        for place in places:
            touched = [n for n, (start, end) in enumerate(self.spans) if start < place + len(wanted) and end > place]
            if touched and self.spans[touched[0]][0] >= place and self.spans[touched[-1]][1] <= place + len(wanted):
                return touched[0], touched[-1] + 1
        if not places:
            raise InputError(
                f"{piece!r} does not occur in the text {_start(self.text)!r}; give words as they are written there"
            )
        raise InputError(
            f"{piece!r} cuts a token of the text {_start(self.text)!r} in two; its tokens are {_listed(self.tokens)}"
        )

    def by_word(self, groups: Sequence[range] | None = None) -> "Explanation":
        """The same explanation with words as its tokens: the relevance of a word is the sum over its characters or pieces.

        White space counts with the word before it. A word is unknown if one of its tokens is, and deleted if all of them are.
        An explanation whose tokens are words is returned as it is. `groups` may give the tokens of every word, in order and
        without gaps; by default, words are those of the treebank's tokenizer. Standard errors are left out: those of a sum
        do not follow from those of its terms.
        """
        if self.error:
            return self
        groups = word_groups(self.text, self.spans, self.tokens) if groups is None else groups
        if [n for group in groups for n in group] != list(range(len(self.tokens))) or not all(groups):
            raise InputError(f"groups must name the tokens 0 to {len(self.tokens) - 1} of all words, in order and without gaps")
        if all(len(group) == 1 for group in groups):
            return self
        spans = [word_span(self.text, self.spans[group[0]], self.spans[group[-1]]) for group in groups]

        def summed(relevance: Sequence[float]) -> tuple[float, ...]:
            return tuple(sum(relevance[n] for n in group) for group in groups)

        return replace(
            self,
            tokens=tuple(
                self.text[start:end] or self.tokens[group[0]] for (start, end), group in zip(spans, groups, strict=True)
            ),
            spans=tuple(spans),
            unknown=tuple(any(self.unknown[n] for n in group) for group in groups),
            relevance=summed(self.relevance),
            encoders=tuple(summed(share) for share in self.encoders),
            deleted=tuple(k for k, group in enumerate(groups) if self._is_deleted(group)),
            errors=(),
        )

    def _is_deleted(self, tokens: Sequence[int]) -> bool:
        """Whether all of these tokens are deleted; white space does not count, unless there is nothing else."""
        written = [n for n in tokens if self.tokens[n].strip()] or tokens
        return all(n in self.deleted for n in written)

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        place = {} if self.row is None else {"row": self.row}
        truth = {} if self.label is None else {"label": self.label}
        if self.error:
            return {**place, "text": self.text, **truth, "error": self.error}
        return {
            **place,
            "text": self.text,
            "tokens": list(self.tokens),
            "relevance": list(self.relevance),
            "scores": dict(self.scores),
            "predicted": self.predicted,
            "target": self.target,
            "method": dict(self.method),
            "rules": self.rules,
            "absorbed": dict(self.absorbed),
            "model": self.model,
            "score": self.score,
            "unknown": list(self.unknown),
            "spans": [list(span) for span in self.spans],
            **truth,
            **({"versus": self.versus} if self.versus else {}),
            **({"deleted": list(self.deleted)} if self.deleted else {}),
            **({"choices": list(self.choices)} if self.choices else {}),
            **({"doubt": self.doubt} if self.doubt else {}),
            **({"encoders": [list(each) for each in self.encoders]} if self.encoders else {}),
            **({"errors": list(self.errors)} if self.errors else {}),
        }

    def save(self, path: str | Path) -> None:
        """Write a file, completely or not at all: .html, .svg, .tex, .jsonl, .csv, .parquet or .txt, by its suffix."""
        import_module("whence.explanations").Explanations([self]).save(path)

    def __str__(self) -> str:
        return self.displays["text"](self) if "text" in self.displays else repr(self)

    def _repr_html_(self) -> str | None:
        return self.displays["html"](self) if "html" in self.displays else None


def _start(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def _listed(tokens: Sequence[str]) -> str:
    return ", ".join(map(repr, tokens[:12])) + (", …" if len(tokens) > 12 else "")
