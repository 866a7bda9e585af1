"""What an explanation costs beside the prediction and its gradient: medians of interleaved repeats, as ratios."""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

import whence

REPEATS = 15


class Model(nn.Module):
    """A bidirectional LSTM with a linear head on its last states."""

    def __init__(self, embedding: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(embedding, hidden, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, 5, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The scores (B, 5)."""
        _, (h, _) = self.lstm(x)
        return self.fc(torch.cat([h[0], h[1]], dim=-1))


def seconds(run: Callable[[], object]) -> float:
    """How long one run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(batch: int, steps: int, size: int) -> None:
    """Print one line: the case, then LRP and SA as multiples of the forward pass."""
    torch.manual_seed(0)
    model, x = Model(size, size).eval(), torch.randn(batch, steps, size)
    whence.relevance(model, x, target=0).check(1e-3)

    def forward() -> None:
        with torch.no_grad():
            model(x)

    runs: dict[str, Callable[[], object]] = {
        "forward": forward,
        "gradient": lambda: whence.relevance(model, x, target=0, method=whence.GradientXInput()),
        "lrp": lambda: whence.relevance(model, x, target=0),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, run in runs.items():
            times[name].append(seconds(run))
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(
        f"B {batch:4} T {steps:4} E = H = {size:4}   gradient / forward {medians['gradient'] / medians['forward']:5.2f}   "
        f"lrp / forward {medians['lrp'] / medians['forward']:5.2f}   lrp / gradient {medians['lrp'] / medians['gradient']:5.2f}"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"bi-LSTM, float32, one CPU thread, torch {torch.__version__}, median of {REPEATS} interleaved repeats")
    for case in ((64, 20, 60), (32, 100, 256)):
        measure(*case)
