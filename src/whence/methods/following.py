"""A followed run of the model, and the scores that are explained in it: what LRP and contextual decomposition start from."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from types import CellType, FunctionType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from whence.engine.layers import Layers
from whence.engine.marks import Mark, ModelCall, Node, Owner
from whence.engine.refusal import BY_OTHER_INPUTS
from whence.engine.run import ModelRun
from whence.engine.samples import Samples, owners_by_derivative
from whence.engine.starts import Start, path_of, reaches, start_of
from whence.engine.table import TABLE
from whence.equations import Rules
from whence.errors import InputError, NoRuleError, TargetError, WhenceError
from whence.methods.forward import Forward, require_finite
from whence.methods.gradient import DifferentiableRecurrence
from whence.methods.mixing import mixed_samples
from whence.methods.probe import Randomness, repeated, require_whole
from whence.methods.state import State
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

Move = Callable[[int, Tensor], Tensor]  # from an explained tensor and its number to what the model gets in its place


class Ran(NamedTuple):
    """A run of the model: what it returned (or what a callable target made of it), and what the layer `at` gave."""

    run: ModelRun
    output: object
    middle: list[object]


class Picked(NamedTuple):
    """The scores to explain, and where relevance starts for them."""

    ran: Ran
    selection: Selection
    start: Start


class Following:
    """Runs a model as often as it takes to know its samples; every run starts from the same state and random numbers."""

    def __init__(self, forward: Forward, target: Target, rules: Rules, state: State, *, at: str | None = None) -> None:
        self.forward, self.target, self.rules, self.state, self.at = forward, target, rules, state, at
        self.before = Randomness()
        self.runs: list[ModelRun] = []
        self.samples = first_guess(forward)
        self.by_step = False
        # the calls that some values depend on, as far as they must keep samples apart
        self.path: Callable[[Sequence[ModelCall], Sequence[Node]], Sequence[ModelCall]] = path_of
        self._is_first = True

    @property
    def is_many(self) -> bool:
        """Whether several targets go back at once."""
        if callable(self.target):
            return False
        given = cast(tuple[object, ...], self.target) if isinstance(self.target, tuple) else (self.target,)
        return any(isinstance(each, str) and each == "all" for each in given)

    def ran(self, *, move: Move | None = None, former: Sequence[Tensor] | None = None, **settings: Any) -> Ran:
        """Run the model once more; `move` changes an explained tensor, by its number, `former` what no seen call made."""
        if self._is_first and move is None:
            self._is_first = False
            return self._ran(None, settings, None)
        self.state.restore()
        with repeated(self.before):
            return self._ran(move, settings, former)

    def _ran(self, move: Move | None, settings: dict[str, Any], former: Sequence[Tensor] | None) -> Ran:
        forward, layers = self.forward, Layers(self.forward.parts, kept=self.at)
        tensors = forward.inputs.copies()
        run = ModelRun(tensors, forward.parts, layers, TABLE, self.rules, self.samples, **settings)
        self.runs.append(run)
        run.former = former
        run.is_many, run.by_step = self.is_many, self.by_step

        def start(number: int, tensor: Tensor) -> Tensor:
            if move is not None:
                return run.start(number, move(number, tensor))
            if run.ids is not None:  # other inputs were looked at before
                require_finite([tensor])
            return run.start(number, tensor)

        run.accept((forward.args, dict(forward.kwargs), self.state.tensors(), _closed_over(forward.caller)))
        layers.snapshot = run.snapshot
        given = [start(n, each) if each.is_floating_point() else each for n, each in enumerate(tensors)]
        run.ids = forward.ids_of(given, start)
        with layers.watched(), run:
            try:
                output = forward.call(given, run.ids)
            except SystemError as error:  # some functions of PyTorch make this of an error of ours
                raise (error.__cause__ if isinstance(error.__cause__, WhenceError) else error) from None
            except TypeError as error:  # PyTorch takes no tensor on a graph for a plain number
                name, _, rest = str(error).partition("()")
                if "must be Number, not Tensor" not in rest:
                    raise
                raise NoRuleError(
                    f"no rule for torch.{name} with a number that depends on the inputs; {BY_OTHER_INPUTS}"
                ) from None
            found = self.target(output) if callable(self.target) else output
        if run.error is not None:  # the model caught it, and went another way
            raise run.error
        run.stop_at_layer = len(layers.outputs) < 2
        return Ran(run, found, layers.outputs)

    def forget(self) -> None:
        """Break the references between the parts of all runs, so that memory is freed now."""
        for run in self.runs:
            run.forget()
        self.runs.clear()

    def picked(self, accept: Callable[[ModelRun, Start], object], *, ran: Ran | None = None, **settings: Any) -> Picked:
        """The scores that the target picks; raises if they depend on no input, or if samples influence each other.

        `accept` raises if relevance cannot pass from where it starts. `ran` is the first run, if there was one already.
        """
        ran = ran or self.ran(**settings)
        scores, mark = self.scores(ran)
        tried: list[Samples] = [self.samples]
        leaves = [cast(Tensor, leaf).detach() for leaf in ran.run.leaves]
        picks = None if callable(self.target) else self.target
        axes = batch_axes(scores, picks, inputs=leaves, time_first=self.forward.parts.is_time_first)
        wrong = ""  # why the target does not fit a single sample, which counts if several fit nowhere
        for axis in likeliest_first(axes, scores):
            try:
                found = self._along(ran, scores, mark, axis, picks, accept)
            except TargetError as error:
                if axis is not None or len(axes) == 1:
                    raise
                wrong = str(error)
                continue
            if found is not None:
                return found
        for axis in likeliest_first(axes, scores):
            for samples in guesses(self.forward, leaves, 1 if axis is None else scores.shape[axis], ran):
                if any(samples.is_same(each) for each in tried) or (wrong and axis is None):
                    continue
                tried.append(samples)
                self.samples = samples
                again = self.ran(**settings)
                found = self._along(again, *self.scores(again), axis, picks, accept)
                if found is not None:
                    return found
        if wrong:
            raise TargetError(wrong)
        raise mixed_samples(scores, axes, leaves, self.forward, self.target)

    def scores(self, ran: Ran) -> tuple[Tensor, Mark]:
        """The scores that the model returned; raises if they do not depend on the inputs."""
        leaves = [leaf for leaf in ran.run.leaves if leaf is not None]
        scores = require_scores(ran.output, self.target, inputs=leaves)
        mark = ran.run.look(scores)
        if mark is None or not mark.is_live:
            require_whole(self, ran)
            raise TargetError(INDEPENDENT)
        return scores, mark

    def _along(
        self, ran: Ran, scores: Tensor, mark: Mark, axis: int | None, picks: Target, accept: Callable[[ModelRun, Start], object]
    ) -> Picked | None:
        """The scores to explain, if samples lie along this axis of the output."""
        run, plain = ran.run, scores.detach()
        count = 1 if axis is None else scores.shape[axis]

        def selected() -> Selection:
            before = self._before_end(run, scores, mark) if is_against_rest(picks) else None
            return select(plain, picks, batch_axis=axis, before=before)

        is_wrong = False
        try:
            selection = selected()
        except TargetError:  # it counts only if the samples do lie along this axis
            selection, is_wrong = Selection(torch.ones_like(plain)[None], axis, picks), True
        start = start_of(run, scores, mark, selection.mask)
        if run.has_buffers and not reaches(run.calls, start.nodes, run.starts):
            raise TargetError(INDEPENDENT)  # the model wrote over all that depends on the inputs
        accept(run, start)
        if count == 1:
            run.samples = self.samples = Samples(1, [None] * len(run.leaves))
        elif not self._lie_along(run, start, mark, cast(int, axis) - scores.dim(), count):
            return None
        if is_wrong:
            selected()  # raises; the error was not kept, since it holds on to what it came from
        return Picked(ran, selection._replace(target=self.target) if callable(self.target) else selection, start)

    def _lie_along(self, run: ModelRun, start: Start, mark: Mark, owner: Owner, count: int) -> bool:
        """Whether the samples of this run lie along that axis of its scores, in order, and were kept apart."""
        if run.samples.count != count or any(call.is_mixed for call in self.path(run.calls, start.nodes)):
            return False
        if any(each is not None and each.owner is None for each in run.starts):  # an input that all samples share
            return False
        if mark.owner is None:
            raise TargetError(INDEPENDENT)
        return isinstance(mark.owner, int) and mark.owner == owner

    def _before_end(self, run: ModelRun, scores: Tensor, mark: Mark) -> Tensor:
        """The scores of all classes before the function that ends the model, for their probabilities."""
        start = start_of(run, scores, mark, torch.ones_like(scores.detach())[None])
        found = scores_of(scores, start)
        if start.ends and found is scores:
            raise TargetError(
                f"the scores before the {start.ends[0].name} that ends the model are not one tensor like its output, so there "
                'are no probabilities for contrast(a, "rest"); let the model return its scores, or use contrast(a, b)'
            )
        return found.detach()


@contextmanager
def following(forward: Forward, target: Target, rules: Rules, state: State, *, at: str | None = None) -> Generator[Following]:
    """Follow runs of a model; they are forgotten at the end, also after an error."""
    found = Following(forward, target, rules, state, at=at)
    try:
        with torch.enable_grad():
            yield found
    finally:
        found.forget()


def scores_of(output: Tensor, start: Start) -> Tensor:
    """The scores of all classes: the model's output, or what it was before the function that ends the model."""
    found = [origin.tensor for origin in start.origins]
    return found[0] if len(found) == 1 and start.ends and found[0].shape == output.shape else output


