"""ONNX's RNN, GRU and LSTM: as PyTorch's own layers where they mean the same, else step by step.

ONNX has its gates in the order i, o, f, c (LSTM) and z, r, h (GRU); PyTorch in the order i, f, g, o and r, z, n.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from whence.errors import InputError, ModelError
from whence.imports.onnx.graph import Constant, Node
from whence.imports.onnx.operators.shapes import reversed_steps
from whence.imports.onnx.operators.table import attribute_problems
from whence.quoting import quoted

Activation = Callable[[Tensor], Tensor]

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
TORCH_ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}  # ONNX's gates in the order of PyTorch's
USUAL = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
MOST_INPUTS = {"RNN": 6, "GRU": 6, "LSTM": 8}
WEIGHT_PLACES = (1, 2, 3, 7)  # W, R, B and P among a node's inputs
ATTRIBUTES: dict[str, object] = {
    "activation_alpha": tuple[float, ...],
    "activation_beta": tuple[float, ...],
    "activations": tuple[str, ...],
    "clip": float,
    "direction": str,
    "hidden_size": int,
    "layout": int,
}
OWN_ATTRIBUTES: dict[str, dict[str, object]] = {"RNN": {}, "GRU": {"linear_before_reset": int}, "LSTM": {"input_forget": int}}


@dataclass(frozen=True)
class Parameterised:
    """An activation that has α and β, with their defaults; None for one that it does not have."""

    make: Callable[[float, float], Activation]
    alpha: float | None = None
    beta: float | None = None


ACTIVATIONS = {
    "tanh": Parameterised(lambda a, b: torch.tanh),
    "sigmoid": Parameterised(lambda a, b: torch.sigmoid),
    "relu": Parameterised(lambda a, b: torch.relu),
    "softsign": Parameterised(lambda a, b: F.softsign),
    "softplus": Parameterised(lambda a, b: F.softplus),
    "affine": Parameterised(lambda a, b: lambda x: a * x + b, 1.0, 0.0),
    "leakyrelu": Parameterised(lambda a, b: lambda x: F.leaky_relu(x, a), 0.01),
    "thresholdedrelu": Parameterised(lambda a, b: lambda x: F.threshold(x, a, 0.0), 1.0),
    "scaledtanh": Parameterised(lambda a, b: lambda x: a * torch.tanh(b * x), 1.0, 1.0),
    "hardsigmoid": Parameterised(lambda a, b: lambda x: torch.clamp(a * x + b, 0.0, 1.0), 0.2, 0.5),
    "elu": Parameterised(lambda a, b: lambda x: F.elu(x, a), 1.0),
}


@dataclass(frozen=True)
class Cell:
    """What a recurrent node computes, without its weights."""

    kind: str
    inputs: int
    hidden: int
    direction: str
    has_bias: bool
    has_peepholes: bool
    activations: tuple[str, ...]  # of all directions, lower case
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    clip: float | None = None
    couples: bool = False  # the forget gate is 1 − the input gate
    resets_late: bool = False  # the reset gate is applied after the recurrent weights
    is_batch_first: bool = False

    @property
    def directions(self) -> int:
        """1 or 2."""
        return DIRECTIONS[self.direction]

    @property
    def is_plain(self) -> bool:
        """Whether PyTorch's own layer means the same."""
        names = set(zip(*[iter(self.activations)] * len(USUAL[self.kind]), strict=True))
        usual = {(USUAL[self.kind],), (("relu",),)} if self.kind == "RNN" else {(USUAL[self.kind],)}
        if tuple(names) not in usual or self.clip is not None or self.couples or self.has_peepholes:
            return False
        return self.kind != "GRU" or self.resets_late

    def functions(self, direction: int) -> list[Activation]:
        """The activations of a direction; α and β belong to those that have them, in their order."""
        alphas, betas = iter(self.alphas), iter(self.betas)
        made: list[Activation] = []
        for name in self.activations:
            known = ACTIVATIONS[name]
            alpha = 0.0 if known.alpha is None else next(alphas, known.alpha)
            beta = 0.0 if known.beta is None else next(betas, known.beta)
            made.append(known.make(alpha, beta))
        count = len(USUAL[self.kind])
        return made[direction * count : (direction + 1) * count]


