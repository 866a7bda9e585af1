"""Models as users write them; none knows anything of relevance."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


class BiLSTM(nn.Module):
    """The paper's model: the last states of both directions, and a linear layer without bias."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(embedding, hidden, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, classes, bias=False)

    def forward(self, x: Tensor | PackedSequence) -> Tensor:
        _, (h, _) = self.lstm(x)
        return self.fc(torch.cat([h[0], h[1]], dim=-1))


class TwoEncoders(nn.Module):
    """The same with one nn.LSTM per direction and each encoder's words given on their own."""

    def __init__(self, embedding: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.left = nn.LSTM(embedding, hidden, batch_first=True)
        self.right = nn.LSTM(embedding, hidden, batch_first=True)
        self.fc = nn.Linear(2 * hidden, classes, bias=False)

    def forward(self, x: Tensor, same_x: Tensor) -> Tensor:
        _, (left, _) = self.left(x)
        _, (right, _) = self.right(same_x.flip(1))
        return self.fc(torch.cat([left[-1], right[-1]], dim=-1))


class Tagger(nn.Module):
    """Any nn.LSTM under one of the usual heads."""

    def __init__(self, lstm: nn.LSTM, head: str, classes: int, *, deep: bool = False) -> None:
        super().__init__()
        self.lstm = lstm
        self.head = head
        width = (lstm.proj_size or lstm.hidden_size) * (2 if lstm.bidirectional else 1)
        if deep:
            self.fc: nn.Sequential | nn.Linear = nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 6), nn.GELU(), nn.Dropout(0.5), nn.Linear(6, 4), nn.Tanh(),
                nn.Linear(4, 3), nn.ReLU(inplace=True), nn.Linear(3, classes),
            )  # fmt: skip
        else:
            self.fc = nn.Linear(width, classes)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Tensor:
        states, (h, _) = self.lstm(x, state)
        time = 1 if self.lstm.batch_first and x.dim() == 3 else 0
        if self.head == "last":
            pooled = states.select(time, -1)
        elif self.head == "final":
            pooled = h[-1] if not self.lstm.bidirectional else torch.cat([h[-2], h[-1]], -1)
        elif self.head == "mean":
            pooled = states.mean(time)
        elif self.head == "max":
            pooled = states.max(time).values
        else:
            pooled = states
        return self.fc(pooled)


class Packing(nn.Module):
    """Packs inside, and pools the unpacked states with a mask."""

    def __init__(self, embedding: int, hidden: int, classes: int, *, head: str = "final") -> None:
        super().__init__()
        self.lstm = nn.LSTM(embedding, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, classes)
        self.head = head

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, (h, _) = self.lstm(packed)
        if self.head == "final":
            return self.fc(torch.cat([h[-2], h[-1]], dim=-1))
        padded, lengths = pad_packed_sequence(states, batch_first=True)
        mask = (torch.arange(padded.shape[1])[None] < lengths[:, None]).unsqueeze(-1)
        if self.head == "mean":
            return self.fc((padded * mask).sum(1) / lengths[:, None])
        return self.fc(padded.masked_fill(~mask, float("-inf")).max(1).values)


class StudentLSTM(nn.Module):
    """An LSTM cell as students write it: one Linear for four gates, or eight of them, or plain matrices."""

    def __init__(self, source: nn.LSTM, fc: nn.Linear, style: str) -> None:
        super().__init__()
        self.style, self.fc = style, fc
        e, h = source.input_size, source.hidden_size
        w_ih, w_hh, b_ih, b_hh = (p.detach().clone() for p in source.parameters())
        if style == "one":
            self.gates = nn.Linear(e + h, 4 * h)
            self.gates.weight.data, self.gates.bias.data = torch.cat([w_ih, w_hh], 1), b_ih + b_hh
        elif style == "two":
            self.x2h, self.h2h = nn.Linear(e, 4 * h), nn.Linear(h, 4 * h)
            self.x2h.weight.data, self.x2h.bias.data, self.h2h.weight.data, self.h2h.bias.data = w_ih, b_ih, w_hh, b_hh
        elif style == "eight":
            for k, name in enumerate("ifgo"):
                rows = slice(k * h, (k + 1) * h)
                for side, (size, w, b) in {"x": (e, w_ih, b_ih), "h": (h, w_hh, b_hh)}.items():
                    layer = nn.Linear(size, h)
                    layer.weight.data, layer.bias.data = w[rows].clone(), b[rows].clone()
                    self.add_module(f"{name}_{side}", layer)
        else:
            self.U, self.W = nn.Parameter(w_ih.T.contiguous()), nn.Parameter(w_hh)
            self.b = nn.Parameter(b_ih + b_hh)
        self.hidden = h

    def preactivations(self, x: Tensor, h: Tensor) -> list[Tensor]:
        if self.style == "one":
            return list(self.gates(torch.cat([x, h], dim=1)).chunk(4, dim=1))
        if self.style == "two":
            return list((self.x2h(x) + self.h2h(h)).split(self.hidden, dim=-1))
        if self.style == "eight":
            return [getattr(self, f"{g}_x")(x) + getattr(self, f"{g}_h")(h) for g in "ifgo"]
        if self.style == "matmul":
            return list((x @ self.U + h @ self.W.T + self.b).chunk(4, -1))
        if self.style == "einsum":
            return list((torch.einsum("be,eg->bg", x, self.U) + self.b + h.matmul(self.W.t())).chunk(4, -1))
        if self.style == "left":
            return list((torch.einsum("eg,be->bg", self.U, x) + (self.W @ h.T).T + self.b).chunk(4, -1))
        if self.style == "detached":
            return list((x @ self.U.detach() + torch.einsum("gh,bh->bg", self.W.data, h) + self.b).chunk(4, -1))
        assert self.style == "addmm"
        return list(torch.addmm(torch.addmm(self.b, x, self.U), h, self.W.T).chunk(4, -1))

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(len(x), self.hidden, dtype=x.dtype)
        c = torch.zeros(len(x), self.hidden, dtype=x.dtype)
        for t in range(x.shape[1]):
            i, f, g, o = self.preactivations(x[:, t], h)
            c = torch.sigmoid(f) * c + i.sigmoid() * torch.tanh(g)
            h = torch.sigmoid(o) * c.tanh()
        return self.fc(h)
