"""nn.LSTM, nn.GRU, nn.RNN and their cells as one function each.

Layers and directions are unrolled here, time in `recurrent`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from whence.engine.marks import Args, Kwargs, Mark, ModelCall, Node, Owner
from whence.engine.neurons import DIVIDES, Neuron, alias
from whence.engine.resting import KIND
from whence.engine.rule import NoRule, Refused, Rule
from whence.engine.run import ModelRun
from whence.errors import InputError
from whence.recurrent.cell import Cell
from whence.recurrent.cells import CELLS
from whence.recurrent.dispatch import Chosen, run_layer
from whence.recurrent.sequences import Packing
from whence.recurrent.weights import Weights, by_layer


@dataclass(frozen=True, eq=False)
class RecurrentCall:
    """A call of a recurrent layer or cell. `to_steps` converts its input to (T, B, E), `from_steps` converts back."""

    data: Tensor
    states: tuple[Tensor, ...]  # (layers · directions, B, ·) each; without the first axis for a single cell
    layers: list[list[Weights]]
    lengths: Tensor | None
    to_steps: Callable[[Tensor], Tensor]
    from_steps: Callable[[Tensor], Tensor]
    is_cell: bool = False
    batch_axis: int | None = -2  # where samples lie in the input, counted from the right; None if it is packed

    @property
    def directions(self) -> int:
        """1, or 2 for a bidirectional layer."""
        return len(self.layers[0])

    def stacked(self, states: Sequence[Tensor]) -> Sequence[Tensor]:
        """The states (layers · directions, B, ·), also of a cell."""
        return [state[None] for state in states] if self.is_cell else states

    def of_layer(self, k: int, states: Sequence[Tensor], *, axis: int = 0) -> Sequence[Tensor]:
        """One layer's part of states (layers · directions, B, ·), or of what arrives at them for several targets."""
        if len(self.layers) == 1:
            return states
        return [state.narrow(axis, k * self.directions, self.directions) for state in states]

    def joined(self, states: Sequence[Sequence[Tensor]], *, axis: int = 0) -> Sequence[Tensor]:
        """The states of all layers, given by layer."""
        return states[0] if len(states) == 1 else [torch.cat(each, axis) for each in zip(*states, strict=True)]

    def boundaries(self, carried: Sequence[Tensor], direction: int) -> Tensor:
        """Sum the relevance (K, T + 1, B, ·) that a direction's states carry to (K, B, T + 1), in the order of the input."""
        total = torch.stack([each.sum(-1) for each in carried]).sum(0).transpose(1, 2)
        steps = total.shape[-1] - 1
        ends = torch.full((total.shape[1],), steps, device=total.device) if self.lengths is None else self.lengths
        places = torch.arange(steps + 1, device=total.device).expand(total.shape[1], -1)
        read = (ends[:, None] - places).clamp(min=0) if direction else places
        return total.gather(-1, read.expand_as(total)) * (places <= ends[:, None])


def read_sequence(cell: Cell, *args: Any) -> RecurrentCall:
    """torch.lstm, torch.gru, torch.rnn_tanh or torch.rnn_relu, with a padded or a packed input."""
    is_packed = isinstance(args[3], (list, tuple))  # the batch sizes come first, so the weights come one place later
    data, batch_sizes, rest = (args[0], args[1], args[2:]) if is_packed else (args[0], None, args[1:])
    states, flat, has_biases, count, dropout, train, bidirectional = rest[:7]
    if train and dropout > 0:
        raise Refused("its dropout is active; an explanation needs a prediction that stays the same")
    layers = by_layer(cell.weights, flat, has_biases=has_biases, directions=1 + bidirectional, layers=count)
    if batch_sizes is not None:
        packing = Packing.of(batch_sizes, data.device)
        return RecurrentCall(data, several(states), layers, packing.lengths, packing.unpack, packing.pack, batch_axis=None)
    batch_first = rest[7]

    def swap(x: Tensor) -> Tensor:
        return x.transpose(-2, -3) if batch_first else x

    return RecurrentCall(data, several(states), layers, None, swap, swap, batch_axis=-3 if batch_first else -2)


