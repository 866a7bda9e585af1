"""`whence.captum`: LRP with Captum's arguments, targets, metrics and visualisation."""

import copy
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from whence import InputError, TargetError, WeightsError

attr: Any = pytest.importorskip("captum.attr", reason="Captum is not installed; the dev extra has it")
metrics: Any = pytest.importorskip("captum.metrics")

from whence.captum import LRP, LayerLRP  # noqa: E402 - needs Captum

X = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
IDS = torch.tensor([[1, 2, 3, 4, 5], [6, 5, 4, 3, 2], [7, 7, 1, 0, 0]])


class Series(nn.Module):
    """An LSTM in evaluation mode, with dropout, that gives scores for the whole or for every step."""

    def __init__(self, *, classes: int = 3, by_step: bool = False) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.lstm = nn.LSTM(4, 6, batch_first=True, bidirectional=True, num_layers=2, dropout=0.5)
        self.out, self.by_step = nn.Linear(12, classes), by_step

    def forward(self, x: Tensor, scale: Tensor | float = 1.0, note: str = "") -> Tensor:
        states = self.lstm(x)[0]
        return self.out(states if self.by_step else states[:, -1]) * scale


class Words(nn.Module):
    """Token ids, and a number of features for each sample."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embedding, self.gru = nn.Embedding(9, 4, padding_idx=0), nn.GRU(4, 6, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, ids: Tensor, features: Tensor) -> Tensor:
        return self.out(torch.cat([self.gru(self.embedding(ids))[0].mean(1), features], 1))


FEATURES = torch.randn(3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def series(**settings: Any) -> Any:
    return Series(**settings).double().eval()


def words() -> Any:
    return Words().double().eval()


class TestTargets:
    """Captum's targets."""

    def test_one_class_for_all(self) -> None:
        model = series()
        expected = whence.relevance(model, X, target=2).relevance
        for target in (2, -1, np.int64(2), torch.tensor(2), torch.tensor([2]), (2,)):
            assert_close(LRP(model).attribute(X, target=target), expected, rtol=0, atol=0)

    def test_one_class_for_each_sample(self) -> None:
        model, classes = series(), [2, 0, 1]
        expected = torch.cat([whence.relevance(model, X[n : n + 1], target=c).relevance for n, c in enumerate(classes)])
        for target in (classes, torch.tensor(classes), np.array(classes), [(c,) for c in classes]):
            assert_close(LRP(model).attribute(X, target=target), expected)

    def test_one_score_needs_none(self) -> None:
        model = series(classes=1)
        expected = whence.relevance(model, X, target=0).relevance
        assert_close(LRP(model).attribute(X), expected)
        assert_close(LRP(lambda x: model(x)[:, 0]).attribute(X), expected)

    def test_a_step_and_a_class_of_outputs_by_step(self) -> None:
        model = series(by_step=True)
        expected = whence.relevance(model, X, target=(3, 1)).relevance
        assert_close(LRP(model).attribute(X, target=(3, 1)), expected)
        each = LRP(model).attribute(X, target=[(3, 1), (0, 2), (4, 0)])
        assert_close(each[0], expected[0])
        assert_close(each[1:2], whence.relevance(model, X[1:2], target=(0, 2)).relevance)

    def test_samples_lie_along_the_first_axis_as_captum_has_it(self) -> None:
        """Where there are as many steps as samples, Captum's first index is still the second axis."""
        model, x = series(by_step=True), X[:, :3]
        expected = whence.relevance(model, x, target=lambda output: output[:, 1, 2]).relevance
        assert_close(LRP(model).attribute(x, target=(1, 2)), expected)

    def test_an_output_with_three_more_axes(self) -> None:
        model = series(by_step=True)
        grid = LRP(lambda x: model(x).unflatten(1, (5, 1)))
        assert_close(grid.attribute(X, target=(3, 0, 1)), LRP(model).attribute(X, target=(3, 1)))

    def test_targets_of_whence(self) -> None:
        model = series()
        for target in ("predicted", whence.contrast(0, "rest"), lambda output: output[:, 0] - output[:, 1]):
            assert_close(LRP(model).attribute(X, target=target), whence.relevance(model, X, target=target).relevance)

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            (None, "the model gave 3 scores per sample; say which to explain with target=0 … 2"),
            (3, "target 3 does not exist: the model gave 3 scores per sample, so targets run 0–2"),
            ([0, 1], "target names 2 classes for 3 samples; give one for all or one for each"),
            (torch.zeros(3, 2, dtype=torch.long), "target is a tensor of shape (3, 2); give one class, or one for each sample"),
            ((0, 1), "target (0, 1) does not pick one number: the model returned a tensor of shape (3, 3), "),
            ((3,), "target (3,) does not exist: the outputs of a sample are of shape (3,)"),
            ((0.5,), "target (0.5,) does not pick one number"),
            ([(0,), (1,)], "target is a list of 2 for 3 samples; give a tuple for each"),
            ([(0,), (1,), 2.5], "target 2.5 does not pick one number"),
            ("all", "target 'all' is not known; attributions take a class"),
            (0.5, "target is a float; give a class, one for each sample, or a tuple of indices"),
        ],
    )
    def test_others_are_refused(self, target: object, message: str) -> None:
        with pytest.raises(TargetError, match=re.escape(message)):
            LRP(series()).attribute(X, target=target)

    def test_a_model_without_a_tensor_of_scores_is_refused(self) -> None:
        lstm = nn.LSTM(4, 3, batch_first=True).double()
        with pytest.raises(TargetError, match=re.escape("but the model returned a tuple of 2")):
            LRP(lstm).attribute(X, target=(4, 1))


