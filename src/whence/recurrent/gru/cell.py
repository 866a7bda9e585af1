"""What an nn.GRU is."""

from torch import nn

from whence.recurrent.cell import Cell
from whence.recurrent.gru import reference
from whence.recurrent.gru.weights import gru_weights

GRU = Cell(
    label="nn.GRU",
    module=nn.GRU,
    sequence_function="gru",
    step_function="gru_cell",
    states=("h",),
    gates=3,
    weights=gru_weights,
    forward=reference.forward,
    relevance=reference.relevance,
)
