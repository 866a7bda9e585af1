"""Which of the model's scores is explained."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence.errors import TargetError

Index = int | np.integer[Any]


@dataclass(frozen=True)
class Contrast:
    """A target: what speaks for one class rather than another, or rather than all the rest (see `contrast`)."""

    one: Index | str
    other: Index | str

    def __repr__(self) -> str:
        return f"contrast({self.one!r}, {self.other!r})"


Target = (
    Index
    | str
    | Contrast
    | Sequence[Index | str | Contrast]
    | Tensor
    | NDArray[np.integer[Any]]
    | tuple[Index | str, Index | str]
    | Callable[[Any], Tensor]
    | None
)


INDEPENDENT = "the score does not depend on the inputs, so there is nothing to explain"


class Selection(NamedTuple):
    """The explained scores: one mask over the output per target (K), and the output's batch axis."""

    mask: Tensor  # (K, *shape of the output), the weight of every score in what is explained: 1 for a single one
    batch_axis: int | None  # None for an unbatched input
    target: Target
    lead: tuple[int, ...] = ()  # the axes of several targets: classes, steps, or steps and classes; K is their product

    def scores(self, output: Tensor) -> Tensor:
        """The explained scores (K, B), or (K, 1) when unbatched."""
        picked = torch.where(self.mask != 0, self.mask * output, torch.zeros_like(output))
        if self.batch_axis is None:
            return picked.reshape(len(picked), -1).sum(1, keepdim=True)
        return picked.movedim(self.batch_axis + 1, 1).reshape(len(picked), output.shape[self.batch_axis], -1).sum(-1)

    def shaped(self, amount: Tensor) -> Tensor:
        """An amount (K, B) with the axes of the targets in front; without the axis B for an unbatched input."""
        return self.led(amount[:, 0] if self.batch_axis is None else amount)

    def led(self, amount: Tensor) -> Tensor:
        """An amount (K, ...) with the axes of the targets in front, none for a single one."""
        return amount.reshape((*self.lead, *amount.shape[1:]))


def contrast(one: Index | str, other: Index | str) -> Contrast:
    """A target: what speaks for a class `one` rather than for `other`, which is a class or "rest".

        contrast(a, b)         score_a − score_b
        contrast(a, "rest")    score_a − Σ_{c≠a} q_c score_c,    q = softmax over the scores of the other classes, held constant

    Of two classes, "rest" is the other one. Either class may be "predicted"; in `explain`, classes may be given by name.
    Relevance is linear in what it starts from, so a contrast costs no more than one class.
    """
    if not all(isinstance(each, (int, np.integer, str)) and not isinstance(each, bool) for each in (one, other)):
        raise TargetError(f'contrast({one!r}, {other!r}): give two classes, or a class and "rest"')
    if one == "rest":
        raise TargetError(f'contrast("rest", {other!r}): "rest" comes second; give contrast(a, "rest") for a class a')
    return Contrast(one, other)


def rest_weights(one: Tensor, scores: Tensor) -> Tensor:
    """The weight of every score in `contrast(a, "rest")`: 1 for class a, −q_c for every other.

        q_c = exp(score_c) / Σ_{k≠a} exp(score_k)

    one (B,), the number of a; scores (B, C), of at least two classes. Returns (B, C); the weights of a sample add up to 0.
    """
    own = torch.zeros_like(scores).scatter(1, one[:, None], 1.0)
    return own - scores.masked_fill(own.bool(), -torch.inf).softmax(-1)


def is_against_rest(target: Target) -> bool:
    """Whether a target, or that of any sample, is explained against the rest."""
    each = cast(Sequence[object], target) if isinstance(target, list) else [target]
    return any(isinstance(one, Contrast) and one.other == "rest" for one in each)


def is_mixed(target: Target) -> bool:
    """Whether a target is a list that holds more than the classes' numbers."""
    return isinstance(target, list) and any(isinstance(each, (str, Contrast)) for each in cast(list[object], target))


def describe(output: object) -> str:
    """What a model returned, in a few words."""
    if isinstance(output, Tensor):
        whole = "" if output.is_floating_point() else f" of type {output.dtype}"
        return f"a tensor of shape {tuple(output.shape)}{whole}"
    if isinstance(output, (tuple, list)):
        items = cast(tuple[object, ...] | list[object], output)
        return f"a {type(items).__name__} of {len(items)} ({', '.join(describe(item) for item in items)})"
    return f"a {type(output).__name__}"


def require_scores(output: object, target: Target, *, inputs: Sequence[Tensor]) -> Tensor:
    """The output of the model, or of a target that is a callable, if it holds scores."""
    if isinstance(output, Tensor) and output.is_floating_point():
        several = any(tensor.dim() > 2 and 1 not in tensor.shape[:2] for tensor in inputs)
        if not callable(target) or output.dim() == 1 or (output.dim() == 0 and not several):
            if bool(output.isnan().any()):
                raise TargetError(
                    "the model returned nan; its numbers must be finite: does it divide by zero, or take the log of one?"
                )
            return output
    if callable(target):
        raise TargetError(f"the target callable returned {describe(output)}; it must return one number per sample")
    raise TargetError(
        f"the model returned {describe(output)}, not scores of shape (samples, classes); "
        "say which score to explain with target=lambda output: ..., one number per sample"
    )


