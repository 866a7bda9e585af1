"""nn.LSTM, nn.GRU, nn.RNN and their cells as one step each: layers and directions are unrolled here, time in `recurrent`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor

from whence.interpreter.record.refusal import Refused
from whence.interpreter.record.step import Arriving, Backward, Owners, Rule, Step, Value
from whence.recurrent.cell import Cell
from whence.recurrent.cells import CELLS
from whence.recurrent.dispatch import Chosen, is_without_stabiliser, run_layer
from whence.recurrent.sequences import Packing
from whence.recurrent.weights import Weights, by_layer, tensors
from whence.trees import floats_of

State = Value | Tensor | Sequence[Value | Tensor]  # an LSTM has two


@dataclass(frozen=True, eq=False)
class RecurrentCall:
    """A call of a recurrent layer or cell. `to_steps` converts its input to (T, B, E), `from_steps` converts back."""

    data: Value | Tensor
    states: tuple[Value | Tensor, ...]  # (layers · directions, B, ·) each; without the first axis for a single cell
    layers: list[list[Weights]]
    lengths: Tensor | None
    to_steps: Callable[[Tensor], Tensor]
    from_steps: Callable[[Tensor], Tensor]
    is_cell: bool = False

    @property
    def directions(self) -> int:
        """1, or 2 for a bidirectional layer."""
        return len(self.layers[0])

    def of_layer(self, k: int, states: Sequence[Tensor]) -> Sequence[Tensor]:
        """The states (layers · directions, B, ·) of one layer."""
        own = slice(k * self.directions, (k + 1) * self.directions)
        return states if len(self.layers) == 1 else [state[own] for state in states]

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
        packing = Packing.of(batch_sizes, tensor(data).device)
        return RecurrentCall(data, several(states), layers, packing.lengths, packing.unpack, packing.pack)
    batch_first = rest[7]

    def swap(x: Tensor) -> Tensor:
        return x.transpose(-2, -3) if batch_first else x

    return RecurrentCall(data, several(states), layers, None, swap, swap)


def read_cell(
    cell: Cell,
    input: Value | Tensor,
    state: State,
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


class Recurrence(Rule):
    """A whole recurrent call under the paper's rules."""

    def __init__(self, cell: Cell, read: Callable[..., RecurrentCall]) -> None:
        self.cell, self.read = cell, read

    def run(self, step: Step) -> object:
        args, kwargs = step.arguments
        call = self.read(self.cell, *args, **kwargs)
        if call.is_cell and (not self.cell.has_products or step.product == "all"):
            result = super().run(step)  # PyTorch's own
            if _is_usual(call, floats_of(result)):
                step.saved = call, None
                return result
        return self._followed(step, call)

    def lasts(self, step: Step) -> bool:
        return step.saved[1] is None

    def _followed(self, step: Step, call: RecurrentCall) -> object:
        """Run the layers on the best path for each, and keep their tapes."""
        x = call.to_steps(tensor(call.data))
        initial = self._initial(call)
        layers: list[Chosen] = []
        for k, directions in enumerate(call.layers):
            states = call.of_layer(k, initial)
            layers.append(run_layer(self.cell, x, directions, states, call.lengths, product=step.product))
            x = layers[-1].outputs()
        step.saved = call, layers
        parts = zip(*(layer.final() for layer in layers), strict=True)
        finals = [each[0] if len(layers) == 1 else torch.cat(each) for each in parts]
        if call.is_cell:
            return finals[0][0] if len(finals) == 1 else tuple(final[0] for final in finals)
        return call.from_steps(x), *finals

    def is_finite(self, step: Step) -> bool:
        return True

    def _initial(self, call: RecurrentCall) -> list[Tensor]:
        return [tensor(state)[None] if call.is_cell else tensor(state) for state in call.states]

    def owners(self, step: Step, owners: Owners) -> Sequence[Tensor]:
        call: RecurrentCall = step.saved[0]
        known: list[Tensor] = []
        if is_live(call.data):
            rows = owners.reduced(step, owners[call.data], (-1,)).expand(call.data.tensor.shape)[..., :1]
            known.append(owners.reduced(step, call.to_steps(rows), (0,))[0])  # (B, 1)
        for state in (each for each in call.states if is_live(each)):
            owner = owners.reduced(step, owners[state], (-1,))[..., :1]
            known.append(owner if call.is_cell else owners.reduced(step, owner, (0,))[0])
        columns = owners.agreed(step, known)
        shapes = [value.tensor.shape for value in step.outputs]
        if call.is_cell:
            return [columns.expand(shape) for shape in shapes]
        over_time = columns.expand(len(call.to_steps(tensor(call.data))), *columns.shape)
        return [call.from_steps(over_time).expand(shapes[0]), *(columns.expand(shape) for shape in shapes[1:])]

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        if step.saved[1] is None and not is_without_stabiliser(back.rules, tensor(step.saved[0].data)):
            self._hand_back_single(step, arriving, back)
            return
        if step.saved[1] is None:
            args, kwargs = step.arguments
            self._followed(step, self.read(self.cell, *args, **kwargs))
        call: RecurrentCall = step.saved[0]
        layers: list[Chosen] = step.saved[1]
        r_x, r_states = self._arrived(step, arriving)
        r_initial: list[Sequence[Tensor]] = []
        keep = back.memory is not None and not call.is_cell
        initial = self._initial(call)
        for k in reversed(range(len(layers))):
            own = r_states if len(layers) == 1 else [r[:, k * call.directions : (k + 1) * call.directions] for r in r_states]
            only = back.direction if k == 0 and call.directions == 2 else None
            layers[k].renew(call.to_steps(tensor(call.data)) if k == 0 else None, call.of_layer(k, initial))
            by_step = k == 0 and is_live(call.data) and not call.is_cell and back.wants_sums(call.data)
            swept = layers[k].relevance(r_x, own, back.rules, direction=only, by_step=by_step, keep=keep)
            for d in range(call.directions):
                part = "" if call.is_cell else f"l{k}_reverse" if d else f"l{k}"
                if back.rules.delta != 1:
                    back.absorb_columns(step, "bias", swept.bias[d], step.outputs[-1], part=part)
                if back.rules.returned != 1 or back.rules.product == "prop":
                    back.absorb_columns(step, "stabiliser", swept.stabiliser[d], step.outputs[-1], part=part)
                if swept.carried:
                    back.remember(step, call.boundaries(swept.carried[d], d), step.outputs[-1], part=part)
            r_x = swept.x
            r_initial = [swept.states, *r_initial]
        assert r_x is not None
        first = r_initial[0] if len(layers) == 1 else [torch.cat(each, dim=1) for each in zip(*r_initial, strict=True)]
        self._hand_on(step, back, r_x, first)

    def _hand_back_single(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        """The same for a cell that PyTorch ran. What needs no relevance is computed at once for all steps of a loop."""
        r_states = [None if each is None else each.r for each in arriving]
        if step not in back.together:
            targets = next(len(r) for r in r_states if r is not None)
            self._prepare(step, back, targets)
        singles, n = back.together[step]
        r_x, r_before = singles.back(n, r_states)
        self._hand_on(step, back, r_x.unsqueeze(1), [each.unsqueeze(1) for each in r_before])

    def _prepare(self, step: Step, back: Backward, targets: int) -> None:
        """Put the steps together that are like this one, as many as `AT_ONCE` allows, up to this one: the last comes first."""
        alike = [each for each in back.alike(step) if each not in back.together and _is_alike(each, step)]
        if not all(back.is_in_order(each.outputs[-1]) for each in alike):  # the ledger of each is its own
            alike = [step]
        size = tensor(step.saved[0].states[0]).nbytes
        members = alike[: alike.index(step) + 1][-max(1, AT_ONCE // (size * (4 + targets))) :]
        calls: list[RecurrentCall] = [each.saved[0] for each in members]
        x, count = [tensor(call.data) for call in calls], len(self.cell.states)
        before = [[tensor(call.states[k]) for call in calls] for k in range(count)]
        after = [[each.outputs[k].tensor for each in members] for k in range(count)]
        args, kwargs = step.arguments
        weights = self.read(self.cell, *args, **kwargs).layers[0][0]
        singles = self.cell.singles(x, before, after, weights, back.rules, targets=targets)
        back.together.update((each, (singles, n)) for n, each in enumerate(members))

        def enter() -> None:
            if back.rules.delta != 1:
                back.absorb_columns(step, "bias", singles.of_bias(), step.outputs[-1])
            if back.rules.returned != 1:
                back.absorb_columns(step, "stabiliser", singles.stabiliser, step.outputs[-1])

        back.at_end(enter)

    def release(self, step: Step) -> None:
        for layer in step.saved[1] or ():
            layer.release()

    def _arrived(self, step: Step, arriving: Sequence[Arriving | None]) -> tuple[Tensor | None, list[Tensor]]:
        """The relevance of the last layer's outputs (K, T, B, ·) and of all final states (K, layers · directions, B, ·)."""
        call: RecurrentCall = step.saved[0]
        targets = next(len(each.r) for each in arriving if each is not None and each.r is not None)
        r = [None if each is None else each.r for each in arriving]
        filled = [
            value.tensor.new_zeros(targets, *value.tensor.shape) if own is None else own
            for value, own in zip(step.outputs, r, strict=True)
        ]
        if call.is_cell:
            return None, [each.unsqueeze(1) for each in filled]
        return None if r[0] is None else call.to_steps(r[0]), filled[1:]

    def _hand_on(self, step: Step, back: Backward, r_x: Tensor, r_states: Sequence[Tensor]) -> None:
        call: RecurrentCall = step.saved[0]
        last = step.outputs[-1]
        if is_live(call.data):
            back.deliver(step, call.data, r=call.from_steps(r_x))
        else:
            back.absorb_columns(step, "constant", r_x.sum((1, 3)), last)
        for state, r in zip(call.states, r_states, strict=True):
            if is_live(state):
                back.deliver(step, state, r=r[:, 0] if call.is_cell else r)
            else:
                back.absorb_columns(step, "initial_state", r.sum((1, 3)), last)


AT_ONCE = 2**26  # bytes of states and coefficients whose factors are computed together


def _is_usual(call: RecurrentCall, results: Sequence[Tensor]) -> bool:
    """Whether a cell reads a batch of ordinary numbers in one precision, with weights that are tensors."""
    (weights,) = call.layers[0]
    given = [tensor(call.data), *map(tensor, call.states)]
    every = [*given, *results, *tensors(weights).values()]
    return (
        all(each.dim() == 2 and each.numel() > 0 for each in given)
        and given[0].dtype in (torch.float32, torch.float64)
        and all(each.dtype == given[0].dtype and each.device == given[0].device and not each.is_neg() for each in every)
    )


def _is_alike(step: Step, other: Step) -> bool:
    """Whether two steps of a layer have the same weights and sizes."""
    (own, own_names), (its, its_names) = step.arguments, other.arguments
    if step.saved[1] is not None or len(own) != len(its) or own_names or its_names:
        return step is other
    calls: Sequence[RecurrentCall] = (step.saved[0], other.saved[0])
    shapes = [
        [tensor(call.data).shape, tensor(call.data).dtype, *(tensor(each).shape for each in call.states)] for call in calls
    ]
    return shapes[0] == shapes[1] and all(one is another for one, another in zip(own[2:], its[2:], strict=True))


def several(state: State) -> tuple[Value | Tensor, ...]:
    """The states of a call, also where there is one alone."""
    return (state,) if isinstance(state, (Value, Tensor)) else tuple(state)


def tensor(thing: Value | Tensor) -> Tensor:
    """The tensor of a value or of a constant."""
    if isinstance(thing, Value):
        return thing.tensor
    return thing.detach() if thing.requires_grad else thing


def is_live(thing: object) -> TypeGuard[Value]:
    """Whether something depends on the explained inputs."""
    return isinstance(thing, Value) and thing.is_live


RECURRENCES: dict[str, Rule] = {
    **{cell.sequence_function: Recurrence(cell, read_sequence) for cell in CELLS.values()},
    **{cell.step_function: Recurrence(cell, read_cell) for cell in CELLS.values()},
}
