"""Layer-wise relevance propagation: the paper's method, on the way back through a run of the model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import reduce
from typing import cast

import torch
from torch import Tensor, nn

from whence.engine.back import rows_of, way_back
from whence.engine.head import head_of
from whence.engine.held import named_layers
from whence.engine.marks import Owner
from whence.engine.rule import OverwrittenError
from whence.engine.run import ModelRun
from whence.engine.scripted import require_python
from whence.engine.starts import Start, choices_of, path_of, require_no_ends, require_rules
from whence.engine.watch import Watch
from whence.equations import HeadRule, Product, Rules, Stabiliser
from whence.errors import InputError
from whence.methods.following import Following, Picked, following, scores_of
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.methods.predicting import predicting
from whence.methods.probe import require_whole
from whence.methods.target import Selection
from whence.methods.witness import answer_of, explained_scores, followed
from whence.result import Result
from whence.trees import leaves_of, mapped

# times ε: below this Σ|R| of a sample, it is counted how much of it ε shared out; the second with check="model"
COUNTED, COUNTED_IF_ASKED = 30, 300
FITTING = 3e-4  # of Σ|R|: a stabiliser that does little to amounts of this size


def require_layer(model: nn.Module, name: str) -> None:
    """Refuse a name that no layer of the model has."""
    known = [each for each, _ in named_layers(model) if each]
    if not isinstance(name, str):
        raise InputError(f"at is a {type(name).__name__}; give the name of a layer, such as at={known[0]!r}")
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.3)
        others = f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(known[:5]) or 'none'}"
        raise InputError(f"there is no layer {name!r} in the model; {others}")


def _balance(
    left: Tensor, scores: Tensor, absorbed: Mapping[str, Tensor], sizes: Tensor
) -> tuple[list[tuple[str, Tensor]], float, Tensor]:
    """The absorbed amounts that are not all 0, and the largest gap: |left − Σ absorbed| / max(1, |score|); `sizes` on the CPU.

    All numbers that decide come in one synchronisation with a GPU. A relevance that is not finite makes the gap so.
    """
    found = torch.stack([*absorbed.values(), left, scores, sizes]).detach().cpu()
    *amounts, rest, size, told = found.unbind()
    for amount in amounts:
        rest.sub_(amount)
    rest.div_(size.abs_().clamp_(min=1))
    *largest, margin, _, _ = cast(list[float], torch.linalg.vector_norm(found, math.inf, dim=(1, 2)).tolist())
    return [each for each, most in zip(absorbed.items(), largest, strict=True) if most != 0], margin, told


def _is_close(margin: float | None, dtype: torch.dtype) -> bool:
    """Whether a gap is no more than rounding in this precision; it is not if it is not a number."""
    return margin is not None and margin <= 100 * torch.finfo(dtype).eps ** 0.75


def _totals(run: ModelRun, amounts: Tensor, owner: Owner) -> Tensor:
    """Sum amounts (K, *shape) over each sample: (K, B)."""
    return rows_of([run.samples.totals(own, owner, tuple(own.shape), "") for own in amounts])


def _summed(run: ModelRun, relevance: Sequence[Tensor]) -> Tensor:
    """Sum amounts of the inputs over each sample: (K, B)."""
    pairs = zip(relevance, run.starts, strict=True)
    return reduce(torch.add, [_totals(run, r, node.owner) for r, node in pairs if node is not None])


def _require_output(at: str, middle: Sequence[object]) -> None:
    """Refuse a layer that gives no tensor."""
    if not any(isinstance(leaf, (Watch, Tensor)) for leaf in leaves_of(middle)):
        given = f"it gave a {type(middle[0]).__name__}" if middle else "it does not run"
        raise InputError(f"the layer {at!r} gives no tensor to explain: {given}")


def _middle(outputs: Sequence[object], selection: Selection) -> object:
    """The relevance of a layer's output, in the same form; for several calls a tuple."""
    targets = range(len(selection.mask))

    def of(leaf: object) -> object:
        if isinstance(leaf, Watch):
            return selection.led(torch.stack([leaf.of(k) for k in targets]))
        if isinstance(leaf, Tensor) and leaf.is_floating_point():  # what does not depend on the inputs has no relevance
            return selection.led(leaf.new_zeros(len(targets), *leaf.shape))
        return leaf

    found = [mapped(of, output) for output in outputs]
    return found[0] if len(found) == 1 else tuple(found)


