"""A model that was explained before is explained like a fresh copy of it, whatever has changed since: nothing of it is kept."""

import copy
import gc
import threading
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import whence
from tests.models.cells import ZOO
from tests.models.published import PUBLISHED
from whence.engine.table import TABLE

B, T, E, H, C = 3, 5, 4, 6, 3


class Layered(nn.Module):
    """An LSTM and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(E, H, batch_first=True), nn.Linear(H, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class Written(nn.Module):
    """A cell written by hand, with everything that may change between two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.states, self.head = nn.Linear(E, 4 * H), nn.Linear(H, 4 * H), nn.Linear(H, C)
        self.norm = nn.BatchNorm1d(E)
        self.scale = nn.Parameter(torch.ones(H))  # of a gate: 1 keeps it one, other numbers may not
        self.is_longer = False
        self.factor = 1.0

    def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        x = x if shift is None else x + shift
        h = c = x.new_zeros(len(x), H)
        for t in range(x.shape[1]):
            i, f, g, o = (self.inputs(x[:, t]) + self.states(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c) * self.factor
        if self.is_longer or bool(x.mean() > 10):
            h = torch.tanh(h)
        return self.head(h)


MODELS: list[Callable[[], nn.Module]] = [Layered, Written]


def made(kind: Callable[[], nn.Module]) -> Any:
    torch.manual_seed(0)
    return kind().double().eval()


def explained_before(model: nn.Module, x: Tensor, **asked: Any) -> None:
    """Explain a model, twice."""
    for _ in range(2):
        whence.relevance(model, x, **asked)


def assert_as_new(model: nn.Module, x: Tensor, **asked: Any) -> None:
    """The model is explained as a copy of it is that was never explained before."""
    found = whence.relevance(model, x, **asked)
    other = whence.relevance(copy.deepcopy(model), x, **asked)
    assert_close(found.relevance, other.relevance)
    assert_close(found.score, other.score)
    assert dict(found.absorbed).keys() == dict(other.absorbed).keys()
    assert_close(dict(found.absorbed), dict(other.absorbed))
    assert found.choices == other.choices
    found.check(1e-10)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", [whence.LRP(), whence.LRP(delta=1.0), whence.LRP(product="half"), whence.LRP(head="gamma")])
@pytest.mark.parametrize("target", [0, 2, "predicted", "all", [0, 1, 2], torch.tensor([2, 1, 0])], ids=str)
def test_later_calls_answer_as_the_first_would(kind: Callable[[], nn.Module], method: whence.LRP, target: object) -> None:
    model = made(kind)
    asked = {"target": target, "method": method}
    explained_before(model, torch.randn(B, T, E).double(), **asked)
    for _ in range(2):
        assert_as_new(model, torch.randn(B, T, E).double(), **asked)


@pytest.mark.parametrize("rows", [1, 3, 63])
@pytest.mark.parametrize("steps", [1, 3, 63])
def test_other_shapes(rows: int, steps: int) -> None:
    model = made(Written)
    explained_before(model, torch.randn(B, T, E).double(), target=0)
    assert_as_new(model, torch.randn(rows, steps, E).double(), target=0)
    assert_as_new(model, torch.randn(B, T, E).double(), target=0)


def weights_trained(model: Any) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    model(torch.randn(B, T, E).double()).sum().backward()
    optimiser.step()
    model.zero_grad()


def weights_written_unseen(model: Any) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(1.5)


def weights_replaced(model: Any) -> None:
    for parameter in model.parameters():
        parameter.data = parameter.data * 0.5


def averaged_weights_copied_in(model: Any) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.9 * parameter + 0.1 * torch.randn_like(parameter))


def state_loaded(model: Any) -> None:
    model.load_state_dict(type(model)().double().state_dict())


def state_assigned(model: Any) -> None:
    model.load_state_dict(type(model)().double().state_dict(), assign=True)


def weights_from_a_vector(model: Any) -> None:
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(torch.randn_like(vector), model.parameters())


