"""Hand-built LSTMs compute what they claim, their tasks judge fairly, and the reasons for failures hold."""

import math

import pytest
import torch
from torch import Tensor

from tests.trust.ground_truth.answers import require_fair
from whence import LRP, ContextualDecomposition, GradientXInput, Occlusion, SensitivityAnalysis, SmoothGrad, relevance
from whence.methods.method import Method
from whence.methods.registry import METHODS, method_of
from whence.trust.ground_truth import brackets, copying, counter
from whence.trust.ground_truth.brackets import BALANCED_BRACKETS, BRACKETS, bracket_matcher, returns_to_zero
from whence.trust.ground_truth.copying import COPY, copier, marked_values
from whence.trust.ground_truth.counter import COUNTER, DETECTOR, GATED_COUNTER, gated_counter, marks
from whence.trust.ground_truth.task import Task

TASKS = [COUNTER, GATED_COUNTER, DETECTOR, BRACKETS, BALANCED_BRACKETS, COPY]
FAILING = {
    "counter": "sa smoothgrad random",
    "gated-counter": "lrp sa gi smoothgrad random",
    "detector": "sa gi occlusion smoothgrad cd random",
    "brackets": "lrp sa smoothgrad random",
    "balanced-brackets": "lrp sa smoothgrad random",
    "copy": "sa smoothgrad random",
}


def scores(model: torch.nn.Module, x: Tensor) -> list[float]:
    with torch.no_grad():
        return model(x).tolist()


def by_step(model: torch.nn.Module, x: Tensor, method: Method) -> Tensor:
    return relevance(model, x, method=method, by_step=True).relevance