@dataclass(frozen=True)
class LRP(Method):
    """Layer-wise relevance propagation with the paper's rule for gates.

    The paper's own LRP is `LRP()`, its LRP_cons `LRP(delta=1.0)`, the authors' released code `LRP(stabiliser="absorbed")`.
    ε is an amount in the unit of the score: if it is large beside the amounts of a call, much is shared out evenly, whatever
    the weights. `result.shared_out` counts it for samples with Σ|R| < 30 ε (300 ε with `check="model"`): the relevance goes
    back once more without shares, and what they brought is the difference. `result.doubt` tells it from a fifth on.

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

    def relevance(self, forward: Forward, question: Question) -> Result:
        """Run the model once, then hand the score back through PyTorch's graph of that run."""
        require_python(forward.parts)
        if question.at is not None:
            require_layer(forward.model, question.at)
        if question.memory and not any(isinstance(module, nn.RNNBase) for module in forward.model.modules()):
            raise InputError("memory= tells of nn.LSTM, nn.GRU and nn.RNN layers, and the model has none; use at= for a cell")
        with (
            predicting(forward.parts) as state,
            following(forward, question.target, self.rules, state, at=question.at) as found,
        ):
            found.by_step = question.by_step
            result = self._explained(found, forward, question)
        return result.by_step() if question.by_step else result

    def _explained(self, found: Following, forward: Forward, question: Question) -> Result:
        try:
            return self._handed_back(found, forward, question)
        except OverwrittenError:
            return self._handed_back(found, forward, question, is_safe=True)  # the model wrote over numbers that are needed

    def _require_rules(self, run: ModelRun, start: Start) -> None:
        """Refuse a model with calls on the path of relevance that have no rule, or where something had to be chosen."""
        if self.strict:
            require_no_ends(start.ends)
        if run.notable:
            require_rules(path_of(run.calls, start.nodes), is_strict=self.strict)

    def _head(self, picked: Picked) -> Sequence[int]:
        """The numbers of the calls that follow the rule of the head; raises if it cannot be applied."""
        if self.head == "epsilon":
            return ()
        run = picked.ran.run
        found = head_of(run.calls, path_of(run.calls, picked.start.nodes))
        found.require(self.head)
        return [n for n, call in enumerate(run.calls) if call in found.layers]

    def _handed_back(
        self,
        found: Following,
        forward: Forward,
        question: Question,
        *,
        is_safe: bool = False,
    ) -> Result:
        """Run the model, hand the score back from where it starts, and put the result together."""
        picked = found.picked(self._require_rules, is_safe=is_safe)
        head = self._head(picked)
        picked = found.picked(self._require_rules, is_safe=is_safe, head=head) if head else picked
        (run, output, middle), selection, start = picked
        if question.at is not None:
            _require_output(question.at, middle)
        run.direction, run.memory = question.direction, {} if question.memory else None
        scores = explained_scores(run, start)
        choices = choices_of(path_of(run.calls, start.nodes), start.ends) if run.notable or start.ends else ()
        relevance, absorbed = way_back(run, start)
        explained = _summed(run, relevance)
        sizes = _summed(run, [r.abs() for r in relevance]) if self._shares_epsilon(question) else scores
        if question.at is not None and run.stop_at_layer:  # what bypassed the layer
            absorbed = {**absorbed, "inputs": explained} if bool(explained.any()) else absorbed
            watched = [leaf for leaf in leaves_of(middle) if isinstance(leaf, Watch)]
            explained = torch.stack(
                [
                    sum((each.totals(run.samples, k) for each in watched), start=scores.new_zeros(scores.shape[1]))
                    for k in range(len(scores))
                ]
            )
        kept, margin, told = _balance(scores - explained, scores, absorbed, sizes)
        gaps: dict[str, Tensor] = {}
        if not _is_close(margin, scores.dtype):
            self._require_finite(relevance, absorbed)
            if scores.dtype == torch.float64 or not question.check:  # otherwise double precision is tried first
                gaps = self._gaps(found, len(scores), head, is_safe=is_safe)
        if question.check and isinstance(output, Tensor):
            require_whole(found, picked.ran, selection.mask)
        whole = forward.inputs.wrapped([selection.led(r) for r in relevance], len(selection.lead))
        result = Result(
            relevance=whole if question.at is None else _middle(middle, selection),
            score=selection.shaped(scores),
            target=selection.target,
            method=self,
            absorbed={name: selection.shaped(amount) for name, amount in kept},
            explained=selection.shaped(explained),
            memory={name: selection.shaped(amount) for name, amount in (run.memory or {}).items()},
            gaps={name: selection.shaped(amount) for name, amount in gaps.items()},
            output=scores_of(output, start).detach() if isinstance(output, Tensor) and not callable(question.target) else None,
            choices=choices,
            margin=margin,
        )
        is_small = told < (COUNTED_IF_ASKED if question.asks_model else COUNTED) * self.epsilon
        if self._shares_epsilon(question) and bool(is_small.any()):
            without = self._without_shares(found, head, is_safe=is_safe)
            shared = _summed(run, [(r - own).abs() for r, own in zip(relevance, without, strict=True)]) / sizes
            counted = torch.where(is_small.to(shared.device), shared, torch.nan)
            fitting = (FITTING * sizes).log10().floor().clamp(max=math.log10(self.epsilon) - 1)
            result = replace(result, shared_out=selection.shaped(counted), fitting_epsilon=selection.shaped(10**fitting))
        if not question.asks_model:
            return result
        return replace(result, answer=answer_of(followed(found, picked, is_safe=is_safe), result, question.words))

    def _shares_epsilon(self, question: Question) -> bool:
        """Whether a part of the stabiliser is shared out to the inputs."""
        return self.rules.returned * self.epsilon != 0 and question.at is None and question.direction is None

    def _without_shares(self, found: Following, head: Sequence[int], *, is_safe: bool) -> Sequence[Tensor]:
        """The relevance of the inputs that follows the weights alone; what shares of ε bring is the rest, as all is linear."""
        found.rules = self.rules._replace(stabiliser="none")
        try:
            run, start = (picked := found.picked(self._require_rules, is_safe=is_safe, head=head)).ran.run, picked.start
            return way_back(run, start).relevance
        finally:
            found.rules = self.rules

    def _gaps(self, found: Following, targets: int, head: Sequence[int], *, is_safe: bool) -> dict[str, Tensor]:
        """Where relevance was lost: the same run again, with an account of what every layer gets and gives."""
        try:
            picked = found.picked(self._require_rules, head=head, is_safe=is_safe, is_audit=True)
            way_back(picked.ran.run, picked.start)
        except Exception:  # the gap is what counts; where it opens only helps to find it
            return {}
        return {name: amount.expand(targets, -1) for name, amount in picked.ran.run.gaps.items()}

    def _require_finite(self, found: Sequence[Tensor], absorbed: Mapping[str, Tensor]) -> None:
        if not all(math.isfinite(r.sum().item()) or bool(r.isfinite().all()) for r in (*found, *absorbed.values())):
            raise InputError(
                f"the relevance is not finite: with epsilon = {self.epsilon:g} and product = {self.product!r} amounts "
                f"grew beyond what {found[0].dtype} holds; use another epsilon, double precision, or another product rule"
            )
