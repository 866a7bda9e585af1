"""What an nn.RNN is, with tanh or ReLU."""

from dataclasses import replace
from functools import partial

import torch
from torch import nn

from whence.recurrent.cell import Cell
from whence.recurrent.rnn import reference
from whence.recurrent.rnn.weights import rnn_weights

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
)
RNN_RELU = replace(
    RNN_TANH,
    label="nn.RNN (ReLU)",
    module=partial(nn.RNN, nonlinearity="relu"),
    sequence_function="rnn_relu",
    step_function="rnn_relu_cell",
    forward=partial(reference.forward, activation=torch.relu),
)
