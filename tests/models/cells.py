"""Recurrent cells as people write them, from the old to the new: each reads (B, T, E) and gives scores (B, C).

Where only a person can know which factor of a product is the gate (exponential gates, keys and queries, step sizes,
normalisers), the cell says so with `whence.gate`, which changes nothing.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from whence import gate


class Cell(nn.Module):
    """A cell in a loop over time, and a linear head on the last state."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.embedding, self.hidden = embedding, hidden
        self.head = nn.Linear(hidden, classes)

    def start(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), self.hidden)

    def states(self, x: Tensor) -> Tensor:
        """The state after the last step (B, H)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.states(x))


class PeepholeLSTM(Cell):
    """The gates also see the cell state, each unit its own."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.gates = nn.Linear(embedding + hidden, 4 * hidden)
        self.p_i, self.p_f, self.p_o = (nn.Parameter(torch.randn(hidden)) for _ in range(3))

    def states(self, x: Tensor) -> Tensor:
        h = c = self.start(x)
        for x_t in x.unbind(1):
            i, f, g, o = self.gates(torch.cat([x_t, h], -1)).chunk(4, -1)
            i, f = torch.sigmoid(i + self.p_i * c), torch.sigmoid(f + self.p_f * c)
            c = f * c + i * torch.tanh(g)
            h = torch.sigmoid(o + self.p_o * c) * torch.tanh(c)
        return h


class CoupledLSTM(Cell):
    """What is forgotten is what is written: i = 1 − f."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.h = nn.Linear(embedding, 3 * hidden), nn.Linear(hidden, 3 * hidden, bias=False)

    def states(self, x: Tensor) -> Tensor:
        h = c = self.start(x)
        for x_t in x.unbind(1):
            f, g, o = (self.x(x_t) + self.h(h)).chunk(3, -1)
            f = f.sigmoid()
            c = f * c + (1 - f) * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h


class LayerNormLSTM(Cell):
    """Normalised sums and a normalised cell state."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.h = nn.Linear(embedding, 4 * hidden, bias=False), nn.Linear(hidden, 4 * hidden, bias=False)
        self.norm_x, self.norm_h, self.norm_c = nn.LayerNorm(4 * hidden), nn.LayerNorm(4 * hidden), nn.LayerNorm(hidden)

    def states(self, x: Tensor) -> Tensor:
        h, c = x.new_full((len(x), self.hidden), 0.1), self.start(x)
        for x_t in x.unbind(1):
            i, f, g, o = (self.norm_x(self.x(x_t)) + self.norm_h(self.h(h))).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * self.norm_c(c).tanh()
        return h


