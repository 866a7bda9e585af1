"""Small ONNX models for the tests, made with onnx.helper, and what onnxruntime computes of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[int, Sequence[int | str | None] | None]],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    functions: Sequence[Any] = (),
    domains: Mapping[str, int] | None = None,
) -> Any:
    """A model of these nodes. A constant is an array, or a list of numbers."""
    tensors = [numpy_helper.from_array(_array(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        tensors,
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*each) for each in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=functions)


def _array(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().numpy()
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def saved(proto: Any, folder: Path, name: str = "model.onnx") -> Path:
    """The file of a model."""
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return path


def by_runtime(path: Path, *inputs: Tensor) -> list[Tensor]:
    """What onnxruntime computes."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    results = session.run(None, {name: each.numpy() for name, each in zip(names, inputs, strict=True)})
    return [torch.from_numpy(np.asarray(each)) for each in results]


def random(*shape: int, seed: int = 0) -> Tensor:
    """Numbers for weights and inputs."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