def weights_frozen(model: Any) -> None:
    model.requires_grad_(False)


def weights_pruned_to_zero(model: Any) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter[..., ::2] = 0.0


def head_replaced(model: Any) -> None:
    model.head = nn.Linear(H, C).double()


def head_grown(model: Any) -> None:
    model.head = nn.Sequential(nn.Linear(H, 7), nn.ReLU(), nn.Linear(7, C + 2)).double()


def head_parametrised(model: Any) -> None:
    nn.utils.parametrizations.weight_norm(model.head)


def layer_replaced(model: Any) -> None:
    if isinstance(model, Layered):
        model.lstm = nn.GRU(E, H, batch_first=True).double()  # pyright: ignore[reportAttributeAccessIssue]
    else:
        model.states = nn.Linear(H, 4 * H, bias=False).double()


def hooked(model: Any) -> None:
    model.head.register_forward_hook(lambda layer, args, result: result * 2)


def hooked_before(model: Any) -> None:
    model.head.register_forward_pre_hook(lambda layer, args: (args[0] * 2,))


def trained_mode(model: Any) -> None:
    model.train()


def statistics_moved(model: Any) -> None:
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.copy_(torch.randn(E))  # pyright: ignore[reportOptionalMemberAccess]


def longer(model: Any) -> None:
    model.is_longer = True


def other_factor(model: Any) -> None:
    model.factor = 0.5


def forward_replaced(model: Any) -> None:
    model.forward = MethodType(lambda self, x: torch.tanh(type(self).forward(self, x)), model)


CHANGES = [
    weights_trained,
    weights_written_unseen,
    weights_replaced,
    averaged_weights_copied_in,
    state_loaded,
    state_assigned,
    weights_from_a_vector,
    weights_frozen,
    weights_pruned_to_zero,
    head_replaced,
    head_grown,
    head_parametrised,
    layer_replaced,
    hooked,
    hooked_before,
    trained_mode,
    statistics_moved,
    longer,
    other_factor,
    forward_replaced,
]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_whatever_changes_between_two_calls(kind: Callable[[], nn.Module], change: Callable[[Any], None]) -> None:
    model, x = made(kind), torch.randn(B, T, E).double()
    explained_before(model, x, target=1)
    change(model)
    mode = model.training
    assert_as_new(model, x, target=1)
    assert_as_new(model, torch.randn(B, T, E).double(), target=1)
    assert model.training == mode


@pytest.mark.parametrize("kind", MODELS)
def test_weights_are_swapped_for_their_average_and_back(kind: Callable[[], nn.Module]) -> None:
    model, x = made(kind), torch.randn(B, T, E).double()
    own = [parameter.detach().clone() for parameter in model.parameters()]
    average = [each * 0.9 for each in own]
    before = whence.relevance(model, x, target=1).relevance
    for weights in (average, own, average):
        with torch.no_grad():
            for parameter, weight in zip(model.parameters(), weights, strict=True):
                parameter.copy_(weight)
        assert_as_new(model, x, target=1)
        assert torch.equal(whence.relevance(model, x, target=1).relevance, before) == (weights is own)


def test_a_hook_that_is_removed_again() -> None:
    model, x = made(Layered), torch.randn(B, T, E).double()
    before = whence.relevance(model, x, target=1).relevance
    handle = model.head.register_forward_hook(lambda layer, args, result: result * 2)
    assert_as_new(model, x, target=1)
    handle.remove()
    assert torch.equal(whence.relevance(model, x, target=1).relevance, before)


def test_another_method_between_two_calls() -> None:
    model, x = made(Written), torch.randn(B, T, E).double()
    before = whence.relevance(model, x, target=1).relevance
    for method in (whence.LRP(delta=1.0), whence.LRP(product="half"), whence.GradientXInput(), whence.LRP(head="gamma")):
        assert_close(
            whence.relevance(model, x, target=1, method=method).relevance,
            whence.relevance(copy.deepcopy(model), x, target=1, method=method).relevance,
        )
    assert torch.equal(whence.relevance(model, x, target=1).relevance, before)


