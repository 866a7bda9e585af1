"""The recurrent cells that whence knows: the one list of them."""

from whence.recurrent.cell import Cell
from whence.recurrent.gru.cell import GRU
from whence.recurrent.lstm.cell import LSTM
from whence.recurrent.rnn.cell import RNN_RELU, RNN_TANH

CELLS: dict[str, Cell] = {cell.sequence_function: cell for cell in (LSTM, GRU, RNN_TANH, RNN_RELU)}
SEQUENCE_FUNCTIONS = tuple(CELLS)  # the names of the torch functions that run a whole sequence
