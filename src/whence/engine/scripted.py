"""Scripted modules and functions (torch.jit), whose calls cannot be followed."""

from types import FunctionType

import torch
from torch import nn
from torch.jit import _state

from whence.engine.held import ModelParts
from whence.engine.refusal import BY_DERIVATIVES
from whence.errors import NoRuleError

WAY_OUT = "run Python with PYTORCH_JIT=0, which switches scripting off, give the module it was made from, or " + BY_DERIVATIVES


def require_python(parts: ModelParts) -> None:
    """Refuse a model that is scripted, or calls a scripted function, and say what to do."""
    for name, module in parts.layers:
        if isinstance(module, torch.jit.ScriptModule) and _state._enabled:
            raise NoRuleError(f"{name or 'the model'!r} is a scripted module, whose calls cannot be followed; {WAY_OUT}")
        scripted = scripted_function(module)
        if scripted:
            raise NoRuleError(
                f"{name or 'the model'!r} calls the scripted function {scripted!r}, which cannot be followed; {WAY_OUT}"
            )


def scripted_function(module: nn.Module) -> str | None:
    """The name of a scripted function that a module holds, or that its forward calls directly or through others."""
    seen: set[int] = set()
    held = [(name, thing) for name, thing in vars(module).items() if callable(thing)]
    waiting: list[tuple[str, object]] = [*held, ("forward", type(module).forward)]
    while waiting:
        name, thing = waiting.pop()
        if isinstance(thing, torch.jit.ScriptFunction):
            return name
        if isinstance(thing, FunctionType) and id(thing) not in seen and not str(thing.__module__).startswith("torch."):
            seen.add(id(thing))
            waiting += [(used, thing.__globals__.get(used)) for used in thing.__code__.co_names]
            waiting += zip(thing.__code__.co_freevars, _contents(thing), strict=True)
    return None


def _contents(function: FunctionType) -> list[object]:
    """What a function's closure holds, None for what is not set yet."""
    found: list[object] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found
