"""Products: which factor is the gate and which the source, decided by where the factors came from, or by the user's word."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

from whence.equations import Product as ProductRule
from whence.equations import product, product_all
from whence.errors import InputError
from whence.interpreter import sums, weighted
from whence.interpreter.routing import Routing
from whence.interpreter.rule import Arriving, NoRule, Rule
from whence.interpreter.trace import Arguments, Step, Value, leaves_of

if TYPE_CHECKING:
    from whence.interpreter.sweep import Sweep


class Product(Rule):
    """gate ⊙ source: by the paper's rule the source takes all the relevance, by the others each factor its part."""

    def is_gate(self, step: Step) -> bool:
        return all(not isinstance(factor, Value) or factor.is_gate for factor in step.arguments[0][:2])

    def receivers(self, step: Step) -> Sequence[Value]:
        factors = step.arguments[0][:2] if step.product != "all" else [source_of(*step.arguments[0][:2])]
        return [factor for factor in factors if isinstance(factor, Value) and factor.is_live]

    def sweep(self, step: Step, arriving: Sequence[Arriving | None], sweep: "Sweep") -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        r = arriving[0].r
        if step.product == "all":
            self._give(step, source_of(*step.arguments[0][:2]), product_all(r), sweep)
            return
        a, b = step.arguments[0][:2]
        tensors = [
            factor.tensor if isinstance(factor, Value) else torch.as_tensor(factor, device=r.device).to(r) for factor in (a, b)
        ]
        parts = product(tensors[0], tensors[1], r_out=r, rule=sweep.rule)
        for factor, part in zip((a, b), parts, strict=True):
            self._give(step, factor, part, sweep)
        if sweep.rule.product == "prop" and sweep.rule.returned != 1:
            sweep.book(step, "stabiliser", r - parts[0] - parts[1], step.outputs[0])

    def _give(self, step: Step, factor: Value | Tensor, r: Tensor, sweep: "Sweep") -> None:
        if isinstance(factor, Value) and factor.is_live:
            sweep.deliver(step, factor, r=sums.reduced(r, factor.tensor.shape))
        else:
            sweep.book(step, "constant", r, step.outputs[0])


def source_of(a: Any, b: Any) -> Value | Tensor:
    """The factor that carries the content of a product."""
    gates = [isinstance(factor, Value) and factor.is_gate for factor in (a, b)]
    if gates[0] == gates[1]:
        raise NoRule(
            "both factors are gates (each came out of a sigmoid or softmax)"
            if gates[0]
            else "neither factor is a gate (none came out of a sigmoid, one minus it, or a softmax); mark one with "
            'whence.gate(tensor), or use a product rule for both, such as LRP(product="half")'
        )
    return b if gates[0] else a


SCALE = sums.Sum(sums.scaled)
WEIGHT = weighted.Weighted(weighted.elementwise)
PRODUCT = Product()


def multiplication(arguments: Arguments, is_trained: Callable[[Any], bool], product: ProductRule) -> Rule:
    """The rule for a ⊙ b: a gate times its source, a trained weight, or a constant scale."""
    a, b = arguments[0][:2]
    live = [factor for factor in (a, b) if isinstance(factor, Value) and factor.is_live]
    if len(live) != 1:
        if product == "all" and not all(isinstance(factor, Value) and factor.is_gate for factor in (a, b)):
            source_of(a, b)
        return PRODUCT
    other = b if live[0] is a else a
    if isinstance(other, (int, float)) or (isinstance(other, Tensor) and not other.is_floating_point()):
        return SCALE
    if live[0].is_gate:
        return PRODUCT
    return WEIGHT if is_trained(other) else SCALE


DIVISION = sums.Sum(sums.divided)


def division(arguments: Arguments, is_trained: Callable[[Any], bool], product: ProductRule) -> Rule:
    """The rule for a / b: a scale, when b is constant."""
    if arguments[1].get("rounding_mode") is not None:
        raise NoRule("it rounds")
    return DIVISION


class Marked(Routing):
    """A tensor that the user says is a gate."""

    def is_gate(self, step: Step) -> bool:
        return True

    def continues_sum(self, step: Step) -> bool:
        return False


def gate(tensor: Tensor) -> Tensor:
    """Mark a tensor as the gate of the products it goes into, where that cannot be seen: the same tensor, for any model.

    state = whence.gate(torch.exp(step * a)) * state + whence.gate(step * b) * x
    """
    if not isinstance(tensor, Tensor):
        raise InputError(f"whence.gate marks a tensor, not a {type(tensor).__name__}")
    if has_torch_function_unary(tensor):
        return handle_torch_function(gate, (tensor,), tensor)
    return tensor


def matrix_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b as products and sums of single numbers, where both factors take part in the relevance."""
    rows, columns = a if a.dim() > 1 else a[None], b if b.dim() > 1 else b[:, None]
    found = (rows.unsqueeze(-1) * columns.unsqueeze(-3)).sum(-2)
    found = found if b.dim() > 1 else found.squeeze(-1)
    return found if a.dim() > 1 else found.squeeze(-1 if b.dim() == 1 else -2)


def einsum_product(equation: str, *operands: Any) -> Tensor:
    """An einsum of two operands as products and sums of single numbers."""
    operands = tuple(operands[0]) if len(operands) == 1 else operands
    if len(operands) != 2:
        raise NoRule(f"an einsum of {len(operands)} operands is not one product; write it as products of two")
    a, b = operands
    (left, right), arrow, out = (part := equation.replace(" ", "").partition("->"))[0].split(","), part[1], part[2]
    if not arrow or "." in equation or any(len(set(each)) != len(each) for each in (left, right, out)):
        raise NoRule("this equation cannot be taken apart; write out its result, each letter once per operand")
    summed = [letter for letter in dict.fromkeys(left + right) if letter not in out]
    letters = [*out, *summed]

    def aligned(tensor: Tensor, names: str) -> Tensor:
        tensor = tensor.permute([names.index(letter) for letter in letters if letter in names])
        for axis, letter in enumerate(letters):
            tensor = tensor if letter in names else tensor.unsqueeze(axis)
        return tensor

    product = aligned(a, left) * aligned(b, right)
    return product.sum(tuple(range(len(out), len(letters)))) if summed else product


def quotient(a: Any, b: Tensor, *, rounding_mode: str | None = None) -> Tensor:
    """a / b as a product with 1 / b."""
    if rounding_mode is not None:
        raise NoRule("it rounds")
    return b.reciprocal() * a


SPELLED = ("div", "divide", "true_divide", "truediv", "matmul", "mm", "bmm", "mv", "dot", "rmatmul", "einsum")


def spelled_out(
    name: str, args: Sequence[Any], value_of: Callable[[Any], Value | None], product: ProductRule
) -> Callable[..., Tensor] | None:
    """A call on two live factors as products of single numbers, where the rule for products has to see them."""
    if name not in SPELLED:
        return None
    operands = [value_of(leaf) for leaf in leaves_of(args) if isinstance(leaf, Tensor)]
    live = [operand is not None and operand.is_live for operand in operands]
    if name in ("div", "divide", "true_divide", "truediv") and live[1:2] == [True]:
        return quotient
    if product == "all" or live.count(True) < 2:
        return None
    if name in ("matmul", "mm", "bmm", "mv", "dot"):
        return matrix_product
    if name == "rmatmul":
        return lambda a, b: matrix_product(b, a)
    return einsum_product if name == "einsum" else None
