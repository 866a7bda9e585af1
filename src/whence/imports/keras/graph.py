"""The configuration of a Keras model as plain data: its layers, and which layer's output goes into which. Nothing is run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from whence.errors import ModelError
from whence.imports.keras.table import LAYERS, OPERATIONS
from whence.imports.keras.wrappers import unwrapped_cell
from whence.quoting import quoted, shortened

MOST_LAYERS = 2000
DEEPEST = 16  # models inside models
MODELS = ("Functional", "Model", "Sequential")
POLICIES = ("float32", "float64")
REDUCED = ("float16", "mixed_float16", "mixed_bfloat16")  # HDF5 cannot hold weights in bfloat16
CALL_OPTIONS = ("use_causal_mask",)  # arguments of a call that are as good as options of the layer
IGNORED_CALLS = ("training",)


class Reference(NamedTuple):
    """An output of a call of a layer."""

    layer: str
    call: int
    output: int


@dataclass(frozen=True)
class Node:
    """One call of a layer."""

    inputs: tuple[Reference, ...]
    masks: tuple[Reference | None, ...] | None = None  # given in the graph, in the order of the inputs


@dataclass
class Leaf:
    """A layer that holds no other layers with names."""

    name: str
    kind: str  # its line of the table
    class_name: str
    options: dict[str, Any]
    trainable: bool = True
    nodes: list[Node] = field(default_factory=list[Node])


@dataclass
class Input:
    """An input of a model; None in its shape stands for any size."""

    name: str
    shape: list[int | None] | None  # with the batch
    dtype: str = "float32"
    nodes: list[Node] = field(default_factory=list[Node])


@dataclass
class Model:
    """A model, whose children are in the order of the file."""

    name: str
    class_name: str
    children: dict[str, "Leaf | Input | Model"]
    inputs: dict[str, Reference]  # by name
    outputs: dict[str, Reference]
    trainable: bool = True
    nodes: list[Node] = field(default_factory=list[Node])

    def leaves(self) -> Iterator[Leaf]:
        """All layers inside, in the order of the file."""
        for child in self.children.values():
            if isinstance(child, Model):
                yield from child.leaves()
            elif isinstance(child, Leaf):
                yield child


class Reader:
    """Reads one file's configuration; what is not supported is collected, and named at once."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.problems: list[str] = []
        self.is_reduced = False  # whether a layer computes in less than single precision
        self._count = 0

    def model(self, found: object, depth: int = 0) -> Model:
        """A model out of its serialised form."""
        serialised = required(found, dict, "a model")
        class_name, config = serialised.get("class_name"), serialised.get("config")
        if depth > DEEPEST:
            raise ModelError(f"it holds models inside models, more than {DEEPEST} deep")
        if class_name == "Sequential":
            return self._sequential(config, depth)
        if class_name not in MODELS:
            raise ModelError(f"its class is {quoted(class_name)}; known are {', '.join(MODELS)}")
        return self._functional(required(config, dict, "a model's config"), depth)

    def _sequential(self, config: Any, depth: int) -> Model:
        options: dict[str, Any] = {"layers": config} if isinstance(config, list) else required(config, dict, "a model's config")
        name = _name(options.get("name", "sequential"))
        serialised = required(options.get("layers"), list, f"the layers of {name!r}")
        children: dict[str, Leaf | Input | Model] = {}
        for each in serialised:
            _add(children, self._child(each, depth))
        children = _with_input(children, serialised, options.get("build_input_shape"))
        if len(children) < 2:
            raise ModelError(f"the model {name!r} has no layers")
        before: Reference | None = None
        for key, child in children.items():
            if before is not None:
                child.nodes.append(Node((before,)))
            before = Reference(key, 0, 0)
        assert before is not None
        first = next(iter(children))
        ends = {first: Reference(first, 0, 0)}, {before.layer: before}
        return Model(name, "Sequential", children, *ends, _flag(options, "trainable"))

    def _functional(self, config: dict[str, Any], depth: int) -> Model:
        name = _name(config.get("name", "model"))
        children: dict[str, Leaf | Input | Model] = {}
        serialised = required(config.get("layers"), list, f"the layers of {name!r}")
        numbering: dict[str, bool] = {}  # whether the calls of a nested model are counted from 1
        nodes: dict[str, list[Any]] = {}
        for each in serialised:
            child = self._child(each, depth)
            key = _name(each.get("name", child.name))
            child.name = key
            _add(children, child)
            nodes[key] = required(each.get("inbound_nodes", []), list, f"the inputs of {key!r}")
        is_new = any(isinstance(node, dict) for found in nodes.values() for node in found)
        for key, child in children.items():
            if isinstance(child, Model):
                numbering[key] = not is_new
        for key, found in nodes.items():
            child = children[key]
            if not isinstance(child, Input):
                child.nodes.extend(self._nodes(child, found))
        for child in children.values():
            child.nodes[:] = [_renumbered(node, children, numbering) for node in child.nodes]
        outer = {key: not is_new or cast(Model, children[key]).class_name != "Sequential" for key in numbering}
        ends = [
            {end: _renumber(each, children, outer) for end, each in _references(config.get(key), key).items()} for key in ENDS
        ]
        if not ends[0] or not ends[1]:
            raise ModelError(f"the model {name!r} has no inputs or no outputs")
        return Model(name, "Functional", children, ends[0], ends[1], _flag(config, "trainable"))

    def _child(self, found: object, depth: int) -> "Leaf | Input | Model":
        """A layer or model inside a model."""
        self._count += 1
        if self._count > MOST_LAYERS:
            raise ModelError(f"it has more than {MOST_LAYERS} layers")
        serialised = required(found, dict, "a layer")
        class_name, config = serialised.get("class_name"), serialised.get("config")
        if not isinstance(class_name, str):
            raise ModelError(f"the class of a layer is {quoted(class_name)}")
        if class_name in MODELS:
            return self.model(serialised, depth + 1)
        options = required(config, dict, f"the config of a layer {quoted(class_name)}")
        name = _name(options.get("name", serialised.get("name", class_name)))
        if class_name == "InputLayer":
            return _input(name, options)
        leaf = self._leaf(name, class_name, options, serialised)
        if not leaf.kind.endswith(" operation"):
            self._read_policy(name, options.get("dtype"))
        return leaf

    def _leaf(self, name: str, class_name: str, options: dict[str, Any], serialised: Mapping[str, Any]) -> Leaf:
        unwrapped = unwrapped_cell(options) if class_name == "RNN" else None
        kind, own = unwrapped or (class_name, options)
        if _is_operation(class_name, serialised):
            kind = f"{class_name} operation" if class_name in OPERATIONS else ""
        elif kind not in LAYERS:
            kind = ""
        if not kind:
            self.problems.append(f"{quoted(name)} is a {shortened(class_name)} layer")
            return Leaf(name, "", class_name, {})
        return Leaf(name, kind, class_name, dict(own), _flag(options, "trainable"))

    def _read_policy(self, name: str, policy: Any) -> None:
        """A layer's precision; weights are in single precision here."""
        if isinstance(policy, dict):
            inner = cast(dict[str, Any], policy).get("config")
            policy = cast(dict[str, Any], inner).get("name") if isinstance(inner, dict) else "an unknown precision"
        if policy in REDUCED:
            self.is_reduced = True
        elif policy is not None and policy not in POLICIES and policy not in ("int32", "int64"):
            self.problems.append(f"{quoted(name)} computes in {quoted(policy)}")

    def _nodes(self, child: "Leaf | Model", found: Sequence[Any]) -> Iterator[Node]:
        if isinstance(child, Leaf) and not child.kind:
            yield from [Node(())] * len(found)
            return
        for node in found:
            try:
                if isinstance(node, dict):
                    yield self._new_node(child, cast(dict[str, Any], node))
                else:
                    yield self._old_node(child, required(node, list, f"an input of {child.name!r}"))
            except ModelError as error:
                self.problems.append(f"{quoted(child.name)} is called in a way that is not supported: {error}")
                yield Node(())

    def _new_node(self, child: "Leaf | Model", node: dict[str, Any]) -> Node:
        """Keras 3: positional and named arguments, in which tensors are objects."""
        args, kwargs = required(node.get("args"), list, "args"), required(node.get("kwargs"), dict, "kwargs")
        inputs: list[Reference] = []
        for place, value in enumerate(args):
            for each in cast(list[Any], value) if isinstance(value, list) else [value]:
                if isinstance(each, (int, float)) and isinstance(child, Leaf) and child.kind.endswith(" operation"):
                    _merge_option(child, "constant", each)
                    _merge_option(child, "constant_first", place == 0)
                elif each is not None:
                    inputs.append(_tensor(each))
        return self._finished(child, inputs, kwargs, _tensor)

    def _old_node(self, child: "Leaf | Model", node: list[Any]) -> Node:
        """Keras 2: a list of [layer, call, output, named arguments of the call]."""
        listed: list[Any] = [node] if node and isinstance(node[0], str) else node
        inputs = [_reference(required(each, list, "an input")[:3]) for each in listed]
        kwargs: dict[str, Any] = {}
        for each in listed:
            if len(each) > 3:
                kwargs.update(required(each[3], dict, "the arguments of a call"))
        return self._finished(child, inputs, kwargs, _reference)

    def _finished(self, child: "Leaf | Model", inputs: list[Reference], kwargs: Mapping[str, Any], read: Any) -> Node:
        """A call with its named arguments."""
        masks: tuple[Reference | None, ...] | None = None
        for key in ("value", "key", "initial_state"):
            value: Any = kwargs.get(key)
            if value is not None:
                inputs += [read(each) for each in _listed(value)]
        for key, value in kwargs.items():
            if key in ("value", "key", "initial_state", *IGNORED_CALLS) or value is None or value is False:
                continue
            if key == "mask":
                masks = tuple(None if each is None else read(each) for each in _listed(value))
            elif (key in CALL_OPTIONS and isinstance(child, Leaf)) or (
                key == "axis" and isinstance(child, Leaf) and child.kind.endswith(" operation")
            ):
                _merge_option(child, key, value)
            else:
                raise ModelError(f"its argument {quoted(key)} is {quoted(value)}")
        if kwargs.get("initial_state") is not None and masks is None and self.version >= 3 and isinstance(child, Leaf):
            _merge_option(child, "ignores_mask", True)  # Keras 3 finds a layer's mask only if it has one argument
        return Node(tuple(inputs), masks)


