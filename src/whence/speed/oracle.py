"""The tests' NumPy oracle, where there is a checkout with them: what an explanation costs that is written down and no more."""

import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from whence.recurrent.weights import by_layer, lstm_weights

ROOT = Path(__file__).parents[3]


def oracle_seconds(encoder: Any, head: Tensor, sequences: Sequence[Tensor]) -> float | None:
    """The seconds that the oracle takes for a sequence (T, E), one after another; None without it, or for another layer."""
    if not (ROOT / "tests" / "oracle" / "bilstm.py").exists() or not isinstance(encoder, nn.LSTM):
        return None
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    lstm, bilstm = (importlib.import_module(f"tests.oracle.{name}") for name in ("lstm", "bilstm"))
    (weights,) = by_layer(lstm_weights, encoder._flat_weights, has_biases=True, directions=2, layers=1)  # type: ignore[arg-type]
    sides = [
        lstm.Weights.stacked(
            *(each.double().cpu().numpy() for each in (own.input, own.hidden, cast(Tensor, own.bias))), order="ifgo"
        )
        for own in weights
    ]
    model = bilstm.BiLSTM(*sides, head.detach().double().cpu().numpy())
    arrays = [each.detach().double().cpu().numpy() for each in sequences]
    start = time.perf_counter()
    for x in arrays:
        model.lrp(x, 0, epsilon=1e-3, delta=0.0, shared=True)
    return (time.perf_counter() - start) / len(arrays)
