"""The methods by name: the one list that library, command, rendering and experiments use. It does not import PyTorch."""

from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from whence.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from whence.methods.method import Method

# Where each method lives; it is imported when it is first needed.
METHODS = {
    "lrp": "whence.methods.lrp.LRP",
    "sa": "whence.methods.sensitivity.SensitivityAnalysis",
    "gi": "whence.methods.gradient_input.GradientXInput",
    "ig": "whence.methods.integrated.IntegratedGradients",
    "occlusion": "whence.methods.occlusion.Occlusion",
    "smoothgrad": "whence.methods.smoothgrad.SmoothGrad",
    "shapley": "whence.methods.shapley.Shapley",
    "cd": "whence.methods.decomposition.ContextualDecomposition",
    "random": "whence.methods.random_relevance.Random",
}


def method_class(name: str) -> "type[Method]":
    """The method of that name."""
    module, _, found = METHODS[name].rpartition(".")
    return getattr(import_module(module), found)


def settings_of(name: str) -> list[str]:
    """The names of a method's settings."""
    return [each.name for each in fields(cast("type[DataclassInstance]", method_class(name)))]


@cache
def _default(name: str) -> "Method":
    return method_class(name)()


def method_of(given: object) -> "Method":
    """The method that was given: a value, a name (with default settings), or nothing, which means LRP."""
    from whence.methods.method import Method

    if given is None or (isinstance(given, str) and given in METHODS):
        return _default(given or "lrp")
    if isinstance(given, Method):
        return given
    raise InputError(
        f"method is {given!r}; give a method with its settings, such as method=whence.LRP(), or one of {', '.join(METHODS)}"
    )
