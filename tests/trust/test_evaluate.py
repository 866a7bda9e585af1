"""`whence.evaluate` on ordinary and on awkward data."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import whence
from tests.trust.subjects import Forecaster, bag, reviews
from whence.errors import DataError, InputError, ModelError, TargetError
from whence.methods.forward import Forward
from whence.methods.method import Method, Question
from whence.result import Result
from whence.trust.choose import command
from whence.trust.evaluation import Evaluation
from whence.trust.subject import Subject


def subject_of(found: Evaluation) -> Subject:
    assert found.subject is not None
    return found.subject


FAST: list[Any] = ["gi", "random"]


def value(found: Evaluation, name: str, measure: str) -> float:
    return cast(float, found.results["methods"][name][measure]["value"])


def test_deletion_is_that_of_the_paper() -> None:
    """The same curves as deletion_curve gives, for both targets."""
    from whence.evaluation.deletion import deletion_curve

    pipeline, texts = whence.load("sst-bilstm"), reviews()
    labels = [0, 4] * 24
    found = whence.evaluate(pipeline, texts, labels, methods=["lrp"], targets=["score", "rest"])
    predicted = whence.explain(pipeline, texts)
    right = np.array([pipeline.classes.index(each.predicted) for each in predicted]) == labels
    targets = {"lrp": labels, "lrp:rest": [whence.contrast(each, "rest") for each in labels]}
    for name, target in targets.items():
        explanations = whence.explain(pipeline, texts, target=cast(Any, target))
        for side, order, rows in (("correct", "decreasing", right), ("wrong", "increasing", ~right)):
            hits = deletion_curve(pipeline, texts, labels, explanations, order=cast(Any, order))[rows]
            assert found.results["methods"][name]["deletion"][side] == pytest.approx(hits.mean(0).tolist())
            assert found.results["methods"][name]["deletion"]["area"][side]["value"] == pytest.approx(hits[:, 1:].mean())


def test_methods_that_share_their_runs_give_the_same_for_both_targets() -> None:
    from whence.trust.subjects import texts_of

    subject = texts_of(whence.load("sst-bilstm"), reviews()[:6], [0, 1, 2, 3, 4, 0], of=None).subject
    for method in (whence.Occlusion(), whence.Shapley(samples=4), whence.ContextualDecomposition()):
        both = subject.relevance_both(method)
        for against in ("score", "rest"):
            for shared, own in zip(both[against], subject.relevance(method, against=against), strict=True):
                np.testing.assert_allclose(shared, own, atol=2e-5)  # single precision


def test_a_character_model_is_measured_by_words() -> None:
    found = whence.evaluate("sst-char-gru", reviews()[:4], methods=["gi"])
    assert found.relevance["gi"][0].shape == (len(reviews()[0].split()),)


def test_a_run_is_repeated_exactly_but_for_the_time(tmp_path: Path) -> None:
    one, other = (
        whence.evaluate(bag(), ["a b c d", "d c a"] * 3, [0, 1] * 3, methods=FAST, suite=["faithfulness", "sanity"])
        for _ in range(2)
    )
    for each in (one, other):
        each.results["methods"]["gi"].pop("seconds_per_text")
    assert json.dumps(one.results) == json.dumps(other.results)
    other.save(tmp_path / "new")
    assert json.loads((tmp_path / "new" / "results.json").read_text()) == other.results
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == ["leaderboard.csv", "report.html", "results.json"]
    other.save(tmp_path / "new")


def test_texts_of_users_are_escaped_in_the_report(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script> a b c d \u202e e"
    found = whence.evaluate(bag(), [bad, "a b c d e f"], methods=["gi", "occlusion"])
    found.save(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in page and "\u202e" not in page and "&lt;" in page


# --- awkward data


def test_no_data_is_refused() -> None:
    with pytest.raises(DataError, match="there is no sample to evaluate; give at least one"):
        whence.evaluate(bag(), [], [], methods=FAST)
    with pytest.raises(DataError, match=r"no sample to evaluate \(2 left out: no word in it\)"):
        whence.evaluate(bag(), ["", " "], [0, 0], methods=FAST)


def test_texts_that_are_none_are_left_out() -> None:
    found = whence.evaluate(bag(), ["a b", None, "", 3.5, "c d e"], ["x", "y", "z", "x", "x"], methods=FAST)
    assert found.results["texts"] == 2 and list(found.rows) == [0, 4]
    assert found.results["left_out"] == {"not a text": 2, "no word in it": 1}
    assert "left out: 2 (not a text), 1 (no word in it)" in str(found)


@pytest.mark.parametrize("texts", [["a"], ["a", "b", "a"], ["a", "a b c d e f g h i j k a"]])
def test_single_words_and_few_texts(texts: list[str], tmp_path: Path) -> None:
    found = whence.evaluate(bag(), texts, [0] * len(texts), methods=["gi", "sa", "occlusion"], suite=["faithfulness", "sanity"])
    assert found.results["texts"] == len(texts)
    assert all(np.isfinite(value(found, name, "aopc")) for name in ("gi", "sa", "random"))
    found.save(tmp_path / "out")


def test_three_texts_say_too_little() -> None:
    """An interval of three texts that holds 0 is said to, not passed over."""
    found = whence.evaluate(bag(), ["a b c d", "b a d c", "e f g"], [0, 1, 2], methods={"alike": whence.Random(seed=3)})
    assert list(found.results["methods"]) == ["random"]
    found = whence.evaluate(bag(), ["a b c d", "b a d c", "e f g"], [0, 1, 2], methods=["sa", "gi"], choose=True)
    assert "3 samples are too few for a verdict" in found.results["methods"]["sa"]["flags"][-1]["sentence"]
    assert found.recommended is not None and found.recommended.name is None


def test_ties_are_in_the_order_of_the_text() -> None:
    found = whence.evaluate(bag(), ["a a a a a a a a a a"], [0], methods=["gi"])
    assert np.ptp(found.relevance["gi"][0]) == pytest.approx(0, abs=1e-12)
    assert np.isfinite(value(found, "gi", "separation"))


def test_one_label_alone_and_only_right_or_wrong_predictions() -> None:
    found = whence.evaluate(bag(), ["a b c", "c d e f"] * 2, ["x"] * 4, methods=FAST, suite=["faithfulness", "sanity"])
    deletion = found.results["methods"]["gi"]["deletion"]
    assert sum(deletion["texts"].values()) == 4 and 0 in deletion["texts"].values()
    assert found.results["sanity"]["permuted_accuracy"] is None  # there is nothing to permute


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["x", "positive"], "the label of text 2 is 'positive'; .* knows x, y, z, or 0 to 2"),
        ([0, 3], "the label of text 2 is 3"),
        ([0, -1], "the label of text 2 is -1"),
        ([0, 1.5], "the label of text 2 is 1.5"),
        ([0, None], "the label of text 2 is None"),
        ([True, 0], "the label of text 1 is True"),
    ],
)
def test_labels_that_the_model_does_not_know(labels: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        whence.evaluate(bag(), ["a b", "c d"], labels, methods=FAST)


def test_labels_by_name_number_and_text() -> None:
    found = whence.evaluate(bag(), ["a b"] * 4, ["z", 2, "2", 2.0], methods=FAST)
    labels = subject_of(found).labels
    assert labels is not None and labels.tolist() == [2] * 4


class Sick(nn.Module):
    """Gives NaN for texts with the first word of the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = bag().module

    def forward(self, ids: Tensor) -> Tensor:
        return torch.where((ids == 1).any(1, keepdim=True), float("nan"), self.bag(ids))