def cell_of(node: Node, constants: Mapping[str, Constant]) -> Cell:
    """The cell of a node; what its weights and attributes do not allow is refused."""
    place, kind = f"{node.op} node {node.name!r}", node.op
    problems = attribute_problems(node, {**ATTRIBUTES, **OWN_ATTRIBUTES[kind]}, frozenset())
    if problems or not 3 <= len(node.inputs) <= MOST_INPUTS[kind] or len(node.outputs) > 3 or node.graphs:
        raise ModelError(f"{place}: {', '.join(problems) or 'its inputs or outputs'} cannot be read")
    given = [*node.inputs, *[""] * 8][:8]
    missing = [name for n in WEIGHT_PLACES if (name := given[n]) and name not in constants]
    if missing or not given[1] or not given[2]:
        raise ModelError(f"{place}: its weights {', '.join(missing)} are not constants")
    w, r, b, p = (constants[given[n]].shape if given[n] else None for n in WEIGHT_PLACES)
    attributes = dict(node.attributes)
    direction = str(attributes.get("direction", "forward"))
    if direction not in DIRECTIONS:
        raise ModelError(f"{place}: direction {direction!r} is not known; known are {', '.join(DIRECTIONS)}")
    count = DIRECTIONS[direction]
    assert w is not None and r is not None
    hidden = r[-1] if len(r) == 3 else 0
    inputs = w[-1] if len(w) == 3 else 0
    rows = GATES[kind] * hidden
    shapes_are_right = hidden and inputs and w == (count, rows, inputs) and r == (count, rows, hidden)
    if not shapes_are_right or (b is not None and b != (count, 2 * rows)) or (p is not None and p != (count, 3 * hidden)):
        raise ModelError(f"{place}: weights of shapes {w}, {r}, {b} and {p} do not belong to a {direction} {kind}")
    if attributes.get("hidden_size", hidden) != hidden:
        raise ModelError(f"{place}: hidden_size is {attributes['hidden_size']}, but its weights are for {hidden}")
    names = tuple(each.lower() for each in cast("tuple[str, ...]", attributes.get("activations", ()))) or USUAL[kind] * count
    if len(names) != len(USUAL[kind]) * count or not set(names) <= set(ACTIVATIONS):
        raise ModelError(f"{place}: activations {names} are not known; known are {', '.join(ACTIVATIONS)}")
    clip = cast("float | None", attributes.get("clip"))
    return Cell(
        kind,
        inputs,
        hidden,
        direction,
        b is not None,
        p is not None,
        names,
        cast("tuple[float, ...]", attributes.get("activation_alpha", ())),
        cast("tuple[float, ...]", attributes.get("activation_beta", ())),
        clip if clip else None,
        bool(attributes.get("input_forget")),
        bool(attributes.get("linear_before_reset")),
        bool(attributes.get("layout")),
    )


