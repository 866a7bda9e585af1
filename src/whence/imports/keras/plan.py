"""A model as a list of calls, each of earlier results: what a module is made of, and what is saved of it as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from whence.errors import ModelError
from whence.imports.keras.graph import MOST_LAYERS, Input, Leaf, Model, Node, Reference, required
from whence.quoting import quoted

MOST_CALLS = 10_000
FORMAT = 1


class Result(NamedTuple):
    """An output of an input (numbered first) or of a call."""

    source: int
    output: int


@dataclass
class PlannedInput:
    """An input; `words` is the number of token ids it may hold, None if it holds numbers."""

    name: str
    shape: list[int | None] | None
    words: int | None = None
    is_whole: bool = False  # whether Keras takes whole numbers only; not saved


@dataclass
class PlannedLayer:
    """A layer: its line of the table, its options, and the shapes of its weights in Keras' form."""

    name: str
    kind: str
    options: dict[str, Any]
    shapes: list[list[int]] = field(default_factory=list[list[int]])


@dataclass
class PlannedCall:
    """A call of a layer; masks that the graph gives replace those of the inputs."""

    layer: int
    inputs: list[Result]
    masks: list[Result | None] | None = None


@dataclass
class Plan:
    """A whole model."""

    inputs: list[PlannedInput]
    layers: list[PlannedLayer]
    calls: list[PlannedCall]
    outputs: list[Result]
    names: list[str]  # of the outputs

    def settings(self) -> dict[str, Any]:
        """The plan as JSON-able data."""
        return {
            "format": FORMAT,
            "inputs": [{"name": each.name, "shape": each.shape, "words": each.words} for each in self.inputs],
            "layers": [
                {"name": each.name, "kind": each.kind, "options": each.options, "shapes": each.shapes} for each in self.layers
            ],
            "calls": [
                {"layer": each.layer, "inputs": [list(one) for one in each.inputs], "masks": _written(each.masks)}
                for each in self.calls
            ],
            "outputs": [list(each) for each in self.outputs],
            "names": self.names,
        }


def _written(masks: Sequence[Result | None] | None) -> list[list[int] | None] | None:
    return None if masks is None else [None if each is None else list(each) for each in masks]


def read_settings(settings: object) -> Plan:
    """A plan out of untrusted data. Calls use earlier results only, so there is no cycle."""
    found = required(settings, dict, "the settings of a Keras model")
    if found.get("format") != FORMAT:
        raise ModelError(f"the format of a Keras model is {quoted(found.get('format'))}; this version reads {FORMAT}")
    inputs = [_read_input(each) for each in _list(found, "inputs", 64)]
    layers = [_read_layer(each) for each in _list(found, "layers", MOST_LAYERS)]
    calls: list[PlannedCall] = []
    for each in _list(found, "calls", MOST_CALLS):
        known = len(inputs) + len(calls)
        call = required(each, dict, "a call")
        layer = call.get("layer")
        if not isinstance(layer, int) or isinstance(layer, bool) or not 0 <= layer < len(layers):
            raise ModelError(f"a call is of layer {quoted(layer)}, which is not there")
        masks: Any = call.get("masks")
        read_masks = (
            None if masks is None else [None if m is None else _read_result(m, known) for m in _list(call, "masks", 64)]
        )
        calls.append(PlannedCall(layer, [_read_result(r, known) for r in _list(call, "inputs", 64)], read_masks))
    outputs = [_read_result(each, len(inputs) + len(calls)) for each in _list(found, "outputs", 64)]
    if not inputs or not outputs:
        raise ModelError("a Keras model needs inputs and outputs")
    names = _list({"names": [f"output_{n}" for n in range(len(outputs))], **found}, "names", 64)
    if len(names) != len(outputs) or not all(isinstance(each, str) for each in names):
        raise ModelError(f"the names of the outputs are {quoted(names)}; they must be {len(outputs)} texts")
    return Plan(inputs, layers, calls, outputs, names)


def _list(found: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = required(found.get(key), list, key)
    if len(value) > most:
        raise ModelError(f"{key} has {len(value)} entries; at most {most} are read")
    return value


def _read_input(found: Any) -> PlannedInput:
    entry = required(found, dict, "an input")
    name, shape, words = entry.get("name"), entry.get("shape"), entry.get("words")
    if not isinstance(name, str) or not (words is None or _is_size(words, 2**24)):
        raise ModelError(f"an input is {quoted(entry)}")
    if shape is not None:
        sizes = required(shape, list, "the shape of an input")
        if not 1 <= len(sizes) <= 6 or not all(n is None or _is_size(n, 2**20) for n in sizes):
            raise ModelError(f"the shape of an input is {quoted(sizes)}")
    return PlannedInput(name, shape, words)


def _read_layer(found: Any) -> PlannedLayer:
    entry = required(found, dict, "a layer")
    name, kind = entry.get("name"), entry.get("kind")
    if not isinstance(name, str) or not isinstance(kind, str):
        raise ModelError(f"a layer is {quoted(entry)}")
    shapes = [required(shape, list, "the shape of a weight") for shape in _list(entry, "shapes", 64)]
    if not all(len(shape) <= 8 and all(_is_size(n, 2**28) for n in shape) for shape in shapes):
        raise ModelError(f"the shapes of the weights of {quoted(name)} are {quoted(shapes)}")
    return PlannedLayer(name, kind, required(entry.get("options"), dict, "the options of a layer"), shapes)


def _read_result(found: Any, known: int) -> Result:
    value = required(found, list, "a reference")
    if len(value) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) for n in value):
        raise ModelError(f"a reference is {quoted(value)}; it must be [source, output]")
    if not 0 <= value[0] < known or not 0 <= value[1] < 64:
        raise ModelError(f"a reference is {quoted(value)}, which is not there before it is used")
    return Result(*value)


