"""Products: which factor is the gate and which the source, decided by the call that made each factor, or by the user."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, overrides

from whence.choice import Choice
from whence.equations import Product, product, product_all, product_half
from whence.errors import InputError
from whence.interpreter.record.held import Held
from whence.interpreter.record.refusal import NoRule
from whence.interpreter.record.step import (
    MARKED,
    NORMALISER,
    POSITIVE,
    SQUASHED,
    Arguments,
    Arriving,
    Backward,
    Gate,
    Operand,
    Rule,
    Step,
    Value,
    common_gate,
    common_log,
)
from whence.interpreter.rules import sums, weighted
from whence.interpreter.rules.routing import Routing
from whence.interpreter.rules.sources import chosen_gate, sources_of


class GatedProduct(Rule):
    """gate ⊙ source: the paper's rule gives all relevance to the source, the other rules give a part to each factor.

    Under the paper's rule, two sources (or two gates of one rank) get a half each.
    """

    multiplies = combines = True

    def gate_of(self, step: Step) -> Gate | None:
        factors = [factor for factor in step.arguments[0][:2] if isinstance(factor, Value)]
        gate = common_gate(factors)
        if gate is not None and {factor.rank for factor in factors} == {NORMALISER, POSITIVE}:
            return gate._replace(rank=SQUASHED)  # exp(a) / Σ exp(a), a softmax by hand
        return gate

    def is_finite(self, step: Step) -> bool:
        return step.has_finite_constants()

    def receivers(self, step: Step) -> Sequence[Value]:
        factors = step.arguments[0][:2] if step.product != "all" else sources_of(*step.arguments[0][:2])
        return [factor for factor in factors if isinstance(factor, Value) and factor.is_live]

    def choice(self, step: Step) -> Choice | None:
        return None if step.product != "all" else chosen_gate(step, step.arguments[0][:2])

    def reads(self, step: Step) -> Sequence[Value]:
        return () if step.product == "all" else super().reads(step)

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        r, (a, b) = arriving[0].r, step.arguments[0][:2]
        if step.product == "all":
            sources = sources_of(a, b)
            parts = (product_all(r),) if len(sources) == 1 else product_half(r)
            for source, part in zip(sources, parts, strict=True):
                self._give(step, source, part, back)
            return
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


class LogProduct(GatedProduct):
    """log a + log b: relevance is that of the product a · b, and goes to the factors as in one; numbers beside them scale."""

    multiplies = combines = False

    def gate_of(self, step: Step) -> Gate | None:
        return None

    def log_of(self, step: Step) -> int | None:
        return common_log(step.inputs)

    def receivers(self, step: Step) -> Sequence[Value]:
        return [value for value in step.inputs if value.is_live] if step.product != "all" else self._sources(step)

    def choice(self, step: Step) -> Choice | None:
        live = [value for value in step.inputs if value.is_live]
        if step.product != "all" or len(live) < 2 or len({value.log for value in live}) > 1:
            return None
        return Choice(step.layer, step.name, "no gate", "logarithms are added; each of the factors gets an equal part")

    def _sources(self, step: Step) -> list[Value]:
        live = [value for value in step.inputs if value.is_live]
        lowest = common_log(live)
        return [value for value in live if value.log == lowest]

    def hand_back(self, step: Step, arriving: Sequence[Arriving | None], back: Backward) -> None:
        assert arriving[0] is not None and arriving[0].r is not None
        r, live = arriving[0].r, [value for value in step.inputs if value.is_live]
        if step.product == "all" or len(live) != 2:
            sources = self._sources(step) if step.product == "all" else live
            parts = [r / len(sources)] * len(sources)
        else:
            sources = live
            parts = list(product(live[0].tensor.exp(), live[1].tensor.exp(), r_out=r, rules=back.rules))
            if back.rules.product == "prop" and back.rules.returned != 1:
                back.absorb(step, "stabiliser", r - parts[0] - parts[1], step.outputs[0])
        for source, part in zip(sources, parts, strict=True):
            self._give(step, source, part, back)


def addition(read: sums.Reader) -> Callable[[Arguments, Held, Product], Rule]:
    """The rule for a sum: of logarithms it is a product."""
    plain, of_logs = sums.Sum(read), LogProduct()

    def rule(arguments: Arguments, held: Held, product: Product) -> Rule:
        operands = [each for each in arguments[0][:2] if isinstance(each, Value) and each.is_live]
        return of_logs if operands and all(each.log is not None for each in operands) else plain

    return rule


SCALE = sums.Sum(sums.scaled)
WEIGHT = weighted.Weighted(weighted.elementwise)
PRODUCT = GatedProduct()


def multiplication(arguments: Arguments, held: Held, product: Product) -> Rule:
    """The rule for a ⊙ b: a gate times its source, a trained weight, or a constant scale."""
    a, b = arguments[0][:2]
    live = [factor for factor in (a, b) if isinstance(factor, Value) and factor.is_live]
    tensors = [factor.tensor if isinstance(factor, Value) else factor for factor in (a, b)]
    is_complex = any(isinstance(tensor, Tensor) and tensor.is_complex() for tensor in tensors)
    if is_complex and (len(live) == 2 or all(isinstance(tensor, Tensor) for tensor in tensors)):
        return WEIGHT
    if len(live) != 1:
        return PRODUCT
    other = b if live[0] is a else a
    if isinstance(other, (int, float, complex)) or (isinstance(other, Tensor) and not other.is_floating_point()):
        return SCALE
    if live[0].is_gate and (isinstance(other, Value) or not is_weight(other, live[0].tensor, held)):
        return PRODUCT  # the constant is an initial state behind its gate
    return WEIGHT if held.is_trained(other) else SCALE


def is_weight(constant: Tensor, beside: Tensor, held: Held) -> bool:
    """Whether a constant beside a gate is a weight, so that the gate is an activation: a trained weight, a buffer or a mask.

    An initial state (B, H) has as many axes as the gate, also one that is trained.
    """
    if held.holds(constant):
        return constant.dim() < beside.dim() or beside.dim() > 2
    return bool(((constant == 0) | (constant == 1)).all()) and bool(constant.any())


DIVISION = sums.Sum(sums.divided)


def division(arguments: Arguments, held: Held, product: Product) -> Rule:
    """The rule for a / b: a scale, when b is constant."""
    if arguments[1].get("rounding_mode") is not None:
        raise NoRule("it rounds")
    return DIVISION


class Marked(Routing):
    """A tensor that the user says is a gate."""

    def gate_of(self, step: Step) -> Gate | None:
        return Gate("it is marked with whence.gate", MARKED)

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
    """An einsum as elementwise products and sums, two operands at a time."""
    factors = cast(Sequence[Tensor], operands[0] if len(operands) == 1 else operands)
    if not isinstance(equation, str):
        raise NoRule("its operands come before their axes; write the equation as a string")
    (*names, out), arrow = equation.replace(" ", "").replace("->", ",").split(","), "->" in equation
    if not arrow or "." in equation or any(len(set(each)) != len(each) for each in (*names, out)):
        raise NoRule("this equation cannot be taken apart; write out its result, each letter once per operand")
    if len(factors) > 2:  # the first two, then their product with the rest
        rest = "".join(names[2:]) + out
        joint = "".join(letter for letter in dict.fromkeys(names[0] + names[1]) if letter in rest)
        first = einsum_product(f"{names[0]},{names[1]}->{joint}", *factors[:2])
        return einsum_product(f"{','.join([joint, *names[2:]])}->{out}", first, *factors[2:])
    (a, b), (left, right) = factors, names
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


def quotient_apart(live: Sequence[Value | None], product: Product) -> Callable[..., Tensor] | None:
    """Splits a division by a live tensor into a product with its reciprocal."""
    return quotient if len(live) > 1 and live[1] is not None else None


def turned_matrix_product(a: Tensor, b: Tensor) -> Tensor:
    """b @ a, as `Tensor.__rmatmul__` is called."""
    return matrix_product(b, a)


def matrix_product_apart(live: Sequence[Value | None], product: Product) -> Callable[..., Tensor] | None:
    """Splits a matrix product of two live factors, if both get relevance."""
    return matrix_product if product != "all" and sum(value is not None for value in live) > 1 else None


def turned_matrix_product_apart(live: Sequence[Value | None], product: Product) -> Callable[..., Tensor] | None:
    """The same for `Tensor.__rmatmul__`, which gets its right factor first."""
    return turned_matrix_product if matrix_product_apart(live, product) else None


def einsum_apart(live: Sequence[Value | None], product: Product) -> Callable[..., Tensor] | None:
    """The same for an einsum."""
    return einsum_product if matrix_product_apart(live, product) else None


def linear_product(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear as elementwise products and sums."""
    found = matrix_product(input, weight.transpose(-1, -2) if weight.dim() > 1 else weight)
    return found if bias is None else found + bias


