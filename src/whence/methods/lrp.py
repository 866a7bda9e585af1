"""Layer-wise relevance propagation: the paper's method, on a recorded forward pass."""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import cast

import torch
from torch import Tensor, nn

from whence.choice import Choice
from whence.equations import HeadRule, Product, Rules, Stabiliser
from whence.errors import InputError, WhenceError
from whence.interpreter.backward.backward_pass import BackwardPass
from whence.interpreter.backward.path import Start, choices_of, require_strict, required_steps, scores_at
from whence.interpreter.record.layers import named_layers
from whence.interpreter.record.scripted import require_python
from whence.interpreter.record.step import Step, Trace, Value
from whence.interpreter.rules.head import head_of
from whence.methods.forward import Forward, require_finite
from whence.methods.method import Method, Question
from whence.methods.plan import Plan, key_of, known_plans, plan_of, plans_of
from whence.methods.predicting import predicting
from whence.methods.probe import Randomness, require_whole
from whence.methods.recording import picked, recording, scores_of
from whence.methods.target import Selection
from whence.result import Result
from whence.trees import leaves_of, mapped


def require_layer(model: nn.Module, name: str) -> None:
    """Refuse a name that no layer of the model has."""
    known = [each for each, _ in named_layers(model) if each]
    if not isinstance(name, str):
        raise InputError(f"at is a {type(name).__name__}; give the name of a layer, such as at={known[0]!r}")
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.3) or known[:5]
        raise InputError(f"there is no layer {name!r} in the model; it has {', '.join(near) or 'none'}")


def _ask_for(back: BackwardPass, at: str | None, middle: Sequence[object]) -> None:
    """Request the relevance of a layer's output. Relevance stops there, unless the layer runs several times."""
    if at is not None and not any(isinstance(leaf, (Value, Tensor)) for leaf in leaves_of(middle)):
        given = f"it gave a {type(middle[0]).__name__}" if middle else "it does not run"
        raise InputError(f"the layer {at!r} gives no tensor to explain: {given}")
    back.stops = {leaf: None for leaf in leaves_of(middle) if isinstance(leaf, Value)}
    back.goes_on = len(middle) > 1


def _pairs(found: Sequence[Tensor], back: BackwardPass) -> Iterable[tuple[Tensor, Value]]:
    return zip(found, back.trace.leaves, strict=True)


def _balance(left: Tensor, scores: Tensor, absorbed: Mapping[str, Tensor]) -> tuple[list[tuple[str, Tensor]], float]:
    """The absorbed amounts that are not all 0, and the largest gap: |left − Σ absorbed| / max(1, |score|).

    All numbers that decide come in one synchronisation with a GPU. A relevance that is not finite makes the gap so.
    """
    found = torch.stack([*absorbed.values(), left, scores]).cpu()
    *amounts, rest, size = found.unbind()
    for amount in amounts:
        rest.sub_(amount)
    rest.div_(size.abs_().clamp_(min=1))
    *largest, margin, _ = cast(list[float], torch.linalg.vector_norm(found, math.inf, dim=(1, 2)).tolist())
    return [each for each, most in zip(absorbed.items(), largest, strict=True) if most != 0], margin


def _is_close(margin: float | None, dtype: torch.dtype) -> bool:
    """Whether a gap is no more than rounding in this precision; it is not if it is not a number."""
    return margin is not None and margin <= 100 * torch.finfo(dtype).eps ** 0.75


def _explained_by(back: BackwardPass, found: Sequence[Tensor], *, at: str | None) -> Tensor:
    """The relevance (K, B) of the inputs, or of the layer `at`; what bypassed that layer counts as absorbed by the inputs."""
    totals = back.samples.totals
    # a sum over the last axis is spread along it again, so that it is counted once
    shares = [
        r if r.shape[1:] == leaf.tensor.shape else (r / leaf.tensor.shape[-1]).expand(len(r), *leaf.tensor.shape)
        for r, leaf in _pairs(found, back)
    ]
    explained = reduce(torch.add, [totals(r, leaf) for r, leaf in _pairs(shares, back)])
    if at is None or back.goes_on:
        return explained
    if explained.any():
        back.absorbed["inputs"] = explained
    return sum((totals(r, stop) for stop, r in back.stops.items() if r is not None), start=torch.zeros_like(explained))


def _middle(outputs: Sequence[object], back: BackwardPass, selection: Selection) -> object:
    """The relevance of a layer's output, in the same form; for several calls a tuple."""

    def of(leaf: object) -> object:
        if not isinstance(leaf, Value):  # whole numbers stay as they are; what does not depend on the inputs has no relevance
            if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
                return leaf
            return selection.led(leaf.new_zeros(len(selection.mask), *leaf.shape))
        r = back.stops[leaf]
        return selection.led(leaf.tensor.new_zeros(len(selection.mask), *leaf.tensor.shape) if r is None else r)

    found = [mapped(of, output) for output in outputs]
    return found[0] if len(found) == 1 else tuple(found)