def test_a_model_that_gives_nan() -> None:
    pipeline = whence.Pipeline(Sick(), bag().tokenizer, bag().vocabulary, bag().classes)
    sick = [text for text in ("a b", "b c", "c d") if not pipeline.module(_ids(pipeline, text)).isfinite().all()]
    found = whence.evaluate(pipeline, ["a b", "b c", "c d"], [0, 0, 0], methods=["occlusion"])
    assert len(sick) == 1 and found.results["left_out"] == {"the model's output is not finite": 1}
    with pytest.raises(ModelError, match="not finite for any sample"):
        whence.evaluate(pipeline, sick, [0], methods=["occlusion"])


def _ids(pipeline: whence.Pipeline, text: str) -> Tensor:
    return torch.tensor([pipeline.vocabulary.ids(text.split())])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: whence.evaluate(bag(), "a b", [0]), InputError, "texts is a str; give a list of texts"),
        (lambda: whence.evaluate(bag(), ["a"], [0, 1]), InputError, "there are 1 texts and 2 labels; give one for each"),
        (lambda: whence.evaluate(bag(), ["a"], methods=["gradcam"]), InputError, "method is 'gradcam'; give a method"),
        (lambda: whence.evaluate(bag(), ["a"], methods=[]), InputError, "methods is empty"),
        (lambda: whence.evaluate(bag(), ["a"], targets=["all"]), InputError, "targets is .'all'.; give a list"),
        (lambda: whence.evaluate(bag(), ["a"], suite=cast(Any, "x")), InputError, "suite is 'x'; there are faithfulness"),
        (lambda: whence.evaluate(bag(), ["a"], suite="sanity", choose=True), InputError, "recommended by how faithful"),
        (lambda: whence.evaluate(bag(), ["a"], limit=0), InputError, "limit is 0; give a number of samples"),
        (lambda: whence.evaluate(bag(), ["a"], of="label"), TargetError, 'of="label" needs labels'),
        (lambda: whence.evaluate(bag(), ["a"], of=7), TargetError, "of is 7; give"),
        (lambda: whence.evaluate(cast(Any, 3), ["a"]), InputError, "model is a int; give a whence.Pipeline"),
        (lambda: whence.evaluate(Forecaster(), [1, 2]), InputError, "the samples are a list; give a tensor"),
        (
            lambda: whence.evaluate(Forecaster(), torch.ones(2, 4, 3).double(), units=cast(Any, "pixels")),
            InputError,
            "units is 'pixels'; steps or features",
        ),
        (
            lambda: whence.evaluate(Forecaster(), torch.ones(2, 4, 3).double(), [0, 5]),
            DataError,
            "the label of sample 2 is 5; the model has the classes 0 to 1",
        ),
        (
            lambda: whence.evaluate(Forecaster(outputs=1), torch.ones(2, 4, 3).double(), methods=["gi"], targets=["rest"]),
            InputError,
            'so there is no "rest"',
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused_in_a_sentence(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_method_that_refuses_the_model_stops_nothing() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(12, 4), nn.Linear(4, 3)

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.embedding(ids).cumprod(1).sum(1))

    pipeline = whence.Pipeline(Odd().double(), bag().tokenizer, bag().vocabulary, bag().classes)
    found = whence.evaluate(pipeline, ["a b c", "d e f"], [0, 1], methods=["cd", "occlusion"])
    assert "has no rule for" in found.results["methods"]["cd"]["error"]
    assert "aopc" in found.results["methods"]["occlusion"]


# --- tensors


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("units", ["steps", "features"])
def test_series_without_steps_or_features(units: Any, *, batch_first: bool) -> None:
    torch.manual_seed(1)
    x = torch.randn(12, 9, 3).double()
    found = whence.evaluate(
        Forecaster(batch_first=batch_first),
        x,
        [0, 1] * 6,
        methods=["occlusion", "lrp"],
        units=units,
        suite=["faithfulness", "sanity"],
    )
    assert found.relevance["lrp"][0].shape == (9 if units == "steps" else 3,)
    occlusion = found.results["methods"]["occlusion"]
    assert occlusion["flags"] == [] if units == "steps" else "it judges whole steps" in occlusion["error"]
    assert {"weights", "shift", "noise", "labels"} == set(found.results["sanity"]["methods"]["lrp"])


def test_occlusion_of_steps_is_what_deleting_one_does() -> None:
    """The unit with the largest drop is deleted first, and the drop is that of the model itself."""
    torch.manual_seed(1)
    model, x = Forecaster(), torch.randn(5, 6, 3).double()
    subject = subject_of(whence.evaluate(model, x, [0] * 5, methods=["occlusion"]))
    gone = [np.arange(6) == n for n in range(5)]
    found = subject.scores(range(5), gone)
    for n in range(5):
        other = x[n : n + 1].clone()
        other[0, n] = 0
        np.testing.assert_allclose(found[n], model(other)[0].detach(), atol=1e-12)


def test_lengths_and_a_baseline() -> None:
    torch.manual_seed(1)
    x, mean = torch.randn(6, 8, 3).double(), torch.tensor([1.0, 2.0, 3.0]).double()
    found = whence.evaluate(Forecaster(), x, [0, 1] * 3, methods=["gi"], lengths=[8, 3, 1, 8, 5, 3], baseline=mean)
    assert [len(each) for each in found.relevance["gi"]] == [8, 3, 1, 8, 5, 3]
    alone = whence.evaluate(Forecaster(), x[1:2, :3], [1], methods=["gi"], baseline=mean)
    np.testing.assert_allclose(found.relevance["gi"][1], alone.relevance["gi"][0])
    gone = np.array([True, False, False])
    expected = x[1:2, :3].clone()
    expected[0, 0] = mean
    np.testing.assert_allclose(subject_of(found).scores([1], [gone])[0], Forecaster()(expected)[0].detach(), atol=1e-12)


def test_a_regression_model(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = Forecaster(outputs=1)
    found = whence.evaluate(
        model,
        torch.randn(8, 7, 3).double(),
        torch.randn(8),
        methods=["lrp", "gi"],
        suite=["faithfulness", "sanity"],
        choose=True,
    )
    assert found.results["accuracy"] is None and list(found.results["methods"]["gi"]["deletion"]) == [
        "all",
        "intervals",
        "area",
        "texts",
    ]
    assert found.results["methods"]["gi"]["log_odds"]["value"] is None
    assert found.recommended is not None and "whence explain" not in str(found)
    assert command(found, "lrp") == "whence.relevance(model, x, method=whence.LRP())"
    assert "ms per sample" in str(found) and "per text" not in str(found)
    found.save(tmp_path / "out")
    assert "ms per text" not in (tmp_path / "out" / "report.html").read_text()
    many = whence.evaluate(Forecaster(outputs=4), torch.randn(8, 7, 3).double(), methods=["gi"], kind="numbers", of=2)
    assert subject_of(many).of.tolist() == [2] * 8


def test_which_of_several_outputs_is_evaluated_is_said(tmp_path: Path) -> None:
    x, numbers = torch.randn(8, 7, 3).double(), torch.randn(8)
    model = Forecaster(outputs=4)
    with pytest.raises(TargetError, match=r"the labels are numbers, and the model gives 4 outputs: say which .* of=0 … 3"):
        whence.evaluate(model, x, numbers, methods=["gi"])
    found = whence.evaluate(model, x, numbers, methods=["gi"], of=2)
    assert str(found).startswith("Forecaster, output 2, 8 samples\n")
    found.save(tmp_path / "out")
    assert "8 samples, output 2" in (tmp_path / "out" / "report.html").read_text()
    guessed = str(whence.evaluate(model, x, methods=["gi"])).split("\n")[0]
    assert guessed == (
        'Forecaster, outputs taken for scores of classes (if they are numbers, give kind="numbers" and of=), 8 samples'
    )
    for known in (
        whence.evaluate(model, x, [0, 1] * 4, methods=["gi"]),
        whence.evaluate(model, x, methods=["gi"], kind="classes"),
        whence.evaluate(nn.Sequential(model, nn.Softmax(-1)), x, methods=["gi"]),
        whence.evaluate(Forecaster(outputs=1), x, numbers, methods=["gi"]),
    ):
        assert str(known).split("\n")[0].endswith(("Forecaster, 8 samples", "Sequential, 8 samples"))
    river = whence.evaluate("river-lstm", torch.randn(8, 7, 3), methods=["gi"], of="3 days")
    assert str(river).startswith("river-lstm, 3 days in m³/s, 8 samples\n")


def test_a_series_model_is_measured_in_the_unit_of_its_output() -> None:
    x = torch.randn(8, 7, 3, generator=torch.Generator().manual_seed(0)).double()
    names = {"outputs": ("a", "b"), "unit": "kW"}
    plain = whence.evaluate(whence.SeriesModel(Forecaster(), **names), x, methods=["gi"], of="b")
    scaled = whence.SeriesModel(Forecaster(), **names, output_centre=(0.0, 50.0), output_scale=(1.0, 7.0))
    found = whence.evaluate(scaled, x, methods=["gi"], of="b")
    assert value(found, "gi", "aopc") == pytest.approx(7 * value(plain, "gi", "aopc"))
    forecasts = whence.explain_series(scaled, x[0]).outputs
    np.testing.assert_allclose(subject_of(found).scores([0], [np.zeros(7, bool)])[0], list(forecasts.values()))
    with pytest.raises(ModelError, match="the module gave 2 outputs; your model names 3"):
        whence.evaluate(whence.SeriesModel(Forecaster(), outputs=("a", "b", "c")), x, methods=["gi"])


def test_one_score_for_two_classes() -> None:
    """The score of the second class; for the first, relevance has the other sign."""
    torch.manual_seed(1)
    x = torch.randn(8, 7, 3).double()
    one = whence.evaluate(Forecaster(outputs=1), x, [0, 1] * 4, methods=["gi"])
    plain = whence.evaluate(Forecaster(outputs=1), x, methods=["gi"])
    assert subject_of(one).has_classes and not subject_of(plain).has_classes
    for n in range(8):
        np.testing.assert_allclose(one.relevance["gi"][n], plain.relevance["gi"][n] * (1 if n % 2 else -1))


def test_samples_whose_numbers_are_not_finite_are_left_out() -> None:
    x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(0)).double()
    x[2, 1, 0] = float("nan")
    found = whence.evaluate(Forecaster(), x, [0, 1, 0, 1], methods=["gi"])
    assert list(found.rows) == [0, 1, 3] and found.results["left_out"] == {"its numbers are not finite": 1}


def test_token_ids_of_a_module() -> None:
    ids = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 5]])
    found = whence.evaluate(bag().module, ids, [0, 1], methods=["gi", "occlusion"])
    text = whence.evaluate(bag(), [("a", "b", "c", "d"), ("d", "c", "b", "e")], [0, 1], methods=["gi"])
    assert found.relevance["gi"][0] == pytest.approx(text.relevance["gi"][0])
    assert value(found, "gi", "aopc") == pytest.approx(value(text, "gi", "aopc"))


