"""Values at rest: what comes out of a sum z through anything elementwise is explained against what it is when z is 0.

A sigmoid, a softplus or a softmax is not 0 at z = 0, and what it is there does not speak for any input. So a value a with the
value at rest a⁰ hands back what the input changed, and the rest is absorbed as "activations", whatever δ is:

    z gets  q (a − a⁰) + s          absorbed  q a⁰

Between z and what reads a, multipliers q go back through secants. These sums do not end: nothing is divided by them.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from whence.engine.marks import Node
from whence.engine.neurons import Grads, Neuron, alias, fitted
from whence.equations import changed, partition_weights, product_means

if TYPE_CHECKING:
    from whence.engine.run import ModelRun

KIND = "activations"


class Changed(Neuron):
    """A finished neuron x with a value at rest as a term of a sum."""

    @staticmethod
    def forward(
        ctx: Any,
        carrier: Tensor,
        given: Sequence[Tensor],
        rest: Tensor,
        node: Node,
        note: Callable[[Tensor], None] | None,
        run: "ModelRun",
    ) -> Any:
        ctx.set_materialize_grads(False)
        (x,) = given
        ctx.run, ctx.node, ctx.note = run, node, note
        run.keep(ctx, x, rest)
        z = alias(x)
        return (z, run.full(x, 1.0)) if run.shares else z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        x, rest = ctx.run.kept(ctx)
        q, s = (*grads, None)[:2]
        if q is None:
            return s, None, None, None, None, None
        left = counted(q, rest)
        absorb(ctx.run, ctx.node, left)
        if ctx.note is not None:
            ctx.note(left)
        r = changed(x, rest) * q
        return (r if s is None else r + s), None, None, None, None, None


class Secant(Neuron):
    """An elementwise function y of a sum u with a value at rest: q goes on times the slope between rest and u."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, y: Sequence[Tensor], slope: Callable[[], Tensor], node: Node, run: "ModelRun") -> Tensor:
        ctx.run, ctx.node, ctx.slope = run, node, slope
        run.keep(ctx, u, y[0])
        return alias(y[0])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        u, y = ctx.run.kept(ctx)
        (q,) = grads
        found = q * ctx.slope()
        absorb(ctx.run, ctx.node, counted(q, y) - counted(found, u))
        return found, None, None, None, None


class Means(Neuron):
    """The product of two sums with values at rest."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, rests: tuple[Tensor, Tensor], node: Node, run: "ModelRun") -> Tensor:
        ctx.run, ctx.node, ctx.shapes = run, node, (a.shape, b.shape)
        run.keep(ctx, a, b, *rests)
        return a * b

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        a, b, *rests = ctx.run.kept(ctx)
        (q,) = grads
        first, second = (q * each for each in product_means(a, b, (rests[0], rests[1])))
        absorb(ctx.run, ctx.node, counted(q, a * b) - counted(first, a) - counted(second, b))
        return fitted(first, ctx.shapes[0]), fitted(second, ctx.shapes[1]), None, None, None


class LogPartition(Neuron):
    """log Σ exp(z) over axes that stay, or z less that: every term counts what it has between rest and z."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, rest: Tensor, axes: tuple[int, ...], is_left: bool, node: Node, run: "ModelRun") -> Tensor:
        ctx.run, ctx.node, ctx.axes, ctx.is_left = run, node, axes, is_left
        total = z.logsumexp(axes, keepdim=True)
        total = z - total if is_left else total
        run.keep(ctx, z, rest, total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        z, rest, y = ctx.run.kept(ctx)
        (q,) = grads
        weights = partition_weights(z, rest, ctx.axes)
        found = q - weights * q.sum(ctx.axes, keepdim=True) if ctx.is_left else weights * q
        left = -counted(found, z)
        if ctx.is_left:
            left = left + counted(q, y)
        else:  # spread along the axes, so that it lies like z
            left = left + (counted(q, y) / (z.numel() // max(y.numel(), 1))).expand(z.shape)
        absorb(ctx.run, ctx.node, left)
        return found, None, None, None, None, None


class Shifted(Neuron):
    """A sum u less its value at rest, which ends like any other."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, rest: Tensor, node: Node, run: "ModelRun") -> Tensor:
        ctx.run, ctx.node = run, node
        run.keep(ctx, rest)
        return changed(u, rest)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Grads:
        (rest,), (q,) = ctx.run.kept(ctx), grads
        absorb(ctx.run, ctx.node, -counted(q, rest))
        return q, None, None, None


def counted(q: Tensor, value: Tensor) -> Tensor:
    """What a value counts: q times it, and nothing where q is 0, whatever it is; a mask's infinities count nothing."""
    return torch.where((q == 0) | value.isinf(), 0.0, q * value)


def absorb(run: "ModelRun", node: Node, amount: Tensor) -> None:
    """Enter what a value at rest absorbs."""
    assert node.call is not None
    run.ledger.absorb(node.call, KIND, amount, node, tuple(amount.shape))
