"""Single operations through the public door: each sum is one neuron, each move moves, each product knows its gate."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import whence
from whence import LRP, NoRuleError, relevance

torch.manual_seed(0)
W = nn.Parameter(torch.randn(4, 4, dtype=torch.float64))
V = nn.Parameter(torch.randn(4, 3, dtype=torch.float64))
B = nn.Parameter(torch.randn(4, dtype=torch.float64))
ZERO = torch.zeros(4, dtype=torch.float64)
X = torch.randn(2, 5, 4, dtype=torch.float64)


class Model(nn.Module):
    """Any function of (B, T, 4), pooled to (B, 4) where it does not do so itself, and read out."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.fc = nn.Linear(4, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        found = self.function(x)
        return self.fc(found if found.dim() == 2 else found.sum(1))


def explained(function: Callable[[Tensor], Tensor], method: LRP | None = None) -> whence.Result:
    torch.manual_seed(1)
    return relevance(Model(function), X, target=0, method=method or LRP()).check(1e-11)


@pytest.mark.parametrize("method", [LRP(), LRP(delta=1.0), LRP(epsilon=0.5, delta=0.5, stabiliser="absorbed")], ids=str)
@pytest.mark.parametrize(
    "spelling",
    [
        lambda x: F.linear(x, W, B).tanh(),
        lambda x: (x @ W.T + B).tanh(),
        lambda x: (B + x @ W.T).tanh(),
        lambda x: torch.add(x.matmul(W.t()), B).tanh(),
        lambda x: torch.einsum("bti,oi->bto", x, W).add(B).tanh(),
        lambda x: torch.einsum("oi,bti->bto", W, x).add_(B).tanh(),
        lambda x: (W @ x.transpose(1, 2)).transpose(1, 2).add(B).tanh(),
        lambda x: (F.linear(x, W, 0.25 * B) + 0.75 * B).tanh(),
        lambda x: torch.stack([torch.addmm(B, x[:, t], W.T) for t in range(5)], dim=1).tanh(),
        lambda x: torch.stack([torch.addmv(B, W, x[b, t]) for b in range(2) for t in range(5)]).view(2, 5, 4).tanh(),
        lambda x: torch.bmm(x, W.T.expand(2, 4, 4)).add(B).tanh_(),
        lambda x: F.conv1d(x.transpose(1, 2), W[..., None], B).mT.tanh(),
        lambda x: ((x[..., :2] @ W.T[:2] + B) + x[..., 2:] @ W.T[2:]).tanh(),
        lambda x: (-(-F.linear(x, W) - B)).tanh(),
        lambda x: (2 * (F.linear(x, W, B) / 2)).tanh(),
    ],
)
def test_a_weighted_sum_is_one_neuron_however_it_is_spelled(spelling: Callable[[Tensor], Tensor], method: LRP) -> None:
    expected = explained(lambda x: F.linear(x, W, B).tanh(), method)
    assert_close(explained(spelling, method).relevance, expected.relevance, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: torch.cat([x[:, :2], x[:, 2:]], dim=1),
        lambda x: torch.stack(list(x.unbind(1)), dim=1),
        lambda x: torch.cat(x.split(2, dim=1), 1),
        lambda x: torch.cat(torch.chunk(x, 4, -1), dim=-1),
        lambda x: x.flip(1),
        lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
        lambda x: x.reshape(-1, 4).view(2, 5, 4),
        lambda x: x.flatten(1).unflatten(1, (5, 4)),
        lambda x: x.unsqueeze(1).squeeze(1),
        lambda x: x.gather(1, torch.tensor([4, 2, 0, 1, 3])[None, :, None].expand(2, 5, 4)),
        lambda x: x.index_select(1, torch.tensor([4, 3, 2, 1, 0])),
        lambda x: x[:, torch.tensor([1, 0, 3, 2, 4])],
        lambda x: x.permute(2, 0, 1).permute(1, 2, 0),
        lambda x: torch.roll(x, 1, 1),
        lambda x: torch.stack(list(x)),
        lambda x: F.dropout(x, 0.5, training=False),
        lambda x: F.pad(x, (0, 0, 1, 2)),
        lambda x: torch.where(torch.ones(5, 1, dtype=torch.bool), x, torch.zeros(())),
        lambda x: torch.zeros(2, 5, 4, dtype=x.dtype).copy_(x),
        lambda x: x.clone().detach().double().data,
        lambda x: torch.zeros(2, 6, 4, dtype=x.dtype).index_copy(1, torch.arange(5), x),
    ],
)
def test_moving_numbers_moves_relevance(move: Callable[[Tensor], Tensor]) -> None:
    """Moved and then summed over time, so every order gives the plain sum's relevance: R as v·q with N = 5 (7 with padding)."""
    expected = explained(lambda x: x, LRP(stabiliser="absorbed"))
    found = explained(move, LRP(stabiliser="absorbed"))
    assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-13)


