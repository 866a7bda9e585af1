"""The step-by-step LSTM is the oracle's, and its forward pass PyTorch's."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

from tests.models import BiLSTM, Tagger
from tests.oracle import lstm as oracle
from tests.oracle.bilstm import BiLSTM as OracleBiLSTM
from whence import LRP, GradientXInput, SensitivityAnalysis, relevance
from whence.equations import Stabiliser
from whence.recurrent.lstm import reference
from whence.recurrent.lstm.weights import lstm_weights
from whence.recurrent.sequences import Packing, reverse


def oracle_weights(lstm: nn.LSTM, suffix: str = "l0") -> oracle.Weights:
    u, w, b1, b2 = (getattr(lstm, f"{p}_{suffix}").detach().numpy() for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    return oracle.Weights.stacked(u, w, b1 + b2, "ifgo")


@pytest.mark.parametrize("size", [1, 3, 17])
@pytest.mark.parametrize("steps", [1, 2, 9])
@pytest.mark.parametrize("delta", [0.0, 1.0])
@pytest.mark.parametrize("stabiliser", ["shared", "absorbed"])
def test_the_reference_is_the_oracle(size: int, steps: int, delta: float, stabiliser: Stabiliser) -> None:
    torch.manual_seed(size + steps)
    lstm = nn.LSTM(size + 1, size).double()
    weights = lstm_weights(*lstm.parameters(), has_biases=True)
    x = torch.randn(steps, 2, size + 1, dtype=torch.float64)
    h0, c0, r_h = torch.randn(3, 2, size, dtype=torch.float64)
    method = LRP(delta=delta, stabiliser=stabiliser)
    tape = reference.forward(x, weights, states=(h0, c0))
    nothing = torch.zeros(1, steps, 2, size, dtype=torch.float64)
    swept = reference.relevance(
        tape, weights, r_outputs=nothing, r_states=(r_h[None], torch.zeros_like(r_h)[None]), rules=method.rules
    )
    for b in range(2):
        states = oracle.forward(x[:, b].numpy(), oracle_weights(lstm), h0[b].numpy(), c0[b].numpy())
        expected = oracle.lrp(
            states, oracle_weights(lstm), r_h[b].numpy(), epsilon=1e-3, delta=delta, shared=stabiliser == "shared"
        )
        for found, want in zip((swept.x[0, :, b], swept.states[0][0, b], swept.states[1][0, b]), expected, strict=True):
            assert_close(found, torch.from_numpy(want), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 5, 56])
def test_the_papers_model_is_the_oracle_through_the_public_door(steps: int) -> None:
    torch.manual_seed(steps)
    model = BiLSTM(5, 4, 3).double()
    twin = OracleBiLSTM(oracle_weights(model.lstm), oracle_weights(model.lstm, "l0_reverse"), model.fc.weight.detach().numpy())
    x = torch.randn(steps, 5, dtype=torch.float64)
    cases: list[tuple[float, Stabiliser]] = [(0.0, "shared"), (1.0, "shared"), (0.0, "absorbed"), (0.5, "absorbed")]
    for delta, stabiliser in cases:
        result = relevance(model, x[None], target=2, method=LRP(delta=delta, stabiliser=stabiliser))
        left, right, rest = twin.lrp(x.numpy(), 2, epsilon=1e-3, delta=delta, shared=stabiliser == "shared")
        assert_close(result.relevance[0], torch.from_numpy(left + right), rtol=1e-10, atol=1e-13)
        assert_close(result.absorbed.get("lstm.initial_state", torch.zeros(1).double())[0].item(), rest, rtol=1e-9, atol=1e-13)
    sensitivity = relevance(model, x[None], target=2, method=SensitivityAnalysis())
    assert_close(sensitivity.relevance[0], torch.from_numpy(twin.sensitivity(x.numpy(), 2)), rtol=1e-10, atol=1e-13)
    product = relevance(model, x[None], target=2, method=GradientXInput())
    assert_close(product.relevance[0], torch.from_numpy(np.asarray(twin.gradient(x.numpy(), 2) * x.numpy())))


def test_the_oracles_gradient_is_the_slope_of_its_score() -> None:
    generator = np.random.default_rng(0)
    sizes = ((12, 4), (12, 3), 12)
    left, right = (oracle.Weights.stacked(*(generator.normal(size=s) for s in sizes), order="ifgo") for _ in range(2))
    twin = OracleBiLSTM(left, right, generator.normal(size=(2, 6)))
    x = generator.normal(size=(3, 4))
    slope = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[place] = 1e-6
        slope[place] = (twin.forward(x + step)[0][1] - twin.forward(x - step)[0][1]) / 2e-6
    np.testing.assert_allclose(twin.gradient(x, 1), slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("projection", [0, 2])
def test_the_forward_pass_is_pytorchs_on_a_ragged_batch(projection: int) -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 3, proj_size=projection).double()
    x, lengths = torch.randn(6, 4, 4, dtype=torch.float64), torch.tensor([6, 4, 4, 1])
    h0, c0 = torch.randn(4, projection or 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    weights = lstm_weights(*lstm.parameters(), has_biases=True)
    tape = reference.forward(x, weights, states=(h0, c0), lengths=lengths)
    packed = pack_padded_sequence(x, lengths)
    out, (h, c) = lstm(packed, (h0[None], c0[None]))
    packing = Packing.of(packed.batch_sizes, x.device)
    assert_close(packing.pack(tape.outputs()), out.data.detach())
    assert_close(tape.h[-1], h[0].detach())
    assert_close(tape.c[-1], c[0].detach())
    assert_close(packing.lengths, lengths)
    assert_close(packing.unpack(packing.pack(x)), x * (torch.arange(6)[:, None] < lengths)[..., None])


def test_reversal_stays_within_each_sequence() -> None:
    x = torch.arange(1, 5)[:, None, None].expand(4, 2, 1)
    found = reverse(x, torch.tensor([4, 2]))
    assert found[:, 0, 0].tolist() == [4, 3, 2, 1]
    assert found[:, 1, 0].tolist() == [2, 1, 3, 4]
    assert reverse(found, torch.tensor([4, 2])).equal(x)


def test_float32_meets_float64() -> None:
    torch.manual_seed(1)
    model = Tagger(nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True), "mean", 3).double()
    x = torch.randn(4, 9, 8, dtype=torch.float64)
    exact = relevance(model, x, target=0).relevance
    single = relevance(model.float(), x.float(), target=0).relevance
    assert_close(single.double(), exact, rtol=0, atol=1e-4 * exact.abs().max().item())  # seven digits less what divisions cost