class ConvLSTM(Cell):
    """Gates by convolution over a row (or an image) of every step; each feature is one place here."""

    def __init__(self, embedding: int, hidden: int, classes: int, *, images: bool = False) -> None:
        super().__init__(embedding, hidden, classes)
        kind = nn.Conv2d if images else nn.Conv1d
        self.gates = kind(1 + hidden, 4 * hidden, 3, padding=1)

    def states(self, x: Tensor) -> Tensor:
        places = (self.embedding,) if isinstance(self.gates, nn.Conv1d) else (self.embedding, 1)
        h = c = x.new_zeros(len(x), self.hidden, *places)
        for x_t in x.unbind(1):
            i, f, g, o = self.gates(torch.cat([x_t.view(len(x), 1, *places), h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h.flatten(2).mean(-1)


class GRU(Cell):
    """Both conventions: PyTorch resets behind the matrix, U (r ⊙ h) is Keras' `reset_after=False`."""

    def __init__(self, embedding: int, hidden: int, classes: int, *, reset_after: bool = True) -> None:
        super().__init__(embedding, hidden, classes)
        self.reset_after = reset_after
        self.gates, self.x, self.h = (
            nn.Linear(embedding + hidden, 2 * hidden),
            nn.Linear(embedding, hidden),
            nn.Linear(hidden, hidden),
        )
        self.h0 = nn.Parameter(torch.randn(hidden))

    def states(self, x: Tensor) -> Tensor:
        h = self.h0.expand(len(x), -1)
        for x_t in x.unbind(1):
            r, z = self.gates(torch.cat([x_t, h], -1)).sigmoid().chunk(2, -1)
            n = torch.tanh(self.x(x_t) + (r * self.h(h) if self.reset_after else self.h(r * h)))
            h = (1 - z) * n + z * h
        return h


class MGU(Cell):
    """The minimal gated unit: one gate for everything."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.f, self.n = nn.Linear(embedding + hidden, hidden), nn.Linear(embedding + hidden, hidden)

    def states(self, x: Tensor) -> Tensor:
        h = self.start(x)
        for x_t in x.unbind(1):
            f = torch.sigmoid(self.f(torch.cat([x_t, h], -1)))
            h = torch.lerp(h, torch.tanh(self.n(torch.cat([x_t, f * h], -1))), f)
        return h


class MinGRU(Cell):
    """Gates that see the input alone; in a loop, or as a parallel scan of running products and sums."""

    def __init__(self, embedding: int, hidden: int, classes: int, *, parallel: bool = False) -> None:
        super().__init__(embedding, hidden, classes)
        self.parallel = parallel
        self.z, self.n = nn.Linear(embedding, hidden), nn.Linear(embedding, hidden)

    def states(self, x: Tensor) -> Tensor:
        z, n = self.z(x).sigmoid(), self.n(x)
        if self.parallel:
            kept = torch.cumprod(1 - z, dim=1)
            return (kept * torch.cumsum(z * n / kept, dim=1))[:, -1]
        h = self.start(x)
        for t in range(x.shape[1]):
            h = (1 - z[:, t]) * h + z[:, t] * n[:, t]
        return h


class MinLSTM(Cell):
    """Forget and input gates, each over their sum."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.f, self.i, self.n = (nn.Linear(embedding, hidden) for _ in range(3))

    def states(self, x: Tensor) -> Tensor:
        f, i, n = self.f(x).sigmoid(), self.i(x).sigmoid(), self.n(x)
        f, i = f / (f + i), i / (f + i)
        h = self.start(x)
        for t in range(x.shape[1]):
            h = f[:, t] * h + i[:, t] * n[:, t]
        return h


class LogMinGRU(MinGRU):
    """minGRU in log space, as it is trained: numbers become logarithms, and their sums have no rule."""

    def states(self, x: Tensor) -> Tensor:
        z, n = self.z(x), F.softplus(self.n(x))
        kept = F.logsigmoid(-z).cumsum(1)
        return torch.exp(kept + torch.logcumsumexp(F.logsigmoid(z) + n.log() - kept, dim=1))[:, -1]


class SLSTM(Cell):
    """xLSTM's scalar memory: exponential gates with a running maximum, and a normaliser made of the gates alone."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.gates = nn.Linear(embedding + hidden, 4 * hidden)
        self.norm = nn.GroupNorm(1, hidden)

    def states(self, x: Tensor) -> Tensor:
        h = c = n = m = self.start(x)
        for x_t in x.unbind(1):
            i, f, g, o = self.gates(torch.cat([x_t, h], -1)).chunk(4, -1)
            f = F.logsigmoid(f)
            m_t = torch.maximum(f + m, i)
            i, f, m = gate(torch.exp(i - m_t)), gate(torch.exp(f + m - m_t)), m_t
            c, n = f * c + i * torch.tanh(g), f * n + i
            h = torch.sigmoid(o) * (c / n)
        return self.norm(h)


class MLSTM(Cell):
    """xLSTM's matrix memory: values stored under keys, read by queries."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.q, self.k, self.v, self.o = (nn.Linear(embedding, hidden) for _ in range(4))
        self.gates = nn.Linear(embedding, 2)

    def states(self, x: Tensor) -> Tensor:
        memory, norm = x.new_zeros(len(x), self.hidden, self.hidden), self.start(x)
        h = self.start(x)
        for x_t in x.unbind(1):
            i, f = self.gates(x_t).chunk(2, -1)
            i, f = gate(torch.exp(i)), torch.sigmoid(f)
            q, k, v = gate(self.q(x_t)), gate(self.k(x_t) / self.hidden**0.5), self.v(x_t)
            memory = f[..., None] * memory + i[..., None] * (v[:, :, None] * k[:, None, :])
            norm = f * norm + i * k
            read = torch.einsum("bij,bj->bi", memory, q)
            h = torch.sigmoid(self.o(x_t)) * (read / gate((norm * q).sum(-1, keepdim=True).abs().clamp(min=1.0)))
        return h


class SelectiveScan(Cell):
    """A Mamba-style block in loop form: step sizes, input and output matrices depend on the input."""

    def __init__(self, embedding: int, hidden: int, classes: int, *, state: int = 3) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.z = nn.Linear(embedding, hidden), nn.Linear(embedding, hidden)
        self.step, self.b, self.c = nn.Linear(hidden, hidden), nn.Linear(hidden, state), nn.Linear(hidden, state)
        self.log_a, self.d = nn.Parameter(torch.randn(hidden, state)), nn.Parameter(torch.randn(hidden))

    def states(self, x: Tensor) -> Tensor:
        a = -torch.exp(self.log_a)
        state = x.new_zeros(len(x), *a.shape)
        u, z = self.x(x), self.z(x)
        y = u[:, 0]
        for t in range(x.shape[1]):
            u_t = u[:, t]
            step = F.softplus(self.step(u_t))[..., None]  # (B, H, 1)
            kept = gate(torch.exp(step * a))
            written = gate(step * gate(self.b(u_t)[:, None, :]))
            state = kept * state + written * u_t[..., None]
            y = (state * gate(self.c(u_t)[:, None, :])).sum(-1) + self.d * u_t
            y = y * gate(F.silu(z[:, t]))
        return y


class QRNN(Cell):
    """Quasi-recurrent: convolutions make the gates, a running pool is all that recurs."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.conv = nn.Conv1d(embedding, 3 * hidden, 2)

    def states(self, x: Tensor) -> Tensor:
        z, f, o = self.conv(F.pad(x.transpose(1, 2), (1, 0))).transpose(1, 2).chunk(3, -1)
        z, f, o = z.tanh(), f.sigmoid(), o.sigmoid()
        c = h = self.start(x)
        for t in range(x.shape[1]):
            c = f[:, t] * c + (1 - f[:, t]) * z[:, t]
            h = o[:, t] * c
        return h


class RGLRU(Cell):
    """Griffin's gated linear unit: a decay made of a gate, and what it leaves for the input."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__(embedding, hidden, classes)
        self.x, self.r, self.i = nn.Linear(embedding, hidden), nn.Linear(embedding, hidden), nn.Linear(embedding, hidden)
        self.decay = nn.Parameter(torch.rand(hidden))

    def states(self, x: Tensor) -> Tensor:
        h = self.start(x)
        for x_t in x.unbind(1):
            a = torch.exp(torch.sigmoid(self.r(x_t)) * -F.softplus(self.decay))
            h = a * h + torch.sqrt(1 - a * a) * (torch.sigmoid(self.i(x_t)) * self.x(x_t))
        return h


class Layer(Cell):
    """PyTorch's own layers under the same head."""

    def __init__(self, embedding: int, hidden: int, classes: int, *, layer: Callable[..., nn.RNNBase]) -> None:
        super().__init__(embedding, hidden, classes)
        self.layer = layer(embedding, hidden, batch_first=True)

    def states(self, x: Tensor) -> Tensor:
        return self.layer(x)[0][:, -1]


class LoopedCell(Cell):
    """PyTorch's own cells in a loop."""

    def __init__(self, embedding: int, hidden: int, classes: int, *, cell: Callable[..., nn.RNNCellBase]) -> None:
        super().__init__(embedding, hidden, classes)
        self.cell = cell(embedding, hidden)

    def states(self, x: Tensor) -> Tensor:
        state: Any = None
        for x_t in x.unbind(1):
            state = self.cell(x_t, state)
        return state[0] if isinstance(state, tuple) else state


ZOO: dict[str, Callable[[int, int, int], nn.Module]] = {
    "nn.LSTM": lambda e, h, c: Layer(e, h, c, layer=nn.LSTM),
    "nn.LSTM, bidirectional, 2 layers": lambda e, h, c: Layer(
        e, 2 * h, c, layer=lambda e, h, **more: nn.LSTM(e, h // 2, num_layers=2, bidirectional=True, **more)
    ),
    "nn.LSTMCell": lambda e, h, c: LoopedCell(e, h, c, cell=nn.LSTMCell),
    "nn.GRU": lambda e, h, c: Layer(e, h, c, layer=nn.GRU),
    "nn.GRUCell": lambda e, h, c: LoopedCell(e, h, c, cell=nn.GRUCell),
    "nn.RNN, tanh": lambda e, h, c: Layer(e, h, c, layer=nn.RNN),
    "nn.RNN, ReLU": lambda e, h, c: Layer(e, h, c, layer=lambda *sizes, **more: nn.RNN(*sizes, nonlinearity="relu", **more)),
    "nn.RNNCell": lambda e, h, c: LoopedCell(e, h, c, cell=nn.RNNCell),
    "peephole LSTM": PeepholeLSTM,
    "coupled-gate LSTM": CoupledLSTM,
    "LayerNorm-LSTM": LayerNormLSTM,
    "convolutional LSTM, 1-d": ConvLSTM,
    "convolutional LSTM, 2-d": lambda e, h, c: ConvLSTM(e, h, c, images=True),
    "GRU, reset behind the matrix (PyTorch)": GRU,
    "GRU, reset before the matrix (Keras)": lambda e, h, c: GRU(e, h, c, reset_after=False),
    "minimal gated unit": MGU,
    "minGRU, loop": MinGRU,
    "minGRU, parallel scan (cumprod, cumsum)": lambda e, h, c: MinGRU(e, h, c, parallel=True),
    "minGRU, log space (logcumsumexp)": LogMinGRU,
    "minLSTM": MinLSTM,
    "sLSTM (xLSTM)": SLSTM,
    "mLSTM (xLSTM)": MLSTM,
    "selective scan (Mamba)": SelectiveScan,
    "QRNN, fo-pool": QRNN,
    "RG-LRU (Griffin)": RGLRU,
}