def batch_axes(output: Tensor, target: Target, *, inputs: Sequence[Tensor], time_first: bool) -> list[int | None]:
    """The axes along which the samples of an output may lie, likeliest first; None stands for an unbatched input."""
    has_time = isinstance(target, tuple)
    sequences = max(tensor.dim() for tensor in inputs) > 2
    if output.dim() == 0 or (has_time and output.dim() == 2 and not sequences):
        return [None]
    if has_time and output.dim() == 3:
        likely, other = (1, 0) if time_first else (0, 1)
        is_single = output.shape[likely] == 1 and all(each.dim() > likely and each.shape[likely] == 1 for each in inputs)
        return [likely] if is_single else [likely, other]
    if output.dim() == 1 and not sequences:
        return [0, None] if target is None else [None, 0]
    return [0]


def likeliest_first(axes: Sequence[int | None], output: Tensor) -> list[int | None]:
    """Axes in the order in which to try them: an axis of size 1, or no axis at all, always fits and comes last."""
    return sorted(axes, key=lambda axis: axis is None or output.shape[axis] == 1)


def select(output: Tensor, target: Target, *, batch_axis: int | None, before: Tensor | None = None) -> Selection:
    """The scores that `target` selects from an output whose samples lie along `batch_axis`.

    `before`: the scores whose softmax weighs the rest in `contrast(a, "rest")`, where the output itself is not these.
    """
    classes = output.shape[-1] if output.dim() > (batch_axis is not None) else 1
    per_sample = output.dim() - (batch_axis is not None)  # the number of axes of one sample's output
    samples = 1 if batch_axis is None else output.shape[batch_axis]
    if isinstance(target, tuple):
        return _step_and_class(output, cast(tuple[Index | str, ...], target), batch_axis)
    if per_sample > 1:
        raise TargetError(
            f"the model returned {describe(output)}, more than one score per sample and class; "
            "use target=(time step, class), or a callable that picks one number per sample"
        )
    if target is None:
        if classes != 1 and batch_axis is None:
            raise TargetError(
                f"the model gave {classes} scores for what is taken for one sample; say which to explain with "
                f"target=0 … {classes - 1}. If they belong to {classes} samples, these influence each other in the model; "
                "explain one at a time"
            )
        if classes != 1:
            raise TargetError(f"the model gave {classes} scores per sample; say which to explain with target=0 … {classes - 1}")
        target = 0
    scores = output.reshape(samples, classes)
    if isinstance(target, Contrast) or is_mixed(target):
        each = [target] * samples if isinstance(target, Contrast) else cast(list[object], target)
        weights = _weights(each, scores, scores if before is None else before.reshape(samples, classes))
        return Selection(weights.reshape(1, *output.shape), batch_axis, target)
    if isinstance(target, str):
        if target == "all":
            mask = torch.eye(classes, dtype=output.dtype, device=output.device)[:, None].expand(classes, samples, classes)
            return Selection(mask.reshape(classes, *output.shape), batch_axis, "all", (classes,))
        if target != "predicted":
            raise TargetError(
                f'target {target!r} is not known; use a class index, "predicted", "all", (step, class) or a callable'
            )
        index = scores.argmax(-1)
    else:
        index = _indices(target, samples, classes).to(output.device)
    mask = torch.zeros_like(scores).scatter(1, index[:, None], 1.0).reshape(1, *output.shape)
    one_for_all = type(target) is int or (not isinstance(target, str) and torch.as_tensor(target, device="cpu").dim() == 0)
    return Selection(mask, batch_axis, int(index[0]) if one_for_all or batch_axis is None else index)


def _weights(targets: Sequence[object], scores: Tensor, before: Tensor) -> Tensor:
    """The weight of every score (B, C) in what is explained: 1 for each sample's class, minus those it is contrasted with.

    `before` (B, C): the scores that weigh the rest.
    """
    samples, classes = scores.shape
    if len(targets) != samples:
        raise TargetError(f"target names {len(targets)} classes for {samples} samples; give one for all or one for each")
    predicted = cast(list[int], scores.argmax(-1).tolist())

    def index(given: object, row: int) -> int:
        if given == "predicted":
            return predicted[row]
        if isinstance(given, str):
            raise TargetError(
                f'target names the class {given!r}; here classes are numbers, or "predicted"; explain takes names'
            )
        if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
            raise TargetError(f'target {given!r} is not known; give a class by its number, "predicted", or a contrast of these')
        number = int(cast(int, given))
        _require_index(number, classes, "target", "scores per sample", "targets")
        return number % classes

    weights = [[0.0] * classes for _ in targets]
    against: dict[int, int] = {}  # the samples that are explained against the rest, and their classes
    for row, target in enumerate(targets):
        one = index(target.one if isinstance(target, Contrast) else target, row)
        weights[row][one] += 1
        if isinstance(target, Contrast) and target.other == "rest":
            against[row] = one
        elif isinstance(target, Contrast):
            weights[row][index(target.other, row)] -= 1
    found = torch.tensor(weights, dtype=scores.dtype, device=scores.device)
    if against:
        found[list(against)] = _against_rest(against, before).to(found)
    return found


