"""Functions that call a model, which Captum takes in its place: as a module that holds the layers they use."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from whence.errors import InputError


class Called(nn.Module):
    """A function of the user's as a module, which holds the modules that the function uses."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function
        for name, module in _used_by(function).items():
            self.add_module(name, module)

    def forward(self, *inputs: object) -> object:
        """Call the function."""
        return self._function(*inputs)


def module_of(model: object) -> nn.Module:
    """A module as it is, a function as a module."""
    if isinstance(model, nn.Module):
        return model
    if not callable(model):
        raise InputError(f"model is a {type(model).__name__}; give a torch.nn.Module, or a function that calls one")
    return Called(model)


def _used_by(function: object) -> dict[str, nn.Module]:
    """The modules that a function refers to by a name of its own: variables around it, or attributes of its object."""
    if isinstance(function, partial):
        given = {f"argument_{n}": each for n, each in enumerate(function.args)} | function.keywords
        return _modules({**_used_by(function.func), **given})
    if inspect.ismethod(function):
        owner = function.__self__
        held = {"model": owner} if isinstance(owner, nn.Module) else getattr(owner, "__dict__", {})
        return _modules({**_used_by(function.__func__), **held})
    if not inspect.isfunction(function):
        return _modules(getattr(function, "__dict__", {}))
    around = inspect.getclosurevars(function)
    return _modules({**around.globals, **around.nonlocals})


def _modules(found: Mapping[str, object]) -> dict[str, nn.Module]:
    return {name.replace(".", "_"): each for name, each in found.items() if isinstance(each, nn.Module)}
