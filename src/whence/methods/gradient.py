"""The derivative of a score with respect to the inputs, also through cuDNN's recurrent layers in evaluation mode."""

import math
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from whence.choice import Choice
from whence.engine.layers import Layers
from whence.engine.marks import Function, Kwargs, cut_by
from whence.engine.refusal import BY_OTHER_INPUTS, first_line
from whence.engine.samples import owners_by_derivative
from whence.engine.table import TABLE
from whence.errors import InputError, TargetError, WhenceError
from whence.methods.forward import Followed, Forward, require_finite
from whence.methods.method import Method, Question
from whence.methods.mixing import mixed_samples
from whence.methods.predicting import predicting
from whence.methods.probe import Randomness, moved, repeated
from whence.methods.target import (
    INDEPENDENT,
    Selection,
    Target,
    batch_axes,
    is_against_rest,
    likeliest_first,
    require_scores,
    select,
)
from whence.recurrent.cells import SEQUENCE_FUNCTIONS
from whence.result import Result
from whence.trees import tensors_of

SWITCH: Function = torch._C._set_grad_enabled  # a call of it passes through a mode like any other


class DifferentiableRecurrence(Followed):
    """Runs cuDNN's recurrent layers in training mode without dropout: the result is the same, and has a derivative.

    A derivative stops at x.detach(), x.data and under torch.no_grad(), as PyTorch's does; `choices` tells it. With
    `goes_through`, it goes on there: the score depends on these parts, too.
    """

    def __init__(self, direction: int | None = None, *, layers: Layers | None = None, goes_through: bool = False) -> None:
        super().__init__()
        self.goes_through, self._layers = goes_through, layers
        self._cuts = Counter[Choice]()
        self.leaves: list[Tensor] = []  # the explained tensors, as they are met
        self.direction = direction  # if given, a bidirectional layer's other direction reads its input as a constant

    @contextmanager
    def context(self) -> Generator[None]:
        """A model may look words up under no_grad or inference_mode; their vectors are still explained."""
        with torch.inference_mode(False), torch.enable_grad():
            yield

    def depends(self, table: Tensor) -> bool:
        """Whether the graph of a table leads to an explained tensor."""
        waiting, seen = [table.grad_fn], set[object]()
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if any(getattr(node, "variable", None) is leaf for leaf in self.leaves):
                return True
            waiting += [following for following, _ in node.next_functions]
        return False

    def made(self, func: Function, args: tuple[Any, ...], kwargs: Kwargs) -> object:
        """Make a call; those of recurrent layers are changed as described above."""
        cut = "" if func is SWITCH else cut_by(TABLE.name_of(func))
        if cut == "function":
            return self._made(func, args, kwargs)
        if cut and self.goes_through:
            with self.context():
                return args[0].view(args[0].shape) if cut == "detach" else self._made(func, args, kwargs)
        if cut:
            self._note(cut, args)
        return self._made(func, args, kwargs)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Where the derivative stops although the score depends on what lies behind."""
        return tuple(choice._replace(times=times) for choice, times in self._cuts.items())

    def _note(self, cut: str, args: tuple[Any, ...]) -> None:
        """Note where a derivative stops, if the tensors there depend on the explained ones."""
        layer = "" if self._layers is None else self._layers.running[-1]
        choice = Choice(layer, cut, "no gate", "the derivative stops there, though the score depends on it; LRP goes through")
        known = [each for each in tensors_of(args) if each.requires_grad]
        if choice in self._cuts or any(map(self.depends, known)):
            self._cuts[choice] += 1

    def _made(self, func: Function, args: tuple[Any, ...], kwargs: Kwargs) -> object:
        if getattr(func, "__name__", "") not in SEQUENCE_FUNCTIONS:
            return func(*args, **kwargs)
        is_packed = isinstance(args[3], (list, tuple))  # the batch sizes come first, so the weights come one place later
        dropout = 6 if is_packed else 5
        if args[0].is_cuda:
            args = (*args[:dropout], 0.0, True, *args[dropout + 2 :])
        layers, is_bidirectional = args[dropout - 1], args[dropout + 2]
        if self.direction is None or not is_bidirectional:
            return func(*args)
        if layers > 1:
            raise InputError("encoders=True needs a single bidirectional layer here; LRP can tell the first of several apart")
        live, fixed = func(*args), func(args[0].detach(), *args[1:])
        return tuple(
            torch.cat((one.chunk(2, axis)[0], other.chunk(2, axis)[1]), axis)
            for one, other, axis in zip(*((live, fixed) if self.direction == 0 else (fixed, live)), (-1, 0, 0), strict=False)
        )


class Gradients(NamedTuple):
    """The derivatives (K, *shape) of the scores with respect to every explained tensor, and their forward pass."""

    derivatives: list[Tensor]
    inputs: list[Tensor]
    scores: Tensor  # (K, B)
    selection: Selection
    output: Tensor | None  # what the model returned, unless a callable target made something else of it
    choices: tuple[Choice, ...]  # where the derivative stops

    def result(self, relevance: Sequence[Tensor], forward: Forward, method: Method) -> Result:
        """The result of a method that computed this relevance (K, *shape) from the derivatives."""
        chosen = self.selection
        wrapped = forward.inputs.wrapped([chosen.led(each) for each in relevance], len(chosen.lead))
        return Result(wrapped, chosen.shaped(self.scores), chosen.target, method, output=self.output, choices=self.choices)


def gradients(forward: Forward, question: Question) -> Gradients:
    """The derivative of the explained scores with respect to every explained tensor."""
    layers = Layers(forward.parts)
    mode = DifferentiableRecurrence(question.direction, layers=layers)
    try:
        return _gradients(forward, question, layers, mode)
    except NoDerivativeError as error:
        if mode.choices or _depends(forward, question.target, mode.leaves):
            raise cut_off(mode.choices) from None
        raise TargetError(str(error)) from None


def _gradients(forward: Forward, question: Question, layers: Layers, mode: DifferentiableRecurrence) -> Gradients:
    target = question.target

    def leaf(number: int, tensor: Tensor) -> Tensor:
        with mode.context():
            mode.leaves.append(tensor.requires_grad_())
            return tensor.clone()  # a model may write into its input

    with predicting(forward.parts), torch.enable_grad():
        with layers.watched():
            output, tensors, owners = forward.run(leaf, mode)
        require_finite(tensors)
        if callable(target):
            with DifferentiableRecurrence(question.direction):
                output = target(output)
        scores = require_scores(output, target, inputs=tensors)
        picks = None if callable(target) else target
        axes = batch_axes(scores, picks, inputs=tensors, time_first=forward.parts.is_time_first)
        axis = _batch_axis(scores, axes, tensors, owners)
        selection = select(scores, picks, batch_axis=axis, before=logarithms(scores) if is_against_rest(picks) else None)
        rows = [derivative((mask * scores).sum(), tensors) for mask in selection.mask]
        found = [torch.stack(each) for each in zip(*rows, strict=True)]
        require_finite_derivative(found)
        signs = _signs((len(rows),), scores)
        chosen = cast(Tensor, torch.tensordot(signs, selection.mask, 1))
        plain = [cast(Tensor, torch.tensordot(signs.to(each), each, 1)) for each in found]
        is_clear = _are_separate(scores, axis, chosen, plain, tensors, owners)
        if not is_clear and not _are_found(scores, axis, chosen, tensors, owners):
            raise mixed_samples(scores, axes, tensors, forward, target)
    explained = selection._replace(target=target) if callable(target) else selection
    whole = None if callable(target) else scores.detach()
    return Gradients(found, tensors, selection.scores(scores).detach(), explained, whole, mode.choices)


def logarithms(output: Tensor) -> Tensor:
    """Numbers whose softmax gives the probabilities of the classes: the output, or its logarithms if it holds probabilities."""
    output = output.detach()
    if output.dim() and bool((output >= 0).all() and ((output.sum(-1) - 1).abs() < 1e-3).all()):
        return output.clamp(min=torch.finfo(output.dtype).tiny).log()
    return output


class NoDerivativeError(TargetError):
    """A score has no derivative with respect to any input: it does not depend on them, or PyTorch's graph is cut off."""


