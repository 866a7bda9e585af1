"""Health: packed sequences of visits of different lengths, and several diagnoses at once.

The patients are made up: every visit has five measurements, and each of three conditions follows from a pattern of its own. One
call explains the model for all conditions; padded visits get no relevance.
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import whence
from whence.models.files import write_whole
from whence.render import figure
from whence.render.colour import DIVERGING

MEASURES = ["blood pressure", "glucose", "weight", "heart rate", "oxygen"]
CONDITIONS = ["hypertension", "diabetes", "heart failure"]


class Visits(nn.Module):
    """From visits (B, T, 5), of which the first `lengths` (B,) are not padding, to a score for each condition (B, 3)."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.gru = nn.GRU(len(MEASURES), hidden, batch_first=True)
        self.head = nn.Linear(hidden, len(CONDITIONS))

    def forward(self, visits: Tensor, lengths: Tensor) -> Tensor:
        """The scores (logits)."""
        packed = pack_padded_sequence(visits, lengths, batch_first=True, enforce_sorted=False)
        _, last = self.gru(packed)
        return self.head(last[-1])


def patients(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Visits, their numbers, and the conditions."""
    lengths = torch.randint(1, 13, (count,), generator=generator)
    visits = torch.randn(count, 12, len(MEASURES), generator=generator)
    visits *= (torch.arange(12) < lengths[:, None]).unsqueeze(-1)
    most = visits.max(1).values
    labels = torch.stack([most[:, 0] > 1.2, most[:, 1] > 1.2, (visits[:, :, 2] * (visits[:, :, 4] < 0)).amax(1) > 0.8], 1)
    return visits, lengths, labels.float()


def main() -> None:
    """Train, explain, and draw examples/pictures/health_visits.png."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for small matrices a second thread gains nothing
    generator = torch.Generator().manual_seed(0)
    model = Visits()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(150):
        visits, lengths, labels = patients(128, generator)
        scores = model(visits, lengths)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 50 == 49:
            right = ((scores > 0) == (labels > 0)).float().mean()
            print(f"step {step + 1}: loss {loss.item():.3f}, right {right:.2f}")

    visits, lengths, labels = patients(6, generator)
    result = whence.relevance(model, visits, target="all", args=(lengths,)).check()  # (3, 6, 12, 5)
    n = int(labels.sum(1).argmax())
    drawn = Figure(figsize=(11, 3.6), layout="constrained")
    largest = float(result.relevance[:, n].abs().max())
    for k, (axes, name) in enumerate(zip(drawn.subplots(1, 3, sharey=True), CONDITIONS, strict=True)):
        shown = result.relevance[k, n, : int(lengths[n])].T
        image = axes.imshow(shown, cmap=DIVERGING, vmin=-largest, vmax=largest, aspect="auto")
        axes.set_title(f"{name}: score {float(result.score[k, n]):+.2f} ({'yes' if labels[n, k] else 'no'})", fontsize=10)
        axes.set_xlabel("visit")
        axes.set_xticks(range(int(lengths[n])), [str(t + 1) for t in range(int(lengths[n]))])
        axes.set_yticks(range(len(MEASURES)), MEASURES)
        if k == 2:
            drawn.colorbar(image, ax=axes, label="relevance: for / against")
        top = divmod(int(shown.abs().argmax()), shown.shape[1])
        print(f"{name}: score {float(result.score[k, n]):+.2f}, most relevant: {MEASURES[top[0]]} at visit {top[1] + 1}")
    folder = Path(__file__).parent / "pictures"
    folder.mkdir(exist_ok=True)
    write_whole(folder / "health_visits.png", figure.files("x", drawn)["x.png"])


if __name__ == "__main__":
    main()
