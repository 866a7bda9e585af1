"""The registry of methods: every entry is a method that says what it is, and a name is as good as a value."""

from dataclasses import is_dataclass

import pytest
import torch
from torch import Tensor, nn

import whence
from whence import relevance
from whence.methods.forward import Forward
from whence.methods.inputs import read
from whence.methods.method import Method, Question
from whence.methods.registry import METHODS, method_class, method_of, settings_of
from whence.methods.runs import BEFORE_RUN


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_is(name: str) -> None:
    found = method_class(name)
    assert issubclass(found, Method) and is_dataclass(found), f"{METHODS[name]} is no frozen dataclass that subclasses Method"
    assert getattr(found, "name", None) == name, f"{METHODS[name]}.name is not {name!r}, its name in METHODS"
    assert getattr(found, "label", None), f"{METHODS[name]} has no label, by which people know it"
    assert found.answers <= {"direction", "at", "memory"}
    assert found() == found() and hash(found()) == hash(found())
    assert list(found().settings()) == settings_of(name)


@pytest.mark.parametrize("name", METHODS)
def test_a_name_stands_for_the_method_with_its_default_settings(name: str) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double(), torch.randn(2, 3).double()
    found = whence.relevance(model, x, target=1, method=name)
    assert found.method == method_class(name)()
    assert torch.equal(found.relevance, whence.relevance(model, x, target=1, method=method_class(name)()).relevance)


def test_a_method_is_held_to_what_it_says() -> None:
    class Nothing(Method):
        name = label = "nothing"

        def relevance(self, forward: Forward, question: Question) -> whence.Result:
            return None  # pyright: ignore[reportReturnType]

    for direction in (0, 1):
        with pytest.raises(whence.InputError, match="Nothing does not keep the directions apart"):
            Nothing().answer(Forward(nn.Linear(3, 2), read(torch.randn(2, 3))), Question(0, direction=direction))
    with pytest.raises(whence.InputError, match=r"Nothing.relevance returned a NoneType; it must return a whence.Result"):
        whence.relevance(nn.Linear(3, 2), torch.randn(2, 3), target=0, method=Nothing())


def test_a_method_without_relevance_is_told_what_it_lacks() -> None:
    class Empty(Method):
        name = label = "empty"

    with pytest.raises(NotImplementedError, match=r"Empty does not implement relevance\(forward, question\)"):
        whence.relevance(nn.Linear(3, 2), torch.randn(2, 3), target=0, method=Empty())


RUN: list[int] = []  # the steps of every run of `Counting`; outside of it, because an explanation leaves a model as it was


class Counting(nn.Module):
    """Counts the steps that it runs over."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.out = nn.RNN(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        RUN.append(x.shape[0] * x.shape[1])
        return self.out(self.rnn(x)[0][:, -1])


@pytest.mark.parametrize("name", METHODS)
def test_work_is_about_what_the_model_runs(name: str) -> None:
    torch.manual_seed(0)
    model, x = Counting(), torch.randn(1, 30, 3)
    RUN.clear()
    relevance(model, x, target=0, method=name)
    parts = {"ig": 3, "smoothgrad": 3}.get(name, 1)  # a forward and a backward pass, which takes twice as long
    expected = method_of(name).work(30) / parts
    if name == "cd":  # it computes with phrases, not by running the model
        assert expected == 3 * 30 * 30
    else:
        assert 0.9 * expected <= sum(RUN) <= expected + 30 * 30


@pytest.mark.parametrize("name", METHODS)
def test_a_method_adds_up_if_it_says_so(name: str) -> None:
    torch.manual_seed(0)
    model, x = Counting(), torch.randn(2, 5, 3)
    result = relevance(model, x, target=0, method=name)
    assert method_of(name).adds_up == (result.explained is not None)
    if method_of(name).adds_up:
        result.check()


def test_a_method_stops_between_two_runs() -> None:
    model, x, calls = Counting(), torch.randn(1, 30, 3), list[int]()

    def stop() -> None:
        calls.append(len(RUN))
        if len(calls) > 3:
            raise KeyboardInterrupt

    token = BEFORE_RUN.set(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            relevance(model, x, target=0, method="shapley")
    finally:
        BEFORE_RUN.reset(token)
    assert len(calls) == 4
