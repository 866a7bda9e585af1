"""Patterns of published models that once crashed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import whence
from whence import LRP, GradientXInput, relevance


class LanguageModel(nn.Module):
    """Time first, all steps flattened into one axis by a view."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.lstm, self.out = nn.Embedding(9, 4), nn.LSTM(4, 5), nn.Linear(5, 7)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.lstm(self.words(ids))[0]).view(-1, 7)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_a_view_of_all_steps(samples: int, delta: float) -> None:
    model, ids = LanguageModel().double(), torch.randint(9, (6, samples))
    found = relevance(model, ids, target=lambda y: y.view(6, -1, 7)[-1, :, 2], method=LRP(delta=delta)).check(1e-10)
    for n in range(samples):
        alone = relevance(model, ids[:, n : n + 1], target=lambda y: y.view(6, -1, 7)[-1, :, 2], method=LRP(delta=delta))
        assert_close(found.relevance[:, n : n + 1], alone.relevance)


class Empty(nn.Module):
    """A linear layer on no steps at all, behind others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.out = nn.Linear(3, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.cat([self.first(x).tanh(), self.first(x[:, :0])], 1).flatten(1))


@pytest.mark.parametrize("samples", [1, 3])
def test_a_linear_layer_on_an_empty_tensor(samples: int) -> None:
    model, x = Empty().double(), torch.randn(samples, 2, 3).double()
    found = relevance(model, x, target=0).check(1e-10)
    assert_close(found.relevance[:1], relevance(model, x[:1], target=0).relevance)


class LengthsFirst(nn.Module):
    """The explained tensor is the second parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.out = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, lengths: Tensor, x: Tensor, scale: float = 1.0) -> Tensor:
        return scale * self.out(self.lstm(x)[0][torch.arange(len(x)), lengths - 1])


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_a_keyword_before_the_inputs(method: whence.LRP | GradientXInput) -> None:
    model, x, lengths = LengthsFirst().double(), torch.randn(2, 5, 3).double(), torch.tensor([3, 5])
    found = relevance(model, x, target=0, method=method, kwargs={"lengths": lengths})
    assert_close(found.score, model(lengths, x)[:, 0].detach())
    scaled = relevance(model, x, target=0, method=method, args=(2.0,), kwargs={"lengths": lengths})
    assert_close(scaled.score, 2 * found.score)


def test_a_forward_that_belongs_to_no_module() -> None:
    class Own(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input)

    vars(Own)["forward"].__module__ = None  # as functions made by exec have it
    relevance(Own(3, 2), torch.randn(2, 3), target=0).check()


def test_a_gradient_that_a_write_in_place_has_spoilt() -> None:
    class Writing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.out = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            y = self.first(x).sigmoid()
            y[:, 0] = 0
            return self.out(y)

    model, x = Writing().double(), torch.randn(2, 3).double()
    relevance(model, x, target=0).check(1e-10)
    with pytest.raises(whence.InputError, match=r"PyTorch cannot derive the score: one of the variables .* use a copy there"):
        relevance(model, x, target=0, method=GradientXInput())


