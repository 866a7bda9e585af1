"""Samples that mix, or come out in another order, are refused by every method: each one's relevance would be another's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence
from torch.testing import assert_close

from tests.perturbing import PERTURBING
from whence import LRP, GradientXInput, InputError, SensitivityAnalysis, TargetError, relevance

METHODS = [LRP(), GradientXInput(), SensitivityAnalysis(), *PERTURBING]


class Between(nn.Module):
    """Something done to the states of a recurrent layer before the scores."""

    def __init__(self, change: Callable[[Tensor], Tensor], *, steps: bool = False) -> None:
        super().__init__()
        self.change, self.steps = change, steps
        self.lstm, self.fc = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Any) -> Tensor:
        out, (h, _) = self.lstm(x)
        return self.fc(self.change(out if self.steps else h[0]))


MIXING: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda h: h.flip(0),
    "roll": lambda h: h.roll(1, 0),
    "two exchanged": lambda h: torch.cat([h[1:2], h[:1], h[2:]]),
    "mean": lambda h: h - h.mean(0),
    "a little of the mean": lambda h: h - 1e-3 * h.mean(0),
    "the first for all": lambda h: h[:1].expand_as(h),
    "twice": lambda h: torch.cat([h, h]),
    "sorted": lambda h: h[torch.arange(len(h)).sub(2).abs().argsort()],
}


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("change", MIXING.values(), ids=MIXING.keys())
@pytest.mark.parametrize("target", [1, "all"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_that_mix_or_change_order_are_refused(method: Any, change: Any, target: Any, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    with pytest.raises(InputError, match=r"samples that do not influence each other, in that order|come out in another order"):
        relevance(Between(change).to(dtype), torch.randn(5, 7, 4, dtype=dtype), target=target, method=method)


@pytest.mark.parametrize("method", METHODS[1:], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 3, 63, 200])
@pytest.mark.parametrize("target", [1, "all", (2, 1), ("all", "all")])
def test_separate_samples_are_explained_as_if_alone(method: Any, batch: int, target: Any) -> None:
    torch.manual_seed(batch)
    model, x = Between(torch.tanh, steps=isinstance(target, tuple)), torch.randn(batch, 7, 4)
    whole = relevance(model, x, target=target, method=method)
    alone = relevance(model, x[-1:], target=target, method=method)
    assert_close(whole.relevance[..., -1:, :, :], alone.relevance)


@pytest.mark.parametrize("method", METHODS[1:], ids=str)
@pytest.mark.parametrize("first", [0, 3], ids=["many steps", "as many steps as samples"])
def test_the_axis_of_the_samples_is_found(method: Any, first: int) -> None:
    """Time first, an output for every step: only following the samples tells the axes apart."""
    torch.manual_seed(0)
    lstm = nn.LSTM(4, 3)

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = lstm

        def forward(self, x: Tensor) -> Tensor:
            return self.lstm(x.transpose(0, 1))[0].transpose(0, 1)  # reads (batch, time, features) all the same

    x = torch.randn(3, first or 5, 4)
    found = relevance(Steps(), x, target=(1, 2), method=method)
    for n in range(3):
        assert_close(found.relevance[n : n + 1], relevance(Steps(), x[n : n + 1], target=(1, 2), method=method).relevance)


@pytest.mark.parametrize("method", METHODS[1:], ids=str)
def test_packed_samples_in_any_order(method: Any) -> None:
    torch.manual_seed(0)
    x = pack_sequence([torch.randn(n, 4) for n in (2, 5, 3)], enforce_sorted=False)
    mixed = Between(lambda h: h.roll(1, 0))
    relevance(Between(torch.tanh), x, target=1, method=method)
    with pytest.raises(InputError, match=r"do not influence each other|in another order"):
        relevance(mixed, x, target=1, method=method)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_score_that_does_not_depend_on_the_inputs(method: Any) -> None:
    """Its derivative is not zero but does not exist; the weights alone can be derived."""
    model = nn.Linear(4, 2)
    with pytest.raises(TargetError, match="does not depend on the inputs"):
        relevance(model, torch.randn(3, 4), target=lambda output: model.weight.sum() + torch.zeros(3), method=method)


def carried(h: Tensor) -> Tensor:
    """Every sample's state depends on the one before it a little, not the other way round."""
    return torch.cat([h[:1], h[1:] + 0.25 * h[:-1]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("batch", [2, 3, 8])
@pytest.mark.parametrize("change", [*list(MIXING.values())[:4], carried], ids=[*list(MIXING)[:4], "carried"])
def test_half_precision_hides_no_mixing(change: Any, batch: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    if batch == 2 and change is MIXING["two exchanged"]:
        batch = 4
    model = nn.Sequential(nn.Flatten(), nn.Linear(20, 6)).to(dtype)
    with pytest.raises(InputError, match=r"do not influence each other|in another order"):
        relevance(
            model,
            torch.randn(batch, 5, 4, dtype=dtype),
            target=lambda output: change(output).sum(-1),
            method=GradientXInput(),
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [1, 2, 8, 63, 200])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_separate_samples_are_accepted_in_every_precision(dtype: torch.dtype, batch: int, scale: float) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(4, 3).to(dtype), torch.randn(batch, 5, 4, dtype=dtype)
    found = relevance(model, x, target=lambda output: output.sum((1, 2)) * scale, method=GradientXInput())
    assert_close(found.relevance, x * scale * model.weight.sum(0), rtol=0.05, atol=0.05 * scale)


@pytest.mark.parametrize("target", [0, "all"])
@pytest.mark.parametrize("batch", [1, 3])
def test_scores_of_another_precision_than_the_inputs(target: Any, batch: int) -> None:
    class Wider(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input.mean(1)).double()

    model, x = Wider(4, 3), torch.randn(batch, 5, 4)
    found = relevance(model, x, target=target, method=GradientXInput())
    assert (found.score.dtype, found.relevance.dtype) == (torch.float64, torch.float32)
