"""Models whose whole explanation is timed: PyTorch's layers, and cells as people write them."""

import torch
from torch import Tensor, nn

CLASSES = 5


def classifier(features: int, *, bias: bool = True) -> nn.Linear:
    """A linear head whose scores are as large as a trained model's: what the stabiliser shares out of small ones is counted."""
    head = nn.Linear(features, CLASSES, bias=bias)
    with torch.no_grad():
        head.weight.mul_(20)
    return head


class Layers(nn.Module):
    """A classifier like the paper's: the last states of a recurrent layer, in one or both directions, and a linear head."""

    def __init__(
        self, layer: type[nn.RNNBase], size: int, *, layers: int = 1, bidirectional: bool = True, projected: int = 0
    ) -> None:
        super().__init__()
        more = {"proj_size": projected} if projected else {}
        self.encoder: nn.Module = layer(size, size, num_layers=layers, bidirectional=bidirectional, batch_first=True, **more)  # type: ignore[call-arg]
        self.head = classifier((projected or size) * (1 + bidirectional), bias=False)
        self.directions = 1 + bidirectional

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        final: Tensor | tuple[Tensor, Tensor] = self.encoder(x)[1]
        h = final[0] if isinstance(final, tuple) else final
        return self.head(torch.cat(list(h[-self.directions :]), dim=-1))


class CellLoop(nn.Module):
    """An nn.LSTMCell in a loop."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(size, hidden), classifier(hidden)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        h = c = x.new_zeros(len(x), self.cell.hidden_size)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


class MaskedCell(CellLoop):
    """The same over texts of different lengths: a mask, made from the input, keeps the last state of each."""

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        h = c = x.new_zeros(len(x), self.cell.hidden_size)
        lengths = (x[:, :, 0] < 2).long().sum(1).clamp(min=1)
        for t in range(x.shape[1]):
            new_h, new_c = self.cell(x[:, t], (h, c))
            is_there = (t < lengths).unsqueeze(1)
            h, c = torch.where(is_there, new_h, h), torch.where(is_there, new_c, c)
        return self.head(h)


class HandWritten(nn.Module):
    """An LSTM of two linear layers and a chunk."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.inputs, self.states = nn.Linear(size, 4 * hidden), nn.Linear(hidden, 4 * hidden)
        self.head, self.hidden = classifier(hidden), hidden

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The states (B, H) after a step."""
        i, f, g, o = (self.inputs(x) + self.states(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        h = c = x.new_zeros(len(x), self.hidden)
        for t in range(x.shape[1]):
            h, c = self.step(x[:, t], h, c)
        return self.head(h)


class WrittenInPlace(HandWritten):
    """The same, with its states written into a tensor, whose mean is read."""

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        h = c = x.new_zeros(len(x), self.hidden)
        states = x.new_zeros(len(x), x.shape[1], self.hidden)
        for t in range(x.shape[1]):
            h, c = self.step(x[:, t], h, c)
            states[:, t] = h
        return self.head(states.mean(1))


class LayerNormed(HandWritten):
    """The same with three layer normalisations, whose gains start at 0.1, as is usual in recurrent networks."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__(size, hidden)
        self.norms = nn.ModuleList([nn.LayerNorm(4 * hidden), nn.LayerNorm(4 * hidden), nn.LayerNorm(hidden)])
        for norm in self.norms.parameters():
            nn.init.constant_(norm, 0.1)

    def step(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """The states (B, H) after a step."""
        i, f, g, o = (self.norms[0](self.inputs(x)) + self.norms[1](self.states(h))).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(self.norms[2](c)), c


class HandWrittenGRU(nn.Module):
    """A GRU of two linear layers and two chunks."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.inputs, self.states = nn.Linear(size, 3 * hidden), nn.Linear(hidden, 3 * hidden)
        self.head, self.hidden = classifier(hidden), hidden

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        h = x.new_zeros(len(x), self.hidden)
        for t in range(x.shape[1]):
            own_r, own_z, own_n = self.inputs(x[:, t]).chunk(3, -1)
            old_r, old_z, old_n = self.states(h).chunk(3, -1)
            z = torch.sigmoid(own_z + old_z)
            n = torch.tanh(own_n + torch.sigmoid(own_r + old_r) * old_n)
            h = (1 - z) * n + z * h
        return self.head(h)


class EightLinears(nn.Module):
    """An LSTM with a linear layer for each gate and operand."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.inputs = nn.ModuleList([nn.Linear(size, hidden) for _ in range(4)])
        self.states = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(4)])
        self.head, self.hidden = classifier(hidden), hidden

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        h = c = x.new_zeros(len(x), self.hidden)
        for t in range(x.shape[1]):
            sums = [u(x[:, t]) + w(h) for u, w in zip(self.inputs, self.states, strict=True)]
            c = torch.sigmoid(sums[1]) * c + torch.sigmoid(sums[0]) * torch.tanh(sums[2])
            h = torch.sigmoid(sums[3]) * torch.tanh(c)
        return self.head(h)