def test_another_precision() -> None:
    model, x = made(Layered), torch.randn(B, T, E)
    explained_before(model, x.double(), target=1)
    model.float()
    found = whence.relevance(model, x, target=1)
    assert found.relevance.dtype == torch.float32
    assert_close(found.relevance, whence.relevance(copy.deepcopy(model), x, target=1).relevance)
    model.double()
    assert_as_new(model, x.double(), target=1)


def test_control_flow_that_depends_on_the_numbers() -> None:
    model = made(Written)
    x = torch.randn(B, T, E).double()
    explained_before(model, x, target=1)
    assert_as_new(model, x + 1000, target=1)  # takes the other branch
    assert_as_new(model, x, target=1)


def test_other_arguments() -> None:
    model, x = made(Written), torch.randn(B, T, E).double()
    for _ in range(3):
        whence.relevance(model, x, target=0, kwargs={"shift": torch.ones(E).double()})
    for shift in (torch.ones(E).double(), torch.zeros(E).double(), torch.randn(E).double()):
        assert_as_new(model, x, target=0, kwargs={"shift": shift})
    assert_as_new(model, x, target=0)


class Scaled(nn.Module):
    """A sigmoid times a weight: where all weights are equal and positive, the product stays a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(E, E), nn.Linear(E, C)
        self.shift = nn.Parameter(torch.zeros(E))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.inner(x)) + self.shift
        return self.head(gate * x).sum(1)


def test_a_rule_that_depends_on_the_numbers_of_a_weight() -> None:
    model, x = made(Scaled), torch.randn(B, T, E).double()
    explained_before(model, x, target=0)
    for shift in (torch.full((E,), 0.5), torch.randn(E), torch.full((E,), -2.0)):
        model.shift.data.copy_(shift)
        assert_as_new(model, x, target=0)


class Masked(nn.Module):
    """A mask that depends on the input: it must not be taken from an earlier call."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(E, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.where(x > 0.2, x, torch.full_like(x, -1.0))).mean(1)


def test_masks_that_depend_on_the_input() -> None:
    model = made(Masked)
    for _ in range(4):
        assert_as_new(model, torch.randn(B, T, E).double(), target=0)


