"""The same on a GPU as on the CPU, in evaluation mode, with cuDNN as it is."""

import importlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_sequence
from torch.testing import assert_close

from tests.models import BiLSTM, Tagger
from tests.perturbing import PERTURBING
from tests.recurrent.test_paths import Case, close
from whence import LRP, GradientXInput, SensitivityAnalysis, evaluate, relevance
from whence.speed import ratios

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
METHODS = [
    LRP(),
    LRP(delta=1.0),
    LRP(stabiliser="absorbed"),
    LRP(head="gamma"),
    LRP(head="alpha-beta"),
    SensitivityAnalysis(),
    GradientXInput(),
    *PERTURBING,
]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_the_gpu_gives_the_cpus_relevance(method: LRP) -> None:
    torch.manual_seed(0)
    sentences = [torch.randn(length, 8, dtype=torch.float64) for length in (3, 7, 1, 7)]
    padded = pad_sequence(sentences, batch_first=True)
    model = BiLSTM(8, 6, 5).double().eval()
    stacked = (
        Tagger(nn.LSTM(8, 6, num_layers=2, batch_first=True, proj_size=3, dropout=0.5), "mean", 2, deep=True).double().eval()
    )
    cases: list[tuple[nn.Module, Any, dict[str, Any]]] = [
        (model, padded, {"lengths": [3, 7, 1, 7]}),
        (model, pack_sequence(sentences, enforce_sorted=False), {}),
        (stacked, padded, {}),
        (stacked.train(), padded, {}),
    ]
    for case, inputs, more in cases:
        expected = relevance(case, inputs, target=1, method=method, **more)
        found = relevance(case.cuda(), inputs.cuda(), target=1, method=method, **more)
        case.cpu()
        one, other = (r.relevance.data if not isinstance(inputs, torch.Tensor) else r.relevance for r in (found, expected))
        assert_close(one.cpu(), other, rtol=1e-9, atol=1e-11)
        assert_close(found.score.cpu(), expected.score)
        for name, amount in expected.absorbed.items():
            assert_close(found.absorbed[name].cpu(), amount, rtol=1e-9, atol=1e-11)
    assert torch.backends.cudnn.enabled


@pytest.mark.parametrize("method", [each for each in METHODS if each.name != "random"], ids=str)  # it depends on every bit
def test_float32_on_the_gpu(method: LRP) -> None:
    torch.manual_seed(0)
    model, x = BiLSTM(60, 60, 5).double().eval(), torch.randn(16, 20, 60, dtype=torch.float64)
    exact = relevance(model, x, target=2, method=method).relevance
    found = relevance(model.float().cuda(), x.float().cuda(), target=2, method=method)
    # Gradients go through cuDNN as the user has set it, and its recurrent layers use TF32 (11 bits) unless told otherwise.
    tolerance = 1e-4 if isinstance(method, LRP) else 1e-2
    assert_close(found.relevance.double().cpu(), exact, rtol=0, atol=tolerance * exact.abs().max().item())


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 1, 1, 1),
        (5, 6, 4, 7),
        (60, 60, 37, 9),
        (4, 63, 3, 5),
        (7, 65, 1, 3),
        (2, 127, 4, 6),
        (2, 250, 5, 3),
        (20, 256, 33, 4),
        (70, 300, 20, 5),
        (8, 1024, 3, 3),
    ],
    ids=str,
)
def test_triton_gives_the_references_relevance(cell: str, ragged: bool, sizes: tuple[int, int, int, int]) -> None:
    """In single precision against double; sizes where no sum lies so near to zero that rounding turns its sign."""
    layer = pytest.importorskip("whence.recurrent.triton.layer")
    for method in (LRP(epsilon=0.1), LRP(epsilon=0.1, delta=0.7), LRP(epsilon=0.1, stabiliser="absorbed")):
        case = Case(cell, sizes, torch.float32, ragged=ragged).scaled(min(1.0, (60 / sizes[1]) ** 0.5)).cuda()
        exact = case.double()
        mine, theirs = layer.TritonLayer(case.cell, case.x, case.weights, case.states, case.lengths), exact.layer("reference")
        close(mine.outputs(), theirs.outputs(), 1e-4)
        settings = {"direction": None, "by_step": False}
        swept = mine.relevance(case.r_outputs, case.r_states, method.rules, **settings)
        right = theirs.relevance(exact.r_outputs, exact.r_states, method.rules, **settings)
        for found, expected in zip((swept.x, *swept.states), (right.x, *right.states), strict=True):
            close(found, expected, 1e-4)
        close(swept.bias, right.bias, 1e-4)
        close(swept.stabiliser, right.stabiliser, 1e-4)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh"])
