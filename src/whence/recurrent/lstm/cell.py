"""What an nn.LSTM is."""

from functools import partial

from torch import Tensor, nn

from whence.recurrent.cell import Cell, Native, Panels, Plain, TritonKernels
from whence.recurrent.lstm import decomposition, factored, plain, reference
from whence.recurrent.lstm.weights import LSTMWeights, lstm_weights


def pack(weights: LSTMWeights, panels: Panels) -> dict[str, Tensor]:
    """One matrix for all sums of [x, h⁻], and one for [h⁻, x] from the candidate's coefficients."""
    u, w, _ = weights.candidate()
    return {"u": panels(weights.input.T, weights.hidden.T), "w_back": panels(w, u, axis=1)}


def kernels() -> TritonKernels:
    """The Triton kernels."""
    from whence.recurrent.lstm import triton  # only here: it needs Triton

    return triton


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
    decomposition=decomposition.step,
    factored=factored.relevance,
    plain=Plain(plain.forward, plain.relevance),
    native=Native("lstm/steps.c", tape=("WRITTEN", "CANDIDATE", "C", "H"), pack=pack),
    triton=kernels,
    variants=(("nn.LSTM with a projection", partial(nn.LSTM, proj_size=1)),),
)