def first_guess(forward: Forward) -> Samples:
    """Samples lie along the first axis of every input, or along the second where recurrent layers read time first."""
    known, tensors = forward.inputs.owners, forward.inputs.tensors
    time_first = forward.parts.is_time_first
    dims = [each.dim() + (not each.is_floating_point()) for each in tensors]
    likely = [int(time_first and dim > 2) for dim in dims]
    given = next((rows for rows in known if rows is not None), None)
    count = tensors[0].shape[likely[0]] if given is None else int(given.max())
    starts: list[Owner] = []
    for tensor, dim, axis, rows in zip(tensors, dims, likely, known, strict=True):
        axes = [axis, *(n for n in range(tensor.dim()) if n != axis)]
        along = next((n for n in axes if tensor.shape[n] == count), None)
        starts.append(_of_rows(rows, dim) if rows is not None else None if along is None else along - dim)
    return Samples(count, starts)


def _of_rows(rows: Tensor, dim: int) -> Tensor:
    """The sample numbers of rows, in a form that can be broadcast to a tensor of so many axes."""
    return rows.view(-1, *(1,) * (dim - 1))


def guesses(forward: Forward, leaves: Sequence[Tensor], count: int, ran: Ran) -> Iterator[Samples]:
    """Where that many samples may lie in the explained inputs: along an axis, in blocks of one, in turn, or anywhere."""
    known = forward.owners(ran.run.ids)
    candidates: list[list[Owner]] = []
    for leaf, rows in zip(leaves, known, strict=True):
        if rows is not None:
            candidates.append([_of_rows(rows, leaf.dim())])
            continue
        numbers = torch.arange(1, count + 1, dtype=torch.float64, device=leaf.device)
        own: list[Owner] = [axis - leaf.dim() for axis, size in enumerate(leaf.shape) if size == count]
        for axis, size in enumerate(leaf.shape):
            if size > count and size % count == 0:
                shape = [-1 if n == axis else 1 for n in range(leaf.dim())]
                laid = numbers.repeat_interleave(size // count), numbers.repeat(size // count)
                own.extend(each.view(shape).expand(leaf.shape) for each in laid)
        candidates.append(own)
    for starts in product(*candidates):
        yield Samples(count, starts)
    found = _by_derivative(forward, ran, count, known)
    if found is not None:
        yield Samples(count, found)


def _by_derivative(forward: Forward, ran: Ran, count: int, known: Sequence[Tensor | None]) -> list[Tensor] | None:
    """Samples that lie in the inputs in any order, found by the score that changes with each element."""
    mode = DifferentiableRecurrence(goes_through=True)

    def leaf(number: int, tensor: Tensor) -> Tensor:
        with mode.context():
            mode.leaves.append(tensor.requires_grad_())
            return tensor.clone()

    try:
        output, tensors, _ = forward.run(leaf, mode)
        expected = ran.output
        if not isinstance(output, Tensor) or not isinstance(expected, Tensor) or output.shape != expected.shape:
            return None
        axes = [axis for axis, size in enumerate(output.shape) if size == count]
        found = (owners_by_derivative(output, tensors, axis, known) for axis in axes if output.requires_grad)
        return next((each for each in found if each is not None), None)
    except (RuntimeError, InputError):  # PyTorch's graph does not hold all that models do, such as some writes in place
        return None


def input_axis(forward: Forward, samples: int, state: State) -> int | None:
    """The axis of the first input along which that many samples lie, found by following them; None if there is no such axis."""
    with following(forward, None, Rules(), state) as found:
        ran = found.ran(is_safe=True)
        leaves = [cast(Tensor, leaf).detach() for leaf in ran.run.leaves]
        for guess in guesses(forward, leaves, samples, ran):
            found.samples = guess
            if not any(call.is_mixed for call in found.ran(is_safe=True).run.calls):
                return guess.axis_of(guess.starts[0], leaves[0].shape, leaves[0].device)
    return None


def _closed_over(caller: object) -> list[object]:
    """What a user's function holds: constants, where it calls the model."""
    if not isinstance(caller, FunctionType):
        return []
    cells = [cell.cell_contents for cell in caller.__closure__ or () if cell != CellType()]
    named = [caller.__globals__.get(name) for name in caller.__code__.co_names]
    return [*cells, *(caller.__defaults__ or ()), *(caller.__kwdefaults__ or {}).values(), *named]
