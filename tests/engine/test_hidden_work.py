"""What a followed run cannot see is refused, not taken for a constant; what it can see is followed."""

import io
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from whence import LRP, GradientXInput, NoRuleError, relevance

ONES = torch.ones(3, dtype=torch.float64)
X = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@torch.library.custom_op("whence_tests::squashed", mutates_args=())
def squashed(x: Tensor) -> Tensor:
    return torch.tanh(x)


@torch.library.custom_op("whence_tests::doubled", mutates_args=("x",))
def doubled(x: Tensor) -> None:
    x.mul_(2)


class Holder:
    """An object that is no module, with a function that is scripted."""

    def __init__(self) -> None:
        def scripted(x: Tensor) -> Tensor:
            return torch.tanh(x)

        self.function: Callable[[Tensor], Tensor] = torch.jit.script(scripted)


class Model(nn.Module):
    """A linear layer, something done to its result, and two scores."""

    def __init__(self, work: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.out, self.work = nn.Linear(4, 3), nn.Linear(3, 2), work

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        return self.out((self.work(h) + 0.1 * h).sum(1))


def in_a_thread(h: Tensor) -> Tensor:
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(torch.tanh(h)))
    thread.start()
    thread.join()
    return found[0]


def in_a_file(h: Tensor) -> Tensor:
    file = io.BytesIO()
    torch.save(torch.tanh(h), file)
    file.seek(0)
    return torch.load(file)


def by_a_hidden_write(h: Tensor) -> Tensor:
    y = torch.tanh(h)
    doubled(y)
    return y


def from_memory(h: Tensor) -> Tensor:
    storage = torch.tanh(h).contiguous().untyped_storage()
    return torch.tensor(np.frombuffer(bytes(storage), dtype=np.float64).copy()).view(h.shape)


