"""The γ and the αβ rule on the dense layers of a head: equal to the oracle, conserving, and on the right layers."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import whence
from tests.models import BiLSTM
from tests.models.cells import ZOO
from tests.models.networks import NETWORKS
from tests.models.published import PUBLISHED
from tests.oracle import head as oracle
from tests.strategies import SEEDS, Case, lstm_cases
from whence import LRP, InputError, NoRuleError, relevance

HEADS = st.builds(
    LRP,
    epsilon=st.sampled_from([1e-6, 1e-3, 1.0]),
    delta=st.sampled_from([0.0, 0.3, 1.0]),
    stabiliser=st.sampled_from(["shared", "absorbed"]),
    head=st.sampled_from(["gamma", "alpha-beta"]),
    gamma=st.sampled_from([0.0, 0.25, 10.0]),
    alpha=st.sampled_from([1.0, 2.0, 3.5]),
)
BOTH = [LRP(head="gamma"), LRP(head="alpha-beta")]


def expected(layers: list[tuple[nn.Linear, Tensor]], r: Tensor, method: LRP) -> tuple[np.ndarray, float, float]:
    """The oracle for one sample: every layer with its input, from the last to the first."""
    found, bias, stabiliser = r.numpy(), 0.0, 0.0
    for layer, x in layers:
        given = dict(layer.named_parameters())
        b = given["bias"].detach().numpy() if "bias" in given else np.zeros(layer.out_features)
        found, in_bias, in_stabiliser = oracle.dense(
            x.detach().numpy(),
            layer.weight.detach().numpy(),
            b,
            found,
            rule=method.head,
            gamma=method.gamma,
            alpha=method.alpha,
            epsilon=method.epsilon,
            delta=method.delta,
            shared=method.stabiliser == "shared",
        )
        bias, stabiliser = bias + in_bias, stabiliser + in_stabiliser
    return found, bias, stabiliser


def amount(absorbed: Mapping[str, Tensor], kind: str) -> Tensor:
    return sum((each for name, each in absorbed.items() if name.endswith(kind)), start=torch.zeros(()).double())


def some(*shape: int, generator: torch.Generator) -> Tensor:
    """Numbers of both signs, a quarter of them exactly 0."""
    found = torch.randn(shape, generator=generator, dtype=torch.float64)
    return torch.where(torch.rand(shape, generator=generator) < 0.25, 0.0, found)


def linear(inputs: int, outputs: int, generator: torch.Generator, *, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(some(*parameter.shape, generator=generator))
    return layer


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    method=HEADS,
    size=st.sampled_from([1, 3, 63]),
    batch=st.sampled_from([1, 3, 63]),
    activation=st.sampled_from([None, torch.relu, torch.tanh]),
    bias=st.booleans(),
)
def test_dense_layers_are_the_oracle(
    seed: int, method: LRP, size: int, batch: int, activation: Callable[[Tensor], Tensor] | None, bias: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    first, last = linear(size, 5, generator, bias=bias), linear(5, 3, generator, bias=bias)
    layers = nn.ModuleList([first, last])
    x = some(batch, size, generator=generator)

    def call(model: nn.ModuleList, x: Tensor) -> Tensor:
        return model[0](x) if activation is None else model[1](activation(model[0](x)))

    result = relevance(layers, x, target=1, method=method, call=call)
    for b in range(min(batch, 4)):
        score = call(layers, x[b : b + 1]).detach()[0]
        pairs = [(first, x[b])] if activation is None else [(last, activation(first(x[b]))), (first, x[b])]
        found, in_bias, in_stabiliser = expected(pairs, torch.where(torch.arange(len(score)) == 1, score, 0.0), method)
        scale = 1 + np.abs(found).sum()
        assert_close(result.relevance[b], torch.from_numpy(found), rtol=1e-9, atol=1e-11 * scale)
        bias_amount, stabiliser_amount = amount(result.absorbed, "bias"), amount(result.absorbed, "stabiliser")
        for own, wanted in ((bias_amount, in_bias), (stabiliser_amount, in_stabiliser)):
            own = own if own.dim() == 0 else own[b]
            assert_close(own, torch.tensor(wanted, dtype=torch.float64), rtol=1e-9, atol=1e-11 * scale)


@settings(max_examples=100, deadline=None)
@given(case=lstm_cases(), method=HEADS)
def test_relevance_and_absorbed_are_the_score(case: Case, method: LRP) -> None:
    result = relevance(case.model, case.x, target=case.target, method=method, args=case.args)
    total = case.samples(result.relevance) + sum(result.absorbed.values())
    scale = 1 + result.relevance.abs().sum().item() + sum(each.abs().sum().item() for each in result.absorbed.values())
    assert_close(total, result.score, rtol=1e-9, atol=1e-9 * scale)


class Watched(nn.Module):
    """An LSTM and a head; the last state between them is a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.state, self.fc = nn.LSTM(4, 6, batch_first=True), nn.Identity(), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.state(self.lstm(x)[0][:, -1]))