class Noisy(nn.Module):
    """A random initial state, drawn in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRUCell(E, H), nn.Linear(H, C)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.randn(len(x), H, dtype=x.dtype)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)


def test_random_initial_states() -> None:
    model, x = made(Noisy), torch.randn(B, T, E).double()
    for n in range(4):
        torch.manual_seed(n)
        found = whence.relevance(model, x, target=0)
        torch.manual_seed(n)
        other = whence.relevance(copy.deepcopy(model), x, target=0)
        assert_close(found.relevance, other.relevance)
        assert_close(dict(found.absorbed), dict(other.absorbed))


def test_token_ids() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(9, E), Layered()).double().eval()
    for _ in range(4):
        ids = torch.randint(9, (B, T))
        found = whence.relevance(model, ids, target=0)
        other = whence.relevance(copy.deepcopy(model), ids, target=0)
        assert_close(found.relevance, other.relevance)


def test_errors_are_those_of_a_first_call() -> None:
    model, x = made(Layered), torch.randn(B, T, E).double()
    explained_before(model, x, target=0)
    with pytest.raises(whence.TargetError, match="target 7 does not exist"):
        whence.relevance(model, x, target=7)
    with pytest.raises(whence.InputError, match="must be finite"):
        whence.relevance(model, x * float("nan"), target=0)
    model.head.weight.data[0, 0] = float("nan")
    with pytest.raises(whence.WeightsError, match=r"head\.weight"):
        whence.relevance(model, x, target=0)


def test_threads_that_explain_one_model_at_once() -> None:
    model = made(Written)
    explained_before(model, torch.randn(B, T, E).double(), target=0)
    inputs = [torch.randn(B, T, E).double() for _ in range(8)]
    expected = [whence.relevance(copy.deepcopy(model), x, target=0).relevance for x in inputs]
    found: dict[int, list[Tensor]] = {n: [] for n in range(8)}

    def work(n: int) -> None:
        for _ in range(3):
            found[n].append(whence.relevance(model, inputs[n], target=0).relevance)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, each in enumerate(expected):
        assert len(found[n]) == 3
        for one in found[n]:
            assert_close(one, each)


@pytest.mark.parametrize("kind", MODELS)
def test_another_thread_changes_and_explains_the_model(kind: Callable[[], nn.Module]) -> None:
    model, x = made(kind), torch.randn(B, T, E).double()
    explained_before(model, x, target=1)
    found: list[whence.Result] = []

    def work() -> None:
        weights_replaced(model)
        found.append(whence.relevance(model, x, target=1))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert_close(found[0].relevance, whence.relevance(copy.deepcopy(model), x, target=1).relevance)
    assert_as_new(model, x, target=1)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("method", [whence.LRP(), whence.LRP(delta=1.0), whence.LRP(head="gamma")], ids=str)
def test_neither_model_nor_numbers_are_kept_alive(kind: Callable[[], nn.Module], method: whence.LRP) -> None:
    """Not even until the garbage collector runs."""
    model, x = made(kind), torch.randn(B, T, E).double()
    seen: list[weakref.ref[Tensor]] = []
    model.head.register_forward_hook(lambda layer, args, result: seen.extend((weakref.ref(args[0]), weakref.ref(result))))
    held = [weakref.ref(model), weakref.ref(model.head.weight)]
    gc.collect()
    gc.disable()
    try:
        for target in (0, "all"):
            result = whence.relevance(model, x, target=target, method=method)
        assert seen and not any(each() is not None for each in seen)
        del model
        gc.collect()  # the hook refers to itself: PyTorch's own cycle
        assert not any(each() is not None for each in held)
    finally:
        gc.enable()
    assert result.relevance.isfinite().all()


@pytest.mark.parametrize("name", [*ZOO, *PUBLISHED])
@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_every_model_of_the_zoo(name: str, delta: float) -> None:
    torch.manual_seed(1)
    model = (ZOO.get(name) or PUBLISHED[name])(4, 4, 3).double().eval()
    method = whence.LRP(epsilon=0.1, delta=delta)
    whence.relevance(model, torch.randn(3, 5, 4, dtype=torch.float64), target=1, method=method)
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    found, other = (whence.relevance(each, x, target=1, method=method) for each in (model, copy.deepcopy(model)))
    assert_close(found.relevance, other.relevance)
    assert found.absorbed.keys() == other.absorbed.keys()
    assert_close(dict(found.absorbed), dict(other.absorbed))


class Normed(nn.Module):
    """Batch norm, whose writes to its statistics PyTorch does not count."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.BatchNorm1d(E), nn.Linear(E, C)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.norm(x.mean(1))))


def test_statistics_that_were_trained_between_two_calls_stay() -> None:
    model, x = made(Normed), torch.randn(B, T, E).double()
    explained_before(model, x, target=1)
    model.train()
    model(3 * torch.randn(B, T, E).double())
    model.eval()
    trained = model.norm.running_mean.clone()
    assert_as_new(model, x, target=1)
    assert torch.equal(model.norm.running_mean, trained)


class Squashed(Layered):
    """Probabilities."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(-1)


def test_targets_that_look_alike() -> None:
    model, x = made(Squashed), torch.randn(B, T, E).double()
    explained_before(model, x, target=[0, 1, 2])
    for _ in range(3):
        assert_as_new(model, x, target=[whence.contrast(0, "rest"), whence.contrast(1, "rest"), whence.contrast(0, 1)])
    explained_before(model, x, target=1)
    for wrong in (True, 1.0):
        with pytest.raises(whence.TargetError):
            whence.relevance(model, x, target=wrong)  # pyright: ignore[reportArgumentType]


class HalfUndefined(Layered):
    """A second score that may not be a number."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([super().forward(x)[:, 0], torch.log(x[:, 0, 0] + 1)], -1)


