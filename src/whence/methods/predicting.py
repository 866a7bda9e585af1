"""Puts a model in evaluation mode, and restores everything afterwards: training modes, state, and PyTorch's own switches.

An interrupt (Ctrl-C) can come between any two lines, also inside PyTorch's context managers, which then do not restore a
switch. So nothing is changed outside the `try`, and restoring is tried twice: one interrupt cannot stop both.
"""

import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from traceback import clear_frames
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch._C._functorch import maybe_current_level
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from whence.engine.held import ModelParts
from whence.errors import InputError
from whence.methods.state import State

# Modules taken out of training mode, each with the explanations that need this; in several threads, the last one restores it.
_LOCK = threading.RLock()
_HELD: WeakKeyDictionary[nn.Module, set[object]] = WeakKeyDictionary()
# What models were before they were explained, while they are.
_STATES: WeakKeyDictionary[nn.Module, State] = WeakKeyDictionary()
# The explanations during which nothing is compiled, and what PyTorch did before the first of them.
_EAGER: set[object] = set()
_STANCE: list[Any] = []


INSIDE = "an explanation was asked for inside {}, where a model cannot be followed; ask for it outside"


def require_outside_of_func() -> None:
    """Refuse to explain inside of torch.func's transforms."""
    if maybe_current_level() is not None:
        raise InputError(INSIDE.format("torch.func's vmap, grad or jvp"))


class Switches(NamedTuple):
    """What PyTorch's context managers change in this thread."""

    grad: bool
    modes: list[TorchFunctionMode]

    @staticmethod
    def now() -> "Switches":
        """The current switches."""
        return Switches(torch.is_grad_enabled(), _get_current_function_mode_stack())

    def restore(self) -> None:
        """Set the switches back to these."""
        while (modes := _get_current_function_mode_stack()) != self.modes[: len(modes)]:
            torch._C._pop_torch_function_stack()
        for mode in self.modes[len(modes) :]:
            torch._C._push_on_torch_function_stack(mode)
        torch._C._set_grad_enabled(self.grad)


def _leave_vmap() -> None:
    """Leave the vmap in which a derivative of several targets was interrupted; whence is never called inside a vmap."""
    while torch._C._vmapmode_increment_nesting() > 1:  # entering it returns the depth
        torch._C._vmapmode_decrement_nesting()
        torch._C._vmapmode_decrement_nesting()
    torch._C._vmapmode_decrement_nesting()


@contextmanager
def predicting(parts: ModelParts) -> Generator[State]:
    """The model in evaluation mode; its modes, attributes and buffers are restored afterwards, whatever happens."""
    modules = [layer for _, layer in parts.layers]
    token, switches, is_restored = object(), Switches.now(), False
    state: State | None = None
    try:
        try:
            state = _joined(parts.model, modules, token)
            _hold(modules, token)
            with torch.inference_mode(False):
                yield state
        except (KeyboardInterrupt, RuntimeError) as error:
            interrupt = _interrupt_in(error)
            if interrupt is None:
                raise
            clear_frames(interrupt.__traceback__)  # PyTorch's context managers restore their state now, before we do
            _leave_vmap()
            raise interrupt from None
        finally:
            _restore(parts.model, modules, token, switches, state)
            is_restored = True
    finally:
        if not is_restored:
            _restore(parts.model, modules, token, switches, state)


@contextmanager
def alone(model: nn.Module) -> Generator[None]:
    """A run of the model, while no other thread runs it; where others explain it, too, from the state before all."""
    state = _STATES.get(model)
    if state is None:
        yield
        return
    with state.turn:
        if state.is_shared:
            state.restore()
        yield


def _joined(model: nn.Module, modules: Sequence[nn.Module], token: object) -> State:
    """The state of a model: as it is, or as it was before other threads began to explain it."""
    own = threading.get_ident()
    with _LOCK:
        state = _STATES.get(model)
        if state is not None and own in state.threads.values():  # one explanation inside another
            return State(modules)
        if state is None:
            state = _STATES[model] = State(modules)
        else:
            state.is_shared = True
        state.threads[token] = own
        return state


def _interrupt_in(error: BaseException) -> BaseException | None:
    """The interrupt that an error is, or that made PyTorch's clean-up fail with this error."""
    found = error if isinstance(error, KeyboardInterrupt) else error.__context__
    return found if isinstance(found, KeyboardInterrupt) else None


def _restore(model: nn.Module, modules: Sequence[nn.Module], token: object, switches: Switches, state: State | None) -> None:
    _let_go(modules, token)
    switches.restore()
    with _LOCK:
        shared = _STATES.get(model)
        if state is not None and state is not shared:
            state.restore()
        if shared is not None:
            shared.threads.pop(token, None)
            if not shared.threads:
                shared.restore()
                del _STATES[model]
    for lock in (_LOCK, *(() if state is None else (state.turn,))):  # an interrupt can come before a lock is released
        while lock._is_owned():  # pyright: ignore[reportAttributeAccessIssue]
            lock.release()


def _hold(modules: Sequence[nn.Module], token: object) -> None:
    """Take modules out of training mode on behalf of `token`, and let compiled parts of a model run as they were written."""
    with _LOCK:
        if "torch._dynamo" in sys.modules:  # only then can anything be compiled
            if not _EAGER:
                try:
                    _STANCE.append(torch.compiler.set_stance("force_eager"))
                except RuntimeError:
                    raise InputError(INSIDE.format("a function that torch.compile compiles")) from None
            _EAGER.add(token)
        for module in modules:
            if module.training or module in _HELD:
                _HELD.setdefault(module, set()).add(token)
                module.training = False


def _let_go(modules: Sequence[nn.Module], token: object) -> None:
    """Put modules back into training mode, unless another explanation still holds them."""
    with _LOCK:
        _EAGER.discard(token)
        while _STANCE and not _EAGER:
            _STANCE.pop().__exit__(None, None, None)
        for module in modules:
            holders = _HELD.get(module)
            if holders is not None:
                holders.discard(token)
                if not holders:
                    module.training = True
                    del _HELD[module]
