"""An imported Keras model gives Keras' scores, and relevance that adds up and is that of the same model in plain PyTorch."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.imports.keras_models import CASES, saved
from whence.imports.keras import KerasModule, read_model
from whence.imports.keras.plan import Plan
from whence.imports.keras.proof import random_inputs

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:::keras")]  # Keras warns of itself

IN_H5 = """
    LSTM-plain GRU-words SimpleRNN-mask GRU-before-plain Bidirectional-LSTM-words Bidirectional-two-kinds two-layers stateful
    Conv1D training-only BatchNormalization PReLU Normalization TimeDistributed encoder-decoder shared nested frozen
    several-outputs operations passed-on masked-concatenate MultiHeadAttention-masked
""".split()


def outputs(value: Any) -> list[Tensor]:
    return [torch.as_tensor(each).detach() for each in (value if isinstance(value, (list, tuple)) else [value])]


def answered(model: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    """What Keras itself says."""
    for layer in model.layers:
        if getattr(layer, "stateful", False):
            layer.reset_state()
    arrays = [each.numpy() for each in inputs]
    return outputs(model(arrays if len(arrays) > 1 else arrays[0], training=False))


def imported(model: Any, folder: Path, suffix: str = ".keras") -> tuple[KerasModule, Plan]:
    module, plan, _, _ = read_model(saved(model, folder, suffix).read_bytes())
    return module, plan


@pytest.mark.parametrize(("name", "suffix"), [*((name, ".keras") for name in CASES), *((name, ".h5") for name in IN_H5)])
def test_scores_are_those_of_keras(name: str, suffix: str, tmp_path: Path) -> None:
    model = CASES[name]()
    module, plan = imported(model, tmp_path, suffix)
    again = KerasModule.built(json.loads(json.dumps(module.settings())))
    again.load_state_dict(module.state_dict())
    inputs = random_inputs(plan, 5, seed=0)
    found = outputs(module(*inputs))
    for ours, theirs in zip(found, answered(model, inputs), strict=True):
        assert_close(ours, theirs, atol=1e-5, rtol=1e-5)  # float32: both add up in their own order
    assert_close(outputs(again(*inputs)), found, atol=0, rtol=0)
