"""Sums of a model's head on the way back: positive and negative contributions apart, for the γ rule and the αβ rule."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from whence.engine.marks import Node, OpenSum
from whence.engine.neurons import DIVIDES, Grads, Neuron
from whence.engine.resting import absorb
from whence.equations import Sides, changed, sides_alpha_beta, sides_gamma, stabiliser_of_sides
from whence.errors import InputError

if TYPE_CHECKING:
    from whence.engine.run import ModelRun


class OpenedSides(Neuron):
    """A finished neuron as a term of a sum of the head: its positive part, its negative part, and one lower neuron."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rest: Tensor | None, node: Node | None, run: "ModelRun") -> Any:
        ctx.set_materialize_grads(False)
        ctx.run, ctx.node = run, node
        run.keep(ctx, x, rest)
        sides = x.clamp(min=0), x.clamp(max=0)
        return (*sides, run.full(x, 1.0)) if run.shares else sides

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        x, rest = ctx.run.kept(ctx)
        up, down, s = (*grads, None)[:3]
        r: Tensor | None = s
        for is_own, q in ((x > 0, up), (x < 0, down)):
            if q is not None:
                q = torch.where(is_own, q, 0.0)
                amount = q * (x if rest is None else changed(x, rest))
                r = amount if r is None else r + amount
                if rest is not None:
                    absorb(ctx.run, ctx.node, q * rest)
        return r, None, None, None


class EndedSides(Neuron):
    """A neuron whose sum is of the head: the γ rule or the αβ rule tells positive from negative contributions."""

    @staticmethod
    def forward(
        ctx: Any,
        up: Tensor,
        down: Tensor,
        wire: Tensor | None,
        z: Tensor,
        y: Sequence[Tensor],
        own: OpenSum,
        node: Node,
        run: "ModelRun",
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.run, ctx.node, ctx.call, ctx.count, ctx.bias = run, node, own.call, own.count, own.bias
        ctx.bias_sides = own.bias_sides
        run.keep(ctx, up, down, wire, z)
        return y[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        (r,) = grads
        if r is None:
            return None, None, None, None, None, None, None, None
        run, node, call, count, bias = ctx.run, ctx.node, ctx.call, ctx.count, ctx.bias
        up, down, wire, z = run.kept(ctx)
        rules, ledger, shape = run.rules, run.ledger, tuple(z.shape)
        if node.is_infinite:
            ledger.absorb(call, "constant", torch.where(z.isinf(), r, 0.0), node, shape)
            r = torch.where(z.isinf(), 0.0, r)
        rule = sides_gamma if rules.head == "gamma" else sides_alpha_beta
        q = rule(z, Sides(up, down), r_out=r, rules=rules)
        if rules.epsilon == 0 and not bool(q.up.isfinite().all() & q.down.isfinite().all()):
            raise InputError(DIVIDES.format(call.layer or "the model"))
        extra = stabiliser_of_sides(z, q=q, rules=rules)
        if rules.returned != 1:
            ledger.absorb(call, "stabiliser", (1 - rules.returned) * extra, node, shape)
        if not rules.shares:
            return *q, None, None, None, None, None, None
        left = rules.returned * extra
        if bias is not None:
            left = left + rules.delta * cast(Sides, ctx.bias_sides).total(q)
        fan_in = wire.detach() if count is None else torch.full_like(z, count)
        ledger.absorb(call, "stabiliser", torch.where(fan_in > 0, 0.0, left), node, shape)
        return *q, torch.where(fan_in > 0, left / fan_in.clamp(min=1), 0.0), None, None, None, None, None
