"""LRP on the way back through PyTorch's graph: what happens where a sum opens, where it ends, and at an activation.

Between neurons, the cotangent of a tensor is its relevance R. Inside an open sum z of N lower neurons there are two: q, of z
itself, and s, of its wire, the tensor that holds N. A finished neuron x that becomes a term gets

    R = x · q + s

and where something that is not linear reads the sum, it ends:

    q = R / (z + ε sign z)          s = (ε sign z + δ b) / N · q

Linear calls and moves in between are PyTorch's own; autograd takes q and s through their transposes.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.autograd import Function

from whence.engine.marks import ModelCall, Node, OpenSum
from whence.equations import (
    absorbed_by_stabiliser,
    coefficient,
    product,
    share,
    sign,
    stabiliser,
)
from whence.errors import InputError

if TYPE_CHECKING:
    from whence.engine.run import ModelRun

Grads = tuple[Tensor | None, ...]
DIVIDES = "epsilon=0 divides by zero: a weighted sum in {!r} is exactly 0; use epsilon > 0"


def alias(x: Tensor) -> Tensor:
    """The same numbers as a tensor that is no view, so that a result of a `Function` can be written to in place.

    Writes to the one are not counted as writes to the other: who keeps the one for the way back keeps the other too.
    """
    return cast(Tensor, torch.ops.aten._unsafe_view(x, x.shape))  # pyright: ignore[reportCallIssue]


class Neuron(Function):
    """A function of ours on the graph: as PyTorch's, without the look for wrappers of functorch, which we refuse anyway."""

    apply: Any = cast(Any, torch._C)._FunctionBase.__dict__["apply"]


class Started(Neuron):
    """The start of the way back: the amounts that some tensors hand back."""

    @staticmethod
    def forward(ctx: Any, amounts: Sequence[Tensor], *ends: Tensor) -> Tensor:
        ctx.amounts = amounts
        return ends[0].new_zeros(())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        return None, *ctx.amounts