HIDDEN: dict[str, Callable[[Tensor], Tensor]] = {
    "a scripted function of an object": lambda h, held=[]: (held or held.append(Holder()) or held)[0].function(h),  # type: ignore[misc, func-returns-value]
    "a custom operator": squashed,
    "a custom operator by torch.ops": lambda h: torch.ops.whence_tests.squashed(h),
    "a custom operator in place": by_a_hidden_write,
    "NumPy behind data": lambda h: torch.from_numpy(np.tanh(h.data.numpy())),
    "NumPy behind detach": lambda h: torch.from_numpy(np.tanh(h.detach().cpu().numpy())),
    "the bytes of a storage": from_memory,
    "a list of numbers": lambda h: torch.tensor(torch.tanh(h).tolist(), dtype=h.dtype),
    "another thread": in_a_thread,
    "a file": in_a_file,
    "a nested tensor": lambda h: torch.stack(list(torch.nested.nested_tensor([*h.tanh()]).unbind())),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("work", HIDDEN.values(), ids=HIDDEN.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_work_outside_the_record_is_refused(work: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    if work is from_memory and dtype != torch.float64:
        pytest.skip("the bytes are read as float64")
    model = Model(work).to(dtype)
    model(X.to(dtype))
    with pytest.raises(NoRuleError, match=r"cannot be followed|numbers leave the tensors|no rule for"):
        relevance(model, X.to(dtype), target=0)


@pytest.mark.filterwarnings("ignore")
def test_the_refusal_names_the_place() -> None:
    with pytest.raises(NoRuleError, match=r"Look at: torch.Tensor.add \(called in the model itself\) reads a tensor that no"):
        relevance(Model(in_a_thread).double(), X, target=0)
    unchecked = relevance(Model(in_a_thread).double(), X, target=0, check=False)
    assert unchecked.relevance.any()


SEEN: dict[str, Callable[[Tensor], Tensor]] = {
    "to(complex)": lambda h: h.tanh().to(torch.complex128).real,
    "type": lambda h: h.tanh().type(torch.complex128).real,
    "+ 0j": lambda h: (h.tanh() + 0j).real,
    "data": lambda h: h.tanh().data,
    "a constant of the caller's": lambda h: h.tanh() * ONES,
}


@pytest.mark.parametrize("work", SEEN.values(), ids=SEEN.keys())
def test_what_can_be_seen_is_followed(work: Callable[[Tensor], Tensor]) -> None:
    expected = relevance(Model(torch.tanh).double(), X, target=0, method=LRP(epsilon=0.0))
    found = relevance(Model(work).double(), X, target=0, method=LRP(epsilon=0.0))
    assert_close(found.relevance, expected.relevance)


def test_a_model_that_goes_by_its_numbers_is_accepted() -> None:
    """Which way it goes may change with its inputs; the followed run is compared on inputs that are close enough."""
    constant = torch.rand(3).double()  # of nobody's: the run is in doubt

    def work(h: Tensor) -> Tensor:
        return (h.tanh() if float(h.detach().mean().sign()) else h.relu()) * constant

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.out = nn.Linear(4, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            counts = (x[..., :1] * 0 + 3).long().clamp(0, 3)  # a number that is read as an index
            return self.out((self.first(x) * constant).sum(1) + self.out.weight.sum(0)[: counts.shape[-1]].sum())

    assert relevance(Counting().double(), X, target=0).relevance.any()
    with pytest.raises(NoRuleError, match="numbers leave the tensors"):
        relevance(Model(work).double(), X, target=0)


def test_a_scripted_model_is_refused_by_rules_alone() -> None:
    class Doubling(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(1) * 2

    with pytest.warns(DeprecationWarning, match="script"):
        scripted: Any = torch.jit.script(Doubling())
    with pytest.raises(NoRuleError, match=r"'the model' is a scripted module, .*PYTORCH_JIT=0"):
        relevance(scripted, X, target=0)
    assert_close(relevance(scripted, X, target=0, method=GradientXInput()).relevance[..., 0].sum(1), scripted(X)[:, 0])


class Held(nn.Module):
    """A scripted function in a list, where it is not found by looking."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.other, self.out = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 1)
        self.functions: list[Any] = []

    def add(self) -> "Held":
        self.functions.append(Holder().function)
        return self


class OneHidden(Held):
    """The second score alone depends on hidden work."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.other(x[:, 0])
        return torch.cat([self.out(h), self.out(self.functions[0](self.first(x[:, -1])) + h)], 1)


class Switched(Held):
    """Work is hidden only in one way to call it."""

    def forward(self, x: Tensor, fast: bool = False) -> Tensor:
        z = self.first(x[:, -1])
        z.tanh_()
        return self.out((self.functions[0](z) if fast else z) + self.other(x[:, 0]))


class Narrow(Held):
    """It takes no other inputs than these."""

    def forward(self, x: Tensor) -> Tensor:
        if not bool((x.abs() <= 1).all()):
            raise ValueError("inputs must be in [-1, 1]")
        return self.out(self.functions[0](self.first(x[:, -1])) + self.other(x[:, 0]))


@pytest.mark.filterwarnings("ignore")
def test_one_accepted_call_is_no_licence_for_another() -> None:
    refused = pytest.raises(NoRuleError, match="computes something that cannot be followed")
    two = OneHidden().double().add()
    relevance(two, X, target=0)
    with refused:
        relevance(two, X, target=1)
    switched = Switched().double().add()
    relevance(switched, X)
    with refused:
        relevance(switched, X, kwargs={"fast": True})
    narrow, zeros = Narrow().double().add(), X.clamp(-1, 1)
    zeros[:, -1] = 0
    relevance(narrow, zeros)  # what is hidden is zero there
    with refused:
        relevance(narrow, X.clamp(-1, 1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["thread", "scripted", "operator", "set", "NumPy"])
def test_hidden_writes_into_a_constant_are_refused(way: str) -> None:
    @torch.jit.script
    def copied(x: Tensor, out: Tensor) -> Tensor:
        return out.copy_(torch.tanh(x))

    def write(z: Tensor, out: Tensor) -> None:
        if way == "thread":
            thread = threading.Thread(target=lambda: out.copy_(torch.tanh(z)))
            thread.start()
            thread.join()
        elif way == "scripted":
            held[0](z, out)
        elif way == "operator":
            torch.ops.whence_tests.written(z, out)
        elif way == "set":
            cast(Any, out).set_(z)
        else:
            np.copyto(out.numpy(), np.from_dlpack(z.detach()))

    held: list[Any] = [copied]

    class Writing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.other, self.out = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            z = self.first(x[:, -1])
            out = torch.zeros_like(z)
            write(z, out)
            return self.out(out + self.other(x[:, 0]))

    with pytest.raises(NoRuleError, match=r"cannot be followed|in place|numbers leave|no rule"):
        relevance(Writing().double(), X)


@torch.library.custom_op("whence_tests::written", mutates_args=("out",))
def written(x: Tensor, out: Tensor) -> None:
    out.copy_(torch.tanh(x))


def test_a_tensor_that_changes_what_functions_do_is_refused() -> None:
    class Doubling(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = super().__torch_function__(func, types, args, kwargs or {})
            return found * 2 if func is torch.tanh else found

    model = Model(lambda h: torch.tanh(h.as_subclass(Doubling)).as_subclass(Tensor)).double()
    with pytest.raises(NoRuleError, match="a Doubling changes what torch functions do"):
        relevance(model, X, target=0)


def test_numbers_read_as_another_type_are_refused() -> None:
    with pytest.raises(NoRuleError, match="read as another type"):
        relevance(Model(lambda h: h.view(torch.int64).clone().view(torch.float64)).double(), X, target=0)
