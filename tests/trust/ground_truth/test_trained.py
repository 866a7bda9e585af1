"""Tasks with trained models: the models have learned them, right answers pass, and the reasons for failures hold."""

import pytest
import torch
from torch import Tensor, nn

from tests.trust.ground_truth.answers import require_fair
from whence import InputError, ModelError, Pipeline, Result, SensitivityAnalysis, explain, load
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.methods.registry import method_of
from whence.trust.ground_truth import arithmetic, series, shortcut
from whence.trust.ground_truth.arithmetic import ADD, SUBTRACT
from whence.trust.ground_truth.hybrid import HYBRID, documents, hybrid
from whence.trust.ground_truth.sentences import sentences
from whence.trust.ground_truth.series import SERIES_TASK
from whence.trust.ground_truth.shortcut import SHORTCUT
from whence.trust.ground_truth.task import Exam, Task

TASKS = [ADD, SUBTRACT, HYBRID, SHORTCUT, SERIES_TASK]
FAST = "lrp sa gi occlusion cd random".split()
FAILING = {
    "add": "sa random",
    "subtract": "sa random",
    "hybrid": "sa random",
    "shortcut": "sa gi random",
    "series": "sa occlusion cd random",
}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_right_answers_pass_and_wrong_ones_fail(task: Task) -> None:
    require_fair(task)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_failure_has_its_cause(task: Task) -> None:
    found = task.run({name: method_of(name) for name in FAST})
    assert [name for name, outcome in found.items() if not outcome.passes] == FAILING[task.name].split()
    assert not any("not known" in outcome.reason or "{" in outcome.reason for outcome in found.values())


def models_and_inputs(exam: Exam) -> list[tuple[nn.Module, Tensor, Tensor]]:
    """The model, the inputs and the truth of every case."""
    found: list[tuple[nn.Module, Tensor, Tensor]] = []

    class Seeing(Method):
        def relevance(self, forward: Forward, question: Question) -> Result:
            inputs = forward.inputs.tensors[0]
            found.append((forward.model, inputs, case.truth))
            return Result(torch.zeros(*inputs.shape, 1), torch.zeros(len(inputs)), None, self)

    for case in exam.cases:
        case.ask(Seeing())
    return found


def gradient(model: nn.Module, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(model(x).sum(), x)[0]


@pytest.mark.parametrize("task", [ADD, SUBTRACT], ids=lambda task: task.name)
def test_the_gradient_of_models_that_add_hardly_depends_on_the_numbers(task: Task) -> None:
    for model, x, truth in models_and_inputs(task.prepare()):
        with torch.no_grad():
            torch.testing.assert_close(model(x)[:, 0], truth.sum(1), rtol=0, atol=0.1)
        for feature in (1, 2):
            found = gradient(model, x)[..., feature][x[..., feature] != 0]
            assert found.std() < 0.1 * found.mean().abs()


def test_the_planted_token_decides_and_the_score_is_saturated() -> None:
    for model, ids, truth in models_and_inputs(SHORTCUT.prepare()):
        assert isinstance(model, shortcut.Reader)
        place = truth.argmax(1)
        assert (ids.gather(1, place[:, None]) == shortcut.PLANTED[0]).all()
        assert (ids == shortcut.PLANTED[0]).sum() == len(ids)
        vectors = model.embedding(ids).detach()

        def score(part: float, model: shortcut.Reader = model, vectors: Tensor = vectors, own: Tensor = truth) -> Tensor:
            scaled = vectors * torch.where(own[..., None] > 0, part, 1.0)
            with torch.no_grad():
                return model.head(model.lstm(scaled)[0][:, -1])[:, 0]

        assert (score(1.0) > 0).all() and (score(0.0) < 0).all()
        rise = score(1.0) - score(0.0)
        assert ((score(1.0) - score(0.8)) / rise).mean() < 0.05


def test_a_model_that_did_not_learn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortcut, "TRAINING_STEPS", 1)
    with pytest.raises(ModelError, match="'shortcut' with seed 0 has not learned it: Learned"):
        shortcut._exam.__wrapped__()
    monkeypatch.setattr(series, "TRAINING_STEPS", 1)
    with pytest.raises(ModelError, match="'series' has not learned it: Learned"):
        series._exam.__wrapped__()


