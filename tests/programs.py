"""Random programs: lists of instructions that run as an nn.Module, and out of place as a reference for relevance.

The module is Python source made of the instructions, with every change in place as PyTorch makes it. The reference knows no
tensor that changes: a name stands for a place in a box, and a write puts a new tensor into the box. Its derivative times the
input is LRP with ε → 0: gates are detached, and φ(z) is read as z · detach(φ(z) / z). What comes out of a function that is not
0 at 0 has a second form, whose derivative counts only what the input changed from the value at rest.

    python -m tests.programs --examples 10000 --seed 1
"""

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import whence
from tests.oracle.detached import partition_weights, secant
from whence import LRP, ConservationError, TargetError, WhenceError

T = H = 3  # equal, so that a transposed sequence is a sequence
SCALES = (0.5, -1.5, 2.0, 0.3)
SMALLEST = 1e-4  # a number closer to 0 makes relevance with ε → 0 too large to compare


class Layers(nn.Module):
    """What every program can use: weights, and state that it may change."""

    h: Tensor
    b: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.l0, self.l1 = nn.Linear(H, H), nn.Linear(H, H, bias=False)
        self.w0, self.w1 = nn.Parameter(torch.randn(H, H)), nn.Parameter(torch.randn(H, H))
        self.g, self.norm, self.conv = nn.Parameter(torch.randn(H)), nn.LayerNorm(H), nn.Conv1d(H, H, 3, padding=1)
        self.cell, self.gru, self.lstm = nn.LSTMCell(H, H), nn.GRUCell(H, H), nn.LSTM(H, H, batch_first=True)
        self.p = nn.Parameter(torch.randn(H, dtype=torch.complex128))
        self.register_buffer("b", torch.randn(H))
        self.register_buffer("count", torch.zeros(H))
        self.h, self.kept = torch.randn(1, H, dtype=torch.float64), [torch.randn(1, H, dtype=torch.float64)]

    def state(self) -> list[tuple[int, Tensor]]:
        """Every tensor that the model keeps: which one, and a copy of its numbers."""
        held = [self.h, *self.kept, *self.parameters(), *self.buffers()]
        return [(id(each), each.detach().clone()) for each in held]


# In a product. mixed: a source with constant elements, which may all be constant; unsure: the paper does not say.
Role = Literal["constant", "source", "mixed", "gate", "unsure"]


class Ref(NamedTuple):
    """A tensor of the reference, which nothing changes.

    `apart`: the same numbers with the slopes from the value at rest, where there is one; `start`: that value. `kind`: what it
    is made of where a sum treats it in its own way: a gate times a "source", a gate times a "state", a "logarithm".
    """

    tensor: Tensor
    role: Role
    apart: Tensor | None = None
    start: Tensor | None = None
    kind: str = ""

    @property
    def is_live(self) -> bool:
        return self.role != "constant"

    @property
    def form(self) -> Tensor:
        """What is read by everything but a product that shares relevance between its factors."""
        return self.tensor if self.apart is None else self.apart

    @property
    def rest(self) -> Tensor:
        """What it is when the sums below it are 0."""
        if self.start is not None:
            return self.start
        return torch.zeros_like(self.tensor) if self.is_live else self.tensor.detach()


class Lens(NamedTuple):
    """A view: how it is read from the whole, and how the whole is after a write to it."""

    get: Callable[[Tensor], Tensor]
    put: Callable[[Tensor, Tensor], Tensor]


def step_lens(t: int) -> Lens:
    return Lens(lambda w: w[:, t], lambda w, part: torch.cat([w[:, :t], part[:, None], w[:, t + 1 :]], 1))


def units_lens(k: int) -> Lens:
    return Lens(lambda w: w[..., :k], lambda w, part: torch.cat([part, w[..., k:]], -1))


TURNED = Lens(lambda w: w.transpose(1, 2), lambda w, part: part.transpose(1, 2))
REAL = Lens(lambda w: w.real, lambda w, part: torch.complex(part, w.imag))
IMAGINARY = Lens(lambda w: w.imag, lambda w, part: torch.complex(w.real, part))


def written_to_one(w: Tensor, part: Tensor) -> Tensor:
    """What is in memory that every step shares: PyTorch lets one step be written to, or all of them with the same number."""
    change = part - w[:, None]
    return w + change.sum(1) / (change != 0).sum(1).clamp(min=1)


REPEATED = Lens(lambda w: torch.stack([w] * T, 1), written_to_one)
DIAGONAL = Lens(
    lambda w: w.diagonal(dim1=1, dim2=2), lambda w, part: torch.where(torch.eye(T, dtype=torch.bool), part[:, :, None], w)
)
AFTER = Lens(lambda w: w[:, 1:], lambda w, part: torch.cat([w[:, :1], part], 1))
EVERY_OTHER = Lens(
    lambda w: w.flatten(1)[:, ::2], lambda w, part: w.flatten(1).index_copy(1, torch.arange(0, T * H, 2), part).view(w.shape)
)
SAME = Lens(lambda w: w, lambda w, part: part)


def wide_lens(batch: int) -> Lens:
    return Lens(lambda w: w.expand(batch, -1), lambda w, part: part)  # PyTorch refuses writes to several places at once


@dataclass(eq=False)
class Box:
    """The memory of a tensor and its views."""

    whole: Ref


class Name(NamedTuple):
    """A place in a box."""

    box: Box
    lenses: tuple[Lens, ...] = ()


def joined(*refs: Ref) -> Role:
    """The role of something put together from parts."""
    roles = {ref.role for ref in refs}
    if len(roles) == 1:
        return refs[0].role
    return "mixed" if roles <= {"constant", "mixed", "source"} else "unsure"


def along(function: Callable[..., Tensor], refs: Sequence[Ref]) -> Tensor:
    """What a call that moves, picks or adds up numbers makes of the values at rest, picked like the values."""
    values = tuple(ref.tensor.detach() for ref in refs)
    starts = tuple(ref.rest.to(at).expand(at.shape).contiguous() for ref, at in zip(refs, values, strict=True))
    return cast(Tensor, torch.autograd.functional.jvp(function, values, starts)[1]).detach()


