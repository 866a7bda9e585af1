"""Products: which factor is the gate and which the source, decided by the call that made each factor, or by the user."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, overrides

from whence.equations import Product, product, product_all
from whence.errors import InputError
from whence.interpreter.record.refusal import NoRule
from whence.interpreter.record.step import Arguments, Arriving, Backward, Operand, Rule, Step, Value
from whence.interpreter.rules import sums, weighted
from whence.interpreter.rules.routing import Routing


class GatedProduct(Rule):
    """gate ⊙ source: the paper's rule gives all relevance to the source, the other rules give a part to each factor."""

    multiplies = combines = True

    def is_gate(self, step: Step) -> bool:
        return all(not isinstance(factor, Value) or factor.is_gate for factor in step.arguments[0][:2])

    def receivers(self, step: Step) -> Sequence[Value]:
        factors = step.arguments[0][:2] if step.product != "all" else [source_of(*step.arguments[0][:2])]
        return [factor for factor in factors if isinstance(factor, Value) and factor.is_live]

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        r = arriving[0].r
        if step.product == "all":
            self._give(step, source_of(*step.arguments[0][:2]), product_all(r), back)
            return
        a, b = step.arguments[0][:2]
        tensors = [
            factor.tensor if isinstance(factor, Value) else torch.as_tensor(factor, device=r.device).to(r) for factor in (a, b)
        ]
        parts = product(tensors[0], tensors[1], r_out=r, rules=back.rules)
        for factor, part in zip((a, b), parts, strict=True):
            self._give(step, factor, part, back)
        if back.rules.product == "prop" and back.rules.returned != 1:
            back.absorb(step, "stabiliser", r - parts[0] - parts[1], step.outputs[0])

    def _give(self, step: Step, factor: Operand, r: Tensor, back: Backward) -> None:
        if isinstance(factor, Value) and factor.is_live:
            back.deliver(step, factor, r=sums.reduced(r, factor.tensor.shape))
        else:
            back.absorb(step, "constant", r, step.outputs[0])


def source_of(a: Operand, b: Operand) -> Operand:
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
PRODUCT = GatedProduct()


def multiplication(arguments: Arguments, is_trained: Callable[[object], bool], product: Product) -> Rule:
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


def division(arguments: Arguments, is_trained: Callable[[object], bool], product: Product) -> Rule:
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
    """Mark a tensor as the gate of the products it is used in. It is returned unchanged, so the model computes the same.

    Use it for a gate that is not recognised, because it is not the result of a sigmoid or softmax:

        state = whence.gate(torch.exp(step * a)) * state + whence.gate(step * b) * x
    """
    if not isinstance(tensor, Tensor):
        raise InputError(f"whence.gate marks a tensor, not a {type(tensor).__name__}")
    if overrides.has_torch_function_unary(tensor):
        return overrides.handle_torch_function(gate, (tensor,), tensor)
    return tensor


def matrix_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b as elementwise products and sums, for rules that give relevance to both factors."""
    rows, columns = a if a.dim() > 1 else a[None], b if b.dim() > 1 else b[:, None]
    found = (rows.unsqueeze(-1) * columns.unsqueeze(-3)).sum(-2)
    found = found if b.dim() > 1 else found.squeeze(-1)
    return found if a.dim() > 1 else found.squeeze(-1 if b.dim() == 1 else -2)


def einsum_product(equation: str, *operands: Tensor | Sequence[Tensor]) -> Tensor:
    """An einsum of two operands as elementwise products and sums."""
    factors = cast(Sequence[Tensor], operands[0] if len(operands) == 1 else operands)
    if len(factors) != 2:
        raise NoRule(f"an einsum of {len(factors)} operands is not one product; write it as products of two")
    a, b = factors
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


def quotient(a: Tensor | float, b: Tensor, *, rounding_mode: str | None = None) -> Tensor:
    """a / b as a product with 1 / b."""
    if rounding_mode is not None:
        raise NoRule("it rounds")
    return b.reciprocal() * a


def quotient_apart(live: Sequence[bool], product: Product) -> Callable[..., Tensor] | None:
    """Splits a division by a live tensor into a product with its reciprocal."""
    return quotient if list(live[1:2]) == [True] else None


def turned_matrix_product(a: Tensor, b: Tensor) -> Tensor:
    """b @ a, as `Tensor.__rmatmul__` is called."""
    return matrix_product(b, a)


def matrix_product_apart(live: Sequence[bool], product: Product) -> Callable[..., Tensor] | None:
    """Splits a matrix product of two live factors, if both get relevance."""
    return matrix_product if product != "all" and list(live).count(True) > 1 else None


def turned_matrix_product_apart(live: Sequence[bool], product: Product) -> Callable[..., Tensor] | None:
    """The same for `Tensor.__rmatmul__`, which gets its right factor first."""
    return turned_matrix_product if matrix_product_apart(live, product) else None


def einsum_apart(live: Sequence[bool], product: Product) -> Callable[..., Tensor] | None:
    """The same for an einsum."""
    return einsum_product if matrix_product_apart(live, product) else None