def test_the_gradient_of_the_series_model_is_about_the_same_for_all_features() -> None:
    ((model, x, truth),) = models_and_inputs(SERIES_TASK.prepare())
    is_step = (truth > 0).any(-1)
    found, is_salient = gradient(model, x)[is_step].abs(), truth[is_step] > 0
    torch.testing.assert_close(found[is_salient].mean(), found[~is_salient].mean(), rtol=0.25, atol=0)


def test_training_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "TRAINING_STEPS", 50)
    states = [series.trained(torch.Generator().manual_seed(3)).state_dict() for _ in range(2)]
    for name, each in states[0].items():
        assert torch.equal(each, states[1][name])


def test_a_tie_is_half_right_and_ranks_are_shared() -> None:
    r, place = torch.tensor([[1.0, 1.0, 0.0], [0.0, 2.0, 3.0]]), torch.tensor([0, 1])
    found = shortcut._measured(r, place, torch.ones(2))
    assert found["precision"] == 0.25 and found["rank"] == 1.75 and found["part"] == 1.5


def test_areas_of_a_perfect_mask_are_1() -> None:
    truth = series.drawn(5, torch.Generator().manual_seed(0)).is_salient.double()
    found = series._measured([truth], truth)
    assert set(found.values()) == {1.0}
    half = series._measured([0.5 + 0.5 * truth], truth)  # all cells are above the thresholds below 0.5
    assert half["area_precision"] == pytest.approx(0.5 + 0.5 * float(truth.mean()), abs=0.01)


def test_sensitivity_points_to_the_same_sentence_for_both_classes() -> None:
    measures = HYBRID.run({"sa": SensitivityAnalysis()})["sa"].measures
    assert measures["documents"] == 40
    assert measures["same_half"] > 0.5


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return load("sst-bilstm")


def test_every_document_is_asked_for_both_sentences(pipeline: Pipeline) -> None:
    first, second, *_ = documents(pipeline, sentences())
    assert first.text == second.text
    assert first.text[: first.middle] == "a warm and funny film with a wonderful cast . "
    assert (first.target, first.is_first, second.target, second.is_first) == ("very positive", True, "very negative", False)


def test_the_score_falls_further_without_the_sentence_to_be_found(pipeline: Pipeline) -> None:
    asked = documents(pipeline, sentences())
    sides = HYBRID.prepare().cases[0].truth

    def scores(sign: int) -> list[float]:
        deleted = [(side == sign).nonzero()[:, 0].tolist() for side in sides]
        found = explain(pipeline, [each.text for each in asked], target=[each.target for each in asked], deleted=deleted)
        return [each.scores[each.target] for each in found]

    assert all(without < with_it for without, with_it in zip(scores(1), scores(-1), strict=True))


def test_own_sentences_can_be_given(pipeline: Pipeline) -> None:
    pairs = [("a great film", "positive"), ("a bad film", "negative"), ("awful and dull", "negative")]
    found = hybrid(pairs, pipeline).run({"lrp": method_of("lrp")})["lrp"]
    assert found.measures["documents"] == 2 and found.value == 1
    with pytest.raises(InputError, match="of the classes positive; give sentences of two classes"):
        documents(pipeline, pairs[:1])
    with pytest.raises(ModelError, match="does not tell 'negative' from 'positive'"):
        documents(pipeline, [("a great film", "negative"), ("a bad film", "positive")])


def test_the_truth_of_subtraction_has_the_sign_of_the_result() -> None:
    data = arithmetic.sums("subtract", 20, 9, torch.Generator().manual_seed(0))
    torch.testing.assert_close(arithmetic.true_relevance(data, "subtract").sum(1), data.y)