def test_max_pooling_gives_all_to_the_largest() -> None:
    result = explained(lambda x: x.max(1).values)
    winners = X.max(1, keepdim=True).values == X
    assert (result.relevance[~winners] == 0).all()
    assert (result.relevance[winners] != 0).all()
    for pooled in (lambda x: x.amax(1), lambda x: F.adaptive_max_pool1d(x.mT, 1)[..., 0], lambda x: torch.max(x, dim=1)[0]):
        assert_close(explained(pooled).relevance, result.relevance)


def test_expanding_adds_up_what_its_copies_get() -> None:
    result = explained(lambda x: x[:, :1].expand(2, 5, 4))
    assert (result.relevance[:, 1:] == 0).all()
    assert_close(result.relevance[:, 0].sum(-1) + sum(result.absorbed.values()), result.score)


@pytest.mark.parametrize(
    "gate",
    [
        lambda x: torch.sigmoid(x @ W),
        lambda x: 1 - torch.sigmoid(x @ W),
        lambda x: F.hardsigmoid(x @ W),
        lambda x: (x @ W).sigmoid().flip(1),
        lambda x: torch.sigmoid(x @ W).chunk(1, -1)[0] * 0.5,
        lambda x: (0.2 * (x @ W) + 0.5).clamp(0, 1),
        lambda x: torch.softmax(x @ W, dim=1),
        lambda x: torch.sigmoid(x @ W) * torch.sigmoid(x),
    ],
)
def test_a_gate_gets_nothing_and_its_source_all(gate: Callable[[Tensor], Tensor]) -> None:
    def gated(x: Tensor) -> Tensor:
        return gate(x) * torch.tanh(x) if x.numel() else x

    def constant(x: Tensor) -> Tensor:
        with torch.no_grad():
            fixed = gate(X)
        return fixed * torch.tanh(x)

    expected = explained(constant, LRP(epsilon=0.01, stabiliser="absorbed"))
    for spelling in (gated, lambda x: torch.tanh(x).mul(gate(x))):
        found = explained(spelling, LRP(epsilon=0.01, stabiliser="absorbed"))
        assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-13)


def test_attention_pooling_is_a_weighted_sum_with_gates_as_weights() -> None:
    def attended(x: Tensor) -> Tensor:
        weights = torch.softmax((torch.tanh(x @ W) @ V)[..., :1], dim=1)
        return (weights.transpose(1, 2) @ x).squeeze(1)

    def summed(x: Tensor) -> Tensor:
        weights = torch.softmax((torch.tanh(x @ W) @ V)[..., :1], dim=1)
        return (weights * x).sum(1)

    assert_close(explained(attended).relevance, explained(summed).relevance, rtol=1e-10, atol=1e-13)


def test_a_masked_mean_shares_nothing_with_what_the_mask_leaves_out() -> None:
    mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).double().unsqueeze(-1)
    result = explained(lambda x: (x * mask).sum(1) / mask.sum(1), LRP(epsilon=0.1))
    assert (result.relevance[0, 3:] == 0).all()
    torch.manual_seed(1)
    short = relevance(Model(lambda x: x.mean(1)), X[:1, :3], target=0, method=LRP(epsilon=0.1))
    assert_close(result.relevance[:1, :3], short.relevance, rtol=1e-12, atol=1e-13)


def test_a_sum_that_is_masked_altogether_keeps_its_share() -> None:
    mask = torch.tensor([0.0, 1.0]).double()[:, None, None]
    result = explained(lambda x: (x * mask).sum(1), LRP(delta=1.0))
    assert (result.relevance[0] == 0).all()
    assert_close(result.score[0], sum(v[0] for v in result.absorbed.values()))


