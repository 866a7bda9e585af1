"""Integrated Gradients, occlusion, SmoothGrad, Shapley values and random relevance: their formulas, laws and refusals."""

import json
import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence, pad_packed_sequence, pad_sequence
from torch.testing import assert_close

import whence
from tests.models import BiLSTM, Packing, Tagger
from tests.oracle import perturbing as oracle
from tests.oracle.bilstm import BiLSTM as OracleBiLSTM
from tests.oracle.lstm import Array
from tests.oracle.targets import against_rest
from tests.perturbing import PERTURBING
from tests.recurrent.test_lstm_reference import oracle_weights
from whence import (
    ConservationError,
    GradientXInput,
    InputError,
    IntegratedGradients,
    Occlusion,
    Random,
    Shapley,
    SmoothGrad,
    TargetError,
    contrast,
    relevance,
)


def bilstm(size: int = 4) -> BiLSTM:
    torch.manual_seed(0)
    model = BiLSTM(size, 3, 5).double()
    with torch.no_grad():  # larger weights, so that the score is not nearly linear
        for each in model.parameters():
            each.mul_(3)
    return model


def twin_of(model: BiLSTM) -> OracleBiLSTM:
    weights = oracle_weights(model.lstm), oracle_weights(model.lstm, "l0_reverse")
    return OracleBiLSTM(*weights, model.fc.weight.detach().numpy())


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# the formulas


