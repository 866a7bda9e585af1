"""`Inspection`: what relevance will do in a model, operation by operation, as plain data.

How it is found and how it is drawn lives elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

from whence.choice import Choice

# passes: relevance reaches it. gate: it only computes gates. constant: it is computed from constants alone. after: relevance
# starts before it. unused: the output does not depend on it. unknown: the model could not be followed to its end.
Flow = Literal["passes", "gate", "constant", "after", "unused", "unknown"]
NO_RELEVANCE: Mapping[Flow, str] = {
    "gate": "no relevance: it only computes a gate",
    "constant": "no relevance: it is computed from constants alone",
    "after": "no relevance: relevance starts before it",
    "unused": "no relevance: the output does not depend on it",
    "unknown": "unknown: the model could not be followed to its end",
}
INPUTS = -1  # the inputs, as the end of an arrow


class Row(NamedTuple):
    """One kind of operation in a layer: a torch function under one rule. `times` counts the calls, also those of a loop.

    `absorbs` has the names that the amounts have in `Result.absorbed`. In a product, `gate` and `source` say which calls made
    the factors, and `why` gives the reason.
    """

    layer: str  # its dotted name; "" is the model itself
    operation: str  # the torch function's name; "" where the whole model is refused
    rule: str
    flow: Flow = "passes"
    gate: str = ""
    source: str = ""
    why: str = ""
    absorbs: tuple[str, ...] = ()
    choice: str = ""  # what had to be decided
    refused: str = ""  # why relevance cannot pass, though it would have to
    advice: str = ""  # what to do about it
    times: int = 1

    @property
    def gets_relevance(self) -> bool:
        """Whether relevance reaches the operation."""
        return self.flow == "passes" and not self.refused


class Part(NamedTuple):
    """A stretch of the run inside one layer. A layer has several, if others run in between; the turns of a loop are one."""

    layer: str
    kind: str  # the class of the layer
    rows: tuple[Row, ...]

    @property
    def gets_relevance(self) -> bool:
        """Whether relevance reaches anything in it."""
        return any(row.flow == "passes" for row in self.rows)


class Arrow(NamedTuple):
    """Relevance goes from one part to another; or no relevance does, because a gate is computed there.

    Parts are given by number. `INPUTS` stands for the inputs, the number of parts for the output.
    """

    start: int
    end: int
    kind: Literal["relevance", "gate"] = "relevance"


@dataclass(frozen=True)
class Inspection:
    """What relevance will do in a model: the operations in the order of the run, and which of them relevance passes."""

    model: str
    inputs: str  # in words, with their shapes
    method: Mapping[str, Any]  # its name and settings
    parts: tuple[Part, ...]
    arrows: tuple[Arrow, ...] = ()
    choices: tuple[Choice, ...] = field(default=())  # what had to be decided, such as which factor is the gate
    doubt: str | None = None  # why the relevance of the predicted scores of these inputs should not be believed

    # How an inspection is displayed, as "text" and as "html"; filled by whence.render.display.
    displays: ClassVar[dict[str, Callable[["Inspection"], str]]] = {}

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all parts, in the order of the run."""
        return tuple(row for part in self.parts for row in part.rows)

    @property
    def refused(self) -> tuple[Row, ...]:
        """The rows that relevance would have to pass and cannot."""
        return tuple(row for row in self.rows if row.refused)

    @property
    def is_explainable(self) -> bool:
        """Whether relevance can pass from the output to the inputs."""
        return not self.refused

    @property
    def absorbed(self) -> tuple[str, ...]:
        """Where relevance is absorbed, by the names in `Result.absorbed`."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.absorbs))

    def to_dict(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {
            "model": self.model,
            "inputs": self.inputs,
            "method": dict(self.method),
            "is_explainable": self.is_explainable,
            "parts": [
                {"layer": part.layer, "kind": part.kind, "rows": [row._asdict() for row in part.rows]} for part in self.parts
            ],
            "arrows": [arrow._asdict() for arrow in self.arrows],
            "choices": [choice._asdict() for choice in self.choices],
            "absorbed": list(self.absorbed),
            **({"doubt": self.doubt} if self.doubt else {}),
        }

    def __str__(self) -> str:
        return self.displays["text"](self) if "text" in self.displays else repr(self)

    def _repr_html_(self) -> str | None:
        return self.displays["html"](self) if "html" in self.displays else None
