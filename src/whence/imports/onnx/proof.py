"""Tries an imported model out: it must run, and give what the file's outputs are by a reference or by onnxruntime."""

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.errors import ModelError
from whence.imports.comparing import NOTHING, against_reference, difference_of, proof_of, tensors
from whence.imports.onnx.bounds import Bounded
from whence.imports.onnx.graph import Input, Model
from whence.imports.onnx.module import OnnxModule
from whence.imports.onnx.run import DTYPES, ExcessError
from whence.imports.onnx.tables import lengths, look_ups
from whence.quoting import quoted, shortened

MOST_STEPS = 500  # of all loops, beyond 20 for every step of the input
MOST_ELEMENTS = 2**25  # of one tensor, beyond the weights and the input
# Sizes for those that a file does not declare: often the first is the batch and the second the steps, and the others the batch.
SIZES = (
    (2, 5, 7, 3),
    (3, 4, 3, 3),
    (1, 7, 1, 1),
    (2, 2, 2, 2),
    (1, 1, 1, 1),
    (7, 1, 7, 7),
    (16, 16, 16, 16),
    (1, 64, 1, 1),
    (1, 256, 1, 1),
    (1, 512, 1, 1),
    (1, 512, 512, 512),
)
COMPARED = 3  # inputs
Arrays = object  # an array, a tensor, or a tuple of them


def prove(module: OnnxModule, content: bytes, reference: tuple[Arrays, Arrays] | None) -> str:
    """Say what the module was compared with; one that differs or does not run is refused."""
    if reference is not None:
        return against_reference(module.outputs, lambda inputs: _results(module, inputs), reference)
    if any(each.shape is None for each in module.model.inputs):
        return "not compared: the file does not say how many axes its inputs have; give reference=(inputs, outputs)"
    runs = _trials(module)
    session = _session(content)
    if isinstance(session, str):
        return f"not compared: {session}"
    return _against_runtime(module, runs, *session)


