"""A model that runs: an `nn.Module` with one part for each node. It needs no onnx, so a saved model loads without it."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from whence.errors import InputError, ModelError, WhenceError
from whence.imports.onnx.graph import MOST_NUMBERS, Constant, Graph, Model, Node, Number, all_nodes, model_of
from whence.imports.onnx.operators.elementwise import tensor_of
from whence.imports.onnx.operators.shapes import from_front
from whence.imports.onnx.operators.table import OPERATORS, Operator, attribute_problems
from whence.imports.onnx.recurrent import GATES, Recurrent, cell_of, is_recurrent, weight_names
from whence.imports.onnx.run import Ints, Run
from whence.imports.onnx.tables import tables
from whence.quoting import quoted, shortened

Value = Tensor | Number
Values = MutableMapping[str, Value]

BODIES: dict[str, tuple[str, ...]] = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}
SCAN_ATTRIBUTES: dict[str, object] = {
    "num_scan_inputs": int,
    "scan_input_axes": Ints,
    "scan_input_directions": Ints,
    "scan_output_axes": Ints,
    "scan_output_directions": Ints,
}


class OnnxModule(nn.Module):
    """An ONNX model as a module. `inputs` and `outputs` are the file's names; `proof` says what it was compared with."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        require_known(model)
        self.model = model
        self.inputs = tuple(each.name for each in model.inputs)
        self.outputs = model.graph.outputs
        self.proof = "not compared"
        embedded = tables(model)
        self.constants = _Constants({name: each for name, each in stored(model).items() if name not in embedded})
        self.tables = _Tables(embedded)
        self.body = _Body(model.graph, model.constants)
        self._numbers = {
            name: each.values[0] for name, each in model.constants.items() if each.values is not None and each.size == 1
        }
        self._whole = {
            name: _tensor(each) for name, each in model.constants.items() if each.values is not None and each.kind != "float"
        }
        self.eval().requires_grad_(False)

    @classmethod
    def built(cls, settings: object) -> "OnnxModule":
        """The module that settings describe, without its weights."""
        return cls(model_of(settings))

    def settings(self) -> dict[str, Any]:
        """What `built` makes the same module from, as data for JSON."""
        return self.model.settings()

    def take(self, numbers: Mapping[str, Tensor]) -> None:
        """Copy the weights, by the names of the model's constants."""
        with torch.no_grad():
            for name, parameter in self.constants.named_parameters():
                parameter.copy_(numbers[name])
            for name, table in self.tables.layers().items():
                table.weight.copy_(numbers[name])
            for part in self.body.modules():
                if isinstance(part, _Layer):
                    part.layer.take(*(cast(Tensor, numbers[name]) if name else None for name in part.weights))  # pyright: ignore

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The outputs in the file's order; a single one alone."""
        return self.run(inputs)

    def run(self, inputs: Sequence[Tensor], *, most_steps: int | None = None) -> Tensor | tuple[Tensor, ...]:
        """The same; loops may be limited to a number of steps."""
        if len(inputs) != len(self.inputs):
            raise InputError(f"the model got {len(inputs)} inputs; it needs {len(self.inputs)}: {', '.join(self.inputs)}")
        run, values = self._start(inputs)
        run.most_steps = most_steps
        values.update(zip(self.inputs, inputs, strict=True))
        try:
            self.body(run, values)
        except (RuntimeError, ValueError, IndexError) as error:
            if not isinstance(error, WhenceError):
                self._require_exported_sizes(inputs)
            raise
        outputs = tuple(tensor_of(run, values[name]) for name in self.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def _require_exported_sizes(self, inputs: Sequence[Tensor]) -> None:
        """After a failure, refuse inputs of other sizes than those that the file was exported for."""
        for declared, given in zip(self.model.inputs, inputs, strict=True):
            sizes, own = declared.shape or (), tuple(given.shape)
            if len(sizes) == len(own) and any(isinstance(a, int) and a != b for a, b in zip(sizes, own, strict=True)):
                shown = ", ".join("any" if size is None else str(size) for size in sizes)
                raise InputError(
                    f"{shortened(declared.name)} has the shape {own}, and the file was exported for ({shown}) alone; export it "
                    "with dynamic axes, or give inputs of that shape"
                ) from None

    def _start(self, inputs: Sequence[Tensor]) -> tuple[Run, Values]:
        """The run and the constants. Floats have the dtype of the weights, so that the model runs in double precision too."""
        embedded = self.tables.layers()
        parameters = {**dict(self.constants.named_parameters()), **{name: each.weight for name, each in embedded.items()}}
        floats = [each for each in (*self.parameters(), *inputs) if each.is_floating_point()]
        device = next((each.device for each in (*floats, *inputs)), torch.device("cpu"))
        run = Run(self.model.opset, floats[0].dtype if floats else torch.float32, device)
        values: Values = {}
        for name, constant in self.model.constants.items():
            if name in self._whole:
                values[name] = self._whole[name]
            elif name in parameters:
                kind, own = constant.kind, parameters[name]
                values[name] = own if kind == "float" else own.to(run.dtype_of(kind))
            elif constant.values is not None:
                values[name] = torch.tensor(constant.values, dtype=run.dtype, device=run.device).reshape(constant.shape)
        run.numbers, run.tables = self._numbers, embedded
        return run, values


class _Constants(nn.Module):
    """The constants that are weights, by their names."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        super().__init__()
        for name, each in constants.items():
            _require_free(self, name)
            self.register_parameter(name, nn.Parameter(torch.empty(each.shape), requires_grad=False))


class _Tables(nn.Module):
    """The constants that ids are looked up in, as embeddings by their names."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        super().__init__()
        for name, each in constants.items():
            _require_free(self, name)
            self.add_module(name, nn.Embedding.from_pretrained(torch.empty(each.shape)))

    def layers(self) -> dict[str, nn.Embedding]:
        """The embeddings."""
        return cast("dict[str, nn.Embedding]", dict(self.named_children()))


def _require_free(part: nn.Module, name: str) -> None:
    if hasattr(part, name):
        raise ModelError(f"{quoted(name)} cannot be the name of a part of a module")


def _tensor(constant: Constant) -> Tensor:
    dtype = Run(0).dtype_of(constant.kind)
    return torch.tensor(constant.values, dtype=dtype, device="cpu").reshape(constant.shape)


def stored(model: Model) -> dict[str, Constant]:
    """The constants whose numbers the module holds as they are: all but those of recurrent layers, which keep their own."""
    nodes = list(all_nodes(model.graph))
    owned = {name for node in nodes if is_recurrent(node) for name in weight_names(node) if name}
    used = {name for node in nodes for n, name in enumerate(node.inputs) if not (is_recurrent(node) and n in (1, 2, 3, 7))}
    used |= {name for graph in all_graphs(model.graph) for name in graph.outputs}
    return {name: each for name, each in model.constants.items() if each.values is None and (name not in owned or name in used)}


def all_graphs(graph: Graph) -> Iterable[Graph]:
    """A graph and those inside its nodes."""
    return [graph, *(inner for node in all_nodes(graph) for inner in node.graphs.values())]


def require_known(model: Model) -> None:
    """Refuse all nodes that cannot be run, named in one error, and weights too large to be meant."""
    unknown: dict[str, int] = {}
    problems: list[str] = []
    total = sum(each.size for each in stored(model).values())
    for node in all_nodes(model.graph):
        if is_recurrent(node):
            try:
                cell_of(node, model.constants)
            except ModelError as error:
                problems.append(str(error))
            total += sum(model.constants[name].size for name in weight_names(node) if name in model.constants)
        elif node.op in BODIES:
            problems += [f"{node.op} node {quoted(node.name)}: {each}" for each in _body_problems(node)]
        elif node.op in OPERATORS:
            problems += [f"{node.op} node {quoted(node.name)}: {each}" for each in OPERATORS[node.op].problems(node)]
        else:
            unknown[node.op] = unknown.get(node.op, 0) + 1
    if unknown:
        named = ", ".join(f"{shortened(op)} ({count} ×)" if count > 1 else shortened(op) for op, count in unknown.items())
        problems.insert(0, f"operators that are not known: {named}")
    if problems:
        more = f"; and {len(problems) - 20} more" if len(problems) > 20 else ""
        raise ModelError(f"the model cannot be read: {'; '.join(problems[:20])}{more}")
    if total > MOST_NUMBERS:
        raise ModelError(f"its weights are {total} numbers; at most {MOST_NUMBERS} are read")


def _body_problems(node: Node) -> list[str]:
    """What an If, Loop or Scan has that is not known."""
    found = attribute_problems(node, SCAN_ATTRIBUTES if node.op == "Scan" else {}, frozenset())
    if set(node.graphs) != set(BODIES[node.op]):
        return [*found, "it needs the graphs " + ", ".join(BODIES[node.op])]
    graphs, given, results = list(node.graphs.values()), len(node.inputs), len(node.outputs)
    if node.op == "If":
        fits = given == 1 and all(not each.inputs and len(each.outputs) == results for each in graphs)
    elif node.op == "Loop":
        fits = given >= 2 and len(graphs[0].inputs) == given and given - 1 <= len(graphs[0].outputs) == results + 1
    else:
        scanned = node.attributes.get("num_scan_inputs")
        fits = isinstance(scanned, int) and 1 <= scanned <= given == len(graphs[0].inputs)
        fits = fits and given - cast(int, scanned) <= len(graphs[0].outputs) == results
    return found if fits else [*found, "its inputs and outputs do not belong to its graph"]


class _Body(nn.Module):
    """The nodes of a graph, each a part with the node's name."""

    def __init__(self, graph: Graph, constants: Mapping[str, Constant]) -> None:
        super().__init__()
        self.graph = graph
        for node in graph.nodes:
            _require_free(self, node.name)
            self.add_module(node.name, _part(node, constants))

    def forward(self, run: Run, values: Values) -> None:
        """Run the nodes; what they make is added to the values."""
        for node in self.graph.nodes:
            part = cast(nn.Module, getattr(self, node.name))
            try:
                results = cast("Sequence[Value]", part(run, values))
            except Exception as error:
                if not hasattr(error, "__notes__"):  # the innermost node of several
                    error.add_note(f"in the {node.op} node {quoted(node.name)}")
                raise
            if len([name for name in node.outputs if name]) > len(results):
                raise ModelError(f"{node.op} node {quoted(node.name)} makes {len(results)} outputs, not {len(node.outputs)}")
            values.update((name, each) for name, each in zip(node.outputs, results, strict=False) if name)


def _part(node: Node, constants: Mapping[str, Constant]) -> nn.Module:
    if node.op in GATES:
        return _Layer(node, constants)
    if node.op in BODIES:
        return {"If": _If, "Loop": _Loop, "Scan": _Scan}[node.op](node, constants)
    return (_Gather if node.op == "Gather" else _Call)(node, OPERATORS[node.op])


class _Call(nn.Module):
    """A node that calls its operator's function."""

    def __init__(self, node: Node, operator: Operator) -> None:
        super().__init__()
        self.node, self.operator = node, operator
        self.keywords = {**node.attributes, **({"outputs": len(node.outputs)} if operator.counts_outputs else {})}

    def forward(self, run: Run, values: Values) -> Sequence[Tensor]:
        """The node's outputs."""
        given = _together([None if not name else values[name] for name in self.node.inputs])
        axes = [each.dim() if isinstance(each, Tensor) else 0 for each in given]
        for n, name in enumerate(self.node.inputs):
            if name in run.numbers and self.operator.takes_number(n):
                others = max([*axes[:n], *axes[n + 1 :]], default=0) if self.operator.broadcasts(n) else 0
                given[n] = run.numbers[name] if axes[n] <= others else given[n]  # it broadcasts to the same shape
        result = self.operator.function(run, *given, **self.keywords)
        return [result] if isinstance(result, Tensor) else result


class _Gather(_Call):
    """A Gather; from a table it calls the embedding, so that the ids can be explained."""

    def forward(self, run: Run, values: Values) -> Sequence[Tensor]:
        """The rows, or other parts, at the ids."""
        name, ids = self.node.inputs[0], values[self.node.inputs[1]]
        if name not in run.tables or self.keywords.get("axis", 0) not in (0, -2) or not isinstance(ids, Tensor):
            return super().forward(run, values)
        table = run.tables[name]
        return [table(from_front(ids.to(table.weight.device), table.num_embeddings))]


def _together(given: list[Value | None]) -> list[Value | None]:
    """Operands on one device: constants and sizes, which are on the CPU, go to the others."""
    devices = {each.device for each in given if isinstance(each, Tensor)}
    if len(devices) < 2:
        return given
    device = next(each for each in devices if each.type != "cpu")
    return [each.to(device) if isinstance(each, Tensor) else each for each in given]


class _Layer(nn.Module):
    """A recurrent node."""

    def __init__(self, node: Node, constants: Mapping[str, Constant]) -> None:
        super().__init__()
        self.node, self.weights = node, weight_names(node)
        self.layer = Recurrent(cell_of(node, constants))

    def forward(self, run: Run, values: Values) -> Sequence[Tensor]:
        """Y, Y_h and Y_c."""
        names = [*self.node.inputs, *[""] * 8]
        lengths, states = names[4], names[5:7] if self.node.op == "LSTM" else names[5:6]
        return self.layer(
            tensor_of(run, values[names[0]]),
            tensor_of(run, values[lengths]) if lengths else None,
            [tensor_of(run, values[name]) if name else None for name in states],
        )


class _If(nn.Module):
    """One of two graphs, by a condition."""

    def __init__(self, node: Node, constants: Mapping[str, Constant]) -> None:
        super().__init__()
        self.node = node
        self.then_branch = _Body(node.graphs["then_branch"], constants)
        self.else_branch = _Body(node.graphs["else_branch"], constants)

    def forward(self, run: Run, values: Values) -> Sequence[Value]:
        """The outputs of the chosen graph."""
        branch = self.then_branch if bool(values[self.node.inputs[0]]) else self.else_branch
        return _outputs(branch, run, values, [])


class _Loop(nn.Module):
    """A graph that runs for a number of times, or while its condition holds."""

    def __init__(self, node: Node, constants: Mapping[str, Constant]) -> None:
        super().__init__()
        self.node = node
        self.body = _Body(node.graphs["body"], constants)

    def forward(self, run: Run, values: Values) -> Sequence[Value]:
        """The last carried values, then what each step gave, stacked."""
        most, condition, *carried = (values[name] if name else None for name in self.node.inputs)
        limit = None if most is None else int(most)
        goes_on = condition is None or bool(condition)
        states, collected, step = cast("list[Value]", carried), list[list[Tensor]](), 0
        while goes_on and (limit is None or step < limit):
            run.count_step()
            number = torch.tensor(step, dtype=torch.int64, device="cpu")
            holds, *results = _outputs(self.body, run, values, [number, torch.tensor(True), *states])
            states, collected = results[: len(states)], [*collected, [tensor_of(run, each) for each in results[len(states) :]]]
            goes_on, step = bool(holds), step + 1
        if not collected and len(self.node.outputs) > len(states):
            raise ModelError(f"Loop node {quoted(self.node.name)} ran for no step, so what it collects has no shape")
        return [*states, *(torch.stack(each) for each in zip(*collected, strict=True))]


class _Scan(nn.Module):
    """A graph that runs once for each step of its inputs."""

    def __init__(self, node: Node, constants: Mapping[str, Constant]) -> None:
        super().__init__()
        self.node = node
        self.body = _Body(node.graphs["body"], constants)

    def _attribute(self, name: str, count: int) -> tuple[int, ...]:
        found = cast("tuple[int, ...]", self.node.attributes.get(name, (0,) * count))
        if len(found) != count:
            raise ModelError(f"Scan node {quoted(self.node.name)}: {name} has {len(found)} numbers for {count} tensors")
        return found

    def forward(self, run: Run, values: Values) -> Sequence[Value]:
        """The last states, then what each step gave, stacked."""
        count = cast(int, self.node.attributes["num_scan_inputs"])
        given = [values[name] for name in self.node.inputs]
        states, scanned = given[: len(given) - count], [tensor_of(run, each) for each in given[len(given) - count :]]
        axes, turns = self._attribute("scan_input_axes", count), self._attribute("scan_input_directions", count)
        steps = [
            (each.flip(axis) if turn else each).unbind(axis) for each, axis, turn in zip(scanned, axes, turns, strict=True)
        ]
        collected: list[list[Tensor]] = []
        for slices in zip(*steps, strict=True):
            run.count_step()
            results = _outputs(self.body, run, values, [*states, *slices])
            states, own = results[: len(states)], results[len(states) :]
            collected.append([tensor_of(run, each) for each in own])
        return [*states, *self._stacked(collected, len(self.node.outputs) - len(states))]

    def _stacked(self, collected: Sequence[Sequence[Tensor]], count: int) -> list[Tensor]:
        if not collected and count:
            raise ModelError(f"Scan node {quoted(self.node.name)} ran for no step, so what it collects has no shape")
        axes, turns = self._attribute("scan_output_axes", count), self._attribute("scan_output_directions", count)
        return [
            torch.stack(each[::-1] if turn else each, axis)
            for each, axis, turn in zip(zip(*collected, strict=True), axes, turns, strict=True)
        ]


def _outputs(body: _Body, run: Run, outer: Values, given: Sequence[Value]) -> list[Value]:
    """Run a graph inside another one, whose values it may use."""
    values: Values = ChainMap(dict[str, Value](), outer)
    values.update(zip(body.graph.inputs, given, strict=True))
    body(run, values)
    return [values[name] for name in body.graph.outputs]