def _is_size(value: object, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= largest


def planned(model: Model) -> tuple[Plan, list[Leaf]]:
    """The plan of a model, and the layers of the file in the order of the plan's."""
    inputs = {name: cast(Input, model.children[each.layer]) for name, each in model.inputs.items()}
    if not all(isinstance(each, Input) for each in inputs.values()):
        raise ModelError("an input of the model is no input layer")
    flat = _Flat([PlannedInput(name, each.shape, is_whole="int" in each.dtype) for name, each in inputs.items()])
    outputs = flat.run(model, [Result(n, 0) for n in range(len(inputs))])
    plan = Plan(flat.inputs, flat.layers, flat.calls, outputs, list(model.outputs))
    _find_words(plan)
    return plan, flat.leaves


def _find_words(plan: Plan) -> None:
    """Mark the inputs that go into an embedding."""
    for call in plan.calls:
        layer = plan.layers[call.layer]
        words = layer.options.get("input_dim") if layer.kind == "Embedding" else None
        if call.inputs and call.inputs[0].source < len(plan.inputs) and isinstance(words, int):
            entry = plan.inputs[call.inputs[0].source]
            entry.words = words if entry.words is None else min(words, entry.words)


class _Flat:
    """The calls of a model and of the models inside it, in an order in which every input is there before it is used."""

    def __init__(self, inputs: list[PlannedInput]) -> None:
        self.inputs, self.layers, self.leaves = inputs, list[PlannedLayer](), list[Leaf]()
        self.calls: list[PlannedCall] = []
        self._numbers: dict[int, int] = {}
        self._carrier: Leaf | None = None

    def run(self, model: Model, given: Sequence[Result]) -> list[Result]:
        """Add a model's calls; its inputs are given."""
        results: dict[tuple[str, int], list[Result]] = {}
        if len(given) != len(model.inputs):
            raise ModelError(f"the model {quoted(model.name)} is given {len(given)} inputs and has {len(model.inputs)}")
        for reference, result in zip(model.inputs.values(), given, strict=True):
            results[reference.layer, 0] = [result]
        for name, call in _ordered(model):
            child = model.children[name]
            if isinstance(child, Input):
                if (name, call) not in results:
                    raise ModelError(f"the input {quoted(name)} is no input of the model")
                continue
            node = child.nodes[call]
            inputs = [_result(results, each) for each in node.inputs]
            masks = None if node.masks is None else [None if m is None else _result(results, m) for m in node.masks]
            if isinstance(child, Model):
                results[name, call] = self.run(child, self._carrying(inputs, masks))
            else:
                results[name, call] = self._call(child, inputs, masks)
        return [_result(results, each) for each in model.outputs.values()]

    def _call(self, leaf: Leaf, inputs: list[Result], masks: list[Result | None] | None) -> list[Result]:
        """One call of a layer. How many outputs it has is known when the layer is."""
        if id(leaf) not in self._numbers:
            self._numbers[id(leaf)] = len(self.layers)
            self.layers.append(PlannedLayer(leaf.name, leaf.kind, leaf.options))
            self.leaves.append(leaf)
        if len(self.calls) >= MOST_CALLS:
            raise ModelError(f"it calls its layers more than {MOST_CALLS} times")
        self.calls.append(PlannedCall(self._numbers[id(leaf)], inputs, masks))
        source = len(self.inputs) + len(self.calls) - 1
        return [Result(source, output) for output in range(8)]

    def _carrying(self, inputs: list[Result], masks: list[Result | None] | None) -> list[Result]:
        """The inputs of a model with the masks that its call gives them."""
        if masks is None:
            return inputs
        self._carrier = self._carrier or Leaf("mask", "Identity", "Identity", {})
        carried = list(inputs)
        for n, mask in enumerate(masks[: len(inputs)]):
            if mask is not None:
                carried[n] = self._call(self._carrier, [inputs[n]], [mask])[0]
        return carried


def _result(results: Mapping[tuple[str, int], Sequence[Result]], reference: Reference) -> Result:
    found = results[reference.layer, reference.call]
    if reference.output >= len(found):
        raise ModelError(f"output {reference.output} of the layer {quoted(reference.layer)} is not there")
    return found[reference.output]


def _ordered(model: Model) -> list[tuple[str, int]]:
    """The calls that the outputs need, each after those it needs itself."""
    order: list[tuple[str, int]] = []
    state: dict[tuple[str, int], bool] = {}  # False while its inputs are looked for, True when it stands in the order
    left = [(each.layer, each.call) for each in reversed(model.outputs.values())]
    while left:
        key = left[-1]
        if state.get(key):
            left.pop()
            continue
        needed = [(each.layer, each.call) for each in _needs(model, key)]
        missing = [each for each in needed if not state.get(each)]
        if not missing:
            state[key] = True
            order.append(left.pop())
        elif any(each in state for each in missing):
            raise ModelError(f"the layer {quoted(key[0])} needs its own output: the graph has a cycle")
        else:
            state[key] = False
            left.extend(reversed(list(dict.fromkeys(missing))))
    return order


def _needs(model: Model, key: tuple[str, int]) -> list[Reference]:
    child = model.children[key[0]]
    if isinstance(child, Input):
        return []
    node: Node = child.nodes[key[1]]
    if not node.inputs:
        raise ModelError(f"the layer {quoted(key[0])} has no inputs")
    return [*node.inputs, *(mask for mask in node.masks or () if mask is not None)]
