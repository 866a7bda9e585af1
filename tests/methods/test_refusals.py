"""What cannot be explained is refused for its real reason, and the way out that the message names does work."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from whence.errors import InputError, NoRuleError, TargetError, WeightsError

B, T, E, H, C = 2, 5, 3, 4, 2
OTHERS = r"neither rules nor derivatives, such as method=whence\.Occlusion\(\) or method=whence\.Shapley\(\)"
WITHOUT_DERIVATIVES = (whence.Occlusion(), whence.Shapley(samples=4))


class Changed(nn.Module):
    """An LSTM, a change of its last state, and a head."""

    def __init__(self, change: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(E, H, batch_first=True), nn.Linear(H, C)
        self.change = change

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.change(self.lstm(x)[0][:, -1]))


def through_numpy(h: Tensor) -> Tensor:
    return torch.from_numpy(h.detach().numpy().cumsum(1))


def without_graph(h: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.sinc(h)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(B, T, E, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def made(change: Callable[[Tensor], Tensor] = torch.tanh) -> Changed:
    torch.manual_seed(0)
    return Changed(change).double().eval()


def coarse(h: Tensor) -> Tensor:
    return torch.round(100 * h)


@pytest.mark.parametrize("change", [coarse, through_numpy, without_graph])
def test_where_the_derivative_ends_a_method_is_named_that_needs_none(change: Callable[[Tensor], Tensor], x: Tensor) -> None:
    model = made(change)
    for method in (whence.LRP(), whence.ContextualDecomposition()):
        with pytest.raises(NoRuleError, match=OTHERS):
            whence.relevance(model, x, target=0, method=method)
    assert all(row.advice.endswith("method=whence.Shapley()") for row in whence.inspect(model, x).refused if row.advice)
    for method in WITHOUT_DERIVATIVES:
        assert bool(whence.relevance(model, x, target=0, method=method).relevance.any())


def test_where_a_derivative_goes_on_a_method_is_named_that_takes_it(x: Tensor) -> None:
    model = made(torch.sinc)
    with pytest.raises(NoRuleError, match=r"needs no rules, such as method=whence\.GradientXInput\(\)"):
        whence.relevance(model, x, target=0)
    assert bool(whence.relevance(model, x, target=0, method="gi").relevance.any())


@pytest.mark.parametrize("method", ["gi", "sa", "ig", "smoothgrad"])
def test_a_score_without_a_derivative_may_depend_on_the_inputs(method: str, x: Tensor) -> None:
    with pytest.raises(TargetError, match=r"stops at no_grad \(in the model itself\), so it is 0 for every input; use"):
        whence.relevance(made(without_graph), x, target=0, method=method)

    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, h: Tensor) -> Tensor:
            ctx.mark_non_differentiable(found := 2 * h)
            return found

    with pytest.raises(TargetError, match=f"depends on the inputs, but PyTorch has no derivative.*{OTHERS}"):
        whence.relevance(made(cast(Any, Hidden.apply)), x, target=0, method=method)
    with pytest.raises(TargetError, match="does not depend on the inputs"):
        whence.relevance(made(torch.ones_like), x, target=0, method=method)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_dynamically_quantised_layers(x: Tensor) -> None:
    model = cast(Any, torch.ao.quantization).quantize_dynamic(made().float(), {nn.Linear})
    with pytest.raises(NoRuleError, match=OTHERS):
        whence.relevance(model, x.float(), target=0)
    with pytest.raises(TargetError, match="depends on the inputs, but PyTorch has no derivative"):
        whence.relevance(model, x[:1].float(), target=0, method="gi")
    assert bool(whence.relevance(model, x[:1].float(), target=0, method="occlusion").relevance.any())


class Row(nn.Module):
    """One score for every row of features."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.head, self.change = nn.Linear(E, 1).double(), change

    def forward(self, x: Tensor) -> Tensor:
        return self.change(self.head(x).squeeze(-1))


@pytest.mark.parametrize("method", ["gi", "sa", "ig", "smoothgrad"])
def test_a_derivative_that_is_not_finite_is_not_blamed_on_the_target(method: str, x: Tensor) -> None:
    with pytest.raises(InputError, match="derivative is not finite: the model divides by zero"):
        whence.relevance(Row(lambda y: (y - y).abs().sqrt() + y), x[0], method=method)


@pytest.mark.parametrize("method", ["lrp", "gi", "ig", "occlusion", "cd"])
def test_a_batch_that_mixes_is_not_blamed_on_the_target(method: str, x: Tensor) -> None:
    with pytest.raises(TargetError, match=f"gave {T} scores for what is taken for one.*If they belong to {T} samples, these"):
        whence.relevance(Row(lambda y: y + y.mean()), x[0], method=method)