def test_layer_norm_takes_its_normaliser_as_a_constant() -> None:
    gamma, beta = torch.randn(2, 4, dtype=torch.float64)

    def by_hand(x: Tensor) -> Tensor:
        scale = gamma / (X.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        return ((x - x.mean(-1, keepdim=True)) * scale + beta).relu()

    expected = explained(by_hand, LRP(epsilon=0.0))
    found = explained(lambda x: F.layer_norm(x, (4,), gamma, beta).relu(), LRP(epsilon=0.0))
    assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-13)
    explained(lambda x: F.layer_norm(x, (5, 4)), LRP(delta=1.0))


def test_batch_norm_at_rest_is_a_scale_and_a_shift() -> None:
    norm = nn.BatchNorm1d(4).double()
    mean, variance = torch.randn(4).double(), torch.rand(4).double() + 0.5
    norm.running_mean, norm.running_var = mean, variance
    scale = ((variance + norm.eps) ** -0.5).detach()
    expected = explained(lambda x: (x * scale - mean * scale).tanh())
    norm.eval()
    assert_close(explained(lambda x: norm(x.mT).mT.tanh()).relevance, expected.relevance, rtol=1e-10, atol=1e-13)


def test_residual_links_add_up() -> None:
    explained(lambda x: x + F.linear(x, W, B).relu() + F.linear(x.relu(), W), LRP(delta=1.0))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: torch.lgamma(x),
            r"no rule for torch.lgamma \(called in the model itself\)\. Add one with @whence.handles",
        ),
        (lambda x: x * float(x.max()), r"no rule for torch.Tensor.__float__ \(.*numbers leave"),
        (lambda x: F.dropout(x, 0.5), r"no rule for torch.nn.functional.dropout \(.*active"),
        (lambda x: x.erfinv_(), r"no rule for torch.Tensor.erfinv_ \(.*in place"),
        (
            lambda x: torch.lgamma(x) + torch.erfinv(x * 0.1),
            r"2 calls have no rule: \(1\) torch.lgamma .*; \(2\) torch.erfinv .*Add rules with @whence.handles",
        ),
    ],
)
def test_an_operation_without_a_rule_is_named(function: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(NoRuleError, match=message):
        explained(function)


def test_a_call_without_a_rule_is_harmless_where_no_relevance_passes() -> None:
    def gated(x: Tensor) -> Tensor:
        scores = (x @ W).bmm(x.mT).cumsum(-1) / (1 + x.abs().exp().norm())
        state = torch.zeros(2, 5, 4, dtype=x.dtype)
        kept = torch.sigmoid(x.abs() ** 2) * state + torch.sigmoid(x.exp()) * torch.tanh(x)
        padding = (x.abs().sum(-1, keepdim=True) == 0).to(x)
        return scores.softmax(-1) @ (kept * (1 - padding))

    explained(gated, LRP(epsilon=0.1)).check(1e-12)


def test_the_error_names_the_layer() -> None:
    class Pool(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.lgamma().sum(1)

    model = nn.Sequential()
    model.add_module("encoder", nn.Sequential(nn.Tanh(), Pool()))
    model.add_module("fc", nn.Linear(4, 2))
    with pytest.raises(NoRuleError, match=r"no rule for torch.Tensor.lgamma \(called in 'encoder.1'\)"):
        relevance(model.double(), X, target=0)


def test_a_view_that_outlives_a_change_in_place_holds_what_was_written() -> None:
    def stale(x: Tensor) -> Tensor:
        y = torch.tanh(x)
        view = y[:, 0]
        y.mul_(2)
        return view + y.sum(1)

    torch.manual_seed(1)
    found = explained(stale)
    torch.manual_seed(1)
    assert_close(found.relevance, explained(lambda x: 2 * torch.tanh(x[:, 0]) + (2 * torch.tanh(x)).sum(1)).relevance)

    def fresh(x: Tensor) -> Tensor:
        y = F.linear(x, W, B)
        z = y.tanh()
        y[:, 0].relu_()
        y += 1
        return z + y.relu()

    def afresh(x: Tensor) -> Tensor:
        y = F.linear(x, W, B)
        changed = torch.cat([y[:, :1].relu(), y[:, 1:]], 1) + 1
        return y.tanh() + changed.relu()

    torch.manual_seed(1)
    found = explained(fresh, LRP(epsilon=0.0))
    torch.manual_seed(1)
    assert_close(found.relevance, explained(afresh, LRP(epsilon=0.0)).relevance)

    def own(x: Tensor) -> Tensor:
        y = F.linear(x, W, B)
        z = y.tanh()
        y += 1
        y[:, 1:] *= 2
        return z + y.relu_()

    def pure(x: Tensor) -> Tensor:
        y = F.linear(x, W, B)
        shifted = y + 1
        return y.tanh() + torch.cat([shifted[:, :1], shifted[:, 1:] * 2], 1).relu()

    assert_close(explained(own).relevance, explained(pure).relevance, rtol=1e-10, atol=1e-13)


def test_the_inputs_are_not_changed_by_a_model_that_writes_into_them() -> None:
    x = X.clone()
    torch.manual_seed(1)
    relevance(Model(lambda x: x.mul_(2).relu_()), x, target=0).check(1e-12)
    assert x.equal(X)


def test_a_user_can_add_a_rule() -> None:
    from whence.engine.table import TABLE

    known = TABLE["cumsum"]

    @whence.handles(torch.cumsum)  # in place of the rule it has
    def cumsum_rule(call: whence.Call, relevance: Tensor) -> Tensor:
        x, dim = call.args
        q = relevance / call.output
        return x * q.flip(dim).cumsum(dim).flip(dim)

    try:
        found = explained(lambda x: x.cumsum(1).mean(1), LRP(epsilon=0.0))
        everything = relevance(Model(lambda x: torch.cumsum(x, 1).mean(1)), X, target="all", method=LRP(epsilon=0.0))
    finally:
        TABLE["cumsum"] = known
    weights = torch.arange(5, 0, -1).double()[:, None] / 5
    assert_close(found.relevance, explained(lambda x: (x * weights).sum(1), LRP(epsilon=0.0)).relevance)
    assert everything.relevance.shape == (2, 2, 5, 4)


def test_a_rule_that_loses_relevance_is_found_out_and_named() -> None:
    from whence.engine.table import TABLE

    class Leaky(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sin(x)

    model = nn.Sequential(nn.Linear(4, 4), Leaky(), nn.Linear(4, 2)).double()
    known = TABLE["sin"]
    whence.handles(torch.sin)(lambda call, relevance: relevance / 2)
    try:
        with pytest.raises(whence.ConservationError, match=r"sample 0: score .* \(gap .* > 0.0001\); it opens at '1'"):
            relevance(model, X[:, 0], target=0)
        with pytest.raises(whence.ConservationError, match="it opens at '1'"):
            relevance(model, X[:, 0], target=0, check=False).check()
        whence.handles(torch.sin)(lambda call, relevance: relevance[..., :2])
        with pytest.raises(whence.InputError, match=r"the rule for torch.sin returned relevance of shapes \[\(2, 2\)\]"):
            relevance(model, X[:, 0], target=0)
    finally:
        TABLE["sin"] = known


@pytest.mark.parametrize(
    ("by_name", "plain"),
    [
        (lambda x: torch.add(x, other=x.tanh()), lambda x: x + x.tanh()),
        (lambda x: torch.add(input=x, other=x.tanh(), alpha=2), lambda x: x + 2 * x.tanh()),
        (lambda x: x.sub(other=x.tanh()), lambda x: x - x.tanh()),
        (lambda x: torch.mul(input=x, other=x.sigmoid()), lambda x: x * x.sigmoid()),
        (lambda x: torch.div(x, other=2.0, rounding_mode=None), lambda x: x / 2),
        (lambda x: torch.matmul(input=x, other=W).tanh(), lambda x: (x @ W).tanh()),
        (lambda x: F.linear(input=x, weight=W, bias=B).tanh(), lambda x: F.linear(x, W, B).tanh()),
        (lambda x: torch.sum(input=x, dim=1), lambda x: x.sum(1)),
        (lambda x: x.sum(dim=(-2,)), lambda x: x[:, 0] + x[:, 1] + x[:, 2] + x[:, 3] + x[:, 4]),
        (lambda x: x.mean(-2, keepdim=True), lambda x: x.sum(1) / 5),
        (lambda x: x.sum((-1, 1), keepdim=True).expand(2, 1, 4), lambda x: x.sum(2).sum(1)[:, None].expand(2, 4)),
        (lambda x: torch.stack([row.sum() for row in x])[:, None].expand(2, 4), lambda x: x.sum((1, 2))[:, None].expand(2, 4)),
        (
            lambda x: torch.stack([x[b, 0, 0].sum().mean() for b in range(2)])[:, None].expand(2, 4),
            lambda x: x[:, 0, :1].expand(2, 4),
        ),
        (lambda x: torch.addmm(B, mat1=x[:, 0], mat2=W).tanh(), lambda x: (x[:, 0] @ W + B).tanh()),
        (lambda x: torch.layer_norm(x, (4,), None, None, 1e-5, True), lambda x: F.layer_norm(x, (4,))),
        (lambda x: torch.zeros(4).to(x) + x * torch.ones(2, 5, 1).type_as(x), lambda x: x),
        (lambda x: torch.ones(1, dtype=x.dtype).expand_as(x) * x, lambda x: x),
        (lambda x: F.avg_pool1d(x.mT, 5).squeeze(-1), lambda x: x.mean(1)),
        (lambda x: F.adaptive_avg_pool1d(x.mT, 1).squeeze(-1), lambda x: x.mean(1)),
        (lambda x: F.glu(torch.cat([x, x @ W], -1)), lambda x: x * (x @ W).sigmoid()),
        (lambda x: x / F.linear(torch.ones(1, 4).double(), W), lambda x: x / W.sum(1)),
        (lambda x: nn.LogSigmoid()(x), lambda x: F.logsigmoid(x)),
    ],
)
def test_a_call_means_the_same_in_any_form(by_name: Callable[[Tensor], Tensor], plain: Callable[[Tensor], Tensor]) -> None:
    assert_close(explained(by_name).relevance, explained(plain).relevance, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("method", [LRP(), LRP(delta=1.0), LRP(epsilon=0.5)], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tanh(torch.maximum(F.linear(x, W, B), x) + F.linear(x, W)),
        lambda x: torch.tanh(F.linear(x, W, B).sort(-1).values + x),
        lambda x: torch.tanh(F.linear(x, W, B).amax(1) + x[:, 0] @ W),
        lambda x: torch.minimum(x * 0 + 1, torch.ones(4).double()),
        lambda x: torch.maximum(x, x.new_zeros(2, 5, 4)),
        lambda x: torch.tanh(F.linear(x, W, B) * 0.0) + x,
        lambda x: (x + torch.tensor([0, 0, -torch.inf, -torch.inf, 0]).double()[:, None]).max(1).values,
        lambda x: F.conv1d(F.pad(x.mT, (1, 1)), W[:, :, None].expand(4, 4, 2).contiguous(), B).mT.relu(),
        lambda x: F.conv1d(x.mT, W[:, :2, None], B, groups=2, dilation=2, padding=1).mT.relu(),
        lambda x: x if bool(x.mean() > 100) else x + F.linear(x, W, B),
        lambda x: x.sum(dim=1, keepdim=True, dtype=torch.float64).expand(2, 5, 4),
    ],
)
def test_the_books_balance(function: Callable[[Tensor], Tensor], method: LRP) -> None:
    result = explained(function, method)
    assert result.relevance.isfinite().all()
    torch.manual_seed(1)
    assert_close(result.score, Model(function)(X)[:, 0].detach())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: torch.clamp(x, min=x @ W), "its bounds or slopes depend on the input"),
        (lambda x: zeros_with(x, accumulate=True), "adds up what it puts in one place"),
        (lambda x: torch.div(x, 2.0, rounding_mode="floor"), "it rounds"),
        (
            lambda x: F.batch_norm(x.mT, ZERO, ZERO + 1, training=True).mT,
            "influence each other",
        ),
    ],
)
def test_what_has_no_rule_says_why(function: Callable[[Tensor], Tensor], message: str) -> None:
    with pytest.raises(NoRuleError, match=message):
        explained(function)


