"""The tests' NumPy oracle, timed: what an explanation costs when the formulas are written down and nothing is optimised."""

import sys
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import cast

from torch import Tensor, nn

from whence.recurrent.lstm.weights import lstm_weights
from whence.recurrent.weights import by_layer

TESTS = Path(__file__).parents[3] / "tests"  # only in a checkout


def oracle_seconds(encoder: nn.Module, head: Tensor, sequences: Sequence[Tensor]) -> float | None:
    """The seconds that the oracle takes for a sequence (T, E); None without a checkout, or if the layer is not an LSTM."""
    if not isinstance(encoder, nn.LSTM) or not _has_tests():
        return None
    lstm, bilstm = (import_module(f"tests.oracle.{name}") for name in ("lstm", "bilstm"))
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


def _has_tests() -> bool:
    """Whether the package `tests` is this checkout's; it is loaded from its own folder, so `sys.path` stays as it is."""
    if "tests" not in sys.modules and (TESTS / "oracle" / "bilstm.py").is_file():
        spec = spec_from_file_location("tests", TESTS / "__init__.py", submodule_search_locations=[str(TESTS)])
        assert spec is not None
        sys.modules["tests"] = module_from_spec(spec)  # the package itself is empty
    package = sys.modules.get("tests")
    return package is not None and str(TESTS) in getattr(package, "__path__", ())