class TestInputs:
    """What is explained, and what is passed on."""

    def test_a_tuple_gives_a_tuple(self) -> None:
        model = words()
        embedded = model.embedding(IDS).detach()
        both = LRP(lambda e, f: model.out(torch.cat([model.gru(e)[0].mean(1), f], 1))).attribute((embedded, FEATURES), target=1)
        assert isinstance(both, tuple)
        assert [each.shape for each in both] == [embedded.shape, FEATURES.shape]
        (one,) = LRP(series()).attribute((X,), target=1)
        assert_close(one, LRP(series()).attribute(X, target=1))

    def test_ids_get_one_number_each(self) -> None:
        model = words()
        expected = whence.relevance(model, IDS, target=1, args=(FEATURES,)).relevance.sum(-1)
        found = LRP(model).attribute(IDS, target=1, additional_forward_args=FEATURES)
        assert found.shape == IDS.shape
        assert_close(found, expected)

    def test_ids_among_others(self) -> None:
        ids, features = LRP(words()).attribute((IDS, FEATURES), target=1)
        expected = whence.relevance(words(), (IDS, FEATURES), target=1).relevance
        assert_close(ids, expected[0].sum(-1))
        assert_close(features, expected[1])

    @pytest.mark.parametrize("given", [2.0, (2.0,), (2.0, "a note"), (torch.full((3, 1), 2.0), "a note")])
    def test_further_arguments_of_any_kind(self, given: object) -> None:
        model = series()
        expected = whence.relevance(model, X, target=1, args=(2.0,)).relevance
        found = LRP(model).attribute(X, target=1, additional_forward_args=given)
        assert_close(found, expected)
        assert float((found - LRP(model).attribute(X, target=1)).abs().max()) > 0.01

    def test_numbers_keep_their_type_also_where_double_precision_was_needed(self) -> None:
        model = Series().eval()
        with torch.no_grad():
            model.out.weight *= 1e6  # amounts that cancel: single precision does not add up
            model.out.bias.copy_(-model(X.float())[0])
        assert whence.relevance(model, X.float(), target=1).relevance.dtype == torch.float64
        assert LRP(model).attribute(X.float(), target=1).dtype == torch.float32

    def test_gradients_asked_for_do_not_matter(self) -> None:
        x = X.clone().requires_grad_()
        found = LRP(series()).attribute(x, target=1)
        assert not found.requires_grad
        assert x.grad is None
        assert_close(found, LRP(series()).attribute(X, target=1))

    def test_settings(self) -> None:
        found = LRP(series(), epsilon=0.1, delta=1.0).attribute(X, target=1)
        assert_close(found, whence.relevance(series(), X, target=1, method=whence.LRP(epsilon=0.1, delta=1.0)).relevance)

    def test_a_model_in_training_mode_is_explained_in_evaluation_mode_and_left_as_it_was(self) -> None:
        model, expected = series().train(), LRP(series()).attribute(X, target=1)
        for called in (model, lambda x: model(x)):
            assert_close(LRP(called).attribute(X, target=1), expected, rtol=0, atol=0)
            assert model.training
            assert model.lstm.training

    def test_bad_numbers_and_models_are_refused(self) -> None:
        broken = series()
        broken.out.bias.data[1] = float("nan")
        with pytest.raises(WeightsError, match=re.escape("out.bias[1] is nan")):
            LRP(broken).attribute(X, target=0)
        with pytest.raises(InputError, match=re.escape("inputs[0, 0, 0] is nan; inputs must be finite numbers")):
            LRP(series()).attribute(torch.full_like(X, float("nan")), target=0)
        with pytest.raises(InputError, match=r"model is a str; give a torch\.nn\.Module, or a function that calls one"):
            LRP("model")  # pyright: ignore[reportArgumentType]
        with pytest.raises(InputError, match="inputs holds a list; give a float tensor"):
            LRP(series()).attribute([X], target=0)
        with pytest.raises(InputError, match="epsilon is -1; a stabiliser must be"):
            LRP(series(), epsilon=-1)
        with pytest.raises(TypeError, match="unexpected keyword argument 'epsilom'"):
            LRP(series(), epsilom=1)
        with pytest.raises(TypeError, match="unexpected keyword argument 'nsteps'"):
            LRP(series()).attribute(X, target=0, nsteps=5)