class Recurrent(nn.Module):
    """A recurrent node: PyTorch's own layer, or a direction's steps each."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.cell = cell
        self.layer = _plain_layer(cell) if cell.is_plain else None
        self.steps = None if cell.is_plain else nn.ModuleList(Steps(cell, n) for n in range(cell.directions))

    def take(self, w: Tensor, r: Tensor, b: Tensor | None, p: Tensor | None) -> None:
        """Copy ONNX's weights W (D, G·H, I), R (D, G·H, H), B (D, 2·G·H) and P (D, 3·H)."""
        for n in range(self.cell.directions):
            biases = None if b is None else b[n].chunk(2)
            if self.steps is not None:
                cast(Steps, self.steps[n]).take(w[n], r[n], biases, None if p is None else p[n])
                continue
            assert self.layer is not None
            suffix = "_l0_reverse" if n else "_l0"
            named = {"weight_ih": w[n], "weight_hh": r[n]}
            if biases is not None:
                named.update(bias_ih=biases[0], bias_hh=biases[1])
            for name, value in named.items():
                gates = value.chunk(GATES[self.cell.kind])
                ordered = torch.cat([gates[gate] for gate in TORCH_ORDER[self.cell.kind]])
                cast(Tensor, getattr(self.layer, name + suffix)).copy_(ordered)

    def forward(self, x: Tensor, lengths: Tensor | None, states: Sequence[Tensor | None]) -> list[Tensor]:
        """Y, Y_h and for an LSTM Y_c, from X and the initial states (None for zeros), all in ONNX's layout."""
        if self.cell.is_batch_first:
            x, states = x.transpose(0, 1), [None if each is None else each.transpose(0, 1) for each in states]
        if x.dim() != 3 or x.shape[2] != self.cell.inputs:
            raise ModelError(
                f"{self.cell.kind} gets an input of shape {tuple(x.shape)}; it needs (steps, batch, {self.cell.inputs})"
            )
        if lengths is not None and _read(lengths, x) == [x.shape[0]] * x.shape[1]:
            lengths = None
        y, finals = self._swept(x, lengths, states)  # (T, B, D·H)
        y = y.reshape(*y.shape[:2], self.cell.directions, self.cell.hidden)
        if self.cell.is_batch_first:
            return [y.transpose(0, 1), *(each.transpose(0, 1) for each in finals)]
        return [y.transpose(1, 2), *finals]

    def _swept(self, x: Tensor, lengths: Tensor | None, states: Sequence[Tensor | None]) -> tuple[Tensor, list[Tensor]]:
        if self.steps is not None:
            count = self.cell.directions
            own = [[None if each is None else each[n] for each in states] for n in range(count)]
            swept = [cast(Steps, self.steps[n])(x, lengths, own[n]) for n in range(count)]
            return torch.cat([y for y, _ in swept], -1), [
                torch.stack(each) for each in zip(*(f for _, f in swept), strict=True)
            ]
        assert self.layer is not None
        is_turned = self.cell.direction == "reverse"
        y, finals = _called(self.layer, reversed_steps(x, lengths) if is_turned else x, lengths, states)
        return reversed_steps(y, lengths) if is_turned else y, finals


def _read(lengths: Tensor, x: Tensor) -> list[int]:
    """The lengths of the samples of (T, B, I), checked."""
    found = cast("list[int]", lengths.reshape(-1).tolist())
    steps, count = x.shape[:2]
    if len(found) != count or not all(1 <= each <= steps for each in found):
        raise InputError(
            f"the lengths of the sequences (sequence_lens) are {quoted(found)}; they must be {count} numbers from 1 to {steps}"
        )
    return found


def _plain_layer(cell: Cell) -> nn.RNNBase:
    bias, both = cell.has_bias, cell.directions == 2
    if cell.kind == "LSTM":
        return nn.LSTM(cell.inputs, cell.hidden, bias=bias, bidirectional=both)
    if cell.kind == "GRU":
        return nn.GRU(cell.inputs, cell.hidden, bias=bias, bidirectional=both)
    return nn.RNN(cell.inputs, cell.hidden, nonlinearity=cell.activations[0], bias=bias, bidirectional=both)


def _called(
    layer: nn.RNNBase, x: Tensor, lengths: Tensor | None, states: Sequence[Tensor | None]
) -> tuple[Tensor, list[Tensor]]:
    """Call PyTorch's layer, with a packed sequence if the samples have lengths of their own."""
    given: Tensor | tuple[Tensor, ...] | None = None
    if any(each is not None for each in states):
        shape = (2 if layer.bidirectional else 1, x.shape[1], layer.hidden_size)
        filled = [x.new_zeros(shape) if each is None else each.contiguous() for each in states]
        given = tuple(filled) if len(filled) == 2 else filled[0]
    packed: Tensor | PackedSequence = x
    if lengths is not None:
        packed = pack_padded_sequence(x, lengths.cpu(), enforce_sorted=False)
    y, finals = cast("tuple[Tensor | PackedSequence, Tensor | tuple[Tensor, ...]]", layer(packed, given))
    if isinstance(y, PackedSequence):
        y = pad_packed_sequence(y, total_length=x.shape[0])[0]
    return y, list(finals) if isinstance(finals, tuple) else [finals]


