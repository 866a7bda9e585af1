"""nn.LSTM and nn.LSTMCell as one step each: layers and directions are unrolled here, time in `recurrent`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from whence.interpreter.rule import Arriving, NoRule, Rule
from whence.interpreter.trace import Step, Value
from whence.recurrent.lstm import reference
from whence.recurrent.sequences import Packing, reverse
from whence.recurrent.weights import LSTMWeights, lstm_layers, lstm_weights

if TYPE_CHECKING:
    from whence.interpreter.samples import Owners
    from whence.interpreter.sweep import Sweep


class Call(NamedTuple):
    """A recurrent call in one form, whatever its spelling. `to_steps` brings its input to (T, B, E), `from_steps` back."""

    data: Any
    hidden: Any  # (layers · directions, B, P)
    cell: Any  # (layers · directions, B, H)
    layers: list[list[LSTMWeights]]
    lengths: Tensor | None
    to_steps: Callable[[Tensor], Tensor]
    from_steps: Callable[[Tensor], Tensor]
    is_cell: bool = False


class Saved(NamedTuple):
    """What the sweep needs: the call, and the tape of every layer and direction."""

    call: Call
    tapes: list[list[reference.Tape]]


def read_lstm(*args: Any) -> Call:
    """torch.lstm, with a padded or a packed input."""
    is_packed = isinstance(args[1], Tensor)
    data, batch_sizes, rest = (args[0], args[1], args[2:]) if is_packed else (args[0], None, args[1:])
    (hidden, cell), flat, has_biases, count, dropout, train, bidirectional = rest[:7]
    if train and dropout > 0:
        raise NoRule("its dropout is active; an explanation needs a prediction that stays the same")
    layers = lstm_layers(flat, has_biases=has_biases, directions=1 + bidirectional, layers=count)
    if batch_sizes is not None:
        packing = Packing.of(batch_sizes, tensor(data).device)
        return Call(data, hidden, cell, layers, packing.lengths, packing.unpack, packing.pack)
    batch_first = rest[7]

    def swap(x: Tensor) -> Tensor:
        return x.transpose(-2, -3) if batch_first else x

    return Call(data, hidden, cell, layers, None, swap, swap)


def read_lstm_cell(
    input: Any, state: Sequence[Any], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Call:
    """torch.lstm_cell: one step of one layer."""
    biases = [] if b_ih is None or b_hh is None else [b_ih, b_hh]
    weights = lstm_weights(w_ih, w_hh, *biases, has_biases=bool(biases))
    return Call(
        input,
        state[0],
        state[1],
        [[weights]],
        None,
        lambda x: x.unsqueeze(-3),
        lambda x: x.squeeze(-3),
        is_cell=True,
    )


class LSTM(Rule):
    """A whole LSTM call under the paper's rules."""

    def __init__(self, read: Callable[..., Call]) -> None:
        self.read = read

    def run(self, step: Step) -> Any:
        args, kwargs = step.arguments
        call = self.read(*args, **kwargs)
        x = call.to_steps(tensor(call.data))
        h0, c0 = states(call.hidden), states(call.cell)
        tapes: list[list[reference.Tape]] = []
        for k, directions in enumerate(call.layers):
            row: list[reference.Tape] = []
            for d, weights in enumerate(directions):
                n = k * len(directions) + d
                ordered = reverse(x, call.lengths) if d else x
                row.append(reference.forward(ordered, weights, h0=h0[n], c0=c0[n], lengths=call.lengths))
            tapes.append(row)
            x = torch.cat([reverse(t.outputs(), call.lengths) if d else t.outputs() for d, t in enumerate(row)], dim=-1)
        step.saved = Saved(call, tapes)
        h_n = torch.stack([tape.h[-1] for row in tapes for tape in row])
        c_n = torch.stack([tape.c[-1] for row in tapes for tape in row])
        if call.is_cell:
            return h_n[0], c_n[0]
        return call.from_steps(x), h_n, c_n

    def owners(self, step: Step, owners: "Owners") -> Sequence[Tensor]:
        call: Call = step.saved.call
        known: list[Tensor] = []
        if is_live(call.data):
            rows = owners.reduced(step, owners[call.data], (-1,)).expand(call.data.tensor.shape)[..., :1]
            known.append(owners.reduced(step, call.to_steps(rows), (0,))[0])  # (B, 1)
        for state in (call.hidden, call.cell):
            if is_live(state):
                owner = owners.reduced(step, owners[state], (-1,))[..., :1]
                known.append(owner if call.is_cell else owners.reduced(step, owner, (0,))[0])
        columns = owners.agreed(step, known)
        shapes = [value.tensor.shape for value in step.outputs]
        if call.is_cell:
            return [columns.expand(shape) for shape in shapes]
        over_time = columns.expand(len(step.saved.tapes[0][0].x), *columns.shape)
        return [call.from_steps(over_time).expand(shapes[0]), *(columns.expand(shape) for shape in shapes[1:])]

    def sweep(self, step: Step, arriving: Sequence[Arriving | None], sweep: "Sweep") -> None:
        call, tapes = step.saved
        r_x, r_states = self._arrived(step, arriving)
        r_h0: list[Tensor] = []
        r_c0: list[Tensor] = []
        for k in reversed(range(len(tapes))):
            directions = call.layers[k]
            parts = r_x.chunk(len(directions), dim=-1)
            swept: list[reference.Swept] = []
            for d, weights in enumerate(directions):
                n = k * len(directions) + d
                result = reference.relevance(
                    tapes[k][d],
                    weights,
                    r_outputs=reverse(parts[d], call.lengths) if d else parts[d],
                    r_h=r_states[0][:, n],
                    r_c=r_states[1][:, n],
                    rule=sweep.rule,
                )
                name = "" if call.is_cell else f"l{k}_reverse" if d else f"l{k}"
                sweep.book_columns(step, "bias", result.bias, step.outputs[-1], part=name)
                sweep.book_columns(step, "stabiliser", result.stabiliser, step.outputs[-1], part=name)
                swept.append(result)
            r_x = sum(
                (reverse(s.x, call.lengths) if d else s.x for d, s in enumerate(swept)),
                start=torch.zeros_like(swept[0].x),
            )
            r_h0 = [s.h for s in swept] + r_h0
            r_c0 = [s.c for s in swept] + r_c0
        self._hand_on(step, sweep, r_x, torch.stack(r_h0, 1), torch.stack(r_c0, 1))

    def _arrived(self, step: Step, arriving: Sequence[Arriving | None]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The relevance of the last layer's outputs (K, T, B, ·) and of all final states (K, layers · directions, B, ·)."""
        call: Call = step.saved.call
        targets = next(len(each.r) for each in arriving if each is not None and each.r is not None)

        def of(k: int) -> Tensor:
            each = arriving[k]
            like = step.outputs[k].tensor
            return like.new_zeros(targets, *like.shape) if each is None or each.r is None else each.r

        if call.is_cell:
            return torch.zeros_like(of(0)).unsqueeze(1), (of(0).unsqueeze(1), of(1).unsqueeze(1))
        return call.to_steps(of(0)), (of(1), of(2))

    def _hand_on(self, step: Step, sweep: "Sweep", r_x: Tensor, r_h: Tensor, r_c: Tensor) -> None:
        call: Call = step.saved.call
        last = step.outputs[-1]
        if is_live(call.data):
            sweep.deliver(step, call.data, r=call.from_steps(r_x))
        else:
            sweep.book_columns(step, "constant", r_x.sum((1, 3)), last)
        for state, r in ((call.hidden, r_h), (call.cell, r_c)):
            if is_live(state):
                sweep.deliver(step, state, r=r[:, 0] if call.is_cell else r)
            else:
                sweep.book_columns(step, "initial_state", r.sum((1, 3)), last)


def tensor(thing: Any) -> Tensor:
    """The tensor of a value or of a constant."""
    return thing.tensor if isinstance(thing, Value) else thing.detach()


def states(thing: Any) -> Tensor:
    """Initial states with their leading axis of layers · directions, which a single cell leaves out."""
    state = tensor(thing)
    return state if state.dim() == 3 else state[None]


def is_live(thing: Any) -> bool:
    """Whether something depends on the explained inputs."""
    return isinstance(thing, Value) and thing.is_live