@pytest.mark.parametrize("method", [*BOTH, LRP(head="gamma", delta=0.3, stabiliser="absorbed")], ids=str)
def test_a_recurrent_layer_gets_what_the_oracle_gives_it(method: LRP) -> None:
    torch.manual_seed(0)
    model, x = Watched().double(), torch.randn(3, 6, 4, dtype=torch.float64)
    states, scores = model.lstm(x)[0][:, -1].detach(), model(x).detach()
    result = relevance(model, x, target="all", method=method, at="state")
    for b in range(3):
        for c in range(3):
            r = torch.where(torch.arange(3) == c, scores[b], 0.0)
            found, in_bias, in_stabiliser = expected([(model.fc, states[b])], r, method)
            assert_close(result.relevance[c, b], torch.from_numpy(found), rtol=1e-9, atol=1e-12)
            assert_close(result.absorbed["fc.bias"][c, b].item(), in_bias, rtol=1e-9, atol=1e-12)
            if method.stabiliser == "absorbed":
                assert_close(result.absorbed["fc.stabiliser"][c, b].item(), in_stabiliser, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", [LRP(head="gamma", gamma=0.0), LRP(head="alpha-beta", epsilon=0.0, alpha=1.0)], ids=str)
def test_gamma_0_is_the_epsilon_rule_and_alpha_1_looks_at_one_sign_only(method: LRP) -> None:
    torch.manual_seed(0)
    model, x = BiLSTM(4, 3, 5).double(), torch.randn(3, 6, 4, dtype=torch.float64)
    found = relevance(model, x, target=1, method=method)
    if method.head == "gamma":
        assert_close(found.relevance, relevance(model, x, target=1).relevance, rtol=1e-12, atol=1e-15)
    else:
        layer = nn.Linear(6, 1).double()
        inputs = torch.randn(4, 6, dtype=torch.float64)
        one = relevance(layer, inputs, target=0, method=method)
        against = inputs * layer.weight * layer(inputs).sign() < 0
        assert against.any() and not one.relevance[against].any()


class Spelled(nn.Module):
    """One head on an LSTM, in a spelling that computes its neurons by several calls."""

    def __init__(self, spelling: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.a, self.b = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3), nn.Linear(3, 3)
        self.spelling = spelling
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        h, w, b = self.lstm(x)[0][:, -1], self.a.weight, self.a.bias
        return {
            "linear": lambda: self.a(h),
            "matmul": lambda: h @ w.T + b,
            "from the left": lambda: (w @ h.T).T + b,
            "addmm": lambda: torch.addmm(b, h, w.T),
            "einsum": lambda: torch.einsum("bi,oi->bo", h, w) + b,
            "conv1d": lambda: F.conv1d(h[..., None], w[..., None], b)[..., 0],
            "halves": lambda: F.linear(h[:, :3], w[:, :3]) + F.linear(h[:, 3:], w[:, 3:], b),
            "negated": lambda: -F.linear(h, -w, -b),
            "scaled": lambda: F.linear(h, w * 2, b * 2) / 2,
            "by masks": lambda: F.linear(h, w, b) * torch.tensor([1.0, -1.0, 1.0]).double() * torch.tensor([1.0, -1.0, 1.0]),
            "in double and back": lambda: self.a(h).unsqueeze(1).transpose(0, 1)[0].to(torch.float64),
            "summed over places": lambda: torch.einsum("bi,oi->bio", h, w).sum(1) + b,
        }[self.spelling]()


SPELLINGS = [
    "matmul",
    "from the left",
    "addmm",
    "einsum",
    "conv1d",
    "halves",
    "negated",
    "scaled",
    "by masks",
    "in double and back",
    "summed over places",
]


@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("method", BOTH, ids=["gamma", "alpha-beta"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_spelling_of_a_head_does_not_matter(spelling: str, method: LRP, delta: float) -> None:
    method = LRP(head=method.head, delta=delta)
    x = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    one, other = (relevance(Spelled(each), x, target="all", method=method) for each in ("linear", spelling))
    assert_close(one.relevance, other.relevance, rtol=1e-9, atol=1e-13)
    assert_close(sum(one.absorbed.values()), sum(other.absorbed.values()), rtol=1e-9, atol=1e-13)


class Pooling(nn.Module):
    """Steps of an LSTM behind a front layer, pooled before or behind the head."""

    def __init__(self, pool: Callable[["Pooling", Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.front, self.lstm = nn.Linear(4, 4), nn.LSTM(4, 3, batch_first=True, bidirectional=True)
        self.one, self.two, self.norm = nn.Linear(6, 6), nn.Linear(6, 2), nn.LayerNorm(6)
        self.pool = pool
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self, self.lstm(torch.tanh(self.front(x)))[0])


def squared(model: Pooling, h: Tensor) -> Tensor:
    last = h[:, -1]
    return model.two(last) + torch.einsum("bi,bi->b", last, last)[:, None]


def summed(model: Pooling, h: Tensor) -> Tensor:
    total = model.two(h[:, 0])
    for t in range(1, h.shape[1]):
        total = total + model.two(h[:, t])
    return total


POOLS: dict[str, tuple[Callable[[Pooling, Tensor], Tensor], set[str]]] = {
    "last": (lambda m, h: m.two(h[:, -1]), {"two"}),
    "mean": (lambda m, h: m.two(h.mean(1)), {"two"}),
    "max": (lambda m, h: m.two(h.max(1).values), {"two"}),
    "mean of scores": (lambda m, h: m.two(h).mean(1), {"two"}),
    "sum of scores, in a loop": (summed, {"two"}),
    "MLP, ReLU": (lambda m, h: m.two(torch.relu(m.one(h[:, -1]))), {"one", "two"}),
    "MLP, tanh": (lambda m, h: m.two(torch.tanh(m.one(h.mean(1)))), {"one", "two"}),
    "no activation": (lambda m, h: m.two(m.one(h[:, -1])), {"one", "two"}),
    "residual, norm": (lambda m, h: m.two(m.norm(h[:, -1] + m.one(h[:, -1]))), {"one", "two"}),
    "a normalised term": (lambda m, h: m.two(m.norm(h[:, -1]) + m.one(h[:, -1])), {"one", "two"}),
    "one layer for two directions": (
        lambda m, h: m.two(torch.relu(m.one(h[:, -1])) + torch.relu(m.one(h[:, 0]))),
        {"one", "two"},
    ),
    "attention": (lambda m, h: m.two((h @ h[:, -1:].mT).softmax(1).mT.bmm(h)[:, 0]), {"two"}),
    "masked": (lambda m, h: m.two(h).masked_fill(torch.arange(5)[:, None] > 2, -0.5).sum(1), {"two"}),
    "a sum that is also activated": (lambda m, h: m.two(torch.relu(m.one(h[:, -1]))) - m.one(h[:, -1])[:, 1:3], {"one", "two"}),
    "beside a product of states": (squared, {"two"}),
    "joined": (lambda m, h: torch.cat([m.two(h[:, -1]), h[:, 0, :1]], 1), {"two"}),
}


def head_layers(model: nn.Module, x: Tensor, method: LRP) -> set[str]:
    """The layers of the head, as `inspect` shows them."""
    return {row.layer for row in whence.inspect(model, x, method=method).rows if row.rule.endswith((", γ rule", ", αβ rule"))}


@pytest.mark.parametrize("method", [*BOTH, LRP(head="alpha-beta", delta=0.3, stabiliser="absorbed")], ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_the_head_begins_behind_the_recurrent_layer(name: str, method: LRP) -> None:
    pool, layers = POOLS[name]
    model, x = Pooling(pool), torch.randn(3, 5, 4, dtype=torch.float64)
    assert head_layers(model, x, method) == layers
    result = relevance(model, x, target=0, method=method)
    total = result.relevance.sum((1, 2)) + sum(result.absorbed.values())
    assert_close(total, result.score, rtol=1e-10, atol=1e-10)
    alone = relevance(model, x[1:2], target=0, method=method)
    assert_close(alone.relevance[0], result.relevance[1], rtol=1e-9, atol=1e-12)
    assert (result.relevance - relevance(model, x, target=0, method=LRP(delta=method.delta)).relevance).abs().max() > 1e-6


@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("name", POOLS)
def test_no_layer_loses_anything(name: str, delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.methods.lrp._is_close", lambda *_: False)  # so that every layer gives an account
    pool, layers = POOLS[name]
    for method in BOTH:
        x = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
        found = relevance(Pooling(pool), x, target=0, method=LRP(head=method.head, delta=delta))
        assert {"front", "lstm", *layers} <= found.gaps.keys()
        for gap in found.gaps.values():
            assert_close(gap, torch.zeros_like(gap), rtol=0, atol=1e-10)


KEPT = torch.tensor([1.0, 0.0, 0.0, 1.0], dtype=torch.float64)


def written(z: Tensor) -> Tensor:
    z = z.clone()
    z[:, 1:3] = -0.7
    return z


CONSTANTS: dict[str, Callable[[Tensor], Tensor]] = {  # the same scores, with constants in the place of some terms
    "masked": lambda z: z.masked_fill(KEPT == 0, -0.7),
    "chosen": lambda z: torch.where(KEPT == 0, -0.7, z),
    "written": written,
    "joined": lambda z: torch.cat([z[:, :1], z.new_full((len(z), 2), -0.7), z[:, 3:]], 1),
    "padded": lambda z: F.pad(z[:, [0, 3]], (0, 2), value=-0.7),
}


class Summed(nn.Module):
    """A dense layer, a change to its neurons, and their sum."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dense, self.change = nn.Linear(3, 4).double(), change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(self.dense(x)).sum(1)


@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("rule", ["gamma", "alpha-beta"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_in_a_sum_of_the_head_contribute_to_it(name: str, rule: Any, delta: float) -> None:
    x = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    method = LRP(head=rule, delta=delta, stabiliser="shared" if delta else "absorbed")
    found = relevance(Summed(CONSTANTS[name]), x, method=method).check(1e-9)
    assert found.absorbed["constant"].abs().min() > 0.01
    if delta == 0:  # an added number is a bias: for δ > 0 it is shared out, and it is no lower neuron that gets a share
        added = relevance(Summed(lambda z: z * KEPT - 0.7 * (1 - KEPT)), x, method=method).check(1e-9)
        assert_close(found.relevance, added.relevance, rtol=1e-9, atol=1e-12)


BIASES: dict[str, Callable[[Tensor], Tensor]] = {
    "summed": lambda z: z,
    "averaged": lambda z: z.mean(1, keepdim=True),
    "centred": lambda z: (z - z.mean(1, keepdim=True)) * KEPT,
    "added": lambda z: z[:, :2] + z[:, 2:],
    "subtracted": lambda z: z[:, :2] - z[:, 2:],
    "shifted": lambda z: z / 2 + 1.5,
    "picked": lambda z: z[:, [0, 0, 3]],
}


@pytest.mark.parametrize("delta", [0.3, 1.0])
@pytest.mark.parametrize("rule", ["gamma", "alpha-beta"])
@pytest.mark.parametrize("name", BIASES)
def test_biases_of_both_signs_that_meet_in_one_sum_are_shared_out_by_their_signs(name: str, rule: Any, delta: float) -> None:
    model = Summed(BIASES[name])
    model.dense.bias.data.copy_(torch.tensor([0.5, -0.4, 0.3, -0.6]))
    x = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    relevance(model, x, method=LRP(head=rule, delta=delta)).check(1e-9)


@pytest.mark.parametrize("name", [*ZOO, *NETWORKS])
def test_no_weight_of_a_loop_is_taken_for_the_head(name: str) -> None:
    torch.manual_seed(0)
    model, x = {**ZOO, **NETWORKS}[name](4, 4, 3).double(), torch.randn(2, 6, 4, dtype=torch.float64)
    behind = {
        "bi-GRU + multi-head attention": {"heads", "out"},
        "bi-GRU + scaled dot-product attention": {"score", "out"},
        "bi-GRU + transformer layer": {"encoder.self_attn", "encoder.linear1", "encoder.linear2", "out"},
        "encoder–decoder with attention": {"model.combine", "model.out"},
        "highway and residual links": {"out.1"},
    }
    assert head_layers(model, x, LRP(head="gamma")) == behind.get(name, {"head"} if name in ZOO else {"out"})
    result = relevance(model, x, target=0, method=LRP(head="gamma"))
    assert_close(result.relevance.sum((1, 2)) + sum(result.absorbed.values()), result.score, rtol=1e-9, atol=1e-9)


def test_a_model_without_recurrence_is_all_head() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    assert head_layers(model, torch.randn(2, 4), LRP(head="gamma")) == {"0", "2"}


@pytest.mark.parametrize("method", BOTH, ids=str)
def test_lengths_steps_contrasts_and_layers_keep_the_rule(method: LRP) -> None:
    torch.manual_seed(0)
    model, x = BiLSTM(4, 3, 5).double(), torch.randn(3, 6, 4, dtype=torch.float64)
    whole = relevance(model, x, target=1, method=method)
    assert_close(relevance(model, x, target=1, method=method, by_step=True).relevance, whole.relevance.sum(-1))
    every = relevance(model, x, target="all", method=method)
    assert_close(every.relevance[1], whole.relevance)
    padded = torch.cat([x[:, :4], x.new_full((3, 2, 4), 7.0)], 1)
    short = relevance(model, padded, target=1, method=method, lengths=[4, 4, 4])
    assert_close(short.relevance[:, :4], relevance(model, x[:, :4], target=1, method=method).relevance)
    for target in (whence.contrast(1, 2), whence.contrast(1, "rest")):
        found = relevance(model, x, target=target, method=method)
        assert_close(found.relevance.sum((1, 2)) + sum(found.absorbed.values()), found.score, rtol=1e-10, atol=1e-10)
    at = relevance(model, x, target=1, method=method, at="fc")
    assert_close(at.relevance.sum(-1), whole.score)
    single = relevance(model.float(), x.float(), target=1, method=method)
    assert_close(single.relevance, whole.relevance.float(), rtol=1e-3, atol=1e-4)


class Transformed(nn.Module):
    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.lstm, self.fc, self.change = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 4), change
        self.pair = nn.Parameter(torch.randn(6, 2, 3))

    def forward(self, x: Tensor) -> Tensor:
        h = self.lstm(x)[0][:, -1]
        return torch.einsum("bi,ijk->bk", h, self.pair) if self.change is torch.einsum else self.change(self.fc(h))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z: F.interpolate(z[:, None], 8, mode="linear")[:, 0], "interpolate .*signs of their contributions are lost"),
        (torch.einsum, "einsum .*an input goes to an output by several weights"),
    ],
)
def test_what_cannot_follow_the_rule_is_refused(change: Callable[[Tensor], Tensor], message: str) -> None:
    model, x = Transformed(change), torch.randn(2, 5, 4)
    with pytest.raises(NoRuleError, match=f'head="gamma" cannot be applied to .*{message}.*Use head="epsilon"'):
        relevance(model, x, target=0, method=LRP(head="gamma"))
    inspection = whence.inspect(model, x, method=LRP(head="gamma"))
    assert not inspection.is_explainable
    assert [row.advice for row in inspection.refused] == ['use head="epsilon"']
    relevance(model, x, target=0)


def test_a_model_without_a_head_is_refused() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.lstm = nn.Linear(4, 4), nn.LSTM(4, 3, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.lstm(self.first(x))[0][:, -1]

    model, x = Bare(), torch.randn(2, 5, 4)
    with pytest.raises(InputError, match='head="alpha-beta" finds no dense layer'):
        relevance(model, x, target=0, method=LRP(head="alpha-beta"))
    assert "finds no dense layer" in whence.inspect(model, x, method=LRP(head="alpha-beta")).refused[0].refused


def test_the_settings_are_told() -> None:
    pipeline = whence.load("sst-bilstm")
    explanation = whence.explain(pipeline, "not a waste of time", method=LRP(head="gamma", gamma=0.5))
    assert json.loads(json.dumps(explanation.to_dict()))["method"]["head"] == "gamma"
    assert not np.allclose(explanation.relevance, whence.explain(pipeline, "not a waste of time").relevance)
    assert LRP(head="gamma").settings() | {"head": "epsilon"} == LRP().settings()
    assert "LRP (ε = 0.001, δ = 0, γ = 0.5)" in str(explanation)
    assert "LRP (ε = 0.001, δ = 0)" in str(whence.explain(pipeline, "not a waste of time"))


def test_published_models_conserve() -> None:
    for name in ("time mixing (RWKV)", "mLSTM, nothing marked", "linear attention", "a buffer written in place"):
        torch.manual_seed(0)
        model, x = PUBLISHED[name](4, 4, 3).double(), torch.randn(2, 6, 4, dtype=torch.float64)
        for method in BOTH:
            found = relevance(model, x, target=0, method=method)
            assert_close(found.relevance.sum((1, 2)) + sum(found.absorbed.values()), found.score, rtol=1e-9, atol=1e-9)
