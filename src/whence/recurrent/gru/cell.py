"""What an nn.GRU is."""

from torch import Tensor, nn

from whence.recurrent.cell import Cell, Native, Panels, TritonKernels
from whence.recurrent.gru import decomposition, factored, reference
from whence.recurrent.gru.weights import GRUWeights, gru_weights


def pack(weights: GRUWeights, panels: Panels) -> dict[str, Tensor]:
    """Matrices for the sums of x and for those of h⁻, and back from the coefficients of the candidate's two sums."""
    u, w, _, _ = weights.candidate()
    return {
        "u": panels(weights.input.T),
        "w": panels(weights.hidden.T),
        "u_back": panels(u),
        "w_back": panels(w),
    }


def kernels() -> TritonKernels:
    """The Triton kernels."""
    from whence.recurrent.gru import triton  # only here: it needs Triton

    return triton


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
    decomposition=decomposition.step,
    factored=factored.relevance,
    native=Native("gru/steps.c", tape=("WRITTEN", "CANDIDATE", "M", "GATED", "H"), pack=pack),
    triton=kernels,
)
