"""LRP at ε = 0, δ = 0 by autograd alone: Gradient×Input of a model whose every call is replaced by one with the right slope.

An activation φ(z) becomes z · const, so that its relevance is z's; of a product a·b each factor's slope is scaled to its part
of relevance, which for the paper's rule means that gates are constants. What is a gate, and how surely, is tracked here on its
own: nothing of the library is used. A call that is neither linear nor known here has no slope: its derivative raises.

What comes out of a function with φ(0) ≠ 0 has a second form, whose slopes lead from its value at rest: (φ(z) − φ(0)) / z, and
secants (φ(u) − φ(u⁰)) / (u − u⁰) after that. Everything reads it but a product that shares relevance between its factors.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, cast
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch._C._functorch import maybe_current_level
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence
from torch.overrides import TorchFunctionMode

MARKED, NORMALISER, SQUASHED, POSITIVE, SOURCE = 4, 3, 2, 1, 0

ACTIVATIONS = set(
    "tanh relu relu6 leaky_relu elu selu celu gelu silu mish softsign tanhshrink hardtanh hardswish prelu threshold erf "
    "clamp_min clamp_max clamp clip softplus log_sigmoid logsigmoid sigmoid hardsigmoid special_expit expit softmax softmin "
    "log_softmax exp rsqrt reciprocal log sqrt abs pow".split()
)
OWN_RANK = {
    **dict.fromkeys("sigmoid hardsigmoid special_expit expit softmax softmin".split(), SQUASHED),
    **dict.fromkeys(["rsqrt", "reciprocal"], NORMALISER),
    "softplus": POSITIVE,
}
# Linear in their first operand, or in all of them at once: PyTorch's own derivative is the right one.
MOVES = set(
    "cat concat concatenate getitem index_select pack_padded_sequence pad_packed_sequence pad_sequence transpose swapaxes "
    "reshape view flatten squeeze unsqueeze contiguous clone stack hstack vstack dstack column_stack row_stack split "
    "split_with_sizes tensor_split chunk unbind select narrow gather take take_along_dim masked_select diagonal diag "
    "diag_embed flip fliplr flipud roll rot90 swapdims movedim moveaxis permute t T mT H mH adjoint unflatten ravel expand "
    "broadcast_to broadcast_tensors repeat repeat_interleave tile atleast_1d atleast_2d atleast_3d positive unfold where "
    "masked_fill pad constant_pad_nd index_fill tril triu setitem index_copy scatter masked_scatter index_put scatter_add "
    "index_add type double float half bfloat16 cpu cuda max amax min amin maximum minimum fmax fmin sort topk kthvalue "
    "median".split()
) | {f"{kind}_pool{n}d" for kind in ("max", "adaptive_max") for n in (1, 2, 3)}
PICKS = set("max amax min amin maximum minimum fmax fmin sort topk kthvalue median".split()) | {
    f"{kind}_pool{n}d" for kind in ("max", "adaptive_max") for n in (1, 2, 3)
}  # moves that pick numbers by value
LIKE = set("to type_as view_as reshape_as expand_as".split())  # only the first argument's numbers count
DROPOUTS = set("dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout".split())
REDUCTIONS = {"sum", "mean", "cumsum"}
COMPLEX = set(
    "real imag view_as_real view_as_complex complex conj conj_physical resolve_conj fft_fft fft_ifft fft_rfft fft_irfft".split()
)
POOLS = set("avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d interpolate upsample fold".split())
SUMS = {"add", "sub", "subtract", "rsub", "neg", "negative"}
FACTORS = set("matmul mm bmm mv dot outer ger inner kron tensordot".split())
CONVOLUTIONS = {f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)}
CONSTANT = set(
    "zeros_like ones_like full_like empty_like rand_like randn_like new_zeros new_ones new_full new_empty new_tensor "
    "new".split()
)
OPERATORS = {
    **{f"__{side}{name}__": name for name in ("add", "mul", "sub") for side in ("", "i")},
    "__radd__": "add", "__rmul__": "mul", "__rsub__": "rsub", "__truediv__": "div", "__itruediv__": "div",
    "__rdiv__": "rdiv", "__rtruediv__": "rdiv", "__matmul__": "matmul", "__rmatmul__": "rmatmul", "__neg__": "neg",
    "__pow__": "pow", "__getitem__": "getitem", "__setitem__": "setitem", "__pos__": "positive", "__abs__": "abs",
    "__reversed__": "reversed", "multiply": "mul", "divide": "div", "true_divide": "div", "absolute": "abs",
}  # fmt: skip
OPERANDS = "condition self input tensors mat1 batch1 tensor1 other mat2 batch2 tensor2 vec exponent".split()


class NotCovered(Exception):  # noqa: N818 - not an error of the model
    """Relevance would pass through a call for which no slope is known here."""


class Note(NamedTuple):
    """What is known of a tensor. `is_combined`: it is a sum or product of gates and numbers alone.

    `apart`: the same numbers with slopes from the value at rest `start`, where there is one; `version`: the tensor's, of which
    that is so. `kind`: it is a gate times a constant "state" (a "whole state" has the gate's form), or times a "source"; it
    is an "exponential", or the "partition" that exponentials sum up to.
    """

    tensor: Tensor  # kept alive, so that an id stays its own
    is_live: bool  # it depends on an explained input; other noted tensors come from constants that went through weights
    rank: int = SOURCE
    is_combined: bool = False
    apart: Tensor | None = None
    start: Tensor | None = None
    version: int = 0
    kind: str = ""


class Blocked(torch.autograd.Function):
    """A value that no relevance may pass through."""

    @staticmethod
    def forward(ctx: Any, name: str, value: Tensor, *live: Tensor) -> Tensor:
        ctx.name = name
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        if slopes[0].any():
            raise NotCovered(f"no slope for {ctx.name}")
        return None, None, *(None for _ in ctx.needs_input_grad[2:])


def ratio(a: Tensor, b: Tensor) -> Tensor:
    """a / b, 0 where b is 0 or infinite."""
    usable = (b != 0) & b.isfinite()
    return torch.where(usable, a / torch.where(usable, b, torch.ones_like(b)), torch.zeros_like(a)).detach()


def exactly(value: Tensor, carrier: Tensor) -> Tensor:
    """A value to the last bit, with the slopes of another computation of it; an infinite one has none."""
    kept = torch.where(carrier.isfinite(), carrier, torch.zeros_like(carrier))
    return value.detach() + (kept - kept.detach())


def through(value: Tensor, z: Tensor) -> Tensor:
    """A value as z · const, so that all its relevance is z's; where z is 0 or infinite there is none to hand on."""
    z = torch.where((z != 0) & z.isfinite(), z, torch.zeros_like(z))
    return exactly(value, z * ratio(value.detach(), z.detach()))


def secant(function: Callable[[Tensor], Tensor], z: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """The slope of an elementwise function from rest to z, and its value at rest; a tangent's where that is not finite."""

    def derivative(at: Tensor) -> Tensor:
        with torch.enable_grad():
            at = at.detach().clone().requires_grad_()
            return torch.autograd.grad(function(at).sum(), at)[0]

    value, start, at_end = function(z), function(rest), derivative(z)
    is_near = (z - rest).abs() <= 1e-3 * (1 + z.abs() + rest.abs())
    mean = (derivative(rest) + 4 * derivative((z + rest) / 2) + at_end) / 6  # Simpson's rule
    slope = torch.where(is_near, mean, (value - start) / torch.where(is_near, 1.0, z - rest))
    slope = torch.where(start.isfinite(), slope, at_end)
    return slope.detach(), torch.where(start.isfinite(), start, value - slope * (z - rest)).detach()


def partition_weights(z: Tensor, rest: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """∫ softmax(z⁰ + t (z − z⁰)) dt from 0 to 1, by Simpson's rule on 400 pieces."""
    found = torch.zeros_like(z)
    for n in range(801):
        point = rest + n / 800 * torch.where(z.isinf(), 0.0, z - rest)
        found += (1 if n in (0, 800) else 4 if n % 2 else 2) / 2400 * (point - point.logsumexp(dim, keepdim=True)).exp()
    return found


def finished(z: Tensor) -> Tensor:
    """A neuron as others use it: one that is exactly 0 has no relevance, so it hands nothing on to the terms of its sum."""
    return torch.where(z == 0, z.detach(), z)


def leaves_of(tree: Any) -> list[Any]:
    """The leaves of nested tuples, lists and dictionaries."""
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in leaves_of(item)]
    if isinstance(tree, (tuple, list)) and not isinstance(tree, torch.Size):
        return [leaf for item in tree for leaf in leaves_of(item)]
    return [tree]


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with every leaf replaced."""
    if isinstance(tree, dict):
        return {key: mapped(function, item) for key, item in tree.items()}
    if isinstance(tree, (tuple, list)) and not isinstance(tree, torch.Size):
        items = [mapped(function, item) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return function(tree)


def tensors_of(tree: Any) -> list[Tensor]:
    """The tensors of a structure."""
    return [leaf for leaf in leaves_of(tree) if isinstance(leaf, Tensor)]


def origins_of(tensor: Tensor) -> list[Tensor]:
    """The leaves that a tensor was computed from, as autograd knows them."""
    found, waiting, seen = list[Tensor](), [tensor.grad_fn], set[Any]()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(each for each, _ in node.next_functions)
        if hasattr(node, "variable"):
            found.append(cast(Any, node).variable)
    return found


def name_of(func: Callable[..., Any]) -> str:
    """One name for a function, its method and its operator; an in-place name keeps its underscore."""
    name: str = getattr(func, "__name__", repr(func))
    if name == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", name)
    if name in OPERATORS:
        return OPERATORS[name]
    stem = name if name.startswith("__") else name.strip("_")
    return OPERATORS.get(stem, stem)


def is_in_place(func: Callable[..., Any]) -> bool:
    """Whether a spelling writes into its first argument."""
    name: str = getattr(func, "__name__", "")
    return (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and name in OPERATORS)


class Slopes(TorchFunctionMode):
    """Replaces calls as said above."""

    def __init__(self, product: str, model: nn.Module) -> None:
        super().__init__()
        self.product = product
        self.notes: dict[int, Note] = {}
        self.trained = {p.untyped_storage().data_ptr() for p in model.parameters()} - {0}
        self.buffers = {b.untyped_storage().data_ptr() for b in model.buffers()} - {0}
        self.derived: dict[int, Tensor] = {}  # computed from weights and buffers alone
        self.erased: dict[int, Tensor] = {}  # hold constants alone, though autograd does not know it
        self.ids = Ids(self)

    # What is known of tensors

    def note(self, thing: Any) -> Note | None:
        return self.notes.get(id(thing)) if isinstance(thing, Tensor) else None

    def is_live(self, thing: Any) -> bool:
        note = self.note(thing)
        return note is not None and note.is_live

    def rank(self, thing: Any) -> int:
        note = self.note(thing)
        return SOURCE if note is None else note.rank

    def noted(self, tree: Any) -> list[Note]:
        """The notes of a structure's tensors, each once."""
        found = {id(each): self.notes[id(each)] for each in tensors_of(tree) if id(each) in self.notes}
        return list(found.values())

    def form(self, thing: Any) -> Any:
        """A tensor with the slopes from its value at rest, where it has one."""
        note = self.note(thing)
        if note is None or note.apart is None:
            return thing
        if note.version != thing._version:
            raise NotCovered("a value with a value at rest that was written over through a view")
        return note.apart

    def rest(self, thing: Any) -> Any:
        """What a tensor is when the sums below it are 0; a constant is what it is."""
        note = self.note(thing)
        if note is None or not note.is_live:
            return thing.detach() if isinstance(thing, Tensor) else thing
        return torch.zeros_like(thing).detach() if note.start is None else note.start

    def rests(self, tree: Any) -> bool:
        return any(note.apart is not None for note in self.noted(tree))

    def standing(self, result: Tensor, apart: Tensor, start: Tensor) -> Tensor:
        """Note the second form of a result."""
        note = self.notes[id(result)]
        if note.is_live:
            start = start.detach().expand(result.shape)
            self.notes[id(result)] = note._replace(apart=exactly(result, apart), start=start, version=result._version)
        return result

    def stand(self, result: Any, func: Callable[..., Any], args: Any, kwargs: Any = None, *, is_pick: bool = False) -> Any:
        """Note the second forms of what a call made: the call on second forms, and on values at rest."""
        kwargs = kwargs or {}
        if not self.rests((args, kwargs)):
            return result
        again = tensors_of(func(*mapped(self.form, args), **mapped(self.form, kwargs)))
        if is_pick:
            starts = self.picked(func, args, kwargs)
        else:
            starts = tensors_of(func(*mapped(self.rest, args), **mapped(self.rest, kwargs)))
        for each, apart, start in zip(tensors_of(result), again, starts, strict=True):
            if id(each) in self.notes:
                self.standing(each, apart, start)
        return result

    def picked(self, func: Callable[..., Any], args: Any, kwargs: Any) -> list[Tensor]:
        """The values at rest of what a call picks by the values themselves."""
        given = list({id(each): each for each in tensors_of((args, kwargs)) if each.is_floating_point()}.values())

        def flat(*values: Tensor) -> tuple[Tensor, ...]:
            by_id = {id(each): value for each, value in zip(given, values, strict=True)}
            args_, kwargs_ = mapped(lambda leaf: by_id.get(id(leaf), leaf), (args, kwargs))
            return tuple(each for each in tensors_of(func(*args_, **kwargs_)) if each.is_floating_point())

        values = tuple(each.detach() for each in given)
        found = iter(torch.autograd.functional.jvp(flat, values, tuple(self.rest(each).expand_as(each) for each in given))[1])
        return [next(found).detach() if each.is_floating_point() else each for each in tensors_of(func(*args, **kwargs))]

    def put(self, result: Any, given: Any, rank: int = SOURCE, *, is_combined: bool = False) -> Any:
        """Note a result that was computed from what is given."""
        live = any(note.is_live for note in self.noted(given))
        for each in tensors_of(result):
            if each.is_floating_point() or each.is_complex():
                self.notes[id(each)] = Note(each, live, SOURCE if each.is_complex() else rank, is_combined)
        return result

    def common(self, given: Any) -> int:
        """The rank of what is made of gates alone: the lowest of theirs; 0 if there is a source."""
        return min((note.rank for note in self.noted(given)), default=SOURCE)

    def is_trained(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() in self.trained

    def holds(self, tensor: Tensor) -> bool:
        return id(tensor) in self.derived or self.is_trained(tensor) or tensor.untyped_storage().data_ptr() in self.buffers

    def is_weight(self, constant: Tensor, beside: Tensor) -> bool:
        """Whether a constant beside a gate is a weight, a buffer or a mask; otherwise it is an initial state."""
        if self.holds(constant):
            return constant.dim() < beside.dim() or beside.dim() > 2
        return bool(((constant == 0) | (constant == 1)).all()) and bool(constant.any())

    # Calls

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch.enable_grad():
            return self.follow(func, args, kwargs or {})

    def follow(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        name, tensors = name_of(func), tensors_of((args, kwargs))
        if name == "retain_grad":
            return None
        if maybe_current_level() is not None:
            raise NotCovered("calls inside torch.func")
        for tensor in tensors:
            self.disown(tensor)
        if (found := self.ids.answer(name, func, args, kwargs)) is not None:
            return found
        if not self.noted(tensors) and not self.feeds_constants(name, tensors):
            with torch.no_grad():
                result = func(*args, **kwargs)
            floats = [each for each in tensors if each.is_floating_point()]
            if floats and all(map(self.holds, floats)):
                self.derived.update((id(each), each) for each in tensors_of(result))
            self.ids.follow(name, func, args, kwargs, result)
            return result
        for operand in OPERANDS:
            if operand in kwargs:
                args, kwargs = (*args, kwargs[operand]), {key: value for key, value in kwargs.items() if key != operand}
        if kwargs.get("out") is not None:
            raise NotCovered(f"{name} with out=")
        if is_in_place(func) or kwargs.get("inplace") or name == "setitem":
            return self.in_place(name, func, args, {key: value for key, value in kwargs.items() if key != "inplace"})
        return self.called(name, func, args, kwargs)

    def disown(self, tensor: Tensor) -> None:
        """A tensor that asks for a gradient of its own is a constant here."""
        if tensor.requires_grad and id(tensor) not in self.notes and id(tensor) not in self.erased:
            if any(id(each) in self.notes for each in origins_of(tensor)):
                raise NotCovered("a tensor whose computation was not seen")
            if tensor._is_view():
                self.erased[id(tensor)] = tensor
            else:
                tensor.detach_()

    def feeds_constants(self, name: str, tensors: Sequence[Tensor]) -> bool:
        """Whether constants pass through weights here; they are noted from then on."""
        floats = [each for each in tensors if each.is_floating_point()]
        trained = sorted(map(self.is_trained, floats)) == [False, True]
        if name != "linear" and not (name in ("matmul", "mm", "rmatmul", "einsum") and trained):
            return False
        first = next(each for each in tensors if name == "linear" or not self.is_trained(each))
        self.notes[id(first)] = Note(first, False)
        return True

    def in_place(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        target, content = args[0], (args[1:], kwargs)
        if not any(note.is_live for note in self.noted((target, content))) or (
            name in ("zero", "fill") and not self.noted(content)
        ):
            self.notes.pop(id(target), None)  # from now on it holds only constants
            self.erased[id(target)] = target
            return func(*args, **kwargs)
        base = target if target._base is None else target._base
        if target._base is not None and self.rests((target, base, content)):
            raise NotCovered("a change in place, through a view, of a value with a value at rest")
        if name in ("setitem", "copy"):
            rank = self.common((target, content) if name == "setitem" else content)
            forms = [mapped(each, args) for each in (self.form, self.rest)] if self.rests((target, content)) else []
            forms = [(each[0].clone(), *each[1:]) for each in forms]
            func(*args, **kwargs)
            self.put(target, (target, content), rank)
            if forms:
                for each in forms:
                    func(*each, **kwargs)
                self.standing(target, forms[0][0], forms[1][0])
            return target
        plain = next((getattr(home, name) for home in (Tensor, torch, F) if hasattr(home, name)), None)
        if plain is None:
            raise NotCovered(f"{name} in place")
        result = self.called(name, plain, args, kwargs)
        note = self.notes[id(result)]
        if (rests := note.apart is not None) and note.version != result._version:
            raise NotCovered("a value with a value at rest that was written over")
        if name in ("squeeze", "unsqueeze", "transpose", "t"):
            func(*args, **kwargs)
        else:
            target.copy_(result)
        self.notes[id(target)] = note._replace(tensor=target, version=target._version if rests else 0)
        return target

    def called(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call out of place, with its slopes replaced."""
        first = args[0] if args else None
        if (own := getattr(self, f"call_{name}", None)) is not None:
            return own(*args, **kwargs)
        if name in SUMS:
            return self.sum(name, func, args, kwargs)
        if name in ACTIVATIONS:
            return self.activation(name, func, args, kwargs)
        if name in LIKE:
            result = func(*args, **kwargs)
            if self.note(first) is None or result is first:
                return result
            return self.stand(self.put(result, first, self.rank(first)), func, args, kwargs)
        if name in DROPOUTS:
            rate, active = (*args[1:3], *(0.5, True)[len(args) - 1 :])[:2]
            if kwargs.get("training", kwargs.get("train", active)) and kwargs.get("p", rate) > 0:
                raise NotCovered("active dropout")
            return self.stand(self.put(cast(Tensor, first) * 1.0, first, self.rank(first)), lambda z: z * 1.0, (first,))
        if name == "view" and not isinstance(args[1], torch.dtype):
            func = Tensor.reshape  # products computed in another way may lie otherwise in memory
        if name in MOVES:
            given = {id(each) for each in tensors_of((args, kwargs))}
            result = mapped(lambda leaf: leaf.view_as(leaf) if id(leaf) in given else leaf, func(*args, **kwargs))
            self.put(result, (args, kwargs), self.common((args, kwargs)))
            kinds = {note.kind for note in self.noted((args, kwargs))}
            if kinds == {"partition"} and isinstance(result, Tensor) and id(result) in self.notes:
                self.notes[id(result)] = self.notes[id(result)]._replace(kind="partition")
            return self.stand(result, func, args, kwargs, is_pick=name in PICKS)
        if name in REDUCTIONS:
            result, note = self.put(func(*args, **kwargs), args, self.rank(first)), self.note(first)
            kind = "partition" if name == "sum" and note is not None and note.kind == "exponential" else ""
            self.notes[id(result)] = self.notes[id(result)]._replace(kind=kind)
            return self.stand(result, func, args, kwargs)
        if name in POOLS | COMPLEX:
            return self.stand(self.put(func(*args, **kwargs), args), func, args, kwargs)
        if name in FACTORS:
            return self.multilinear(lambda *both: func(*both, *args[2:], **kwargs), args[:2])
        if name in CONVOLUTIONS:
            return self.convolution(func, *args, **kwargs)
        if name in CONSTANT and not self.noted((args[1:], kwargs)):
            return func(*args, **kwargs)
        return self.blocked(name, func, args, kwargs)

    def blocked(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call without a slope; harmless if no relevance reaches it."""
        live = [each for each in tensors_of((args, kwargs)) if self.is_live(each)]
        result = func(*args, **kwargs)
        if any(result is each for each in args):
            return result
        if live and any(isinstance(each, (float, complex, np.ndarray)) for each in leaves_of(result)):
            raise NotCovered(f"{name}: numbers leave the tensors")

        def stop(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
                return leaf
            return Blocked.apply(name, leaf.detach(), *live)

        return self.put(mapped(stop, result), (args, kwargs))

    # Sums

    def sum(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        alpha = kwargs.get("alpha", 1)
        if name in ("neg", "negative"):
            terms = [(args[0], -1)]
        else:
            one, other = args[:2]
            alpha = args[2] if len(args) > 2 else alpha
            terms = {"add": [(one, 1), (other, alpha)], "rsub": [(other, 1), (one, -alpha)]}.get(
                name, [(one, 1), (other, -alpha)]
            )
        if any(note.kind == "source" and note.apart is None for note in self.noted(args)):  # a cell's new content
            args = tuple(self.behind_gate(each) for each in args)
        return self.stand(self.put_sum(func(*args, **kwargs), terms), func, args, kwargs)

    def behind_gate(self, term: Any) -> Any:
        """A gate times a constant as a former state, a constant."""
        note = self.note(term)
        return term.detach().clone() if note is not None and note.kind in ("state", "whole state") else term

    def put_sum(self, result: Tensor, terms: Sequence[tuple[Any, Any]], given: Sequence[Any] = ()) -> Tensor:
        """Note a sum of scaled terms. One minus a gate, or another shift within [0, 1], is an activation of that gate."""
        terms = [(self.as_number(term), scale) for term, scale in terms]
        noted = self.noted(([term for term, _ in terms], list(given)))
        rank, is_combined = self.rank_of_sum(terms, noted), all(note.rank for note in noted)
        scales = [scale for term, scale in terms if self.note(term) is not None]
        if rank and len(noted) == 1 and not any(isinstance(scale, Tensor) for _, scale in terms):
            at_zero = sum(float(term) * float(scale) for term, scale in terms if not isinstance(term, Tensor))
            if max(at_zero, at_zero + sum(map(float, scales))) <= 1 and noted[0].is_live and len(terms) > 1:
                result = through(result, noted[0].tensor.expand(result.shape))
        return self.put(result, [note.tensor for note in noted], rank, is_combined=is_combined)

    def as_number(self, term: Any) -> Any:
        """A constant tensor that holds one number all over counts as that number: torch.ones_like(z) − z."""
        is_constant = isinstance(term, Tensor) and self.note(term) is None and not term.is_complex() and term.numel() > 0
        if not is_constant or bool((term != term.reshape(-1)[0]).any()):
            return term
        return float(term.reshape(-1)[0])

    def rank_of_sum(self, terms: Sequence[tuple[Any, Any]], noted: Sequence[Note]) -> int:
        """The lowest rank of a sum of gates and numbers, if it cannot be negative."""
        lowest = 0.0
        for term, scale in terms:
            if isinstance(term, Tensor) and self.rank(term) == SOURCE:
                return SOURCE
            smallest = float(scale.min()) if isinstance(scale, Tensor) and scale.numel() else float(scale)
            lowest += min(smallest, 0.0) if isinstance(term, Tensor) else term * smallest
        return min(note.rank for note in noted) if lowest >= 0 else SOURCE

    # Products

    def call_mul(self, a: Any, b: Any) -> Tensor:
        live = [each for each in (a, b) if self.is_live(each)]
        if not live:
            return self.put(a * b, (a, b), self.rank_of_product(a, b), is_combined=self.common((a, b)) > SOURCE)
        if len(live) == 2:
            return self.times(a, b)
        gate, other = (a, b) if live[0] is a else (b, a)
        if any(each.is_complex() for each in tensors_of((a, b))):
            return self.put(finished(gate) * other, gate)
        if isinstance(other, Tensor) and other.is_floating_point():
            scales = self.rests(gate) and self.note(other) is None and self.product == "all" and bool(other.any())
            if self.rank(gate) and (self.note(other) is not None or not self.is_weight(other, gate)) and not scales:
                return self.times(gate, other)
            if self.is_trained(other) and not scales:
                return self.stand(self.put(finished(gate) * other, gate), torch.mul, (gate, other))
            result = self.stand(self.put_sum(gate * other, [(gate, other)], given=[other]), torch.mul, (gate, other))
            whole = "whole state" if other.dim() == result.dim() <= 2 else "state"
            kind = whole if self.rank(gate) and scales else ""
            self.notes[id(result)] = self.notes[id(result)]._replace(kind=kind)
            return result
        return self.stand(self.put_sum(gate * other, [(gate, other)], given=[other]), torch.mul, (gate, other))

    def times(self, a: Tensor, b: Tensor) -> Tensor:
        """a ⊙ b with each factor's slope scaled to its part of relevance; a constant's part ends there."""
        x, y = a.detach().clone(), b.detach().clone()
        share = self.share(self.rank(a), self.rank(b), x, y)
        one, other = finished(a) if self.is_live(a) else x, finished(b) if self.is_live(b) else y
        result = exactly(x * y, share * one * y + (1 - share) * x * other)
        rank = self.rank_of_product(a, b)
        self.put(result, (a, b), rank, is_combined=rank > SOURCE)
        return self.product_at_rest(result, a, b) if self.is_live(a) and self.is_live(b) else result

    def product_at_rest(self, result: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Note the second form of a ⊙ b: by means, or with the gate as a constant weight."""
        x, y, has = a.detach(), b.detach(), (self.rests(a), self.rests(b))
        of_a, of_b = self.rank(a), self.rank(b)
        sums = [result.detach().sum(axis) for axis in range(result.dim())]
        if {of_a, of_b} == {NORMALISER, POSITIVE} and any(bool(((each - 1).abs() < 1e-9).all()) for each in sums):
            return self.standing(result, Blocked.apply("a softmax by hand", result.detach(), result), result)
        if all(has) if self.product != "all" else of_a == of_b and any(has):
            u, v = self.rest(a), self.rest(b)
            return self.standing(result, self.form(a) * (y + v) / 2 + self.form(b) * (x + u) / 2, u * v)
        if self.product != "all":
            return result
        if of_a != of_b:
            self.notes[id(result)] = self.notes[id(result)]._replace(kind="source")
            source, by = (a, y) if of_a < of_b else (b, x)
            return self.stand(result, lambda z: z * by, (source,))
        return result

    def rank_of_product(self, a: Any, b: Any) -> int:
        """The lowest rank of two gates; a positive number times a normaliser is squashed, as in exp(a) / Σ exp(a)."""
        ranks = {note.rank for note in self.noted((a, b))}
        return SQUASHED if ranks == {NORMALISER, POSITIVE} else min(ranks, default=SOURCE)

    def share(self, of_a: int, of_b: int, x: Tensor, y: Tensor) -> Tensor | float:
        """The first factor's part of relevance."""
        if self.product == "all":
            return 0.5 if of_a == of_b else float(of_a < of_b)
        if self.product == "half":
            return 0.5
        return ratio(x + 0 * y, x + y) if self.product == "prop" else ratio(x.abs() + 0 * y, x.abs() + y.abs())

    def call_div(self, a: Any, b: Any, *, rounding_mode: str | None = None) -> Tensor:
        if rounding_mode is not None:
            return self.blocked("div with rounding", torch.div, (a, b), {"rounding_mode": rounding_mode})
        if self.is_live(b):
            return self.call_rdiv(b, a)
        if any(each.is_complex() for each in tensors_of((a, b))):
            return self.put(a / b, a)
        return self.stand(self.put_sum(a / b, [(a, 1 / b)], given=[b]), torch.div, (a, b))

    def call_rdiv(self, b: Tensor, a: Any) -> Tensor:
        """a / b."""
        inverse = self.activation("reciprocal", torch.reciprocal, (b,), {})
        return self.call_mul(inverse, a)

    def call_square(self, z: Tensor) -> Tensor:
        return self.times(z, z)

    def call_cumprod(self, z: Tensor, dim: int, **_: Any) -> Tensor:
        with self:
            found = [z.select(dim, 0)]
            for n in range(1, z.shape[dim]):
                found.append(found[-1] * z.select(dim, n))
            return torch.stack(found, dim)

    def call_prod(self, z: Tensor, dim: int | None = None, keepdim: bool = False, **_: Any) -> Tensor:
        with self:
            z, axis = (z.reshape(-1), 0) if dim is None else (z, dim)
            found = z.cumprod(axis).select(axis, -1)
            return found.unsqueeze(axis) if keepdim else found

    def call_gate(self, z: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return self.put(z * 1.0, z, MARKED)

    def multilinear(self, function: Callable[..., Tensor], operands: Sequence[Tensor]) -> Tensor:
        """A function linear in every operand: the live ones of the lowest rank get equal parts, the others are constants."""
        live = [n for n, each in enumerate(operands) if self.is_live(each)]
        lowest = min((self.rank(operands[n]) for n in live), default=SOURCE)
        sources = [n for n in live if self.rank(operands[n]) == lowest]
        if not sources:
            return self.put(function(*operands), operands)
        if len(live) == 1 and self.rests(operands[live[0]]):
            return self.weighed(function, operands, live[0])
        if len(live) > 1 and self.product != "all":
            return self.taken_apart(function, operands)
        plain = [each.detach().clone() for each in operands]
        forms = [self.form(each) for each in operands]
        parts = [function(*(finished(forms[m]) if m == n else plain[m] for m in range(len(operands)))) for n in sources]
        return self.put(exactly(parts[0], torch.stack(parts).mean(0)), operands)

    def weighed(self, function: Callable[..., Tensor], operands: Sequence[Tensor], place: int) -> Tensor:
        """A value with a value at rest through weights: trained ones make a true sum of it, others scale and add it up."""
        others = [each for n, each in enumerate(operands) if n != place]
        forms = [self.form(each) for each in operands]
        if any(self.is_trained(each) and each.dim() > 1 for each in others):
            if self.notes[id(operands[place])].kind == "whole state":
                return self.put(function(*(each.detach() for each in operands)), operands)
            return self.put(function(*forms), operands)
        return self.stand(self.put(function(*operands), operands), function, operands)

    def taken_apart(self, function: Callable[..., Tensor], operands: Sequence[Tensor]) -> Tensor:
        raise NotCovered(f"a product of several factors by the rule {self.product!r}")

    def call_matmul(self, a: Tensor, b: Tensor) -> Tensor:
        if self.product == "all" or not (self.is_live(a) and self.is_live(b)):
            return self.multilinear(torch.matmul, (a, b))
        with self:
            rows, columns = a if a.dim() > 1 else a[None], b if b.dim() > 1 else b[:, None]
            found = (rows.unsqueeze(-1) * columns.unsqueeze(-3)).sum(-2)
            found = found if b.dim() > 1 else found.squeeze(-1)
            return found if a.dim() > 1 else found.squeeze(-1 if b.dim() == 1 else -2)

    call_mm = call_bmm = call_mv = call_dot = call_matmul

    def call_rmatmul(self, a: Tensor, b: Tensor) -> Tensor:
        return self.call_matmul(b, a)

    def call_einsum(self, equation: str, *operands: Any) -> Tensor:
        factors = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
        if self.product == "all" or sum(map(self.is_live, factors)) < 2:
            return self.multilinear(lambda *given: torch.einsum(equation, *given), factors)
        *names, out = equation.replace(" ", "").replace("->", ",").split(",")
        with self:
            while len(factors) > 1:
                a, b, left, right = factors[0], factors[1], names[0], names[1]
                kept = "".join(dict.fromkeys(c for c in left + right if c in out + "".join(names[2:])))
                kept = out if len(factors) == 2 else kept
                letters = kept + "".join(dict.fromkeys(c for c in left + right if c not in kept))
                joint = self.aligned(a, left, letters) * self.aligned(b, right, letters)
                summed = tuple(range(len(kept), len(letters)))
                factors[:2], names[:2] = [joint.sum(summed) if summed else joint], [kept]
            return factors[0]

    def aligned(self, tensor: Tensor, names: str, letters: str) -> Tensor:
        tensor = tensor.permute([names.index(letter) for letter in letters if letter in names])
        for axis, letter in enumerate(letters):
            tensor = tensor if letter in names else tensor.unsqueeze(axis)
        return tensor

    def call_bilinear(self, a: Tensor, b: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if self.product == "all" or not (self.is_live(a) and self.is_live(b)):
            return self.biased(self.multilinear(F.bilinear, (a, b, weight)), bias)
        with self:
            found = torch.einsum("nj,nkj->nk", b.flatten(0, -2), torch.einsum("ni,kij->nkj", a.flatten(0, -2), weight))
            found = found.reshape(*a.shape[:-1], -1)
            return found if bias is None else found + bias

    def call_linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if self.product == "all" or not (self.is_live(x) and self.is_live(weight)):
            return self.biased(self.multilinear(F.linear, (x, weight)), bias)
        with self:
            found = (x.unsqueeze(-2) * weight).sum(-1)
            return found if bias is None else found + bias

    def convolution(
        self, func: Callable[..., Any], x: Tensor, weight: Tensor, bias: Any = None, *more: Any, **kw: Any
    ) -> Tensor:
        found = self.multilinear(lambda x, w: func(x, w, None, *more, **kw), (x, weight))
        return self.biased(found, None if bias is None else bias.view(-1, *(1,) * (weight.dim() - 2)))

    def biased(self, z: Tensor, bias: Tensor | None) -> Tensor:
        if bias is None:
            return z
        with self:
            return z + bias

    # Activations

    def activation(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        z = args[0]
        if not isinstance(z, Tensor) or z.is_complex() or self.noted((args[1:], kwargs)):
            return self.blocked(f"{name} of complex numbers or with live settings", func, args, kwargs)
        value = func(z.detach(), *args[1:], **kwargs)
        rank = self.rank_of_activation(name, args, kwargs)
        result = self.put(through(value, z) if self.is_live(z) else value, z, rank)
        return self.activation_at_rest(name, func, args, kwargs, result) if self.is_live(z) else result

    def activation_at_rest(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, result: Tensor) -> Tensor:
        """Note the second form of an activation, if it is not 0 at 0 or what it is of has one."""
        x, z, rest = self.form(args[0]), args[0].detach(), self.rest(args[0])
        if name in ("softmax", "softmin", "log_softmax"):
            dim, sign = kwargs.get("dim", args[1] if len(args) > 1 else None), -1 if name == "softmin" else 1
            if dim is None:
                raise NotCovered(f"{name} without an axis")
            rest = torch.where(z.isinf(), z, rest)
            weights = partition_weights(sign * z, sign * rest, dim)
            x = sign * torch.where(z.isinf(), 0.0, x)
            log, start = x - (weights * x).sum(dim, keepdim=True), (sign * rest).log_softmax(dim)
            if name == "log_softmax":
                return self.standing(result, log, start)
            slope, start = secant(torch.exp, *((each.nan_to_num(neginf=-700.0)) for each in (result.detach().log(), start)))
            return self.standing(result, slope * log, start)

        def again(at: Tensor) -> Tensor:
            return func(at, *args[1:], **kwargs)

        if not self.rests(args[0]) and not bool(again(rest).any()):
            return result
        if name == "log" and self.notes[id(args[0])].kind == "partition":
            return self.standing(result, Blocked.apply("a logsumexp by hand", result.detach(), result), result)
        if name == "exp" and not self.rests(args[0]):
            self.notes[id(result)] = self.notes[id(result)]._replace(kind="exponential")
        slope, start = secant(again, z, rest)
        return self.standing(result, slope * x, start)

    def call_logsumexp(self, z: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
        result = self.put(z.logsumexp(dim, keepdim=keepdim), z)
        if not self.is_live(z):
            return result
        weights = partition_weights(z.detach(), self.rest(z), dim)
        return self.standing(result, (weights * self.form(z)).sum(dim, keepdim), self.rest(z).logsumexp(dim, keepdim))

    def rank_of_activation(self, name: str, args: Any, kwargs: Any) -> int:
        note = self.note(args[0])
        given = SOURCE if note is None else note.rank
        if name == "log_softmax":
            return SOURCE
        if name == "exp":
            return SQUASHED if note is not None and note.is_combined else POSITIVE
        if name == "pow":
            exponent = args[1]
            return NORMALISER if isinstance(exponent, (int, float)) and exponent < 0 else given
        if name in ("hardtanh", "clamp", "clip"):
            low, high = (*args[1:], None, None)[:2]
            low, high = kwargs.get("min", kwargs.get("min_val", low)), kwargs.get("max", kwargs.get("max_val", high))
            is_unit = isinstance(low, (int, float)) and isinstance(high, (int, float)) and 0 <= low <= high <= 1
            return SQUASHED if is_unit else given
        return OWN_RANK.get(name, given)

    # Calls that are several of the others

    def call_detach(self, z: Tensor) -> Tensor:
        return self.stand(self.put(z.view(z.shape), z, self.rank(z)), lambda at: at.view(at.shape), (z,))

    call_data = call_detach

    def call_reversed(self, z: Tensor) -> Tensor:
        with self:
            return z.flip(0)

    def call_addmm(self, z: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        with self:
            product = a @ b
            return (z if beta == 1 else z * beta) + (product if alpha == 1 else product * alpha)

    call_addmv = call_baddbmm = call_addmm

    def call_addcmul(self, z: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
        with self:
            product = a * b
            return z + (product if value == 1 else product * value)

    def call_lerp(self, start: Tensor, end: Tensor, weight: Any) -> Tensor:
        with self:
            return (1 - weight) * start + weight * end

    def call_glu(self, z: Tensor, dim: int = -1) -> Tensor:
        with self:
            content, gate = z.chunk(2, dim)
            return content * gate.sigmoid()

    def call_layer_norm(
        self, x: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
    ) -> Tensor:
        axes, given = tuple(range(-len(shape), 0)), x
        scale = (x.var(axes, unbiased=False, keepdim=True) + eps).rsqrt().detach()
        x = finished(self.form(x))
        z = (x - x.mean(axes, keepdim=True)) * scale
        z = z if weight is None else z * weight
        return self.put(z if bias is None else z + bias, given)

    def call_group_norm(self, x: Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
        grouped = x.reshape(len(x), groups, -1)
        self.stand(self.put(grouped, x), lambda at: at.reshape(grouped.shape), (x,))
        z = self.call_layer_norm(grouped, grouped.shape[-1:], eps=eps).reshape(x.shape)
        shape = (-1, *(1,) * (x.dim() - 2))
        z = z if weight is None else z * weight.view(shape)
        return self.put(z if bias is None else z + bias.view(shape), x)

    def call_batch_norm(
        self, x: Tensor, mean: Any, var: Any, weight: Any = None, bias: Any = None, training: bool = False,
        momentum: float = 0.1, eps: float = 1e-5, *_: Any,
    ) -> Tensor:  # fmt: skip
        if training or mean is None or var is None:
            raise NotCovered("batch_norm with the statistics of the batch")
        return self.put(F.batch_norm(finished(self.form(x)), mean, var, weight, bias, False, momentum, eps), x)

    def call_rms_norm(self, x: Tensor, shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
        axes = tuple(range(-len(shape), 0))
        with self:
            size = (x * x).mean(axes, keepdim=True) + (torch.finfo(x.dtype).eps if eps is None else eps)
            normed = x * self.call_gate(size.rsqrt())
            return normed if weight is None else normed * weight

    def call_normalize(self, x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, **_: Any) -> Tensor:
        with self:
            size = (x * x).sum(dim, keepdim=True).sqrt() if p == 2 else x.norm(p, dim, keepdim=True)
            return x * self.call_gate(size.clamp_min(eps).reciprocal())

    def call_scaled_dot_product_attention(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Tensor:  # fmt: skip
        if dropout_p > 0:
            raise NotCovered("active dropout")
        with self:
            if enable_gqa:
                times = query.shape[-3] // key.shape[-3]
                key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
            scores = query @ key.mT * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
            if is_causal:
                attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
            if attn_mask is not None:
                is_bool = attn_mask.dtype == torch.bool
                scores = scores.masked_fill(~attn_mask, -math.inf) if is_bool else scores + attn_mask
            return scores.softmax(-1) @ value

    def call_multi_head_attention_forward(
        self, query: Tensor, key: Tensor, value: Tensor, size: int, heads: int, in_weight: Any, in_bias: Any, bias_k: Any,
        bias_v: Any, add_zero_attn: bool, dropout_p: float, out_weight: Tensor, out_bias: Any, training: bool = True,
        key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None, use_separate_proj_weight: bool = False,
        q_proj_weight: Any = None, k_proj_weight: Any = None, v_proj_weight: Any = None, static_k: Any = None,
        static_v: Any = None, average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        given = (bias_k, bias_v, static_k, static_v)
        if any(each is not None for each in given) or add_zero_attn or (training and dropout_p > 0):
            raise NotCovered("multi_head_attention_forward with biases, static keys or dropout")
        separate = (q_proj_weight, k_proj_weight, v_proj_weight)
        weights = separate if use_separate_proj_weight else in_weight.chunk(3)
        biases = (None,) * 3 if in_bias is None else in_bias.chunk(3)
        with self:
            is_alone = query.dim() == 2
            if is_alone:
                query, key, value = (each.unsqueeze(1) for each in (query, key, value))
                key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
            q, k, v = (
                F.linear(each, weight, bias).unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)  # (B, heads, L, E / heads)
                for each, weight, bias in zip((query, key, value), weights, biases, strict=True)
            )
            scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]))
            if attn_mask is not None and attn_mask.dim() == 3:
                attn_mask = attn_mask.reshape(-1, heads, *attn_mask.shape[-2:])
            for mask in (attn_mask, None if key_padding_mask is None else key_padding_mask[:, None, None]):
                if mask is not None:
                    scores = scores.masked_fill(mask, -math.inf) if mask.dtype == torch.bool else scores + mask
            attention = scores.softmax(-1)
            out = F.linear((attention @ v).permute(2, 0, 1, 3).flatten(2), out_weight, out_bias)
            shown = (attention.mean(1) if average_attn_weights else attention) if need_weights else None
            if is_alone:
                out, shown = out.squeeze(1), None if shown is None else shown.squeeze(0)
            return out, shown

    # Recurrent layers, unrolled

    def gated(self, gate: Tensor, source: Tensor) -> Tensor:
        """gate ⊙ source, where it is known which is which; the source may be a constant initial state."""
        with torch._C.DisableTorchFunction():
            if self.rank(source):  # such as a state that is a sigmoid of something: here it is the content all the same
                source = self.stand(self.put(source * 1.0, source), lambda z: z * 1.0, (source,))
            result = self.times(gate, source)
            note = self.notes[id(result)]
            self.put(result, (gate, source))
            return result if note.apart is None else self.standing(result, note.apart, cast(Tensor, note.start))

    def step(self, kind: str, x: Tensor, state: Sequence[Tensor], w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> list[Tensor]:
        """One step of a cell, in the order of PyTorch's gates: i, f, g, o (LSTM) or r, z, n (GRU); its calls are followed."""
        h = state[0]
        from_x, from_h = F.linear(x, w_ih, b_ih), F.linear(h, w_hh, b_hh)
        if kind in ("rnn_tanh", "rnn_relu"):
            return [(from_x + from_h).tanh() if kind == "rnn_tanh" else (from_x + from_h).relu()]
        if kind == "lstm":
            i, f, g, o = (from_x + from_h).chunk(4, -1)
            c = self.gated(f.sigmoid(), state[1]) + self.gated(i.sigmoid(), g.tanh())
            return [self.gated(o.sigmoid(), c.tanh()), c]
        (r_x, z_x, n_x), (r_h, z_h, n_h) = from_x.chunk(3, -1), from_h.chunk(3, -1)
        r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
        n = (n_x + self.gated(r, n_h)).tanh()
        return [self.gated(1 - z, n) + self.gated(z, h)]

    def call_cell(self, kind: str, x: Tensor, state: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        given = (x, state)
        with self:
            found = self.step(kind, x, state if isinstance(state, (tuple, list)) else [state], w_ih, w_hh, b_ih, b_hh)
        self.put(found, given)
        return found[0] if len(found) == 1 else tuple(found)

    def call_lstm_cell(self, *args: Any) -> Any:
        return self.call_cell("lstm", *args)

    def call_gru_cell(self, *args: Any) -> Any:
        return self.call_cell("gru", *args)

    def call_rnn_tanh_cell(self, *args: Any) -> Any:
        return self.call_cell("rnn_tanh", *args)

    def call_rnn_relu_cell(self, *args: Any) -> Any:
        return self.call_cell("rnn_relu", *args)

    def call_lstm(self, *args: Any) -> Any:
        return self.recurrent("lstm", *args)

    def call_gru(self, *args: Any) -> Any:
        return self.recurrent("gru", *args)

    def call_rnn_tanh(self, *args: Any) -> Any:
        return self.recurrent("rnn_tanh", *args)

    def call_rnn_relu(self, *args: Any) -> Any:
        return self.recurrent("rnn_relu", *args)

    def recurrent(self, kind: str, data: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        """A whole layer, padded or packed: torch.lstm(data, states, …) or torch.lstm(data, batch_sizes, states, …)."""
        is_packed = isinstance(rest[2], (list, tuple))
        states, flat, has_biases, layers, dropout, train, is_bidirectional = rest[is_packed:][:7]
        batch_first = not is_packed and rest[7]
        states, directions = list(states) if isinstance(states, (tuple, list)) else [states], 1 + is_bidirectional
        if train and dropout > 0 and layers > 1:
            raise NotCovered("active dropout")
        each = 4 if has_biases else 2
        if len(flat) != each * layers * directions:
            raise NotCovered("proj_size")
        given = (data, states)
        with self:
            x = data.transpose(0, 1) if batch_first else data
            steps = list(x.split(rest[0].tolist())) if is_packed else list(x.unbind(0))
            finals: list[list[Tensor]] = []
            for layer in range(layers):
                found = []
                for direction in range(directions):
                    n = layer * directions + direction
                    weights = (*flat[each * n : each * (n + 1)], None, None)[:4]
                    found.append(self.sweep(kind, steps, [state[n] for state in states], weights, backwards=direction == 1))
                    finals.append(found[-1][1])
                steps = [torch.cat(pair, -1) for pair in zip(*(outputs for outputs, _ in found), strict=True)]
            out = torch.cat(steps) if is_packed else torch.stack(steps, 1 if batch_first else 0)
            ends = [torch.stack(states) for states in zip(*finals, strict=True)]
        self.put((out, ends), given)
        return out, *ends

    def sweep(
        self, kind: str, steps: Sequence[Tensor], initial: Sequence[Tensor], weights: Any, *, backwards: bool
    ) -> tuple[list[Tensor], list[Tensor]]:
        """One direction of one layer: its outputs in the order of the input, and its final states."""
        order = list(range(len(steps)))[:: -1 if backwards else 1]
        states, ended, outputs = [state[: len(steps[order[0]])] for state in initial], [], {}
        for t in order:
            count, now = len(steps[t]), len(states[0])
            if count > now:  # backwards, shorter samples join
                states = [torch.cat([state, first[now:count]]) for state, first in zip(states, initial, strict=True)]
            if count < now:  # forwards, they end
                ended.append([state[count:] for state in states])
                states = [state[:count] for state in states]
            states = self.step(kind, steps[t], states, *weights)
            outputs[t] = states[0]
        parts = [states, *reversed(ended)]
        return [outputs[t] for t in range(len(steps))], [torch.cat(each) for each in zip(*parts, strict=True)]


class Context:
    """What the forward of a torch.autograd.Function may call; nothing is kept, as its backward is not used."""

    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *_: Any) -> None: ...

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = save_for_backward


def applied(function: Any, *args: Any, **kwargs: Any) -> Any:
    """A torch.autograd.Function as the ordinary calls of its forward."""
    if function is Blocked:
        return APPLY.__func__(function, *args, **kwargs)
    is_separate = function.setup_context is not torch.autograd.function._SingleLevelFunction.setup_context
    return function.forward(*args, **kwargs) if is_separate else function.forward(Context(), *args, **kwargs)


APPLY = torch.autograd.Function.__dict__["apply"]


class Ids:
    """Follows token ids to the table they are looked up in; the vectors found there are explained."""

    def __init__(self, slopes: Slopes) -> None:
        self.slopes = slopes
        self.places: dict[
            int, tuple[Tensor, int, Tensor | None]
        ] = {}  # by id(): the tensor, its input, each id's place in it; −1: none
        self.given: dict[int, Tensor] = {}
        self.vectors: dict[int, tuple[Tensor, Tensor]] = {}  # by input: the explained vectors and their table

    def start(self, number: int, ids: Tensor) -> None:
        """Follow the ids of an input."""
        self.given[number] = ids.clone()
        self.places[id(ids)] = ids, number, torch.arange(ids.numel()).view(ids.shape)

    def follow(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Note where the ids of a result came from, if it only moves them."""
        numbers = {self.places[id(each)][1] for each in tensors_of((args, kwargs)) if id(each) in self.places}
        moved = [each for each in tensors_of(result) if each.dtype in (torch.long, torch.int)]
        if not moved or len(numbers) != 1:
            return
        if name in ("to", "long", "int", "type", "cpu", "cuda", "contiguous", "clone", "detach", "data"):
            places = [self.places[id(args[0])][2] if id(args[0]) in self.places else None]
        elif name in MOVES - {"max", "min", "amax", "amin", "sort", "topk", "where", "masked_fill", "gather", "setitem"}:
            first = mapped(self._placed, args[0])
            if any(each is None for each in leaves_of(first)):
                places = [None] * len(moved)
            else:
                again = func(first, *args[1:], **kwargs)
                places = [each for each in tensors_of(again) if each.dtype == torch.long]
        else:
            places = [None] * len(moved)
        for each, own in zip(moved, places, strict=True):
            self.places[id(each)] = each, min(numbers), own

    def _placed(self, leaf: Any) -> Any:
        if id(leaf) in self.places:
            return self.places[id(leaf)][2]
        return torch.full_like(leaf, -1, dtype=torch.long) if isinstance(leaf, Tensor) else leaf

    def answer(self, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor | None:
        """The result of a look-up of followed ids."""
        if name == "embedding":
            names = (
                ("weight", "indices")
                if func is torch.embedding
                else ("input", "weight", "padding_idx", "max_norm", "norm_type")
            )
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            ids = given.get("input", given.get("indices"))
            return self._found(ids, given["weight"], given.get("max_norm"), given.get("norm_type", 2.0))
        if (
            name == "getitem"
            and len(args) == 2
            and isinstance(args[1], Tensor)
            and args[0].dim() == 2
            and not self.slopes.is_live(args[0])
        ):
            return self._found(args[1], args[0])
        if (
            name == "index_select"
            and len(args) == 3
            and args[1] == 0
            and args[0].dim() == 2
            and not self.slopes.is_live(args[0])
        ):
            return self._found(args[2], args[0])
        if name == "embedding_bag":
            return self._bag(*args, **kwargs)
        return None

    def _found(self, ids: Any, table: Tensor, largest: float | None = None, norm: float = 2.0) -> Tensor | None:
        if id(ids) not in self.places:
            return None
        _, number, places = self.places[id(ids)]
        original = self.given[number]
        if places is None or not bool(((ids == original.reshape(-1)[places.clamp(min=0)]) | (places < 0)).all()):
            raise NotCovered("ids that are changed before they are looked up")
        if number not in self.vectors:
            known = (original >= -len(table)) & (original < len(table))
            rows = table.detach()[torch.where(known, original, 0).long()] * known.unsqueeze(-1)
            if largest is not None:
                size = torch.linalg.vector_norm(rows, norm, dim=-1, keepdim=True)
                rows = torch.where(size > largest, rows * (largest / (size + 1e-7)), rows)
            rows.requires_grad_()
            self.vectors[number] = rows, table
            self.slopes.notes[id(rows)] = Note(rows, True)
        rows, first = self.vectors[number]
        if first is not table and first.data_ptr() != table.data_ptr():
            raise NotCovered("ids that are looked up in two tables")
        found = rows.reshape(-1, rows.shape[-1])[places.clamp(min=0)]
        if bool((places < 0).any()):
            found = torch.where((places >= 0).unsqueeze(-1), found, table.detach()[ids.clamp(0, len(table) - 1)])
        return self.slopes.put(found, rows)

    def _bag(
        self, ids: Tensor, table: Tensor, offsets: Any = None, max_norm: Any = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
        include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> Tensor | None:  # fmt: skip
        rows = self._found(ids, table, max_norm, norm_type)
        if rows is None:
            return None
        rows = rows if per_sample_weights is None else rows * per_sample_weights[..., None]
        kept = torch.ones_like(ids, dtype=torch.bool) if padding_idx is None else ids != padding_idx % len(table)
        if ids.dim() == 2:
            bags = [(rows[n], kept[n]) for n in range(len(ids))]
        else:
            starts = offsets.tolist()
            ends = starts[1:] if include_last_offset else [*starts[1:], len(ids)]
            bags = [(rows[a:b], kept[a:b]) for a, b in zip(starts, ends, strict=False)]
        pool = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[mode]
        found = [pool(bag[mask], 0) if bool(mask.any()) else bag.new_zeros(bag.shape[-1]) for bag, mask in bags]
        return self.slopes.put(torch.stack(found), self.vectors[self.places[id(ids)][1]][0])


Target = int | tuple[int, int] | Callable[[Any], Tensor]


def scores_of(output: Any, target: Target) -> Tensor:
    """The explained score of every sample (B,)."""
    if callable(target):
        return target(output)
    if isinstance(target, tuple):
        return output[:, target[0], target[1]]
    return output if output.dim() == 1 else output[:, target]


def relevance(
    model: nn.Module,
    inputs: Any,
    target: Target,
    *,
    product: str = "all",
    call: Callable[[Any, Any], Any] | None = None,
    start: Tensor | None = None,
) -> tuple[tuple[Tensor, ...], Tensor]:
    """Input ⊙ slope of the model with replaced calls, for every explained tensor, and the scores (B,).

    `inputs`: a tensor, a tuple, a dictionary or a PackedSequence, of numbers or of token ids; the latter are explained by the
    vectors looked up for them. `start`: what relevance starts with, if not the scores.
    """
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise NotCovered("a scripted module")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    slopes = Slopes(product, model)
    explained: list[Tensor] = []

    def given(tensor: Any) -> Any:
        """What the model gets: a copy, so that it may write into it."""
        if not isinstance(tensor, Tensor) or tensor.dtype == torch.bool:
            return tensor
        number, own = len(explained), tensor.detach().clone()
        if own.is_floating_point():
            own.requires_grad_()
            slopes.notes[id(own)] = Note(own, True)
            explained.append(own)
            return slopes.put(own * 1.0, own)
        explained.append(own)
        slopes.ids.start(number, own)
        return own

    form = inputs._replace(data=given(inputs.data)) if isinstance(inputs, PackedSequence) else mapped(given, inputs)
    with slopes, mock.patch.object(torch.autograd.Function, "apply", classmethod(applied)):
        scores = scores_of(_output(model, form, call), target)
    if slopes.ids.given.keys() != slopes.ids.vectors.keys():
        raise NotCovered("ids that are looked up nowhere")
    found = [slopes.ids.vectors[n][0] if n in slopes.ids.vectors else each for n, each in enumerate(explained)]
    scores = scores if start is not None else slopes.form(scores)
    amount = scores if start is None else torch.where(scores == 0, scores, scores * (start / scores).detach())
    return tuple(_by_slopes(amount.sum(), found)), scores.detach()


def _output(model: nn.Module, form: Any, call: Callable[[Any, Any], Any] | None) -> Any:
    if call is not None:
        return call(model, form)
    if isinstance(form, dict):
        return model(**form)
    return model(*form) if type(form) is tuple else model(form)


def _by_slopes(score: Tensor, explained: Sequence[Tensor]) -> Iterable[Tensor]:
    wanted = [each for each in explained if each.requires_grad]
    slopes = torch.autograd.grad(score, wanted, allow_unused=True) if score.requires_grad else [None] * len(wanted)
    by_id = {id(each): slope for each, slope in zip(wanted, slopes, strict=True)}
    for each in explained:
        slope = by_id.get(id(each))
        yield torch.zeros_like(each) if slope is None else (each * slope).detach()
