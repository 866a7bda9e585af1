"""LSTM, GRU and SimpleRNN: PyTorch's own layers where they compute the same, otherwise the steps one by one."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from whence.errors import ModelError
from whence.imports.keras.activations import ACTIVATIONS
from whence.imports.keras.basic import copy_into
from whence.imports.keras.layer import Flow, KerasLayer, Mask, Variable
from whence.imports.keras.options import Options, Shapes

States = tuple[Tensor, ...]  # h, or h and c; (B, U) each
Native = Callable[..., nn.RNNBase]


class Steps(nn.Module):
    """A recurrent layer written step by step, for what PyTorch's own layers do not compute."""

    gates: ClassVar[int]

    def __init__(self, features: int, units: int, *, has_bias: bool, activation: str, gate: str, reset_after: bool) -> None:
        super().__init__()
        self.units, self.reset_after = units, reset_after
        self.activation, self.gate = ACTIVATIONS[activation], ACTIVATIONS[gate]
        self.input = nn.Linear(features, self.gates * units, bias=has_bias)
        self.recurrent = nn.Linear(units, self.gates * units, bias=has_bias and reset_after)

    def step(self, x: Tensor, states: States) -> States:
        """One step's states from its input, already weighted, (B, gates · U), and the states before."""
        raise NotImplementedError

    def forward(self, x: Tensor, states: States, mask: Mask, zero_output: bool) -> tuple[Tensor, States]:
        """(B, T, E) to the outputs (B, T, U) and the last states; a masked step leaves the states as they are."""
        weighted, outputs = self.input(x), list[Tensor]()
        output = torch.zeros_like(states[0])
        for t in range(1 if x.is_meta else x.shape[1]):
            after = self.step(weighted[:, t], states)
            if mask is None:
                states, output = after, after[0]
            else:
                kept = mask[:, t, None]
                output = torch.where(kept, after[0], torch.zeros_like(output) if zero_output else output)
                states = tuple(torch.where(kept, new, old) for new, old in zip(after, states, strict=True))
            outputs.append(output)
        if x.is_meta:
            return output[:, None].expand(-1, x.shape[1], -1), states
        return torch.stack(outputs, 1), states


class LSTMSteps(Steps):
    """An LSTM with other activations."""

    gates = 4

    def step(self, x: Tensor, states: States) -> States:
        """Keras orders the gates input, forget, candidate, output."""
        h, c = states
        i, f, g, o = (x + self.recurrent(h)).chunk(4, -1)
        c = self.gate(f) * c + self.gate(i) * self.activation(g)
        return self.gate(o) * self.activation(c), c


class GRUSteps(Steps):
    """A GRU with other activations, or one that resets before the matrix (reset_after=False)."""

    gates = 3

    def step(self, x: Tensor, states: States) -> States:
        """Keras orders the gates update, reset, candidate."""
        (h,) = states
        x_z, x_r, x_n = x.chunk(3, -1)
        if self.reset_after:
            h_z, h_r, h_n = self.recurrent(h).chunk(3, -1)
            z, r = self.gate(x_z + h_z), self.gate(x_r + h_r)
            n = self.activation(x_n + r * h_n)
        else:
            w_z, w_r, w_n = self.recurrent.weight.chunk(3)
            z, r = self.gate(x_z + F.linear(h, w_z)), self.gate(x_r + F.linear(h, w_r))
            n = self.activation(x_n + F.linear(r * h, w_n))
        return (z * h + (1 - z) * n,)


class SimpleRNNSteps(Steps):
    """A simple recurrent layer with another activation."""

    gates = 1

    def step(self, x: Tensor, states: States) -> States:
        """activation(W x + U h + b)."""
        return (self.activation(x + self.recurrent(states[0])),)


class Compact:
    """The steps that a mask keeps, moved to the front, and the way back.

    A masked step leaves the states as they are, so a layer sees only the kept steps, packed.
    """

    def __init__(self, mask: Tensor) -> None:
        self.mask, self.count = mask, mask.sum(1)
        self._order = torch.argsort(~mask, dim=1, stable=True)
        self._place = mask.cumsum(1) - 1  # of a step, or of the last kept one before it

    def packed(self, x: Tensor) -> nn.utils.rnn.PackedSequence:
        """The kept steps of (B, T, E); a sample without any keeps its first one."""
        moved = x.gather(1, self._order[..., None].expand(-1, -1, x.shape[-1]))
        return pack_padded_sequence(moved, self.count.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)

    def unpacked(self, packed: nn.utils.rnn.PackedSequence, *, zero_output: bool) -> Tensor:
        """Outputs (B, T, U) at their steps; a masked step has the output before it, or zeros."""
        found, _ = pad_packed_sequence(packed, batch_first=True, total_length=self.mask.shape[1])
        outputs = found.gather(1, self._place.clamp(min=0)[..., None].expand(-1, -1, found.shape[-1]))
        kept = self.mask if zero_output else self._place >= 0
        return torch.where(kept[..., None], outputs, torch.zeros_like(outputs))

    def finals(self, states: States, before: States) -> States:
        """The last states; those of a sample without any kept step are the ones it began with."""
        if bool((self.count > 0).all()):
            return states
        return tuple(torch.where((self.count > 0)[:, None], new, old) for new, old in zip(states, before, strict=True))


