"""What a C kernel is given: one list of fields, from which both the C struct and its ctypes counterpart are made."""

import ctypes
from typing import TYPE_CHECKING, Any

# C type, names, meaning. One kernel call covers one direction of a layer, some of its steps and some rows of its batch.
FIELDS = (
    ("int64_t", "first last", "the rows of the batch to compute"),
    ("int64_t", "from to", "the steps to compute"),
    ("int64_t", "block", "how many rows go through the steps together"),
    ("int64_t", "batch inputs hidden targets", "the sizes B, E, H and K"),
    ("int64_t", "is_reverse", "whether the direction reads each sequence from its end"),
    ("int64_t", "is_added", "whether r_x is added to, as it holds the other direction's relevance"),
    ("int64_t", "is_by_step", "whether r_x has one number per step, the sum over the inputs"),
    ("int64_t", "x_time x_row out_time out_row tape_time", "strides, counted in numbers"),
    ("int64_t", "r_target r_out_target r_out_time r_out_row r_x_target r_x_time r_x_row", "strides, counted in numbers"),
    ("const int64_t *", "lengths", "(B,) the length of every sequence, descending"),
    ("const REAL *", "x", "(T, B, E)"),
    ("const REAL *", "u w u_back w_back", "the weights, packed by the cell"),
    ("const REAL *", "bias_x bias_h", "(G·H,) the biases, zero where the layer has none"),
    ("const REAL *", "h_start", "(B, H) the hidden state before the first of these steps"),
    ("REAL *", "h c", "(B, H) the states before these steps, replaced by those after them"),
    ("REAL *", "tape", "(steps, B, KEPT, H); for `forward`, NULL where no tape is kept"),
    ("REAL *", "out", "(T, B, ·) the outputs; NULL where they are not wanted"),
    ("const REAL *", "r_out", "(K, T, B, ·) the relevance of the outputs; NULL where there is none"),
    ("REAL *", "r_h r_c", "(K, B, H) the relevance of the states after these steps, replaced by that before them"),
    ("REAL *", "r_x", "(K, T, B, E) or, by step, (K, T, B, 1); NULL where it is not wanted"),
    ("double *", "of_bias of_stabiliser", "(K, B) what is absorbed, added to"),
    ("REAL *", "scratch", "memory for this call"),
    ("double", "epsilon returned delta", "the rule: ε, the part of ε that is returned, δ"),
)
SCALARS = {"int64_t": ctypes.c_int64, "double": ctypes.c_double}


class Arguments(ctypes.Structure):
    """The struct `Layer` of the C sources."""

    _fields_ = [(name, SCALARS.get(kind, ctypes.c_void_p)) for kind, names, _ in FIELDS for name in names.split()]
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...


def struct() -> str:
    """The definition of `Layer` in C."""
    lines = [f"    {kind} {name}; /* {meaning} */" for kind, names, meaning in FIELDS for name in names.split()]
    return "\n".join(["typedef struct {", *lines, "} Layer;", ""])