def _results(module: OnnxModule, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The outputs of a trial; loops and tensors are kept small, and whatever goes wrong becomes one sentence."""
    numbers = sum(each.numel() for each in (*module.parameters(), *inputs))
    steps = MOST_STEPS + 20 * max((max(each.shape, default=0) for each in inputs), default=0)
    try:
        with torch.no_grad(), Bounded(MOST_ELEMENTS + 4 * numbers):
            found = module.run(inputs, most_steps=steps)
    except ExcessError as error:
        raise ExcessError(f"{error}{_where(error)}") from None
    except Exception as error:
        shapes = ", ".join(str(tuple(each.shape)) for each in inputs)
        raise ModelError(f"the model cannot be run with inputs of shapes {shapes}: {shortened(error)}{_where(error)}") from None
    return (found,) if isinstance(found, Tensor) else found


def _where(error: Exception) -> str:
    return "".join(f" ({note})" for note in getattr(error, "__notes__", []))


def _trials(module: OnnxModule) -> list[tuple[list[Tensor], tuple[Tensor, ...]]]:
    """Random inputs of several sizes that the model runs with, and its outputs. A model that runs with none is refused."""
    runs: list[tuple[list[Tensor], tuple[Tensor, ...]]] = []
    first: ModelError | None = None
    generator = torch.Generator().manual_seed(0)
    shapes: set[str] = set()
    for sizes in SIZES:
        inputs = _random_inputs(module.model, sizes, generator)
        shape = str([each.shape for each in inputs])
        if shape in shapes and not (runs and len(shapes) == 1):  # where all sizes are declared, other numbers are tried
            continue
        shapes.add(shape)
        try:
            runs.append(_trial(module, inputs))
        except ExcessError:
            raise
        except ModelError as error:
            first = first or error
        if len(runs) == COMPARED:
            break
    if not runs:
        assert first is not None
        raise ModelError(f"{first}; if that is due to the numbers, give reference=(inputs, outputs)")
    return runs


def _trial(module: OnnxModule, inputs: list[Tensor]) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """One run: with different lengths, if the model takes any; with ones, as they are in the inputs, if it does not run so."""
    names = lengths(module.model)
    given = {name: tensor for name, tensor in zip(module.inputs, inputs, strict=True) if name in names}
    others = [tensor for name, tensor in zip(module.inputs, inputs, strict=True) if name not in names and tensor.dim() > 1]
    if not given or not others:
        return inputs, _results(module, inputs)
    varied = [
        _different_lengths(tensor, others[0]) if name in given else tensor
        for name, tensor in zip(module.inputs, inputs, strict=True)
    ]
    try:
        return varied, _results(module, varied)
    except ExcessError:
        raise
    except ModelError:
        return inputs, _results(module, inputs)


def _different_lengths(tensor: Tensor, sequences: Tensor) -> Tensor:
    """Lengths from the number of steps downwards. The batch is the axis of the sequences that has their number."""
    first, second = sequences.shape[:2]
    steps = first if second == tensor.numel() else second
    counted = steps - torch.arange(tensor.numel()) % max(steps, 1)
    return counted.sort(descending=True).values.to(tensor.dtype).reshape(tensor.shape)


def _random_inputs(model: Model, sizes: Sequence[int], generator: torch.Generator) -> list[Tensor]:
    """Inputs that have the declared shapes; sizes that are not declared are the given ones, equal for equal names."""
    named: dict[str, int] = {}
    return [
        _random(each, model, [_size_of(size, named, sizes) for size in each.shape or ()], generator) for each in model.inputs
    ]


def _size_of(size: int | str | None, named: dict[str, int], sizes: Sequence[int]) -> int:
    if isinstance(size, int):
        return size
    name = size or f" {len(named)}"
    return named.setdefault(name, sizes[min(len(named), len(sizes) - 1)])


def _random(given: Input, model: Model, shape: list[int], generator: torch.Generator) -> Tensor:
    if math.prod(shape) > MOST_ELEMENTS:
        raise ModelError(f"the input {quoted(given.name)} has {math.prod(shape)} numbers; give reference=(inputs, outputs)")
    dtype, high = DTYPES.get(given.kind, torch.float32), _id_limit(given.name, model)
    if high is not None:
        return torch.randint(high, shape, generator=generator).to(dtype)
    if given.kind == "float":
        return torch.randn(shape, generator=generator)
    return torch.ones(shape, dtype=dtype)


def _id_limit(name: str, model: Model) -> int | None:
    """The number of rows in the tables that ids are looked up in; None if an input does not hold ids."""
    rows = [table.shape[0] for input, table in look_ups(model) if input == name and table.shape]
    return min(rows) if rows and min(rows) else None


def _session(content: bytes) -> tuple[Any, str] | str:
    """An onnxruntime session and its version, or why there is none. It gets only files that were read wholly."""
    try:
        runtime: Any = importlib.import_module("onnxruntime")
    except ImportError:
        return "onnxruntime is not installed"
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL  # nothing is computed before a run
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"]), str(runtime.__version__)
    except Exception as error:
        return f"onnxruntime does not load the file: {shortened(error)}"


def _against_runtime(
    module: OnnxModule, runs: Sequence[tuple[list[Tensor], tuple[Tensor, ...]]], session: Any, version: str
) -> str:
    types = {"tensor(double)": np.float64, "tensor(float16)": np.float16}
    difference, compared, reason = NOTHING, 0, ""
    for inputs, found in runs:
        feed = {
            each.name: tensor.numpy().astype(types.get(each.type, _numpy_type(each.type)))
            for each, tensor in zip(session.get_inputs(), inputs, strict=True)
        }
        try:
            expected = session.run(None, feed)
        except Exception as error:
            reason = shortened(error)
            continue
        compared += 1
        difference |= difference_of(module.outputs, found, tensors(expected), f"onnxruntime {version}")
    if not compared:
        return f"not compared: onnxruntime {version} does not run the file: {reason}"
    return proof_of(difference, module.outputs, f"onnxruntime {version}", compared)


def _numpy_type(name: str) -> Any:
    known = {"float": np.float32, "bool": np.bool_, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32}
    known |= {"int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint64": np.uint64}
    return known.get(name.removeprefix("tensor(").removesuffix(")"), np.float32)