class Recurrent(KerasLayer):
    """One recurrent layer, in one direction."""

    states: ClassVar[int] = 1
    steps: ClassVar[type[Steps]]
    has_gates: ClassVar[bool] = True

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.units = options.size("units", largest=2**16)
        self.most_inputs = 1 + self.states
        self.returns_sequences, self.returns_states = options.flag("return_sequences"), options.flag("return_state")
        self.goes_backwards, self.zero_output = options.flag("go_backwards"), options.flag("zero_output_for_mask")
        self.ignores_mask = options.flag("ignores_mask")
        if options.flag("time_major"):
            raise ModelError("time_major is true, which is not supported")
        activation, has_bias = options.activation(default="tanh"), options.flag("use_bias", True)
        gate = options.activation("recurrent_activation", "sigmoid") if self.has_gates else "sigmoid"
        reset_after = self._reset_after(options)
        features = self._features(shapes, has_bias=has_bias, reset_after=reset_after)
        self.outputs = 1 + self.states * self.returns_states
        self.native = self.native_layer(activation, gate, reset_after)
        self.signature = (type(self), self.units, activation, gate, has_bias, reset_after)
        self.cell: nn.Module
        if self.native is None:
            self.cell = self.steps(
                features, self.units, has_bias=has_bias, activation=activation, gate=gate, reset_after=reset_after
            )
        else:
            self.cell = self.native(features, self.units, bias=has_bias, batch_first=True)

    def _reset_after(self, options: Options) -> bool:
        return False

    def _features(self, shapes: Shapes, *, has_bias: bool, reset_after: bool) -> int:
        wide = self.steps.gates * self.units
        features, _ = shapes.next("kernel", None, wide)
        shapes.next("recurrent kernel", self.units, wide)
        if has_bias:
            shapes.next("bias", *self.bias_shape(wide, reset_after))
        return features

    def bias_shape(self, wide: int, reset_after: bool) -> tuple[int, ...]:
        """The bias in a file; two rows if the recurrent part has its own."""
        return (2, wide) if reset_after else (wide,)

    def native_layer(self, activation: str, gate: str, reset_after: bool) -> Native | None:
        """PyTorch's own layer, if it computes the same."""
        raise NotImplementedError

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """Kernel, recurrent kernel, bias."""
        names = ["kernel", "recurrent kernel", *(["bias"] if options.flag("use_bias", True) else [])]
        return [Variable(name, "cell") for name in names]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Take Keras' weights, gate by gate in PyTorch's order."""
        if isinstance(self.cell, nn.RNNBase):
            fill_native(self.cell, self.ordered(weights), "")
            return
        cell = cast(Steps, self.cell)
        copy_into(cell.input.weight, weights[0].T)
        copy_into(cell.recurrent.weight, weights[1].T)
        if len(weights) > 2:
            input_bias, recurrent_bias = weights[2] if weights[2].dim() == 2 else (weights[2], None)
            copy_into(cell.input.bias, input_bias)
            if recurrent_bias is not None:
                copy_into(cell.recurrent.bias, recurrent_bias)

    def ordered(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Keras' weights as PyTorch's: (gates · U, ·), and two biases."""
        return [weights[0].T, weights[1].T, *biases(weights[2:])]

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """(B, T, E) and states, if any are given, to the outputs."""
        x, mask = inputs[0], masks[0]
        if x.dim() != 3:
            raise ModelError(f"its input has {x.dim()} axes; a recurrent layer needs (batch, steps, features)")
        kept = None if x.is_meta or self.ignores_mask else mask
        outputs, last, states = self.run(x, kept, self.initial(x, inputs[1:]), inputs[1:])
        found = (outputs if self.returns_sequences else last, *(states if self.returns_states else ()))
        return Flow(found, (mask if self.returns_sequences else None, *[None] * (len(found) - 1)))

    def initial(self, x: Tensor, given: Sequence[Tensor]) -> States:
        """The states before the first step."""
        if len(given) not in (0, self.states):
            raise ModelError(f"it is given {len(given)} initial states and has {self.states}")
        if any(state.shape != (x.shape[0], self.units) for state in given):
            raise ModelError(f"it is given initial states of other sizes than (batch, {self.units})")
        return tuple(given) or (x.new_zeros(x.shape[0], self.units),) * self.states

    def run(self, x: Tensor, mask: Mask, states: States, given: Sequence[Tensor] = ()) -> tuple[Tensor, Tensor, States]:
        """All outputs, the last output, the last states."""
        if self.goes_backwards:
            x, mask = x.flip(1), None if mask is None else mask.flip(1)
        if mask is not None and bool(mask.all()):
            mask = None
        if isinstance(self.cell, nn.RNNBase):
            outputs, finals = run_native(self.cell, x, mask, states, given, zero_output=self.zero_output)
        else:
            outputs, finals = self.cell(x, states, mask, self.zero_output)
        return outputs, finals[0] if mask is None else outputs[:, -1], finals


