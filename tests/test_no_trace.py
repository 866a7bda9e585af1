"""After an explanation, and after an exception inside one, the model is as it was: weights, modes, hooks, gradients."""

import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from tests.models import Tagger
from tests.perturbing import PERTURBING
from whence import LRP, GradientXInput, NoRuleError, SensitivityAnalysis, WhenceError, relevance

METHODS = [LRP(), SensitivityAnalysis(), GradientXInput(), *PERTURBING]


def make_model() -> Tagger:
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 3, num_layers=2, dropout=0.5, batch_first=True)
    return Tagger(lstm, "mean", 2, deep=True).double()


def state_of(model: nn.Module) -> dict[str, Any]:
    return {
        "weights": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "training": [module.training for module in model.modules()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "grad": [p.grad for p in model.parameters()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks)) for m in model.modules()],
        "global hooks": (len(torch_module._global_forward_hooks), len(torch_module._global_forward_pre_hooks)),
        "switches": (torch.is_grad_enabled(), torch.backends.cudnn.enabled, torch.get_default_dtype()),
        "forward": [module.__dict__.get("forward") for module in model.modules()],
        "versions": [p._version for p in model.parameters()],
    }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    weights, same = before.pop("weights"), after.pop("weights")
    assert weights.keys() == same.keys()
    assert all(weights[name].equal(same[name]) for name in weights)
    assert before == after


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_explanation_leaves_no_trace(method: LRP) -> None:
    model = make_model().train()
    model.lstm.eval()
    model.lstm.weight_ih_l0.requires_grad_(False)
    calls: list[str] = []
    model.fc.register_forward_hook(lambda *_: calls.append("hook"))
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    before, x_before = state_of(model), x.clone()
    relevance(model, x, target=0, method=method)
    assert calls
    assert_same(before, state_of(model))
    assert x.equal(x_before)
    assert not x.requires_grad


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_an_exception_leaves_no_trace(method: LRP) -> None:
    model = make_model().train()
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    handle = cast(nn.Sequential, model.fc)[2].register_forward_hook(lambda *_: (_ for _ in ()).throw(KeyError("user's own")))
    before = state_of(model)
    with pytest.raises(KeyError, match="user's own"):
        relevance(model, x, target=0, method=method)
    assert_same(before, state_of(model))
    handle.remove()
    before = state_of(model)
    with pytest.raises(KeyError, match="in the target"):
        relevance(model, x, target=raising("in the target"), method=method)
    assert_same(before, state_of(model))


def raising(message: str) -> Callable[[Any], Tensor]:
    def target(output: Any) -> Tensor:
        raise KeyError(message)

    return target


def test_an_operation_without_a_rule_leaves_no_trace() -> None:
    model = make_model().train()
    cast(nn.Sequential, model.fc)[2].forward = lambda input: torch.lgamma(input)
    before = state_of(model)
    with pytest.raises(NoRuleError, match=r"lgamma \(called in 'fc.2'\)"):
        relevance(model, torch.randn(2, 5, 4, dtype=torch.float64), target=0)
    assert_same(before, state_of(model))


def test_a_training_model_is_explained_as_it_predicts() -> None:
    model, x = make_model(), torch.randn(2, 5, 4, dtype=torch.float64)
    for method in METHODS:
        training = relevance(model.train(), x, target=1, method=method)
        predicting = relevance(model.eval(), x, target=1, method=method)
        assert training.relevance.equal(predicting.relevance)
        assert training.score.equal(predicting.score)


def test_within_inference_mode_and_no_grad() -> None:
    model = make_model()
    with torch.inference_mode():
        x = torch.randn(2, 5, 4, dtype=torch.float64)
        found = [relevance(model, x, target=1, method=method) for method in METHODS]
    with torch.no_grad():
        again = [relevance(model, x.clone(), target=1, method=method) for method in METHODS]
    for one, other in zip(found, again, strict=True):
        assert one.relevance.equal(other.relevance)
        assert not one.relevance.requires_grad


class Refusing(nn.Module):
    """A recurrent layer, then something without a rule, that mixes samples, or that a user wrote wrongly."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.lstm, self.fc = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.lstm(x)[0][:, -1]
        if self.how == "no rule":
            h = torch.logcumsumexp(h, -1)
        if self.how == "a product":
            h = h * h.tanh()
        if self.how == "mixed":
            h = h - h.mean(0)
        if self.how == "shapes":
            h = h @ h
        if self.how == "user's own":
            raise KeyError("user's own")
        return self.fc(h)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["no rule", "a product", "mixed", "shapes", "user's own", "target", "nothing", "axis"])
def test_a_call_leaves_no_reference_cycle(how: str) -> None:
    """Otherwise its memory waits for the garbage collector, which may come at any moment, in any thread."""
    model, x = Refusing(how), torch.randn(2, 2 if how == "axis" else 5, 4)
    more: dict[str, Any] = {"lengths": [2, 1]} if how == "axis" else {}
    target = 7 if how == "target" else 0
    with suppress(Exception):
        relevance(model, x, target=target, **more)  # what is made once stays
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        with suppress(WhenceError, KeyError):
            relevance(model, x, target=target, **more)
        gc.collect()
        left = [each for each in gc.garbage if type(each).__module__.startswith("whence") or isinstance(each, Tensor)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert left == []


def test_a_models_own_stop_iteration_comes_out_as_such() -> None:
    class Stopping(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            raise StopIteration("the model's own")

    for method in METHODS:
        with pytest.raises(StopIteration, match="the model's own"):
            relevance(Stopping(4, 2), torch.randn(3, 4), target=0, method=method)