def gradient(model: torch.nn.Module, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(model(x).sum(), x)[0]


@pytest.mark.parametrize("model", [counter.counter(), gated_counter()], ids=["counter", "gated"])
def test_counters_count_marks(model: torch.nn.Module) -> None:
    x = marks()
    for row, score in zip(x[..., 0].tolist(), scores(model, x), strict=True):
        count = row.count(1.0)
        assert counter.MARKS[0] <= count <= counter.MARKS[1] and count + row.count(0.0) == counter.STEPS
        assert score == pytest.approx(math.tanh(count * counter.ONE) / counter.ONE, rel=1e-12)
        assert score == pytest.approx(count, rel=0.025)
    assert scores(model, torch.zeros(1, 7, 1, dtype=torch.float64)) == pytest.approx([0.0], abs=1e-12)


def test_detector_detects_marks() -> None:
    x = marks()
    for row, score in zip(x[..., 0].tolist(), scores(counter.detector(), x), strict=True):
        assert score == pytest.approx(math.tanh(row.count(1.0) * math.tanh(3.0)), rel=1e-12)
        assert score > 0.96
    assert scores(counter.detector(), torch.zeros_like(x[:1])) == [0.0]


@pytest.mark.parametrize("is_balanced", [True, False])
def test_bracket_matcher_keeps_the_depth(is_balanced: bool) -> None:
    x = brackets.brackets(is_balanced=is_balanced)
    assert len(x) == brackets.SEQUENCES
    for row, score, returns in zip(x.tolist(), scores(bracket_matcher(), x), returns_to_zero(x).tolist(), strict=True):
        text = "".join({(1.0, 0.0): "(", (0.0, 1.0): ")", (0.0, 0.0): "."}[tuple(step)] for step in row)
        depths = [text[: n + 1].count("(") - text[: n + 1].count(")") for n in range(len(text))]
        assert min(depths) >= 0 and (depths[-1] == 0) == is_balanced
        assert score == pytest.approx(math.tanh(depths[-1] * brackets.ONE) / brackets.ONE, abs=1e-12)
        assert returns == any(depth == 0 and "(" in text[: n + 1] for n, depth in enumerate(depths[:-1]))


def test_copier_copies_the_marked_value() -> None:
    x = marked_values()
    for row, score in zip(x.tolist(), scores(copier(), x), strict=True):
        (value,) = [number for number, mark in row if mark]
        assert score == pytest.approx(math.tanh(math.tanh(copying.SMALL * value)) / copying.SMALL, rel=1e-12)
        assert score == pytest.approx(value, rel=0.04)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_right_answers_pass_and_wrong_ones_fail(task: Task) -> None:
    require_fair(task)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_failure_has_its_cause(task: Task) -> None:
    found = task.run({name: method_of(name) for name in METHODS})
    assert [name for name, outcome in found.items() if not outcome.passes] == FAILING[task.name].split()
    for outcome in found.values():
        assert outcome.passes == (outcome.reason == "")
        assert "not known" not in outcome.reason and "{" not in outcome.reason


def test_a_setting_that_was_not_examined_gets_no_cause() -> None:
    outcome = GATED_COUNTER.run({"half": LRP(product="half")})["half"]
    assert outcome.reason.endswith("why is not known for this method with these settings")


def test_the_biases_absorb_the_gated_count() -> None:
    result = relevance(gated_counter(), marks(), method=LRP())
    bias = sum(amount for name, amount in result.absorbed.items() if "bias" in name)
    assert (bias / result.score > 0.98).all()
    one = torch.ones(1, 1, 1, dtype=torch.float64)  # a single step, so that the forget gate takes no part
    assert by_step(gated_counter(), one, LRP()).abs().max() < 0.02
    assert by_step(gated_counter(), one, LRP(product="half")).min() > 0.4  # a rule under which gates get relevance


def test_the_gradient_of_the_saturated_gate_is_0() -> None:
    at_marks = gradient(gated_counter(), marks())[marks() > 0]
    assert at_marks.abs().max() == 0


def test_the_gradient_does_not_tell_marks_from_other_steps() -> None:
    x = marks()
    found = gradient(counter.counter(), x)
    for row, marked in zip(found, x > 0, strict=True):
        torch.testing.assert_close(row[marked].mean(), row[~marked].mean(), rtol=0.01, atol=0)


@pytest.mark.parametrize("method", [Occlusion(), ContextualDecomposition()])
def test_a_single_mark_is_no_trouble_for_methods_that_fail_with_several(method: Method) -> None:
    x = torch.zeros(1, 12, 1, dtype=torch.float64)
    x[0, 4] = 1
    found = by_step(counter.detector(), x, method)
    torch.testing.assert_close(found[0, 4], torch.tensor(scores(counter.detector(), x)[0], dtype=torch.float64))


def test_what_each_method_gives_a_mark_that_is_one_of_several() -> None:
    x = marks()
    assert gradient(counter.detector(), x)[x > 0].abs().max() < 0.01
    own = math.tanh(3.0)
    occluded, decomposed = (by_step(counter.detector(), x, each) for each in (Occlusion(), ContextualDecomposition()))
    for row, marked in enumerate(x[..., 0] > 0):
        count = int(marked.sum())
        first, last = math.tanh(own), math.tanh(count * own) - math.tanh((count - 1) * own)
        torch.testing.assert_close(occluded[row, marked], torch.full((count,), last, dtype=torch.float64))
        torch.testing.assert_close(decomposed[row, marked], torch.full((count,), (first + last) / 2, dtype=torch.float64))


@pytest.mark.parametrize("epsilon", [1e-3, 1e-6])
def test_lrp_finds_the_brackets_unless_the_depth_returns_to_0(epsilon: float) -> None:
    measures = BRACKETS.run({"lrp": LRP(epsilon=epsilon)})["lrp"].measures
    assert measures["never_at_zero"] > 0.999
    assert measures["back_at_zero"] < 0.5


def test_the_score_of_balanced_brackets_is_0_and_so_is_lrp() -> None:
    x = brackets.brackets(is_balanced=True)
    assert max(map(abs, scores(bracket_matcher(), x))) < 1e-12
    assert by_step(bracket_matcher(), x, LRP()).abs().max() < 1e-10


def test_the_gradient_of_brackets_and_copied_values_ignores_what_is_there() -> None:
    found = gradient(bracket_matcher(), brackets.brackets(is_balanced=False))
    torch.testing.assert_close(found[..., 0], -found[..., 1], rtol=1e-2, atol=0)
    x = marked_values()
    mirrored = x * torch.tensor([-1.0, 1.0])
    torch.testing.assert_close(gradient(copier(), x)[..., 0], gradient(copier(), mirrored)[..., 0])


@pytest.mark.parametrize(
    ("method", "traits"),
    [
        (SmoothGrad(noise=0.5), "gradient alone, plain gradient"),
        (SmoothGrad(times_input=True), "local, times input"),
        (Occlusion(window=2), "whole steps"),
        (LRP(product="abs"), ""),
        (SensitivityAnalysis(), "gradient alone, local, unsigned"),
        (GradientXInput(), "local, times input"),
    ],
)
def test_traits_follow_the_settings(method: Method, traits: str) -> None:
    from whence.trust.ground_truth.traits import traits_of

    assert ", ".join(sorted(traits_of(method))) == traits