def run_native(
    cell: nn.RNNBase, x: Tensor, mask: Mask, states: States, given: Sequence[Tensor], *, zero_output: bool
) -> tuple[Tensor, States]:
    """Outputs (B, T, U) and last states of PyTorch's own layer with one direction."""
    if x.is_meta:
        return form_of(cell, x), states
    before = tuple(state[None] for state in given)
    compact = None if mask is None else Compact(mask)
    outputs, final = cell(x if compact is None else compact.packed(x), before if len(before) > 1 else next(iter(before), None))
    finals = tuple(state[0] for state in in_tuple(final))
    if compact is None:
        return outputs, finals
    return compact.unpacked(outputs, zero_output=zero_output), compact.finals(finals, states)


def form_of(cell: nn.RNNBase, x: Tensor) -> Tensor:
    """Outputs without numbers; PyTorch itself would go through all steps for their sizes."""
    if x.shape[-1] != cell.input_size:
        raise ModelError(f"its input has {x.shape[-1]} features; it needs {cell.input_size}")
    return x.new_empty(*x.shape[:2], cell.hidden_size * (1 + cell.bidirectional))


def in_tuple(final: object) -> States:
    """The last states of PyTorch's own layers, which return a single one as it is."""
    return cast(States, final if isinstance(final, tuple) else (final,))


def biases(found: Sequence[Tensor]) -> list[Tensor]:
    """PyTorch's two biases out of Keras' one, which may have two rows."""
    if not found:
        return []
    return list(found[0]) if found[0].dim() == 2 else [found[0], torch.zeros_like(found[0])]


def fill_native(cell: nn.RNNBase, weights: Sequence[Tensor], suffix: str) -> None:
    """Write weights into PyTorch's own layer; the suffix names the direction."""
    for name, numbers in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights, strict=False):
        copy_into(cast(Tensor, getattr(cell, f"{name}_l0{suffix}")), numbers)


class LSTM(Recurrent):
    """An LSTM."""

    states = 2
    steps = LSTMSteps

    def native_layer(self, activation: str, gate: str, reset_after: bool) -> Native | None:
        """nn.LSTM, with the usual activations."""
        if (activation, gate) != ("tanh", "sigmoid"):
            return None
        return nn.LSTM


class GRU(Recurrent):
    """A GRU; files older than the option reset_after mean False."""

    steps = GRUSteps

    def _reset_after(self, options: Options) -> bool:
        return options.flag("reset_after", False)

    def native_layer(self, activation: str, gate: str, reset_after: bool) -> Native | None:
        """nn.GRU, with the usual activations and the reset behind the matrix."""
        if (activation, gate) != ("tanh", "sigmoid") or not reset_after:
            return None
        return nn.GRU

    def ordered(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """PyTorch orders the gates reset, update, candidate."""

        def swapped(gates: Tensor) -> Tensor:
            update, reset, candidate = gates.chunk(3)
            return torch.cat([reset, update, candidate])

        return [swapped(each) for each in (weights[0].T, weights[1].T, *biases(weights[2:]))]


class SimpleRNN(Recurrent):
    """A simple recurrent layer."""

    steps = SimpleRNNSteps
    has_gates = False

    def native_layer(self, activation: str, gate: str, reset_after: bool) -> Native | None:
        """nn.RNN, with tanh or ReLU."""
        if activation not in ("tanh", "relu"):
            return None
        return partial(nn.RNN, nonlinearity=activation)


def without_cudnn(weights: Sequence[Tensor], units: int) -> list[Tensor]:
    """Kernels of a layer that was made for cuDNN, as those of the usual one: each gate is stored in the other order of axes."""
    return [
        torch.cat([gate.reshape(units, -1).T for gate in torch.split(kernel, units, dim=1)], dim=1) for kernel in weights[:2]
    ]


class CuDNNLSTM(LSTM):
    """Keras 2's LSTM for GPUs, with two biases in one."""

    def bias_shape(self, wide: int, reset_after: bool) -> tuple[int, ...]:
        """Both biases, one after the other."""
        return (2 * wide,)

    def ordered(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """PyTorch has two biases as well."""
        kernel, recurrent = without_cudnn(weights, self.units)
        return [kernel.T, recurrent.T, *weights[2].chunk(2)]


class CuDNNGRU(GRU):
    """Keras 2's GRU for GPUs, which resets behind the matrix."""

    def _reset_after(self, options: Options) -> bool:
        return True

    def bias_shape(self, wide: int, reset_after: bool) -> tuple[int, ...]:
        """Both biases, one after the other."""
        return (2 * wide,)

    def ordered(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """As of a usual GRU."""
        return super().ordered([*without_cudnn(weights, self.units), weights[2].reshape(2, -1)])


RECURRENT: dict[str, type[Recurrent]] = {layer.__name__: layer for layer in (LSTM, GRU, SimpleRNN, CuDNNLSTM, CuDNNGRU)}
CELLS = {f"{layer.__name__}Cell": layer for layer in (LSTM, GRU, SimpleRNN)}
