"""Patterns of published recurrent models, in our own words: nothing is marked, nothing is written for an explanation.

Each reads (B, T, E) and gives scores (B, C).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.cells import Cell, MinGRU


class Applied(Cell):
    """A linear layer, something done to its results over all steps, and their sum."""

    def __init__(self, embedding: int, hidden: int, classes: int, function: Callable[..., Tensor]) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.y, self.function = nn.Linear(embedding, hidden), nn.Linear(embedding, hidden), function
        self.w = nn.Parameter(torch.randn(hidden))
        self.register_buffer("scale", torch.rand(hidden) + 0.5)

    def states(self, x: Tensor) -> Tensor:
        return self.function(self, self.x(x), self.y(x)).sum(1)


class SLSTM(Cell):
    """Exponential gates, a normaliser and a running maximum."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.h = nn.Linear(embedding, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)

    def states(self, x: Tensor) -> Tensor:
        h = c = n = self.start(x)
        m = self.start(x) - 10
        for t in range(x.shape[1]):
            z, i, f, o = (self.x(x[:, t]) + self.h(h)).chunk(4, -1)
            kept = F.logsigmoid(f) + m
            new = torch.maximum(kept, i)
            i, f, m = torch.exp(i - new), torch.exp(kept - new), new
            c, n = f * c + i * torch.tanh(z), f * n + i
            h = torch.sigmoid(o) * (c / n)
        return h


class MLSTM(Cell):
    """A matrix memory of keys and values, read with a query and normalised."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.q, self.k, self.v = (nn.Linear(embedding, hidden) for _ in range(3))
        self.gates = nn.Linear(embedding, 2)

    def states(self, x: Tensor) -> Tensor:
        memory, n = x.new_zeros(len(x), self.hidden, self.hidden), self.start(x)
        read = n
        for t in range(x.shape[1]):
            i, f = self.gates(x[:, t]).chunk(2, -1)
            i, f = torch.exp(i), torch.sigmoid(f)
            k, v = self.k(x[:, t]) / self.hidden**0.5, self.v(x[:, t])
            memory = f[..., None] * memory + i[..., None] * (v[:, :, None] @ k[:, None, :])
            n = f * n + i * k
            q = self.q(x[:, t])
            read = (memory @ q[..., None])[..., 0] / (n * q).sum(-1, keepdim=True).abs().clamp(min=1.0)
        return read


class SelectiveScan(Cell):
    """Step sizes, input and output matrices that depend on the input, as an einsum of three; a multiplicative branch."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.z = nn.Linear(embedding, hidden), nn.Linear(embedding, hidden)
        self.step, self.b, self.c = nn.Linear(hidden, hidden), nn.Linear(hidden, 3), nn.Linear(hidden, 3)
        self.log_a, self.d = nn.Parameter(torch.randn(hidden, 3)), nn.Parameter(torch.randn(hidden))

    def states(self, x: Tensor) -> Tensor:
        u, z = F.silu(self.x(x)), self.z(x)
        step, b, c = F.softplus(self.step(u)), self.b(u), self.c(u)
        kept = torch.exp(torch.einsum("bth,hn->bthn", step, -torch.exp(self.log_a)))
        written = torch.einsum("bth,btn,bth->bthn", step, b, u)
        state, found = x.new_zeros(len(x), self.hidden, 3), list[Tensor]()
        for t in range(x.shape[1]):
            state = kept[:, t] * state + written[:, t]
            found.append(torch.einsum("bhn,bn->bh", state, c[:, t]))
        y = torch.stack(found, 1) + u * self.d
        return (y * F.silu(z))[:, -1]


