"""Whole networks around recurrent layers, as people write them: each reads (B, T, E) and gives scores (B, C)."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations


class Pooled(nn.Module):
    """A bidirectional GRU whose states are pooled by attention, in the spellings it comes in."""

    def __init__(self, embedding: int, hidden: int, classes: int, *, attention: str) -> None:
        super().__init__()
        width = 2 * hidden
        self.attention = attention
        self.gru = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        self.score, self.out = nn.Linear(width, width), nn.Linear(width, classes)
        self.query = nn.Parameter(torch.randn(width))
        self.heads = nn.MultiheadAttention(width, 2, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(width, 2, 8, batch_first=True, dropout=0.1)

    def forward(self, x: Tensor) -> Tensor:
        states = self.gru(x)[0]
        if self.attention == "additive":
            weights = (torch.tanh(self.score(states)) @ self.query).softmax(1)
            return self.out((weights.unsqueeze(-1) * states).sum(1))
        if self.attention == "dot":
            weights = F.softmax(states @ states[:, -1:].transpose(1, 2), dim=1)
            return self.out(torch.bmm(weights.transpose(1, 2), states).squeeze(1))
        if self.attention == "einsum":
            weights = torch.einsum("btd,d->bt", states, self.query).softmax(-1)
            return self.out(torch.einsum("bt,btd->bd", weights, states))
        if self.attention == "multi-head":
            return self.out(self.heads(states[:, -1:], states, states)[0].squeeze(1))
        if self.attention == "transformer":
            return self.out(self.encoder(states).mean(1))
        pooled = F.scaled_dot_product_attention(states, states, self.score(states), is_causal=True)
        return self.out(pooled[:, -1])


class Seq2Seq(nn.Module):
    """An encoder, and a decoder of three steps that attends to it; (B, 3, C)."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.encoder = nn.LSTM(embedding, hidden, batch_first=True)
        self.decoder = nn.LSTMCell(hidden, hidden)
        self.combine, self.out = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        states, (h, c) = self.encoder(x)
        h, c = h[0], c[0]
        outputs = []
        for _ in range(3):
            weights = torch.softmax(torch.einsum("bth,bh->bt", states, h), dim=-1)
            context = torch.bmm(weights[:, None], states)[:, 0]
            h, c = self.decoder(context, (h, c))
            outputs.append(self.out(torch.tanh(self.combine(torch.cat([h, context], -1)))))
        return torch.stack(outputs, 1)


class LastStep(nn.Module):
    """The last step's scores of a model that gives some for every step."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)[:, -1]


class ConvFront(nn.Module):
    """Convolution, batch norm, max-pool, then an LSTM."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(embedding, hidden, 3, padding=1), nn.BatchNorm1d(hidden)
        cast(Tensor, self.norm.running_mean).normal_()
        cast(Tensor, self.norm.running_var).uniform_(0.5, 2)
        self.lstm, self.out = nn.LSTM(hidden, hidden, batch_first=True), nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        seen = F.max_pool1d(torch.relu(self.norm(self.conv(x.transpose(1, 2)))), 2, ceil_mode=True)
        return self.out(self.lstm(seen.transpose(1, 2))[0][:, -1])


class Highway(nn.Module):
    """Highway and residual links between recurrent layers, in a ModuleList."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(embedding, hidden)
        self.layers = nn.ModuleList([nn.GRU(hidden, hidden, batch_first=True), nn.RNN(hidden, hidden, batch_first=True)])
        self.carry, self.out = nn.Linear(hidden, hidden), nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, classes))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)[0]
        t = torch.sigmoid(self.carry(x))
        return self.out((t * F.gelu(x) + (1 - t) * x).mean(1))


class Reparametrised(nn.Module):
    """Weight norm on the recurrent layer, a spectral norm and an orthogonal matrix around it."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = parametrizations.orthogonal(nn.Linear(embedding, embedding))
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True)
        parametrizations.weight_norm(self.lstm, "weight_hh_l0")
        self.out = parametrizations.spectral_norm(nn.Linear(hidden, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(self.first(x))[0][:, -1])


NETWORKS: dict[str, Callable[[int, int, int], nn.Module]] = {
    **{
        f"bi-GRU + {kind} attention": lambda e, h, c, kind=kind: Pooled(e, h, c, attention=kind)
        for kind in ("additive", "dot", "einsum", "multi-head", "scaled dot-product")
    },
    "bi-GRU + transformer layer": lambda e, h, c: Pooled(e, h, c, attention="transformer"),
    "encoder–decoder with attention": lambda e, h, c: LastStep(Seq2Seq(e, h, c)),
    "conv1d, batch norm, max-pool, LSTM": ConvFront,
    "highway and residual links": Highway,
    "weight, spectral and orthogonal norms": Reparametrised,
}
