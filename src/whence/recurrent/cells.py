"""The recurrent cells that whence knows: the one list of them.

A new cell is a folder with weights.py (its parameters by name), reference.py (forward and relevance as in the formulas),
decomposition.py (a step of contextual decomposition) and cell.py (its `Cell`), and a name in the list below. A compiled path
adds steps.c and the field `native`, a GPU path triton.py and the field `triton`.
"""

from whence.recurrent.cell import Cell
from whence.recurrent.gru.cell import GRU
from whence.recurrent.lstm.cell import LSTM
from whence.recurrent.rnn.cell import RNN_RELU, RNN_TANH

CELLS: dict[str, Cell] = {cell.sequence_function: cell for cell in (LSTM, GRU, RNN_TANH, RNN_RELU)}
SEQUENCE_FUNCTIONS = tuple(CELLS)  # the names of the torch functions that run a whole sequence
