"""Contrasts: a class against another, and against all the rest."""

from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from tests.models import BiLSTM
from tests.oracle.bilstm import BiLSTM as OracleBiLSTM
from tests.oracle.targets import against_rest
from tests.recurrent.test_lstm_reference import oracle_weights
from whence import (
    LRP,
    ContextualDecomposition,
    GradientXInput,
    IntegratedGradients,
    Occlusion,
    Shapley,
    SmoothGrad,
    TargetError,
    contrast,
    relevance,
)
from whence.methods.method import Method


@pytest.fixture
def model() -> BiLSTM:
    torch.manual_seed(0)
    return BiLSTM(5, 4, 3).double()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(4, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_against_the_rest_is_the_oracles_classes_weighted(model: BiLSTM, x: Tensor, delta: float) -> None:
    twin = OracleBiLSTM(oracle_weights(model.lstm), oracle_weights(model.lstm, "l0_reverse"), model.fc.weight.detach().numpy())
    result = relevance(model, x, target=contrast(2, "rest"), method=LRP(delta=delta)).check(1e-10)
    for row, sentence in enumerate(x.numpy()):
        scores = twin.forward(sentence)[0]
        weights = against_rest(scores, 2)
        parts = [twin.lrp(sentence, c, epsilon=1e-3, delta=delta, shared=True) for c in range(3)]
        expected = sum(w * (left + right) for w, (left, right, _) in zip(weights, parts, strict=True))
        assert_close(result.relevance[row], torch.from_numpy(np.asarray(expected)), rtol=1e-10, atol=1e-13)
        assert_close(result.score[row].item(), float(weights @ scores), rtol=1e-10, atol=1e-13)


class Encoder(nn.Module):
    """The last step of a recurrent layer, and a linear layer."""

    def __init__(self, cell: type[nn.LSTM | nn.GRU], classes: int) -> None:
        super().__init__()
        self.rnn, self.fc = cell(3, 4, batch_first=True), nn.Linear(4, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.rnn(x)[0][:, -1])


METHODS = [
    LRP(),
    LRP(delta=1.0, product="half"),
    GradientXInput(),
    IntegratedGradients(steps=16, tolerance=1.0),
    SmoothGrad(samples=3, times_input=True),
    Occlusion(),
    Shapley(samples=4),
    ContextualDecomposition(),
]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.name}{getattr(method, 'delta', '')}")
def test_every_method_weighs_the_relevance_of_the_classes(
    method: Method, cell: type[nn.LSTM | nn.GRU], classes: int, batch: int
) -> None:
    torch.manual_seed(classes)
    model = Encoder(cell, classes).double()
    x = torch.randn(batch, 5, 3, dtype=torch.float64)
    each, scores = relevance(model, x, target="all", method=method), model(x).detach()
    for one in {0, classes - 1}:
        weights = torch.from_numpy(np.stack([against_rest(row, one) for row in scores.numpy()]))
        found = relevance(model, x, target=contrast(one, "rest"), method=method)
        assert_close(found.relevance, torch.einsum("bc,cbte->bte", weights, each.relevance))
        assert_close(found.score, (weights * scores).sum(-1))
        if classes == 2:
            other = relevance(model, x, target=contrast(one, 1 - one), method=method)
            assert torch.equal(found.relevance, other.relevance) and torch.equal(found.score, other.score)


@pytest.mark.parametrize("method", ["lrp", LRP(delta=1.0), "gi", "ig", "occlusion", "shapley"], ids=str)
def test_where_the_model_is_sure_the_words_still_speak(method: str | Method) -> None:
    text, target = "an excellent, brilliant, flawless masterpiece", contrast("predicted", "rest")
    found = whence.explain("sst-bilstm", text, target=target, method=method)
    scores = np.array([*found.scores.values()])
    assert found.difference == pytest.approx(float(against_rest(scores, 4) @ scores), abs=1e-5)  # single precision
    words = [found.span(word) for word in ("excellent", "brilliant", "flawless", "masterpiece")]
    assert min(words) > 0.03 and sum(words) > 1


def test_a_surer_model_gives_larger_amounts(model: BiLSTM, x: Tensor) -> None:
    calm = relevance(model, x, target=contrast("predicted", "rest"), method=GradientXInput())
    with torch.no_grad():
        model.fc.weight.mul_(50.0)
    sure = relevance(model, x, target=contrast("predicted", "rest"), method=GradientXInput())
    assert bool((sure.score > 10 * calm.score).all())
    assert bool((sure.relevance.abs().sum((1, 2)) > 10 * calm.relevance.abs().sum((1, 2))).all())


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_a_target_of_its_own_for_every_sample(model: BiLSTM, x: Tensor, method: LRP) -> None:
    targets = [0, "predicted", contrast("predicted", "rest"), contrast(1, 2)]
    mixed = relevance(model, x, target=targets, method=method)
    for row, target in enumerate(targets):
        alone = relevance(model, x[row : row + 1], target=target, method=method)
        assert_close(mixed.relevance[row], alone.relevance[0])
        assert_close(mixed.score[row], alone.score[0])
    by_length = relevance(model, x, target=targets, method=method, lengths=[7, 3, 5, 7])
    alone = relevance(model, x[2:3, :5], target=targets[2], method=method)
    assert_close(by_length.relevance[2, :5], alone.relevance[0])


