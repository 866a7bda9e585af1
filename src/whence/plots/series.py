"""`Series`: what is drawn of numbers that a model read step by step. One sample, as arrays with names; no matplotlib here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whence.errors import InputError

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

    def last(self, count: int) -> "Part":
        """The same with the last steps alone."""
        if not self.has_steps:
            return self
        values = None if self.values is None else self.values[-count:]
        return replace(self, relevance=self.relevance[:, -count:], values=values)

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
    amounts: tuple[str, ...]  # (K,), the outputs as they are written
    absorbed: Numbers | None  # (K,), if the method knows
    method: str
    sample: str = ""  # which of a batch
    steps: tuple[str, ...] = ()  # (T,), or none if they are only numbered
    output_steps: tuple[int, ...] = ()  # the step, or the horizon, of every output, for a model that gives a row for each
    are_horizons: bool = False  # whether these rows lie ahead of the series, and not at its steps
    ends: tuple[int, ...] = ()  # (K,), the input step that every output belongs to; none: all come after the last
    step: str = "step"  # what a step is called
    left_out: int = 0  # steps before the first that is drawn
    unit: str = ""
    doubts: tuple[str | None, ...] = ()  # (K,), why they should not be believed, if that is known
    is_signed: bool = True

    def only(self, numbers: Sequence[int]) -> "Series":
        """The same with some of the outputs."""
        kept = list(numbers)
        return replace(
            self,
            parts=tuple(replace(part, relevance=part.relevance[kept]) for part in self.parts),
            outputs=tuple(self.outputs[n] for n in kept),
            scores=self.scores[kept],
            amounts=tuple(self.amounts[n] for n in kept),
            doubts=tuple(self.doubts[n] for n in kept) if self.doubts else (),
            absorbed=None if self.absorbed is None else self.absorbed[kept],
            output_steps=tuple(self.output_steps[n] for n in kept) if self.output_steps else (),
            ends=tuple(self.ends[n] for n in kept) if self.ends else (),
        )

    def last(self, count: int | None) -> "Series":
        """The same with the last steps alone, which keep their names or numbers; of outputs at every step, the last too."""
        lengths = {part.length for part in self.sequences}
        longest = max(lengths, default=0)
        if count is None or count >= longest:
            return self
        if len(lengths) > 1:
            raise InputError("last= needs inputs of the same steps; choose one with part=")
        start = longest - count
        kept = [n for n, step in enumerate(self.output_steps) if step >= start]
        is_by_step = len(set(self.output_steps)) == longest and not self.are_horizons
        shown = self.only(kept) if is_by_step else self
        return replace(
            shown,
            parts=tuple(part.last(count) for part in shown.parts),
            steps=self.steps[start:] or tuple(map(str, range(start, longest))),
            left_out=start,
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
    def row(self) -> str:
        """What one of the rows of outputs is called."""
        return "horizon" if self.are_horizons else f"output {self.step}"

    @property
    def shapes(self) -> str:
        """The shapes of the relevance, for messages."""
        found = [f"({', '.join(map(str, part.relevance.shape))})" for part in self.parts]
        return f"(outputs, steps, features) = {' and '.join(found)}"

    @property
    def per_unit(self) -> str:
        """The unit, to be appended to a label."""
        return f" in {self.unit}" if self.unit else ""
