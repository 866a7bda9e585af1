"""Padded batches: where the samples lie, and one target for each of them."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from whence import LRP, GradientXInput, TargetError, relevance


class BatchOutside(nn.Module):
    """Batch first outside, time first inside."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lstm, self.head = nn.LSTM(4, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x.transpose(0, 1))[0][-1])


@pytest.mark.parametrize("method", [LRP(), GradientXInput()], ids=str)
def test_samples_are_found_along_the_axis_that_has_as_many(method: LRP) -> None:
    model, x, lengths = BatchOutside().double(), torch.randn(2, 5, 4, dtype=torch.float64), [3, 5]
    result = relevance(model, x, target=[1, 0], lengths=lengths, method=method)
    for n, size in enumerate(lengths):
        alone = relevance(model, x[n : n + 1, :size], target=1 - n, method=method)
        assert_close(result.relevance[n, :size], alone.relevance[0])
        assert not result.relevance[n, size:].any()
        assert_close(result.score[n], alone.score[0])


def test_a_target_for_each_sample_or_for_all() -> None:
    model, x = BatchOutside().double(), torch.randn(2, 5, 4, dtype=torch.float64)
    with pytest.raises(TargetError, match="target names 3 classes for 2 samples; give one for all or one for each"):
        relevance(model, x, target=[1, 0, 1], lengths=[3, 5])
    both, each = (relevance(model, x, target=target, lengths=[3, 5]) for target in (1, [1, 1]))
    assert_close(both.relevance, each.relevance)


class Constant(nn.Module):
    """A layer that gives, besides what it makes of its input, numbers that do not depend on it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.inner(x), torch.ones(2, 3, dtype=x.dtype), torch.arange(3)


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.middle, self.head = Constant(), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        made, ones, _ = self.middle(x)
        return self.head(made.tanh() * ones.mean())


@pytest.mark.parametrize("target", [1, "all"])
def test_what_does_not_depend_on_the_inputs_has_no_relevance(target: Any) -> None:
    lead = (2,) if target == "all" else ()
    found, none, whole = relevance(Around().double(), torch.randn(2, 4).double(), target=target, at="middle").relevance
    assert found.shape == (*lead, 2, 4) and found.any()
    assert none.shape == (*lead, 2, 3) and not none.any()
    assert whole.tolist() == [0, 1, 2]


class Several(BatchOutside):
    """Takes a tuple and a list of further things."""

    def forward(self, x: Tensor, pair: tuple[float, Tensor], more: list[float]) -> Tensor:  # type: ignore[override]
        assert isinstance(pair, tuple) and isinstance(more, list)
        return super().forward(x) * pair[0] + more[0]


def test_a_tuple_stays_a_tuple_and_a_list_a_list() -> None:
    model, x = Several().double(), torch.randn(2, 5, 4, dtype=torch.float64)
    whole = relevance(model, x, target=1, lengths=[5, 5], args=((2.0, torch.tensor(1)), [0.5]))
    assert_close(whole.relevance, relevance(model, x, target=1, args=((2.0, torch.tensor(1)), [0.5])).relevance)


def test_as_many_classes_as_steps_are_not_all_of_them() -> None:
    class OneForEachStep(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.tanh().sum(-1)

    x = torch.randn(2, 5, 4, dtype=torch.float64)
    with pytest.raises(TargetError, match="the number of classes depends on the length"):
        relevance(OneForEachStep(), x, target="all", lengths=[3, 5])


class Bags(nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bag, self.head = nn.EmbeddingBag(6, 4, mode=mode, padding_idx=0), nn.Linear(4, 2, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.bag(ids))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_of_nothing_but_padding_is_zero(mode: str) -> None:
    model, ids = Bags(mode).double(), torch.tensor([[0, 0, 0], [3, 0, 5], [2, 2, 1]])
    result = relevance(model, ids, target=1)
    assert_close(result.score, model(ids)[:, 1].detach())
    assert not result.relevance[0].any()
    assert result.relevance[1:].any(-1).tolist() == [[True, False, True], [True, True, True]]


def test_a_batch_of_one_sample_keeps_its_state_whole() -> None:
    class Stateful(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.lstm, self.head = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)

        def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> Tensor:
            return self.head(self.lstm(x, state)[0][:, -1])

    model, x, state = Stateful().double(), torch.randn(1, 5, 4).double(), tuple(torch.randn(2, 1, 1, 3).double())
    padded = relevance(model, x, target=1, lengths=[3], args=(state,))
    assert_close(padded.relevance[:, :3], relevance(model, x[:, :3], target=1, args=(state,)).relevance)


class Summed(nn.Module):
    """What a bag without padding computes, by a table of vectors."""

    def __init__(self, bags: nn.EmbeddingBag, head: nn.Linear) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding.from_pretrained(bags.weight.detach()), head

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.table(ids).sum(1))


def test_a_bag_without_padding_is_the_sum_of_its_vectors() -> None:
    bags, ids = Bags("sum").double(), torch.tensor([[0, 4, 0], [3, 0, 5]])
    bags.bag.padding_idx = None
    assert_close(relevance(bags, ids, target=1).relevance, relevance(Summed(bags.bag, bags.head), ids, target=1).relevance)