class TestSwap:
    """The arguments of Integrated Gradients have their place."""

    def test_what_only_it_needs_is_not_used(self) -> None:
        lrp = LRP(series())
        expected = lrp.attribute(X, target=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            given = {"n_steps": 50, "method": "gausslegendre", "internal_batch_size": 8}
            assert_close(lrp.attribute(X, baselines=torch.zeros_like(X), target=1, **given), expected)
            assert_close(lrp.attribute(X, 0, target=1), expected)
            assert_close(lrp.attribute(X, (0.0,), 1), expected)
            assert_close(lrp.attribute(X, torch.zeros_like(X), 1, None), expected)

    def test_other_baselines_are_named_in_a_warning(self) -> None:
        lrp = LRP(series())
        ones: Any = torch.ones_like(X)
        cases: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((), {"baselines": 1.0, "target": 1}),
            ((ones,), {"target": 1}),
            ((ones, 1), {}),
            ((0.5,), {"target": 1}),
        ]
        for places, named in cases:
            with pytest.warns(UserWarning, match="LRP compares with no baseline, so baselines has no effect") as seen:
                found = lrp.attribute(X, *places, **named)
            assert_close(found, lrp.attribute(X, target=1))
            assert seen[0].filename == __file__

    def test_the_order_of_captums_own_lrp(self) -> None:
        lrp = LRP(series())
        found, delta = lrp.attribute(X, 1, (2.0,), True)
        assert_close(found, lrp.attribute(X, target=1, additional_forward_args=2.0))
        assert delta.shape == (3,)

    def test_an_argument_given_twice_or_too_many_are_refused(self) -> None:
        with pytest.raises(TypeError, match="attribute\\(\\) got target twice: by its place and by its name"):
            LRP(series()).attribute(X, 0, 1, target=1)
        with pytest.raises(TypeError, match="takes 4 arguments without a name, and got 5"):
            LRP(series()).attribute(X, 0, None, False, False)


class TestDelta:
    """What does not add up."""

    def test_it_is_zero_but_for_rounding(self) -> None:
        lrp = LRP(series())
        assert lrp.has_convergence_delta()
        assert lrp.multiplies_by_inputs
        found, delta = lrp.attribute(X, target=1, return_convergence_delta=True)
        assert_close(delta, torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-12)
        again = lrp.compute_convergence_delta(found, None, X, target=1)
        assert_close(again, delta, rtol=0, atol=1e-12)

    def test_it_says_what_is_missing_of_other_relevance(self) -> None:
        lrp = LRP(words())
        ids, features = lrp.attribute((IDS, FEATURES), target=1)
        delta = lrp.compute_convergence_delta((ids, features + 1), (0, 0), (IDS, FEATURES), target=1)
        assert_close(delta, torch.full((3,), 2.0, dtype=torch.float64))

    @pytest.mark.parametrize("count", [1, 2])
    def test_relevance_of_another_batch_is_refused(self, count: int) -> None:
        lrp = LRP(series())
        found = lrp.attribute(X[:count], target=1)
        with pytest.raises(
            InputError, match=rf"attributions are of shape \({count}, .*, and end_point has 3 samples; give what"
        ):
            lrp.compute_convergence_delta(found, None, X, target=1)

    def test_there_is_no_asynchronous_variant(self) -> None:
        with pytest.raises(NotImplementedError, match="attribute_future is not implemented for LRP; use attribute"):
            LRP(series()).attribute_future()


