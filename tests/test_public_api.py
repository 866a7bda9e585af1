"""What users can rely on: every public name with its parameters, and every command with its options.

`public_api.txt` beside this file lists them. A change that is meant is written there by

    python -m tests.test_public_api
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

import whence
from whence.methods.method import Method

LISTED = Path(__file__).with_name("public_api.txt")
MODULES = ("whence", "whence.captum", "whence.corpus", "whence.experiments")
RENEW = "if this is meant, run: python -m tests.test_public_api"


def parameters(function: Any) -> str:
    """A function's parameters and defaults. Types are left out: their text differs between versions of Python."""
    signature = inspect.signature(function)
    kept = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values() if each.name != "self"]
    text = str(signature.replace(parameters=kept, return_annotation=inspect.Signature.empty))
    return re.sub(r"<function .*? at 0x\w+>", "<function>", text)


def members(kind: type) -> Iterator[str]:
    """A class's constructor, and its public methods and properties, those of its bases in whence included."""
    if issubclass(kind, Exception):
        yield f"({', '.join(base.__name__ for base in kind.__bases__)})"
        return
    yield parameters(kind)
    if issubclass(kind, Method):  # what it does is asked through whence.relevance
        return
    for name in sorted({name for base in kind.__mro__ if base.__module__.startswith("whence") for name in vars(base)}):
        found = inspect.getattr_static(kind, name)
        if name.startswith("_"):
            continue
        if inspect.isfunction(found):
            yield f".{name}{parameters(found)}"
        elif isinstance(found, (classmethod, staticmethod)):
            yield f".{name}{parameters(cast(Any, found).__func__)}"
        elif isinstance(found, property):
            yield f".{name}"


def names(module: str) -> Iterator[str]:
    """The public names of a module, one line for each and its members."""
    home = import_module(module)
    for name in sorted(home.__all__):
        found: Any = getattr(home, name)
        described = members(found) if isinstance(found, type) else [parameters(found)] if callable(found) else [""]
        yield from (f"{module}.{name}{each}" for each in described)


def commands() -> Iterator[str]:
    """The commands with their arguments and options."""
    import typer

    from whence.cli.main import app

    def within(command: Any, path: str) -> Iterator[str]:
        inner: dict[str, Any] = getattr(command, "commands", {})
        if not inner:
            given = [" ".join(each.opts) if each.param_type_name == "option" else each.name for each in command.params]
            yield f"{path}: {', '.join(sorted(given))}"
        for name, each in sorted(inner.items()):
            yield from within(each, f"{path} {name}")

    yield from within(typer.main.get_command(app), "$ whence")


def public() -> list[str]:
    """All of it."""
    return [line for module in MODULES for line in names(module)] + list(commands())


def test_what_is_public_is_what_is_listed() -> None:
    pytest.importorskip("captum", reason="Captum is not installed; the dev extra has it")
    listed, found = LISTED.read_text(encoding="utf-8").splitlines(), public()
    gone = [f"- {line}" for line in listed if line not in found]
    new = [f"+ {line}" for line in found if line not in listed]
    assert listed == found, "\n".join(["what is public has changed:", *gone, *new, RENEW])


def test_every_public_name_says_what_it_is() -> None:
    bare = [name for name in whence.__all__ if not (getattr(whence, name).__doc__ or "").strip()]
    assert not bare


if __name__ == "__main__":
    LISTED.write_text("\n".join(public()) + "\n", encoding="utf-8")