def test_a_score_that_is_not_a_number_is_refused_also_if_another_is_explained() -> None:
    model, x = made(HalfUndefined), torch.rand(B, T, E).double()
    explained_before(model, x, target=0)
    x[1, 0, 0] = -5
    with pytest.raises(whence.TargetError, match="returned nan"):
        whence.relevance(model, x, target=0)


class Indexed(Layered):
    """Steps, some of them constants, picked and ordered by indexes that the model holds."""

    picked: Tensor
    order: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("picked", torch.tensor([5, 5, 6]))
        self.register_buffer("order", torch.arange(B))

    def forward(self, x: Tensor) -> Tensor:
        torch.zeros(B, T, dtype=x.dtype).index_copy(1, self.picked % T, x[:, :3, 0])
        chosen = torch.cat([x, torch.ones(B, 3, E, dtype=x.dtype)], 1).index_select(1, self.picked)
        return super().forward(x[self.order])[self.order.argsort()] + chosen.sum(1)[:, :C]


def test_indexes_that_the_model_holds_may_change() -> None:
    model, x = made(Indexed), torch.randn(B, T, E).double()
    explained_before(model, x, target=1)
    for picked, order in (([0, 1, 2], [0, 1, 2]), ([0, 1, 6], [2, 0, 1]), ([5, 5, 5], [1, 0, 2])):
        model.picked.copy_(torch.tensor(picked))
        model.order.copy_(torch.tensor(order))
        for _ in range(2):
            assert_as_new(model, x, target=1)


class Computed(nn.Module):
    """Weights that are views of parameters or computed from them."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.inner = nn.GRU(E, H, batch_first=True), nn.utils.parametrizations.weight_norm(nn.Linear(H, H))
        self.outer = nn.Parameter(torch.randn(C, H))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(torch.relu(self.inner(self.gru(x)[0][:, -1])), self.outer[:, :])


@pytest.mark.parametrize("method", [whence.LRP(head="gamma"), whence.LRP(head="alpha-beta"), whence.LRP(delta=1.0)])
def test_weights_that_are_computed_from_others(method: whence.LRP) -> None:
    model, x = made(Computed), torch.randn(B, T, E).double()
    for _ in range(3):
        whence.relevance(model, x, target=1, method=method)
    assert_as_new(model, torch.randn(B, T, E).double(), target=1, method=method)
    model.outer.data = torch.where(model.outer.detach() > 0, model.outer.detach(), 0.0)
    assert_as_new(model, x, target=1, method=method)


def test_layers_that_are_added_or_renamed() -> None:
    model, x = made(Layered), torch.randn(B, T, E).double()
    explained_before(model, x, target=1)
    model.register_buffer("extra", torch.tensor([float("nan")]))
    with pytest.raises(whence.WeightsError, match="extra"):
        whence.relevance(model, x, target=1)


def test_arguments_that_hold_the_model_do_not_keep_it_alive() -> None:
    class Called(Layered):
        def forward(self, x: Tensor, other: object = None) -> Tensor:
            return super().forward(x)

    model, x = made(Called), torch.randn(B, T, E).double()
    for _ in range(3):
        whence.relevance(model, x, target=1, args=(model,))
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


def test_a_rule_that_a_user_adds_later_holds_at_once() -> None:
    class Custom(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.Linear(E, E), nn.Linear(E, C)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.erf(self.inner(x[:, 0])))

    model, x = made(Custom), torch.randn(B, T, E).double()
    explained_before(model, x, target=1, check=False)
    before = whence.relevance(model, x, target=1, check=False).relevance
    known = TABLE["erf"]
    try:
        whence.handles(torch.erf)(lambda call, r: r * 0.5)
        after = whence.relevance(model, x, target=1, check=False).relevance
    finally:
        TABLE["erf"] = known
    assert_close(after, before / 2)


class Picking(nn.Module):
    """Indexes and a mask that are parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(E, C)
        self.order = nn.Parameter(torch.tensor([0, 1, 2]), requires_grad=False)
        self.mask = nn.Parameter(torch.tensor([True, False, True]), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x).sum(1))[:, self.order].masked_fill(self.mask, 0.0)


