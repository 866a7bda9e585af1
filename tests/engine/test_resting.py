"""What follows the recurrent layer: signs that the model confirms, the oracle's values, one answer in all spellings."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from tests.models.heads import HEADS, Head, last
from tests.oracle import resting as oracle
from whence import LRP, GradientXInput, Occlusion, relevance


class Ended(nn.Module):
    """A recurrent layer, a linear one for every step, and a head: a function of the logits (B, T, C)."""

    def __init__(
        self, head: Callable[..., Tensor], layer: str = "lstm", *, bias: float | None = None, classes: int = 3
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.head = layer, head
        self.rnn: Any = (
            nn.LSTMCell(5, 8) if layer == "cell" else (nn.GRU if layer == "gru" else nn.LSTM)(5, 8, batch_first=True)
        )
        self.out = nn.Linear(8, classes)
        self.numbers = torch.arange(1.0, classes + 1)
        self.buffer: Tensor
        self.register_buffer("buffer", torch.arange(1.0, classes + 1))
        self.weight = nn.Parameter(torch.arange(1.0, classes + 1))
        if bias is not None:
            nn.init.constant_(self.out.bias, bias)

    def logits(self, x: Tensor) -> Tensor:
        if self.layer != "cell":
            return self.out(self.rnn(x)[0])
        h = c = x.new_zeros(len(x), 8)
        found = list[Tensor]()
        for x_t in x.unbind(1):
            h, c = self.rnn(x_t, (h, c))
            found.append(self.out(h))
        return torch.stack(found, 1)

    def forward(self, x: Tensor) -> Tensor:
        z = self.logits(x)
        return self.head(z) if self.head.__code__.co_argcount == 1 else self.head(z, self)


def then(first: Head, second: Head) -> Head:
    return lambda z: second(first(z))


def by_hand(z: Tensor) -> Tensor:
    e = (z - z.max(-1, keepdim=True)[0]).exp()
    return e / e.sum(-1, keepdim=True)


def cosine(one: Tensor, other: Tensor) -> float:
    return float(torch.cosine_similarity(one.flatten(1), other.flatten(1)).mean())


@pytest.mark.parametrize(
    ("layer", "batch", "dtype"), [("lstm", 63, torch.float32), ("gru", 3, torch.float64), ("cell", 3, torch.float32)]
)
@pytest.mark.parametrize("bias", [None, -3.0])
@pytest.mark.parametrize("name", HEADS)
def test_the_model_itself_confirms_the_signs(name: str, bias: float | None, layer: str, batch: int, dtype: torch.dtype) -> None:
    model, x = Ended(HEADS[name], layer, bias=bias).to(dtype).eval(), (1.5 * torch.randn(batch, 6, 5)).to(dtype)
    given, slopes, occluded = (
        relevance(model, x, target=0, method=method).relevance.sum(-1) for method in (LRP(), GradientXInput(), Occlusion())
    )
    own, gradient = cosine(given, occluded), cosine(slopes, occluded)
    assert own > gradient - 0.3 and (own > 0.6 or gradient < 0.85)


FALLING = ("1 − p", "survival", "1 / (1 + exp)", "p (1 − p)")


@pytest.mark.parametrize("name", [name for name in HEADS if name not in FALLING])
def test_what_can_only_raise_the_score_speaks_for_it(name: str) -> None:
    """All weights and inputs are positive, and the output rises in each input; the bias is far below."""

    class Rising(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.rnn, self.out = nn.RNN(3, 4, batch_first=True), nn.Linear(4, 3)
            for weight in self.parameters():
                nn.init.uniform_(weight, 0.05, 0.4)
            with torch.no_grad():
                self.out.weight[1:] = 0
                self.out.bias[:] = torch.tensor([-5.0, 0.0, 0.0])

        def forward(self, x: Tensor) -> Tensor:
            z = self.out(self.rnn(x)[0])
            return HEADS[name](z)

    x = torch.rand(2, 4, 3)
    for target in (0,):
        found = relevance(Rising(), x, target=target)
        assert (found.relevance.sum((1, 2)) * (-1 if name == "expected value" else 1) > 0).all()
        assert ((found.relevance >= -1e-9) if name != "expected value" else (found.relevance <= 1e-9)).all()


SPELLINGS: list[Head] = [
    lambda z: z.log_softmax(-1),
    lambda z: z - z.logsumexp(-1, keepdim=True),
    lambda z: z - z.logsumexp(-1)[..., None],
    lambda z: z.softmax(-1).log(),
    lambda z: z - z.exp().sum(-1, keepdim=True).log(),
    lambda z: (z.exp() / z.exp().sum(-1, keepdim=True)).log(),
    lambda z: by_hand(z).log(),
    lambda z: torch.distributions.Categorical(logits=z, validate_args=False).logits,
]


@pytest.mark.parametrize("delta", [0.0, 1.0])
@pytest.mark.parametrize(
    "follows", [last(lambda p: p), lambda p: p.mean(1), lambda p: (p * p).sum(1), lambda p: p.exp().mean(1)]
)
def test_all_spellings_of_a_log_softmax_are_one(follows: Head, delta: float) -> None:
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    first, *others = (
        relevance(Ended(then(spelling, follows)).double(), x, target=1, method=LRP(delta=delta)) for spelling in SPELLINGS
    )
    for other in others:
        assert_close(other.relevance, first.relevance, rtol=1e-6, atol=1e-9)
        assert_close(other.score, first.score, rtol=1e-6, atol=1e-9)


def test_a_softmax_by_hand_is_a_softmax() -> None:
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    for follows in (last(lambda p: p), lambda p: p.mean(1)):
        own, hand = (relevance(Ended(then(f, follows)).double(), x, target=1) for f in (lambda z: z.softmax(-1), by_hand))
        assert_close(own.relevance, hand.relevance)
        assert_close(own.score, hand.score)


def test_a_last_softmax_in_any_spelling_is_explained_from_its_logits() -> None:
    x = torch.randn(3, 4, 5)
    expected = relevance(Ended(last(lambda z: z)), x, target=2)
    for spelling in (*SPELLINGS, by_hand, lambda z: z.softmax(-1)):
        found = relevance(Ended(last(spelling)), x, target=2)
        assert_close(found.score, expected.score)
        assert_close(found.relevance, expected.relevance)


CONSTANTS: list[Callable[[Tensor, Ended], Tensor]] = [
    lambda z, m: (z[:, -1].softmax(-1) * m.numbers.to(z)).sum(-1, keepdim=True),
    lambda z, m: (z[:, -1].softmax(-1) * m.buffer).sum(-1, keepdim=True),
    lambda z, m: (z[:, -1].softmax(-1) * m.weight).sum(-1, keepdim=True),
    lambda z, m: (m.weight[None] * z[:, -1].softmax(-1)).sum(-1, keepdim=True),
    lambda z, m: (z[:, -1].softmax(-1) * m.buffer.expand(len(z), -1)).sum(-1, keepdim=True),
    lambda z, m: (z[:, -1].softmax(-1) * torch.arange(1.0, 4.0)).sum(-1, keepdim=True),
    lambda z, m: (z[:, -1].softmax(-1) / torch.tensor([1.0, 1 / 2, 1 / 3])).sum(-1, keepdim=True),
    lambda z, m: (z[:, -1].softmax(-1) @ m.weight)[:, None],
    lambda z, m: (z[:, -1].softmax(-1) @ m.buffer)[:, None],
    lambda z, m: torch.stack([n * z[:, -1].softmax(-1)[:, n - 1] for n in (1, 2, 3)]).sum(0)[:, None],
]


def test_a_constant_that_scales_is_a_weight_whatever_holds_it() -> None:
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    found = [relevance(Ended(head).double(), x, target=0).relevance for head in CONSTANTS]
    assert found[0].abs().sum() > 0.01
    for other in found[1:]:
        assert_close(other, found[0], rtol=1e-6, atol=1e-8)


def amounts_by_formula(name: str, z: Any) -> Any:
    """What the logits (B, T, C) get in all, for class 0."""
    found, first, steps = np.zeros_like(z), np.eye(3)[0], z.shape[1]
    end = z[:, -1]
    if name == "mean of sigmoids":
        found[..., 0] = oracle.slope(oracle.sigmoid, z[..., 0]) / steps
    elif name == "4 sigmoid + 1":
        found[:, -1, 0] = 4 * oracle.slope(oracle.sigmoid, end[:, 0])
    elif name == "softplus + 1e-6":
        found[:, -1, 0] = oracle.slope(lambda z: np.log1p(np.exp(z)), end[:, 0])
    elif name in ("log sigmoid", "sum of log sigmoids"):
        found[..., 0] = oracle.slope(lambda z: np.log(oracle.sigmoid(z)), z[..., 0]) * (
            np.arange(steps) == steps - 1 if name[0] == "l" else 1
        )
    elif name == "softmax, clamped":
        found[:, -1] = oracle.of_softmax(end, first + 0 * end)
    elif name == "mean of softmaxes":
        found[:] = oracle.of_softmax(z, first + 0 * z) / steps
    elif name == "expected value":
        found[:, -1] = oracle.of_softmax(end, np.arange(3.0) + 0 * end)
    elif name in ("noisy or", "survival"):
        values = 1 - oracle.sigmoid(z[..., 0])
        sign = 1 if name == "survival" else -1
        found[..., 0] = sign * oracle.of_running_product(values, 0.5) * oracle.slope(lambda z: 1 - oracle.sigmoid(z), z[..., 0])
    elif name == "mean of log_softmaxes":
        found[:] = oracle.of_log_softmax(z, first + 0 * z) / steps
    elif name == "log-sum-exp over time":
        found[..., 0] = oracle.partition(z[..., 0])
    return found * z


BY_FORMULA = [name for name in HEADS if amounts_by_formula(name, np.array([[[0.3, -0.2, 1.0], [0.7, 0.1, -0.4]]])).any()]


@pytest.mark.parametrize("delta", [0.0, 1.0])
@pytest.mark.parametrize("name", BY_FORMULA)
def test_a_head_gives_its_logits_what_the_formulas_say(name: str, delta: float) -> None:
    model, x = Ended(HEADS[name]).double(), torch.randn(2, 3, 5, dtype=torch.float64)
    z = model.logits(x).detach()
    amounts = torch.from_numpy(amounts_by_formula(name, z.numpy()))
    plain = Ended(lambda z: z).double()  # LRP is linear in the amount that it starts with
    expected = sum(
        relevance(plain, x, target=(t, c), method=LRP(delta=delta)).relevance * (amounts / z)[:, t, c, None, None]
        for t in range(3)
        for c in range(3)
    )
    found = relevance(model, x, target=0, method=LRP(delta=delta))
    assert_close(found.relevance, expected, rtol=1e-6, atol=1e-8)
    assert "activations" in found.absorbed


@pytest.mark.parametrize("function", [torch.tanh, F.relu, F.gelu, F.silu, F.softsign])
def test_what_is_0_at_0_passes_its_relevance_on_as_a_whole(function: Head) -> None:
    model, x = Ended(lambda z: function(z).mean(1)), torch.randn(2, 3, 5)
    assert "activations" not in relevance(model, x, target=0).absorbed


@pytest.mark.parametrize(
    "of", [torch.sigmoid, lambda z: z.softmax(-1), lambda z: 1 - z.sigmoid() / 2, lambda z: z.log_softmax(-1)]
)
def test_what_is_written_into_a_buffer_keeps_its_value_at_rest(of: Head) -> None:
    def written(z: Tensor) -> Tensor:
        kept = torch.zeros(len(z), z.shape[1], 3, dtype=z.dtype)
        for t in range(z.shape[1]):
            kept[:, t] = of(z[:, t])
        return kept.mean(1)

    x = torch.randn(3, 4, 5, dtype=torch.float64)
    plain, own = (relevance(Ended(head, bias=-3.0).double(), x, target=0) for head in (lambda z: of(z).mean(1), written))
    assert_close(own.relevance, plain.relevance)


def test_a_result_that_is_written_over_keeps_its_value_at_rest() -> None:
    def cut(of: Head) -> Head:
        def head(z: Tensor) -> Tensor:
            p = of(z)
            p[:, 0] = 0
            return p.mean(1)

        return head

    x = torch.randn(3, 4, 5, dtype=torch.float64)
    for of in (torch.sigmoid, lambda z: z.softmax(-1), lambda z: 2 * z.sigmoid() + 1):
        left = lambda z, of=of: of(z)[:, 1:].sum(1) / z.shape[1]  # noqa: E731
        plain, own = (relevance(Ended(head, bias=-3.0).double(), x, target=0) for head in (then(left, lambda p: p), cut(of)))
        assert_close(own.relevance, plain.relevance)


def told(head: Head, x: Tensor | None = None, *, delta: float = 0.0) -> Tensor:
    x = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64) if x is None else x
    return relevance(Ended(head).double(), x, target=0, method=LRP(delta=delta)).check(1e-9).relevance


@pytest.mark.parametrize("join", [torch.cat, lambda pair, dim: torch.stack(pair, -1).flatten(-2)])
def test_two_classes_of_one_probability_are_joined_in_any_order(join: Any) -> None:
    expected = told(lambda z: (1 - z[:, -1, :1].sigmoid()) * 1.0 + 0.0)
    one = told(lambda z: join([1 - z[:, -1, :1].sigmoid(), z[:, -1, :1].sigmoid()], -1))
    other = told(lambda z: join([z[:, -1, :1].sigmoid(), 1 - z[:, -1, :1].sigmoid()], -1).flip(-1) * 1.0)
    for found in (one, other):
        assert torch.cosine_similarity(found.flatten(), expected.flatten(), 0) > 0.999


@pytest.mark.parametrize("far", [-torch.inf, -1e9, -1e5])
def test_what_a_mask_leaves_out_gets_no_part_of_a_normaliser(far: float) -> None:
    def masked(z: Tensor) -> Tensor:
        away = (torch.arange(z.shape[1]) >= 3)[:, None]
        return z.masked_fill(away, far).logsumexp(1)

    assert_close(told(masked), told(lambda z: z[:, :3].logsumexp(1)), rtol=1e-6, atol=1e-9)


def ones_first(p: Tensor) -> Tensor:
    return torch.cat([torch.ones_like(p[:, :1]), 1 - p[:, :-1]], 1)


def written_ones(p: Tensor) -> Tensor:
    kept = torch.ones_like(p)
    kept[:, 1:] = 1 - p[:, :-1]
    return kept


@pytest.mark.parametrize("padded", [ones_first, written_ones, lambda p: F.pad(1 - p[:, :-1], (0, 0, 1, 0), value=1.0)])
def test_a_constant_beside_probabilities_rests_at_its_own_value(padded: Head) -> None:
    expected = told(lambda z: (1 - z[:, :-1].sigmoid()).prod(1))
    assert_close(told(lambda z: padded(z.sigmoid()).prod(1)), expected)
    assert_close(told(lambda z: padded(z.sigmoid()).cumprod(1)[:, -1]), expected)


STATES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda kept, new: sum([kept, new]),  # type: ignore[arg-type,return-value]
    "the other way": lambda kept, new: new + kept,
    "stack": lambda kept, new: torch.stack([kept, new]).sum(0),
    "clone": lambda kept, new: kept.clone() + new,
    "view": lambda kept, new: kept.view(kept.shape) + new,
    "twice negative": lambda kept, new: new - (-kept),
    "in place": lambda kept, new: kept.add_(new),
}


@pytest.mark.parametrize("delta", [0.0, 1.0])
@pytest.mark.parametrize("name", STATES)
def test_a_former_state_behind_its_gate_absorbs_what_it_gets_however_it_is_added(name: str, delta: float) -> None:
    class Cell(nn.Module):
        def __init__(self, add: Callable[[Tensor, Tensor], Tensor]) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.lstm, self.out, self.add = nn.LSTM(5, 4, batch_first=True), nn.Linear(4, 2), add

        def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tensor:
            w, u, b, d = (getattr(self.lstm, each) for each in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"))
            for x_t in x.unbind(1):
                i, f, g, o = (x_t @ w.t() + h @ u.t() + b + d).chunk(4, -1)
                c = self.add(f.sigmoid() * c, i.sigmoid() * g.tanh())
                h = o.sigmoid() * c.tanh()
            return self.out(h)

    x, h, c = torch.randn(2, 3, 5).double(), torch.randn(2, 4).double(), torch.randn(2, 4).double()
    plain, own = Cell(torch.add).double(), Cell(STATES[name]).double()
    expected, found = (relevance(m, x, args=(h, c), target=1, method=LRP(delta=delta)) for m in (plain, own))
    assert_close(found.relevance, expected.relevance, rtol=1e-3, atol=1e-3 * float(expected.relevance.abs().max()))
