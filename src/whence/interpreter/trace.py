"""The record of one forward pass: values, and the steps that made them; it knows no rule's mathematics.

A step keeps its call with every recorded tensor replaced by its `Value`, so that the same call can be made again on
stand-ins of the same shape (fan-ins, biases, sample numbers).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.equations import Product

if TYPE_CHECKING:
    from whence.interpreter.rule import Rule

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


@dataclass(eq=False, slots=True)
class Value:
    """A tensor on the record.

    `is_live`: it depends on an explained input; a value that is not live stems from constants alone (an initial state).
    `is_gate`: it opens or closes (out of a sigmoid, one minus it, or a softmax).
    `in_sum`: it is a piece of a weighted sum that may still be added to, so its relevance may arrive per unit of that sum.
    """

    tensor: Tensor
    step: "Step | None" = None
    is_live: bool = True
    is_gate: bool = False
    in_sum: bool = False


@dataclass(eq=False, slots=True)
class Step:
    """One call the module made: the rule it falls under, its arguments, and the layer that made it."""

    rule: "Rule"
    name: str
    layer: str
    function: Callable[..., Any]
    arguments: Arguments
    inputs: tuple[Value, ...] = ()
    outputs: tuple[Value, ...] = ()  # the floating-point tensors of the result
    saved: Any = None
    product: Product = "all"  # the rule that products follow
    is_trained: Callable[[Any], bool] = bool  # whether a tensor is a parameter of the model

    def again(self, stand_in: Callable[[Value], Any], constant: Callable[[Tensor], Any] | None = None) -> Any:
        """Make the call again with stand-ins for its values and, where given, for its constant float tensors."""

        def replace(leaf: Any) -> Any:
            if isinstance(leaf, Value):
                return stand_in(leaf)
            if constant is not None and isinstance(leaf, Tensor) and leaf.is_floating_point():
                return constant(leaf)
            return leaf

        args, kwargs = mapped(replace, self.arguments)
        return self.function(*args, **kwargs)


@dataclass(eq=False, slots=True)
class Trace:
    """All steps of a forward pass, in order, and the explained inputs they start from."""

    leaves: tuple[Value, ...]
    steps: list[Step] = field(default_factory=list["Step"])

    def forget(self) -> None:
        """Let go of everything at once: values know their steps and steps their values, and Python is slow to see that."""
        for step in self.steps:
            step.rule.release(step)
            step.inputs = step.outputs = ()
            step.arguments, step.saved, step.is_trained = ((), {}), None, bool
        self.steps.clear()


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """`function` applied to every leaf of nested tuples, lists and dicts, their shape kept."""
    if isinstance(tree, tuple) and not isinstance(tree, torch.Size):
        items = [mapped(function, item) for item in tree]  # pyright: ignore[reportUnknownVariableType]
        if hasattr(tree, "_fields"):
            return type(tree)(*items)
        return type(tree)(items)  # also the named results of torch.max and its like
    if isinstance(tree, list):
        return [mapped(function, item) for item in tree]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(tree, dict):
        return {key: mapped(function, item) for key, item in tree.items()}  # pyright: ignore[reportUnknownVariableType]
    return function(tree)


def leaves_of(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dicts, in order."""
    found: list[Any] = []
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(reversed(item.values()))
        elif isinstance(item, (tuple, list)) and not isinstance(item, torch.Size):
            waiting.extend(reversed(item))
        else:
            found.append(item)
    return found


def values_of(arguments: Arguments) -> tuple[Value, ...]:
    """The recorded values among a call's arguments, in order, each once."""
    return tuple(dict.fromkeys(leaf for leaf in leaves_of(arguments) if isinstance(leaf, Value)))


def tensors_of(tree: Any) -> Sequence[Tensor]:
    """The tensors in a nested structure, in order."""
    return [leaf for leaf in leaves_of(tree) if isinstance(leaf, Tensor)]
