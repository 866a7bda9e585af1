"""The registry of methods: every entry is a method that says what it is, and a name is as good as a value."""

from dataclasses import is_dataclass

import pytest
import torch
from torch import nn

import whence
from whence.methods.forward import Forward
from whence.methods.inputs import read
from whence.methods.method import Method, Question
from whence.methods.registry import METHODS, method_class, settings_of


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