def linear_apart(live: Sequence[Value | None], product: Product) -> Callable[..., Tensor] | None:
    """The same for F.linear with a weight that depends on the input."""
    return linear_product if matrix_product_apart(live[:2], product) else None


def bilinear_product(a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.bilinear as elementwise products and sums."""
    rows, columns = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    found = einsum_product("nj,nkj->nk", columns, torch.einsum("ni,kij->nkj", rows, weight))
    found = found.reshape(*a.shape[:-1], found.shape[-1])
    return found if bias is None else found + bias


def bilinear_apart(live: Sequence[Value | None], product: Product) -> Callable[..., Tensor] | None:
    """The same for F.bilinear."""
    return bilinear_product if matrix_product_apart(live, product) else None


def running_product(tensor: Tensor, dim: int, *, dtype: None = None) -> Tensor:
    """torch.cumprod as one product after the other."""
    found = [tensor.select(dim, 0)]
    for n in range(1, tensor.shape[dim]):
        found.append(found[-1] * tensor.select(dim, n))
    return torch.stack(found, dim)


def whole_product(tensor: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: None = None) -> Tensor:
    """torch.prod as one product after the other."""
    tensor, axis = (tensor.reshape(-1), 0) if dim is None else (tensor, dim)
    found = running_product(tensor, axis).select(axis, -1)
    return found.unsqueeze(axis) if keepdim else found


def running_product_apart(live: Sequence[Value | None], product: Product) -> Callable[..., Tensor] | None:
    """Splits a running product; one of gates is a gate, to which the paper's rule gives nothing."""
    return running_product if product != "all" or live[0] is None or not live[0].is_gate else None


def whole_product_apart(live: Sequence[Value | None], product: Product) -> Callable[..., Tensor] | None:
    """Splits a product over an axis."""
    return whole_product if running_product_apart(live, product) else None
