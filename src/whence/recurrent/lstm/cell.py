"""What an nn.LSTM is."""

from torch import nn

from whence.recurrent.cell import Cell
from whence.recurrent.lstm import reference
from whence.recurrent.lstm.weights import lstm_weights

LSTM = Cell(
    label="nn.LSTM",
    module=nn.LSTM,
    sequence_function="lstm",
    step_function="lstm_cell",
    states=("h", "c"),
    gates=4,
    weights=lstm_weights,
    forward=reference.forward,
    relevance=reference.relevance,
)