@dataclass(frozen=True)
class LRP(Method):
    """Layer-wise relevance propagation with the paper's rule for gates.

    The paper's own LRP is `LRP()`, its LRP_cons `LRP(delta=1.0)`, the authors' released code `LRP(stabiliser="absorbed")`.
    `head` is the rule of the dense layers between the recurrent part of the model and the score: `LRP(head="gamma")` favours
    contributions of the sign of the neuron by `gamma`, `LRP(head="alpha-beta")` weighs both signs by `alpha` and 1 − `alpha`.
    """

    name = "lrp"
    label = "LRP"
    answers = frozenset({"direction", "at", "memory"})
    sums_by_step = adds_up = True

    epsilon: float = 1e-3
    delta: float = 0.0
    stabiliser: Stabiliser = "shared"
    product: Product = "all"
    strict: bool = False  # refuse a model that needs a choice, such as which of two factors is the gate, instead of choosing
    head: HeadRule = "epsilon"
    gamma: float = 0.25  # for head="gamma"
    alpha: float = 2.0  # for head="alpha-beta"; β is alpha − 1

    def __post_init__(self) -> None:
        if not isinstance(self.strict, bool):
            raise InputError(f"strict is {self.strict!r}; it must be True or False")
        for name in ("epsilon", "delta", "gamma", "alpha"):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), (int, float)):
                raise InputError(f"{name} is {getattr(self, name)!r}; it must be a number")
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InputError(f"epsilon is {self.epsilon}; a stabiliser must be a finite number ≥ 0, such as 0.001")
        if not 0 <= self.delta <= 1:
            raise InputError(f"delta is {self.delta}; the part of a bias that is shared out lies between 0 and 1")
        if self.stabiliser not in ("shared", "absorbed"):
            raise InputError(f'stabiliser is {self.stabiliser!r}; it is "shared" (the paper) or "absorbed" (the released code)')
        if self.product not in ("all", "half", "prop", "abs"):
            raise InputError(f'product is {self.product!r}; a product follows "all" (the paper), "half", "prop" or "abs"')
        if self.head not in ("epsilon", "gamma", "alpha-beta"):
            raise InputError(f'head is {self.head!r}; the dense layers of a head follow "epsilon", "gamma" or "alpha-beta"')
        if not (math.isfinite(self.gamma) and self.gamma >= 0):
            raise InputError(f"gamma is {self.gamma}; what favours one sign must be a finite number ≥ 0, such as 0.25")
        if not (math.isfinite(self.alpha) and self.alpha >= 1):
            raise InputError(f"alpha is {self.alpha}; it must be a finite number ≥ 1, such as 2, and beta is alpha − 1")

    @property
    def rules(self) -> Rules:
        """The rules with this method's settings."""
        return Rules(self.epsilon, self.delta, self.stabiliser, self.product, self.head, self.gamma, self.alpha)

    def head_sums(self, trace: Trace, steps: Collection[Step]) -> Collection[Step]:
        """The steps that follow the rule of the head, among those that relevance passes; raises if it cannot be applied."""
        if self.head == "epsilon":
            return ()
        found = head_of(trace, steps)
        found.require(self.head)
        return found.sums

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Record one forward pass, then hand the score back through it."""
        require_python(forward.model)
        if question.at is not None:
            require_layer(forward.model, question.at)
        if question.memory and not any(isinstance(module, nn.RNNBase) for module in forward.model.modules()):
            raise InputError("memory= tells of nn.LSTM, nn.GRU and nn.RNN layers, and the model has none; use at= for a cell")
        result = self._recorded(forward, question, key_of(forward, question, self))
        return result.by_step() if question.by_step else result

    def planned(self, forward: Forward, question: Question) -> Result | None:
        """The answer by a plan of the model; None if there is none, or if the model did anything else than planned."""
        plans = known_plans(forward.model)
        key = None if plans is None else key_of(forward, question, self)
        plan = None if plans is None or key is None else plans.find(key)
        if plans is None or plan is None:
            return None
        with plan.used() as is_free:
            result = self._followed(plan, forward, question) if is_free else None
        if is_free and result is None:
            plans.drop(key)
        if result is not None and not _is_close(result.margin, result.score.dtype):
            return None  # a record says where the gap opens
        return result if result is None or not question.by_step else result.by_step()

    def _followed(self, plan: Plan, forward: Forward, question: Question) -> Result | None:
        """The same with a plan that nobody else uses. Errors are left to a record, which says where they come from."""
        with suppress(WhenceError):
            modules = plan.modules(forward.model)
            if modules is None:
                return None
            with predicting(forward.model, modules), torch.no_grad():
                return self._run_by(plan, forward, question)
        return None

    def _run_by(self, plan: Plan, forward: Forward, question: Question) -> Result | None:
        found = plan.run(forward, question.target)
        if found is None:
            return None
        trace = plan.route.trace
        head = self.head_sums(trace, set(plan.structure.path)) if self.head != "epsilon" else ()
        back = BackwardPass(trace, self.rules, plan.samples, direction=question.direction, head=head, known=plan.structure)
        # 0, but no number where one of the inputs' is not finite, or an output is not a number
        mark = 0 * reduce(torch.add, [leaf.tensor.sum() for leaf in trace.leaves], found.output.clamp(-1, 1).sum())
        return self._explained(
            back, forward, question, found.output, found.selection, found.start, plan.choices, [], mark, is_planned=True
        )

    def _recorded(self, forward: Forward, question: Question, key: Hashable | None) -> Result:
        """The answer by a record of this call; a plan is made of it for later calls, if there is a key."""
        target, at = question.target, question.at
        before = Randomness()
        with (
            predicting(forward.model) as state,
            torch.no_grad(),
            recording(forward, self.product, at=at, state=state) as record,
        ):
            recorded = record(target)
            recorder = recorded.recorder
            trace, output = recorder.trace, recorded.output
            require_finite([leaf.tensor for leaf in trace.leaves])
            selection, samples, start, steps = picked(
                recorded, target, forward, required=self._required, state=state, before=before
            )
            back = BackwardPass(trace, self.rules, samples, direction=question.direction, head=self.head_sums(trace, steps))
            choices = choices_of(trace, steps, start.ends)
            result = self._explained(back, forward, question, output, selection, start, choices, recorded.middle)
            if question.check and isinstance(output, Tensor):
                value = recorder.value_of(output)
                require_whole(forward, recorder, output, value, target, state=state, before=before, mask=selection.mask)
            is_planned = key is not None and plans_of(forward.model).is_wanted(key)
            # a model that draws random numbers must draw them once
            if is_planned and isinstance(output, Tensor) and before.is_now():
                plan = plan_of(
                    recorder, forward, recorded.ids, output, target,
                    samples=samples, selection=selection, start=start, structure=back.structure(steps), choices=choices,
                    is_plain=self.head == "epsilon",
                )  # fmt: skip
                if plan is not None:
                    plans_of(forward.model).keep(key, plan)
                    plan.route.clear()
        return result

    def _explained(
        self,
        back: BackwardPass,
        forward: Forward,
        question: Question,
        output: object,
        selection: Selection,
        start: Start,
        choices: tuple[Choice, ...],
        middle: list[object],
        mark: Tensor | None = None,
        *,
        is_planned: bool = False,
    ) -> Result:
        """Hand the score back from where it starts, and put the result together; a `mark` is 0 if the inputs are finite."""
        at, samples = question.at, back.samples
        starts = scores_at(start)
        back.memory, back.by_step = {} if question.memory else None, question.by_step
        _ask_for(back, at, middle)
        found = back.run(starts)
        scores = reduce(torch.add, [samples.totals(amount, value) for value, amount in starts])
        explained = _explained_by(back, found, at=at)
        left = scores - explained
        absorbed, margin = _balance(left if mark is None else left + mark, scores, back.absorbed)
        gaps: dict[str, Tensor] = {}
        if not _is_close(margin, scores.dtype):
            self._require_finite(found if mark is None else [*found, mark], back.absorbed)
        if not _is_close(margin, scores.dtype) and not is_planned:
            audit = BackwardPass(back.trace, self.rules, samples, audit=True, head=back.head)
            audit.run(starts)
            gaps = audit.gaps
        whole = forward.inputs.wrapped([selection.led(r) for r in found], len(selection.lead))
        return Result(
            relevance=whole if at is None else _middle(middle, back, selection),
            score=selection.shaped(scores),
            target=selection.target,
            method=self,
            absorbed={name: selection.shaped(amount) for name, amount in absorbed},
            explained=selection.shaped(explained),
            memory={name: selection.shaped(amount) for name, amount in (back.memory or {}).items()},
            gaps={name: selection.shaped(amount) for name, amount in gaps.items()},
            output=scores_of(output, start) if isinstance(output, Tensor) and not callable(question.target) else None,
            choices=choices,
            margin=margin,
        )

    def _required(self, trace: Trace, start: Start) -> set[Step]:
        """The steps that relevance passes through; raises if one of them has no rule."""
        if self.strict:
            require_strict(start.ends)
        return required_steps(trace, start.masks.keys(), is_strict=self.strict)

    def _require_finite(self, found: Sequence[Tensor], absorbed: Mapping[str, Tensor]) -> None:
        if not all(math.isfinite(r.sum().item()) or bool(r.isfinite().all()) for r in (*found, *absorbed.values())):
            raise InputError(
                f"the relevance is not finite: with epsilon = {self.epsilon:g} and product = {self.product!r} amounts "
                f"grew beyond what {found[0].dtype} holds; use another epsilon, double precision, or another product rule"
            )