def cut_off(cuts: Sequence[Choice]) -> TargetError:
    """The error for a score that depends on the inputs, but has no derivative."""
    if cuts:
        where = f"in {cuts[0].layer!r}" if cuts[0].layer else "in the model itself"
        return TargetError(
            f"the derivative of the score stops at {cuts[0].operation} ({where}), so it is 0 for every input; use a method "
            "that needs none, such as method=whence.LRP() or method=whence.Occlusion()"
        )
    return TargetError(f"the score depends on the inputs, but PyTorch has no derivative of it; {BY_OTHER_INPUTS}")


def _depends(forward: Forward, target: Target, tensors: Sequence[Tensor]) -> bool:
    """Whether the model gives something else for inputs that differ a little."""
    before, found = Randomness(), list[object]()
    for by in (0.0, 0.3):
        with repeated(before):
            output = forward.predict([moved(each.detach(), by) for each in tensors]).output
            found.append(target(output) if callable(target) else output)
    one, other = found
    return isinstance(one, Tensor) and isinstance(other, Tensor) and not torch.equal(one, other)


def derivative(total: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The derivative of a number with respect to every input; raises if there is none."""
    if total.requires_grad:
        try:
            found = cast(Sequence[Tensor | None], torch.autograd.grad(total, tensors, retain_graph=True, allow_unused=True))
        except RuntimeError as error:
            raise InputError(
                f"PyTorch cannot derive the score: {first_line(error)}; if the model writes into a tensor in place, use a copy "
                "there, or method=whence.LRP()"
            ) from error
        except WhenceError:
            raise
        except Exception as error:  # of the user's own code
            raise InputError(
                f"a derivative runs the model's own code, such as backward hooks, and that failed: {type(error).__name__}: "
                f"{first_line(error)}; remove the hooks, or use method=whence.LRP() or method=whence.Occlusion()"
            ) from error
        if any(each is not None for each in found):
            return [torch.zeros_like(x) if each is None else each for x, each in zip(tensors, found, strict=True)]
    raise NoDerivativeError(INDEPENDENT)


def require_finite_derivative(found: Sequence[Tensor]) -> None:
    """Refuse derivatives that are not finite."""
    if not all(math.isfinite(each.sum().item()) or bool(each.isfinite().all()) for each in found):
        raise InputError("the score's derivative is not finite: the model divides by zero, or its numbers grow too large")


def _batch_axis(
    scores: Tensor, axes: Sequence[int | None], tensors: Sequence[Tensor], owners: Sequence[Tensor | None]
) -> int | None:
    """The axis of an output along which its samples lie; if there are several candidates, they are tried."""
    if len(axes) > 1:
        chosen = _signs(scores.shape, scores)
        plain = derivative((chosen * scores).sum(), tensors)
        require_finite_derivative(plain)
        for axis in likeliest_first(axes, scores):
            if _are_separate(scores, axis, chosen, plain, tensors, owners) or _are_found(scores, axis, chosen, tensors, owners):
                return axis
    return axes[0]


def _are_separate(
    scores: Tensor,
    axis: int | None,
    chosen: Tensor,
    plain: Sequence[Tensor],
    tensors: Sequence[Tensor],
    owners: Sequence[Tensor | None],
) -> bool:
    """Whether every sample's score depends only on the same sample of each input; this costs one more derivative.

    `plain` is the derivative of Σ_b f_b, with f_b the sum of `chosen` · `scores` over a sample. Where samples are separate, the
    derivative of Σ_b w_b f_b is w_b times as large in sample b, exactly so for powers of two. A dependence of a sample with a
    large w on the input of one with a small w breaks this.
    """
    if axis is None or scores.shape[axis] == 1:
        return True
    weights = _weights(scores.shape[axis], scores)
    # the opposite dependence, of a small w on the input of a large one, is visible too, except in float16 and bfloat16
    for each in (weights, weights.max() * weights.min() / weights) if _is_coarse(scores) else (weights,):
        weighted = derivative((_along(each, axis, scores) * chosen * scores).sum(), tensors)
        if not all(_is_scaled(*parts, each) for parts in zip(plain, weighted, owners, strict=True)):
            return False
    return True


def _are_found(
    scores: Tensor, axis: int | None, chosen: Tensor, tensors: Sequence[Tensor], owners: Sequence[Tensor | None]
) -> bool:
    """Whether every element of the inputs changes one sample's score at most, also where samples have any number of rows."""
    if axis is None or scores.shape[axis] > MOST or _is_coarse(scores):
        return False
    return owners_by_derivative(chosen * scores, tensors, axis, owners) is not None


MOST = 256  # samples whose derivatives are taken one by one


def _is_coarse(numbers: Tensor) -> bool:
    return torch.finfo(numbers.dtype).eps > 1e-4  # float16 and bfloat16


def _signs(shape: Sequence[int], like: Tensor) -> Tensor:
    """Random signs, +1 or −1, so that scores which sum to a constant do not cancel; the same on every call."""
    drawn = torch.randint(2, tuple(shape), generator=torch.Generator().manual_seed(0), device="cpu")
    return (1 - 2 * drawn).to(like)


def _weights(count: int, scores: Tensor) -> Tensor:
    """A power of two for every sample, the same on every call. The first two are far apart.

    Powers repeat only when there are more samples than powers; float16 has the fewest.
    """
    span = 7 if scores.dtype == torch.float16 else 25
    generator = torch.Generator().manual_seed(0)
    rounds = [torch.randperm(span - 2, generator=generator, device="cpu") + 1 for _ in range(-(-count // span))]
    ends = torch.tensor([0, span - 1], device="cpu")
    exponents = torch.cat([part for each in rounds for part in (ends, each)])[:count]
    return torch.pow(2.0, (exponents - (span - 1 if span == 7 else span // 2)).double()).to(scores.device)


def _along(weights: Tensor, axis: int, like: Tensor) -> Tensor:
    return weights.view([-1 if each == axis else 1 for each in range(like.dim())]).to(like)


def _is_scaled(plain: Tensor, weighted: Tensor, owner: Tensor | None, weights: Tensor) -> bool:
    """Whether a derivative (*shape) is scaled by the weights along some axis, or by those of the samples that own its rows."""
    if owner is not None:
        factors = [_along(weights[owner.long() - 1], 0, plain)]
    else:
        factors = [_along(weights, axis, plain) for axis in range(plain.dim()) if plain.shape[axis] == len(weights)]
    numbers = torch.finfo(plain.dtype)
    rounding = (16 if _is_coarse(plain) else 1e3) * numbers.eps * plain.abs().max()

    def fits(factor: Tensor) -> bool:
        smallest = 8 * numbers.smallest_normal * numbers.eps / factor  # what underflow can lose
        return bool(((weighted / factor - plain).abs() <= rounding + smallest).all())

    return any(map(fits, factors)) or not weighted.any()
