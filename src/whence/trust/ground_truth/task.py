"""What a task is: questions whose right answer is known, the measures of an answer, and what is enough to pass."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whence._relevance import relevance
from whence.errors import WhenceError
from whence.methods.method import Method
from whence.methods.target import Target
from whence.trust.ground_truth.traits import traits_of

ENOUGH = 0.9  # a method passes a task if its value is at least this
DRAWS = 20  # of random relevance, whose mean value is the chance


class Outcome(NamedTuple):
    """One method on one task."""

    value: float  # the weakest of the measures that decide; 1 is the right answer
    chance: float  # the mean value of random relevance
    passes: bool
    measures: dict[str, float]
    reason: str  # why it fails; "" if it passes


class Case(NamedTuple):
    """Samples explained in one call: how to ask a method for their relevance, and the right answer, of the same shape."""

    ask: Callable[[Method], Tensor]
    truth: Tensor


class Exam(NamedTuple):
    """The cases of a task, and the measures of an answer: relevance for every case, in the same order."""

    cases: tuple[Case, ...]
    measured: Callable[[Sequence[Tensor]], dict[str, float]]


@dataclass(frozen=True, eq=False)
class Task:
    """A task. Its exam is prepared once, with fixed seeds; models that need training are trained then."""

    name: str
    title: str  # a plain sentence
    prepare: Callable[[], Exam] = field(repr=False)
    deciding: tuple[str, ...]  # the measures whose smallest is the value; each is 1 for the right answer
    causes: Mapping[str, str] = field(repr=False)  # why methods of a trait fail, with measures in braces

    def run(self, methods: Mapping[str, Method], report: Callable[[str], None] = lambda method: None) -> dict[str, Outcome]:
        """The outcome of every method; `report` is called with the name of each when it is done."""
        exam = self._exam()
        chance = self._chance(exam)
        found: dict[str, Outcome] = {}
        for name, method in methods.items():
            found[name] = self._outcome(exam, method, chance)
            report(name)
        return found

    def judged(self, answer: Sequence[Tensor], method: Method | None = None) -> Outcome:
        """The outcome of an answer to this task's cases."""
        exam = self._exam()
        return self._judged(exam, answer, self._chance(exam), method)

    def _exam(self) -> Exam:
        """Prepare the exam without a trace in the global random numbers, whatever mode the caller is in."""
        with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng(devices=[]):
            return self.prepare()

    def _outcome(self, exam: Exam, method: Method, chance: float) -> Outcome:
        try:
            answer = [case.ask(method) for case in exam.cases]
        except WhenceError as error:
            return _no_answer(chance, f"it gave no answer: {error}")
        return self._judged(exam, answer, chance, method)

    def _judged(self, exam: Exam, answer: Sequence[Tensor], chance: float, method: Method | None) -> Outcome:
        if not all(bool(each.isfinite().all()) for each in answer):
            return _no_answer(chance, "its relevance is not finite")
        measures = exam.measured(answer)
        value = self._value(measures)
        passes = value >= ENOUGH
        return Outcome(value, chance, passes, measures, "" if passes else self._reason(measures, method))

    def _value(self, measures: Mapping[str, float]) -> float:
        return min(measures[name] for name in self.deciding)

    def _reason(self, measures: Mapping[str, float], method: Method | None) -> str:
        weakest = min(self.deciding, key=lambda name: measures[name])
        traits = frozenset[str]() if method is None else traits_of(method)
        causes = [text.format_map(measures) for trait, text in self.causes.items() if trait in traits]
        why = "; ".join(causes) or "why is not known for this method with these settings"
        return f"{weakest.replace('_', ' ')} is {measures[weakest]:.2f}, and {ENOUGH} is needed: {why}"

    def _chance(self, exam: Exam) -> float:
        """The mean value of random relevance."""
        generator = torch.Generator().manual_seed(0)
        values: list[float] = []
        for _ in range(DRAWS):
            drawn = [torch.randn(case.truth.shape, dtype=torch.float64, generator=generator) for case in exam.cases]
            values.append(self._value(exam.measured(drawn)))
        return math.fsum(values) / DRAWS


def _no_answer(chance: float, reason: str) -> Outcome:
    return Outcome(math.nan, chance, passes=False, measures={}, reason=reason)


def case(model: nn.Module, inputs: Tensor, truth: Tensor, *, target: Target = None) -> Case:
    """A case for a model of (B, T, F) or token ids; truth is (B, T) for steps, or (B, T, F) for every feature of them."""
    return Case(partial(_asked, model, inputs, target, truth.dim() == 2), truth.double())


def _asked(model: nn.Module, inputs: Tensor, target: Target, by_step: bool, method: Method) -> Tensor:
    found = relevance(model, inputs, target=target, method=method, by_step=by_step)
    return torch.as_tensor(found.relevance).detach().double()
