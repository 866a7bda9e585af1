"""Whether a record is the whole truth: its steps, run again on other inputs, must give what the model itself gives.

Work that the recorder cannot see (a scripted function, a C++ operator, NumPy, another thread) looks like a constant in the
record. So where something may have escaped, the model is called once more, with inputs that differ a little, and compared.
"""

import random
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from whence.errors import NoRuleError
from whence.interpreter.record.recorder import Recorder
from whence.interpreter.record.step import Trace, Value
from whence.methods.forward import Forward
from whence.methods.state import State
from whence.methods.target import Target
from whence.trees import floats_of

# How far inputs are moved away from zero, relative to themselves, in the order of trial. A model may decide by its numbers
# which way to go: it then differs from its record for a large move, and not for a small one. Low precision shows large moves
# alone.
MOVES = (1e-2, 1e-4, 1e-10, 0.3, -1e-2)
_TRUSTED = WeakIdKeyDictionary()  # by model, the forms of inputs for which its record was compared


class Randomness:
    """The state of the random numbers that a model may draw."""

    def __init__(self) -> None:
        self._torch, self._python = torch.get_rng_state(), random.getstate()
        self._numpy: Any = np.random.get_state()  # noqa: NPY002 - the state that models draw from
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def is_now(self) -> bool:
        """Whether no random number was drawn since."""
        now = Randomness()
        return (
            torch.equal(self._torch, now._torch)
            and self._python == now._python
            and str(self._numpy[2:]) == str(now._numpy[2:])  # the place in the sequence, which moves with every draw
            and np.array_equal(self._numpy[1], now._numpy[1])
            and all(map(torch.equal, self._cuda, now._cuda))
        )

    def restore(self) -> None:
        """Put the state back, so that the same numbers are drawn again."""
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        np.random.set_state(self._numpy)  # noqa: NPY002
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)


@contextmanager
def repeated(before: Randomness) -> Generator[None]:
    """Inside, random numbers are those that followed `before`; afterwards, they go on as if nothing had happened."""
    now = Randomness()
    try:
        before.restore()
        yield
    finally:
        now.restore()


def replayed(trace: Trace, inputs: Sequence[Tensor], wanted: Value) -> Tensor:
    """What the recorded steps give for other inputs."""
    now: dict[Value, Tensor] = dict(zip(trace.leaves, inputs, strict=True))
    for step in trace.steps:
        if any(value in now for value in step.inputs):
            result = step.again(lambda value: now.get(value, value.tensor))
            now.update(zip(step.outputs, floats_of(result), strict=True))
    return now.get(wanted, wanted.tensor)


def moved(tensor: Tensor, by: float) -> Tensor:
    """A tensor with every number a little farther from zero: zeros of a mask stay, and so does the whole part of a count."""
    drawn = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    scale = tensor if bool(tensor.any()) else torch.ones_like(tensor)
    return tensor + (by * drawn).to(tensor.device).to(tensor.dtype) * scale


def require_whole(
    forward: Forward,
    recorder: Recorder,
    scores: Tensor,
    value: Value | None,
    target: Target,
    *,
    state: State,
    before: Randomness,
    mask: Tensor | None = None,
) -> None:
    """Refuse a record that does not compute what the model computes; it is compared once for each model and form of inputs."""
    leaves = recorder.trace.leaves
    if not recorder.is_in_doubt() or not all(leaf.tensor.is_floating_point() for leaf in leaves):
        return
    known = cast(set[object], _TRUSTED.setdefault(forward.model, set[object]()))
    form = hash(
        (
            tuple((tuple(leaf.tensor.shape), leaf.tensor.dtype, _pattern(leaf.tensor == 0)) for leaf in leaves),
            None if mask is None else _pattern(mask.any(0)),
            tuple((step.name, step.layer) for step in recorder.trace.steps),
            tuple(recorder.doubts),
        )
    )
    if form in known:
        return
    given, picked = scores.detach().clone(), slice(None) if mask is None else mask.any(0)
    is_wrong, is_compared = False, False
    for by in MOVES:
        if by < 0 and is_compared:  # towards zero only if the model takes no larger numbers
            continue
        inputs = [moved(leaf.tensor, by) for leaf in leaves]
        state.restore()
        try:
            with repeated(before), torch.no_grad():
                found = _called(forward, inputs, target)
                ours = given if value is None else replayed(recorder.trace, inputs, value)
        except Exception:  # such inputs are not valid ones, as where numbers are read as token ids
            continue
        if found is None or found.shape != given.shape or ours.shape != given.shape:
            continue
        change, error = (found - given)[picked].abs().max(), (ours - found)[picked].abs().max()
        rounding = 100 * torch.finfo(given.dtype).eps * float(given[picked].abs().max().clamp(min=1e-30))
        is_equal = float(error) <= 1e-3 * float(change) + rounding
        if is_equal and float(change) > 10 * rounding:
            known.add(form)
            return
        is_wrong, is_compared = is_wrong or not is_equal, True
    if is_compared and not is_wrong:  # no move changed the score by more than rounding
        known.add(form)
        return
    where = "; ".join(recorder.doubts[:3]) + (f"; and {len(recorder.doubts) - 3} more" if len(recorder.doubts) > 3 else "")
    raise NoRuleError(
        "the model computes something that cannot be followed, so its relevance would be wrong: run again on slightly other "
        f"inputs, the recorded calls give another score than the model. Look at: {where}. Write that part with PyTorch's own "
        "functions, or use a method that needs no rules, such as method=whence.GradientXInput()"
    )


def _pattern(mask: Tensor) -> bytes:
    """A Boolean tensor as something that can be compared."""
    return bytes(cast(list[int], mask.to(torch.uint8).cpu().reshape(-1).tolist()))


def _called(forward: Forward, inputs: Sequence[Tensor], target: Target) -> Tensor | None:
    """The model's own scores for other inputs."""
    output = forward.predict(inputs).output
    found = target(output) if callable(target) else output
    return found.detach() if isinstance(found, Tensor) else None