def test_parameters_of_whole_numbers_that_change() -> None:
    model = Picking().double()
    for order, mask in (([0, 1, 2], [1, 0, 1]),) * 3 + (([2, 0, 1], [1, 0, 1]), ([2, 0, 1], [0, 0, 1])):
        model.order.data.copy_(torch.tensor(order))
        model.mask.data.copy_(torch.tensor(mask))
        x = torch.randn(B, T, E, dtype=torch.float64)
        found, fresh = (whence.relevance(each, x, target=1) for each in (model, copy.deepcopy(model)))
        assert_close(found.relevance, fresh.relevance)
        assert_close(found.score, fresh.score)


class Attending(nn.Module):
    """Attention over states; its weights may be written to after they were used."""

    def __init__(self) -> None:
        super().__init__()
        self.states, self.query, self.head = nn.Linear(E, H), nn.Linear(E, H), nn.Linear(H, C)
        self.writes: Callable[[Tensor], object] = id

    def forward(self, x: Tensor) -> Tensor:
        states = torch.tanh(self.states(x))
        weights = torch.softmax(self.query(x) @ states.mT, -1)
        found = torch.bmm(weights, states)
        self.writes(weights)
        return self.head(found[:, -1])


def out_of_sight(weights: Tensor) -> None:
    with torch._C.DisableTorchFunction():
        weights.mul_(3)


@pytest.mark.parametrize("writes", [lambda weights: weights.mul_(3), out_of_sight])
@pytest.mark.parametrize("is_known", [False, True])
def test_weights_that_are_written_to_after_their_use(writes: Callable[[Tensor], object], is_known: bool) -> None:
    model, x = made(Attending), torch.randn(B, T, E).double()
    expected = whence.relevance(copy.deepcopy(model), x, target=0)
    if is_known:
        explained_before(model, x, target=0)
    model.writes = writes
    for _ in range(3):
        assert_close(whence.relevance(model, x, target=0).relevance, expected.relevance)


def runs_alive() -> int:
    gc.collect()
    return sum(type(each).__name__ == "ModelRun" for each in gc.get_objects())


class PartsActivated(Layered):
    """Writes over parts of its states one by one, so that it runs again with copies."""

    def forward(self, x: Tensor) -> Tensor:
        states = self.lstm(x)[0]
        states[:, 0].tanh_()
        states[:, 1].sigmoid_()
        return self.head(states.sum(1))


class WithoutGradients(Layered):
    """Computes a part of its scores under no_grad."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            doubled = x * 2
            last = self.lstm(doubled)[0][:, -1]
        return self.head(last) + self.head(self.lstm(x)[0].mean(1))


@pytest.mark.parametrize("name", [*ZOO, *PUBLISHED, "parts", "no_grad"])
def test_nothing_of_a_run_is_left(name: str) -> None:
    if name in ("parts", "no_grad"):
        model, inputs = made(PartsActivated if name == "parts" else WithoutGradients), torch.randn(B, T, E).double()
    else:
        torch.manual_seed(1)
        model = (ZOO.get(name) or PUBLISHED[name])(4, 4, 3).double().eval()
        inputs = torch.randn(3, 5, 4, dtype=torch.float64)
    before = runs_alive()
    for target in (0, "all"):
        whence.relevance(model, inputs, target=target, method=whence.LRP(delta=0.5), check=False)
    assert runs_alive() == before