class Sorted(nn.Module):
    """Sorts its batch by length, as readers of packed sequences once had to, and does not put it back in order."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(E, H, batch_first=True), nn.Linear(H, C)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        order = lengths.argsort(descending=True)
        return self.head(self.lstm(x[order])[0][:, -1]), order


@pytest.mark.parametrize("method", ["lrp", "gi", "ig", "occlusion", "cd"])
def test_a_model_that_sorts_its_batch(method: str) -> None:
    torch.manual_seed(0)
    model, x, lengths = Sorted().double(), torch.randn(3, T, E, dtype=torch.float64), torch.tensor([2, 5, 3])
    with pytest.raises(InputError, match=r"samples come out in another order than they went in: 1, 2, 0\. Give them"):
        whence.relevance(model, x, target=lambda output: output[0][:, 0], args=(lengths,), method=method)
    found = whence.relevance(model, x, target=lambda o: o[0][o[1].argsort(), 0], args=(lengths,), method=method).relevance
    order = lengths.argsort(descending=True)
    given = {"target": lambda output: output[0][:, 0], "args": (lengths[order],), "method": method}
    assert_close(whence.relevance(model, x[order], **cast(Any, given)).relevance, found[order])


class Pointer(nn.Module):
    """Attention that leaves places out by a parameter of −∞ that is not trained, as a pointer network's."""

    def __init__(self, nothing: float = float("-inf")) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.query, self.head = nn.LSTM(E, H, batch_first=True), nn.Linear(H, H), nn.Linear(H, C)
        self.nothing = nn.Parameter(torch.tensor([nothing]), requires_grad=False)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        h, (last, _) = self.lstm(x)
        weights = (h * self.query(last[-1])[:, None]).sum(-1)
        is_used = torch.zeros(weights.shape, dtype=torch.bool)
        is_used[:, 1] = True
        weights[is_used] = self.nothing[:, None].expand(weights.shape)[is_used]
        weights = weights + torch.where(is_used, self.nothing, self.nothing.new_zeros(1))
        return self.head((weights.softmax(-1)[..., None] * h).sum(1))


@pytest.mark.parametrize(
    "method",
    [*(whence.LRP(product=cast(Any, each)) for each in ("all", "half", "prop", "abs")), "gi", "ig", "occlusion"],
    ids=str,
)
def test_a_frozen_parameter_may_hold_the_infinities_of_a_mask(method: Any, x: Tensor) -> None:
    found = whence.relevance(Pointer(), x, target=0, method=method)
    # exp(−10⁹) is 0, as exp(−∞) is
    assert_close(found.relevance, whence.relevance(Pointer(-1e9), x, target=0, method=method).relevance)
    assert whence.inspect(Pointer(), x).is_explainable


def test_a_trained_parameter_may_not(x: Tensor) -> None:
    model = Pointer()
    model.nothing.requires_grad_(True)
    with pytest.raises(WeightsError, match=r"nothing\[0\] is -inf.*a mask may hold infinities as a buffer, or with requires"):
        whence.relevance(model, x, target=0)


@pytest.mark.parametrize("method", ["gi", "ig", "smoothgrad"])
def test_a_backward_hook_that_fails_is_named(method: str, x: Tensor) -> None:
    model = made()

    def hook(module: nn.Module, before: object, after: object) -> None:
        raise ValueError("No activations detected for Linear")

    model.head.register_full_backward_hook(cast(Any, hook))
    with pytest.raises(InputError, match="hooks, and that failed: ValueError: No activations detected for Linear; remove"):
        whence.relevance(model, x, target=0, method=method)
    assert_close(whence.relevance(model, x, target=0).relevance, whence.relevance(made(), x, target=0).relevance)


@pytest.mark.parametrize("method", ["lrp", "gi", "sa", "ig", "smoothgrad", "occlusion", "shapley", "cd"])
def test_a_model_made_in_inference_mode_is_like_any_other(method: str, x: Tensor) -> None:
    with torch.inference_mode():
        model = made()
    found = whence.relevance(model, x, target=0, method=method).relevance
    assert_close(found, whence.relevance(made(), x, target=0, method=method).relevance)
    assert model.head.weight.is_inference()


