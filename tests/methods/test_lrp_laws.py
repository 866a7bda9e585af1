"""Laws of LRP on whole models, drawn over every option of nn.LSTM and every head."""

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn
from torch.testing import assert_close

from tests.models import BiLSTM
from tests.strategies import LRPS, SEEDS, Case, lstm_cases
from whence import LRP, relevance


@settings(max_examples=300)
@given(case=lstm_cases(), method=LRPS)
def test_relevance_and_absorbed_are_the_score(case: Case, method: LRP) -> None:
    result = relevance(case.model, case.x, target=case.target, method=method, args=case.args)
    assert result.relevance.shape == case.x.shape
    total = case.samples(result.relevance) + sum(result.absorbed.values())
    scale = 1 + result.relevance.abs().sum().item()  # cancelling amounts round at their own size
    assert_close(total, result.score, rtol=1e-9, atol=1e-9 * scale)
    result.check(1e-9 * scale)


@settings(max_examples=100)
@given(case=lstm_cases())
def test_lrp_cons_alone_sums_to_the_score_with_its_initial_states(case: Case) -> None:
    result = relevance(case.model, case.x, target=case.target, method=LRP(delta=1.0), args=case.args)
    assert all(name.endswith("initial_state") for name in result.absorbed)
    total = case.samples(result.relevance) + sum(result.absorbed.values())
    assert_close(total, result.score, rtol=1e-9, atol=1e-9 * (1 + result.relevance.abs().sum().item()))


@settings(max_examples=50)
@given(case=lstm_cases())
def test_the_score_is_the_models_own(case: Case) -> None:
    result = relevance(case.model, case.x, target=case.target, args=case.args)
    with torch.no_grad():
        output = case.model.eval()(case.x, *case.args)
    if isinstance(case.target, tuple):
        step, index = case.target
        output = output[..., index]
        expected = output[step] if case.x.dim() == 2 or not case.samples_first else output[:, step]
    else:
        expected = output[..., case.target]
    assert_close(result.score, expected)


@settings(max_examples=50)
@given(seed=SEEDS)
def test_reversing_the_words_and_swapping_the_directions_reverses_relevance(seed: int) -> None:
    torch.manual_seed(seed)
    model, swapped = BiLSTM(4, 3, 2).double(), BiLSTM(4, 3, 2).double()
    state = model.state_dict()
    exchanged = {
        k: state[k.removesuffix("_reverse") if k.endswith("_reverse") else k + "_reverse"] for k in state if "lstm" in k
    }
    exchanged["fc.weight"] = state["fc.weight"].roll(3, dims=1)
    swapped.load_state_dict(exchanged)
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    one, other = relevance(model, x, target=1), relevance(swapped, x.flip(1), target=1)
    assert_close(one.relevance, other.relevance.flip(1), rtol=1e-10, atol=1e-12)


class GatesDetached(nn.Module):
    """BiLSTM again with gates as constants, tanh(z) as z·const, and each neuron's slope cut to z / (z + ε sign z).

    Its Gradient×Input is LRP with the stabiliser absorbed: an independent derivation by autograd alone.
    """

    def __init__(self, model: BiLSTM, epsilon: float) -> None:
        super().__init__()
        self.model, self.epsilon = model, epsilon

    def neuron(self, z: Tensor) -> Tensor:
        factor = (z / torch.where(z >= 0, z + self.epsilon, z - self.epsilon)).detach()
        return z.detach() + (z - z.detach()) * factor

    def tanh(self, z: Tensor) -> Tensor:
        return z * (z.tanh() / z).detach()

    def encode(self, x: Tensor, suffix: str) -> Tensor:
        lstm = self.model.lstm
        w_ih, w_hh, b_ih, b_hh = (getattr(lstm, f"{p}_{suffix}") for p in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        h = c = x.new_zeros(len(x), lstm.hidden_size)
        for t in range(x.shape[1]):
            i, f, g, o = (x[:, t] @ w_ih.T + b_ih + h @ w_hh.T + b_hh).chunk(4, dim=1)
            c = self.neuron(f.sigmoid().detach() * c + i.sigmoid().detach() * self.tanh(self.neuron(g)))
            h = o.sigmoid().detach() * self.tanh(c)
        return h

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat([self.encode(x, "l0"), self.encode(x.flip(1), "l0_reverse")], dim=1)
        return self.neuron(self.model.fc(both))


@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_lrp_is_gradient_times_input_of_the_model_with_gates_detached(epsilon: float, steps: int) -> None:
    torch.manual_seed(steps)
    model = BiLSTM(4, 5, 3).double()
    x = torch.randn(3, steps, 4, dtype=torch.float64, requires_grad=True)
    score = GatesDetached(model, epsilon)(x)[:, 1]
    (gradient,) = torch.autograd.grad(score.sum(), x)
    result = relevance(model, x.detach(), target=1, method=LRP(epsilon=epsilon, stabiliser="absorbed"))
    assert_close(result.score, score.detach())
    assert_close(result.relevance, (gradient * x).detach(), rtol=1e-9, atol=1e-9 * result.relevance.abs().max().item())


def test_all_classes_at_once_are_each_class_alone() -> None:
    torch.manual_seed(0)
    model, x = BiLSTM(4, 3, 5).double(), torch.randn(2, 6, 4, dtype=torch.float64)
    together = relevance(model, x, target="all")
    assert together.relevance.shape == (5, 2, 6, 4)
    assert together.score.shape == (5, 2)
    for c in range(5):
        alone = relevance(model, x, target=c)
        assert_close(together.relevance[c], alone.relevance)
        assert_close(together.score[c], alone.score)
        assert together.absorbed.keys() == alone.absorbed.keys()
        for name, amount in alone.absorbed.items():
            assert_close(together.absorbed[name][c], amount)
    together.check(1e-10)


def test_the_ledger_names_layers_biases_and_initial_states() -> None:
    torch.manual_seed(0)
    model = nn.LSTM(3, 2, num_layers=2, bidirectional=True, batch_first=True).double()
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    result = relevance(model, x, target=lambda output: output[0][:, -1, 0], method=LRP(stabiliser="absorbed"))
    assert {"l0.bias", "l1.bias", "l0_reverse.stabiliser", "l1.stabiliser"} <= set(result.absorbed)
    state = (torch.randn(4, 2, 2).double(), torch.randn(4, 2, 2).double())
    given_state = relevance(model, x, target=lambda output: output[0][:, -1, 0], args=(state,))
    assert given_state.absorbed["initial_state"].abs().min() > 1e-6
    given_state.check(1e-12)
