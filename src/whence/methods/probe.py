"""Whether a run was followed as a whole: what no seen call made must not depend on the inputs.

Work that cannot be seen (a scripted function, a C++ operator, NumPy, another thread) looks like a constant. So where something
may have escaped, the model runs once more, on inputs that differ a little.
"""

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from whence.engine.refusal import BY_OTHER_INPUTS
from whence.engine.sight import is_same
from whence.errors import NoRuleError

if TYPE_CHECKING:
    from whence.engine.run import ModelRun
    from whence.methods.following import Following, Ran

MOVES = (1e-2, 0.3, -1e-2)  # how far inputs are moved away from zero, relative to themselves, in the order of trial


class Randomness:
    """The state of the random numbers that a model may draw."""

    def __init__(self) -> None:
        self._torch, self._python = torch.get_rng_state(), random.getstate()
        self._numpy: Any = np.random.get_state()  # noqa: NPY002 - the state that models draw from
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

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


def moved(tensor: Tensor, by: float) -> Tensor:
    """A tensor with every number a little farther from zero: zeros of a mask stay, and so does the whole part of a count."""
    drawn = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    scale = tensor if bool(tensor.any()) else torch.ones_like(tensor)
    return tensor + (by * drawn).to(tensor.device).to(tensor.dtype) * scale


def require_whole(following: "Following", ran: "Ran", mask: Tensor | None = None) -> None:
    """Refuse a run of which something that the scores depend on was not seen.

    A tensor that no seen call made is taken for a constant. So the model runs once more on inputs that differ a little: a
    constant stays as it is. What does not stay must make no difference to the scores that `mask` (K, *shape) picks: a further
    run, in which it is put back to what it was, gives the same.
    """
    run = ran.run
    if not run.is_in_doubt():
        return
    if not run.is_broken and any(_is_whole(following, run, mask, by) for by in MOVES):
        return
    where = "; ".join(run.doubts[:3]) + (f"; and {len(run.doubts) - 3} more" if len(run.doubts) > 3 else "")
    raise NoRuleError(
        "the model computes something that cannot be followed, so its relevance would be wrong: run again on slightly other "
        f"inputs, tensors that no followed call made change with them. Look at: {where}. Write that part with PyTorch's own "
        f"functions, or {BY_OTHER_INPUTS}"
    )


def _is_whole(following: "Following", run: "ModelRun", mask: Tensor | None, by: float) -> bool:
    """Whether tensors that no seen call made are the same for inputs moved by so much, or make no difference there."""
    try:
        found = following.ran(move=lambda _, tensor: moved(tensor, by), is_safe=run.is_safe)
        strange = found.run.foreign
        if len(strange) == len(run.foreign) and all(map(is_same, run.foreign, strange)):
            return True
        if len(strange) != len(run.foreign) or found.run.is_broken:
            return False
        again = following.ran(move=lambda _, tensor: moved(tensor, by), former=run.foreign, is_safe=run.is_safe)
    except Exception:  # such inputs are not valid ones, as where numbers are read as token ids
        return False
    one, other = found.output, again.output
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.shape != other.shape:
        return False
    picked = slice(None) if mask is None or mask.shape[1:] != one.shape else mask.any(0)
    change = (one.detach() - other.detach())[picked].abs().max()
    return bool(change <= 100 * torch.finfo(one.dtype).eps * one.detach()[picked].abs().max())