class Steps(nn.Module):
    """One direction of a recurrent node, step by step, for what PyTorch's layers do not have. Gates are in ONNX's order."""

    def __init__(self, cell: Cell, direction: int) -> None:
        super().__init__()
        self.cell = cell
        self.is_turned = cell.direction == "reverse" or direction == 1
        self.activations = cell.functions(direction)
        rows = GATES[cell.kind] * cell.hidden
        self.weight_ih = _weight(rows, cell.inputs)
        self.weight_hh = _weight(rows, cell.hidden)
        self.bias_ih = _weight(rows) if cell.has_bias else None
        self.bias_hh = _weight(rows) if cell.has_bias else None
        self.peepholes = _weight(3 * cell.hidden) if cell.has_peepholes else None

    def take(self, w: Tensor, r: Tensor, biases: Sequence[Tensor] | None, p: Tensor | None) -> None:
        """Copy the weights of this direction."""
        b_w, b_r = (None, None) if biases is None else biases
        own = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, self.peepholes)
        for mine, given in zip(own, (w, r, b_w, b_r, p), strict=True):
            if mine is not None and given is not None:
                mine.copy_(given)

    def forward(self, x: Tensor, lengths: Tensor | None, states: Sequence[Tensor | None]) -> tuple[Tensor, list[Tensor]]:
        """The outputs (T, B, H) and the final states; after a sample's length its outputs are 0 and its states stay."""
        steps = reversed_steps(x, lengths) if self.is_turned else x
        zeros = x.new_zeros(x.shape[1], self.cell.hidden)
        current = [zeros if each is None else each for each in states]
        advance = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[self.cell.kind]
        outputs: list[Tensor] = []
        for t, projected in enumerate(F.linear(steps, self.weight_ih, self.bias_ih).unbind(0)):
            new = advance(projected, *current)
            if lengths is None:
                current, output = new, new[0]
            else:
                is_on = (lengths.to(x.device) > t)[:, None]
                current = [torch.where(is_on, after, before) for after, before in zip(new, current, strict=True)]
                output = torch.where(is_on, new[0], zeros)
            outputs.append(output)
        y = torch.stack(outputs) if outputs else x.new_zeros(0, x.shape[1], self.cell.hidden)
        return reversed_steps(y, lengths) if self.is_turned else y, current

    def _clipped(self, z: Tensor) -> Tensor:
        return z if self.cell.clip is None else torch.clamp(z, -self.cell.clip, self.cell.clip)

    def _rnn(self, x: Tensor, h: Tensor) -> list[Tensor]:
        (f,) = self.activations
        return [f(self._clipped(x + F.linear(h, self.weight_hh, self.bias_hh)))]

    def _gru(self, x: Tensor, h: Tensor) -> list[Tensor]:
        f, g = self.activations
        x_z, x_r, x_h = x.chunk(3, -1)
        size = self.cell.hidden
        b_gates, b_h = (None, None) if self.bias_hh is None else (self.bias_hh[: 2 * size], self.bias_hh[2 * size :])
        h_z, h_r = F.linear(h, self.weight_hh[: 2 * size], b_gates).chunk(2, -1)
        z, r = f(self._clipped(x_z + h_z)), f(self._clipped(x_r + h_r))
        w_h = self.weight_hh[2 * size :]
        reset = r * F.linear(h, w_h, b_h) if self.cell.resets_late else F.linear(r * h, w_h, b_h)
        n = g(self._clipped(x_h + reset))
        return [(1 - z) * n + z * h]

    def _lstm(self, x: Tensor, h: Tensor, c: Tensor) -> list[Tensor]:
        f, g, out = self.activations
        z_i, z_o, z_f, z_c = (x + F.linear(h, self.weight_hh, self.bias_hh)).chunk(4, -1)
        p_i, p_o, p_f = (0.0, 0.0, 0.0) if self.peepholes is None else self.peepholes.chunk(3)
        if self.peepholes is not None:
            z_i, z_f = z_i + p_i * c, z_f + p_f * c
        i = f(self._clipped(z_i))
        forget = 1 - i if self.cell.couples else f(self._clipped(z_f))
        c = forget * c + i * g(self._clipped(z_c))
        if self.peepholes is not None:
            z_o = z_o + p_o * c
        return [f(self._clipped(z_o)) * out(c), c]


def _weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape), requires_grad=False)


def is_recurrent(node: Node) -> bool:
    """Whether a node is a recurrent layer."""
    return node.op in GATES


def weight_names(node: Node) -> list[str]:
    """The names of a recurrent node's weights: W, R, B and P, "" for one that it does not have."""
    return [node.inputs[n] if n < len(node.inputs) else "" for n in WEIGHT_PLACES]
