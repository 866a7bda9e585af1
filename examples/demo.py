"""Explain a few seeded sequences of a small bidirectional LSTM on the terminal, ledger included."""

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor, nn

import whence


class Classifier(nn.Module):
    """An ordinary model: nothing in it knows of explanations."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 3) of sequences (B, T, 8)."""
        _, (h, _) = self.lstm(x)
        return self.fc(torch.cat([h[0], h[1]], dim=-1))


def coloured(relevance: Tensor) -> Text:
    """A cell per time step: red speaks for the score, blue against it, full colour at the largest."""
    line = Text()
    for value in relevance.tolist():
        strength = abs(value) / float(relevance.abs().max())
        faded = round(255 * (1 - strength))
        colour = f"rgb(255,{faded},{faded})" if value > 0 else f"rgb({faded},{faded},255)"
        line.append(f" {value:+.3f} ", style=f"{'white' if strength > 0.6 else 'black'} on {colour}")
    return line


def main() -> None:
    """Explain three sequences of different length in one batch, and show where every bit of the score went."""
    torch.manual_seed(7)
    model = Classifier().double()
    lengths = [9, 4, 1]
    x = torch.randn(3, 9, 8, dtype=torch.float64)
    result = whence.relevance(model, x, target="predicted", lengths=lengths, method=whence.LRP(epsilon=1e-3)).check(1e-9)
    console = Console()
    console.print("Which time step spoke [bold red]for[/] and [bold blue]against[/] the predicted class? (LRP, ε = 0.001)\n")
    relevance = result.relevance
    assert isinstance(relevance, Tensor)
    for n, length in enumerate(lengths):
        console.print(f"sequence {n}: class {int(result.target[n])}, score {float(result.score[n]):+.4f}")
        console.print(coloured(relevance[n, :length].sum(-1)))
        console.print()

    books = Table(title="The books: where each score went", title_justify="left")
    books.add_column("")
    for n in range(3):
        books.add_column(f"sequence {n}", justify="right")
    rows = {"relevance of the steps": relevance.sum((1, 2)), **{f"absorbed: {k}": v for k, v in result.absorbed.items()}}
    for name, amounts in rows.items():
        books.add_row(name, *(f"{amount:+.6f}" for amount in amounts.tolist()))
    books.add_section()
    books.add_row("together", *(f"{amount:+.6f}" for amount in sum(rows.values(), start=torch.zeros(3)).tolist()))
    books.add_row("score", *(f"{amount:+.6f}" for amount in result.score.tolist()))
    console.print(books)


if __name__ == "__main__":
    main()