@pytest.mark.parametrize("steps", [1, 3, 7])
@pytest.mark.parametrize("baseline", ["zero", 0.5, "vector"])
def test_integrated_gradients_are_the_oracles_integral(steps: int, baseline: Any) -> None:
    model, x = bilstm(), drawn(2, steps, 4)
    baseline = drawn(4, seed=3) if baseline == "vector" else baseline
    found = relevance(model, x, target=2, method=IntegratedGradients(baseline=baseline))
    twin = twin_of(model)
    start = np.zeros((steps, 4)) + (0.0 if baseline == "zero" else np.asarray(baseline))
    for n in range(2):
        expected = oracle.integrated_gradients(lambda at: twin.gradient(at, 2), x[n].numpy(), start, steps=2000)
        # the error of 2000 midpoints is below 1e-6 here; that of 64 Gauss-Legendre points is far smaller
        assert_close(found.relevance[n], torch.from_numpy(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("window", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("steps", [1, 3, 7])
def test_occlusion_is_the_oracles(window: int, steps: int) -> None:
    model, x, start = bilstm(), drawn(2, steps, 4), drawn(4, seed=3)
    found = relevance(model, x, target=2, method=Occlusion(window=window, baseline=start))
    twin, full = twin_of(model), np.tile(start.numpy(), (steps, 1))
    for n in range(2):
        expected = oracle.occlusion(lambda at: twin.forward(at)[0][2], x[n].numpy(), full, window=window)
        assert_close(found.relevance[n].sum(-1), torch.from_numpy(expected), rtol=0, atol=1e-12)
        assert_close(found.relevance[n], found.relevance[n, :, :1].expand(-1, 4))  # shared evenly by the features


def test_occlusion_of_the_log_probability() -> None:
    model, x = bilstm(), drawn(2, 5, 4)
    found = relevance(model, x, target="predicted", method=Occlusion(of="log-probability"))
    twin, classes = twin_of(model), model(x).argmax(-1).tolist()

    def logarithm(at: Array, target: int) -> float:
        scores = twin.forward(at)[0]
        return float(scores[target] - np.log(np.exp(scores).sum()))

    for n, target in enumerate(classes):
        score = lambda at, target=target: logarithm(at, target)  # noqa: E731
        expected = oracle.occlusion(score, x[n].numpy(), np.zeros((5, 4)), window=1)
        assert_close(found.relevance[n].sum(-1), torch.from_numpy(expected), rtol=0, atol=1e-12)
    assert_close(found.score, model(x).log_softmax(-1).amax(-1).detach())
    ending = nn.Sequential(model, nn.Softmax(-1))
    of_probabilities = relevance(ending, x, target="predicted", method=Occlusion(of="log-probability"))
    assert_close(of_probabilities.relevance, found.relevance)


def test_shapley_values_of_two_steps_are_exact() -> None:
    """The two orders of a pair are all orders of two steps."""
    model, x = bilstm(), drawn(2, 2, 4)
    found = relevance(model, x, target=2, method=Shapley(samples=4))
    twin = twin_of(model)
    for n in range(2):
        expected = oracle.shapley(lambda at: twin.forward(at)[0][2], x[n].numpy(), np.zeros((2, 4)))
        assert_close(found.relevance[n].sum(-1), torch.from_numpy(expected), rtol=0, atol=1e-12)
    assert float(found.errors.abs().max()) < 1e-8


def exact_shapley(model: BiLSTM, x: Tensor) -> Tensor:
    twin = twin_of(model)
    return torch.stack(
        [
            torch.from_numpy(oracle.shapley(lambda at: twin.forward(at)[0][2], each.numpy(), np.zeros(tuple(each.shape))))
            for each in x
        ]
    )


@pytest.mark.slow
def test_the_error_of_shapley_values_falls_with_the_root_of_the_samples() -> None:
    model, x = bilstm(), drawn(3, 6, 4)
    exact = exact_shapley(model, x)

    def rms(samples: int) -> float:
        """The error over 24 seeds; its own relative deviation is about 1/√(2·24·18) < 5 %."""
        found = [relevance(model, x, target=2, by_step=True, method=Shapley(samples, seed=n)).relevance for n in range(24)]
        return float(torch.stack([each - exact for each in found]).square().mean().sqrt())

    few, many = rms(4), rms(64)
    assert 3.2 < few / many < 5.0  # √(64/4) = 4


@pytest.mark.slow
def test_the_standard_errors_are_those_of_repeated_sampling() -> None:
    model, x = bilstm(), drawn(3, 6, 4)
    exact = exact_shapley(model, x)
    results = [relevance(model, x, target=2, by_step=True, method=Shapley(32, seed=n)) for n in range(24)]
    within = torch.stack([(each.relevance - exact).abs() <= 2 * each.errors for each in results])
    assert 0.9 < float(within.double().mean()) < 0.99  # 95 % of a normal distribution; 432 numbers
    stated = torch.stack([each.errors for each in results]).square().mean().sqrt()
    real = torch.stack([each.relevance - exact for each in results]).square().mean().sqrt()
    assert 0.85 < float(stated / real) < 1.15


def test_smoothgrad_without_noise_is_the_gradient() -> None:
    model, x = bilstm(), drawn(2, 5, 4)
    twin = twin_of(model)
    expected = torch.stack([torch.from_numpy(twin.gradient(each.numpy(), 2)) for each in x])
    assert_close(relevance(model, x, target=2, method=SmoothGrad(noise=0.0)).relevance, expected)
    times = relevance(model, x, target=2, method=SmoothGrad(noise=0.0, times_input=True)).relevance
    assert_close(times, relevance(model, x, target=2, method=GradientXInput()).relevance)


class Cubes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x**3).flatten(1).sum(1, keepdim=True)


def test_smoothgrad_averages_over_noise_of_the_stated_size() -> None:
    """∂/∂x Σ x³ = 3 x², and its mean under noise of deviation σ is 3 (x² + σ²)."""
    x = drawn(3, 5, 2)
    spread = x.flatten(1).amax(1) - x.flatten(1).amin(1)
    found = relevance(Cubes(), x, target=0, method=SmoothGrad(samples=4000, noise=0.2)).relevance
    excess = (found - 3 * x**2).flatten(1).mean(1)
    # the noise of one number has mean 0.2·spread/√4000 and is multiplied by 6 x; ten numbers of size about 1
    assert_close(excess, 3 * (0.2 * spread) ** 2, rtol=0.1, atol=0.02)


def test_random_relevance_is_normal_and_its_own_for_every_sample() -> None:
    x = drawn(40, 50, 3)
    found = relevance(Tagger(nn.LSTM(3, 2, batch_first=True), "mean", 2).double(), x, target=0, method=Random())
    steps = found.relevance.sum(-1)
    assert abs(float(steps.mean())) < 4 / math.sqrt(2000)
    assert abs(float(steps.std()) - 1) < 4 / math.sqrt(2 * 2000)
    assert len({round(each, 9) for each in steps[:, 0].tolist()}) == 40
    assert not torch.equal(found.relevance, relevance(Cubes(), x, target=0, method=Random(seed=1)).relevance)
    assert torch.equal(found.relevance, relevance(Cubes(), x, target=0, method=Random()).relevance)


# adding up


@pytest.mark.parametrize("method", [IntegratedGradients(), Shapley(samples=1), Shapley(samples=6), Shapley(samples=7, seed=3)])
@pytest.mark.parametrize("target", [2, "all", "predicted", contrast(1, "rest"), contrast(0, 3)])
def test_relevance_and_the_ledger_add_up_to_the_score(method: Any, target: Any) -> None:
    model, x = bilstm(), drawn(4, 6, 4)
    found = relevance(model, x, target=target, method=method)
    found.check(1e-12)
    start = relevance(model, torch.zeros_like(x), target=2, method=method)
    assert_close(start.relevance, torch.zeros_like(x))
    assert_close(start.absorbed["baseline score"], start.score)
    if target == 2:
        assert_close(found.absorbed["baseline score"], start.score)
    if isinstance(method, IntegratedGradients):
        change = found.score - found.absorbed["baseline score"]
        assert bool((found.absorbed["completeness gap"].abs() <= 0.01 * change.abs()).all())
    else:
        assert set(found.absorbed) == {"baseline score"}


class Steep(nn.Module):
    """A score that changes within a small part of the way from zero to the inputs."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.slope * (x.sum((1, 2)) - 0.317))[:, None]


def test_more_points_where_they_are_needed_and_only_there() -> None:
    """Halves: one sample crosses the threshold on its way, the other does not."""
    x = torch.tensor([1.0, 0.2], dtype=torch.float64)[:, None, None]
    model = Steep(300.0)
    few = relevance(model, x, target=0, method=IntegratedGradients(steps=8, most=8))
    more = relevance(model, x, target=0, method=IntegratedGradients(steps=8))
    alone = relevance(model, x[1:], target=0, method=IntegratedGradients(steps=8))
    assert float(few.absorbed["completeness gap"][0].abs()) > 0.1
    assert float(more.absorbed["completeness gap"][0].abs()) < 0.01
    assert_close(more.relevance[1], alone.relevance[0], rtol=0, atol=1e-15)
    assert few.is_balanced(1e-12)  # the gap is in the ledger
    with pytest.raises(ConservationError, match=r"sample 0: score 1, completeness gap 1 > 0.01; IntegratedGradients\("):
        few.check()
    more.check()


def test_all_classes_are_each_class_also_where_points_are_added() -> None:
    x = drawn(3, 2, 2, seed=5)

    class Both(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([Steep(300.0)(x), Steep(2.0)(x)], 1)

    method = IntegratedGradients(steps=4)
    every = relevance(Both(), x, target="all", method=method)
    for c in range(2):
        assert_close(every.relevance[c], relevance(Both(), x, target=c, method=method).relevance, rtol=0, atol=1e-15)


# what is decided once


def turning(x: Tensor) -> Tensor:
    """Two classes, of which the other one is predicted when the first step is gone."""
    total = x[:, 0].sum(-1)
    return torch.stack([total, 0.5 * torch.ones_like(total) + 0 * total], -1) + 0.1 * x.sum((1, 2))[:, None]


class Turning(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return turning(x)


@pytest.mark.parametrize("method", PERTURBING, ids=str)
def test_the_predicted_class_stays_the_one_at_the_inputs(method: Any) -> None:
    x = 1 + drawn(3, 4, 2).abs()
    assert Turning()(x).argmax(-1).tolist() == [0, 0, 0]
    assert Turning()(torch.zeros_like(x)).argmax(-1).tolist() == [1, 1, 1]
    found = relevance(Turning(), x, target="predicted", method=method)
    assert_close(found.relevance, relevance(Turning(), x, target=0, method=method).relevance)


@pytest.mark.parametrize("method", [IntegratedGradients(), Occlusion(), Shapley(samples=4), SmoothGrad(samples=3)], ids=str)
def test_the_weights_of_the_rest_stay_those_at_the_inputs(method: Any) -> None:
    model, x = bilstm(), drawn(3, 4, 4)
    weights = torch.from_numpy(np.stack([against_rest(scores, 1) for scores in model(x).detach().numpy()]))
    found = relevance(model, x, target=contrast(1, "rest"), method=method)
    each = relevance(model, x, target="all", method=method).relevance
    expected = torch.einsum("bc,cbte->bte", weights, each)
    assert_close(found.relevance, expected)


# many forms of inputs


@pytest.mark.parametrize("method", PERTURBING, ids=str)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_of_variants_is_each_variant_alone(method: Any, batch: int) -> None:
    """A model that takes only its own number of rows is run for one variant after another."""
    model, x = bilstm(), drawn(batch, 5, 4)

    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert len(x) == batch, "another number of rows"
            return model(x)

    found, alone = (relevance(each, x, target=2, method=method) for each in (model, Fixed()))
    assert_close(found.relevance, alone.relevance, rtol=0, atol=1e-12)
    assert_close(found.score, alone.score)


@pytest.mark.parametrize("method", PERTURBING, ids=str)
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_given_states_belong_to_their_samples(method: Any, batch: int) -> None:
    torch.manual_seed(0)
    model = Tagger(nn.LSTM(4, 3, num_layers=2, batch_first=True), "last", 2).double()
    x, state = drawn(batch, 5, 4), tuple(drawn(2, 2, batch, 3, seed=1))
    found = relevance(model, x, target=1, method=method, args=(state,))
    assert_close(found.score, model(x, state)[:, 1].detach())
    for n in range(batch):
        own = tuple(each[:, n : n + 1] for each in state)
        alone = relevance(model, x[n : n + 1], target=1, method=method, args=(own,))
        assert_close(found.relevance[n], alone.relevance[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", [*PERTURBING, Occlusion(window=3)], ids=str)
@pytest.mark.parametrize("head", ["final", "mean"])
def test_padding_changes_nothing_and_gets_nothing(method: Any, head: str) -> None:
    torch.manual_seed(0)
    model, lengths = Packing(4, 3, 2, head=head).double(), [3, 7, 1, 5]
    sentences = [drawn(n, 4, seed=n) for n in lengths]
    padded = pad_sequence(sentences, batch_first=True, padding_value=9.0)
    found = relevance(model, padded, target=1, method=method, args=(torch.tensor(lengths),))
    by_length = relevance(model, padded, target=1, method=method, lengths=lengths)
    for n, x in enumerate(sentences):
        alone = relevance(model, x[None], target=1, method=method, args=(torch.tensor([len(x)]),))
        assert_close(found.relevance[n, : len(x)], alone.relevance[0], rtol=0, atol=1e-12)
        assert_close(by_length.relevance[n, : len(x)], alone.relevance[0], rtol=0, atol=1e-12)
        assert not found.relevance[n, len(x) :].any()
        assert not by_length.relevance[n, len(x) :].any()
        if alone.errors is not None:
            assert_close(by_length.errors[n, : len(x)], alone.errors[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", PERTURBING, ids=str)
@pytest.mark.parametrize("target", [1, "all", "predicted"])
def test_packed_sequences(method: Any, target: Any) -> None:
    model, sentences = bilstm(), [drawn(n, 4, seed=n) for n in (2, 5, 3, 1)]
    found = relevance(model, pack_sequence(sentences, enforce_sorted=False), target=target, method=method)
    every = found.relevance if target == "all" else (found.relevance,)
    for c, packed in enumerate(every):
        assert isinstance(packed, PackedSequence)
        unpacked = pad_packed_sequence(packed, batch_first=True)[0]
        for n, x in enumerate(sentences):
            alone = relevance(model, x[None], target=target, method=method).relevance
            assert_close(unpacked[n, : len(x)], (alone[c] if target == "all" else alone)[0], rtol=0, atol=1e-12)


class TwoInputs(nn.Module):
    """A sequence, time first, and static numbers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.fc = nn.LSTM(4, 3), nn.Linear(5, 2)

    def forward(self, x: Tensor, static: Tensor) -> Tensor:
        return self.fc(torch.cat([self.lstm(x)[0][-1], static], -1).tanh())


@pytest.mark.parametrize("method", PERTURBING, ids=str)
@pytest.mark.parametrize("steps", [3, 6])
def test_several_inputs_time_first(method: Any, steps: int) -> None:
    model, x, static = TwoInputs().double(), drawn(steps, 3, 4), drawn(3, 2, seed=1)
    found = relevance(model, (x, static), target=1, method=method)
    named = relevance(model, {"x": x, "static": static}, target=1, method=method)
    assert [tuple(each.shape) for each in found.relevance] == [(steps, 3, 4), (3, 2)]
    assert_close(named.relevance["x"], found.relevance[0])
    assert_close(named.relevance["static"], found.relevance[1])
    if isinstance(method, (IntegratedGradients, Shapley)):
        found.check(1e-12)
    if isinstance(method, Occlusion) and method.window == 1:  # static numbers are occluded one by one
        for n in range(2):
            gone = static.clone()
            gone[:, n] = 0
            assert_close(found.relevance[1][:, n], (model(x, static) - model(x, gone))[:, 1].detach())
    for n in range(3):
        alone = relevance(model, (x[:, n : n + 1], static[n : n + 1]), target=1, method=method)
        assert_close(found.relevance[0][:, n], alone.relevance[0][:, 0], rtol=0, atol=1e-12)
        assert_close(found.relevance[1][n], alone.relevance[1][0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", PERTURBING, ids=str)
@pytest.mark.parametrize(
    "inputs", [drawn(1, 4), drawn(3, 1), drawn(2, 3, 2, 5), drawn(5, 63, 1), torch.zeros(2, 3, 4).double()]
)
def test_odd_sizes_and_zeros(method: Any, inputs: Tensor) -> None:
    class Sums(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            total = x.tanh().flatten(1).sum(1)
            return torch.stack([total, total.square()], -1)

    found = relevance(Sums(), inputs, target=1, method=method)
    assert found.relevance.shape == inputs.shape
    assert bool(found.relevance.isfinite().all())
    for n in range(len(inputs)):
        alone = relevance(Sums(), inputs[n : n + 1], target=1, method=method)
        assert_close(found.relevance[n : n + 1], alone.relevance, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", PERTURBING, ids=str)
def test_samples_in_blocks_of_any_size(method: Any) -> None:
    class Blocks(nn.Module):
        """Rows of several samples one after another, as in graphs."""

        def forward(self, x: Tensor, sizes: list[int]) -> Tensor:
            return torch.stack([part.tanh().sum(0)[:2] ** 2 for part in x.split(sizes)])

    x = drawn(9, 3)
    found = relevance(Blocks(), x, target=1, method=method, args=([2, 4, 3],))
    for first, last in ((0, 2), (2, 6), (6, 9)):
        alone = relevance(Blocks(), x[first:last], target=1, method=method, args=([last - first],))
        assert_close(found.relevance[first:last], alone.relevance, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", PERTURBING, ids=str)
def test_a_call_of_the_users_own(method: Any) -> None:
    model, x = bilstm(), drawn(3, 4, 4)
    found = relevance(model, x, target=1, method=method, call=lambda model, x: model(2 * x - x))
    assert_close(found.relevance, relevance(model, x, target=1, method=method).relevance)


@pytest.mark.parametrize("method", [Occlusion(), Shapley(samples=4)], ids=str)
def test_a_model_without_derivatives(method: Any) -> None:
    """Run as it is: nothing is followed and nothing derived."""
    model, x = bilstm(), drawn(3, 4, 4)

    class Opaque(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.from_numpy(model(x).detach().numpy().round(3))

    found = relevance(Opaque(), x, target=1, method=method)
    assert_close(found.relevance, relevance(model, x, target=1, method=method).relevance, rtol=0, atol=1e-3)


def padded_reader(padding: int | None) -> nn.Module:
    torch.manual_seed(0)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.lstm = nn.Embedding(9, 4, padding_idx=padding), nn.LSTM(4, 3, batch_first=True)
            with torch.no_grad():
                self.words.weight[7] = 0.5

        def forward(self, ids: Tensor) -> Tensor:
            return self.lstm(self.words(ids))[0][:, -1]

    return Reader().double()


@pytest.mark.parametrize("method", [IntegratedGradients, Occlusion, Shapley])
def test_the_vector_of_padding_as_baseline(method: Callable[..., Any]) -> None:
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    found = relevance(padded_reader(7), ids, target=1, method=method(baseline="padding"))
    assert_close(found.relevance, relevance(padded_reader(7), ids, target=1, method=method(baseline=0.5)).relevance)
    given = relevance(padded_reader(7), ids, target=1, method=method(baseline=torch.full((4,), 0.5)))
    assert_close(found.relevance, given.relevance)
    with pytest.raises(InputError, match=r'baseline is "padding", but the nn.Embedding of the token ids has no padding_idx'):
        relevance(padded_reader(None), ids, target=1, method=method(baseline="padding"))


def test_a_baseline_for_every_input() -> None:
    model, x, static = TwoInputs().double(), drawn(5, 3, 4), drawn(3, 2, seed=1)
    found = relevance(model, (x, static), target=1, method=IntegratedGradients(baseline=(x[0, 0], static)))
    assert not found.relevance[1].any()
    assert_close(found.absorbed["baseline score"], model(x[0, 0].expand(x.shape), static)[:, 1].detach())
    with pytest.raises(InputError, match="baseline has 3 entries for 2 inputs; give one for each, or one for all"):
        relevance(model, (x, static), target=1, method=IntegratedGradients(baseline=("zero", 0, 1)))
    with pytest.raises(InputError, match=r"baseline of shape \(3,\) does not fit inputs\[0\] of shape \(5, 3, 4\)"):
        relevance(model, (x, static), target=1, method=IntegratedGradients(baseline=(torch.ones(3), 0)))


def test_a_method_with_a_baseline_is_a_plain_value() -> None:
    one, other = (IntegratedGradients(baseline=torch.tensor([[0.5, 1.0]])) for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert one != IntegratedGradients(baseline=torch.tensor([[0.5, 2.0]]))
    assert json.loads(json.dumps(one.settings()))["baseline"] == [[0.5, 1.0]]


# refusals and settings


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IntegratedGradients(steps=0), "steps is 0; it must be a whole number ≥ 1"),
        (lambda: IntegratedGradients(steps=2.5), "steps is 2.5; it must be a whole number ≥ 1"),  # pyright: ignore[reportArgumentType]
        (lambda: IntegratedGradients(batch=True), "batch is True; it must be a whole number ≥ 1"),
        (lambda: IntegratedGradients(tolerance=-1), "tolerance is -1; it must be a finite number ≥ 0"),
        (lambda: IntegratedGradients(baseline="mean"), 'baseline is \'mean\'; give "zero", "padding"'),
        (lambda: Occlusion(baseline=torch.tensor([math.nan])), "it must hold finite real numbers"),
        (lambda: Occlusion(window=0), "window is 0; it must be a whole number ≥ 1"),
        (lambda: Occlusion(of="odds"), "of is 'odds'; occlusion compares"),  # pyright: ignore[reportArgumentType]
        (lambda: SmoothGrad(noise=math.inf), "noise is inf; it must be a finite number ≥ 0"),
        (lambda: SmoothGrad(times_input=1), "times_input is 1; it must be True or False"),  # pyright: ignore[reportArgumentType]
        (lambda: Shapley(samples=-3), "samples is -3; it must be a whole number ≥ 1"),
        (lambda: Random(seed=-1), "seed is -1; it must be a whole number ≥ 0"),
    ],
)
def test_settings_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_what_has_no_log_probability() -> None:
    with pytest.raises(TargetError, match="needs at least 2 classes, and the model gave 1 score per sample"):
        relevance(Cubes(), drawn(2, 3, 4), target=0, method=Occlusion(of="log-probability"))
    with pytest.raises(TargetError, match="let the callable return log-probabilities instead"):
        relevance(bilstm(), drawn(2, 3, 4), target=lambda output: output[:, 0], method=Occlusion(of="log-probability"))


def test_a_score_that_is_not_a_number_on_the_way() -> None:
    class Dividing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x.sum((1, 2)) / x.sum((1, 2)))[:, None] + x[:, 0]

    with pytest.raises(InputError, match="the model returned nan for inputs between the given ones and the baseline"):
        relevance(Dividing(), 1 + drawn(2, 3, 4).abs(), target=0, method=Shapley())


@pytest.mark.parametrize("method", PERTURBING, ids=str)
def test_the_same_seed_gives_the_same_numbers_whatever_the_batch_size(method: Any) -> None:
    model, x = bilstm(), drawn(3, 6, 4)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = relevance(model, x, target=1, method=method)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert torch.equal(first.relevance, relevance(model, x, target=1, method=method).relevance)
    if not isinstance(method, Random):
        small = type(method)(**{**method.settings(), "batch": 4})
        assert_close(relevance(model, x, target=1, method=small).relevance, first.relevance, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", [SmoothGrad(samples=3), Shapley(samples=4), Random()], ids=str)
def test_another_seed_gives_other_numbers(method: Any) -> None:
    model, x = bilstm(), drawn(3, 6, 4)
    other = type(method)(**{**method.settings(), "seed": 1})
    found = [relevance(model, x, target=1, method=each).relevance for each in (method, other)]
    assert not torch.allclose(*found)


def test_texts_are_explained_in_every_format() -> None:
    texts = ["neither funny nor suspenseful", "a fine film"]
    for name in ("ig", "occlusion", "smoothgrad", "shapley", "random"):
        explanations = whence.explain("sst-bilstm", texts, method=name)
        for explanation in explanations:
            assert explanation.method["name"] == name and explanation.is_signed
            assert len(explanation.relevance) == len(explanation.tokens)
            if name in ("ig", "shapley"):
                total = sum(explanation.relevance) + sum(explanation.absorbed.values())
                assert total == pytest.approx(explanation.score, abs=1e-4)  # single precision
            json.dumps(explanation.to_dict(), allow_nan=False)
            assert "batch" not in str(explanation)
    both = whence.explain("sst-bilstm", texts[0], method=Occlusion(of="log-probability"))
    share = math.exp(both.scores[both.target]) / sum(map(math.exp, both.scores.values()))
    assert both.score == pytest.approx(math.log(share), abs=1e-6)  # single precision
    assert both.scores == pytest.approx(whence.explain("sst-bilstm", texts[0]).scores)


def test_steps_of_a_saturated_gate_are_not_padding() -> None:
    """A mark opens the input gate wide: a small change of it changes nothing, but its absence does."""
    lstm = nn.LSTM(1, 1, batch_first=True).double()
    with torch.no_grad():
        for weight in lstm.parameters():
            weight.zero_()
        lstm.get_parameter("weight_ih_l0")[0] = 80.0  # the input gate is open at a mark
        lstm.get_parameter("bias_ih_l0").copy_(torch.tensor([-40.0, 40.0, 1.0, 40.0]))  # closed otherwise; the others stay open

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = lstm

        def forward(self, x: Tensor) -> Tensor:
            return self.lstm(x)[1][1][0, :, 0]

    x = torch.tensor([0.0, 1, 0, 0, 0, 1, 0, 0], dtype=torch.double)[None, :, None]
    share = float(torch.tensor(1.0).tanh())
    for method in (whence.Occlusion(), whence.Shapley(samples=4), whence.IntegratedGradients()):
        found = whence.relevance(Counter(), x, method=method, by_step=True).relevance[0]
        torch.testing.assert_close(found, x[0, :, 0] * share, atol=0.02, rtol=0, check_dtype=False)


class Clamped(nn.Module):
    """A sum that saturates: its last steps matter, though small changes of them alone do nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, dtype=torch.double))

    def forward(self, x: Tensor) -> Tensor:
        return (self.weight * x[..., 0]).sum(1).clamp(0, 1)


@pytest.mark.parametrize("steps", [(1.0, -2.0, 3.0), (1.0, 1.0, 1.0), (-2.0, 3.0, -1.0), (2.0, 2.0, -1.0), (3.0, -1.0, -1.0)])
def test_steps_of_a_saturated_score_are_not_padding(steps: tuple[float, ...]) -> None:
    x, model = torch.tensor(steps, dtype=torch.double)[None, :, None], Clamped()
    found = whence.relevance(model, x, method="occlusion", by_step=True).relevance[0]
    for n in range(3):
        other = x.clone()
        other[0, n] = 0
        assert float(found[n]) == pytest.approx(float((model(x) - model(other)).detach()))
    shapley = whence.relevance(model, x, method=whence.Shapley(samples=600)).check()
    exact = [0.0, 0.0, 0.0]
    for order in permutations(range(3)):
        there = torch.zeros_like(x)
        for n in order:
            before = float(model(there).detach())
            there[0, n] = x[0, n]
            exact[n] += (float(model(there).detach()) - before) / 6
    assert shapley.relevance[0, :, 0].tolist() == pytest.approx(exact, abs=0.06)  # 600 orders