def test_arguments_that_are_missing_are_named(x: Tensor) -> None:
    model = Sorted().double()
    message = r"Sorted\.forward\(\) missing 1 required positional argument: 'lengths'; give its other arguments by args="
    for method in ("lrp", "gi", "ig", "cd"):
        with pytest.raises(InputError, match=message):
            whence.relevance(model, x, target=0, method=method)
    bundled = whence.load("sst-bilstm").module
    ids = torch.tensor([[3, 4, 5]])
    with pytest.raises(InputError, match=r"missing 1 required positional argument: 'lengths'.*lengths also by lengths="):
        whence.relevance(bundled, ids, target=0, at="encoder")
    found = whence.relevance(bundled, ids, target=0, at="encoder", args=(torch.tensor([3]),)).check()
    assert bool(cast(Tensor, found.explained).any())


def test_an_error_of_the_users_own_about_types_is_passed_on(x: Tensor) -> None:
    def fails(h: Tensor) -> Tensor:
        raise TypeError("of mine")

    with pytest.raises(TypeError, match="of mine"):
        whence.relevance(made(fails), x, target=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*torch.jit")
def test_a_scripted_module_is_refused_alike_everywhere(x: Tensor) -> None:
    model = made()
    model.head = cast(Any, torch.jit.script(model.head))
    with pytest.raises(NoRuleError, match="'head' is a scripted module, whose calls cannot be followed") as refused:
        whence.relevance(model, x, target=0)
    (row,) = whence.inspect(model, x).refused
    assert row.refused == str(refused.value)
    assert bool(whence.relevance(model, x, target=0, method="gi").relevance.any())  # as the message says


def test_experts_that_are_multiplied_at_once(x: Tensor) -> None:
    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 8, 8, dtype=torch.bfloat16))

        def forward(self, x: Tensor) -> Tensor:
            ends = torch.tensor([4, len(x)], dtype=torch.int32)
            return nn.functional.grouped_mm(x.bfloat16(), self.weight, offs=ends).float()

    with pytest.raises(NoRuleError, match=r'grouped_mm.*model\.set_experts_implementation\("eager"\) calls them one by one'):
        whence.relevance(Experts(), torch.randn(8, 8), target=0)


def test_amounts_that_cancel_are_never_a_bare_error() -> None:
    """A gap whose size hangs on the order of summation is either there or not."""
    score, size = torch.tensor([1.0]), torch.tensor([2.0**24])
    found = whence.Result(
        torch.zeros(1, 1), score, 0, whence.LRP(), {"a": size, "b": 1 - size}, explained=torch.zeros(1), margin=1.0
    )
    assert float(found.gap) == 0
    assert found.is_balanced()
    assert found.check() is found


def test_decomposition_refuses_a_cell_that_is_written_by_hand(x: Tensor) -> None:
    class ByHand(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inputs, self.states, self.head = nn.Linear(E, H), nn.Linear(H, H), nn.Linear(H, C)

        def forward(self, x: Tensor) -> Tensor:
            h = x.new_zeros(len(x), H)
            for t in range(x.shape[1]):
                h = torch.tanh(self.inputs(x[:, t]) + self.states(h))
            return self.head(h)

    model = ByHand().double()
    with pytest.raises(NoRuleError, match=r"cells that are written by hand: .*\(called in 'states'\).*Use nn\.LSTM, nn\.GRU"):
        whence.relevance(model, x, target=0, method="cd")
    whence.relevance(model, x[:, :1], target=0, method="cd").check()  # one step is no loop
    whence.relevance(model, x, target=0).check()


def test_decomposition_says_what_autocast_does(x: Tensor) -> None:
    model = made().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(NoRuleError, match=r"under torch\.autocast, whose rounding hides.*switch autocast off"):
            whence.relevance(model, x.float(), target=0, method="cd")
        assert bool(whence.relevance(model, x.float(), target=0).relevance.any())


def test_the_type_of_a_tensor(x: Tensor) -> None:
    def typed(h: Tensor) -> Tensor:
        return h.type(torch.zeros(1).type()).type(h.type()) if h.type() == "torch.DoubleTensor" else h

    expected = whence.relevance(made(lambda h: h.float().double()), x, target=0)
    assert_close(whence.relevance(made(typed), x, target=0).relevance, expected.relevance)


def test_a_graph_that_is_switched_off_for_a_moment_does_not_hide_that_samples_mix(x: Tensor) -> None:
    def mixed(h: Tensor) -> Tensor:
        with torch.no_grad():
            h.abs()
        return h + h.mean(0)

    with pytest.raises(InputError, match="no axis of the inputs holds 2 samples that do not influence each other"):
        whence.relevance(made(mixed), x, target=0)
