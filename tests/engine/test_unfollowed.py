"""Calls that used to be refused, or blamed on the model, because of our own bookkeeping."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from whence import LRP, GradientXInput, InputError, NoRuleError, TargetError, relevance
from whence.engine.neurons import Ended
from whence.engine.table import TABLE


class Between(nn.Module):
    """Something done to the steps (B, T, 6) of a recurrent layer on the way to features (B, 6)."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change
        self.lstm, self.fc = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.change(self.lstm(x)[0]))


def placed(how: str) -> Callable[[Tensor], Tensor]:
    def change(y: Tensor) -> Tensor:
        h = y[:, -1]
        order, columns = torch.tensor([3, 0, 5, 1, 4, 2]), torch.arange(6)
        if how == "scatter":
            return torch.zeros_like(h).scatter(1, order.expand_as(h), h)
        if how == "index_copy":
            return torch.zeros_like(h).index_copy(1, order, h)
        return torch.zeros_like(h).index_put((torch.arange(len(h))[:, None], order), h[:, columns])

    return change


def padded(y: Tensor) -> Tensor:
    return torch.constant_pad_nd(y[:, -1, :4], (1, 1), value=1)


def set_all(y: Tensor) -> Tensor:
    z = y.clone()
    z[:, :] = 0
    return (y + z).sum(1)