@pytest.mark.parametrize("hidden", [6, 100, 140])
def test_triton_with_one_direction_and_numbers_that_count_in_64_bits(
    cell: str, hidden: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = pytest.importorskip("whence.recurrent.triton.layer")
    for part in ("layer", "packed", "product"):
        monkeypatch.setattr(importlib.import_module(f"whence.recurrent.triton.{part}"), "LARGE", 0)
    case = Case(cell, (5, hidden, 4, 3), torch.float32).one_way().cuda()
    exact, rules = case.double(), LRP(epsilon=0.1).rules
    mine, theirs = layer.TritonLayer(case.cell, case.x, case.weights, case.states, case.lengths), exact.layer("reference")
    swept = mine.relevance(case.r_outputs, case.r_states, rules, direction=None, by_step=False)
    close(swept.x, theirs.relevance(exact.r_outputs, exact.r_states, rules, direction=None, by_step=False).x, 1e-4)


class FadingCell(nn.Module):
    """A cell in a loop whose weights get smaller from step to step: as a module of their own, in place, or as new tensors."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.cell, self.head, self.how = nn.LSTMCell(8, 6), nn.Linear(6, 3), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = x.new_zeros(len(x), 6)
        weight, kept = self.cell.weight_ih, self.cell.weight_ih.detach().clone()
        for t in range(x.shape[1]):
            if self.how == "in place":
                weight.data.mul_(0.8)
            elif self.how == "new":
                weight = weight * 0.8
            h, c = torch.lstm_cell(x[:, t], (h, c), weight, *list(self.cell.parameters())[1:])
        with torch.no_grad():
            self.cell.weight_ih.copy_(kept)
        return self.head(h)


@pytest.mark.parametrize("how", ["", "in place", "new"])
def test_every_step_of_a_cell_uses_the_weights_of_that_step(how: str) -> None:
    torch.manual_seed(0)
    model, x = FadingCell(how).eval(), torch.randn(4, 7, 8)
    exact = relevance(model.double(), x.double(), target=1).relevance
    found = relevance(model.float().cuda(), x.cuda(), target=1).relevance
    assert_close(found.double().cpu(), exact, rtol=1e-3, atol=1e-5)


def test_the_bench_measures_on_a_gpu_and_tells_what_it_was_busy_with() -> None:
    found: Any = ratios.measure(ratios.Case("lstm", 8, 3, 12), device="cuda", repeats=3)
    assert found["path"] == "triton"
    assert {"pack", "product_kernel", "forward", "back"} <= set(found["lrp_kernels_ms"])
    assert 0 < sum(found["lrp_kernels_ms"].values()) < found["lrp_ms"]


def test_half_precision_through_the_public_door() -> None:
    torch.manual_seed(0)
    model, x = BiLSTM(8, 6, 5).eval(), torch.randn(4, 7, 8)
    exact = relevance(model, x, target=1, method=LRP(epsilon=0.1)).relevance
    found = relevance(model.cuda().bfloat16(), x.cuda().bfloat16(), target=1, method=LRP(epsilon=0.1)).relevance
    assert found.dtype == torch.bfloat16
    assert_close(found.float().cpu(), exact, rtol=0.1, atol=0.1 * float(exact.abs().max()))


def test_methods_are_evaluated_on_the_gpu_as_on_the_cpu() -> None:
    torch.manual_seed(0)
    model, x = BiLSTM(8, 6, 5).double().eval(), torch.randn(6, 7, 8).double()
    methods: list[Any] = ["lrp", "occlusion", "cd"]
    expected, found = (
        evaluate(model.to(device), x.to(device), [0, 1, 2, 3, 4, 0], methods=methods, suite=["faithfulness", "sanity"])
        for device in ("cpu", "cuda")
    )
    for name in methods:
        assert_close(found.relevance[name], expected.relevance[name])
        own, theirs = (each.results["methods"][name]["aopc"]["value"] for each in (found, expected))
        assert own == pytest.approx(theirs)
        assert found.results["sanity"]["methods"][name]["shift"]["value"] == pytest.approx(
            expected.results["sanity"]["methods"][name]["shift"]["value"]
        )
