"""Hand-written LSTM cells, in the spellings students use, have the relevance of nn.LSTM with the same weights."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.models import StudentLSTM, Tagger
from whence import LRP, relevance
from whence.equations import Stabiliser

STYLES = ["one", "two", "eight", "matmul", "einsum", "addmm", "left", "detached"]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("delta", [0.0, 1.0])
@pytest.mark.parametrize("stabiliser", ["shared", "absorbed"])
@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (3, 5), (4, 4)])
def test_a_hand_written_cell_is_nn_lstm(style: str, delta: float, stabiliser: Stabiliser, batch: int, steps: int) -> None:
    torch.manual_seed(batch + steps)
    lstm, fc = nn.LSTM(4, 7, batch_first=True).double(), nn.Linear(7, 3).double()
    plain = Tagger(lstm, "last", 3).double()
    plain.fc = fc
    x = torch.randn(batch, steps, 4, dtype=torch.float64)
    method = LRP(delta=delta, stabiliser=stabiliser)
    expected = relevance(plain, x, target=1, method=method)
    found = relevance(StudentLSTM(lstm, fc, style).double(), x, target=1, method=method).check(1e-12)
    assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-12 * expected.relevance.abs().max().item())
    for kind in ("bias", "stabiliser"):
        theirs = [sum(v for k, v in r.absorbed.items() if k.endswith(kind)) for r in (found, expected)]
        assert_close(torch.as_tensor(theirs[0]), torch.as_tensor(theirs[1]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_lstm_cell_in_a_loop_is_nn_lstm(delta: float) -> None:
    class Loop(nn.Module):
        def __init__(self, lstm: nn.LSTM, fc: nn.Linear) -> None:
            super().__init__()
            self.cell, self.fc = nn.LSTMCell(4, 3), fc
            self.cell.load_state_dict({k.removesuffix("_l0"): v for k, v in lstm.state_dict().items()})

        def forward(self, x: Tensor) -> Tensor:
            state = None
            outputs = torch.zeros(*x.shape[:-1], 3, dtype=x.dtype)
            for t, x_t in enumerate(x.unbind(-2)):
                state = self.cell(x_t, state)
                outputs[..., t, :] = state[0]
            return self.fc(outputs.mean(-2))

    torch.manual_seed(0)
    lstm, fc = nn.LSTM(4, 3, batch_first=True).double(), nn.Linear(3, 2).double()
    plain = Tagger(lstm, "mean", 2).double()
    plain.fc = fc
    x = torch.randn(3, 6, 4, dtype=torch.float64)
    expected = relevance(plain, x, target=0, method=LRP(delta=delta))
    found = relevance(Loop(lstm, fc).double(), x, target=0, method=LRP(delta=delta)).check(1e-12)
    assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-13)
    unbatched = relevance(Loop(lstm, fc).double(), x[0], target=0, method=LRP(delta=delta)).check(1e-12)
    assert_close(unbatched.relevance, expected.relevance[0], rtol=1e-10, atol=1e-13)


def test_projecting_all_steps_at_once_is_the_same_sum() -> None:
    """U x for the whole sentence first, then one step's slice of it plus W h: still one neuron."""

    class Precomputed(StudentLSTM):
        def forward(self, x: Tensor) -> Tensor:
            h = c = torch.zeros(len(x), self.hidden, dtype=x.dtype)
            projected = self.x2h(x)
            for t in range(x.shape[1]):
                gates = projected[:, t]
                gates = gates + self.h2h(h)
                i, f, o = gates[:, : self.hidden], gates[:, self.hidden : 2 * self.hidden], gates[:, 3 * self.hidden :]
                g = gates.narrow(1, 2 * self.hidden, self.hidden)
                c = c * f.sigmoid() + g.tanh().mul(i.sigmoid())
                h = c.tanh() * o.sigmoid()
            return self.fc(h)

    torch.manual_seed(0)
    lstm, fc = nn.LSTM(4, 3, batch_first=True).double(), nn.Linear(3, 2).double()
    plain = Tagger(lstm, "last", 2).double()
    plain.fc = fc
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    for method in (LRP(), LRP(delta=1.0), LRP(epsilon=0.1, delta=0.5, stabiliser="absorbed")):
        expected = relevance(plain, x, target=0, method=method)
        found = relevance(Precomputed(lstm, fc, "two").double(), x, target=0, method=method).check(1e-12)
        assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-13)


def test_given_states_of_a_hand_written_cell_end_in_the_ledger() -> None:
    class Given(StudentLSTM):
        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:  # type: ignore[override]
            for t in range(x.shape[1]):
                i, f, g, o = self.preactivations(x[:, t], h)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
            return self.fc(h)

    torch.manual_seed(0)
    lstm, fc = nn.LSTM(4, 3, batch_first=True).double(), nn.Linear(3, 2).double()
    plain = Tagger(lstm, "last", 2).double()
    plain.fc = fc
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    h, c = torch.randn(2, 2, 3, dtype=torch.float64)
    for style in STYLES:
        expected = relevance(plain, x, target=0, args=((h[None], c[None]),))
        found = relevance(Given(lstm, fc, style).double(), x, target=0, args=(h, c)).check(1e-12)
        assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-13)
        constants = sum(v for k, v in found.absorbed.items() if k.endswith("constant"))
        assert_close(constants, expected.absorbed["lstm.initial_state"], rtol=1e-9, atol=1e-12)