@pytest.mark.parametrize("by", ["data", "set_"])
def test_a_tensor_whose_data_are_replaced_is_refused(by: str) -> None:
    class Replacing(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            h = torch.tanh(input[:, :3])
            if by == "data":
                h.data = input[:, 3:].clone()
            else:
                h.set_(input[:, 3:].clone())  # pyright: ignore[reportArgumentType, reportCallIssue]
            return super().forward(h)

    with pytest.raises(whence.NoRuleError, match="it writes into a given tensor"):
        relevance(Replacing(3, 2), torch.randn(2, 6), target=0)


def test_large_states_of_a_relu_keep_their_digits_by_step() -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.rnn, self.out = nn.RNN(4, 8, nonlinearity="relu", batch_first=True), nn.Linear(8, 2)
            nn.init.eye_(self.rnn.get_parameter("weight_hh_l0"))

        def forward(self, x: Tensor, h: Tensor) -> Tensor:
            return self.out(self.rnn(x, h)[0][:, -1])

    model, x, h = Last(), torch.randn(2, 5, 4), torch.full((1, 2, 8), 1e6)
    by_step = relevance(model, x, target=0, args=(h,), by_step=True).relevance
    assert_close(by_step, relevance(model, x, target=0, args=(h,)).relevance.sum(-1), rtol=1e-4, atol=1e-5)


class Checkpointed(nn.Module):
    """A cell whose steps are computed again on the way back, or whose numbers wait on the CPU."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.front, self.cell, self.head, self.how = nn.Linear(5, 6), nn.LSTMCell(6, 4), nn.Linear(4, 3), how

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> Any:
        return self.cell(torch.tanh(self.front(x) * x.sum(-1, keepdim=True).sigmoid()), (h, c))

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(len(x), 4)
        for t in range(x.shape[1]):
            if self.how == "checkpoint":
                h, c = checkpoint(self.step, x[:, t], h, c, use_reentrant=False)
            elif self.how == "save_on_cpu":
                with save_on_cpu(), torch.set_grad_enabled(t > 0):
                    h, c = self.step(x[:, t], h, c)
            else:
                h, c = self.step(x[:, t], h, c)
        return self.head(h)


@pytest.mark.parametrize("how", ["checkpoint", "save_on_cpu"])
@pytest.mark.parametrize("product", ["all", "half"])
def test_what_the_way_back_needs_is_kept_in_spite_of_hooks(how: str, product: Any) -> None:
    torch.manual_seed(0)
    model, x = Checkpointed("plain").double().eval(), torch.randn(3, 4, 5, dtype=torch.float64)
    method = whence.LRP(product=product, delta=0.5)
    expected = relevance(model, x, target=1, method=method)
    model.how = how
    found = relevance(model, x, target=1, method=method)
    assert_close(found.relevance, expected.relevance)
    assert found.absorbed.keys() == expected.absorbed.keys()
    for name, amount in expected.absorbed.items():
        assert_close(found.absorbed[name], amount)


class By(nn.Module):
    """Two layers, and what is made of them."""

    def __init__(self, made: Callable[["By", Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.made = nn.Linear(4, 4), nn.Linear(4, 4), made

    def forward(self, x: Tensor) -> Tensor:
        return self.made(self, x)


def fading(model: By, x: Tensor) -> Tensor:
    gate = torch.sigmoid(model.first(x))
    for _ in range(700):
        gate = 0.999 * gate
    return (gate + model.second(x)).sum(1)


def trying(model: By, x: Tensor) -> Tensor:
    product = torch.sigmoid(model.first(x)) * torch.tanh(model.second(x))
    total = product + model.second(x)
    try:
        product.mul_(2)
    except Exception:
        product = product * 5
    return (total + product).sum(1)


def checkpointed(model: By, x: Tensor) -> Tensor:
    layers = nn.Sequential(model.first, nn.ReLU(inplace=True), model.second)
    return checkpoint(layers, x, use_reentrant=False)[:, 0]  # pyright: ignore


def turned(model: By, x: Tensor) -> Tensor:
    with save_on_cpu():
        hidden = torch.tanh(model.first(x))
        total = hidden.sum(1)
        hidden.copy_(hidden.flip(1).clone())
    return total


@pytest.mark.parametrize(
    ("made", "plain"),
    [
        (fading, lambda m, x: (0.999**700 * torch.sigmoid(m.first(x)) + m.second(x)).sum(1)),
        (trying, lambda m, x: (3 * torch.sigmoid(m.first(x)) * torch.tanh(m.second(x)) + m.second(x)).sum(1)),
        (checkpointed, lambda m, x: m.second(torch.relu(m.first(x)))[:, 0]),
        (turned, lambda m, x: torch.tanh(m.first(x)).sum(1)),
    ],
)
def test_two_ways_to_write_one_model(made: Callable[[By, Tensor], Tensor], plain: Callable[[By, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model, x = By(made).double(), torch.randn(3, 4, dtype=torch.float64)
    found = relevance(model, x, method=LRP(epsilon=0.0))
    assert_close(found.score, model(x))
    model.made = plain
    assert_close(found.relevance, relevance(model, x, method=LRP(epsilon=0.0)).relevance)


@pytest.mark.parametrize("delta", [0.0, 0.5, 1.0])
def test_a_complex_constant_leaves_no_gap(delta: float) -> None:
    torch.manual_seed(0)
    model, x = By(lambda m, x: (m.first(x) + 1j).real.sum(1)).double(), torch.randn(3, 4, dtype=torch.float64)
    relevance(model, x, method=LRP(delta=delta)).check(1e-12)


def test_a_scaled_probability_is_explained_by_its_score() -> None:
    torch.manual_seed(0)
    model, x = By(lambda m, x: 100 * torch.sigmoid(m.first(x))[:, 0]).double(), torch.randn(2, 4, dtype=torch.float64)
    found = relevance(model, x)
    assert_close(found.score, 100 * model.first(x)[:, 0])
    assert [choice.operation for choice in found.choices] == ["sigmoid"]


@pytest.mark.parametrize("head", ["gamma", "alpha-beta"])
def test_a_layer_of_the_head_keeps_its_rule_beside_a_constant_bias(head: Any) -> None:
    torch.manual_seed(0)
    model, x = By(lambda m, x: x @ m.first.weight + 1).double(), torch.randn(2, 4, dtype=torch.float64)
    expected = relevance(model, x, target=1, method=LRP(head=head)).relevance
    model.made = lambda m, x: torch.addmm(torch.ones_like(x[0]), x, m.first.weight)
    assert_close(relevance(model, x, target=1, method=LRP(head=head)).relevance, expected)


class Speaking(nn.Module):
    """A decoder with location-based attention over words, as Tacotron's: its first state comes of given frames alone."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.encoder = nn.Embedding(9, 4), nn.LSTM(4, 2, batch_first=True, bidirectional=True)
        self.first, self.second = nn.Linear(3, 5), nn.Linear(5, 4)
        self.cell, self.query, self.key = nn.LSTMCell(8, 4), nn.Linear(4, 3), nn.Linear(4, 3)
        self.place, self.weight, self.out = nn.Conv1d(2, 3, 3, padding=1), nn.Linear(3, 1), nn.Linear(8, 2)

    def forward(self, ids: Tensor, frames: Tensor) -> Tensor:
        memory = self.encoder(self.words(ids))[0]
        h, c, context = (memory.data.new(len(ids), 4).zero_() for _ in range(3))
        attention, total = (memory.data.new(*ids.shape).zero_() for _ in range(2))
        given, key = self.second(self.first(frames).relu()).relu(), self.key(memory)
        mask, outputs = ids < 0, list[Tensor]()
        for t in range(frames.shape[1]):
            h, c = self.cell(torch.cat([given[:, t], context], -1), (h, c))
            places = self.place(torch.stack([attention, total], 1)).transpose(1, 2)
            energies = self.weight(torch.tanh(self.query(h)[:, None] + places + key)).squeeze(-1)
            energies.data.masked_fill_(mask, -torch.inf)
            attention = energies.softmax(1)
            context = torch.bmm(attention[:, None], memory).squeeze(1)
            total += attention
            outputs.append(self.out(torch.cat([h, context], 1)))
        return torch.stack(outputs).transpose(0, 1).contiguous()[:, -1, 0]


class BetweenSteps(nn.Module):
    """An LSTM cell whose state follows a differential equation between the steps, as ODE-LSTM's."""

    def __init__(self, solver: str) -> None:
        super().__init__()
        self.cell, self.out, self.solver = nn.LSTMCell(3, 4), nn.Linear(4, 1), solver
        self.slope = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

    def forward(self, x: Tensor, times: Tensor) -> Tensor:
        h, c = torch.zeros(2, len(x), 4, dtype=x.dtype)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            step = times[:, t].squeeze().view(-1, 1) * (1.0 / 3)
            for _ in range(3):
                h = self.solved(h, step)
        return self.out(h).squeeze(-1)

    def solved(self, h: Tensor, step: Tensor) -> Tensor:
        if self.solver == "euler":
            return h + step * self.slope(h)
        first = self.slope(h)
        second = self.slope(h + first * step * 0.5)
        third = self.slope(h + second * step * 0.5)
        fourth = self.slope(h + third * step)
        return h + step * (first + 2 * second + 2 * third + fourth) / 6.0


class Forecasting(nn.Module):
    """A forecaster that reads its own predictions back, as DeepAR: its scores have the axis of the samples alone."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds, self.lstm, self.mean = nn.Embedding(4, 3), nn.LSTM(1 + 3, 4, 2), nn.Linear(8, 1)

    def forward(self, x: Tensor, kinds: Tensor) -> Tensor:
        x, state = x.transpose(0, 1)[..., None].clone(), None
        found = torch.zeros(1)
        for t in range(len(x)):
            _, state = self.lstm(torch.cat([x[t : t + 1], self.kinds(kinds)[None]], 2), state)
            found = torch.squeeze(self.mean(state[0].permute(1, 2, 0).contiguous().view(x.shape[1], -1)))
            if 1 < t < len(x) - 1:
                x[t + 1, :, 0] = found
        return found


class ByColumns(Forecasting):
    """The same with one series in every column of a table."""

    def forward(self, x: Tensor, kinds: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1), kinds)


def batch_of(model: nn.Module, samples: int) -> tuple[Tensor, Tensor, int]:
    """Inputs for so many samples, another argument, and the axis of the samples."""
    if isinstance(model, Speaking):
        return torch.randint(9, (samples, 5)), torch.randn(samples, 3, 3), 0
    if isinstance(model, BetweenSteps):
        return torch.randn(samples, 5, 3), torch.rand(samples, 5, 1), 0
    rows = torch.randn(samples, 5)
    return rows.T if isinstance(model, ByColumns) else rows, torch.randint(4, (samples,)), int(isinstance(model, ByColumns))


@pytest.mark.parametrize("kind", [Speaking, lambda: BetweenSteps("euler"), lambda: BetweenSteps("rk4"), Forecasting, ByColumns])
@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("method", [whence.LRP(), whence.LRP(product="half", delta=1.0), GradientXInput()], ids=str)
def test_a_sample_is_explained_the_same_alone(kind: Callable[[], nn.Module], samples: int, method: Any) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(0)
        model = kind()
        x, other, axis = batch_of(model, samples)
        whole = relevance(model, x, args=(other,), method=method)
        for n in range(samples):
            here = slice(n, n + 1)
            alone = relevance(model, x.narrow(axis, n, 1), args=(other[here],), target=lambda y: y.reshape(-1), method=method)
            assert_close(whole.relevance.narrow(axis, n, 1), alone.relevance)
    finally:
        torch.set_default_dtype(before)
