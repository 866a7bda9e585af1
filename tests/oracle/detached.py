"""LRP at ε = 0, δ = 0 by autograd alone: Gradient×Input of a model whose every call is replaced by one with the right slope.

An activation φ(z) becomes z · const, so that its relevance is z's; of a product a·b each factor's slope is scaled to its part
of relevance, which for the paper's rule means that gates are constants. What is a gate is tracked here on its own.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

PASSED = {"tanh", "relu", "gelu", "silu", "softplus", "logsigmoid", "log_sigmoid", "exp", "sqrt", "rsqrt", "reciprocal", "log",
          "sigmoid", "softmax", "abs", "clamp"}  # fmt: skip
GATES = {"sigmoid", "softmax"}
MOVES = {"chunk", "split", "unbind", "getitem", "unsqueeze", "squeeze", "expand", "transpose", "permute", "view", "reshape",
         "select", "cumprod", "flatten", "masked_fill", "unflatten"}  # fmt: skip


def ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, 0 where b is."""
    return torch.where(b == 0, torch.zeros_like(a), a / torch.where(b == 0, torch.ones_like(b), b)).detach()


def through(value: Tensor, z: Tensor) -> Tensor:
    """A value as z · const, so that all its relevance is z's; where z is 0 there is none to hand on."""
    return z * ratio(value, z) + torch.where(z == 0, value, torch.zeros_like(value)).detach()


class Slopes(TorchFunctionMode):
    """Replaces calls as said above."""

    def __init__(self, product: str) -> None:
        super().__init__()
        self.product = product
        self.gates: dict[int, Tensor] = {}  # kept alive, so that an id stays its own

    def is_gate(self, thing: Any) -> bool:
        return id(thing) in self.gates

    def mark(self, result: Any) -> Any:
        for each in result if isinstance(result, (tuple, list)) else [result]:
            self.gates[id(each)] = each
        return result

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").strip("_")
        tensors = [a for a in args if isinstance(a, Tensor)]
        live = [t for t in tensors if t.requires_grad]
        if not live and name not in ("cat", "stack"):
            return func(*args, **kwargs)
        if name == "gate":
            return self.mark(args[0] * 1.0)
        if name in ("mul", "rmul", "imul", "multiply") and len(live) == 2 and len(tensors) == 2:
            return self.times(args[0], args[1])
        if name in ("mul", "rmul") and len(tensors) == 2 and self.is_gate(live[0]):
            return self.by_constant(live[0], args[1] if live[0] is args[0] else args[0])
        if name in ("truediv", "div") and isinstance(args[1], Tensor) and args[1].requires_grad:
            inverse = through(1 / args[1].detach(), args[1])
            if self.is_gate(args[1]):
                self.mark(inverse)
            return self.times(inverse, args[0])
        if name == "rsub" and self.is_gate(args[0]):
            return self.mark(through(func(*args, **kwargs), args[0]))
        if name == "sub" and len(args) == 2 and self.is_gate(args[1]) and not isinstance(args[0], Tensor):
            return self.mark(through(func(*args, **kwargs), args[1]))
        if name in PASSED:
            result = through(func(*args, **kwargs), args[0])
            return self.mark(result) if name in GATES or self.is_gate(args[0]) else result
        if name == "lerp":
            weight = args[2]
            closed = self.mark(through(1 - weight, weight))
            return self.times(closed, args[0]) + self.times(weight, args[1])
        if name in ("einsum", "matmul", "bmm") and len(live) == 2:
            return self.matrices(func, name, args)
        if name == "layer_norm":
            return self.normed(*args, **kwargs)
        if name == "group_norm":
            grouped = args[0].reshape(len(args[0]), args[1], -1)
            shape = (-1, *(1,) * (args[0].dim() - 2))
            normed = self.normed(grouped, grouped.shape[-1:], None, None, kwargs["eps"]).reshape(args[0].shape)
            return normed * kwargs["weight"].detach().view(shape) + kwargs["bias"].detach().view(shape)
        result = func(*args, **kwargs)
        if name == "add" and all(self.is_gate(t) for t in tensors):
            self.mark(result)
        return self.mark(result) if name in MOVES and self.is_gate(args[0]) else result

    def times(self, a: Any, b: Any) -> Tensor:
        if not isinstance(b, Tensor) or not b.requires_grad:
            return a * b
        gates = [self.is_gate(a), self.is_gate(b)]
        if self.product == "all":
            if all(gates):
                return self.mark(a * b)
            assert any(gates), "neither factor is a gate"
            return a.detach() * b if gates[0] else a * b.detach()
        x, y = a.detach(), b.detach()
        part = {"half": torch.full_like(x * y, 0.5), "prop": ratio(x, x + y)}
        share = part[self.product] if self.product in part else ratio(x.abs() + 0 * y, x.abs() + y.abs())
        result = share * a * y + (1 - share) * x * b
        return self.mark(result) if all(gates) else result

    def by_constant(self, gate: Tensor, constant: Tensor) -> Tensor:
        """A gate's product with a constant: the constant is the source, and takes the part of relevance that a source does."""
        x = gate.detach()
        if self.product == "all":
            return self.mark(x * constant)
        shares = {"half": torch.full_like(x * constant, 0.5), "prop": ratio(x + 0 * constant, x + constant)}
        share = shares.get(self.product, ratio(x.abs() + 0 * constant, x.abs() + constant.abs()))
        return self.mark(share * gate * constant + (1 - share) * x * constant)

    def matrices(self, func: Callable[..., Any], name: str, args: Any) -> Tensor:
        a, b = args[-2:]
        if self.product == "all":
            assert self.is_gate(a) != self.is_gate(b)
            a, b = (a.detach(), b) if self.is_gate(a) else (a, b.detach())
            return func(*args[:-2], a, b)
        if name == "einsum":
            assert args[0] == "bij,bj->bi"
            return self.times(a, b[:, None, :]).sum(-1)
        return self.times(a.unsqueeze(-1), b.unsqueeze(-3)).sum(-2)

    def normed(self, x: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Tensor:
        axes = tuple(range(-len(shape), 0))
        scale = (x.var(axes, unbiased=False, keepdim=True) + eps).rsqrt().detach()
        z = (x - x.mean(axes, keepdim=True)) * scale
        z = z if weight is None else z * weight
        return z if bias is None else z + bias


def relevance(model: nn.Module, x: Tensor, target: int, *, product: str = "all") -> Tensor:
    """x ⊙ ∂/∂x of the model with replaced calls."""
    x = x.clone().requires_grad_()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with Slopes(product):
        score = model(x)[:, target].sum()
    return (x * torch.autograd.grad(score, x)[0]).detach()