class TestLayers:
    """The relevance of a layer's output."""

    def test_the_vectors_of_an_embedding(self) -> None:
        model = words()
        found, delta = LayerLRP(model, model.embedding).attribute(
            IDS, target=1, additional_forward_args=FEATURES, return_convergence_delta=True
        )
        assert_close(found, whence.relevance(model, IDS, target=1, args=(FEATURES,)).relevance)
        assert_close(delta, torch.zeros(3, dtype=torch.float64), rtol=0, atol=1e-12)
        inside, _ = LayerLRP(lambda *given: model(*given), model.embedding).attribute((IDS, FEATURES), target=1), None
        assert_close(inside, found)

    def test_a_recurrent_layer(self) -> None:
        model = series()
        states, _ = LayerLRP(model, model.lstm, epsilon=0.01).attribute(X, target=1)
        expected, _ = whence.relevance(model, X, target=1, at="lstm", method=whence.LRP(epsilon=0.01)).relevance
        assert_close(states, expected)

    def test_other_layers_are_refused(self) -> None:
        model = words()
        with pytest.raises(InputError, match="the GRU given as layer is not part of the model; give one of its layers"):
            LayerLRP(model, copy.deepcopy(model.gru))
        with pytest.raises(InputError, match="layer is a list; give one module of the model, and call once for each layer"):
            LayerLRP(model, [model.gru])  # pyright: ignore[reportArgumentType]
        layer = LayerLRP(model, model.gru)
        with pytest.raises(InputError, match=r"attribute_to_layer_input=True: .* give the layer before it"):
            layer.attribute((IDS, FEATURES), target=1, attribute_to_layer_input=True)
        layer.attribute((IDS, FEATURES), target=1, attribute_to_layer_input=False)


class TestCaptum:
    """What Captum does with an attribution."""

    def test_it_is_one(self) -> None:
        model = words()
        assert isinstance(LRP(model), attr.Attribution)
        assert isinstance(LayerLRP(model, model.embedding), attr.LayerAttribution)
        assert LRP(model).forward_func is model

    def test_noise_tunnel(self) -> None:
        lrp = LRP(series())
        torch.manual_seed(0)
        found, delta = attr.NoiseTunnel(lrp).attribute(
            X, nt_type="smoothgrad", nt_samples=4, stdevs=0.1, target=[0, 1, 2], return_convergence_delta=True
        )
        torch.manual_seed(0)
        # Captum draws for every sample in turn
        noisy = X.repeat_interleave(4, dim=0) + torch.normal(0, torch.full((12, 5, 4), 0.1))
        expected = lrp.attribute(noisy, target=torch.tensor([0, 1, 2]).repeat_interleave(4))
        assert_close(found, expected.unflatten(0, (3, 4)).mean(1))
        assert_close(delta, torch.zeros(12, dtype=torch.float64), rtol=0, atol=1e-12)

    def test_infidelity(self) -> None:
        """Of a linear model, contributions explain every change of the inputs."""
        torch.manual_seed(0)
        linear = nn.Sequential(nn.Flatten(), nn.Linear(20, 3, bias=False)).double()

        @metrics.infidelity_perturb_func_decorator(True)
        def perturbed(x: Tensor, baselines: object = None) -> Tensor:
            return x + 0.1 * torch.randn_like(x)

        wrong = LRP(series()).attribute(X, target=1)
        right = LRP(linear, epsilon=0.0).attribute(X, target=1)
        found = metrics.infidelity(linear, perturbed, X, right, target=1, n_perturb_samples=5)
        assert_close(found, torch.zeros_like(found), rtol=0, atol=1e-12)
        assert metrics.infidelity(linear, perturbed, X, wrong, target=1, n_perturb_samples=5).min() > 1e-3

    def test_sensitivity(self) -> None:
        torch.manual_seed(0)
        small = metrics.sensitivity_max(LRP(series()).attribute, X, target=1, perturb_radius=1e-6)
        assert small.shape == (3,)
        assert float(small.max()) < 1e-3
        assert float(small.min()) > 0

    def test_a_record_of_a_text(self) -> None:
        model = words()
        found, delta = LRP(model).attribute(
            IDS[:1], target=1, additional_forward_args=FEATURES[:1], return_convergence_delta=True
        )
        tokens = ["neither", "funny", "nor", "<well>", "drawn"]
        record = attr.visualization.VisualizationDataRecord(
            found[0] / found[0].abs().max(), 0.9, "negative", "negative", "negative", float(found.sum()), tokens, delta
        )
        shown = attr.visualization.visualize_text([record])
        assert "neither" in shown.data
        assert shown.data.count("<mark") == 5


def test_whence_does_not_import_captum_and_says_what_to_install_without_it() -> None:
    code = """
import importlib.util, sys, whence
whence.relevance, whence.LRP
assert "captum" not in sys.modules
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "captum" else found(name, package)
try:
    import whence.captum
except whence.InputError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "whence.captum needs Captum; run: pip install 'whence[captum]'\n", done.stderr


@pytest.mark.slow
def test_the_example_runs_and_both_methods_find_the_marked_number() -> None:
    script = Path(__file__).parents[1] / "examples" / "captum_swap.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    shares = [int(each) for each in re.findall(r"points at the marked number in (\d+)%", done.stdout)]
    assert len(shares) == 2
    assert min(shares) >= 90
