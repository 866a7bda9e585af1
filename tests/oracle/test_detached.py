"""The derivation by replaced slopes, against formulas written out by hand."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from tests.oracle.detached import NotCovered, relevance
from tests.oracle.resting import of_softmax


class Net(nn.Module):
    """Two linear layers a and b, what a test does with them, and a sum."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.function = nn.Linear(3, 4, bias=False), nn.Linear(3, 4, bias=False), function
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.a(x), self.b(x)).sum(-1)


X = torch.randn(2, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def by_weights(model: Net, r_a: Tensor, r_b: Tensor) -> Tensor:
    """What the input gets of the relevance of a and b, by the weighted rule."""
    a, b = model.a(X), model.b(X)
    return (X * (r_a / a @ model.a.weight + r_b / b @ model.b.weight)).detach()


SCALES = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)


def secant_at(a: Tensor, b: Tensor) -> Tensor:
    """The slope of tanh(2 − σ(a) + b) from rest, where that is tanh(1.5)."""
    return ((2 - a.sigmoid() + b).tanh() - math.tanh(1.5)) / (0.5 - a.sigmoid() + b)


def secant_of_b(a: Tensor, b: Tensor) -> Tensor:
    return secant_at(a, b) * b


def picked(a: Tensor, b: Tensor) -> Tensor:
    """1 where the largest of each column is."""
    whole = torch.where(a > 0, a.sigmoid(), b)
    return (whole == whole.amax(0)).double()


@pytest.mark.parametrize(
    ("function", "of_a", "of_b"),
    [
        (lambda a, b: a.tanh(), lambda a, b: a.tanh(), lambda a, b: 0 * b),
        (lambda a, b: a.sigmoid() * b.tanh(), lambda a, b: 0 * a, lambda a, b: a.sigmoid() * b.tanh()),
        (lambda a, b: (1 - a.sigmoid()) * b, lambda a, b: 0 * a, lambda a, b: (1 - a.sigmoid()) * b),
        (lambda a, b: a * b, lambda a, b: a * b / 2, lambda a, b: a * b / 2),
        (lambda a, b: a.sigmoid() * b.exp(), lambda a, b: 0 * a, lambda a, b: a.sigmoid() * (b.exp() - 1)),
        (lambda a, b: a / b, lambda a, b: a / b, lambda a, b: 0 * b),
        (lambda a, b: a.exp() * b.abs().rsqrt(), lambda a, b: (a.exp() - 1) * b.abs().rsqrt(), lambda a, b: 0 * b),
        (lambda a, b: 1 - a.sigmoid(), lambda a, b: 0.5 - a.sigmoid(), lambda a, b: 0 * b),
        (lambda a, b: 2 - a.sigmoid(), lambda a, b: 0.5 - a.sigmoid(), lambda a, b: 0 * b),
        (lambda a, b: torch.einsum("bi,bi,bi->bi", a, b.sigmoid(), b), lambda a, b: a * b.sigmoid() * b / 2, None),
    ],
    ids=["tanh", "gate", "1 - gate", "two sources", "gate and exp", "quotient", "normaliser", "1 - g alone", "2 - g", "einsum"],
)
def test_the_papers_rule(
    function: Callable[..., Tensor], of_a: Callable[..., Tensor], of_b: Callable[..., Tensor] | None
) -> None:
    model = Net(function)
    a, b = model.a(X), model.b(X)
    expected = by_weights(model, of_a(a, b), (of_b or of_a)(a, b))
    (found,), score = relevance(model, X, 0)
    assert_close(found, expected)
    assert_close(score, model(X))


@pytest.mark.parametrize(
    ("product", "share"),
    [
        ("half", lambda g, s: torch.full_like(g, 0.5)),
        ("prop", lambda g, s: g / (g + s)),
        ("abs", lambda g, s: g.abs() / (g.abs() + s.abs())),
    ],
)
def test_the_other_rules(product: str, share: Callable[..., Tensor]) -> None:
    model = Net(lambda a, b: a.sigmoid() * b.tanh())
    g, s = model.a(X).sigmoid(), model.b(X).tanh()
    expected = by_weights(model, share(g, s) * g * s, (1 - share(g, s)) * g * s)
    (found,), _ = relevance(model, X, 0, product=product)
    assert_close(found, expected)


