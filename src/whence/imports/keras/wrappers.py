"""Layers around other layers: Bidirectional, TimeDistributed, RNN around a cell."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from whence.errors import ModelError
from whence.imports.keras.layer import Flow, KerasLayer, Mask, Variable
from whence.imports.keras.options import Options, Shapes
from whence.imports.keras.recurrent import CELLS, RECURRENT, Compact, Recurrent, States, fill_native, form_of, in_tuple

MERGES = ("concat", "sum", "ave", "mul", None)


class Bidirectional(KerasLayer):
    """Two recurrent layers, one of which reads backwards.

    If both are of one kind and size, they are one bidirectional layer of PyTorch.
    """

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        self.merge_mode, self.ignores_mask = options.choice("merge_mode", MERGES, "concat"), options.flag("ignores_mask")
        kinds = _directions(options)
        layers = [kind(inner, shapes) for kind, inner in kinds]
        for _, inner in kinds:
            inner.require_nothing_else()
        ahead, back = layers
        if ahead.goes_backwards or not back.goes_backwards:
            raise ModelError("its first layer must read forwards and its second backwards")
        if (ahead.returns_sequences, ahead.returns_states) != (back.returns_sequences, back.returns_states):
            raise ModelError("its two layers return different things")
        self.returns_sequences, self.returns_states = ahead.returns_sequences, ahead.returns_states
        self.outputs = (2 if self.merge_mode is None else 1) + 2 * ahead.states * self.returns_states
        self.states, self.units = ahead.states, ahead.units
        self.most_inputs = 1 + 2 * self.states
        ahead.zero_output = back.zero_output = self.returns_sequences
        self.both: nn.RNNBase | None = None
        self.ahead, self.back = ahead, back
        if ahead.native is not None and ahead.signature == back.signature:
            features, has_bias = cast(nn.RNNBase, ahead.cell).input_size, cast(nn.RNNBase, ahead.cell).bias
            self.both = ahead.native(features, ahead.units, bias=has_bias, batch_first=True, bidirectional=True)
            ahead.cell = back.cell = nn.Identity()  # the weights are in `both`

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """Those of the one that reads forwards, then the others."""
        return [
            variable._replace(part=f"{part}/{variable.part}")
            for part, (kind, inner) in zip(("forward_layer", "backward_layer"), _directions(options), strict=True)
            for variable in kind.variables(inner)
        ]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """The first half belongs to the layer that reads forwards."""
        half = len(weights) // 2
        for layer, own, suffix in ((self.ahead, weights[:half], ""), (self.back, weights[half:], "_reverse")):
            if self.both is None:
                layer.fill(own)
            else:
                fill_native(self.both, layer.ordered(own), suffix)

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """(B, T, E) and states, if any are given, to the merged outputs."""
        x, mask, half = inputs[0], masks[0], (len(inputs) - 1) // 2
        if x.dim() != 3:
            raise ModelError(f"its input has {x.dim()} axes; a recurrent layer needs (batch, steps, features)")
        given = inputs[1 : 1 + half], inputs[1 + half :]
        before = self.ahead.initial(x, given[0]), self.back.initial(x, given[1])
        kept = None if mask is None or mask.is_meta or self.ignores_mask or bool(mask.all()) else mask
        run = self._run_apart if self.both is None else self._run_together
        y, y_back, states = run(x, kept, before, bool(half))
        merged = _merged(y, y_back, self.merge_mode)
        carried = mask if self.returns_sequences else None
        states = states if self.returns_states else ()
        return Flow((*merged, *states), (*[carried] * len(merged), *[None] * len(states)))

    def _run_apart(self, x: Tensor, mask: Mask, before: tuple[States, States], is_given: bool) -> tuple[Tensor, Tensor, States]:
        y, last, states = self.ahead.run(x, mask, before[0], before[0] if is_given else ())
        y_back, last_back, states_back = self.back.run(x, mask, before[1], before[1] if is_given else ())
        if self.returns_sequences:
            return y, y_back.flip(1), (*states, *states_back)
        return last, last_back, (*states, *states_back)

    def _run_together(
        self, x: Tensor, mask: Mask, before: tuple[States, States], is_given: bool
    ) -> tuple[Tensor, Tensor, States]:
        assert self.both is not None
        if x.is_meta:
            outputs = form_of(self.both, x)
            y, y_back = outputs.chunk(2, -1) if self.returns_sequences else (before[0][0], before[1][0])
            return y, y_back, (*before[0], *before[1])
        pairs = [torch.stack(each) for each in zip(*before, strict=True)]
        start = () if not is_given else ((tuple(pairs) if len(pairs) > 1 else pairs[0]),)
        compact = None if mask is None else Compact(mask)
        found, final = self.both(x if compact is None else compact.packed(x), *start)
        outputs = found if compact is None else compact.unpacked(found, zero_output=True)
        finals = in_tuple(final)
        each = [tuple(state[n] for state in finals) for n in (0, 1)]
        states = each if compact is None else [compact.finals(*pair) for pair in zip(each, before, strict=True)]
        if self.returns_sequences:
            y, y_back = outputs[..., : self.units], outputs[..., self.units :]
        elif compact is None:
            y, y_back = states[0][0], states[1][0]
        else:  # a sample without any step that counts has an output of zeros, whatever its states are
            kept = (compact.count > 0)[:, None]
            y, y_back = (torch.where(kept, own[0], torch.zeros_like(own[0])) for own in states)
        return y, y_back, (*states[0], *states[1])


def _merged(y: Tensor, y_back: Tensor, mode: str | None) -> tuple[Tensor, ...]:
    if mode is None:
        return y, y_back
    if mode == "concat":
        return (torch.cat([y, y_back], -1),)
    if mode == "mul":
        return (y * y_back,)
    return (y + y_back,) if mode == "sum" else ((y + y_back) / 2,)


def _directions(options: Options) -> list[tuple[type[Recurrent], Options]]:
    """The two layers; a file need not hold the second one."""
    first = options.layer("layer")
    has_second = options.values.get("backward_layer") is not None
    second = options.layer("backward_layer") if has_second else options.layer("layer")
    if not has_second:
        turned = Options({**second[1].values, "go_backwards": not second[1].values.get("go_backwards", False)})
        turned.version = options.version
        second = second[0], turned
    found: list[tuple[type[Recurrent], Options]] = []
    for name, inner in (first, second):
        if name not in RECURRENT:
            raise ModelError(f"it holds a layer {name!r}; known are {', '.join(RECURRENT)}")
        found.append((RECURRENT[name], inner))
    if not has_second:
        options.taken["layer"] = {"class_name": first[0], "config": first[1].taken}
    return found


class TimeDistributed(KerasLayer):
    """A layer applied to every step by itself."""

    inner_layers: Mapping[str, type[KerasLayer]] = {}  # set where the table of layers is

    def __init__(self, options: Options, shapes: Shapes) -> None:
        super().__init__(options, shapes)
        kind, inner = self._inner(options)
        self.layer = kind(inner, shapes)
        inner.require_nothing_else()
        if self.layer.outputs != 1:
            raise ModelError("the layer inside it has several outputs, which is not supported")

    @classmethod
    def _inner(cls, options: Options) -> tuple[type[KerasLayer], Options]:
        name, inner = options.layer("layer")
        if name not in cls.inner_layers:
            raise ModelError(f"it holds a layer {name!r}, which is not supported there")
        return cls.inner_layers[name], inner

    @classmethod
    def variables(cls, options: Options) -> list[Variable]:
        """Those of the layer inside."""
        kind, inner = cls._inner(options)
        return [each._replace(part=f"layer/{each.part}".rstrip("/")) for each in kind.variables(inner)]

    def fill(self, weights: Sequence[Tensor]) -> None:
        """They belong to the layer inside."""
        self.layer.fill(weights)

    def forward(self, inputs: Sequence[Tensor], masks: Sequence[Mask]) -> Flow:
        """(B, T, …) as (B · T, …), and back."""
        x = inputs[0]
        if x.dim() < 2:
            raise ModelError(f"its input has {x.dim()} axes; it needs (batch, steps, …)")
        found = self.layer([x.flatten(0, 1)], [None]).tensors[0]
        return Flow((found.unflatten(0, x.shape[:2]),), (masks[0],))


def unwrapped_cell(options: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """A layer "RNN" around one of Keras' cells, as the layer of the same kind."""
    cell: Any = options.get("cell")
    if not isinstance(cell, dict):
        return None
    found = cast(dict[str, Any], cell)
    name, inner = found.get("class_name"), found.get("config")
    if not isinstance(name, str) or name not in CELLS or not isinstance(inner, dict):
        return None
    outer = {key: value for key, value in options.items() if key != "cell"}
    return name.removesuffix("Cell"), {**cast(dict[str, Any], inner), **outer}