def test_a_recommendation_says_what_it_rests_on() -> None:
    found = whence.evaluate("sst-bilstm", reviews(), methods=["lrp", "gi", "occlusion"], targets=["score", "rest"], choose=True)
    assert found.recommended is not None and found.recommended.name in found.results["methods"]
    assert found.results["recommendation"]["name"] == found.recommended.name
    assert found.recommended.sentences[0].startswith(f"Use {found.recommended.name} (separation ")
    price = {name: found.results["methods"][name]["seconds_per_text"]["value"] for name in found.recommended.equals}
    assert found.recommended.name == min(price, key=lambda name: price[name])
    none = whence.evaluate(bag(), ["a b", "c"], [0, 1], methods={"nothing": "sa"}, choose=True)
    assert none.recommended is not None and none.recommended.name is None
    assert "No method can be recommended" in str(none)


class Logit(nn.Module):
    """One score per sample: the sum of its numbers, or its sigmoid."""

    def __init__(self, *, sigmoid: bool) -> None:
        super().__init__()
        self.weight, self.is_sigmoid = nn.Parameter(torch.ones(1).double()), sigmoid

    def forward(self, x: Tensor) -> Tensor:
        score = self.weight * x.sum((1, 2))
        return score.sigmoid() if self.is_sigmoid else score


