"""A model as it predicts, and afterwards everything as it was: training modes and PyTorch's own switches, whatever happens.

An interrupt (Ctrl-C) can come between any two lines, also inside PyTorch's context managers, which then leave a switch turned.
So nothing is changed outside the `try`, and restoring is tried twice, each time what is left: one interrupt cannot stop both.
"""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from traceback import clear_frames
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

# Modules out of training mode for now, and the explanations that need it; in several threads the last one sets them back.
_LOCK = threading.RLock()
_HELD: WeakKeyDictionary[nn.Module, set[object]] = WeakKeyDictionary()


class Switches(NamedTuple):
    """What PyTorch's context managers change in this thread."""

    grad: bool
    modes: list[TorchFunctionMode]

    @staticmethod
    def now() -> "Switches":
        """The switches as they stand."""
        return Switches(torch.is_grad_enabled(), _get_current_function_mode_stack())

    def restore(self) -> None:
        """Set the switches back to these."""
        while (modes := _get_current_function_mode_stack()) != self.modes[: len(modes)]:
            torch._C._pop_torch_function_stack()
        for mode in self.modes[len(modes) :]:
            torch._C._push_on_torch_function_stack(mode)
        torch._C._set_grad_enabled(self.grad)


def _leave_vmap() -> None:
    """Leave the vmap that a derivative of several targets at once was interrupted in; nobody can call us from inside one."""
    while torch._C._vmapmode_increment_nesting() > 1:  # entering it tells how deep it is
        torch._C._vmapmode_decrement_nesting()
        torch._C._vmapmode_decrement_nesting()
    torch._C._vmapmode_decrement_nesting()


@contextmanager
def predicting(model: nn.Module) -> Generator[None]:
    """The model as it predicts, not as it trains; every layer's own mode comes back afterwards, whatever happens."""
    modules, token, switches, is_restored = list(model.modules()), object(), Switches.now(), False
    try:
        try:
            _hold(modules, token)
            with torch.inference_mode(False):
                yield
        except (KeyboardInterrupt, RuntimeError) as error:
            interrupt = _interrupt_in(error)
            if interrupt is None:
                raise
            clear_frames(interrupt.__traceback__)  # what PyTorch still had to put back, it puts back now and not after us
            _leave_vmap()
            raise interrupt from None
        finally:
            _restore(modules, token, switches)
            is_restored = True
    finally:
        if not is_restored:
            _restore(modules, token, switches)


def _interrupt_in(error: BaseException) -> BaseException | None:
    """The interrupt that an error is, or over whose leftovers PyTorch's clearing up failed."""
    found = error if isinstance(error, KeyboardInterrupt) else error.__context__
    return found if isinstance(found, KeyboardInterrupt) else None


def _restore(modules: Sequence[nn.Module], token: object, switches: Switches) -> None:
    _let_go(modules, token)
    switches.restore()
    while _LOCK._is_owned():  # pyright: ignore - an interrupt can come before the lock is given back
        _LOCK.release()


def _hold(modules: Sequence[nn.Module], token: object) -> None:
    """Take modules out of training mode on behalf of `token`."""
    with _LOCK:
        for module in modules:
            if module.training or module in _HELD:
                _HELD.setdefault(module, set()).add(token)
                module.training = False


def _let_go(modules: Sequence[nn.Module], token: object) -> None:
    """Put back into training mode what nobody else holds."""
    with _LOCK:
        for module in modules:
            holders = _HELD.get(module)
            if holders is not None:
                holders.discard(token)
                if not holders:
                    module.training = True
                    del _HELD[module]