ENDS = ("input_layers", "output_layers")


def required(value: object, kind: type, name: str) -> Any:
    """A value of a kind, or an error that names it."""
    if not isinstance(value, kind):
        raise ModelError(f"{name} is {quoted(value)}; it must be {'an object' if kind is dict else 'a list'}")
    return value


def _listed(value: Any) -> list[Any]:
    """One reference or several, as a list."""
    if isinstance(value, dict):
        return [value]
    found = required(value, list, "an argument")
    return [found] if found and isinstance(found[0], str) else found


def _name(value: object) -> str:
    if not isinstance(value, str) or not value or len(value) > 500:
        raise ModelError(f"a layer is called {quoted(value)}; names are short texts")
    return value


def _flag(options: Mapping[str, Any], key: str) -> bool:
    return options.get(key) is not False


def _add(children: "dict[str, Leaf | Input | Model]", child: "Leaf | Input | Model") -> None:
    if child.name in children:
        raise ModelError(f"two layers are called {quoted(child.name)}")
    children[child.name] = child


def _input(name: str, options: Mapping[str, Any]) -> Input:
    shape = options.get("batch_shape", options.get("batch_input_shape"))
    dtype = options.get("dtype", "float32")
    if options.get("sparse") or options.get("ragged"):
        raise ModelError(f"the input {quoted(name)} is sparse or ragged, which is not supported")
    return Input(name, _shape(shape), dtype if isinstance(dtype, str) else "float32")