def zeros_with(x: Tensor, *, accumulate: bool) -> Tensor:
    return torch.zeros(2, 5, 4, dtype=x.dtype).index_put((torch.tensor([0, 1]),), x, accumulate=accumulate)


def test_a_trained_weight_of_zero_connects_in_every_spelling_and_a_mask_does_not() -> None:
    weight = nn.Parameter(torch.randn(4, 4, dtype=torch.float64))
    weight.data[:, 0] = 0

    class Trained(Model):
        def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
            super().__init__(function)
            self.weight = weight

    def found(function: Callable[[Tensor], Tensor]) -> Tensor:
        torch.manual_seed(1)
        return relevance(Trained(function), X, target=0, method=LRP(epsilon=0.1)).check(1e-11).relevance

    expected = found(lambda x: F.linear(x, weight).tanh())
    assert (expected[..., 0] != 0).all()
    for spelling in (
        lambda x: (x @ weight.T).tanh(),
        lambda x: (x @ weight.detach().T).tanh(),
        lambda x: (weight @ x.mT).mT.tanh(),
        lambda x: torch.einsum("oi,bti->bto", weight, x).tanh(),
    ):
        assert_close(found(spelling), expected, rtol=1e-10, atol=1e-13)
    mask = torch.tensor([0.0, 1, 1, 1]).double()
    assert (explained(lambda x: (x @ torch.diag(mask)).tanh(), LRP(epsilon=0.1)).relevance[..., 0] == 0).all()