class RGLRU(Cell):
    """a = exp(−8 σ(r) softplus(Λ)), and the input scaled by √(1 − a²)."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.r, self.i = (nn.Linear(embedding, hidden) for _ in range(3))
        self.rate = nn.Parameter(torch.randn(hidden))

    def states(self, x: Tensor) -> Tensor:
        h = self.start(x)
        for t in range(x.shape[1]):
            a = torch.exp(-8 * torch.sigmoid(self.r(x[:, t])) * F.softplus(self.rate))
            h = a * h + torch.sqrt(1 - a**2) * (torch.sigmoid(self.i(x[:, t])) * self.x(x[:, t]))
        return h


class TimeMixing(Cell):
    """Weights exp(k), their running sums, a receptance, then relu² channels: the RWKV kind."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.k, self.v, self.r = (nn.Linear(embedding, hidden) for _ in range(3))
        self.decay, self.mix, self.up = (
            nn.Parameter(torch.rand(hidden)),
            nn.Parameter(torch.rand(embedding)),
            nn.Linear(hidden, 5),
        )
        self.down = nn.Linear(5, hidden)

    def states(self, x: Tensor) -> Tensor:
        before = F.pad(x, (0, 0, 1, -1))
        x = x * self.mix + before * (1 - self.mix)
        k, v, r = self.k(x), self.v(x), torch.sigmoid(self.r(x))
        above = below = self.start(x)
        found: list[Tensor] = []
        for t in range(x.shape[1]):
            above = torch.exp(-self.decay) * above + torch.exp(k[:, t]) * v[:, t]
            below = torch.exp(-self.decay) * below + torch.exp(k[:, t])
            found.append(r[:, t] * above / below)
        y = torch.stack(found, 1)
        return (y + self.down(torch.square(torch.relu(self.up(y))))).sum(1)


class LinearAttention(Cell):
    """φ(q) Σ φ(k) vᵀ without a softmax, by running sums."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.q, self.k, self.v = (nn.Linear(embedding, hidden) for _ in range(3))

    def states(self, x: Tensor) -> Tensor:
        q, k, v = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1, self.v(x)
        memory = torch.einsum("btk,btv->btkv", k, v).cumsum(1)
        size = torch.einsum("btk,btk->bt", q, k.cumsum(1))
        return (torch.einsum("btk,btkv->btv", q, memory) / size[..., None])[:, -1]


class Decaying(Cell):
    """Hidden states that decay with time, exp(−relu(·)), and values that decay towards a mean."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.decay, self.cell = nn.Linear(embedding, hidden), nn.GRUCell(embedding, hidden)

    def states(self, x: Tensor) -> Tensor:
        h = self.start(x)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], torch.exp(-torch.relu(self.decay(x[:, t]))) * h)
        return h


class LRU(Cell):
    """A complex diagonal recurrence with a real result."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.size, self.angle = nn.Parameter(torch.rand(5)), nn.Parameter(torch.rand(5))
        self.b, self.c = nn.Parameter(torch.randn(5, embedding, 2)), nn.Parameter(torch.randn(hidden, 5, 2))
        self.d = nn.Parameter(torch.randn(hidden, embedding))

    def states(self, x: Tensor) -> Tensor:
        b, c = torch.view_as_complex(self.b), torch.view_as_complex(self.c)
        kept = torch.polar(torch.exp(-torch.exp(self.size)), self.angle)
        state = torch.zeros(len(x), 5, dtype=b.dtype)
        for t in range(x.shape[1]):
            state = kept * state + x[:, t].to(b.dtype) @ b.T
        return torch.tanh((state @ c.T).real + x[:, -1] @ self.d.T)


class FourierConvolution(Cell):
    """A long convolution by Fourier transforms: the S4D and LMU kind."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.kernel, self.d = (
            nn.Linear(embedding, hidden),
            nn.Parameter(torch.randn(hidden, 9)),
            nn.Parameter(torch.randn(hidden)),
        )

    def states(self, x: Tensor) -> Tensor:
        u = self.x(x).transpose(1, 2)
        steps = u.shape[-1]
        kernel = torch.fft.rfft(self.kernel[:, :steps], n=2 * steps)
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * steps) * kernel, n=2 * steps)[..., :steps]
        return F.gelu(y + u * self.d[:, None])[..., -1]


class LogMinGRU(MinGRU):
    """minGRU in log space, as its authors train it."""

    def states(self, x: Tensor) -> Tensor:
        z, n = self.z(x), self.n(x)
        values = -F.softplus(-z) + torch.where(n >= 0, (F.relu(n) + 0.5).log(), -F.softplus(-n))
        kept = (-F.softplus(z)).cumsum(1)
        return (kept + (values - kept).logcumsumexp(1)).exp()[:, -1]


