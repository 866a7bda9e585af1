"""The dotted name of the running layer, found with PyTorch's global module hooks, which are set for one call only."""

import threading
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import cast

from torch import nn
from torch.nn.modules import module as hooking

from whence.engine.held import ModelParts

Hooks = dict[int, object]


class Layers:
    """A stack of the running layers' names: the last of `running` is the innermost one, "" the model itself."""

    def __init__(self, parts: ModelParts, *, kept: str | None = None) -> None:
        self.outputs: list[object] = []  # what the layer named `kept` returned, call by call, as `snapshot` notes it
        self.snapshot: Callable[[object], tuple[object, object]] | None = None
        known = parts.layers
        self._kept = None if kept is None else next((module for name, module in known if name == kept), None)
        # a compiled layer holds the original under this name
        self._names = {id(module): name.replace("._orig_mod", "") for name, module in known}
        self.running: list[str] = [""]
        self._thread = threading.get_ident()
        self._is_compiled = any(type(module).__name__ == "OptimizedModule" for _, module in known)

    @contextmanager
    def watched(self) -> Generator[None]:
        """Follow the model's layers in this thread for as long as the context lasts."""
        with warnings.catch_warnings() if self._is_compiled else nullcontext():
            if self._is_compiled:  # PyTorch warns that hooks see a compiled layer twice, which does no harm here
                warnings.filterwarnings("ignore", message=".*when there are global hooks on modules")
            yield from self._hooked()

    def _hooked(self) -> Generator[None]:
        try:
            try:
                hooking.register_module_forward_pre_hook(self._enter)
                hooking.register_module_forward_hook(self._leave, always_call=True)
                if self._kept is not None:
                    self._kept.register_forward_hook(self._keep)
                yield
            finally:
                self._unhook()
        finally:  # an interrupt may have stopped the first attempt
            self._unhook()

    def _unhook(self) -> None:
        """Remove the hooks of this run, found by the functions they call: an interrupt can come before a handle is kept."""
        kept = [] if self._kept is None else [cast(Hooks, self._kept._forward_hooks)]
        everywhere = cast(tuple[Hooks, Hooks], (hooking._global_forward_pre_hooks, hooking._global_forward_hooks))
        for hooks in (*everywhere, *kept):
            for key in [key for key, hook in list(hooks.items()) if hook in (self._enter, self._leave, self._keep)]:
                hooking._global_forward_hooks_always_called.pop(key, None)
                hooks.pop(key, None)

    def _enter(self, module: nn.Module, args: object) -> None:
        if threading.get_ident() == self._thread:
            self.running.append(self._names.get(id(module), self.running[-1]))

    def _leave(self, module: nn.Module, args: object, result: object) -> None:
        if threading.get_ident() == self._thread:
            self.running.pop()

    def _keep(self, module: nn.Module, args: object, result: object) -> object:
        if threading.get_ident() != self._thread or self.snapshot is None:
            return None
        result, noted = self.snapshot(result)
        self.outputs.append(noted)
        return result