def test_a_custom_rule_may_change_the_shape() -> None:
    from whence.engine.table import TABLE

    known = TABLE["logsumexp"]

    @whence.handles(torch.logsumexp)
    def to_the_largest(call: whence.Call, relevance: Tensor) -> Tensor:
        x = call.args[0]
        return torch.where(x == x.amax(1, keepdim=True), relevance[:, None], 0.0)

    try:
        result = explained(lambda x: torch.logsumexp(x, 1))
        whence.handles(torch.logsumexp)(cast(Any, lambda call, relevance: None))
        with pytest.raises(whence.InputError, match=r"the rule for torch.logsumexp returned None"):
            explained(lambda x: torch.logsumexp(x, 1))
    finally:
        TABLE["logsumexp"] = known
    assert_close(result.relevance.sum((1, 2)) + sum(result.absorbed.values()), result.score)


@pytest.mark.parametrize("wrong", ["cumsum", None, nn.GRU])
def test_only_functions_can_be_given_a_rule(wrong: Any) -> None:
    with pytest.raises(whence.InputError, match=r"is not a torch function; name one such as torch.cumsum"):
        whence.handles(wrong)


@pytest.mark.parametrize("fill", [0.0, -5.0, 7.0, -15.0])
def test_what_is_filled_in_does_not_count(fill: float) -> None:
    mask = torch.tensor([0, 1, 0, 0, 1], dtype=torch.bool)[:, None]
    method = LRP(epsilon=0.5)
    found = explained(lambda x: F.linear(x, W).masked_fill(mask, fill).sum(1), method)
    expected = explained(lambda x: F.linear(x[:, [0, 2, 3]], W).sum(1) + 2 * fill, method)
    assert_close(found.relevance, expected.relevance, rtol=1e-10, atol=1e-13)


def test_constants_among_the_steps_have_a_sample_too() -> None:
    cell = nn.LSTMCell(4, 4).double()

    def shifted(x: Tensor) -> Tensor:
        state: Any = None
        inputs = torch.cat([torch.ones(2, 1, 4, dtype=x.dtype), x[:, :-1]], dim=1)
        for t in range(5):
            state = cell(inputs[:, t], state)
        return state[0]

    explained(shifted)
    explained(lambda x: torch.where(x.sum((1, 2), keepdim=True) > X[0].sum() - 1e-9, torch.tanh(x), 0.0))
    one = explained(lambda x: torch.where(condition=x > 0, input=x, other=x @ W))
    assert_close(one.relevance, explained(lambda x: torch.where(x > 0, x, x @ W)).relevance)


def test_a_constant_with_live_bounds_is_refused() -> None:
    with pytest.raises(NoRuleError, match="its bounds or slopes depend on the input"):
        explained(lambda x: torch.clamp(torch.full((2, 4), 0.1).double(), min=x[:, 0] @ W))
