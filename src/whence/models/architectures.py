"""How a saved module is built again: from settings in config.json, or by the user, who gives the module at loading."""

import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import nn

from whence.errors import ModelError
from whence.models.saved import fill_weights, load_weights, refusing
from whence.quoting import quoted

OWN = "own"  # the kind of a module that only its user can build

# Modules that are built from their settings: the kind in config.json, and where the class is. Such a class has `settings()`,
# plain data for JSON, and a class method `built(settings)` that checks them and makes the same module with any weights.
BUILT = {"keras": ("whence.imports.keras", "KerasModule"), "onnx": ("whence.imports.onnx.module", "OnnxModule")}


class BuiltModule(Protocol):
    """A class whose modules are built from settings."""

    def settings(self) -> dict[str, Any]:
        """The module's settings, as plain data for JSON."""
        ...

    @classmethod
    def built(cls, settings: Mapping[str, Any]) -> nn.Module:
        """The module with these settings; raises if they are not right."""
        ...


def architecture_of(module: nn.Module) -> dict[str, Any]:
    """What config.json says about a module: its kind with its settings, or that it is the user's own, and its class."""
    for kind, (home, name) in BUILT.items():
        if home in sys.modules and type(module) is getattr(sys.modules[home], name, None):
            return {**cast(BuiltModule, module).settings(), "kind": kind}
    return {"kind": OWN, "class": type(module).__name__}


def restored(folder: Path, architecture: Mapping[str, Any], weights: bytes, *, given: nn.Module | None, kind: str) -> nn.Module:
    """The module that config.json describes, with the weights of the file, in evaluation mode.

    `given` is the user's module, which gets the weights; `kind` says in messages whose files these are.
    """
    path = folder / "model.safetensors"
    name = architecture.get("kind")
    if name == OWN:
        module = _given(folder, architecture, given)
        fill_weights(module, path, weights)
        return module.eval()
    require_no_module(folder, given)
    with refusing(folder / "config.json", kind=kind), torch.device("meta"):
        if name not in BUILT:
            raise ValueError(f"its module is of the kind {quoted(name)}; known are {', '.join((*BUILT, OWN))}")
        home, class_name = BUILT[cast(str, name)]
        built = cast(type[BuiltModule], getattr(import_module(home), class_name))
        module = built.built({key: each for key, each in architecture.items() if key != "kind"})
    load_weights(module, path, weights)
    left = [name for name, each in (*module.named_parameters(), *module.named_buffers()) if each.is_meta]
    if left:
        raise ModelError(f"{path} does not hold all numbers of the module: {', '.join(left[:5])}")
    return module.eval()


def require_no_module(folder: Path, given: object) -> None:
    """Refuse a module that is given although the folder says how to build its own."""
    if given is not None:
        raise ModelError(f"{folder} holds its module; leave out module=, which is for folders saved with a module of your own")


def _given(folder: Path, architecture: Mapping[str, Any], given: object) -> nn.Module:
    name = architecture.get("class")
    shown = name if isinstance(name, str) and name.isidentifier() and len(name) <= 100 else "module"
    if given is None:
        raise ModelError(
            f"{folder} holds the weights of a {shown}, a module of your own that only your code can build; "
            f"give one: whence.load(folder, module={shown}(…))"
        )
    if not isinstance(given, nn.Module):
        raise ModelError(f"module is a {type(given).__name__}; give a torch.nn.Module, the {shown} that the weights belong to")
    return given