def _shape(found: Any) -> list[int | None] | None:
    """The shape of an input, with the batch."""
    if found is None:
        return None
    if isinstance(found, dict):
        found = cast(dict[str, Any], found).get("items")
    shape = required(found, list, "the shape of an input")
    sizes_fit = all(n is None or (isinstance(n, int) and not isinstance(n, bool) and 1 <= n <= 2**20) for n in shape)
    if not 1 <= len(shape) <= 6 or not sizes_fit:
        raise ModelError(f"the shape of an input is {quoted(shape)}")
    return shape


def _with_input(
    children: "dict[str, Leaf | Input | Model]", serialised: Sequence[Any], built: Any
) -> "dict[str, Leaf | Input | Model]":
    """A sequential model's layers behind an input; older files keep its shape in the first layer."""
    if not children or isinstance(next(iter(children.values())), Input):
        return children
    first = next(iter(children.values()))
    shape = built
    if isinstance(first, Leaf):
        shape = first.options.get("batch_input_shape", first.options.get("batch_shape", built))
    elif isinstance(first, Model) and shape is None:
        start = first.children[next(iter(first.inputs.values())).layer]
        shape = start.shape if isinstance(start, Input) else None
    name = "input"
    while name in children:
        name += "_"
    return {name: Input(name, _shape(shape)), **children}


def _is_operation(class_name: str, serialised: Mapping[str, Any]) -> bool:
    """Whether it is an operation of Keras 3 and no layer; in .h5 files only its arguments tell."""
    module = serialised.get("module")
    if isinstance(module, str):
        return module.startswith("keras.src.ops")
    if class_name in OPERATIONS and class_name not in LAYERS:
        return True
    nodes = serialised.get("inbound_nodes")
    first: Any = cast(list[Any], nodes)[0] if isinstance(nodes, list) and nodes else None
    if class_name not in OPERATIONS or not isinstance(first, dict):
        return False
    args: Any = cast(dict[str, Any], first).get("args")
    return isinstance(args, list) and len(cast(list[Any], args)) > 1


