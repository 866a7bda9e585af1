"""`Series`: what is drawn of numbers that a model read step by step. One sample, as arrays with names; no matplotlib here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """One of the model's inputs. A static input, which has no steps, is a single step with `has_steps` false."""

    name: str  # its key or number among several inputs; of a single one ""
    relevance: Numbers  # (K, T, F), for K explained outputs
    features: tuple[str, ...]  # (F,)
    is_named: bool  # whether the user named the features
    values: Numbers | None = None  # (T, F)
    has_steps: bool = True

    @property
    def length(self) -> int:
        """How many steps it has."""
        return self.relevance.shape[1]

    @property
    def full_names(self) -> tuple[str, ...]:
        """The names of the features, with that of the input."""
        return tuple(f"{self.name}: {name}" if self.name and self.name != name else name for name in self.features)


@dataclass(frozen=True, eq=False)
class Series:
    """The relevance of one sample for K outputs, and the names of everything."""

    parts: tuple[Part, ...]
    outputs: tuple[str, ...]  # (K,)
    scores: Numbers  # (K,)
    absorbed: Numbers | None  # (K,), if the method knows
    method: str
    sample: str = ""  # which of a batch
    steps: tuple[str, ...] = ()  # (T,), or none if they are only numbered
    output_steps: tuple[int, ...] = ()  # the step of every output, for a model that gives outputs for every step
    step: str = "step"  # what a step is called
    unit: str = ""
    is_signed: bool = True

    def only(self, numbers: Sequence[int]) -> "Series":
        """The same with some of the outputs."""
        kept = list(numbers)
        return replace(
            self,
            parts=tuple(replace(part, relevance=part.relevance[kept]) for part in self.parts),
            outputs=tuple(self.outputs[n] for n in kept),
            scores=self.scores[kept],
            absorbed=None if self.absorbed is None else self.absorbed[kept],
            output_steps=tuple(self.output_steps[n] for n in kept) if self.output_steps else (),
        )

    @property
    def sequences(self) -> tuple[Part, ...]:
        """The parts that have steps."""
        return tuple(part for part in self.parts if part.has_steps)

    @property
    def classes(self) -> int:
        """How many outputs every step has; 1 if outputs do not belong to steps."""
        return len(self.outputs) // len(set(self.output_steps)) if self.output_steps else 1

    @property
    def shapes(self) -> str:
        """The shapes of the relevance, for messages."""
        found = [f"({', '.join(map(str, part.relevance.shape))})" for part in self.parts]
        return f"(outputs, steps, features) = {' and '.join(found)}"

    @property
    def in_unit(self) -> str:
        """The unit, to be appended to a number."""
        return f" {self.unit}" if self.unit else ""

    @property
    def per_unit(self) -> str:
        """The unit, to be appended to a label."""
        return f" in {self.unit}" if self.unit else ""
