"""What an nn.RNN is, with tanh or ReLU."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from whence.recurrent.cell import Cell, Native, Panels, TritonKernels
from whence.recurrent.rnn import decomposition, reference
from whence.recurrent.rnn.weights import RNNWeights, rnn_weights


def pack(weights: RNNWeights, panels: Panels) -> dict[str, Tensor]:
    """One matrix for the sums of [x, h⁻], and one for [h⁻, x] from their coefficients."""
    return {
        "u": panels(weights.input.T, weights.hidden.T),
        "w_back": panels(weights.hidden, weights.input, axis=1),
    }


def native(activation: str) -> Native:
    """The compiled path with an activation of the C sources."""
    return Native("rnn/steps.c", tape=("Z", "H"), pack=pack, defines=(f"ACTIVATION={activation}",))


def kernels() -> TritonKernels:
    """The Triton kernels, for tanh: states that a ReLU does not bound cannot be split into float16 parts."""
    from whence.recurrent.rnn import triton  # only here: it needs Triton

    return triton


RNN_TANH = Cell(
    label="nn.RNN (tanh)",
    module=nn.RNN,
    sequence_function="rnn_tanh",
    step_function="rnn_tanh_cell",
    states=("h",),
    gates=1,
    weights=rnn_weights,
    forward=partial(reference.forward, activation=torch.tanh),
    relevance=reference.relevance,
    decomposition=partial(decomposition.step, activation=torch.tanh),
    native=native("hyperbolic"),
    triton=kernels,
    has_products=False,
)
RNN_RELU = replace(
    RNN_TANH,
    label="nn.RNN (ReLU)",
    module=partial(nn.RNN, nonlinearity="relu"),
    sequence_function="rnn_relu",
    step_function="rnn_relu_cell",
    forward=partial(reference.forward, activation=torch.relu),
    decomposition=partial(decomposition.step, activation=torch.relu),
    has_bounded_states=False,
    native=native("relu"),
    triton=None,
)