def _merge_option(child: Leaf, key: str, value: Any) -> None:
    """An argument of a call as an option of the layer, which all its calls must share."""
    if key in child.options and child.options[key] != value:
        raise ModelError(f"its calls differ in {key}")
    child.options[key] = value


def _tensor(found: Any) -> Reference:
    """Keras 3's form of a reference."""
    tensor = required(found, dict, "an input")
    config = required(tensor.get("config"), dict, "an input")
    if tensor.get("class_name") != "__keras_tensor__":
        raise ModelError(f"an input is {quoted(found)}")
    return _reference(config.get("keras_history"))


def _reference(found: Any) -> Reference:
    """[layer, call, output]."""
    value = required(found, list, "a reference")
    numbers = value[1:3]
    is_one = len(value) == 3 and isinstance(value[0], str)
    if not is_one or not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**16 for n in numbers):
        raise ModelError(f"a reference is {quoted(found)}; it must be [layer, call, output]")
    return Reference(*value)


def _references(found: Any, name: str) -> dict[str, Reference]:
    """The inputs or outputs of a model by name: one reference, or a list or object of them. Keras sorts an object's names."""
    if isinstance(found, dict):
        entries = cast(dict[str, Any], found)
        keys, listed = sorted(entries), [entries[key] for key in sorted(entries)]
    else:
        listed = required(found, list, name)
        listed = [listed] if listed and isinstance(listed[0], str) else listed
        keys = []
    if len(listed) > 64:
        raise ModelError(f"{name} has {len(listed)} entries; at most 64 are read")
    references = [_reference(each) for each in listed]
    return dict(zip(keys or _names_of(references), references, strict=True))


def _names_of(references: Sequence[Reference]) -> list[str]:
    """The names of the layers; one that occurs again has a number."""
    names: list[str] = []
    for each in references:
        name, n = each.layer, 1
        while name in names:
            n += 1
            name = f"{each.layer}_{n}"
        names.append(name)
    return names


def _renumbered(node: Node, children: "Mapping[str, Leaf | Input | Model]", numbering: Mapping[str, bool]) -> Node:
    masks = node.masks
    if masks is not None:
        masks = tuple(None if each is None else _renumber(each, children, numbering) for each in masks)
    return Node(tuple(_renumber(each, children, numbering) for each in node.inputs), masks)


def _renumber(reference: Reference, children: "Mapping[str, Leaf | Input | Model]", from_one: Mapping[str, bool]) -> Reference:
    """A reference whose calls are counted from 0; Keras counts those of nested models from 1, with exceptions."""
    child = children.get(reference.layer)
    if child is None:
        raise ModelError(f"the layer {quoted(reference.layer)} is named as an input and is not there")
    calls = 1 if isinstance(child, Input) else len(child.nodes)
    call = reference.call - bool(from_one.get(reference.layer))
    if not 0 <= call < calls and isinstance(child, Model):
        call = reference.call if call < 0 else reference.call - 1
    if not 0 <= call < calls:
        raise ModelError(f"call {reference.call} of the layer {quoted(reference.layer)} is named as an input and is not there")
    return reference._replace(call=call)


def require_own_objects(config: object) -> None:
    """Refuse what is not Keras' own anywhere in a configuration: other modules, registered names, functions."""
    left: list[Any] = [config]
    while left:
        found = left.pop()
        if isinstance(found, list):
            left.extend(cast(list[Any], found))
        elif isinstance(found, dict):
            entry = cast(dict[str, Any], found)
            left.extend(entry.values())
            if "class_name" in entry:
                _require_own(entry)


def _require_own(entry: Mapping[str, Any]) -> None:
    class_name, module, registered = entry["class_name"], entry.get("module"), entry.get("registered_name")
    if class_name == "Lambda" or class_name in ("__lambda__", "__typespec__"):
        raise ModelError(
            "it holds a Lambda layer, which is Python code: it is not run; replace it by a layer of Keras and save again"
        )
    is_function = module == "builtins" and class_name == "function" and isinstance(entry.get("config"), str)
    if module is not None and not is_function and not (module == "keras" or str(module).startswith("keras.")):
        raise ModelError(f"it holds {quoted(class_name)} of {quoted(module)}; only objects of Keras itself are read")
    if registered is not None and registered != class_name:
        raise ModelError(
            f"it holds {quoted(registered)}, a class registered by its author; only objects of Keras itself are read"
        )
