"""The reference numbers of the paper's own weights, met through the public door on plain PyTorch modules."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import whence
from tests.models import BiLSTM, TwoEncoders

METHODS = {
    "absorbed_delta0": whence.LRP(epsilon=1e-3, delta=0.0, stabiliser="absorbed"),
    "shared_delta0": whence.LRP(epsilon=1e-3, delta=0.0),
    "shared_delta1": whence.LRP(epsilon=1e-3, delta=1.0),
}


def torch_order(stacked: np.ndarray) -> Tensor:
    """The reference's gate order i, g, f, o as PyTorch's i, f, g, o."""
    i, g, f, o = np.split(stacked, 4)
    return torch.from_numpy(np.concatenate([i, f, g, o]))


def reference_model(folder: Path, kind: type[BiLSTM] | type[TwoEncoders]) -> BiLSTM | TwoEncoders:
    weights = np.load(folder / "lstm_weights.npz")
    model = kind(60, 60, 5).double()
    names = {"weight_ih": "Wxh", "weight_hh": "Whh", "bias_ih": "bxh", "bias_hh": "bhh"}
    state: dict[str, Tensor] = {"fc.weight": torch.from_numpy(np.hstack([weights["Why_Left"], weights["Why_Right"]]))}
    for name, source in names.items():
        left, right = torch_order(weights[f"{source}_Left"]), torch_order(weights[f"{source}_Right"])
        if kind is BiLSTM:
            state |= {f"lstm.{name}_l0": left, f"lstm.{name}_l0_reverse": right}
        else:
            state |= {f"left.{name}_l0": left, f"right.{name}_l0": right}
    model.load_state_dict(state)
    return model


def sentences(folder: Path) -> tuple[dict[str, np.ndarray], list[Tensor]]:
    golden = dict(np.load(folder / "golden.npz"))
    ends = np.cumsum(golden["length"])
    return golden, [torch.from_numpy(golden["x"][end - size : end]) for end, size in zip(ends, golden["length"], strict=True)]


def assert_golden(found: list[Tensor], expected: np.ndarray, dtype: torch.dtype) -> None:
    """Met to 1e-10 of the largest number in float64, to 1e-4 in float32: rounding through 40 divisions by sums near 0."""
    together = torch.cat(found).double()
    tolerance = (1e-10 if dtype == torch.float64 else 1e-4) * float(np.abs(expected).max())
    assert_close(together, torch.from_numpy(expected), rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("variant", METHODS)
def test_lrp_meets_the_golden_numbers_per_encoder(reference: Path, variant: str, dtype: torch.dtype) -> None:
    golden, xs = sentences(reference)
    model = reference_model(reference, TwoEncoders).to(dtype)
    left, right, rest, scores = [], [], [], []
    for x, target in zip(xs, golden["target"], strict=True):
        x = x.to(dtype)[None]
        result = whence.relevance(model, (x, x), target=int(target), method=METHODS[variant])
        left.append(result.relevance[0][0].sum(-1))
        right.append(result.relevance[1][0].sum(-1))
        rest.append(sum(v for k, v in result.absorbed.items() if k.endswith("initial_state")))
        scores.append(result.score)
    assert_golden(left, golden[f"{variant}_left"], dtype)
    assert_golden(right, golden[f"{variant}_right"], dtype)
    assert_golden(scores, golden["scores"][np.arange(len(xs)), golden["target"]], dtype)
    if variant == "shared_delta1":
        assert_golden(rest, golden["shared_delta1_rest"], dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("variant", METHODS)
def test_lrp_of_the_bidirectional_layer_is_both_encoders(reference: Path, variant: str, dtype: torch.dtype) -> None:
    golden, xs = sentences(reference)
    model = reference_model(reference, BiLSTM).to(dtype)
    padded = torch.nn.utils.rnn.pad_sequence(xs, batch_first=True).to(dtype)
    result = whence.relevance(
        model, padded, target=cast(Any, golden["target"]), method=METHODS[variant], lengths=golden["length"].tolist()
    )
    words = [r[:size].sum(-1) for r, size in zip(result.relevance, golden["length"], strict=True)]
    assert_golden(words, golden[f"{variant}_left"] + golden[f"{variant}_right"], dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(("method", "name"), [(whence.SensitivityAnalysis(), "sa"), (whence.GradientXInput(), "gi")])
def test_gradient_methods_meet_the_golden_numbers(
    reference: Path, method: whence.SensitivityAnalysis | whence.GradientXInput, name: str, dtype: torch.dtype
) -> None:
    golden, xs = sentences(reference)
    model = reference_model(reference, BiLSTM).to(dtype)
    found = [
        whence.relevance(model, x.to(dtype)[None], target=int(target), method=method).relevance[0].sum(-1)
        for x, target in zip(xs, golden["target"], strict=True)
    ]
    assert_golden(found, golden[name], dtype)
