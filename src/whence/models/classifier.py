"""The paper's architecture and variants of it: an embedding, one bidirectional recurrent layer, a linear head."""

from dataclasses import asdict, dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

Cell = Literal["lstm", "gru", "rnn"]
CELLS: dict[str, type[nn.LSTM] | type[nn.GRU] | type[nn.RNN]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


@dataclass(frozen=True)
class Architecture:
    """The sizes of a `RecurrentClassifier`; the defaults are the paper's."""

    vocabulary: int
    classes: int = 5
    cell: Cell = "lstm"
    embedding: int = 60
    hidden: int = 60

    def settings(self) -> dict[str, int | str]:
        """As plain data, for config.json."""
        return asdict(self)


class RecurrentClassifier(nn.Module):
    """A linear layer without bias on the concatenated final states of both directions."""

    def __init__(self, architecture: Architecture, *, vectors: Tensor | None = None) -> None:
        """`vectors` (V, E) are the embedding's initial weights; by default they are random."""
        super().__init__()
        self.architecture = architecture
        sizes = architecture
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.embedding, _weight=vectors)
        self.encoder = CELLS[sizes.cell](sizes.embedding, sizes.hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * sizes.hidden, sizes.classes, bias=False)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The scores (B, C) of token ids (B, T); in each row the first `lengths` (B,) ids count, the rest is padding."""
        return self.score(self.embedding(ids), lengths)

    def score(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """The scores (B, C) of embedded tokens (B, T, E)."""
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        final: Tensor | tuple[Tensor, Tensor] = self.encoder(packed)[1]
        h = final[0] if isinstance(final, tuple) else final  # (2, B, H)
        return self.head(torch.cat([h[0], h[1]], dim=-1))