class Machine:
    """Runs a program out of place, with slopes in place of derivatives; `doubts` says why it cannot be a reference."""

    def __init__(self, model: Layers, x: Tensor) -> None:
        self.model, self.batch = model, len(x)
        self.seen: list[Tensor] = []
        self.doubts: set[str] = set()
        self.names = {"x": Name(Box(Ref(x, "source")))}
        for key, held in (("self.h", model.h), ("self.b", model.b), ("self.count", model.count)):
            self.names[key] = Name(Box(Ref(held, "constant")))
        self.kept = [Name(Box(Ref(each, "constant"))) for each in model.kept]

    def __getitem__(self, name: str) -> Ref:
        return self.read(self.names[name])

    def read(self, name: Name) -> Ref:
        def part(tensor: Tensor | None) -> Tensor | None:
            for lens in name.lenses:
                tensor = None if tensor is None else lens.get(tensor)
            return tensor

        whole = name.box.whole
        return Ref(cast(Tensor, part(whole.tensor)), whole.role, part(whole.apart), part(whole.start))

    def write(self, name: Name, ref: Ref) -> None:
        """Put new content into a place. What was there before stays only around it."""

        def after(whole: Tensor, content: Tensor) -> Tensor:
            wholes = [whole]
            for lens in name.lenses:
                wholes.append(lens.get(wholes[-1]))
            part = content.expand(wholes[-1].shape).to(wholes[-1].dtype)
            for lens, whole in zip(reversed(name.lenses), reversed(wholes[:-1]), strict=True):
                part = lens.put(whole, part)
            return part

        before = name.box.whole
        is_all = all(lens in (TURNED, SAME) for lens in name.lenses)
        role = ref.role if is_all else joined(before, ref)
        apart = start = None
        if ref.apart is not None or (before.apart is not None and not is_all):
            apart, start = after(before.form, ref.form), after(before.rest, ref.rest)
        name.box.whole = Ref(after(before.tensor, ref.tensor), role, apart, start)

    def at(self, name: str, *lenses: Lens) -> Name:
        known = self.names[name]
        return Name(known.box, (*known.lenses, *lenses))

    def note(
        self, tensor: Tensor, role: Role = "source", *, apart: Tensor | None = None, start: Tensor | None = None, kind: str = ""
    ) -> Ref:
        """Remember an intermediate result, to know how large amounts become."""
        if role != "constant":
            sizes = tensor.detach().abs()
            if ((sizes != 0) & (sizes < SMALLEST)).any():
                self.doubts.add("a number is too close to 0")
            if tensor.requires_grad:
                self.seen.append(tensor)
        if apart is None or start is None or role == "constant":
            return Ref(tensor, role, kind=kind)
        if apart.requires_grad:
            self.seen.append(apart)
        return Ref(tensor, role, tensor.detach() + (apart - apart.detach()), start.detach(), kind)

    def linear(self, function: Callable[[Tensor], Tensor], ref: Ref) -> Ref:
        """A weighted connection, a true sum."""
        if ref.kind == "state" and ref.tensor.dim() <= 2:
            self.doubts.add("a gate times a constant")
        z = function(ref.form)
        if z.is_complex() and bool((z == 0).any()) and bool(ref.tensor.any()):  # as a Fourier transform of a clamped row
            self.doubts.add("terms cancel")
        return self.note(z, "source" if ref.is_live else "constant")

    def moved(self, function: Callable[..., Tensor], *refs: Ref) -> Ref:
        return self.again(function, refs, joined(*refs))

    def merged(self, function: Callable[[Tensor], Tensor], ref: Ref) -> Ref:
        """A sum over an axis, or a pick."""
        return self.again(function, [ref], "unsure" if ref.role == "gate" else ref.role)

    def again(self, function: Callable[..., Tensor], refs: Sequence[Ref], role: Role, kind: str = "") -> Ref:
        """A call that is linear in numbers that stay where they are: the same of both forms, and of the values at rest."""
        tensor = function(*(ref.tensor for ref in refs))
        if all(ref.apart is None for ref in refs):
            return self.note(tensor, role, kind=kind)
        apart = function(*(ref.form for ref in refs))
        return self.note(tensor, role, apart=apart, start=along(function, refs), kind=kind)

    def slope(self, z: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """φ(z) as z · detach(φ(z) / z)."""
        out = function(z.detach())
        if ((z == 0) & (out != 0)).any():
            self.doubts.add("an activation is not 0 at 0")
        own = torch.where(z == 0, 1.0, z.detach())
        return z * torch.where(z == 0, 0.0, out / own) + torch.where(z == 0, out, 0.0)

    def activation(self, function: Callable[[Tensor], Tensor], ref: Ref, role: Role = "source", kind: str = "") -> Ref:
        """An elementwise function."""
        if not ref.is_live:
            return self.note(function(ref.tensor), "constant")
        role = role if ref.role == "source" else "mixed" if (ref.role, role) == ("mixed", "source") else "unsure"
        tensor = self.slope(ref.tensor, function)
        if ref.apart is None and float(function(torch.zeros(1, dtype=torch.float64))) == 0:
            return self.note(tensor, role, kind=kind)
        slope, start = secant(function, ref.tensor.detach(), ref.rest)
        return self.note(tensor, role, apart=slope * ref.form, start=start, kind=kind)

    def softmax(self, ref: Ref) -> Ref:
        """softmax over the last axis, at rest as the exponential of log_softmax."""
        if not ref.is_live:
            return self.note(ref.tensor.softmax(-1), "constant")
        z, rest = ref.tensor.detach(), ref.rest
        logarithm = ref.form - (partition_weights(z, rest, -1) * ref.form).sum(-1, keepdim=True)
        slope, start = secant(torch.exp, z.log_softmax(-1), rest.log_softmax(-1))
        role: Role = "gate" if ref.role == "source" else "unsure"
        return self.note(self.slope(ref.tensor, lambda z: z.softmax(-1)), role, apart=slope * logarithm, start=start)

    def scaled(self, ref: Ref, by: Tensor | complex) -> Ref:
        is_state = ref.role in ("gate", "unsure") and isinstance(by, Tensor)
        if is_state and not bool(cast(Tensor, by).any()):
            self.doubts.add("a gate times a constant")
        role: Role = "unsure" if ref.role == "gate" else ref.role
        return self.again(lambda tensor: tensor * by, [ref], role, "state" if is_state else ref.kind)

    def shifted(self, ref: Ref, by: float, sign: float = 1.0) -> Ref:
        """by + sign · ref, a gate again if it is 1 − gate."""
        if ref.role == "gate" and (by, sign) == (1.0, -1.0):
            tensor, apart = self.slope(ref.tensor, lambda z: 1 - z), None if ref.apart is None else -ref.apart
            return self.note(tensor, "gate", apart=apart, start=1 - ref.rest)
        term = ref if sign == 1 else self.scaled(ref, sign)
        return self.total(term, Ref(torch.full_like(ref.tensor, by), "constant"))

    def total(self, *refs: Ref) -> Ref:
        if any(ref.kind == "source" and ref.apart is None for ref in refs):  # a cell's new content, beside its former state
            refs = tuple(Ref(ref.tensor.detach(), "constant") if ref.kind == "state" else ref for ref in refs)
        tensor = refs[0].tensor
        for ref in refs[1:]:
            tensor = tensor + ref.tensor
        live = [ref for ref in refs if ref.is_live]
        if any(((tensor == 0) & (ref.tensor != 0)).any() for ref in live):
            self.doubts.add("terms cancel")
        roles = {ref.role for ref in refs}
        role = "source" if "source" in roles else "mixed" if roles <= {"constant", "mixed"} else "unsure"
        if any(ref.kind == "logarithm" for ref in live):
            self.doubts.add("a logarithm")
        apart = start = None
        if any(ref.apart is not None for ref in refs):
            apart, start = sum(ref.form for ref in refs), sum(ref.rest for ref in refs)
        return self.note(tensor, role if live else "constant", apart=cast(Tensor, apart), start=cast(Tensor, start))

    def product(self, function: Callable[[Tensor, Tensor], Tensor], a: Ref, b: Ref) -> Ref:
        """Gate and source: all to the source. Two of a kind: a half each. The result is a true sum."""
        self.require_roles(a, b)
        if a.role == "constant" or b.role == "constant":
            return self.by_constant(function, a, b)
        left, right = function(a.form, b.tensor.detach()), function(a.tensor.detach(), b.form)
        if a.role == b.role:
            return self.note((left + right) / 2, "source" if a.role == "source" else "unsure")
        return self.note(right if a.role == "gate" else left)

    def by_constant(self, function: Callable[[Tensor, Tensor], Tensor], a: Ref, b: Ref) -> Ref:
        """A product with a constant, which only scales."""
        if not (a.is_live or b.is_live):
            return self.note(function(a.tensor, b.tensor), "constant")
        ref, by = (a, b) if a.is_live else (b, a)
        is_state = ref.role in ("gate", "unsure")
        if is_state and not bool(by.tensor.any()):
            self.doubts.add("a gate times a constant")
        whole = (lambda tensor: function(tensor, by.tensor)) if ref is a else (lambda tensor: function(by.tensor, tensor))
        return self.again(whole, [ref], "unsure" if is_state else "source", "state" if is_state else "")

    def require_roles(self, a: Ref, b: Ref) -> None:
        """Doubt a product of which the paper does not say what is a gate."""
        if not (a.is_live and b.is_live):
            return
        roles = {a.role, b.role}
        if "unsure" in roles or ("mixed" in roles and "gate" not in roles):
            self.doubts.add("a factor that may be a gate, or constant")

    def times(self, a: Ref, b: Ref) -> Ref:
        """An elementwise product. Values with values at rest share by means; a gate scales such a source."""
        self.require_roles(a, b)
        if a.role == "constant" or b.role == "constant":
            return self.by_constant(torch.mul, a, b)
        if a.role == b.role:
            return self.by_means(a, b)
        gate, source = (a, b) if a.role == "gate" else (b, a)
        by = gate.tensor.detach()
        return self.again(lambda z: by * z, [source], "mixed" if "mixed" in (a.role, b.role) else "source", "source")

    def by_means(self, a: Ref, b: Ref) -> Ref:
        """The product of two of a kind: a half each; from values at rest, the mean of the other one and of its rest."""
        tensor = (a.tensor * b.tensor.detach() + a.tensor.detach() * b.tensor) / 2
        if a.apart is None and b.apart is None:
            return self.note(tensor, "source" if a.role == "source" else "unsure", kind="source")
        apart = a.form * (b.tensor + b.rest).detach() / 2 + b.form * (a.tensor + a.rest).detach() / 2
        return self.note(tensor, "source" if a.role == "source" else "unsure", apart=apart, start=a.rest * b.rest)

    def require_none_at_rest(self, ref: Ref) -> None:
        if ref.apart is not None:  # TODO: compare them when the engine's recurrent layers read values at rest
            self.doubts.add("a recurrent layer reads a value with a value at rest")

    def lstm_step(self, x: Tensor, h: Tensor, c: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        w, u, b, d = weights
        i, f, g, o = (x @ w.T + h @ u.T + b + d).chunk(4, -1)
        c = f.sigmoid().detach() * c + i.sigmoid().detach() * self.slope(self.note(g).tensor, torch.tanh)
        return o.sigmoid().detach() * self.slope(self.note(c).tensor, torch.tanh), c

    def gru_step(self, x: Tensor, h: Tensor, weights: Sequence[Tensor]) -> Tensor:
        w, u, b, d = weights
        (r, z, n), (s, y, m) = (x @ w.T + b).chunk(3, -1), (h @ u.T + d).chunk(3, -1)
        reset, update = (r + s).sigmoid().detach(), (z + y).sigmoid().detach()
        pre = self.note(n + reset * self.note(m).tensor).tensor
        return (1 - update) * self.slope(pre, torch.tanh) + update * h


def lstm(m: Machine, ref: Ref, weights: Sequence[Tensor]) -> Ref:
    m.require_none_at_rest(ref)
    h = c = zeros(m)
    found = list[Tensor]()
    for t in range(T):
        h, c = m.lstm_step(ref.form[:, t], h, c, weights)
        found.append(m.note(h).tensor)
    return m.note(torch.stack(found, 1), "source" if ref.is_live else "constant")


def gru(m: Machine, ref: Ref) -> Ref:
    m.require_none_at_rest(ref)
    weights, h = list(m.model.gru.parameters()), zeros(m)
    for t in range(T):
        h = m.note(m.gru_step(ref.form[:, t], h, weights)).tensor
    return m.note(h, "source" if ref.is_live else "constant")


def own_cell(m: Machine, ref: Ref, n: int) -> Ref:
    """h = tanh(x_t W + U h), step by step."""
    h, found = Ref(zeros(m), "constant"), list[Ref]()
    for t in range(T):
        h = m.activation(torch.tanh, m.total(m.linear(lambda s, t=t: s[:, t] @ weight(m, n), ref), m.linear(m.model.l1, h)))
        found.append(h)
    return m.moved(lambda *steps: torch.stack(steps, 1), *found)


def own_complex_cell(m: Machine, ref: Ref) -> Ref:
    """h = p h + x_t in complex numbers."""
    h, found = Ref(zeros(m).to(torch.complex128), "constant"), list[Ref]()
    for t in range(T):
        h = m.total(m.scaled(h, m.model.p), m.moved(lambda s, t=t: s[:, t], ref))
        found.append(h)
    return m.moved(lambda *steps: torch.stack(steps, 1), *found)


def attention(m: Machine, a: Ref, b: Ref) -> Ref:
    """softmax(a bᵀ) b."""
    weights = m.softmax(m.product(lambda a, b: a @ b.transpose(1, 2), a, b))
    return m.product(torch.matmul, weights, b)


def zeros(m: Machine) -> Tensor:
    return torch.zeros(m.batch, H, dtype=torch.float64)


def weight(m: Machine, n: int) -> Tensor:
    return (m.model.w0, m.model.w1)[n]


def layer(m: Machine, n: int) -> nn.Linear:
    return (m.model.l0, m.model.l1)[n]


@dataclass(frozen=True)
class Instruction:
    """One or a few lines of a program: an operation, the name it makes, the names it reads, and numbers."""

    op: str
    out: str
    a: str
    b: str
    t: int
    k: float
    n: int

    def __str__(self) -> str:
        return OPS[self.op].template.format(out=self.out, a=self.a, b=self.b, t=self.t, k=self.k, n=self.n)

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.a, self.b)[: len(OPS[self.op].operands)]


Computed = Callable[[Machine, Instruction], Ref]
Reference = Callable[[Machine, Instruction], Ref | Name | None]


class Op(NamedTuple):
    """A kind of instruction, with the kinds of its result (none if it writes in place) and operands.

    v is (B, H), s (B, T, H), c complex (B, T, H); r is v or s, z any of the three, the same throughout.
    """

    result: str
    operands: str
    template: str
    reference: Reference


def writing(result: Computed, *lenses: Callable[[Instruction], Lens]) -> Reference:
    """The reference of a change in place of the first operand, or of a view of it."""

    def reference(m: Machine, i: Instruction) -> None:
        place = m.at(i.a, *(lens(i) for lens in lenses))
        m.write(place, result(m, i))

    return reference


def part(*lenses: Callable[[Instruction], Lens]) -> Reference:
    """The reference of a view."""
    return lambda m, i: m.at(i.a, *(lens(i) for lens in lenses))


def at_step(i: Instruction) -> Lens:
    return step_lens(i.t)


def two_units(i: Instruction) -> Lens:
    return units_lens(2)


def late(i: Instruction) -> Lens:
    return Lens(lambda w: w[:, i.t :], lambda w, part: torch.cat([w[:, : i.t], part], 1))


def positive_mask(i: Instruction) -> Tensor:
    return torch.arange(H) == i.t


def keep(m: Machine, i: Instruction) -> None:
    m.kept.append(m.names[i.a])


def set_state(m: Machine, i: Instruction) -> None:
    m.names["self.h"] = m.names[i.a]


def next_state(m: Machine, i: Instruction) -> None:
    new = m.activation(torch.tanh, m.total(m.linear(m.model.l0, m[i.a]), m.linear(m.model.l1, m["self.h"])))
    m.names["self.h"] = Name(Box(new))


def add_to_count(m: Machine, i: Instruction) -> None:
    m.write(m.names["self.count"], Ref(m["self.count"].tensor + 1, "constant"))


def scale_buffer(m: Machine, i: Instruction) -> None:
    m.write(m.names["self.b"], Ref(m["self.b"].tensor * i.k, "constant"))


def scale_state(m: Machine, i: Instruction) -> None:
    m.write(m.names["self.h"], m.scaled(m["self.h"], i.k))


def set_two_steps(m: Machine, i: Instruction) -> None:
    for t in (i.t, (i.t - 1) % T):
        m.write(m.at(i.a, step_lens(t)), m[i.b])


def swapped(m: Machine, i: Instruction) -> None:
    m.names[i.a], m.names[i.b] = m.names[i.b], m.names[i.a]


def interpolated(m: Machine, a: Ref, b: Ref) -> Ref:
    gate = m.activation(torch.sigmoid, b, "gate")
    return m.total(m.times(m.shifted(gate, 1.0, -1.0), a), m.times(gate, b))


def turned_for_good(m: Machine, i: Instruction) -> None:
    m.names[i.a] = m.at(i.a, TURNED)


def counting(m: Machine, i: Instruction) -> Ref:
    found = list[Ref]()
    for t in range(T):
        counted = torch.full((1, H), t + 1.0, dtype=torch.float64)
        found.append(m.total(m.moved(lambda s, t=t: s[:, t], m[i.a]), Ref(layer(m, i.n)(counted), "constant")))
    return m.moved(lambda *steps: torch.stack(steps, 1), *found)


def filling(m: Machine, i: Instruction) -> Ref:
    """A tensor of zeros whose steps are set one after the other, and changed."""
    found = list[Ref]()
    for t in range(T):
        h = m.activation(torch.tanh, m.linear(lambda s, t=t: s[:, t] @ weight(m, i.n), m[i.a]))
        found.append(m.scaled(h, i.k))
    return m.moved(lambda *steps: torch.stack(steps, 1), *found)


def vary(function: Callable[[Tensor], Tensor], role: Role = "source", kind: str = "") -> Computed:
    """The reference of an activation."""
    return lambda m, i: m.activation(function, m[i.a], role, kind)


def moving(function: Callable[..., Tensor]) -> Computed:
    """The reference of a call that moves the numbers of its operands."""
    return lambda m, i: m.moved(lambda *tensors: function(i, *tensors), *(m[name] for name in i.reads))


def merging(function: Callable[[Instruction, Tensor], Tensor]) -> Computed:
    """The reference of a sum over an axis, or of a pick."""
    return lambda m, i: m.merged(lambda tensor: function(i, tensor), m[i.a])


def mapping(function: Callable[[Machine, Instruction], Callable[[Tensor], Tensor]]) -> Computed:
    """The reference of a weighted connection."""
    return lambda m, i: m.linear(function(m, i), m[i.a])


def inexact(function: Computed, why: str) -> Computed:
    """The reference of a call whose relevance is not compared."""

    def reference(m: Machine, i: Instruction) -> Ref:
        m.doubts.add(why)
        return function(m, i)

    return reference


OPS: dict[str, Op] = {
    # activations
    "tanh": Op("r", "r", "{out} = torch.tanh({a})", vary(torch.tanh)),
    "relu": Op("r", "r", "{out} = F.relu({a})", vary(torch.relu)),
    "sigmoid": Op("r", "r", "{out} = torch.sigmoid({a})", vary(torch.sigmoid, "gate")),
    "hardsigmoid": Op("r", "r", "{out} = F.hardsigmoid({a})", vary(F.hardsigmoid, "gate")),
    "softmax": Op("r", "r", "{out} = {a}.softmax(-1)", lambda m, i: m.softmax(m[i.a])),
    "gelu": Op("r", "r", "{out} = F.gelu({a})", vary(F.gelu)),
    "silu": Op("r", "r", "{out} = F.silu({a})", vary(F.silu)),
    "elu": Op("r", "r", "{out} = F.elu({a})", vary(F.elu)),
    "leaky": Op("r", "r", "{out} = F.leaky_relu({a}, 0.1)", vary(lambda z: F.leaky_relu(z, 0.1))),
    "hardtanh": Op("r", "r", "{out} = F.hardtanh({a})", vary(F.hardtanh)),
    "clamp": Op("r", "r", "{out} = {a}.clamp(0, 1)", vary(lambda z: z.clamp(0, 1), "gate")),
    "exp": Op("r", "r", "{out} = torch.exp(0.1 * {a})", vary(lambda z: (0.1 * z).exp(), "unsure")),
    "softplus": Op("r", "r", "{out} = F.softplus({a})", vary(F.softplus, "unsure", "logarithm")),
    "log_sigmoid": Op("r", "r", "{out} = F.logsigmoid({a})", vary(F.logsigmoid, "unsure", "logarithm")),
    "absolute": Op("r", "r", "{out} = {a}.abs()", vary(torch.abs)),
    # weighted connections
    "linear": Op("r", "r", "{out} = self.l{n}({a})", mapping(lambda m, i: layer(m, i.n))),
    "matmul": Op("r", "r", "{out} = {a} @ self.w{n}", mapping(lambda m, i: lambda z: z @ weight(m, i.n))),
    "einsum": Op("s", "s", "{out} = torch.einsum('bth,hk->btk', {a}, self.w{n})",
                 mapping(lambda m, i: lambda z: z @ weight(m, i.n))),
    "mixed steps": Op("s", "s", "{out} = self.w{n} @ {a}", mapping(lambda m, i: lambda z: weight(m, i.n) @ z)),
    "addmm": Op("v", "vv", "{out} = torch.addmm({a}, {b}, self.w{n})",
                lambda m, i: m.total(m[i.a], m.linear(lambda z: z @ weight(m, i.n), m[i.b]))),
    "conv": Op("s", "s", "{out} = self.conv({a})", mapping(lambda m, i: m.model.conv)),
    "norm": Op("r", "r", "{out} = self.norm({a})", lambda m, i: normed(m, m[i.a])),
    "weighted": Op("r", "r", "{out} = {a} * self.g", lambda m, i: m.scaled(m[i.a], m.model.g)),
    # products
    "gated": Op("r", "rr", "{out} = torch.sigmoid(self.l{n}({a})) * {b}",
                lambda m, i: m.times(m.activation(torch.sigmoid, m.linear(layer(m, i.n), m[i.a]), "gate"), m[i.b])),
    "other gate": Op("r", "rr", "{out} = (1 - torch.sigmoid({a})) * {b}",
                     lambda m, i: m.times(m.shifted(m.activation(torch.sigmoid, m[i.a], "gate"), 1.0, -1.0), m[i.b])),
    "product": Op("r", "rr", "{out} = {a} * {b}", lambda m, i: m.times(m[i.a], m[i.b])),
    "step gate": Op("s", "vs", "{out} = torch.sigmoid({a})[:, None] * {b}",
                    lambda m, i: m.times(m.moved(lambda z: z[:, None], m.activation(torch.sigmoid, m[i.a], "gate")), m[i.b])),
    "glu": Op("r", "rr", "{out} = F.glu(torch.cat([{a}, {b}], -1))",
              lambda m, i: m.times(m.activation(torch.sigmoid, m[i.b], "gate"), m[i.a])),
    "bmm": Op("s", "ss", "{out} = torch.bmm({a}, {b})", lambda m, i: m.product(torch.matmul, m[i.a], m[i.b])),
    "einsum of two": Op("s", "ss", "{out} = torch.einsum('bth,bsh->bts', {a}, {b})",
                        lambda m, i: m.product(lambda a, b: a @ b.transpose(1, 2), m[i.a], m[i.b])),
    "attention": Op("s", "ss", "{out} = ({a} @ {b}.transpose(1, 2)).softmax(-1) @ {b}",
                    lambda m, i: attention(m, m[i.a], m[i.b])),
    "addcmul": Op("r", "rr", "{out} = torch.addcmul({a}, torch.sigmoid({b}), {b}, value={k})",
                  lambda m, i: m.total(m[i.a], m.scaled(m.times(m.activation(torch.sigmoid, m[i.b], "gate"), m[i.b]), i.k))),
    "lerp": Op("r", "rr", "{out} = torch.lerp({a}, {b}, 0.3)",
               lambda m, i: m.total(m.scaled(m[i.a], 0.7), m.scaled(m[i.b], 0.3))),
    "quotient": Op("r", "rr", "{out} = {a} / (1 + {b}.abs())",
                   inexact(lambda m, i: m.note(m[i.a].tensor / (1 + m[i.b].tensor.abs()), "unsure"), "a quotient")),
    "cumprod": Op("s", "s", "{out} = torch.sigmoid({a}).cumprod(1)",
                  inexact(lambda m, i: m.note(m[i.a].tensor.sigmoid().cumprod(1), "unsure"), "a running product")),
    "square": Op("r", "r", "{out} = {a} ** 2", inexact(lambda m, i: m.note(m[i.a].tensor ** 2, "unsure"), "a power")),
    # sums
    "add": Op("r", "rr", "{out} = {a} + {b}", lambda m, i: m.total(m[i.a], m[i.b])),
    "subtract": Op("r", "rr", "{out} = {a} - {b}", lambda m, i: m.total(m[i.a], negated(m[i.b]))),
    "add number": Op("r", "r", "{out} = {a} + {k}", lambda m, i: m.shifted(m[i.a], i.k)),
    "one minus": Op("r", "r", "{out} = 1 - {a}", lambda m, i: m.shifted(m[i.a], 1.0, -1.0)),
    "scale": Op("r", "r", "{out} = {k} * {a}", lambda m, i: m.scaled(m[i.a], i.k)),
    "divide": Op("r", "r", "{out} = {a} / {k}", lambda m, i: m.scaled(m[i.a], 1 / i.k)),
    "add to steps": Op("s", "sv", "{out} = {a} + {b}[:, None]",
                       lambda m, i: m.total(m[i.a], m.moved(lambda z: z[:, None], m[i.b]))),
    "sum": Op("v", "s", "{out} = {a}.sum(1)", merging(lambda i, z: z.sum(1))),
    "mean": Op("v", "s", "{out} = {a}.mean(dim=-1)", merging(lambda i, z: z.mean(-1))),
    "cumsum": Op("s", "s", "{out} = {a}.cumsum(1)", merging(lambda i, z: z.cumsum(1))),
    "amax": Op("v", "s", "{out} = {a}.amax(1)", merging(lambda i, z: z.amax(1))),
    "max": Op("v", "s", "{out} = {a}.max(dim=2)[0]", merging(lambda i, z: z.max(2)[0])),
    # moves into new memory
    "clone": Op("z", "z", "{out} = {a}.clone()", moving(lambda i, z: z)),
    "stack": Op("s", "vv", "{out} = torch.stack([{a}, {b}, {a}], 1)", moving(lambda i, a, b: torch.stack([a, b, a], 1))),
    "cat": Op("s", "ss", "{out} = torch.cat([{a}[:, :{t}], {b}[:, {t}:]], 1)",
              moving(lambda i, a, b: torch.cat([a[:, : i.t], b[:, i.t :]], 1))),
    "cat units": Op("r", "rr", "{out} = torch.cat([{a}[..., {t}:], {b}[..., :{t}]], -1)",
                    moving(lambda i, a, b: torch.cat([a[..., i.t :], b[..., : i.t]], -1))),
    "flip": Op("s", "s", "{out} = {a}.flip(1)", moving(lambda i, z: z.flip(1))),
    "roll": Op("s", "s", "{out} = torch.roll({a}, {t}, 1)", moving(lambda i, z: z.roll(i.t, 1))),
    "gather": Op("s", "s", "{out} = {a}.gather(1, torch.full((len(x), 3, 3), {t}))", moving(lambda i, z: z[:, [i.t] * T])),
    "index": Op("s", "s", "{out} = {a}[:, [2, {t}, 0]]", moving(lambda i, z: z[:, [2, i.t, 0]])),
    "index_select": Op("r", "r", "{out} = {a}.index_select(-1, torch.tensor([{t}, 1, 0]))",
                       moving(lambda i, z: z[..., [i.t, 1, 0]])),
    "where": Op("r", "rr", "{out} = torch.where(torch.arange(3) == {t}, {a}, {b})",
                moving(lambda i, a, b: torch.where(positive_mask(i), a, b))),
    "where compared": Op("r", "rr", "{out} = torch.where({a} > 0, {a}, {b})", moving(lambda i, a, b: torch.where(a > 0, a, b))),
    "masked_fill": Op("r", "r", "{out} = {a}.masked_fill(torch.arange(3) == {t}, {k})",
                      lambda m, i: m.moved(lambda z, c: torch.where(positive_mask(i), c, z), m[i.a], constant(i.k))),
    "pad": Op("s", "s", "{out} = F.pad({a}, (0, 0, 1, 0))[:, :3]",
              lambda m, i: m.moved(lambda z, c: torch.cat([c.expand(len(z), 1, H), z[:, :2]], 1), m[i.a], constant(0.0))),
    "repeat": Op("s", "v", "{out} = {a}.unsqueeze(1).repeat(1, 3, 1)", moving(lambda i, z: torch.stack([z] * T, 1))),
    # views
    "view of a step": Op("v", "s", "{out} = {a}[:, {t}]", part(at_step)),
    "select": Op("v", "s", "{out} = {a}.select(1, {t})", part(at_step)),
    "unbind": Op("v", "s", "{out} = {a}.unbind(1)[{t}]", part(at_step)),
    "chunk": Op("v", "s", "{out} = {a}.chunk(3, 1)[{t}].squeeze(1)", part(at_step)),
    "flat view": Op("v", "s", "{out} = {a}.view(len(x), 9)[:, 3 * {t} : 3 * {t} + 3]", part(at_step)),
    "view of a unit": Op("v", "s", "{out} = {a}[:, :, {t}]", part(lambda i: TURNED, at_step)),
    "transpose": Op("s", "s", "{out} = {a}.transpose(1, 2)", part(lambda i: TURNED)),
    "permute": Op("s", "s", "{out} = {a}.permute(0, 2, 1)", part(lambda i: TURNED)),
    "detach": Op("r", "r", "{out} = {a}.detach()", part(lambda i: SAME)),
    "view": Op("z", "z", "{out} = {a}.view({a}.shape)", part(lambda i: SAME)),
    "expand": Op("s", "v", "{out} = {a}[:, None].expand(-1, 3, -1)",
                 part(lambda i: REPEATED)),
    # constants
    "zeros": Op("s", "", "{out} = torch.zeros(len(x), 3, 3, dtype=x.dtype)", lambda m, i: constant(torch.zeros(m.batch, T, H))),
    "zeros like": Op("r", "r", "{out} = torch.zeros_like({a})", lambda m, i: constant(torch.zeros_like(m[i.a].tensor))),
    "new zeros": Op("v", "", "{out} = x.new_zeros(len(x), 3)", lambda m, i: constant(torch.zeros(m.batch, H))),
    "full": Op("v", "", "{out} = torch.full((len(x), 3), {k}, dtype=x.dtype)",
               lambda m, i: constant(torch.full((m.batch, H), i.k, dtype=torch.float64))),
    # changes in place, also through views
    "add_": Op("", "rr", "{a} += {b}", writing(lambda m, i: m.total(m[i.a], m[i.b]))),
    "add number_": Op("", "r", "{a} += {k}", writing(lambda m, i: m.shifted(m[i.a], i.k))),
    "sub_": Op("", "rr", "{a}.sub_({b})", writing(lambda m, i: m.total(m[i.a], negated(m[i.b])))),
    "scale_": Op("", "r", "{a} *= {k}", writing(lambda m, i: m.scaled(m[i.a], i.k))),
    "div_": Op("", "r", "{a}.div_({k})", writing(lambda m, i: m.scaled(m[i.a], 1 / i.k))),
    "neg_": Op("", "r", "{a}.neg_()", writing(lambda m, i: negated(m[i.a]))),
    "gate_": Op("", "rr", "{a}.mul_(torch.sigmoid({b}))",
                writing(lambda m, i: m.times(m[i.a], m.activation(torch.sigmoid, m[i.b], "gate")))),
    "mul_": Op("", "rr", "{a} *= {b}", writing(lambda m, i: m.times(m[i.a], m[i.b]))),
    "zero_": Op("", "z", "{a}.zero_()", writing(lambda m, i: constant(torch.zeros_like(m[i.a].tensor)))),
    "fill_": Op("", "r", "{a}.fill_({k})", writing(lambda m, i: constant(torch.full_like(m[i.a].tensor, i.k)))),
    "copy_": Op("", "rr", "{a}.copy_({b})", writing(lambda m, i: m[i.b])),
    "tanh_": Op("", "r", "{a}.tanh_()", writing(vary(torch.tanh))),
    "relu_": Op("", "r", "F.relu({a}, inplace=True)", writing(vary(torch.relu))),
    "sigmoid_": Op("", "r", "{a}.sigmoid_()", writing(vary(torch.sigmoid, "gate"))),
    "clamp_": Op("", "r", "{a}.clamp_(min=0)", writing(vary(torch.relu))),
    "masked_fill_": Op("", "r", "{a}.masked_fill_(torch.arange(3) == {t}, {k})",
                       writing(lambda m, i: m.moved(lambda z, c: torch.where(positive_mask(i), c, z), m[i.a], constant(i.k)))),
    "masked set": Op("", "r", "{a}[{a} < 0] = {k}",
                     writing(lambda m, i: m.moved(lambda z, c: torch.where(z < 0, c, z), m[i.a], constant(i.k)))),
    "lerp_": Op("", "rr", "{a}.lerp_({b}, 0.3)", writing(lambda m, i: m.total(m.scaled(m[i.a], 0.7), m.scaled(m[i.b], 0.3)))),
    "addcmul_": Op("", "rr", "{a}.addcmul_(torch.sigmoid({b}), {b})",
                   writing(lambda m, i: m.total(m[i.a], m.times(m.activation(torch.sigmoid, m[i.b], "gate"), m[i.b])))),
    "set step": Op("", "sv", "{a}[:, {t}] = {b}", writing(lambda m, i: m[i.b], at_step)),
    "set unit": Op("", "sv", "{a}[:, :, {t}] = {b}", writing(lambda m, i: m[i.b], lambda i: TURNED, at_step)),
    "set number": Op("", "s", "{a}[:, {t}] = {k}", writing(lambda m, i: constant(i.k), at_step)),
    "add to a step": Op("", "sv", "{a}[:, {t}] += {b}",
                        writing(lambda m, i: m.total(m.moved(lambda z: z[:, i.t], m[i.a]), m[i.b]), at_step)),
    "scale late steps": Op("", "s", "{a}[:, {t}:] *= {k}",
                           writing(lambda m, i: m.scaled(m.moved(lambda z: z[:, i.t :], m[i.a]), i.k), late)),
    "squash units": Op("", "r", "{a}[..., :2].tanh_()",
                       writing(lambda m, i: m.activation(torch.tanh, m.moved(lambda z: z[..., :2], m[i.a])), two_units)),
    "zero units": Op("", "r", "{a}[..., :2].zero_()", writing(lambda m, i: constant(0.0), two_units)),
    "index_copy_": Op("", "sv", "{a}.index_copy_(1, torch.tensor([{t}]), {b}[:, None])", writing(lambda m, i: m[i.b], at_step)),
    "index_fill_": Op("", "s", "{a}.index_fill_(1, torch.tensor([{t}]), {k})", writing(lambda m, i: constant(i.k), at_step)),
    "index_add_": Op("", "sv", "{a}.index_add_(1, torch.tensor([{t}]), {b}[:, None])",
                     writing(lambda m, i: m.total(m.moved(lambda z: z[:, i.t], m[i.a]), m[i.b]), at_step)),
    "scatter_": Op("", "sv", "{a}.scatter_(1, torch.full((len(x), 1, 3), {t}), {b}[:, None])",
                   writing(lambda m, i: m[i.b], at_step)),
    "transpose_": Op("", "s", "{a}.transpose_(1, 2)", turned_for_good),
    "unsqueeze_": Op("v", "v", "{a}.unsqueeze_(1); {out} = {a}.sum(1); {a}.squeeze_(1)", merging(lambda i, z: z)),
    "addmm_": Op("", "vv", "{a}.addmm_({b}.clone(), self.w{n})",
                 writing(lambda m, i: m.total(m[i.a], m.linear(lambda z: z @ weight(m, i.n), m[i.b])))),
    "cumsum_": Op("", "s", "{a}.cumsum_(1)", writing(merging(lambda i, z: z.cumsum(1)))),
    "lerp gate_": Op("", "rr", "{a}.lerp_({b}, torch.sigmoid({b}))", writing(lambda m, i: interpolated(m, m[i.a], m[i.b]))),
    "narrow_": Op("", "sv", "{a}.narrow(1, {t}, 1).add_({b}[:, None])",
                  writing(lambda m, i: m.total(m.moved(lambda z: z[:, i.t], m[i.a]), m[i.b]), at_step)),
    "flat_": Op("", "s", "{a}.view(len(x), 9)[:, ::2] *= {k}",
                writing(lambda m, i: m.scaled(m.moved(EVERY_OTHER.get, m[i.a]), i.k), lambda i: EVERY_OTHER)),
    "data_": Op("", "r", "{a}.data.mul_({k})", writing(lambda m, i: m.scaled(m[i.a], i.k))),
    "no_grad_": Op("", "rr", "with torch.no_grad(): {a}.add_({b}, alpha={k})",
                   writing(lambda m, i: m.total(m[i.a], m.scaled(m[i.b], i.k)))),
    "scale where positive": Op("", "r", "{a}[{a} > 0] *= {k}",
                               writing(lambda m, i: m.merged(lambda z: torch.where(z > 0, z * i.k, z), m[i.a]))),
    "set steps": Op("", "sv", "{a}[:, torch.tensor([{t}, {t} - 1])] = {b}[:, None].clone()", set_two_steps),
    "set list": Op("", "ss", "{a}[:, 1:] = {b}[:, :2].clone()",
                   writing(lambda m, i: m.moved(lambda z: z[:, :2], m[i.b]), lambda i: AFTER)),
    "shift in place": Op("", "s", "{a}[:, 1:] = {a}[:, :-1].clone()",
                         writing(lambda m, i: m.moved(lambda z: z[:, :2], m[i.a]), lambda i: AFTER)),
    "diagonal": Op("v", "s", "{out} = {a}.diagonal(dim1=1, dim2=2)", part(lambda i: DIAGONAL)),
    "add to diagonal": Op("", "s", "{a}.diagonal(dim1=1, dim2=2).add_({k})",
                          writing(lambda m, i: m.shifted(m.moved(DIAGONAL.get, m[i.a]), i.k), lambda i: DIAGONAL)),
    "swap": Op("", "rr", "{a}, {b} = {b}, {a}", swapped),
    "sort": Op("s", "s", "{out} = {a}.sort(1)[0]", merging(lambda i, z: z.sort(1)[0])),
    # loops over time
    "lstm cell": Op("s", "s", """\
h, c = x.new_zeros(len(x), 3), x.new_zeros(len(x), 3)
{out} = torch.zeros(len(x), 3, 3, dtype=x.dtype)
for t in range(3):
    h, c = self.cell({a}[:, t], (h, c))
    {out}[:, t] = h""", lambda m, i: lstm(m, m[i.a], list(m.model.cell.parameters()))),
    "lstm": Op("s", "s", "{out} = self.lstm({a})[0]", lambda m, i: lstm(m, m[i.a], list(m.model.lstm.parameters()))),
    "gru cell": Op("v", "s", """\
{out} = x.new_zeros(len(x), 3)
for t in range(3):
    {out} = self.gru({a}[:, t], {out})""", lambda m, i: gru(m, m[i.a])),
    "own cell": Op("s", "s", """\
h, {out} = x.new_zeros(len(x), 3), []
for t in range(3):
    h = torch.tanh({a}[:, t] @ self.w{n} + self.l1(h))
    {out}.append(h)
{out} = torch.stack({out}, 1)""", lambda m, i: own_cell(m, m[i.a], i.n)),
    "own cell in place": Op("s", "s", """\
h, {out} = x.new_zeros(len(x), 3), torch.empty(len(x), 3, 3, dtype=x.dtype)
for t in range(3):
    pre = self.l1(h)
    pre += {a}[:, t] @ self.w{n}
    h = pre.tanh_()
    {out}[:, t].copy_(h)""", lambda m, i: own_cell(m, m[i.a], i.n)),
    "filled": Op("s", "s", """\
{out} = torch.zeros_like({a})
for t in range(3):
    {out}[:, t] = torch.tanh({a}[:, t] @ self.w{n})
    {out}[:, t] *= {k}""", filling),
    "counter": Op("s", "s", """\
n, {out} = torch.zeros(1, 3, dtype=x.dtype), {a}.clone()
for t in range(3):
    n += 1
    {out}[:, t] += self.l{n}(n)""", counting),
    # complex numbers
    "to complex": Op("c", "s", "{out} = {a}.to(torch.complex128)", lambda m, i: as_complex(m, m[i.a])),
    "complex": Op("c", "ss", "{out} = torch.complex({a}, {b})",
                  moving(lambda i, a, b: torch.complex(a.contiguous(), b.contiguous()))),
    "fft": Op("c", "s", "{out} = torch.fft.fft({a}, dim=1)", mapping(lambda m, i: lambda z: torch.fft.fft(z, dim=1))),
    "ifft": Op("c", "c", "{out} = torch.fft.ifft({a}, dim=1)", mapping(lambda m, i: lambda z: torch.fft.ifft(z, dim=1))),
    "rfft": Op("s", "s", "{out} = torch.fft.irfft(torch.fft.rfft({a}, dim=1) * {k}, n=3, dim=1)",
               mapping(lambda m, i: lambda z: torch.fft.irfft(torch.fft.rfft(z, dim=1) * i.k, n=3, dim=1))),
    "complex weight": Op("c", "c", "{out} = {a} * self.p", lambda m, i: m.scaled(m[i.a], m.model.p)),
    "complex scale": Op("c", "c", "{out} = {a} * ({k} + 1j)", lambda m, i: m.scaled(m[i.a], i.k + 1j)),
    "complex sum": Op("c", "cc", "{out} = {a} + {b}", lambda m, i: m.total(m[i.a], m[i.b])),
    "complex difference": Op("c", "cs", "{out} = {a} - {b}", lambda m, i: m.total(m[i.a], negated(as_complex(m, m[i.b])))),
    "complex product": Op("c", "cc", "{out} = {a} * {b}", lambda m, i: m.times(m[i.a], m[i.b])),
    "complex gate": Op("c", "cs", "{out} = torch.sigmoid({b}) * {a}",
                       lambda m, i: m.times(m.activation(torch.sigmoid, m[i.b], "gate"), m[i.a])),
    "conj": Op("c", "c", "{out} = {a}.conj().clone()", moving(lambda i, z: z.conj())),
    "magnitude": Op("s", "c", "{out} = {a}.abs()", merging(lambda i, z: z.abs())),
    "real": Op("s", "c", "{out} = {a}.real", part(lambda i: REAL)),
    "imag": Op("s", "c", "{out} = {a}.imag", part(lambda i: IMAGINARY)),
    "view_as_real": Op("s", "c", "{out} = torch.view_as_real({a}).sum(-1)", merging(lambda i, z: z.real + z.imag)),
    "complex weight_": Op("", "c", "{a} *= self.p", writing(lambda m, i: m.scaled(m[i.a], m.model.p))),
    "complex add_": Op("", "cs", "{a} += {b}", writing(lambda m, i: m.total(m[i.a], as_complex(m, m[i.b])))),
    "complex step": Op("", "cv", "{a}[:, {t}] = {b}.to(torch.complex128)",
                       writing(lambda m, i: as_complex(m, m[i.b]), at_step)),
    "complex step_": Op("", "c", "{a}[:, {t}] *= {k}",
                        writing(lambda m, i: m.scaled(m.moved(lambda z: z[:, i.t], m[i.a]), i.k), at_step)),
    "real_": Op("", "c", "{a}.real.mul_({k})",
                writing(lambda m, i: m.scaled(m.moved(lambda z: z.real, m[i.a]), i.k), lambda i: REAL)),
    "real step": Op("", "cv", "{a}.imag[:, {t}] = {b}", writing(lambda m, i: m[i.b], lambda i: IMAGINARY, at_step)),
    "view_as_real_": Op("", "c", "torch.view_as_real({a})[..., 0] *= {k}",
                        writing(lambda m, i: m.scaled(m.moved(lambda z: z.real, m[i.a]), i.k), lambda i: REAL)),
    "complex cell": Op("c", "c", """\
h, {out} = torch.zeros(len(x), 3, dtype=torch.complex128), torch.zeros_like({a})
for t in range(3):
    h = self.p * h + {a}[:, t]
    {out}[:, t] = h""", lambda m, i: own_complex_cell(m, m[i.a])),
    # state
    "keep state": Op("", "v", "self.h = {a}", set_state),
    "next state": Op("", "v", "self.h = torch.tanh(self.l0({a}) + self.l1(self.h))", next_state),
    "read state": Op("v", "", "{out} = self.h.expand(len(x), -1)", lambda m, i: m.at("self.h", wide_lens(m.batch))),
    "add state": Op("v", "v", "{out} = {a} + self.h", lambda m, i: m.total(m[i.a], m["self.h"])),
    "scale state": Op("", "", "self.h.mul_({k})", scale_state),
    "count": Op("", "", "self.count += 1", add_to_count),
    "read count": Op("r", "r", "{out} = {a} + self.l{n}(self.count)",
                     lambda m, i: m.total(m[i.a], m.linear(layer(m, i.n), m["self.count"]))),
    "scale buffer": Op("", "", "self.b.mul_({k})", scale_buffer),
    "add buffer": Op("r", "r", "{out} = {a} + self.b", lambda m, i: m.total(m[i.a], m["self.b"])),
    "times buffer": Op("r", "r", "{out} = {a} * self.b", lambda m, i: m.scaled(m[i.a], m["self.b"].tensor)),
    "append": Op("", "v", "self.kept.append({a})", keep),
    "read list": Op("v", "", "{out} = self.kept[-1].expand(len(x), -1)",
                    lambda m, i: Name(m.kept[-1].box, (*m.kept[-1].lenses, wide_lens(m.batch)))),
}  # fmt: skip


def constant(number: float | Tensor) -> Ref:
    return Ref(
        torch.as_tensor(number, dtype=None if isinstance(number, Tensor) and number.is_complex() else torch.float64), "constant"
    )


def negated(ref: Ref) -> Ref:
    apart, start = (None if each is None else -each for each in (ref.apart, ref.start))
    return Ref(-ref.tensor, "unsure" if ref.role == "gate" else ref.role, apart, start, ref.kind)


def as_complex(m: Machine, ref: Ref) -> Ref:
    return m.merged(lambda z: z.to(torch.complex128), ref)


def normed(m: Machine, ref: Ref) -> Ref:
    """Layer normalisation with its normaliser as a constant."""
    norm = m.model.norm
    scale = (ref.tensor.detach().var(-1, unbiased=False, keepdim=True) + norm.eps).rsqrt() * norm.weight
    return m.linear(lambda z: (z - z.mean(-1, keepdim=True)) * scale + norm.bias, ref)


class Head(NamedTuple):
    """What makes two scores of a program's results: PyTorch's code around `self.head(…)`, its size, and its reference."""

    template: str
    size: int
    reference: Callable[[Machine, Ref], Ref]


def three_each(ref: Ref, m: Machine) -> Ref:
    """Three values for each of two scores."""
    return m.moved(lambda z: z.view(-1, 2, 3), ref)


def gates(m: Machine, ref: Ref) -> Ref:
    return m.activation(torch.sigmoid, three_each(ref, m), "gate")


def noisy_or(m: Machine, ref: Ref) -> Ref:
    """1 − (1 − a) (1 − b) (1 − c)."""
    a, b, c = (m.moved(lambda z, n=n: z[..., n], m.shifted(gates(m, ref), 1.0, -1.0)) for n in range(3))
    return m.shifted(m.by_means(m.by_means(a, b), c), 1.0, -1.0)


def weighted_steps(m: Machine, ref: Ref) -> Ref:
    """Positive sizes, averaged: softplus is no gate of what is only added to."""
    return m.merged(lambda z: z.mean(-1), m.activation(F.softplus, three_each(ref, m), "unsure", "logarithm"))


HEADS = {
    "scores": Head("{z}", 2, lambda m, ref: ref),
    "mean of sigmoids": Head("torch.sigmoid({z}.view(len(x), 2, 3)).mean(-1)", 6,
                             lambda m, ref: m.merged(lambda z: z.mean(-1), gates(m, ref))),
    "rating": Head("4 * torch.sigmoid({z}) + 1", 2,
                   lambda m, ref: m.shifted(m.scaled(m.activation(torch.sigmoid, ref, "gate"), 4.0), 1.0)),
    "mean of softplus": Head("F.softplus({z}.view(len(x), 2, 3)).mean(-1)", 6, weighted_steps),
    "tanh of sigmoid": Head("torch.tanh({z}.sigmoid() - 0.3)", 2,
                            lambda m, ref: m.activation(torch.tanh, m.shifted(m.activation(torch.sigmoid, ref, "gate"), -0.3))),
    "mean log of softmax": Head("torch.log(torch.softmax({z}.view(len(x), 2, 3), -1)).mean(-1)", 6,
                                lambda m, ref: m.merged(lambda z: z.mean(-1),
                                                        m.activation(torch.log, m.softmax(three_each(ref, m))))),
    "expected level": Head("torch.softmax({z}.view(len(x), 2, 3), -1) @ torch.arange(3.0, dtype=x.dtype)", 6,
                           lambda m, ref: m.merged(lambda z: z @ torch.arange(3.0, dtype=z.dtype),
                                                   m.softmax(three_each(ref, m)))),
    "noisy or": Head("1 - (1 - torch.sigmoid({z}.view(len(x), 2, 3))).prod(-1)", 6, noisy_or),
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A list of instructions, the names that its score is computed from, and the numbers it runs on."""

    body: tuple[Instruction, ...]
    results: tuple[str, ...]
    batch: int = 2
    number: int = 0  # of the random numbers
    head: str = "scores"

    def __str__(self) -> str:
        lines = [line for instruction in self.body for line in str(instruction).splitlines()]
        results = ", ".join(f"{name}{'.real' * (name[0] == 'c')}.flatten(1)" for name in self.results)
        head = HEADS[self.head].template.format(z=f"self.head(torch.cat([{results}], 1))")
        lines = ["class Model(Layers):", "    def forward(self, x):", *(f"        {line}" for line in lines)]
        lines += [f"        return {head}", f"# batch={self.batch}, number={self.number}"]
        return "\n".join(lines)

    def model(self) -> Layers:
        """A fresh module."""
        names: dict[str, Any] = {"Layers": Layers, "torch": torch, "F": F}
        exec(str(self), names)
        torch.manual_seed(self.number)
        model = cast(Layers, names["Model"]())
        model.head = nn.Linear(sum(H if name[0] == "v" else T * H for name in self.results), HEADS[self.head].size)
        return model.double().requires_grad_(False)

    def inputs(self) -> Tensor:
        return torch.randn(self.batch, T, H, generator=torch.Generator().manual_seed(self.number), dtype=torch.float64)

    def reference(self, x: Tensor) -> tuple[Machine, Tensor]:
        """The program run out of place, and its scores."""
        machine = Machine(self.model(), x)
        for instruction in self.body:
            made = OPS[instruction.op].reference(machine, instruction)
            if made is not None:
                machine.names[instruction.out] = made if isinstance(made, Name) else Name(Box(made))
        found = [machine[name].form for name in self.results]
        parts = [(part.real if part.is_complex() else part).flatten(1) for part in found]
        scores = machine.note(cast(nn.Linear, machine.model.head)(torch.cat(parts, 1)))
        return machine, HEADS[self.head].reference(machine, scores).form


def family(op: Op) -> str:
    """What an instruction is about; every family is drawn equally often."""
    if "c" in op.result + op.operands:
        return "complex numbers"
    if "for t" in op.template:
        return "loops"
    if any(name in op.template for name in ("self.h", "self.b", "self.count", "self.kept")):
        return "state"
    return "values" if op.result else "changes in place"


def kinds(wanted: str, known: str) -> bool:
    return wanted == known or known in {"r": "vs", "z": "vsc"}.get(wanted, "")


@st.composite
def programs(draw: st.DrawFn, longest: int = 9) -> Program:
    """Programs of a few instructions, each on names that were made before."""
    names, body = ["x"], list[Instruction]()
    for number in range(draw(st.integers(1, longest))):
        by_kind = {kind: [name for name in names if kind_of(name) == kind] for kind in "vsc"}
        usable = [key for key, op in OPS.items() if all(any(by_kind[k] for k in "vsc" if kinds(o, k)) for o in op.operands)]
        about = draw(st.sampled_from(list(dict.fromkeys(family(OPS[key]) for key in usable))))
        op = draw(st.sampled_from([key for key in usable if family(OPS[key]) == about]))
        result, operands = OPS[op].result, OPS[op].operands
        if "r" in operands or "z" in operands:
            free = "r" if "r" in operands else "z"
            kind = draw(st.sampled_from([k for k in "svc" if kinds(free, k) and by_kind[k]]))
            result, operands = result.replace(free, kind), operands.replace(free, kind)
        a, b = (draw(st.sampled_from(by_kind[kind][::-1])) for kind in operands.ljust(2, "s"))
        out = f"{result}{number}" if result else ""
        t, k, n = draw(st.integers(0, T - 1)), draw(st.sampled_from(SCALES)), draw(st.integers(0, 1))
        body.append(Instruction(op, out, a, b, t, k, n))
        names += [out] * bool(out)
    results = draw(st.lists(st.sampled_from(names[::-1]), min_size=1, max_size=3, unique=True))
    return Program(
        tuple(body), tuple(results), draw(st.integers(1, 3)), draw(st.integers(0, 1000)), draw(st.sampled_from(list(HEADS)))
    )


def kind_of(name: str) -> str:
    return "s" if name == "x" else name[0]


METHODS = st.sampled_from(
    [
        LRP(),
        LRP(delta=1.0),
        LRP(stabiliser="absorbed"),
        LRP(epsilon=0.1, delta=0.5),
        *(LRP(product=p) for p in ("half", "prop", "abs")),
    ]
)


class Outcome(NamedTuple):
    """How an example ended. `reason`: why it was refused, or why there is no reference to compare with."""

    kind: Literal["invalid", "refused", "explained", "compared"]
    reason: str = ""


class WrongError(AssertionError):
    """A result that breaks a law; `law` is its name."""

    def __init__(self, law: str, trial: "Trial", detail: object) -> None:
        super().__init__(f"{law}: {trial.method}, target {trial.target}: {detail}\n{trial.program}")
        self.law, self.trial = law, trial


@dataclass(frozen=True)
class Trial:
    """A program that is explained, and compared with everything that is known about the result."""

    program: Program
    method: LRP
    target: int

    def outcome(self) -> Outcome:
        """Explain the program, and raise if the result breaks a law."""
        x = self.program.inputs()
        score = self.plain(x)
        if isinstance(score, str):
            return Outcome("invalid", score)
        again = self.program.reference(x.clone().requires_grad_())[1][:, self.target].detach()
        self.same("the two ways to run a program agree", again, score, 1e-9 * at_least_one(score))
        model = self.program.model()
        before = model.state()
        try:
            result = self.explained(model, x)
        except WhenceError as error:
            if isinstance(error, TargetError):
                self.require_constant(x, score)
            return Outcome("refused", short(error))
        finally:
            self.require_untouched(model, before)
        self.same("the score is the model's", result.score, score, 1e-9 * at_least_one(score))
        largest = at_least_one(result.relevance, *result.absorbed.values(), score)
        total = result.relevance.sum((1, 2)) + sum(result.absorbed.values())
        self.same("relevance and absorbed amounts add up to the score", total, score, 1e-8 * largest)
        twice = self.explained(model, x)
        self.same("a second call gives the same relevance", twice.relevance, result.relevance, 0.0)
        self.same("a second call gives the same score", twice.score, result.score, 0.0)
        self.require_same_alone(x, result.relevance, 1e-9 * largest)
        return self.compared(x)

    def plain(self, x: Tensor) -> Tensor | str:
        """The module's own score, or why it has none."""
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("error")
                score = self.program.model()(x.clone())[:, self.target]
        except (RuntimeError, UserWarning) as error:
            return str(error).splitlines()[0]
        return score if score.isfinite().all() and score.abs().max() < 1e6 else "the score is too large"

    def same(self, law: str, found: Tensor, expected: Tensor, tolerance: float) -> None:
        if found.shape != expected.shape or not bool(((found - expected).abs() <= tolerance).all()):
            raise WrongError(law, self, f"found {found.tolist()}, expected {expected.tolist()}")

    def explained(self, model: Layers, x: Tensor, method: LRP | None = None) -> Any:
        """The explanation; an error that is no refusal breaks a law."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return whence.relevance(model, x.clone(), target=self.target, method=method or self.method)
        except ConservationError as error:
            raise WrongError("relevance and absorbed amounts add up to the score", self, error) from error
        except WhenceError as error:
            broken = [law for words, law in UNFORESEEN.items() if words in str(error)]
            if broken:
                raise WrongError(broken[0], self, error) from error
            raise
        except Exception as error:
            raise WrongError(f"no error but whence's own ({type(error).__name__})", self, error) from error

    def require_untouched(self, model: Layers, before: Sequence[tuple[int, Tensor]]) -> None:
        after = model.state()
        is_same = [one[0] for one in before] == [other[0] for other in after]
        if not is_same or not all(torch.equal(one[1], other[1]) for one, other in zip(before, after, strict=True)):
            raise WrongError("the model is as before", self, "its state changed")

    def require_constant(self, x: Tensor, score: Tensor) -> None:
        """Only a score that does not depend on the inputs is refused for that."""
        other = self.plain(x + 0.1)
        if isinstance(other, Tensor):
            self.same("a score that depends on the inputs is explained", other, score, 0.0)

    def require_same_alone(self, x: Tensor, relevance: Tensor, tolerance: float) -> None:
        """A sample alone has the same relevance, unless the module cannot compute it alone."""
        n = self.program.number % self.program.batch
        if isinstance(self.plain(x[[n]]), str):
            return
        try:
            alone = self.explained(self.program.model(), x[[n]])
        except WhenceError as error:
            raise WrongError("a sample alone is explained too", self, error) from error
        self.same("a sample alone has the same relevance", alone.relevance, relevance[[n]], tolerance)

    def compared(self, x: Tensor) -> Outcome:
        """Compare relevance for ε → 0 with the derivative of the reference times the input."""
        leaf = x.clone().requires_grad_()
        machine, scores = self.program.reference(leaf)
        if machine.doubts:
            return Outcome("explained", min(machine.doubts))
        if not scores.requires_grad:
            return Outcome("explained", "the score does not depend on the input")
        seen = [leaf, *machine.seen]
        slopes = torch.autograd.grad(scores[:, self.target].sum(), seen, allow_unused=True, materialize_grads=True)
        largest = at_least_one(*((each.detach() * slope.conj()).real for each, slope in zip(seen, slopes, strict=True)))
        if largest > 1e4:
            return Outcome("explained", "amounts are too large")
        result = self.explained(self.program.model(), x, LRP(epsilon=1e-12))
        # numbers are at least SMALLEST, so ε moves a share by 1e-8 of itself
        self.same("relevance is that of the reference", result.relevance, x * slopes[0], 1e-6 * largest)
        return Outcome("compared")


# what an error says that is no refusal, and the law it breaks
UNFORESEEN = {
    "modified by an inplace operation": "a step is not changed by later writes",
    "recording it failed": "what the model can compute is recorded or refused for a reason",
    "could not be handed back": "relevance is handed back or refused for a reason",
    "cannot be followed, so its relevance": "the record computes what the model computes",
    "cannot run on inputs": "a model that runs is explained",
}


def at_least_one(*amounts: Tensor) -> float:
    """The largest size of an amount, at least 1."""
    return max(1.0, *(float(amount.detach().abs().max()) for amount in amounts))


def short(error: Exception) -> str:
    """An error without the names of a program."""
    text = re.sub(r"\([^()]*\)|\d+|'[^']*'", "", f"{type(error).__name__}: {error}")
    return re.sub(r"\s+", " ", text)[:160]


def minimal(wrong: WrongError) -> WrongError:
    """The failure of the shortest program that breaks the same law, by leaving things out one by one."""
    for program in shorter(wrong.trial.program):
        try:
            replace(wrong.trial, program=program).outcome()
        except WrongError as found:
            if found.law == wrong.law:
                return minimal(found)
        except (NameError, KeyError):  # it made something that is needed
            continue
    return wrong


def shorter(program: Program) -> list[Program]:
    """Programs with one thing less."""
    body, results = program.body, program.results
    found = [replace(program, body=body[:n] + body[n + 1 :]) for n in range(len(body))]
    found += [replace(program, results=results[:n] + results[n + 1 :]) for n in range(len(results)) if len(results) > 1]
    for n, each in enumerate(body):
        for place in ("a", "b"):
            if getattr(each, place) != "x" and kind_of(getattr(each, place)) == "s":
                found.append(replace(program, body=(*body[:n], replace(each, **{place: "x"}), *body[n + 1 :])))
    found += [replace(program, batch=1)] * (program.batch > 1)
    return found + [replace(program, head="scores")] * (program.head != "scores")


def trials(longest: int = 9) -> st.SearchStrategy[Trial]:
    return st.builds(Trial, programs(longest), METHODS, st.integers(0, 1))


@dataclass
class Tally:
    """How many examples ended in which way, and the failures."""

    counts: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[str] = field(default_factory=Counter[str])
    unsure: Counter[str] = field(default_factory=Counter[str])
    broken: Counter[str] = field(default_factory=Counter[str])
    failures: dict[str, list[WrongError]] = field(default_factory=dict[str, list[WrongError]])

    def add(self, trial: Trial) -> None:
        try:
            kind, reason = trial.outcome()
        except WrongError as wrong:
            self.counts["failed"] += 1
            known = self.failures.setdefault(wrong.law, [])
            self.broken[wrong.law] += 1
            if len(known) < 3:
                known.append(minimal(wrong))
            return
        self.counts[kind] += 1
        {"refused": self.refusals, "explained": self.unsure}.get(kind, Counter[str]())[reason] += 1


def main() -> None:
    """Run many examples, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=int, default=9)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    tally = Tally()

    @seed(wanted.seed)
    @settings(
        max_examples=wanted.examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(trials(wanted.longest))
    def run(trial: Trial) -> None:
        tally.add(trial)

    run()
    print(f"{wanted.examples} examples from seed {wanted.seed}: {dict(tally.counts)}")
    for title, counts in (("refused", tally.refusals), ("not compared", tally.unsure)):
        for reason, count in counts.most_common():
            print(f"{title:>12} {count:6}  {reason}")
    for law, failures in tally.failures.items():
        print(f"\n=== {law} ({tally.broken[law]} times)")
        for text in dict.fromkeys(
            str(wrong)[:3000] for wrong in sorted(failures, key=lambda wrong: len(wrong.trial.program.body))
        ):
            print(text, "\n")


if __name__ == "__main__":
    main()