class EntityAware(nn.Module):
    """An EA-LSTM: the input gate depends on static features, here the first half of the first step."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.static, self.hidden = size // 2, hidden
        self.gate, self.head = nn.Linear(self.static, hidden), classifier(hidden)
        self.inputs = nn.Parameter(torch.randn(size, 3 * hidden) * 0.1)
        self.states = nn.Parameter(torch.randn(hidden, 3 * hidden) * 0.1)
        self.bias = nn.Parameter(torch.zeros(3 * hidden))

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        i, bias = torch.sigmoid(self.gate(x[:, 0, : self.static])), self.bias.expand(len(x), -1)
        h = c = x.new_zeros(len(x), self.hidden)
        for t in range(x.shape[1]):
            f, o, g = (torch.addmm(bias, h, self.states) + torch.mm(x[:, t], self.inputs)).chunk(3, 1)
            c = torch.sigmoid(f) * c + i * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h)


class MinGRU(nn.Module):
    """A minGRU in a loop."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.content, self.head = nn.Linear(size, hidden), nn.Linear(size, hidden), classifier(hidden)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        h = x.new_zeros(len(x), self.gate.out_features)
        for t in range(x.shape[1]):
            z = torch.sigmoid(self.gate(x[:, t]))
            h = (1 - z) * h + z * self.content(x[:, t])
        return self.head(h)


class Attending(nn.Module):
    """An encoder and a decoder of a few steps that attends to the encoder's states."""

    def __init__(self, size: int, hidden: int, *, outputs: int = 10) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.GRU(size, hidden, batch_first=True), nn.GRUCell(hidden, hidden)
        self.score, self.head, self.outputs = nn.Linear(hidden, hidden), classifier(2 * hidden), outputs

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5), the mean over the decoder's steps."""
        states, final = self.encoder(x)
        h, found = final[0], list[Tensor]()
        for _ in range(self.outputs):
            weights = torch.softmax((states @ self.score(h).unsqueeze(-1)).squeeze(-1), -1)
            context = (weights.unsqueeze(-1) * states).sum(1)
            h = self.decoder(context, h)
            found.append(self.head(torch.cat([h, context], -1)))
        return torch.stack(found, 1).mean(1)


class ConvolutionalLSTM(nn.Module):
    """A ConvLSTM over a series that is read as small pictures, 4 wide."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1 + hidden, 4 * hidden, 3, padding=1)
        self.head, self.hidden = classifier(hidden), hidden

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        pictures = x.view(*x.shape[:2], 1, -1, 4)
        h = c = x.new_zeros(len(x), self.hidden, *pictures.shape[-2:])
        for t in range(x.shape[1]):
            i, f, o, g = self.convolution(torch.cat([pictures[:, t], h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h.mean((2, 3)))


class ConvolutionThenLSTM(nn.Module):
    """A convolution over time, pooled, in front of an LSTM."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.convolution, self.pool = nn.Conv1d(size, hidden, 5, padding=2), nn.MaxPool1d(2)
        self.encoder, self.head = nn.LSTM(hidden, hidden, batch_first=True), classifier(hidden)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        found = self.pool(torch.relu(self.convolution(x.transpose(1, 2)))).transpose(1, 2)
        return self.head(self.encoder(found)[0][:, -1])