class Ending(Cell):
    """An LSTM whose scores go through one more function."""

    def __init__(self, embedding: int, hidden: int, classes: int, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__(embedding, hidden, classes)
        self.lstm, self.function = nn.LSTM(embedding, hidden, batch_first=True), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.head(self.lstm(x)[0][:, -1]))


class Tensorised(Cell):
    """A bilinear layer between the first and the last state, and an interpolated sequence."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.pair = nn.Linear(embedding, hidden), nn.Bilinear(hidden, hidden, hidden)

    def states(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.x(x))
        longer = F.interpolate(h.transpose(1, 2), scale_factor=2.0, mode="linear").transpose(1, 2)
        return self.pair(h[:, 0], longer[:, -1]) + F.avg_pool2d(longer[:, None], (2, 1))[:, 0].sum(1)


class InPlace(Cell):
    """States written into a buffer, read back through views, scaled and zeroed in place."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.cell = nn.GRUCell(embedding, hidden)

    def states(self, x: Tensor) -> Tensor:
        out = x.new_zeros(len(x), x.shape[1] + 1, self.hidden)
        for t in range(x.shape[1]):
            out[:, t + 1] = self.cell(x[:, t], out[:, t])
            out[:, t + 1].mul_(0.9)
        first = out[:, 0]
        first += out[:, -1]
        out[:, 1].zero_()
        return out.sum(1) + first


def pooled(model: Any, a: Tensor, b: Tensor) -> Tensor:
    """A masked mean of features out of a sigmoid, and a weight beside another."""
    mask = (torch.arange(a.shape[1]) < 4).to(a)[:, None]
    return torch.sigmoid(a) * mask / mask.sum() + torch.sigmoid(b) * model.w + torch.sigmoid(a) * model.scale


def of(function: Callable[..., Tensor]) -> Callable[[int, int, int], nn.Module]:
    return lambda e, h, c: Applied(e, h, c, function)


def ending(function: Callable[[Tensor], Tensor]) -> Callable[[int, int, int], nn.Module]:
    return lambda e, h, c: Ending(e, h, c, function)


PUBLISHED: dict[str, Callable[[int, int, int], nn.Module]] = {
    "sLSTM, nothing marked": SLSTM,
    "mLSTM, nothing marked": MLSTM,
    "selective scan, nothing marked": SelectiveScan,
    "RG-LRU, nothing marked": RGLRU,
    "time mixing (RWKV)": TimeMixing,
    "linear attention": LinearAttention,
    "decaying states (GRU-D)": Decaying,
    "complex diagonal recurrence (LRU)": LRU,
    "convolution by Fourier transforms (S4D)": FourierConvolution,
    "minGRU, log space of its authors": LogMinGRU,
    "bilinear, interpolate, avg_pool2d": Tensorised,
    "a buffer written in place": InPlace,
    "normaliser: x · rsqrt(mean x²)": of(lambda m, a, b: a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6) * m.w),
    "normaliser: x / ‖x‖": of(lambda m, a, b: a / a.norm(dim=-1, keepdim=True)),
    "normaliser: (x − mean) / std": of(lambda m, a, b: (a - a.mean(-1, keepdim=True)) / (a.std(-1, keepdim=True) + 1e-6)),
    "normaliser: F.normalize(relu, p=1)": of(lambda m, a, b: F.normalize(F.relu(a), p=1, dim=-1)),
    "silu(z) · y": of(lambda m, a, b: F.silu(a) * b),
    "tanh · tanh": of(lambda m, a, b: a.tanh() * b.tanh()),
    "softmax · tanh": of(lambda m, a, b: a.softmax(-1) * b.tanh()),
    "hardtanh(0, 1) · tanh": of(lambda m, a, b: F.hardtanh(a, 0.0, 1.0) * b.tanh()),
    "minimum(exp, 1) · y": of(lambda m, a, b: torch.minimum(a.exp(), torch.ones_like(a)) * b),
    "features out of a sigmoid": of(pooled),
    "ends in log_softmax": ending(lambda z: z.log_softmax(-1)),
    "ends in softmax": ending(lambda z: z.softmax(-1)),
    "ends in sigmoid": ending(torch.sigmoid),
    "ends in softplus": ending(F.softplus),
    "ends in exp": ending(torch.exp),
}
