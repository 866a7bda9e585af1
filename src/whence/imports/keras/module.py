"""The imported model: an ordinary `nn.Module`, which can be saved as JSON and weights and built again without Keras or h5py."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from whence.errors import ModelError
from whence.imports.keras.basic import Embedding
from whence.imports.keras.layer import Flow, KerasLayer, Mask
from whence.imports.keras.options import Options, Shapes
from whence.imports.keras.plan import Plan, PlannedCall, PlannedInput, PlannedLayer, read_settings
from whence.imports.keras.table import LAYERS, OPERATIONS
from whence.quoting import quoted, shortened

MOST_WEIGHTS = 2**27  # numbers
LARGEST_TENSOR = 2**26  # numbers in one output of a layer, for two short samples
LENGTHS = (8, 64, 512)  # steps that are tried where the file leaves their number open
KINDS: Mapping[str, type[KerasLayer]] = {**LAYERS, **{f"{name} operation": layer for name, layer in OPERATIONS.items()}}


class KerasModule(nn.Module):
    """A Keras model in PyTorch. `inputs` and `outputs` are the names of what it takes and returns, in their order.

    `proof` says what it has been compared with. Recurrent layers that are stateful in Keras begin with zeros at every call.
    """

    def __init__(self, plan: Plan, *, version: int = 3) -> None:
        super().__init__()
        self._plan = plan
        self.inputs = tuple(each.name for each in plan.inputs)
        self.outputs = tuple(plan.names)
        self._reads_ids = any(layer.kind == "Embedding" for layer in plan.layers)
        self.proof = "not compared"
        self.layers = nn.ModuleDict()
        names = _module_names(plan.layers)
        problems: list[str] = []
        for name, planned in zip(names, plan.layers, strict=True):
            try:
                self.layers[name] = made_layer(planned, version)
            except ModelError as error:
                kind = planned.kind if planned.kind in KINDS else quoted(planned.kind)
                problems.append(f"{quoted(planned.name)} ({kind}): {error}")
        if problems:
            raise ModelError(listed(problems))
        self._calls = [(cast(KerasLayer, self.layers[names[call.layer]]), call) for call in plan.calls]

    @classmethod
    def built(cls, settings: object) -> "KerasModule":
        """A module without weights, from what `settings()` gave; untrusted settings are checked like a file.

        module = KerasModule.built(json.loads(text)); module.load_state_dict(weights)
        """
        device = torch.get_default_device()
        module = checked(read_settings(settings))[0]
        module = module if device.type == "meta" else module.to_empty(device=device)
        module.proof = "built from its settings"
        return module

    @property
    def length(self) -> int | None:
        """The number of steps that every input of one axis must have, such as 12 for `Input((12,))`; None if any is read."""
        shapes = [each.shape or [] for each in self._plan.inputs]
        return next((shape[1] for shape in shapes if len(shape) == 2 and shape[1] is not None), None)

    @property
    def is_masked(self) -> bool:
        """Whether an embedding masks id 0, so that padding changes nothing."""
        return any(isinstance(layer, Embedding) and layer.mask_zero for layer in self.modules())

    def settings(self) -> dict[str, Any]:
        """What the module is made of, without its weights, as JSON-able data."""
        return json.loads(json.dumps(self._plan.settings()))

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The model's output, or a tuple of several."""
        if len(inputs) != len(self.inputs):
            raise ModelError(f"the model is given {len(inputs)} inputs; it has {len(self.inputs)}: {', '.join(self.inputs)}")
        flows = [Flow((each if self._reads_ids else _numbers(each),), (None,)) for each in inputs]
        for layer, call in self._calls:
            flows.append(called(layer, call, flows))
        outputs = tuple(flows[each.source].tensors[each.output] for each in self._plan.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def run_on_meta(self, length: int) -> None:
        """Compare all sizes with one another, without computing: on inputs of a number of steps."""
        flows = [Flow((meta_input(each, length),), (None,)) for each in self._plan.inputs]
        if any(flow.tensors[0].numel() > LARGEST_TENSOR for flow in flows):
            raise ModelError(
                f"its inputs are of the shapes {[tuple(flow.tensors[0].shape) for flow in flows]}, which is too large"
            )
        for layer, call in self._calls:
            name = self._plan.layers[call.layer].name
            try:
                flow = called(layer, call, flows)
            except ModelError as error:
                raise ModelError(f"{quoted(name)}: {error}") from None
            except Exception as error:
                raise ModelError(f"{quoted(name)} does not fit its inputs: {shortened(error)}") from None
            if any(tensor.numel() > LARGEST_TENSOR for tensor in flow.tensors):
                raise ModelError(f"{quoted(name)} has an output of {max(t.numel() for t in flow.tensors)} numbers")
            flows.append(flow)
        for each in self._plan.outputs:
            if each.output >= len(flows[each.source].tensors):
                raise ModelError(f"output {each.output} of a layer is an output of the model and is not there")
            if not flows[each.source].tensors[each.output].is_floating_point():
                raise ModelError("an output of the model is a mask or holds whole numbers")


def _numbers(given: Tensor) -> Tensor:
    """An input that holds no ids: whole numbers as floats, and masks as they are."""
    return given if given.is_floating_point() or given.dtype == torch.bool else given.float()


def made_layer(planned: PlannedLayer, version: int) -> KerasLayer:
    """A layer without its weights; the plan then holds its options in the form in which they are saved."""
    if planned.kind not in KINDS:
        raise ModelError("there is no such layer")
    options, shapes = Options(planned.options, version=version), Shapes(planned.shapes)
    layer = KINDS[planned.kind](options, shapes)
    shapes.require_no_more()
    options.require_nothing_else()
    planned.options = options.taken
    return layer


def called(layer: KerasLayer, call: PlannedCall, flows: Sequence[Flow]) -> Flow:
    """One call of a layer."""
    if not layer.least_inputs <= len(call.inputs) <= layer.most_inputs:
        raise ModelError(f"it is given {len(call.inputs)} inputs; it takes {layer.least_inputs} to {layer.most_inputs}")
    inputs = tuple(_output(flows, each.source, each.output) for each in call.inputs)
    masks: list[Mask] = [flows[each.source].masks[each.output] for each in call.inputs]
    for n, each in enumerate((call.masks or ())[: len(masks)]):
        if each is not None:
            masks[n] = _output(flows, each.source, each.output)
    return layer(inputs, tuple(masks))


def _output(flows: Sequence[Flow], source: int, output: int) -> Tensor:
    if output >= len(flows[source].tensors):
        raise ModelError(f"it is given output {output} of a layer that has {len(flows[source].tensors)}")
    return flows[source].tensors[output]


def checked(plan: Plan, *, version: int = 3) -> tuple[KerasModule, int]:
    """A module on the meta device, of which all sizes fit, and a number of steps with which they do."""
    numbers = 0
    for layer in plan.layers:
        for shape in layer.shapes:
            size = 1
            for length in shape:
                size *= length
            numbers += size
    if numbers > MOST_WEIGHTS:
        raise ModelError(f"it has {numbers} weights; at most {MOST_WEIGHTS} are read")
    with torch.device("meta"), torch.no_grad():
        module = KerasModule(plan, version=version).eval().requires_grad_(False)
        is_open = any(None in (each.shape or [None])[1:] for each in plan.inputs)
        for length in LENGTHS if is_open else LENGTHS[:1]:
            try:
                module.run_on_meta(length)
                return module, length
            except ModelError:
                if length == LENGTHS[-1] or not is_open:
                    raise
    raise AssertionError("one of the lengths is the last one")


def input_shape(entry: PlannedInput, length: int) -> list[int]:
    """A shape for a trial: two samples, and some steps where any number may be."""
    shape = entry.shape
    if shape is None:
        raise ModelError(f"the shape of the input {quoted(entry.name)} is not in the file")
    return [shape[0] or 2, *(length if size is None else size for size in shape[1:])]


def meta_input(entry: PlannedInput, length: int) -> Tensor:
    """An input without numbers."""
    dtype = torch.float32 if entry.words is None else torch.int64
    return torch.empty(input_shape(entry, length), dtype=dtype, device="meta")


def _module_names(layers: Sequence[PlannedLayer]) -> list[str]:
    """Keras' names where they can be names in a module; otherwise something similar."""
    taken, names = set(dir(nn.ModuleDict())), list[str]()
    for layer in layers:
        plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in layer.name[:60]) or "layer"
        name, n = plain, 1
        while name in taken:
            n += 1
            name = f"{plain}_{n}"
        taken.add(name)
        names.append(name)
    return names


def listed(problems: Sequence[str]) -> str:
    """Everything that is not supported, in one sentence."""
    shown = "; ".join(problems[:20]) + (f"; and {len(problems) - 20} more" if len(problems) > 20 else "")
    return f"not supported: {shown}"
