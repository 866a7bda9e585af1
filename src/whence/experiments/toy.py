"""Ground truth: LSTMs with one cell that add or subtract two marked numbers, and how well each method finds these numbers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from whence._relevance import relevance
from whence.data.toy import TEST, TRAIN, VALIDATE, Sums, Task, sums
from whence.methods.method import Method
from whence.recurrent.lstm.weights import lstm_gates

GOAL = 1e-4  # a model with a smaller validation error has learned its task
Parameters = dict[str, Tensor]


class OneCell(nn.Module):
    """An LSTM with a single cell, and a weight on its last state; written by hand, so that many can be trained at once."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, 1)
        self.head = nn.Linear(1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """One number for each sequence (B, T, 3)."""
        h = c = x.new_zeros(len(x), 1)
        for x_t in x.unbind(1):
            sums = x_t @ self.cell.weight_ih.T + self.cell.bias_ih + h @ self.cell.weight_hh.T + self.cell.bias_hh
            i, f, g, o = sums.chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return self.head(h)[:, 0]


_FORM = OneCell().to("meta")  # called with the parameters of each model


class Layer(nn.Module):
    """The same model with nn.LSTM, which is what is explained."""

    def __init__(self, trained: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 1, batch_first=True), nn.Linear(1, 1, bias=False)
        self.double()
        names = {name.replace("cell.", "lstm.") + ("_l0" if "cell." in name else ""): each for name, each in trained.items()}
        self.load_state_dict(names)

    def forward(self, x: Tensor) -> Tensor:
        """One number for each sequence (B, T, 3)."""
        return self.head(self.lstm(x)[0][:, -1])


def trained(task: Task, count: int, *, seed: int = 0, steps: int = 3500) -> list[Layer]:
    """`count` models whose validation error is below 1e-4. Many are trained at once; those that miss it are left out."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Layer] = []
    while len(found) < count:
        learned = _learned(task, _start(2 * count, generator), generator, steps)
        validation = [_drawn(task, 500, length, generator) for length in range(VALIDATE[0], VALIDATE[1] + 1)]
        errors = _errors(learned, validation)
        found += [Layer({name: each[m] for name, each in learned.items()}) for m in range(2 * count) if errors[m] < GOAL]
    return found[:count]


def _start(count: int, generator: torch.Generator) -> Parameters:
    """Initial parameters: small weights into the cell keep activations nearly linear, and the forget gate is open."""
    parameters = {
        name: 0.1 * (2 * torch.rand(count, *each.shape, dtype=torch.float64, generator=generator) - 1)
        for name, each in OneCell().state_dict().items()
    }
    lstm_gates(parameters["cell.bias_ih"]).f.add_(4)
    parameters["head.weight"] = 16 * parameters["head.weight"].sign()
    return parameters


def _learned(task: Task, start: Parameters, generator: torch.Generator, steps: int) -> Parameters:
    """Train with Adam on new sequences at every step."""
    parameters = {name: each.requires_grad_() for name, each in start.items()}
    optimiser = torch.optim.Adam(parameters.values(), lr=0.03)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda k: min(1.0, (k + 1) / 100) * (1 - k / steps))
    for _ in range(steps):
        length = int(torch.randint(TRAIN[0], TRAIN[1] + 1, (1,), generator=generator))
        errors = _errors(parameters, [_drawn(task, 128, length, generator)])
        optimiser.zero_grad()
        errors.sum().backward()
        optimiser.step()
        schedule.step()
    return {name: each.detach() for name, each in parameters.items()}


def _drawn(task: Task, count: int, length: int, generator: torch.Generator) -> Sums:
    data = sums(task, count, length, generator)
    return data._replace(x=data.x.double(), y=data.y.double())


def _residuals(parameters: Parameters, data: Sequence[Sums]) -> Tensor:
    """The errors of one model on all sequences."""
    return torch.cat([functional_call(_FORM, parameters, (each.x,)) - each.y for each in data])


def _errors(parameters: Parameters, data: Sequence[Sums]) -> Tensor:
    def error(own: Parameters) -> Tensor:
        return _residuals(own, data).square().mean()

    return vmap(error)(parameters)


class Faithfulness(NamedTuple):
    """Relevance against the truth: its correlations with n_a and n_b, and the mean and the spread of (R_a + R_b) / y."""

    first: float
    second: float
    ratio: float
    spread: float


def faithfulness(models: Sequence[nn.Module], task: Task, method: Method, *, seed: int = 99) -> Faithfulness:
    """Over all models, on sequences longer than those of the training. A perfect method has 1, ±1 and 1, with spread 0."""
    generator = torch.Generator().manual_seed(seed)
    rows: list[Tensor] = []
    for model in models:
        for length in range(TEST[0], TEST[1] + 1):
            data = _drawn(task, 250, length, generator)
            by_step = torch.as_tensor(relevance(model, data.x, method=method).relevance).sum(-1)
            r_a, r_b = (by_step.gather(1, place[:, None])[:, 0] for place in (data.a, data.b))
            rows.append(torch.stack([*data.numbers, r_a, r_b, data.y]))
    n_a, n_b, r_a, r_b, y = torch.cat(rows, dim=1)
    ratios = ((r_a + r_b) / y)[y.abs() > 0.05]  # a ratio to almost 0 means nothing
    first, second = (float(torch.corrcoef(torch.stack(pair))[0, 1]) for pair in ((n_a, r_a), (n_b, r_b)))
    return Faithfulness(first, second, float(ratios.mean()), float(ratios.std()))
