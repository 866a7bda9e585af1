"""Layer-wise relevance propagation: the paper's method, on a recorded forward pass."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import cast

import torch
from torch import Tensor, nn

from whence.equations import HeadRule, Product, Rules, Stabiliser
from whence.errors import InputError
from whence.interpreter.backward.backward_pass import BackwardPass
from whence.interpreter.backward.path import Start, choices_of, require_strict, required_steps, scores_at
from whence.interpreter.record.layers import named_layers
from whence.interpreter.record.scripted import require_python
from whence.interpreter.record.step import Step, Trace, Value
from whence.interpreter.rules.head import head_of
from whence.methods.forward import Forward, require_finite
from whence.methods.method import Method, Question
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


def _amounts(absorbed: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
    """The absorbed amounts that are not all 0; one GPU synchronisation for all."""
    if not absorbed:
        return []
    is_any = cast(list[bool], torch.stack(list(absorbed.values())).flatten(1).any(1).tolist())
    return [each for each, is_there in zip(absorbed.items(), is_any, strict=True) if is_there]


def _explained_by(back: BackwardPass, found: Sequence[Tensor], zero: Tensor, *, at: str | None) -> Tensor:
    """The relevance (K, B) of the inputs, or of the layer `at`; what bypassed that layer counts as absorbed by the inputs."""
    totals = back.samples.totals
    # a sum over the last axis is spread along it again, so that it is counted once
    shares = [
        r if r.shape[1:] == leaf.tensor.shape else (r / leaf.tensor.shape[-1]).expand(len(r), *leaf.tensor.shape)
        for r, leaf in _pairs(found, back)
    ]
    explained = sum((totals(r, leaf) for r, leaf in _pairs(shares, back)), start=zero)
    if at is None or back.goes_on:
        return explained
    if explained.any():
        back.absorbed["inputs"] = explained
    return sum((totals(r, stop) for stop, r in back.stops.items() if r is not None), start=zero)


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
        target, at = question.target, question.at
        require_python(forward.model)
        if at is not None:
            require_layer(forward.model, at)
        if question.memory and not any(isinstance(module, nn.RNNBase) for module in forward.model.modules()):
            raise InputError("memory= tells of nn.LSTM, nn.GRU and nn.RNN layers, and the model has none; use at= for a cell")
        before = Randomness()
        with (
            predicting(forward.model) as state,
            torch.no_grad(),
            recording(forward, self.product, at=at, state=state) as record,
        ):
            recorded = record(target)
            require_finite([leaf.tensor for leaf in recorded.recorder.trace.leaves])
            trace, output = recorded.recorder.trace, recorded.output
            selection, samples, start, steps = picked(
                recorded, target, forward, required=self._required, state=state, before=before
            )
            starts = scores_at(start)
            head = self.head_sums(trace, steps)
            back = BackwardPass(trace, self.rules, samples, direction=question.direction, head=head)
            back.memory, back.by_step = {} if question.memory else None, question.by_step
            _ask_for(back, at, recorded.middle)
            found = back.run(starts)
            scores = torch.stack([samples.totals(amount, value) for value, amount in starts]).sum(0)
            self._require_finite(found, back.absorbed)
            explained = _explained_by(back, found, torch.zeros_like(scores), at=at)
            gap = scores - explained - sum(back.absorbed.values(), start=torch.zeros_like(scores))
            gaps: dict[str, Tensor] = {}
            if not (gap.abs() <= 100 * torch.finfo(gap.dtype).eps ** 0.75 * scores.abs().clamp(min=1)).all():
                audit = BackwardPass(trace, self.rules, samples, audit=True, head=head)
                audit.run(starts)
                gaps = audit.gaps
            whole = forward.inputs.wrapped([selection.led(r) for r in found], len(selection.lead))
            result = Result(
                relevance=whole if at is None else _middle(recorded.middle, back, selection),
                score=selection.shaped(scores),
                target=selection.target,
                method=self,
                absorbed={name: selection.shaped(amount) for name, amount in _amounts(back.absorbed)},
                explained=selection.shaped(explained),
                memory={name: selection.shaped(amount) for name, amount in (back.memory or {}).items()},
                gaps={name: selection.shaped(amount) for name, amount in gaps.items()},
                output=scores_of(output, start) if isinstance(output, Tensor) and not callable(target) else None,
                choices=choices_of(trace, steps, start.ends),
            )
            if question.check and isinstance(output, Tensor):
                value = recorded.recorder.value_of(output)
                require_whole(
                    forward, recorded.recorder, output, value, target, state=state, before=before, mask=selection.mask
                )
        return result.by_step() if question.by_step else result

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
