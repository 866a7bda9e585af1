"""What an explanation of a model's score consists of: relevance, score, and the ledger of what was absorbed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from whence.choice import Choice
from whence.errors import ConservationError
from whence.plotted import Plotted
from whence.revision import RULES
from whence.trees import floats_of, mapped

SHARED_OUT = 0.2  # from this part on, relevance shared out by ε is told
CONTRADICTED = -0.1  # an agreement below this contradicts the signs


class ModelAnswer(NamedTuple):
    """What the model says of an explanation, each like `Result.score`; NaN where it cannot run on such inputs.

    `agreement` lies between −1 and 1: how far the score falls without what is said to speak for it, and rises without what is
    said to speak against it, rather than the other way, weighted by the amounts of relevance.
    """

    without_for: Tensor
    without_against: Tensor
    agreement: Tensor


Relevance = Tensor | PackedSequence | tuple[Tensor, ...] | tuple[PackedSequence, ...] | dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Result(Plotted):
    """The relevance of every input element for one score per sample.

    For `target="all"`, `relevance`, `score` and everything in `absorbed` have a leading axis, one entry per class; likewise for
    all steps of an output. `memory` is the relevance that the state of each recurrent layer carries from step to step, in the
    order of the input: entry t is taken before step t, entry T after the last.
    """

    # Any, not `Relevance`: who gave a tensor writes result.relevance.sum(-1), and a union would not let that pass
    relevance: Any  # like the inputs: a tensor, a PackedSequence, a tuple or a dictionary; like the layer's output with at=
    score: Tensor  # (B,), or () for an unbatched input
    target: Any
    method: Any
    absorbed: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])  # by layer and what absorbed it, each like score
    explained: Tensor | None = None  # relevance summed over each sample, like score
    memory: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor], repr=False)  # (B, T + 1) by layer, if requested
    output: Tensor | None = field(default=None, repr=False)  # what the model returned, if it is known
    choices: tuple[Choice, ...] = field(default=(), repr=False)  # what had to be decided, such as which factor is the gate
    gaps: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor], repr=False)  # by layer, if conservation fails
    errors: Any = field(default=None, repr=False)  # the standard errors of relevance, in its form, if it was sampled
    allowed: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor], repr=False)  # the most `check` accepts as absorbed
    margin: float | None = field(default=None, repr=False)  # the largest |gap| / max(1, |score|), if it is known
    # Σ|R that came by shares of ε| / Σ|R|, like score; NaN where it was not counted, None if it was counted nowhere
    shared_out: Tensor | None = field(default=None, repr=False)
    fitting_epsilon: Tensor | None = field(default=None, repr=False)  # like score: one that is small for the amounts found
    answer: ModelAnswer | None = field(default=None, repr=False)  # what the model says of the signs, if it was asked
    rules: int = field(default=RULES, repr=False)  # the number of the rules that made it

    @property
    def doubt(self) -> str | None:
        """Why the signs or amounts should not be believed, in one sentence; None if nothing is known against them."""
        found = self.doubts()
        doubted = [n for n, each in enumerate(found) if each]
        if not doubted or len(found) == 1:
            return found[0] if doubted else None
        first = f"the first is sample {self._sample(doubted[0])}" if self.score.dim() else "the first"
        return f"{len(doubted)} of {len(found)} explanations are in doubt; {first}: {found[doubted[0]]}"

    def doubts(self) -> list[str | None]:
        """The doubt about each score, in the order of `score.reshape(-1)`."""
        reasons: list[list[str | None]] = [[None] * self.score.numel()]
        if self.answer is not None:
            numbers = [cast(list[float], each.reshape(-1).tolist()) for each in (self.score, *self.answer)]
            reasons.append([_contradiction(*each) for each in zip(*numbers, strict=True)])
        if self.shared_out is not None and self.fitting_epsilon is not None:
            shares = cast(list[float], self.shared_out.reshape(-1).tolist())
            fitting = cast(list[float], self.fitting_epsilon.reshape(-1).tolist())
            reasons.append([self._share_told(*each) for each in zip(shares, fitting, strict=True)])
        return ["; ".join(filter(None, each)) or None for each in zip(*reasons, strict=True)]

    def _share_told(self, share: float, fitting: float) -> str | None:
        """What to do where a fifth or more was shared out by the stabiliser."""
        if not share >= SHARED_OUT:
            return None
        other = "" if self.method.stabiliser == "absorbed" else ', or stabiliser="absorbed"'
        return (
            f"epsilon={self.method.epsilon:g} is large beside the amounts of this call: what it shared out evenly is "
            f"{100 * share:.0f} % of the relevance; use epsilon={fitting:g}{other}"
        )

    @property
    def gap(self) -> Tensor:
        """What is missing, per sample: score − Σ relevance − Σ absorbed."""
        if self.explained is None:
            raise ConservationError(
                f"{type(self.method).__name__} does not share out the score, so there is nothing to check; use LRP() for that"
            )
        return self.score - self.explained - sum(self.absorbed.values(), start=torch.zeros_like(self.score))

    def by_step(self) -> "Result":
        """The same with relevance summed over the last axis of the inputs: one number for every step."""
        errors = None if self.errors is None else mapped(_summed, self.errors)  # those of one step rise and fall together
        return replace(self, relevance=mapped(_summed, self.relevance), errors=errors)

    def __repr__(self) -> str:
        """The shapes and sums rather than all the numbers."""
        shapes = ", ".join(str(tuple(each.shape)) for each in floats_of(self.relevance))
        lines = [f"Result of {self.method}: relevance {shapes}", f"  score      {_short(self.score)}"]
        if self.explained is not None:
            lines.append(f"  relevance  {_short(self.explained)}")
        lines += [f"  absorbed   {_short(amount)}  {name}" for name, amount in self.absorbed.items()]
        lines += [f"  in doubt: {self.doubt}"] if self.doubt else []
        return "\n".join(lines)

    def _largest(self) -> float:
        """The largest amount of relevance, given to an input or absorbed."""
        amounts = [*floats_of(self.relevance), *self.absorbed.values()]
        return max((float(each.abs().max()) for each in amounts if each.numel()), default=0.0)

    def _tolerance(self) -> float:
        return 1e-4 if torch.finfo(self.score.dtype).eps < 1e-4 else 0.05

    def _require_allowed(self) -> None:
        """Refuse more absorbed under a name than the method allows."""
        for name, most in self.allowed.items():
            amount, score = self.absorbed[name].reshape(-1).abs(), self.score.reshape(-1)
            bad = ~(amount <= most.reshape(-1))
            if bool(bad.any()):
                n = int(bad.nonzero()[0])
                raise ConservationError(
                    f"sample {self._sample(n)}: score {score[n]:.4g}, {name} {amount[n]:.3g} > {most.reshape(-1)[n]:.3g}; "
                    f"{self.method} did not come closer"
                )

    def _sample(self, n: int) -> int:
        return n % self.score.shape[-1] if self.score.dim() else 0

    def _is_open(self, tolerance: float) -> Tensor:
        """Which samples miss more than that, as a flat list."""
        return ~(self.gap.abs() <= tolerance * self.score.abs().clamp(min=1)).reshape(-1)

    def is_balanced(self, tolerance: float | None = None) -> bool:
        """Whether score = Σ relevance + Σ absorbed for every sample, within tolerance · max(1, |score|)."""
        tolerance = self._tolerance() if tolerance is None else tolerance
        return (self.margin is not None and self.margin <= tolerance) or not bool(self._is_open(tolerance).any())

    def check(self, tolerance: float | None = None) -> "Result":
        """Return this result if score = Σ relevance + Σ absorbed for every sample, within tolerance · max(1, |score|).

        Otherwise raise a `ConservationError` that names the layer where the gap opens. The tolerance is 1e-4 unless given, and
        0.05 in half precision. What Integrated Gradients cannot account for is absorbed as "completeness gap"; it must be
        within the method's own tolerance.
        """
        self._require_allowed()
        tolerance = self._tolerance() if tolerance is None else tolerance
        if self.is_balanced(tolerance):
            return self
        gap, score = self.gap.reshape(-1), self.score.reshape(-1)
        n = int(self._is_open(tolerance).nonzero()[0])
        layers = {name: float(amounts.reshape(-1)[n].abs()) for name, amounts in self.gaps.items()}
        where = f"it opens at {max(layers, key=lambda name: layers[name])!r}" if layers else "by rounding"
        if float(gap[n].abs()) <= 1e4 * torch.finfo(score.dtype).eps * self._largest():
            where = f"by rounding of amounts up to {self._largest():.1g} that cancel; use double precision or a larger epsilon"
        raise ConservationError(
            f"sample {self._sample(n)}: score {score[n]:.4g}, relevance + absorbed {score[n] - gap[n]:.4g} "
            f"(gap {gap[n].abs():.3g} > {tolerance:g}); {where}"
        )


def _contradiction(score: float, without_for: float, without_against: float, agreement: float) -> str | None:
    """Whether the model contradicts the signs of one explanation, in words."""
    if math.isnan(agreement):
        return "the model gives no score without what is said to speak for or against it, so the signs could not be checked"
    if agreement >= CONTRADICTED:
        return None
    return (
        f"the model contradicts the signs: its score {score:.4g} becomes {without_for:.4g} without what is said to speak for "
        f"it, and {without_against:.4g} without what is said to speak against it"
    )


def _summed(leaf: object) -> object:
    return leaf.sum(-1) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


def _short(amount: Tensor) -> str:
    """The first few numbers of an amount per sample."""
    numbers = amount.reshape(-1)
    shown = " ".join(f"{number:+.4f}" for number in cast(list[float], numbers[:5].tolist()))
    return f"{shown} …" if len(numbers) > 5 else shown
