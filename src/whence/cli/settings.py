"""Methods with settings, as they are written in a command."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from whence.errors import InputError
from whence.methods.registry import METHODS

if TYPE_CHECKING:
    from whence.methods.method import Method
    from whence.methods.target import Contrast


def value_of(written: str) -> object:
    """What a setting's value says: true or false, a number where it reads as one, or a text."""
    if written.lower() in ("true", "false"):
        return written.lower() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(written)
    return written


def method_with(name: str, settings: Mapping[str, object]) -> "Method":
    """A method with those of the settings that it has."""
    from whence.methods.registry import method_class, settings_of

    return method_class(name)(**{key: value for key, value in settings.items() if key in settings_of(name)})


def method_name(given: str) -> str:
    """The name of a method that may have settings in brackets."""
    name = given.partition("(")[0].strip()
    if name not in METHODS:
        raise InputError(f"--method {given}: there is no such method; there are {', '.join(METHODS)}")
    return name


def method_written(given: str, others: Mapping[str, object] | None = None) -> "Method":
    """A method by name, with settings in brackets if there are any: lrp, lrp(delta=1). `others` are used for the rest."""
    from whence.methods.registry import settings_of

    name = method_name(given)
    _, bracket, rest = given.strip().partition("(")
    if bracket and not rest.endswith(")"):
        raise InputError(f"--method {given}: the bracket is not closed; write 'lrp(delta=1)'")
    pairs = [each.partition("=") for each in rest[:-1].split(",") if each.strip()] if bracket else []
    settings = {key.strip(): value_of(value.strip()) for key, _, value in pairs}
    unknown = [key for key in settings if key not in settings_of(name)]
    if unknown or any(not sign for _, sign, _ in pairs):
        raise InputError(f"--method {given}: {name} has the settings {', '.join(settings_of(name))}; write 'lrp(delta=1)'")
    return method_with(name, {**(others or {}), **settings})


def target_written(target: str, versus: str | None, classes: "Sequence[str]") -> "str | int | Contrast":
    """The target that --target and --versus name."""
    from whence.methods.target import contrast

    def named(given: str) -> str | int:
        is_number = re.fullmatch(r"-?[0-9]{1,9}", given) is not None and given not in classes
        return int(given) if is_number else given

    return named(target) if versus is None else contrast(named(target), named(versus))