@pytest.mark.parametrize(
    ("function", "of_a", "of_b"),
    [
        (lambda a, b: a.sigmoid().tanh(), lambda a, b: a.sigmoid().tanh() - math.tanh(0.5), None),
        (lambda a, b: a.exp().log(), lambda a, b: a, None),
        (lambda a, b: a.reciprocal(), lambda a, b: -1 / a, None),
        (lambda a, b: (2 - a.sigmoid() + b).tanh(), lambda a, b: secant_at(a, b) * (0.5 - a.sigmoid()), secant_of_b),
        (lambda a, b: (b.sigmoid() * a.exp()).tanh(), lambda a, b: (b.sigmoid() * a.exp()).tanh() - b.sigmoid().tanh(), None),
        (lambda a, b: a.sigmoid() * b.sigmoid(), lambda a, b: (a.sigmoid() - 0.5) * (b.sigmoid() + 0.5) / 2,
         lambda a, b: (b.sigmoid() - 0.5) * (a.sigmoid() + 0.5) / 2),
        (lambda a, b: a.softmax(-1) * SCALES, lambda a, b: torch.from_numpy(of_softmax(a.detach().numpy(), SCALES.numpy())) * a,
         None),
        (lambda a, b: torch.where(a > 0, a.sigmoid(), b).amax(0), lambda a, b: picked(a, b) * (a > 0) * (a.sigmoid() - 0.5),
         lambda a, b: picked(a, b) * (a <= 0) * b),
    ],
    ids=["two", "log exp", "a pole", "a sum", "a gate", "means", "softmax", "picks"],
)  # fmt: skip
def test_values_at_rest(
    function: Callable[..., Tensor], of_a: Callable[..., Tensor], of_b: Callable[..., Tensor] | None
) -> None:
    model = Net(function)
    a, b = model.a(X), model.b(X)
    expected = by_weights(model, of_a(a, b), 0 * b if of_b is None else of_b(a, b))
    (found,), _ = relevance(model, X, lambda out: out)
    assert_close(found, expected)


def test_trained_weights_end_what_stands_at_rest() -> None:
    model = Net(lambda a, b: a)
    layer = nn.Linear(4, 2).double()
    model.layer, model.function = layer, lambda a, b: layer(a.sigmoid()).tanh()
    a = model.a(X)
    z = layer(a.sigmoid())
    (found,), _ = relevance(model, X, 0)
    assert_close(found, by_weights(model, (a.sigmoid() - 0.5) * (z.tanh() / z @ layer.weight), 0 * a))


def test_what_has_no_slope_raises_only_where_relevance_reaches_it() -> None:
    with pytest.raises(NotCovered, match="no slope for sin"):
        relevance(Net(lambda a, b: a.sin()), X, 0)
    with pytest.raises(NotCovered, match="numbers leave the tensors"):
        relevance(Net(lambda a, b: a * a.sum().item()), X, 0)
    (found,), _ = relevance(Net(lambda a, b: a.sin().sigmoid() * b), X, 0)
    assert found.any()


def test_a_neuron_that_is_zero_hands_nothing_on() -> None:
    (found,), _ = relevance(Net(lambda a, b: (a - a.clone()) * b), X, 0)
    assert not found.any()