CHANGES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    # a change, and the same in calls that always had a rule
    **{how: (placed(how), lambda y: y[:, -1][:, [1, 3, 5, 0, 4, 2]]) for how in ("scatter", "index_copy", "index_put")},
    "constant_pad_nd": (padded, lambda y: F.pad(y[:, -1, :4], (1, 1), value=1.0)),
    "y[:, :] = 0": (set_all, lambda y: (y + y.masked_fill(torch.ones_like(y, dtype=torch.bool), 0.0)).sum(1)),
}


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", [LRP(), LRP(delta=1.0), LRP(stabiliser="absorbed", product="half")], ids=str)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_explained_as_its_plain_spelling(name: str, method: LRP, dtype: torch.dtype, batch: int) -> None:
    torch.manual_seed(0)
    change, plain = CHANGES[name]
    model, x = Between(change).to(dtype), torch.randn(batch, 5, 4, dtype=dtype)
    expected_model = Between(plain).to(dtype)
    expected_model.load_state_dict(model.state_dict())
    found, expected = (relevance(each, x, target=1, method=method).check() for each in (model, expected_model))
    assert_close(found.score, model(x)[:, 1].detach())
    assert_close(found.relevance, expected.relevance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("spelling", ["half or bfloat16", "to", "type"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_cast_to_half_precision_hands_all_relevance_on(dtype: torch.dtype, spelling: str, batch: int) -> None:
    def change(y: Tensor) -> Tensor:
        h = y[:, -1]
        narrow = {
            "half or bfloat16": h.half if dtype == torch.float16 else h.bfloat16,
            "to": lambda: h.to(dtype),
            "type": lambda: h.type(dtype),
        }[spelling]()
        return narrow.float()

    torch.manual_seed(0)
    model, x = Between(change), torch.randn(batch, 5, 4)
    found = relevance(model, x, target=1).check(1e-3)  # the score is that of rounded states; nothing else is lost
    exact = Between(lambda y: y[:, -1])
    exact.load_state_dict(model.state_dict())
    assert_close(found.relevance, relevance(exact, x, target=1).relevance, rtol=0.02, atol=2e-3)


def test_a_score_that_was_written_over_does_not_depend_on_the_inputs() -> None:
    def change(y: Tensor) -> Tensor:
        y = y.clone()
        y[:, :] = 0
        return y.sum(1)

    with pytest.raises(TargetError, match="does not depend on the inputs"):
        relevance(Between(change), torch.randn(3, 5, 4), target=1)


def jvp(y: Tensor) -> Tensor:
    return torch.func.jvp(torch.tanh, (y,), (torch.ones_like(y),))[0].sum(1)


def jagged(y: Tensor) -> Tensor:
    return torch.nested.to_padded_tensor(torch.nested.nested_tensor(list(y), layout=torch.jagged), 0.0).sum(1)


@pytest.mark.filterwarnings("ignore:.*nested:UserWarning", "ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("change", [lambda y: torch.vmap(torch.tanh)(y).sum(1), jvp, jagged], ids=["vmap", "jvp", "jagged"])
def test_what_cannot_be_followed_is_not_called_impossible(change: Any) -> None:
    model, x = Between(change), torch.randn(3, 5, 4)
    model(x)
    with pytest.raises(NoRuleError, match=r"inside torch.func's vmap, grad or jvp|torch.nested_"):
        relevance(model, x, target=1)


def test_our_own_failure_is_not_reported_as_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while the model runs nor on the way back."""

    def broken(*_: Any) -> None:
        raise RuntimeError("two lines\nof ours")

    model, x = Between(lambda y: torch.flip(y, (1,))[:, 0]), torch.randn(3, 5, 4)
    monkeypatch.setattr(type(TABLE["flip"].rule), "follow", broken)
    with pytest.raises(NoRuleError, match=r"torch.flip .*the model can make this call, but recording it failed: two lines\."):
        relevance(model, x, target=1)
    monkeypatch.undo()
    monkeypatch.setattr(Ended, "backward", staticmethod(broken))
    with pytest.raises(NoRuleError, match=r"relevance could not be handed back .*\(two lines\)"):
        relevance(model, x, target=1)


def test_a_call_that_is_wrong_speaks_for_itself() -> None:
    with pytest.raises(InputError, match=r"the model cannot run on inputs of shape \(3, 5, 4\): .*shapes cannot be multiplied"):
        relevance(Between(lambda y: y[:, 0] @ y[:, 0]), torch.randn(3, 5, 4), target=1)


def test_the_result_of_a_layer_that_gives_a_tuple_shows_its_shapes() -> None:
    found = relevance(Between(lambda y: y[:, -1]), torch.randn(3, 5, 4), target=1, at="lstm")
    assert "relevance (3, 5, 6), (1, 3, 6), (1, 3, 6)" in repr(found)
    assert "score" in repr(relevance(nn.Linear(4, 2), (torch.randn(3, 4),), target=1, method=GradientXInput()))


class Averaged(torch.autograd.Function):
    """The identity; its derivative is another, whose sum is the same."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0].mean(1, keepdim=True).expand_as(grads[0])


class Reversed(torch.autograd.Function):
    """The identity, as a view; its derivative has the other sign."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return -grads[0]


@pytest.mark.parametrize("own", [Averaged, Reversed])
@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_relevance_does_not_pass_the_derivative_of_a_function_of_the_users(own: Any, delta: float) -> None:
    torch.manual_seed(0)
    plain, x, method = Between(lambda y: y.sum(1)), torch.randn(3, 5, 4), LRP(delta=delta)
    expected = relevance(plain, x, target=1, method=method)
    for change in (lambda y: own.apply(y).sum(1), lambda y: own.apply(y.sum(1))):
        model = Between(change)
        model.load_state_dict(plain.state_dict())
        found = relevance(model, x, target=1, method=method)
        assert_close(found.relevance, expected.relevance)
        assert found.choices == expected.choices


class Clamped(torch.autograd.Function):
    """A ReLU that writes into what it is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.clamp_(min=0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * float("nan")


def test_a_function_of_the_users_may_write_into_what_it_is_given() -> None:
    torch.manual_seed(0)
    plain, x = Between(lambda y: (y * 2).clamp(min=0).sum(1)), torch.randn(3, 5, 4)
    model = Between(lambda y: Clamped.apply(y * 2).sum(1))
    model.load_state_dict(plain.state_dict())
    for delta in (0.0, 1.0):
        expected = relevance(plain, x, target=1, method=LRP(delta=delta))
        assert_close(relevance(model, x, target=1, method=LRP(delta=delta)).relevance, expected.relevance)
    for change, words in (
        (lambda y: Clamped.apply((y * 2)[:, 1:]).sum(1), "marks a view as dirty"),
        (lambda y: Clamped.apply(y * 2).mul_(3).sum(1), "autograd.Function marked as dirty"),
    ):
        with pytest.raises(NoRuleError, match=words):
            relevance(Between(change), x, target=1)


def test_what_a_model_asks_of_the_graph_is_answered_as_in_a_plain_call() -> None:
    def asking(y: Tensor) -> Tensor:
        assert not y.requires_grad and y.grad_fn is None and y.is_leaf
        return y.requires_grad_(y.requires_grad).sum(1)

    model, x = Between(asking), torch.randn(3, 5, 4)
    for layer in model.modules():
        layer.register_full_backward_hook(lambda *_: None)
    relevance(model, x, target=1).check()
