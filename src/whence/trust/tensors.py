"""Tensors and the model that reads them; the units are steps or features, taken away by setting them to a baseline."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whence._batches import takes_lengths
from whence._relevance import relevance
from whence.errors import InputError, ModelError
from whence.methods.forward import Forward
from whence.methods.inputs import read
from whence.methods.method import Method
from whence.methods.target import Contrast, Target, describe
from whence.trust.subject import Against, Mask, Numbers, Report, Subject, as_scores, silent

Units = Literal["steps", "features"]
ELEMENTS = 2**22  # of inputs that the model is given at once
ROWS = 512  # samples that the model is given at once, at most
EXPLAINED = 64  # samples that are explained at once
STEPS = 50  # units, from twice of which on several are deleted at once
TRAINED = 32  # samples in a batch of training


@dataclass(frozen=True, eq=False, kw_only=True)
class Tensors(Subject):
    """Samples in a tensor (B, T, F) of numbers, or (B, T) of token ids, with the samples in its first axis.

    `sizes`: the number of steps of each sample in a padded batch. `is_single`: the model gives one score per sample, that of
    the second of two classes, or a number. Numbers z are measured as centre + scale · z.
    """

    model: nn.Module
    inputs: Tensor
    units: Units
    sizes: NDArray[np.int64] | None
    baseline: Tensor
    call: Callable[[Any, Any], object] | None
    batch_axis: int  # where the model wants the samples
    is_single: bool
    centre: tuple[float, ...] = ()  # of each output; none: 0
    scale: tuple[float, ...] = ()  # of each output; none: 1

    @property
    def module(self) -> nn.Module:
        """The model."""
        return self.model

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of steps or features of each sample."""
        if self.units == "steps" and self.sizes is not None:
            return self.sizes
        return np.full(len(self.inputs), self.inputs.shape[1 if self.units == "steps" else -1], dtype=np.int64)

    def scores(self, rows: Sequence[int], gone: Sequence[Mask], *, report: Report = silent) -> Numbers:
        """The model's outputs (N, C) for samples without some of their units."""
        found: list[Numbers] = []
        size = max(1, min(ROWS, ELEMENTS // max(1, self.inputs[0].numel())))
        places = sorted(range(len(rows)), key=lambda k: int(self._size(rows[k])))
        for part in _runs(places, [self._size(rows[k]) for k in places], size):
            own = [rows[k] for k in part]
            found.append(self._outputs(own, np.stack([gone[k] for k in part])))
            report(len(part))
        flat = np.concatenate(found) if found else np.empty((0, 1))
        result = np.empty_like(flat)
        result[places] = flat
        return result

    def _size(self, row: int) -> int:
        """The number of steps of a sample."""
        return self.inputs.shape[1] if self.sizes is None else int(self.sizes[row])

    def _outputs(self, rows: Sequence[int], gone: Mask) -> Numbers:
        """The outputs for samples of one size, without some units (N, U)."""
        x, mask = self._given(rows), torch.from_numpy(gone).to(self.inputs.device)
        if x.is_floating_point():
            axis = 1 if self.units == "steps" else x.dim() - 1
            shape = [len(x), *(x.shape[n] if n == axis else 1 for n in range(1, x.dim()))]
            x, mask = torch.where(mask.view(shape), self._baseline(rows), x), None
        forward = Forward(self.model, read(self._laid(x)), kwargs=self._more(rows), caller=self.call)
        if mask is not None:
            forward = replace(forward, deleted=self._laid(mask))
        return self._usable(forward.predict().output, len(rows))

    def _given(self, rows: Sequence[int]) -> Tensor:
        size = self._size(rows[0])
        chosen = self.inputs[list(rows)]
        return chosen if chosen.dim() < 2 or self.sizes is None else chosen[:, :size]

    def _baseline(self, rows: Sequence[int]) -> Tensor:
        """What units of these samples are set to."""
        chosen = self.baseline if len(self.baseline) == 1 else self.baseline[list(rows)]
        return chosen if self.sizes is None else chosen[:, : self._size(rows[0])]

    def _laid(self, x: Tensor) -> Tensor:
        """The samples in the axis where the model wants them."""
        return x.transpose(0, self.batch_axis)

    def _more(self, rows: Sequence[int]) -> dict[str, object]:
        if self.sizes is None or self.call is not None:
            return {}
        return {"lengths": torch.from_numpy(self.sizes[list(rows)])} if takes_lengths(self.model) else {}

    def _usable(self, output: object, count: int) -> Numbers:
        if isinstance(output, Tensor) and output.dim() == 1 and len(output) == count:
            output = output[:, None]
        if not isinstance(output, Tensor) or output.dim() != 2 or len(output) != count:
            raise ModelError(
                f"the model gave {describe(output)} for {count} samples; evaluation needs one score per sample, or one "
                "for each class: say how to get them with call=lambda model, x: model(x)[...]"
            )
        if not self.has_classes:
            return self._in_unit(output.detach().double().cpu().numpy())
        return as_scores(output, are_probabilities=self.are_probabilities)

    def _in_unit(self, numbers: Numbers) -> Numbers:
        """Outputs (N, C) in their unit."""
        if not self.scale:
            return numbers
        if numbers.shape[1] != len(self.scale):
            raise ModelError(f"the module gave {numbers.shape[1]} outputs; {self.name} names {len(self.scale)}")
        return np.array(self.centre) + np.array(self.scale) * numbers

    def relevance(self, method: Method, *, against: Against, report: Report = silent) -> list[Numbers]:
        """The relevance of every unit of every sample."""
        if self.units == "features" and self.inputs.dim() > 2 and method.shares_runs:
            raise InputError("it judges whole steps, whose features share its relevance evenly: it says nothing about features")
        found: list[Numbers] = [np.empty(0)] * len(self)
        order = sorted(range(len(self)), key=self._size)
        for part in _runs(order, [self._size(n) for n in order], EXPLAINED):
            for n, each in zip(part, self._by_unit(part, method, against), strict=True):
                found[n] = each
            report(len(part))
        return found

    def _by_unit(self, rows: Sequence[int], method: Method, against: Against) -> Iterator[Numbers]:
        result = relevance(
            self.model,
            self._laid(self._given(rows)),
            target=self._target(rows, against),
            method=method,
            kwargs=self._more(rows),
            call=self.call,
        )
        amounts = self._laid(result.relevance).detach().double().cpu().numpy()
        signs = np.where(self.of[list(rows)] == 0, -1, 1) if self.is_single and self.has_classes and method.is_signed else None
        for k, each in enumerate(amounts):
            other = tuple(axis for axis in range(each.ndim) if axis != (0 if self.units == "steps" else each.ndim - 1))
            yield each.sum(other) * (1 if signs is None else signs[k])

    def _target(self, rows: Sequence[int], against: Against) -> Target:
        """The target of a call: one score per sample needs none; its sign says which of two classes it speaks for."""
        if self.is_single:
            return (lambda output: output.reshape(-1)) if self._is_column else None
        classes = [int(self.of[n]) for n in rows]
        return [Contrast(each, "rest") for each in classes] if against == "rest" else classes

    @cached_property
    def _is_column(self) -> bool:
        x = self._given([0])
        output = Forward(self.model, read(self._laid(x)), kwargs=self._more([0]), caller=self.call).predict().output
        return isinstance(output, Tensor) and output.dim() == 2

    def outputs(self) -> Iterator[tuple[Tensor, list[int]]]:
        """The model's scores with their graph, and the numbers of the samples."""
        order = sorted(range(len(self)), key=self._size)
        for part in _runs(order, [self._size(n) for n in order], TRAINED):
            x = self._laid(self._given(part))
            x = x.clone().requires_grad_() if x.is_floating_point() else x
            output = self.model(x, **self._more(part)) if self.call is None else self.call(self.model, x)
            if not isinstance(output, Tensor):
                raise ModelError(f"the model gave {describe(output)}, not scores")
            yield output.reshape(len(part), -1), part

    @property
    def at_once(self) -> Callable[[int], int]:
        """A fiftieth of a long series, so that deletions still matter."""
        return lambda length: max(1, length // STEPS) if length > 2 * STEPS else 1

    def with_module(self, module: nn.Module) -> "Tensors":
        """The same samples, read by another model."""
        return replace(self, model=module)

    def parts(self, rows: Sequence[int]) -> dict[str, object]:
        """The samples of these numbers."""
        chosen = list(rows)
        baseline = self.baseline if len(self.baseline) == 1 else self.baseline[chosen]
        return {
            "inputs": self.inputs[chosen],
            "sizes": None if self.sizes is None else self.sizes[chosen],
            "baseline": baseline,
        }

    def content(self, row: int) -> object:
        """The numbers of the sample."""
        return self.inputs[row].detach().cpu().double().numpy().tobytes()

    def unit_names(self, row: int) -> list[str]:
        """The numbers of the steps or features."""
        return [str(n) for n in range(self.lengths[row])]


def _runs(places: Sequence[int], sizes: Sequence[int], most: int) -> Iterator[list[int]]:
    """Runs of neighbours of one size, of at most `most`."""
    part: list[int] = []
    for k, place in enumerate(places):
        if part and (len(part) == most or sizes[k] != sizes[k - 1]):
            yield part
            part = []
        part.append(place)
    if part:
        yield part