class Written(torch.autograd.Function):
    """Twice its input, with a derivative that is wrong on purpose."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        return 2 * z

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        return 100 * slopes[0]


def in_place(a: Tensor, b: Tensor) -> Tensor:
    out = torch.zeros_like(a)
    out[:, :] = a
    out *= b.sigmoid()
    return out


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda a, b: Written.apply(a), lambda a, b: 2 * a),
        (in_place, lambda a, b: a * b.sigmoid()),
        (lambda a, b: a.add_(b).tanh_(), lambda a, b: (a + b).tanh()),
        (lambda a, b: F.glu(torch.cat([a, b], -1)), lambda a, b: a * b.sigmoid()),
        (lambda a, b: torch.lerp(a, b, (a * b).sigmoid()), lambda a, b: (1 - (a * b).sigmoid()) * a + (a * b).sigmoid() * b),
        (lambda a, b: a.detach() * b.sigmoid(), lambda a, b: a * b.sigmoid()),
        (lambda a, b: (a.to(torch.complex128) * 1j * 1j).real, lambda a, b: -a),
        (lambda a, b: F.softmax(a, -1) * b, lambda a, b: a.exp() / a.exp().sum(-1, keepdim=True) * b),
    ],
    ids=["autograd.Function", "in place", "in-place methods", "glu", "lerp", "detach", "complex", "softmax by hand"],
)
def test_two_spellings(one: Callable[..., Tensor], other: Callable[..., Tensor]) -> None:
    (found,), score = relevance(Net(one), X, 0)
    (expected,), same = relevance(Net(other), X, 0)
    assert_close(found, expected)
    assert_close(score, same)


class Recurrent(nn.Module):
    """A recurrent layer of PyTorch's, and what it returns in one row."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer.double()

    def forward(self, x: Any) -> Tensor:
        out, state = self.layer(x)
        out = out.data if isinstance(out, nn.utils.rnn.PackedSequence) else out
        return torch.cat([each.reshape(-1) for each in (out, *(state if isinstance(state, tuple) else [state]))])


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 4, 2, bidirectional=True),
        lambda: nn.GRU(3, 4, bias=False, bidirectional=True),
        lambda: nn.RNN(3, 4, 2),
        lambda: nn.RNN(3, 4, nonlinearity="relu"),
    ],
    ids=["LSTM", "GRU", "RNN", "RNN relu"],
)
def test_an_unrolled_layer_computes_what_the_layer_does(make: Callable[[], nn.RNNBase], is_packed: bool) -> None:
    torch.manual_seed(2)
    model, x = Recurrent(make()), torch.randn(5, 3, 3, dtype=torch.float64)
    given: Any = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 1])) if is_packed else x
    (found,), scores = relevance(model, given, lambda out: out)
    assert_close(scores, model(given).detach(), rtol=1e-10, atol=1e-12)
    assert found.any()


def test_an_lstm_step_by_hand() -> None:
    torch.manual_seed(3)
    cell = nn.LSTMCell(3, 4).double()
    x, h, c = (torch.randn(2, n, dtype=torch.float64) for n in (3, 4, 4))

    class Step(nn.Module):
        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
            return cell(x, (h, c))[0].sum(-1)

    (of_x, of_h, of_c), _ = relevance(Step(), (x, h, c), 0)
    i, f, g, o = (x @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias_ih + cell.bias_hh).chunk(4, -1)
    new = f.sigmoid() * c + i.sigmoid() * g.tanh()
    r = o.sigmoid() * new.tanh()
    q = r * i.sigmoid() * g.tanh() / new / g
    w_x, w_h = cell.weight_ih.chunk(4)[2], cell.weight_hh.chunk(4)[2]
    assert_close(of_c, (r * f.sigmoid() * c / new).detach())
    assert_close(of_x, (x * (q @ w_x)).detach())
    assert_close(of_h, (h * (q @ w_h)).detach())


def test_token_ids_are_explained_by_their_vectors() -> None:
    torch.manual_seed(4)

    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(10, 3).double(), nn.Linear(3, 2).double()

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(sum(self.table(ids[:, t]) for t in reversed(range(ids.shape[1]))))  # type: ignore[arg-type]

    model, ids = Words(), torch.tensor([[1, 2, 2], [4, 0, 9]])
    (found,), _ = relevance(model, ids, 1)
    assert_close(found, (model.table(ids) * model.out.weight[1]).detach())