def test_gradient_of_a_contrast_holds_the_weights_constant(model: BiLSTM, x: Tensor) -> None:
    found = relevance(model, x, target=contrast(0, "rest"), method=GradientXInput())
    given = x.clone().requires_grad_()
    scores = model(given)
    total = (scores[:, 0] - (scores[:, 1:].detach().softmax(-1) * scores[:, 1:]).sum(-1)).sum()
    assert_close(found.relevance, given * torch.autograd.grad(total, given)[0])


@pytest.mark.parametrize("end", [nn.LogSoftmax(-1), nn.Softmax(-1), nn.Sigmoid()], ids=str)
def test_the_probabilities_are_those_of_the_scores_before_the_models_end(end: nn.Module, x: Tensor) -> None:
    scores = nn.Sequential(nn.Flatten(), nn.Linear(35, 3)).double()
    found = relevance(nn.Sequential(scores, end), x, target=contrast(1, "rest"))
    plain = relevance(scores, x, target=contrast(1, "rest"))
    assert_close(found.relevance, plain.relevance)
    assert_close(found.score, plain.score)


def test_of_probabilities_the_rest_is_weighted_by_these(x: Tensor) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(35, 3), nn.Softmax(-1)).double()
    p = model(x).detach()
    found = relevance(model, x, target=contrast(1, "rest"), method=GradientXInput())
    assert_close(found.score, p[:, 1] - (p[:, 0] ** 2 + p[:, 2] ** 2) / (p[:, 0] + p[:, 2]))


def test_a_class_against_itself_has_no_relevance(model: BiLSTM, x: Tensor) -> None:
    found = relevance(model, x, target=contrast(1, 1))
    assert not found.score.any() and not found.relevance.any()


def test_one_score_has_no_rest(x: Tensor) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(35, 1)).double()
    with pytest.raises(TargetError, match=r"the model gave 1 score per sample, so there is no rest; contrast\(a, \"rest\"\)"):
        relevance(model, x, target=contrast(0, "rest"))


class Masked(nn.Module):
    """Three scores, some of which are replaced by a number."""

    def __init__(self, number: float, *classes: int) -> None:
        super().__init__()
        self.scores, self.number = nn.Sequential(nn.Flatten(), nn.Linear(35, 3)).double(), number
        self.register_buffer("mask", torch.tensor([c in classes for c in range(3)]))

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(x).masked_fill(cast(Tensor, self.mask), self.number)


@pytest.mark.parametrize("method", [LRP(), GradientXInput(), Occlusion()], ids=str)
@pytest.mark.parametrize(
    ("number", "classes", "told"),
    [
        (torch.inf, (0,), "class 0 is inf and the highest of the others is "),
        (-torch.inf, (0,), "class 0 is -inf and the highest of the others is "),
        (torch.inf, (1,), r"class 0 is \S+ and the highest of the others is inf,"),
        (-torch.inf, (1, 2), r"class 0 is \S+ and the highest of the others is -inf,"),
    ],
)
def test_scores_that_are_not_finite_have_no_rest(
    method: Method, number: float, classes: tuple[int, ...], told: str, x: Tensor
) -> None:
    end = r'.*but contrast\(a, "rest"\) needs both to be finite; let the model return large numbers'
    with pytest.raises(TargetError, match=f"sample 0: the score of {told}{end}"):
        relevance(Masked(number, *classes), x, target=contrast(0, "rest"), method=method)
    with pytest.raises(TargetError, match="the model returned nan; its numbers must be finite"):
        relevance(Masked(torch.nan, *classes), x, target=contrast(0, "rest"), method=method)


@pytest.mark.parametrize("method", [LRP(), GradientXInput(), Occlusion()], ids=str)
def test_a_class_that_the_model_rules_out_weighs_nothing(method: Method, x: Tensor) -> None:
    model = Masked(-torch.inf, 1)
    found, other = (relevance(model, x, target=contrast(0, each), method=method) for each in ("rest", 2))
    assert_close(found.relevance, other.relevance)
    assert_close(found.score, other.score)


def test_of_several_steps_one_is_explained_not_contrasted(x: Tensor) -> None:
    model = nn.Sequential(nn.Linear(5, 3)).double()
    with pytest.raises(TargetError, match=r"more than one score per sample and class; use target=\(time step, class\)"):
        relevance(model, x, target=contrast(0, "rest"))


def test_scores_in_two_tensors_before_the_end_have_no_probabilities(x: Tensor) -> None:
    class Parts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            flat = x.flatten(1)
            return torch.cat([torch.sigmoid(flat[:, :2]), torch.sigmoid(flat[:, 2:3])], 1)

    with pytest.raises(TargetError, match=r"the scores before the .* that ends the model are not one tensor like its output"):
        relevance(Parts(), x, target=contrast(0, "rest"))


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ("rest", 0, r"\"rest\" comes second; give contrast\(a, \"rest\"\)"),
        (True, 0, r"contrast\(True, 0\): give two classes, or a class and \"rest\""),
        (0, None, r"contrast\(0, None\): give two classes, or a class and \"rest\""),
        ("fine", "rest", "target names the class 'fine'; here classes are numbers, or \"predicted\"; explain takes names"),
        (3, "rest", "target 3 does not exist: the model gave 3 scores per sample, so targets run 0–2"),
    ],
)
def test_wrong_contrasts(model: BiLSTM, x: Tensor, one: int, other: int, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        relevance(model, x, target=contrast(one, other))
    with pytest.raises(TargetError, match="target names 2 classes for 4 samples; give one for all or one for each"):
        relevance(model, x, target=["predicted", contrast(0, "rest")])
    assert whence.contrast is contrast