class Ended(Neuron):
    """A neuron y: an open sum z as it is, or an activation of it."""

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, wire: Tensor | None, y: Sequence[Tensor], own: OpenSum, node: Node, run: "ModelRun"
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.run, ctx.node, ctx.call, ctx.count, ctx.bias = run, node, own.call, own.count, own.bias
        ctx.is_thin = wire is not None and wire.shape != z.shape
        run.keep(ctx, z, wire if own.count is None else None)
        return y[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        (r,) = grads
        if r is None:
            return None, None, None, None, None, None
        run, node, call, count, bias = ctx.run, ctx.node, ctx.call, ctx.count, ctx.bias
        z, counts = run.kept(ctx)
        rules, ledger = run.rules, run.ledger
        if node.is_infinite:  # the infinity of a mask absorbs what arrives there
            ledger.absorb(call, "constant", torch.where(z.isinf(), r, 0.0), node, tuple(z.shape))
        known = None if rules.epsilon == 0 else stabiliser(z, rules.epsilon)
        q = coefficient(z, r_out=r, epsilon=rules.epsilon, known=known)
        if rules.epsilon == 0 and not bool(q.isfinite().all()):
            raise InputError(DIVIDES.format(call.layer or "the model"))
        if rules.returned != 1 and rules.epsilon != 0:
            ledger.absorb(call, "stabiliser", absorbed_by_stabiliser(z, q=q, rules=rules), node, tuple(z.shape))
        if not rules.shares:
            return q, None, None, None, None, None
        fan_in = count if count is not None else counts.detach()
        is_shared = count is not None and count > 0
        s = share(z, q=q, bias=bias, fan_in=fan_in, rules=rules, known=known, is_shared=is_shared)
        if not is_shared:
            left = rules.returned * rules.epsilon * sign(z)
            left = left if bias is None else left + rules.delta * bias
            nobody = torch.as_tensor(fan_in == 0, device=q.device)
            ledger.absorb(call, "stabiliser", torch.where(nobody, left * q, 0.0), node, tuple(z.shape))
        if not ctx.needs_input_grad[1]:
            return q, None, None, None, None, None
        return q, (s.sum(-1, keepdim=True) if ctx.is_thin else s), None, None, None, None


class Opened(Neuron):
    """A finished neuron x as a term of a sum. `is_dense`: all neurons along the last axis are terms, with one wire for them."""

    @staticmethod
    def forward(
        ctx: Any, carrier: Tensor, given: Sequence[Tensor], is_infinite: bool, run: "ModelRun", is_dense: bool = False
    ) -> Any:
        ctx.set_materialize_grads(False)
        (x,) = given
        ctx.run, ctx.is_infinite, ctx.shape = run, is_infinite, x.shape
        run.keep(ctx, x)
        z = alias(x)
        if not run.shares:
            return z
        return z, (run.full(x.narrow(-1, 0, 1), float(x.shape[-1])) if is_dense else run.full(x, 1.0))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        (x,) = ctx.run.kept(ctx)
        q, s = (*grads, None)[:2]
        if q is None:
            return (None if s is None else s.expand(ctx.shape)), None, None, None, None
        if ctx.is_infinite:  # as a mask makes it: then q is 0
            r = torch.where(q == 0, 0.0, x * q)
            return (r if s is None else r + s), None, None, None, None
        return (x * q if s is None else torch.addcmul(s, x, q)), None, None, None, None


class Added(Neuron):
    """Two finished neurons of one shape as an open sum of two terms: a + scale · b."""

    @staticmethod
    def forward(ctx: Any, carrier: Tensor, other: Tensor, given: tuple[Tensor, Tensor], scale: float, run: "ModelRun") -> Any:
        ctx.set_materialize_grads(False)
        ctx.run, ctx.scale, (a, b) = run, scale, given
        run.keep(ctx, a, b)
        z = torch.add(a, b, alpha=scale)
        return (z, run.full(z, 2.0)) if run.shares else z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        a, b = ctx.run.kept(ctx)
        q, s = (*grads, None)[:2]
        if q is None:
            return s, s, None, None, None
        if s is None:
            return a * q, b * (q if ctx.scale == 1 else q * ctx.scale), None, None, None
        return torch.addcmul(s, a, q), torch.addcmul(s, b, q, value=ctx.scale), None, None, None


class Biased(Neuron):
    """An open sum with a bias added to it, which absorbs its part."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, bias: Tensor, call: ModelCall, run: "ModelRun") -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.run, ctx.call, ctx.shape = run, call, z.shape
        run.keep(ctx, bias)
        return z + bias

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        (q,), (bias,) = grads, ctx.run.kept(ctx)
        if q is None:
            return None, None, None, None
        ctx.run.ledger.absorb_bias(ctx.call, bias, q, ctx.call.outputs[0])
        return fitted(q, ctx.shape), None, None, None


class Dense(Neuron):
    """A linear layer of finished neurons: z = x Wᵀ + b, an open sum of as many lower neurons as x has features."""

    @staticmethod
    def forward(
        ctx: Any,
        carrier: Tensor,
        given: Sequence[Tensor],
        weight: Tensor,
        bias: Tensor | None,
        call: ModelCall,
        run: "ModelRun",
    ) -> Any:
        ctx.set_materialize_grads(False)
        ctx.run, ctx.call, (x,) = run, call, given
        run.keep(ctx, x, weight, bias)
        z = torch.nn.functional.linear(x, weight, bias)
        z = z if z._base is None else alias(z)
        return (z, run.thin(z, float(x.shape[-1]))) if run.shares else z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        run, call = ctx.run, ctx.call
        x, weight, bias = run.kept(ctx)
        q, s = (*grads, None)[:2]
        if q is not None and bias is not None:
            run.ledger.absorb_bias(call, bias, q, call.outputs[0])
        r = None if q is None else x * torch.matmul(q.to(weight.dtype), weight)
        if s is not None:
            shared = s if s.shape[-1] == 1 else s.sum(-1, keepdim=True)
            r = shared.expand(x.shape) if r is None else r.add_(shared)
        return r, None, None, None, None, None


class Centred(Neuron):
    """An open sum less its mean, times constants:  z = (x − mean x) · w,  and its transpose."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, axes: tuple[int, ...], run: "ModelRun") -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.run, ctx.axes = run, axes
        run.keep(ctx, weight)
        return (x - x.mean(axes, keepdim=True)).mul_(weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        if grads[0] is None:
            return None, None, None, None
        each = grads[0] * ctx.run.kept(ctx)[0]
        return each - each.mean(ctx.axes, keepdim=True), None, None, None


class Passed(Neuron):
    """R goes on as it is: an activation of a finished neuron, one minus a gate, the source of a product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Sequence[Tensor]) -> Tensor:
        ctx.shape = x.shape
        return y[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        return fitted(grads[0], ctx.shape), None


class Weighed(Neuron):
    """R goes on times a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Sequence[Tensor], weight: Tensor) -> Tensor:
        ctx.weight = weight
        return y[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        return grads[0] * ctx.weight, None, None


class Split(Neuron):
    """R goes to several tensors in equal parts, as to the two sources of a product."""

    @staticmethod
    def forward(ctx: Any, y: Sequence[Tensor], *sources: Tensor) -> Tensor:
        ctx.shapes = [source.shape for source in sources]
        return y[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        r = grads[0] / len(ctx.shapes)
        return None, *(fitted(r, shape) for shape in ctx.shapes)


class Multiplied(Neuron):
    """A product whose factors get a part each, by the rules half, prop or abs.

    A factor that is no tensor of a graph is a constant.
    """

    @staticmethod
    def forward(
        ctx: Any,
        y: Sequence[Tensor],
        a: Tensor,
        b: Tensor,
        values: tuple[Tensor, Tensor],
        live: Sequence[bool],
        node: Node,
        run: "ModelRun",
    ) -> Tensor:
        ctx.run, ctx.node, ctx.live, ctx.shapes = run, node, live, (a.shape, b.shape)
        run.keep(ctx, *values)
        return y[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        run, (r,), shape = ctx.run, grads, tuple(grads[0].shape)
        a, b = run.kept(ctx)
        parts = product(a, b, r_out=r, rules=run.rules)
        if run.rules.product == "prop" and run.rules.returned != 1:
            run.ledger.absorb(ctx.node.call, "stabiliser", r - parts[0] - parts[1], ctx.node, shape)
        for part, is_live in zip(parts, ctx.live, strict=True):
            if not is_live:
                run.ledger.absorb(ctx.node.call, "constant", part, ctx.node, shape)
        given = [
            fitted(part.expand(r.shape), own) if is_live else None
            for part, own, is_live in zip(parts, ctx.shapes, ctx.live, strict=True)
        ]
        return None, *given, None, None, None, None


class Absorbed(Neuron):
    """Relevance that stops at constants: all of it, or what the part `kept` of a finished neuron leaves."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, y: Sequence[Tensor], kept: Tensor | None, node: Node, run: "ModelRun") -> Tensor:
        ctx.run, ctx.node, ctx.kept_part = run, node, kept
        ctx.value = y[0].detach().clone() if y[0].is_complex() else None
        return y[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        (r,) = grads
        stopped = r if ctx.kept_part is None else r * (1 - ctx.kept_part)
        if r.is_complex():  # inside an open sum: Re(conj(q) z)
            stopped = (ctx.value * stopped.conj()).real
        ctx.run.ledger.absorb(ctx.node.call, "constant", stopped, ctx.node, tuple(r.shape))
        return (None if ctx.kept_part is None else r), None, None, None, None


class Noted(Neuron):
    """Tensors as they are; what comes back to them is noted as relevance, and goes on unless it stops here.

    `values`: what one unit of each tensor's cotangent counts, None for a finished neuron.
    """

    @staticmethod
    def forward(
        ctx: Any, note: Callable[[Tensor], None], values: Sequence[Tensor | None], stops: Callable[[], bool], *tensors: Tensor
    ) -> Any:
        ctx.set_materialize_grads(False)
        ctx.note, ctx.values, ctx.stops = note, values, stops
        return tuple(tensor.clone() if 0 not in tensor.stride() else tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        amounts = [
            grad
            if value is None
            else (value * grad.conj()).real
            if grad.is_complex()
            else value.nan_to_num(0.0, 0.0, 0.0) * grad
            for value, grad in zip(ctx.values, grads, strict=True)
            if grad is not None
        ]
        if amounts:
            ctx.note(sum(amounts[1:], start=amounts[0]))
        is_end = ctx.stops()
        return None, None, None, *(None if is_end else grad for grad in grads)


class Unruled(Neuron):
    """A call without a rule. Relevance that arrives is refused, or handed on unchanged where it is only looked at."""

    @staticmethod
    def forward(ctx: Any, y: Sequence[Tensor], call: ModelCall, run: "ModelRun", *inputs: Tensor) -> Any:
        ctx.run, ctx.call, ctx.inputs = run, call, [(x.shape, x.dtype, x.device) for x in inputs]
        return tuple(y)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        ctx.run.refuse(ctx.call)
        return None, None, None, *(torch.ones(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.inputs)


class Magnitude(Neuron):
    """|z| of a complex sum: the q for which Re(conj(q) z) is R."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, y: Sequence[Tensor], node: Node, run: "ModelRun") -> Tensor:
        ctx.run, ctx.node = run, node
        run.keep(ctx, z)
        return y[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        (z,), (r,) = ctx.run.kept(ctx), grads
        undirected = torch.where(z == 0, r, 0.0)
        ctx.run.ledger.absorb(ctx.node.call, "stabiliser", undirected, ctx.node, tuple(r.shape))
        return torch.where(z == 0, 0.0, r * z / (z * z.conj()).real.clamp(min=1e-300)), None, None, None


def fitted(r: Tensor, shape: torch.Size) -> Tensor:
    """Undo broadcasting."""
    return r if r.shape == shape else r.sum_to_size(shape)
