"""Random layers, models and batches, zeros and odd sizes included."""

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.models import Tagger
from whence import LRP

SEEDS = st.integers(0, 2**31 - 1)
LRPS = st.builds(
    LRP,
    epsilon=st.sampled_from([1e-6, 1e-3, 1.0]),
    delta=st.sampled_from([0.0, 0.3, 1.0]),
    stabiliser=st.sampled_from(["shared", "absorbed"]),
)


@dataclass
class Linear:
    """A linear layer and relevance for its outputs; z may be exactly zero."""

    x: Tensor
    weight: Tensor
    bias: Tensor
    r_out: Tensor


@st.composite
def linear_layers(draw: st.DrawFn) -> Linear:
    generator = torch.Generator().manual_seed(draw(SEEDS))
    batch, fan_in, fan_out = (draw(st.integers(1, 5)) for _ in range(3))

    def numbers(*shape: int) -> Tensor:
        drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return drawn * (torch.rand(*shape, generator=generator) > 0.3)

    return Linear(numbers(batch, fan_in), numbers(fan_out, fan_in), numbers(fan_out), numbers(batch, fan_out))


@dataclass
class Case:
    """A model, its inputs, further arguments and a target."""

    model: Tagger
    x: Tensor
    args: tuple[tuple[Tensor, Tensor], ...]
    target: int | tuple[int, int]
    samples_first: bool

    def samples(self, relevance: Tensor) -> Tensor:
        """Sums per sample of something shaped like x."""
        if self.x.dim() == 2:
            return relevance.sum()
        return relevance.sum((1, 2)) if self.samples_first else relevance.sum((0, 2))


@st.composite
def lstm_cases(draw: st.DrawFn) -> Case:
    """nn.LSTM with every option, under every head."""
    torch.manual_seed(draw(SEEDS))
    hidden = draw(st.integers(1, 17))
    options = {
        "num_layers": draw(st.integers(1, 3)),
        "bidirectional": draw(st.booleans()),
        "batch_first": draw(st.booleans()),
        "bias": draw(st.booleans()),
        "proj_size": draw(st.integers(0, hidden - 1)),
    }
    embedding, classes = draw(st.integers(1, 17)), draw(st.integers(1, 5))
    batch, steps = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    head = draw(st.sampled_from(["last", "final", "mean", "max", "all"]))
    model = Tagger(nn.LSTM(embedding, hidden, **options), head, classes, deep=draw(st.booleans())).double()
    unbatched = draw(st.integers(0, 4)) == 0
    shape = (batch, steps, embedding) if options["batch_first"] else (steps, batch, embedding)
    shape = (steps, embedding) if unbatched else shape
    x = torch.randn(shape, dtype=torch.float64) * draw(st.sampled_from([1.0, 10.0]))
    if draw(st.booleans()):
        x[torch.rand(shape) < 0.3] = 0
    args: tuple[tuple[Tensor, Tensor], ...] = ()
    if draw(st.booleans()):
        rows = options["num_layers"] * (2 if options["bidirectional"] else 1)
        sizes = [options["proj_size"] or hidden, hidden]
        h0, c0 = (torch.randn(*((rows, s) if unbatched else (rows, batch, s)), dtype=torch.float64) for s in sizes)
        args = ((h0, c0),)
    target = draw(st.integers(0, classes - 1))
    chosen = (draw(st.integers(0, steps - 1)), target) if head == "all" else target
    return Case(model, x, args, chosen, samples_first=options["batch_first"])