@pytest.mark.parametrize("sigmoid", [True, False])
def test_one_number_is_a_probability_where_the_model_ends_in_a_sigmoid(*, sigmoid: bool) -> None:
    """Scores between 0 and 1 are still scores, whatever else is in their batch."""
    x = torch.tensor([[[0.3], [0.2]], [[0.4], [0.3]]]).double()
    subject = subject_of(whence.evaluate(Logit(sigmoid=sigmoid), x, [1, 1], methods=["gi"]))
    assert subject.whole().value.tolist() == pytest.approx([1 / (1 + np.exp(-0.5)), 1 / (1 + np.exp(-0.7))])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_probabilities_are_known_in_every_precision(dtype: torch.dtype) -> None:
    class Softmax(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.head = nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x.sum(1)).softmax(-1)

    model, x = Softmax().to(dtype), torch.randn(5, 6, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
    found = subject_of(whence.evaluate(model, x, [0, 1, 2, 3, 0], methods=["gi"])).whole().value
    assert found == pytest.approx(model(x)[range(5), [0, 1, 2, 3, 0]].detach().double().numpy(), rel=2e-3)


def test_both_targets_of_a_pipeline_that_ends_in_softmax() -> None:
    class Ending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = bag().module

        def forward(self, ids: Tensor) -> Tensor:
            return self.bag(ids).softmax(-1)

    pipeline = whence.Pipeline(Ending(), bag().tokenizer, bag().vocabulary, bag().classes)
    both = whence.evaluate(pipeline, ["a b c d", "e f g"], [0, 1], methods=["occlusion"], targets=["score", "rest"])
    alone = whence.evaluate(pipeline, ["a b c d", "e f g"], [0, 1], methods=["occlusion"], targets=["rest"])
    for one, other in zip(both.relevance["occlusion:rest"], alone.relevance["occlusion:rest"], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_curves_are_about_the_class_that_is_explained() -> None:
    """With of="predicted" every sample starts right, whatever its label."""
    found = whence.evaluate(bag(), ["a b c d e", "f g h i"], [0, 1], methods=["gi"], of="predicted")
    assert found.results["methods"]["gi"]["deletion"]["texts"] == {"correct": 2, "wrong": 0}
    assert found.results["methods"]["gi"]["deletion"]["correct"][0] == 1


def test_classes_whose_names_are_numbers() -> None:
    pipeline = whence.Pipeline(bag().module, bag().tokenizer, bag().vocabulary, ("1", "2", "3"))
    for labels in (["1", "3"], [1, 3], np.array([1.0, 3.0]), torch.tensor([[1], [3]])):
        known = subject_of(whence.evaluate(pipeline, ["a b", "c d"], cast(Any, labels), methods=["gi"])).labels
        assert known is not None and known.tolist() == [0, 2]


def test_a_model_that_gives_nan_without_some_steps(tmp_path: Path) -> None:
    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.head = nn.Linear(3, 2).double()

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x.sum(1) / x.norm(dim=(1, 2))[:, None])  # NaN where all steps are gone

    x = torch.randn(12, 6, 3, generator=torch.Generator().manual_seed(0)).double()
    found = whence.evaluate(Normed(), x, [0, 1] * 6, methods=["gi"], choose=True)
    assert "not finite without some units" in found.results["methods"]["gi"]["flags"][0]["sentence"]
    found.save(tmp_path / "out")


class Batched(nn.Module):
    """Batch normalisation cannot be trained on one sample."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(3), nn.Linear(3, 2)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return self.head(self.norm(x.sum(1) / lengths[:, None]))


def test_models_that_sanity_checks_cannot_change_stop_nothing() -> None:
    x = torch.randn(33, 4, 3, generator=torch.Generator().manual_seed(0))
    found = whence.evaluate(Batched(), x, [0, 1, 1] * 11, methods=["gi"], lengths=[4] * 33, suite=["faithfulness", "sanity"])
    assert "aopc" in found.results["methods"]["gi"] and found.results["sanity"]["permuted_accuracy"] is None
    tables = nn.Sequential(nn.EmbeddingBag(9, 4), nn.Linear(4, 2))
    found = whence.evaluate(tables, torch.randint(9, (10, 5)), [0, 1] * 5, methods=["gi"], suite=["faithfulness", "sanity"])
    assert "gi" in found.results["methods"]


def test_four_axes() -> None:
    class Images(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x.mean((1, 2)))

    found = whence.evaluate(Images(), torch.randn(4, 5, 2, 3), [0, 1, 0, 1], methods=["gi"])
    assert found.relevance["gi"][0].shape == (5,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: whence.evaluate(Forecaster(), X, [0, 1, float("nan")]), "the label of sample 3 is nan; labels are classes"),
        (lambda: whence.evaluate(Forecaster(), X, [0, 1, None]), "the label of sample 3 is None; labels are classes"),
        (lambda: whence.evaluate(Forecaster(), X, lengths=cast(Any, [2.7, 1, 1])), "lengths must be one number from 1 to 4"),
        (lambda: whence.evaluate(Forecaster(), X, baseline="mean"), "baseline is 'mean'; give \"zero\", a number or a tensor"),
        (lambda: whence.evaluate(Forecaster(), X, seed=-1), "seed is -1; give a whole number from 0"),
        (lambda: whence.evaluate(bag(), ["a"], methods={"random": whence.LRP()}), "a method is called 'random'"),
        (lambda: whence.evaluate(bag(), ["a"], methods={"a\nb": "gi"}), "give it a name of its own"),
        (lambda: whence.evaluate(bag(), ["a"], methods=cast(Any, 5)), "methods is a int; give a list"),
        (lambda: whence.evaluate(bag(), ["a"], targets=cast(Any, "rest")), "targets is 'rest'; give a list"),
        (lambda: whence.evaluate(bag().module, torch.ones(2, 3).long(), baseline=1.0), "token ids are set to zero"),
    ],
)
def test_wrong_values_are_refused_in_a_sentence(call: Any, message: str) -> None:
    with pytest.raises((InputError, DataError), match=message):
        call()


X = torch.ones(3, 4, 3).double()


def test_a_method_or_model_of_the_users_that_raises_stops_nothing() -> None:
    @dataclass(frozen=True)
    class Raising(Method):
        name = "raising"
        label = "raising"

        def relevance(self, forward: Forward, question: Question) -> Result:
            raise ValueError("I am broken\nbadly")

    found = whence.evaluate(bag(), ["a b c", "d e"], [0, 1], methods={"mine": Raising(), "gi": "gi"})
    assert found.results["methods"]["mine"]["error"] == "ValueError: I am broken"
    assert "aopc" in found.results["methods"]["gi"]


def test_escapes_in_names_do_nothing_to_the_terminal() -> None:
    pipeline = replace(bag(), name="\x1b]0;taken\x07")
    assert "\x1b" not in str(whence.evaluate(pipeline, ["a b", "c"], [0, 1], methods=["gi"]))