def _against_rest(one: Mapping[int, int], scores: Tensor) -> Tensor:
    """The weights (N, C) of the samples that are explained against the rest: their numbers, and the class of each.

    A class with the score −inf, which the model rules out, weighs nothing.
    """
    if scores.shape[1] == 1:
        raise TargetError('the model gave 1 score per sample, so there is no rest; contrast(a, "rest") needs at least 2')
    classes, chosen = torch.tensor([*one.values()], device=scores.device)[:, None], scores[list(one)]
    own = chosen.gather(1, classes)[:, 0]
    others = chosen.scatter(1, classes, -torch.inf).amax(1)
    is_wrong = ~(own.isfinite() & others.isfinite())
    if bool(is_wrong.any()):
        n = is_wrong.tolist().index(True)
        row, number = [*one.items()][n]
        raise TargetError(
            f"sample {row}: the score of class {number} is {float(own[n]):g} and the highest of the others is "
            f'{float(others[n]):g}, but contrast(a, "rest") needs both to be finite; let the model return large numbers '
            "instead, such as -1e4 for -inf"
        )
    return rest_weights(classes[:, 0], chosen)


def _indices(target: object, samples: int, classes: int) -> Tensor:
    """A class index for every sample, each within range."""
    if type(target) is int:
        _require_index(target, classes, "target", "scores per sample", "targets")
        return torch.full((), target % classes, device="cpu").expand(samples)
    try:
        given = torch.as_tensor(target, device="cpu")
        if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool or given.dim() > 1:
            raise ValueError
    except (TypeError, ValueError, RuntimeError):
        raise TargetError(
            f"target {target!r} is not known; use a class index or one per sample, "
            '"predicted", "all", (step, class) or a callable'
        ) from None
    if given.dim() == 1 and len(given) != samples:
        raise TargetError(f"target names {len(given)} classes for {samples} samples; give one for all or one for each")
    for index in cast(list[int], given.reshape(-1).tolist()):
        _require_index(index, classes, "target", "scores per sample", "targets")
    return (given % classes).long().expand(samples)


def _require_index(index: int, size: int, what: str, of: str, plural: str) -> None:
    if not -size <= index < size:
        raise TargetError(f"{what} {index} does not exist: the model gave {size} {of}, so {plural} run 0–{size - 1}")


def _step_and_class(output: Tensor, target: tuple[Index | str, ...], batch_axis: int | None) -> Selection:
    """One step and class, or all of either as leading axes, steps before classes."""
    words = ({"all"}, {"all", "predicted"})
    if len(target) != 2 or not all(
        isinstance(each, (int, np.integer)) or (isinstance(each, str) and each in known)
        for each, known in zip(target, words, strict=True)
    ):
        raise TargetError(
            f'target {target!r} is not (time step, class), two whole numbers or "all"; for one class per sample give a list'
        )
    if output.dim() - (batch_axis is not None) != 2:
        raise TargetError(f"target {target!r} names a time step, but the model returned {describe(output)} without one")
    time_axis = 0 if batch_axis is None or batch_axis == 1 else 1
    steps, classes = output.shape[time_axis], output.shape[-1]
    by_step = torch.eye(steps, dtype=output.dtype, device=output.device)
    by_class = torch.eye(classes, dtype=output.dtype, device=output.device)
    if not isinstance(target[0], str):
        _require_index(int(target[0]), steps, "time step", "time steps", "steps")
        by_step = by_step[int(target[0])][None]
    if not isinstance(target[1], str):
        _require_index(int(target[1]), classes, "target", "scores per step", "targets")
        by_class = by_class[int(target[1])][None]
    if target[1] == "predicted":
        chosen = torch.nn.functional.one_hot(output.argmax(-1), classes).to(output.dtype)[None]  # (1, *output)
    else:
        chosen = by_class.view(-1, *(1,) * (output.dim() - 1), classes)
    shape = [1] * (output.dim() + 2)
    shape[0], shape[2 + time_axis] = len(by_step), steps
    mask = (by_step.view(shape) * chosen[None]).expand(len(by_step), len(chosen), *output.shape)
    lead = [len(by_step)] * (target[0] == "all") + [len(chosen)] * (target[1] == "all")
    return Selection(mask.reshape(-1, *output.shape), batch_axis, target, tuple(lead))
