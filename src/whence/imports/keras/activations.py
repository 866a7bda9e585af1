"""Keras' activation functions by name, out of torch functions that `whence.relevance` has rules for."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def linear(x: Tensor) -> Tensor:
    """The identity."""
    return x


def exponential(x: Tensor) -> Tensor:
    """The exponential function."""
    return x.exp()


def hard_sigmoid_2(x: Tensor) -> Tensor:
    """Keras 2's hard_sigmoid; Keras 3's has the slope 1/6."""
    return (0.2 * x + 0.5).clamp(0, 1)


def soft_shrink(x: Tensor) -> Tensor:
    """Moved towards zero by a half."""
    return F.relu(x - 0.5) - F.relu(-x - 0.5)


def hard_shrink(x: Tensor) -> Tensor:
    """Zero where the absolute value is at most a half."""
    return torch.where(x.abs() > 0.5, x, torch.zeros_like(x))


def sparse_sigmoid(x: Tensor) -> Tensor:
    """A line from 0 at -1 to 1 at 1."""
    return (0.5 * x + 0.5).clamp(0, 1)


def leaky_relu(x: Tensor) -> Tensor:
    """Keras' default slope is 0.2."""
    return F.leaky_relu(x, 0.2)


def softmax(x: Tensor) -> Tensor:
    """Over the last axis."""
    return x.softmax(-1)


def log_softmax(x: Tensor) -> Tensor:
    """Over the last axis."""
    return x.log_softmax(-1)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": linear,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": leaky_relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "hard_sigmoid": F.hardsigmoid,
    "hard_sigmoid_2": hard_sigmoid_2,
    "sparse_sigmoid": sparse_sigmoid,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "log_sigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "softsign": F.softsign,
    "soft_shrink": soft_shrink,
    "hard_shrink": hard_shrink,
    "tanh_shrink": F.tanhshrink,
    "hard_tanh": F.hardtanh,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "gelu": F.gelu,
    "silu": F.silu,
    "swish": F.silu,
    "hard_silu": F.hardswish,
    "hard_swish": F.hardswish,
    "mish": F.mish,
    "exponential": exponential,
}