def read_cell(
    cell: Cell,
    input: Tensor,
    state: Tensor | Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> RecurrentCall:
    """torch.lstm_cell, torch.gru_cell, torch.rnn_tanh_cell or torch.rnn_relu_cell: one step of one layer."""
    biases = [] if b_ih is None or b_hh is None else [b_ih, b_hh]
    weights = cell.weights(w_ih, w_hh, *biases, has_biases=bool(biases))
    states = several(state)
    return RecurrentCall(input, states, [[weights]], None, lambda x: x.unsqueeze(-3), lambda x: x.squeeze(-3), is_cell=True)


def several(state: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The states of a call, also where there is one alone."""
    return (state,) if isinstance(state, Tensor) else tuple(state)


class FollowedLayers:
    """The layers of one call, run on the best path for each, with what the way back needs."""

    def __init__(
        self,
        run: ModelRun,
        call: ModelCall,
        cell: Cell,
        read: RecurrentCall,
        live: Sequence[bool],
        *,
        by_step: bool,
        rest: Tensor | None = None,
    ) -> None:
        self.run, self.call, self.read, self.live, self.by_step = run, call, read, live, by_step
        self.rest = None if rest is None else read.to_steps(rest)  # of the input
        x = read.to_steps(read.data)
        initial = read.stacked(read.states)
        self.layers: list[Chosen] = []
        for k, directions in enumerate(read.layers):
            states = read.of_layer(k, initial)
            self.layers.append(run_layer(cell, x, directions, states, read.lengths, product=run.rules.product))
            x = self.layers[-1].outputs()
        finals = read.joined([layer.final() for layer in self.layers])
        outputs = [final[0] for final in finals] if read.is_cell else [read.from_steps(x), *finals]
        self.outputs = [out.clone() if run.is_safe else alias(out) for out in outputs]
        self.shapes = [out.shape for out in self.outputs]

    def back(self, relevance: Sequence[Tensor | None], x: Tensor, states: Sequence[Tensor]) -> list[Tensor]:
        """From the relevance (K, *shape) of the outputs to that of the input and of the initial states."""
        run, read = self.run, self.read
        targets = next(len(r) for r in relevance if r is not None)
        r_x = None if read.is_cell or relevance[0] is None else read.to_steps(relevance[0])
        ends = [*zip(relevance, self.shapes, strict=True)][0 if read.is_cell else 1 :]
        filled = [x.new_zeros(targets, *shape) if r is None else r for r, shape in ends]
        r_states = [each.unsqueeze(1) for each in filled] if read.is_cell else filled
        initial, r_initial = read.stacked(states), list[Sequence[Tensor]]()
        columns = run.samples.columns(self.call.outputs[-1].owner, self.shapes[-1], x.device)

        def enter(kind: str, amount: Tensor, part: str = "") -> None:
            run.enter(self.call, kind, run.samples.of_columns(amount, columns), part=part)

        for k in reversed(range(len(self.layers))):
            layer, is_first = self.layers[k], k == 0
            own = read.of_layer(k, r_states, axis=1)
            only = run.direction if is_first and read.directions == 2 else None
            layer.renew(read.to_steps(x) if is_first else None, read.of_layer(k, initial))
            keep = run.memory is not None and not read.is_cell
            swept = layer.relevance(r_x, own, run.rules, direction=only, by_step=is_first and self.by_step, keep=keep)
            if is_first and self.rest is not None:
                beyond = layer.beyond_rest(r_x, own, run.rules, self.rest, direction=only)
                enter(KIND, (swept.x - beyond).sum((1, 3)))
                swept = swept._replace(x=beyond)
            for d in range(read.directions):
                part = "" if read.is_cell else f"l{k}_reverse" if d else f"l{k}"
                if run.rules.delta != 1:
                    enter("bias", swept.bias[d], part)
                if run.rules.returned != 1 or run.rules.product == "prop":
                    enter("stabiliser", swept.stabiliser[d], part)
                if swept.carried:
                    self._remember(read.boundaries(swept.carried[d], d), columns, part)
            r_x = swept.x
            r_initial = [swept.states, *r_initial]
        assert r_x is not None
        if run.rules.epsilon == 0 and not all(bool(each.isfinite().all()) for each in (r_x, *r_initial[0])):
            raise InputError(DIVIDES.format(self.call.layer or "the model"))
        first = read.joined(r_initial, axis=1)
        for place, (is_live, r) in enumerate(zip(self.live, (r_x, *first), strict=True)):
            if not is_live:
                enter("initial_state" if place else "constant", r.sum((1, 3)))
        r_data = read.from_steps(r_x)
        if self.by_step:  # a sum over the features is spread along them again
            r_data = (r_data / x.shape[-1]).expand(targets, *x.shape)
        return [r_data, *(r[:, 0] if read.is_cell else r for r in first)]

    def _remember(self, amount: Tensor, columns: Tensor | None, part: str) -> None:
        """Keep the relevance (K, n, T + 1) that states carry."""
        assert self.run.memory is not None
        if columns is not None:
            amount = amount.new_zeros(len(amount), self.run.samples.count, amount.shape[-1]).index_copy(1, columns - 1, amount)
        key = ".".join(filter(None, (self.call.layer, part)))
        calls = sum(known.partition("#")[0] == key for known in self.run.memory)
        self.run.memory[f"{key}#{calls + 1}" if calls else key] = amount  # the last of several calls comes first


class Recurred(Neuron):
    """A recurrent call on the graph, for one target."""

    @staticmethod
    def forward(ctx: Any, followed: FollowedLayers, x: Tensor, *states: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.followed = followed
        followed.run.keep(ctx, x, *states)
        return tuple(followed.outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        followed: FollowedLayers = ctx.followed
        x, *states = followed.run.kept(ctx)
        given = [None if r is None else r[None] for r in grads]
        if all(r is None for r in given):
            return None, *(None for _ in (x, *states))
        found = followed.back(given, x, states)
        return None, *(r[0] if is_live else None for r, is_live in zip(found, followed.live, strict=True))


class Recurrence(Rule):
    """A whole recurrent call under the paper's rules."""

    words = "recurrent layer"

    def __init__(self, cell: Cell, read: Callable[..., RecurrentCall]) -> None:
        self.cell, self.read = cell, read

    def follow(self, run: ModelRun, call: ModelCall, args: Args, kwargs: Kwargs) -> Any:
        read = self.read(self.cell, *args, **kwargs)
        given = (read.data, *read.states)
        marks = [run.look(each) for each in given]
        live = [mark is not None and mark.is_live for mark in marks]
        changed = [
            run.changed(each, cast(Mark, mark)) if is_live else (run.constant(each), None)
            for each, mark, is_live in zip(given, marks, live, strict=True)
        ]
        tensors, rest = [each for each, _ in changed], changed[0][1]
        call.sources = tuple(dict.fromkeys(cast(Mark, mark).node for mark, is_live in zip(marks, live, strict=True) if is_live))
        if any(node.is_live and node not in call.sources for node in call.inputs):
            raise NoRule("its weights depend on the input")
        plain = replace(read, data=tensors[0].detach(), states=tuple(each.detach() for each in tensors[1:]))
        by_step = run.by_step and not read.is_cell and live[0] and _is_leaf(cast(Mark, marks[0]).node) and read.data.dim() > 1
        with torch.no_grad():
            followed = FollowedLayers(run, call, self.cell, plain, live, by_step=by_step, rest=rest)
        owners = self._owners(run, call, read, marks, followed.shapes)
        outputs = run.recurred(Recurred, followed, tensors) if any(live) else followed.outputs
        for out, owner in zip(outputs, owners, strict=True):
            run.captured(out.detach())  # a part of what the layer keeps for the way back
            run.put(out, call, is_live=any(live), owner=owner)
        if not read.is_cell:
            return tuple(outputs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _owners(
        self, run: ModelRun, call: ModelCall, read: RecurrentCall, marks: Sequence[Mark | None], shapes: Sequence[torch.Size]
    ) -> Sequence[Owner]:
        """Which sample each element of the outputs belongs to."""
        owners = [None if mark is None else mark.owner for mark in marks]
        if run.samples.is_one or all(owner is None for owner in owners):
            return [None] * len(shapes)
        usual = [read.batch_axis, *[-2] * len(read.states)]
        known = [(owner, axis) for owner, axis in zip(owners, usual, strict=True) if owner is not None]
        if read.batch_axis is not None and all(isinstance(owner, int) and owner == axis for owner, axis in known):
            return usual[1:] if read.is_cell else usual
        columns = self._columns(run, call, read, marks)
        if columns is None:
            return [None] * len(shapes)
        found = [columns] * len(shapes)
        if not read.is_cell:
            found[0] = read.from_steps(columns.expand(len(read.to_steps(read.data)), *columns.shape))
        return [run.samples.told(numbers.expand(shape)) for numbers, shape in zip(found, shapes, strict=True)]

    def _columns(self, run: ModelRun, call: ModelCall, read: RecurrentCall, marks: Sequence[Mark | None]) -> Tensor | None:
        """The sample numbers (B, 1) of the columns of the batch; None if a column holds several samples, or none."""
        samples, device, known = run.samples, read.data.device, list[tuple[Owner, torch.Size]]()
        for place, (tensor, mark) in enumerate(zip((read.data, *read.states), marks, strict=True)):
            if mark is None or not mark.is_live or mark.owner is None:
                continue
            rows = samples.reduced(call, mark.owner, tensor.shape, (-1,), device)
            numbers = samples.numbers(rows, (*tensor.shape[:-1], 1), device)
            numbers = read.stacked([numbers])[0] if place else read.to_steps(numbers)
            joint = samples.reduced(call, numbers, numbers.shape, (0,), device, keeps=False)
            if isinstance(joint, Tensor):
                known.append((joint, joint.shape))
        columns = samples.agreed(call, known, known[0][1], device) if known and not call.is_mixed else None
        return None if columns is None else samples.numbers(columns, known[0][1], device)


def _is_leaf(node: Node) -> bool:
    """Whether a value is an explained input, or whole rows of one."""
    call = node.call
    return call is None or (call.name == "pack_padded_sequence" and len(call.inputs) == 1 and call.inputs[0].call is None)


RECURRENCES: dict[str, Rule] = {
    **{cell.sequence_function: Recurrence(cell, read_sequence) for cell in CELLS.values()},
    **{cell.step_function: Recurrence(cell, read_cell) for cell in CELLS.values()},
}
